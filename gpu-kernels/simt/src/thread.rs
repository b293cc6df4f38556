//! Who a thread is, and the barriers of its block.
//!
//! Blocks are one-dimensional in this project (a kernel's `block` is one number), so the `y` and `z`
//! indices of a thread are 0, a warp is 32 threads with consecutive `x`, and lane and warp follow from
//! [`thread_idx_x`]. Grids have up to three dimensions.

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::block;
#[cfg(target_arch = "nvptx64")]
use crate::ptx;

/// Lanes of a warp.
pub const WARP: u32 = 32;

/// The member mask that names every lane of a warp.
pub const FULL_MASK: u32 = 0xffff_ffff;

/// One special register per function.
macro_rules! index {
    ($($(#[$doc:meta])* $name:ident = $ptx:ident, $host:expr;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            {
                // SAFETY: reads a special register.
                unsafe { core::arch::nvptx::$ptx() as u32 }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            block::with_current($host)
        }
    )* };
}

index! {
    /// `x` index of this thread in its block, below [`block_dim_x`].
    thread_idx_x = _thread_idx_x, block::Block::thread;
    /// `y` index of this thread in its block.
    thread_idx_y = _thread_idx_y, |_| 0;
    /// `z` index of this thread in its block.
    thread_idx_z = _thread_idx_z, |_| 0;
    /// `x` index of this block in the grid, below [`grid_dim_x`].
    block_idx_x = _block_idx_x, |block| block.index()[0];
    /// `y` index of this block in the grid.
    block_idx_y = _block_idx_y, |block| block.index()[1];
    /// `z` index of this block in the grid.
    block_idx_z = _block_idx_z, |block| block.index()[2];
    /// Threads of a block along `x`.
    block_dim_x = _block_dim_x, block::Block::threads;
    /// Threads of a block along `y`.
    block_dim_y = _block_dim_y, |_| 1;
    /// Threads of a block along `z`.
    block_dim_z = _block_dim_z, |_| 1;
    /// Blocks of the grid along `x`.
    grid_dim_x = _grid_dim_x, |block| block.grid().x;
    /// Blocks of the grid along `y`.
    grid_dim_y = _grid_dim_y, |block| block.grid().y;
    /// Blocks of the grid along `z`.
    grid_dim_z = _grid_dim_z, |block| block.grid().z;
}

/// This thread's place in its warp, below 32.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn lane_id() -> u32 {
    thread_idx_x() % WARP
}

/// This thread's warp in its block.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warp_id() -> u32 {
    thread_idx_x() / WARP
}

/// Waits for every thread of the block; what they wrote before it is seen by all after it.
///
/// PTX: `barrier.sync.aligned 0`. All threads of a warp must come to the same call.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: a barrier touches no memory of its own; that all threads reach it is the kernel's duty,
    // which the emulator checks.
    unsafe {
        ptx::barrier_all(0);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    block::barrier(0, None);
}

/// Waits until `threads` threads of the block came to named barrier `barrier`.
///
/// `barrier` is below 16 (0 is the one of [`sync_threads`]), `threads` a multiple of 32, not 0.
/// Memory is ordered between the threads that meet. PTX: `barrier.sync.aligned barrier, threads`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_count(barrier: u32, threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: as in `sync_threads`.
    unsafe {
        ptx::barrier_count(barrier, threads);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    block::barrier(barrier, Some(threads));
}

/// Waits for the lanes of `mask`, and orders memory between them.
///
/// The calling lane must be in `mask`. PTX: `bar.warp.sync`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_warp(mask: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: as in `sync_threads`, for a warp.
    unsafe {
        ptx::warp_sync(mask);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    block::sync_warp(mask);
}
