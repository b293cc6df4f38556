//! Host bodies of [`crate::wgmma`].
//!
//! The lanes of a warp meet; then each computes its own sums from the tiles. They meet again at the wait, since
//! until then the tiles must stay. In checked mode lane 0 looks at what its warp reads, when the product starts
//! and again when it is waited for.

use std::panic::Location;

use super::access;
use super::block::{self, Block, Signs};
use super::check;
use super::collective::{self, Widened};
use crate::bulk::TILE_WIDTH;
use crate::thread::WARP;
use crate::wgmma::{K, M, Tile};

/// Columns of D in a group: a lane holds two of each.
const GROUP: usize = 8;

/// The 32 bytes of row `row` that the tile's step names, in order.
fn row_words(tile: Tile, row: usize) -> [u32; 8] {
    let start = tile.address + row * TILE_WIDTH;
    let mut words = [0; 8];
    for half in 0..2 {
        let piece = (2 * tile.step + half) ^ (row % 8);
        words[4 * half..4 * half + 4].copy_from_slice(&access::load_words(start + 16 * piece, 16));
    }
    words
}

/// Checks that `rows` rows of the tile lie in its array.
fn check_tile(tile: Tile, rows: usize, location: &'static Location<'static>) {
    access::check_tile((tile.address, tile.region), rows * TILE_WIDTH, location);
}

/// Lets lane 0 of a warp note `rows` rows that its warp reads.
fn note(tile: Tile, first: usize, rows: usize, location: &'static Location<'static>) {
    for row in first..first + rows {
        // The two pieces of a step are neighbours in every row, in one order or the other.
        let piece = (2 * tile.step) ^ (row % 8) & !1;
        let address = tile.address + row * TILE_WIDTH + 16 * piece;
        check::start_product(tile.region, address, K, location);
    }
}

fn place() -> (u32, usize, u32) {
    let thread = block::with_current(Block::thread);
    let warp = (thread / WARP % 4) as usize;
    (thread % WARP, warp, thread)
}

#[track_caller]
pub(crate) fn shared<const SUMS: usize>(signs: Signs, sums: &mut [i32; SUMS], a: Tile, b: Tile) {
    let location = Location::caller();
    check_tile(a, M, location);
    block::meet_for_product();
    let (lane, warp, _) = place();
    // SAFETY: regions live as long as the block.
    if lane == 0 && unsafe { (*a.region).is_checked() } {
        note(a, 16 * warp, 16, location);
    }
    let line = lane as usize / 4;
    let rows = [0, 8].map(|half| row_words(a, 16 * warp + line + half));
    multiply(signs, sums, rows, b, location);
}

#[track_caller]
pub(crate) fn registers<const SUMS: usize>(
    signs: Signs,
    sums: &mut [i32; SUMS],
    a: [u32; 4],
    b: Tile,
) {
    let location = Location::caller();
    // Register r of the lane at place t of a quad: row r % 2, words t and t + 4 of it.
    let quad = block::gather_for_product(a);
    let rows =
        [0, 1].map(|half| std::array::from_fn(|word| quad[4 * (word % 4) + half + 2 * (word / 4)]));
    multiply(signs, sums, rows, b, location);
}

/// Adds the products of two rows of A with this lane's columns of B.
fn multiply<const SUMS: usize>(
    signs: Signs,
    sums: &mut [i32; SUMS],
    rows: [[u32; 8]; 2],
    b: Tile,
    location: &'static Location<'static>,
) {
    let columns = 2 * SUMS;
    check_tile(b, columns, location);
    let (lane, _, _) = place();
    // SAFETY: as above.
    if lane == 0 && unsafe { (*b.region).is_checked() } {
        note(b, 0, columns, location);
    }
    let a = rows.map(|row| match signs {
        Signs::SS | Signs::SU => collective::widen::<true>(row),
        Signs::US | Signs::UU => collective::widen::<false>(row),
    });
    let column = |number: usize| -> Widened {
        let words = row_words(b, number);
        match signs {
            Signs::SS | Signs::US => collective::widen::<true>(words),
            Signs::SU | Signs::UU => collective::widen::<false>(words),
        }
    };
    let first = 2 * (lane as usize % 4);
    // Four groups at a time, or the one group there is.
    for (number, sums) in sums.chunks_mut(16).enumerate() {
        let columns: [Widened; 8] = std::array::from_fn(|i| {
            let group = 4 * number + (i / 2) % (sums.len() / 4);
            column(GROUP * group + first + i % 2)
        });
        for (half, row) in a.iter().enumerate() {
            let dots = collective::dots(row, &columns);
            for (group, sums) in sums.chunks_mut(4).enumerate() {
                for e in 0..2 {
                    let sum = &mut sums[2 * half + e];
                    *sum = sum.wrapping_add(dots[2 * group + e]);
                }
            }
        }
    }
}

/// Closes a group.
pub(crate) fn commit() {
    check::commit_products();
}

/// Waits for all groups but the last `keep`.
#[track_caller]
pub(crate) fn wait(keep: usize) {
    block::meet_for_wait();
    check::wait_products(keep);
}
