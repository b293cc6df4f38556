//! Copies from global to shared memory by the copy engine (`cp.async.bulk`, sm_90).
//!
//! One thread starts a copy and goes on; the bytes arrive at an [`Mbarrier`], which was told how many to expect.
//! Only after waiting for that phase may anybody read them. What *generic* accesses (reads and writes of this
//! vocabulary) did to the same shared memory before is ordered with a copy by barriers as usual when they read;
//! when they wrote, [`fence_async`] comes between.
//!
//! [`copy`] moves a run of bytes. [`copy_tile`] moves a box of a matrix, of rows of 128 bytes, into the swizzled
//! layout that [`crate::wgmma`] reads; a [`TensorMap`] describes the matrix.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::mbarrier;
use crate::mbarrier::Mbarrier;
use crate::{Element, Global, Shared};

/// What to do with lines that a copy brings into the L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2 {
    /// As for any access.
    Normal,
    /// Evict them before others: data read once.
    EvictFirst,
    /// Keep them before others: data read by every block.
    EvictLast,
}

impl L2 {
    /// The cache policy, as `createpolicy.fractional` with fraction 1 makes it.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    const fn policy(self) -> u64 {
        match self {
            Self::Normal => 0x1000_0000_0000_0000,
            Self::EvictFirst => 0x12F0_0000_0000_0000,
            Self::EvictLast => 0x14F0_0000_0000_0000,
        }
    }
}

/// Starts copying `bytes` bytes, a multiple of 16, from element `src_index` of `src` to element `dst_index` of
/// `dst`, both at multiples of 16 bytes. They count towards the current phase of `barrier`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn copy<T: Element, U: Element>(
    dst: Shared<T>,
    dst_index: usize,
    src: Global<U>,
    src_index: usize,
    bytes: u32,
    barrier: Mbarrier,
    l2: L2,
) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the kernel keeps both runs inside their arrays; the emulator proves it on its inputs.
    unsafe {
        asm!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{}], [{}], {}, [{}], {};",
            in(reg32) dst.at(dst_index), in(reg64) src.pointer(src_index), in(reg32) bytes,
            in(reg32) barrier.address(), in(reg64) l2.policy(), options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = l2;
        mbarrier::copy(
            dst.place(dst_index),
            src.place(src_index),
            bytes,
            barrier.word(),
        );
    }
}

/// Bytes of a row of a tile: what [`copy_tile`] moves of each row of the matrix.
pub const TILE_WIDTH: usize = 128;

/// Where byte `byte` (below 128) of row `row` of a tile lies, from the start of the tile: the 128-byte swizzle
/// exchanges the 16-byte pieces of a row by the lowest three bits of its number.
#[inline(always)]
#[must_use]
pub const fn tile_offset(row: usize, byte: usize) -> usize {
    row * TILE_WIDTH + (byte ^ (row % 8) << 4)
}

/// A matrix of bytes in global memory, as the copy engine wants it described: opaque, made by a backend for one
/// buffer (`Backend::tensor_map` of the host crate) and kept in global memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct TensorMap([u64; 16]);

// SAFETY: words of which all zero is one value.
unsafe impl bytemuck::Zeroable for TensorMap {}
// SAFETY: an array of integers; its size is a multiple of its alignment, so there is no padding.
unsafe impl bytemuck::Pod for TensorMap {}
// SAFETY: `repr(C)` over words, the same on both sides.
unsafe impl Element for TensorMap {}

/// The matrix that a [`TensorMap`] describes.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Bytes of a row that count: what lies beyond reads as zero.
    pub width: u64,
    /// Rows: those beyond read as zero.
    pub rows: u64,
    /// Bytes from one row to the next, a multiple of 16, below 2^40.
    pub stride: u64,
    /// Rows of a tile, 1 to 256.
    pub tile_rows: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Tensor {
    /// Checks the matrix against the limits of the copy engine and against a buffer of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// One sentence that names what does not fit.
    pub fn check(&self, bytes: u64) -> Result<(), String> {
        let Self {
            width,
            rows,
            stride,
            tile_rows,
        } = *self;
        if width == 0 || rows == 0 || width > 1 << 32 || rows > 1 << 32 {
            return Err(format!(
                "a matrix of {rows} rows of {width} bytes: both are 1 to 2^32"
            ));
        }
        if !stride.is_multiple_of(16) || stride < width || stride >= 1 << 40 {
            return Err(format!(
                "rows of {width} bytes every {stride}: a stride is a multiple of 16 below 2^40, no less than a row"
            ));
        }
        if tile_rows == 0 || tile_rows > 256 {
            return Err(format!("tiles of {tile_rows} rows: 1 to 256"));
        }
        let end = u128::from(rows - 1) * u128::from(stride) + u128::from(width);
        if end > u128::from(bytes) {
            return Err(format!("{rows} rows every {stride} bytes in {bytes} bytes"));
        }
        Ok(())
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl TensorMap {
    /// The map of a driver: 128 bytes that only the copy engine understands.
    pub fn of_driver(words: [u64; 16]) -> Self {
        Self(words)
    }

    /// The map that the emulator understands, of the matrix that starts at `address`.
    pub fn emulated(address: u64, tensor: &Tensor) -> Self {
        let mut words = [0; 16];
        words[..5].copy_from_slice(&[
            address,
            tensor.width,
            tensor.rows,
            tensor.stride,
            u64::from(tensor.tile_rows),
        ]);
        Self(words)
    }

    /// The address and the matrix of an emulated map.
    pub(crate) fn read(&self) -> (u64, Tensor) {
        let [address, width, rows, stride, tile_rows, ..] = self.0;
        let tile_rows = tile_rows as u32;
        (
            address,
            Tensor {
                width,
                rows,
                stride,
                tile_rows,
            },
        )
    }
}

/// Makes a map that the host wrote visible to the copy engine; the thread that starts copies by it calls this
/// first.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn acquire_map(map: Global<TensorMap>) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: orders memory only.
    unsafe {
        asm!("fence.proxy.tensormap::generic.acquire.sys [{}], 128;", in(reg64) map.pointer(0), options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = map.read(0);
    }
}

/// Starts copying a tile: the 128 bytes from `byte` on of each of the map's `tile_rows` rows from `row` on, to
/// `dst`, which starts at a multiple of 1,024 bytes and takes `128 tile_rows` bytes, laid out as
/// [`tile_offset`] says. What lies outside the matrix arrives as zeroes; all bytes count towards the current
/// phase of `barrier`. `byte` is a multiple of 16.
///
/// `source` is the buffer that `map` was made for; the emulator checks that it is, and the bounds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn copy_tile(
    dst: Shared<u8>,
    map: Global<TensorMap>,
    source: Global<u8>,
    byte: u32,
    row: u32,
    barrier: Mbarrier,
    l2: L2,
) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the map bounds the source, the kernel the target; the emulator proves both on its inputs.
    unsafe {
        let _ = source;
        asm!("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{}], [{}, {{{}, {}}}], [{}], {};",
            in(reg32) dst.at(0), in(reg64) map.pointer(0), in(reg32) byte, in(reg32) row,
            in(reg32) barrier.address(), in(reg64) l2.policy(), options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = l2;
        let map = map.read(0);
        mbarrier::copy_tile(
            dst.place(0),
            &map,
            source.place(0),
            (byte, row),
            barrier.word(),
        );
    }
}

/// Orders what this thread wrote to shared memory before what the copy engine and the tensor cores
/// ([`crate::wgmma`]) do there after a barrier (`fence.proxy.async`).
#[inline(always)]
pub fn fence_async() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: orders memory only.
    unsafe {
        asm!("fence.proxy.async.shared::cta;", options(nostack));
    }
}
