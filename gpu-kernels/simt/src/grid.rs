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

/// The items below `n` that belong to this thread, `PER` (not 0) of them between two jumps of the grid.
///
/// Blocks take tiles of `PER * block_dim_x()` items in turn, so any grid covers any `n`. Inside a tile
/// a thread's items lie `block_dim_x()` apart: in each step the lanes of a warp touch neighbours, and
/// the accesses coalesce.
///
/// A `for` loop over it tests each item; `for_each` tests once per tile and unrolls the `PER` steps, which
/// lets loads of several items be under way at once where nothing stored in between could alias them.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn stride<const PER: usize>(n: usize) -> Stride<PER> {
    const { assert!(PER > 0, "a tile has at least one item a thread") };
    let width = block_dim_x() as usize;
    Stride {
        item: block_idx_x() as usize * width * PER + thread_idx_x() as usize,
        step: 0,
        width,
        jump: global_size() * PER - (PER - 1) * width,
        n,
    }
}

/// Iterator of [`stride`].
#[derive(Clone, Debug)]
pub struct Stride<const PER: usize> {
    /// This thread's next item.
    item: usize,
    /// Steps already taken in its tile.
    step: usize,
    /// From one item of a tile to the next.
    width: usize,
    /// From the last item of a tile to the first one of the next tile.
    jump: usize,
    n: usize,
}

impl<const PER: usize> Stride<PER> {
    #[inline(always)]
    fn advance(&mut self) {
        self.step += 1;
        if self.step == PER {
            self.step = 0;
            self.item += self.jump;
        } else {
            self.item += self.width;
        }
    }
}

impl<const PER: usize> Iterator for Stride<PER> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        // Items ascend, so past `n` there are none.
        let item = self.item;
        if item >= self.n {
            return None;
        }
        self.advance();
        Some(item)
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, usize) -> B>(mut self, init: B, mut f: F) -> B {
        let mut result = init;
        // The rest of a tile that `next` has begun.
        while self.step != 0 && self.item < self.n {
            result = f(result, self.item);
            self.advance();
        }
        // Whole tiles.
        let last = (PER - 1) * self.width;
        while self.item + last < self.n {
            let mut step = 0;
            while step < PER {
                result = f(result, self.item + step * self.width);
                step += 1;
            }
            self.item += last + self.jump;
        }
        while self.item < self.n {
            result = f(result, self.item);
            self.advance();
        }
        result
    }
}
