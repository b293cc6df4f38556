//! The shared memory of a block.

use std::cell::{OnceCell, UnsafeCell};
use std::panic::Location;
use std::ptr;

use super::fault::{FaultKind, Raised};
use super::memory::Region;
use super::shadow::Shadow;

/// Most shared memory a block can have (sm_90).
pub(crate) const LIMIT: usize = 227 * 1024;
/// Most of it that static arrays can take, on every architecture.
const STATIC_LIMIT: usize = 48 * 1024;
/// Alignment of the dynamic arena: what a swizzled tile needs.
const ALIGNMENT: usize = 1024;

/// The dynamic arena, then the static arrays in the order threads meet them.
///
/// Made when a kernel first uses it.
pub(crate) struct Arena {
    lines: OnceCell<Box<[UnsafeCell<Line>]>>,
    /// Bytes of the dynamic arena.
    dynamic_bytes: usize,
    checked: bool,
    shadow: OnceCell<Box<UnsafeCell<Shadow>>>,
    dynamic: OnceCell<Box<Region>>,
    statics: Vec<Static>,
    /// How many static arrays each thread has met.
    met: Vec<usize>,
    /// Bytes taken.
    used: usize,
}

/// A static array and the place in the source that declares it.
struct Static {
    region: Box<Region>,
    location: &'static Location<'static>,
}

#[derive(Clone, Copy)]
#[repr(C, align(1024))]
struct Line([u8; ALIGNMENT]);

impl Arena {
    /// The arena of blocks of `threads` threads with `dynamic` bytes of dynamic shared memory.
    pub(crate) fn new(threads: u32, dynamic: usize, checked: bool) -> Self {
        Self {
            lines: OnceCell::new(),
            dynamic_bytes: dynamic,
            checked,
            shadow: OnceCell::new(),
            dynamic: OnceCell::new(),
            statics: Vec::new(),
            met: vec![0; threads as usize],
            used: dynamic.next_multiple_of(ALIGNMENT),
        }
    }

    fn lines(&self) -> &[UnsafeCell<Line>] {
        self.lines.get_or_init(|| {
            let bytes = LIMIT.min(self.dynamic_bytes.next_multiple_of(ALIGNMENT) + STATIC_LIMIT);
            let line = |_| UnsafeCell::new(Line([0; ALIGNMENT]));
            (0..bytes.div_ceil(ALIGNMENT)).map(line).collect()
        })
    }

    fn base(&self) -> usize {
        self.lines().as_ptr() as usize
    }

    /// The shadow, null in fast mode.
    fn shadow(&self) -> *mut Shadow {
        if !self.checked {
            return ptr::null_mut();
        }
        let shadow = self.shadow.get_or_init(|| {
            let bytes = self.lines().len() * ALIGNMENT;
            Box::new(UnsafeCell::new(Shadow::new(
                self.base(),
                bytes,
                true,
                false,
            )))
        });
        shadow.get()
    }

    /// A new block begins: nobody wrote anything, nobody met an array.
    pub(crate) fn begin(&mut self) {
        self.met.fill(0);
        if let Some(shadow) = self.shadow.get_mut() {
            shadow.get_mut().clear();
        }
    }

    /// The dynamic arena.
    pub(crate) fn dynamic(&self) -> *const Region {
        let name = || "dynamic shared memory".to_owned();
        let region = || Region::new(self.base(), self.dynamic_bytes, self.shadow(), name());
        &raw const **self.dynamic.get_or_init(|| Box::new(region()))
    }

    /// The next static array of `thread`.
    pub(crate) fn next_static(
        &mut self,
        thread: u32,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Result<*const Region, Raised> {
        let number = self.met[thread as usize];
        self.met[thread as usize] += 1;
        if let Some(array) = self.statics.get(number) {
            if array.region.bytes() == bytes && array.location == location {
                return Ok(&raw const *array.region);
            }
            let detail = format!(
                "this is shared array {number} of the thread; another met the one at {} there",
                array.location
            );
            return Err(Raised {
                kind: FaultKind::Divergence,
                location,
                detail,
            });
        }
        let statics = self
            .statics
            .iter()
            .map(|array| array.region.bytes())
            .sum::<usize>()
            + bytes;
        let end = self.used.saturating_add(bytes);
        if statics > STATIC_LIMIT || end > self.lines().len() * ALIGNMENT {
            let detail = format!(
                "{statics} bytes of static and {} of dynamic shared memory: too much for a block",
                self.dynamic_bytes
            );
            return Err(Raised {
                kind: FaultKind::OutOfBounds,
                location,
                detail,
            });
        }
        let region = Box::new(Region::new(
            self.base() + self.used,
            bytes,
            self.shadow(),
            format!("shared array {number}"),
        ));
        self.used = end.next_multiple_of(16);
        let pointer = &raw const *region;
        self.statics.push(Static { region, location });
        Ok(pointer)
    }

    /// Offset of a host address in the arena.
    pub(crate) fn offset(&self, address: usize) -> u32 {
        address.wrapping_sub(self.base()) as u32
    }
}
