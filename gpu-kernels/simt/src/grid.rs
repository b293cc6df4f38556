//! Which items of a one-dimensional problem this thread works on.

use crate::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};

/// This thread's index among all threads of the grid's `x` axis.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn global_id() -> usize {
    block_idx_x() as usize * block_dim_x() as usize + thread_idx_x() as usize
}

/// Threads along the grid's `x` axis.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn global_size() -> usize {
    grid_dim_x() as usize * block_dim_x() as usize
}

/// The items below `n` that belong to this thread, `PER` of them between two jumps of the grid.
///
/// Blocks take tiles of `PER * block_dim_x()` items in turn, so any grid covers any `n`. Inside a tile
/// a thread's items lie `block_dim_x()` apart: in each step the lanes of a warp touch neighbours, and
/// the accesses coalesce. The `PER` steps are independent and unroll.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn stride<const PER: usize>(n: usize) -> Stride<PER> {
    let width = block_dim_x() as usize;
    Stride {
        tile: block_idx_x() as usize * width * PER + thread_idx_x() as usize,
        step: 0,
        width,
        jump: global_size() * PER,
        n,
    }
}

/// Iterator of [`stride`].
#[derive(Clone, Debug)]
pub struct Stride<const PER: usize> {
    /// This thread's first item in the current tile.
    tile: usize,
    /// Steps already taken in the tile.
    step: usize,
    width: usize,
    jump: usize,
    n: usize,
}

impl<const PER: usize> Iterator for Stride<PER> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        // Items of a tile ascend, so past `n` the rest of the tile and every later tile are empty too.
        let item = self.tile + self.step * self.width;
        if item >= self.n {
            return None;
        }
        self.step += 1;
        if self.step == PER {
            self.step = 0;
            self.tile += self.jump;
        }
        Some(item)
    }
}
