//! The emulator's memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use super::Mode;
use super::shadow::Shadow;
use crate::launch::RawBuffer;

/// Alignment of every allocation, that of `cudaMalloc`.
const ALIGNMENT: usize = 256;

/// The bounds an access must stay in, and in checked mode the shadow of what lies there.
#[derive(Debug)]
pub(crate) struct Region {
    base: usize,
    bytes: usize,
    shadow: *mut Shadow,
    /// What to call it in a fault.
    name: String,
}

impl Region {
    /// `bytes` bytes at `base`. `shadow` is null in fast mode; otherwise it covers these bytes, outlives
    /// the region, and is touched by the thread that runs the launch only.
    pub(crate) fn new(base: usize, bytes: usize, shadow: *mut Shadow, name: String) -> Self {
        Self {
            base,
            bytes,
            shadow,
            name,
        }
    }

    /// Address of the first byte.
    #[inline(always)]
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Length.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether accesses are checked against a shadow.
    #[inline(always)]
    pub(crate) fn is_checked(&self) -> bool {
        !self.shadow.is_null()
    }

    /// The shadow, null in fast mode.
    pub(crate) fn shadow(&self) -> *mut Shadow {
        self.shadow
    }

    /// Names `size` bytes at `address` for a reader.
    pub(crate) fn describe(&self, address: usize, size: usize) -> String {
        let offset = address.wrapping_sub(self.base) as isize;
        format!(
            "{size} bytes at byte {offset} of the {} of {}",
            self.bytes, self.name
        )
    }
}

/// No memory was left for an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {bytes} bytes")]
pub struct AllocError {
    /// Bytes asked for.
    pub bytes: usize,
}

/// An owned allocation, aligned to 256 bytes.
///
/// All access to it, by kernels and by the copies here, is in relaxed atomics of up to 8 bytes: kernels
/// that race are wrong, but not undefined behaviour of the host.
#[derive(Debug)]
pub struct Memory {
    allocation: Arc<Allocation>,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    id: u64,
    base: NonNull<u8>,
    bytes: usize,
    shadow: Option<Mutex<Shadow>>,
}

// SAFETY: the bytes are only touched through atomics.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

/// Live allocations, so that a launch can find one by name and cannot be given a dangling one.
static LIVE: LazyLock<Mutex<HashMap<u64, Weak<Allocation>>>> = LazyLock::new(Mutex::default);

impl Memory {
    /// `bytes` bytes, all zero and counted as written.
    ///
    /// # Errors
    ///
    /// When the machine has not that much memory.
    pub fn zeroed(bytes: usize, mode: Mode) -> Result<Self, AllocError> {
        Self::new(bytes, mode, true)
    }

    /// `bytes` bytes that nobody has written: reading one before writing it is a fault in checked mode.
    ///
    /// # Errors
    ///
    /// When the machine has not that much memory.
    pub fn uninit(bytes: usize, mode: Mode) -> Result<Self, AllocError> {
        Self::new(bytes, mode, false)
    }

    fn new(bytes: usize, mode: Mode, written: bool) -> Result<Self, AllocError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let layout = layout(bytes).ok_or(AllocError { bytes })?;
        // SAFETY: `layout` rounds the size up to a positive multiple of the alignment.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(AllocError { bytes })?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let shadow = match mode {
            Mode::Fast => None,
            Mode::Checked { .. } => Some(Mutex::new(Shadow::new(
                base.as_ptr() as usize,
                bytes,
                false,
                written,
            ))),
        };
        let allocation = Arc::new(Allocation {
            id,
            base,
            bytes,
            shadow,
        });
        LIVE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, Arc::downgrade(&allocation));
        Ok(Self { allocation })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.allocation.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// This memory as an argument of a launch; `device` is the backend's number for itself.
    pub fn raw(&self, device: u64) -> RawBuffer {
        RawBuffer {
            address: self.allocation.base.as_ptr() as u64,
            bytes: self.allocation.bytes as u64,
            device,
            allocation: self.allocation.id,
            region: std::ptr::null(),
        }
    }

    /// Copies `bytes` into this memory from byte `offset` on, as far as both reach; gives how many were
    /// copied.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> usize {
        let (cells, words) = self.cells(offset, bytes.len());
        let (head, rest) = bytes.split_at(cells.0.len());
        let (body, tail) = rest.split_at(8 * words.len());
        for (word, bytes) in words.iter().zip(body.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        for (cell, byte) in cells.0.iter().zip(head).chain(cells.1.iter().zip(tail)) {
            cell.store(*byte, Ordering::Relaxed);
        }
        let copied = cells.0.len() + 8 * words.len() + cells.1.len();
        if copied > 0 {
            let address = self.allocation.base.as_ptr() as usize + offset;
            self.allocation.mark_written(address, copied);
        }
        copied
    }

    /// Copies from byte `offset` of this memory to `bytes`, as far as both reach; gives how many were
    /// copied.
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) -> usize {
        let (cells, words) = self.cells(offset, bytes.len());
        let (head, rest) = bytes.split_at_mut(cells.0.len());
        let (body, tail) = rest.split_at_mut(8 * words.len());
        for (word, bytes) in words.iter().zip(body.as_chunks_mut().0) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        for (cell, byte) in cells.0.iter().zip(head).chain(cells.1.iter().zip(tail)) {
            *byte = cell.load(Ordering::Relaxed);
        }
        cells.0.len() + 8 * words.len() + cells.1.len()
    }

    /// At most `len` bytes from `offset` on: those before and after the aligned words, and the words.
    fn cells(&self, offset: usize, len: usize) -> ((&[AtomicU8], &[AtomicU8]), &[AtomicU64]) {
        let offset = offset.min(self.len());
        let len = len.min(self.len() - offset);
        // SAFETY: inside the allocation, whose bytes are initialised and only touched atomically; eight
        // aligned bytes are as good as a word.
        unsafe {
            let start = self.allocation.base.as_ptr().add(offset).cast();
            let (head, words, tail) = std::slice::from_raw_parts::<AtomicU8>(start, len).align_to();
            ((head, tail), words)
        }
    }
}

impl Allocation {
    /// The shadow, if the memory was made for checked launches; nobody else has it while the guard lives.
    pub(crate) fn lock_shadow(&self) -> Option<MutexGuard<'_, Shadow>> {
        self.shadow
            .as_ref()
            .map(|shadow| shadow.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts `bytes` bytes at `address` as written.
    pub(crate) fn mark_written(&self, address: usize, bytes: usize) {
        if bytes > 0
            && let Some(mut shadow) = self.lock_shadow()
        {
            shadow.mark_written(address, bytes);
        }
    }

    /// A shadow for memory that has none.
    pub(crate) fn full_shadow(&self) -> Shadow {
        Shadow::new(self.base.as_ptr() as usize, self.bytes, false, true)
    }

    /// Its number; launches lock shadows in this order.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        LIVE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
        if let Some(layout) = layout(self.bytes) {
            // SAFETY: allocated with the same layout, and nothing refers to it any more.
            unsafe { dealloc(self.base.as_ptr(), layout) }
        }
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()
}

/// The allocation that `buffer` names, if it is alive and holds all of it.
pub(crate) fn find(buffer: &RawBuffer) -> Option<Arc<Allocation>> {
    let allocation = LIVE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&buffer.allocation)?
        .upgrade()?;
    let offset = buffer
        .address
        .checked_sub(allocation.base.as_ptr() as u64)?;
    let end = offset.checked_add(buffer.bytes)?;
    (end <= allocation.bytes as u64).then_some(allocation)
}
