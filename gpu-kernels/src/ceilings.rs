//! Kernels that measure what the hardware allows: memory, and the arithmetic units that the other
//! kernels stand on.
//!
//! Each computes something that can be checked, from operands that no compiler knows, so that it
//! can be neither optimised away nor wrong unnoticed; [`mod@reference`] computes the same. The
//! constants say what a launch counts as, so that a rate is `count / time`. Measure with a grid
//! that fills the device several times over and inputs larger than its L2.

use simt::kernel;
use simt::prelude::*;

/// Threads of a block of every kernel here.
pub const BLOCK: usize = 256;
/// 16-byte accesses in flight a thread, in the memory kernels.
const IN_FLIGHT: usize = 8;
/// Vectors that a block of [`ceiling_read`](fn@ceiling_read) takes at a time.
const TILE: usize = IN_FLIGHT * BLOCK;
/// All lanes of a warp.
const WARP: u32 = u32::MAX;

/// A well-mixed word for place `place` of item `item`: the operands of the arithmetic kernels.
#[inline(always)]
#[must_use]
pub const fn operand(item: u32, place: u32) -> u32 {
    // The finaliser of MurmurHash3, a bijection, over a Weyl sequence.
    let mut word = item
        .wrapping_mul(0x9E37_79B9)
        .wrapping_add(place.wrapping_mul(0x7FEB_352D));
    word = (word ^ word >> 16).wrapping_mul(0x85EB_CA6B);
    word = (word ^ word >> 13).wrapping_mul(0xC2B2_AE35);
    word ^ word >> 16
}

/// The next of the words that change the operands from round to round.
#[inline(always)]
const fn next_salt(salt: u32) -> u32 {
    salt.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F)
}

/// Adds the words of a tile of [`TILE`] vectors, as far as it lies below `n`, to `total`.
#[inline(always)]
fn add_tile(source: Global<U32x4>, tile: usize, n: usize, mut total: u32) -> u32 {
    let first = tile + thread::thread_idx_x() as usize;
    let mut vectors = [U32x4([0; 4]); IN_FLIGHT];
    if tile + TILE <= n {
        for i in 0..IN_FLIGHT {
            vectors[i] = source.read_stream(first + i * BLOCK);
        }
    } else {
        for i in 0..IN_FLIGHT {
            if first + i * BLOCK < n {
                vectors[i] = source.read_stream(first + i * BLOCK);
            }
        }
    }
    for i in 0..IN_FLIGHT {
        for j in 0..4 {
            total = total.wrapping_add(vectors[i].0[j]);
        }
    }
    total
}

/// Adds the sum of a warp's totals to `sum[0]`.
#[inline(always)]
fn add_totals(sum: GlobalMut<u32>, total: u32) {
    let total = warp::reduce_add(WARP, total);
    if thread::lane_id() == 0 {
        sum.atomic_add(0, total, Order::Relaxed, Scope::Device);
    }
}

/// DRAM read. Adds the sum of all words of `source[..n]`, modulo 2^32, to `sum[0]`.
///
/// Counts as `16 n` bytes read. A thread has eight 16-byte loads in flight; a warp adds to `sum`
/// once, at the end. Any grid covers any `n`.
#[kernel(block = 256, requires(n <= source.len() as u64, sum.len() >= 1))]
pub fn ceiling_read(source: Global<U32x4>, sum: GlobalMut<u32>, n: u64) {
    let mut total = 0u32;
    let n = n as usize;
    let mut tile = thread::block_idx_x() as usize * TILE;
    while tile < n {
        total = add_tile(source, tile, n, total);
        tile += thread::grid_dim_x() as usize * TILE;
    }
    add_totals(sum, total);
}

/// L2 read. Adds `passes` times the sum of all words of `source[..n]`, modulo 2^32, to `sum[0]`.
///
/// Counts as `16 n passes` bytes read from L2 where `source[..n]` fits it. The loads leave nothing in
/// L1, and unless the tiles are a multiple of the blocks a block meets others in each pass. Any grid
/// covers any `n`.
#[kernel(block = 256, requires(n <= source.len() as u64, sum.len() >= 1))]
pub fn ceiling_l2_read(source: Global<U32x4>, sum: GlobalMut<u32>, n: u64, passes: u32) {
    let mut total = 0u32;
    let n = n as usize;
    let tiles = n.div_ceil(TILE);
    let mut tile = thread::block_idx_x() as usize;
    for _ in 0..passes {
        while tile < tiles {
            total = add_tile(source, tile * TILE, n, total);
            tile += thread::grid_dim_x() as usize;
        }
        tile -= tiles;
    }
    add_totals(sum, total);
}

/// DRAM copy. `target[i] = source[i]` for `i` below `n`.
///
/// Counts as `32 n` bytes, read and written. Any grid covers any `n`; the bench takes a thread for each vector, and stores
/// stream, since plain ones gave 3.12 TB/s on an H200 where eight vectors in flight a thread gave 4.03.
#[kernel(block = 256, requires(n <= source.len() as u64, n <= target.len() as u64))]
pub fn ceiling_copy(source: Global<U32x4>, target: GlobalMut<U32x4>, n: u64) {
    for i in grid::stride::<1>(n as usize) {
        target.write_stream(i, source.read(i));
    }
}

/// Rows of the outer product of [`ceiling_imad_wide`](fn@ceiling_imad_wide).
const WIDE_ROWS: usize = 8;
/// Columns of the outer product of [`ceiling_imad_wide`](fn@ceiling_imad_wide).
const WIDE_COLUMNS: usize = 4;
/// Outer products in a round: at the end of a loop ptxas copies accumulators about, so rounds are
/// long.
const WIDE_PRODUCTS: usize = 4;
/// Multiply-accumulates (32 x 32 bits into 64) of an item of
/// [`ceiling_imad_wide`](fn@ceiling_imad_wide) in a round.
pub const IMAD_WIDE_PER_ROUND: u64 = (WIDE_ROWS * WIDE_COLUMNS * WIDE_PRODUCTS) as u64;

/// IMAD.WIDE. Each item sums, in each of `rounds` rounds, four outer products of 8 by 4 words in 32
/// accumulators of 64 bits, folded into one.
///
/// Counts as [`IMAD_WIDE_PER_ROUND`] multiply-accumulates an item and round; between two products
/// the 12 operands change by one instruction each, on another pipe. One item a thread: `items`
/// should be the threads of the grid.
#[kernel(block = 256, requires(items as usize <= out.len()))]
pub fn ceiling_imad_wide(out: GlobalMut<u64>, items: u32, rounds: u32) {
    for item in grid::stride::<1>(items as usize) {
        let mut a = [0; WIDE_ROWS];
        let mut b = [0; WIDE_COLUMNS];
        for i in 0..WIDE_ROWS {
            a[i] = operand(item as u32, i as u32);
        }
        for j in 0..WIDE_COLUMNS {
            b[j] = operand(item as u32, (WIDE_ROWS + j) as u32);
        }
        let mut sums = [[0u64; WIDE_COLUMNS]; WIDE_ROWS];
        let mut salt = item as u32;
        for _ in 0..rounds {
            for _ in 0..WIDE_PRODUCTS {
                for i in 0..WIDE_ROWS {
                    for j in 0..WIDE_COLUMNS {
                        sums[i][j] = int::mad_wide(a[i], b[j], sums[i][j]);
                    }
                }
                salt = next_salt(salt);
                for i in 0..WIDE_ROWS {
                    a[i] ^= salt;
                }
                for j in 0..WIDE_COLUMNS {
                    b[j] = b[j].wrapping_add(salt);
                }
            }
        }
        let mut fold = 0u64;
        for i in 0..WIDE_ROWS {
            for j in 0..WIDE_COLUMNS {
                fold = fold.rotate_left(1) ^ sums[i][j];
            }
        }
        out.write(item, fold);
    }
}

/// A fragments that a warp of [`ceiling_mma`](fn@ceiling_mma) holds.
const MMA_ROWS: usize = 2;
/// B fragments that a warp of [`ceiling_mma`](fn@ceiling_mma) holds.
const MMA_COLUMNS: usize = 8;
/// Multiply-accumulates (8 x 8 bits into 32) of a warp of [`ceiling_mma`](fn@ceiling_mma) in a
/// round.
pub const MMA_PER_ROUND: u64 = (MMA_ROWS * MMA_COLUMNS * 16 * 8 * 32) as u64;

/// Int8 tensor cores by `mma.sync`. Each item, a warp's work, sums `rounds` products of 32 x 32
/// signed bytes with 32 x 64 unsigned bytes in 16 accumulator fragments; each lane folds its share
/// into one word of `out`.
///
/// Counts as [`MMA_PER_ROUND`] multiply-accumulates an item and round. Operands are random bytes,
/// because power, and with it the clock, depends on them. One item a warp: `items` should be the
/// warps of the grid. `mma.sync` reaches about 61 % of what `wgmma` does on sm_90 ([`ceiling_wgmma`](fn@ceiling_wgmma)).
#[kernel(block = 256, requires(items as usize * 32 <= out.len()))]
pub fn ceiling_mma(out: GlobalMut<u32>, items: u32, rounds: u32) {
    let lane = thread::lane_id();
    let mut item = (grid::global_id() / 32) as u32;
    while item < items {
        let seed = item * 32 + lane;
        let mut a = [[0; 4]; MMA_ROWS];
        let mut b = [[0; 2]; MMA_COLUMNS];
        for i in 0..MMA_ROWS {
            for register in 0..4 {
                a[i][register] = operand(seed, (4 * i + register) as u32);
            }
        }
        for j in 0..MMA_COLUMNS {
            for register in 0..2 {
                b[j][register] = operand(seed, (4 * MMA_ROWS + 2 * j + register) as u32);
            }
        }
        let mut sums = [[[0i32; 4]; MMA_COLUMNS]; MMA_ROWS];
        let mut salt = seed;
        for _ in 0..rounds {
            for i in 0..MMA_ROWS {
                for j in 0..MMA_COLUMNS {
                    mma::m16n8k32::s8u8(&mut sums[i][j], a[i], b[j]);
                }
            }
            // One fragment changes: were all of them to, each round would wait for the last to read them.
            salt = next_salt(salt);
            for register in 0..2 {
                b[0][register] ^= salt;
            }
        }
        let mut fold = 0u32;
        for i in 0..MMA_ROWS {
            for j in 0..MMA_COLUMNS {
                for register in 0..4 {
                    fold = fold.rotate_left(1) ^ sums[i][j][register] as u32;
                }
            }
        }
        out.write(seed as usize, fold);
        item += (grid::global_size() / 32) as u32;
    }
}

/// Rows of D that a block of [`ceiling_wgmma`](fn@ceiling_wgmma) multiplies, 64 for each of its warpgroups.
const WGMMA_ROWS: usize = 128;
/// Columns of D of a block of [`ceiling_wgmma`](fn@ceiling_wgmma).
const WGMMA_COLUMNS: usize = 256;
/// Bytes of the tiles of [`ceiling_wgmma`](fn@ceiling_wgmma).
const WGMMA_BYTES: usize = (WGMMA_ROWS + WGMMA_COLUMNS) * bulk::TILE_WIDTH;
/// Multiply-accumulates (8 x 8 bits into 32) of an item of [`ceiling_wgmma`](fn@ceiling_wgmma) in a round.
pub const WGMMA_PER_ROUND: u64 = (WGMMA_ROWS * WGMMA_COLUMNS * bulk::TILE_WIDTH) as u64;
/// Outputs of an item of [`ceiling_wgmma`](fn@ceiling_wgmma), one a thread.
pub const WGMMA_OUTPUTS: usize = 256;

/// Int8 tensor cores by `wgmma`. Each item, a block's work, sums `rounds` times the product of 128 x 128 signed
/// bytes with 128 x 256 unsigned bytes, in two warpgroups with both operands in shared memory; each thread folds
/// its share into one word of `out`.
///
/// Counts as [`WGMMA_PER_ROUND`] multiply-accumulates an item and round. Operands are random bytes: power, and
/// with it the clock, depends on them.
#[kernel(
    block = 256,
    shared = WGMMA_BYTES as u32,
    arch = "sm_90a",
    requires(items as usize * WGMMA_OUTPUTS <= out.len())
)]
pub fn ceiling_wgmma(out: GlobalMut<u32>, items: u32, rounds: u32) {
    let tiles = Shared::<u8>::dynamic(0);
    let thread = thread::thread_idx_x();
    let a = wgmma::Tile::new(tiles).from_row(wgmma::M * (thread / 128) as usize);
    let b = wgmma::Tile::new(tiles.offset(WGMMA_ROWS * bulk::TILE_WIDTH));
    let mut item = thread::block_idx_x();
    while item < items {
        thread::sync_threads();
        for i in 0..WGMMA_BYTES / 16 / 256 {
            let piece = thread as usize + 256 * i;
            let mut words = [0; 4];
            for j in 0..4 {
                words[j] = operand(item, (4 * piece + j) as u32);
            }
            let (row, byte) = (piece / 8, piece % 8 * 16);
            let at = bulk::tile_offset(row, byte);
            tiles.cast::<U32x4>().write(at / 16, U32x4(words));
        }
        bulk::fence_async();
        thread::sync_threads();
        let mut sums = [0i32; WGMMA_COLUMNS / 2];
        wgmma::pin(&mut sums);
        for _ in 0..rounds {
            wgmma::fence();
            for step in 0..wgmma::STEPS {
                wgmma::s8u8(&mut sums, a.step(step), b.step(step));
            }
            wgmma::commit();
            wgmma::wait_group::<1>();
        }
        wgmma::wait_group::<0>();
        wgmma::pin(&mut sums);
        let mut fold = 0u32;
        for i in 0..sums.len() {
            fold = fold.rotate_left(1) ^ sums[i] as u32;
        }
        out.write(item as usize * WGMMA_OUTPUTS + thread as usize, fold);
        item += thread::grid_dim_x();
    }
}

/// Factors that an item of [`ceiling_clmad`](fn@ceiling_clmad) multiplies in a round.
const CLMAD_CHAINS: usize = 8;
/// CLMAD instructions (half of a 64 x 64-bit carry-less product, added) of an item of
/// [`ceiling_clmad`](fn@ceiling_clmad) in a round.
pub const CLMAD_PER_ROUND: u64 = 2 * CLMAD_CHAINS as u64;

/// CLMAD. Each item sums, over `rounds` values of x, the 128-bit carry-less products of eight
/// factors with x, folded into one pair of words.
///
/// Counts as [`CLMAD_PER_ROUND`] instructions an item and round. One item a thread: `items` should
/// be the threads of the grid.
#[kernel(block = 256, requires(items as usize <= out.len()))]
pub fn ceiling_clmad(out: GlobalMut<U64x2>, items: u32, rounds: u32) {
    for item in grid::stride::<1>(items as usize) {
        let factor = |i: usize| {
            let word = |half: usize| u64::from(operand(item as u32, (2 * i + half) as u32));
            word(0) | word(1) << 32
        };
        let mut factors = [0; CLMAD_CHAINS];
        for i in 0..CLMAD_CHAINS {
            factors[i] = factor(i);
        }
        let mut x = factor(CLMAD_CHAINS);
        let (mut low, mut high) = ([0u64; CLMAD_CHAINS], [0u64; CLMAD_CHAINS]);
        for _ in 0..rounds {
            for i in 0..CLMAD_CHAINS {
                low[i] = clmul::clmad_lo(factors[i], x, low[i]);
                high[i] = clmul::clmad_hi(factors[i], x, high[i]);
            }
            x = next_factor(x);
        }
        let mut fold = [0u64; 2];
        for i in 0..CLMAD_CHAINS {
            fold = [
                fold[0].rotate_left(1) ^ low[i],
                fold[1].rotate_left(1) ^ high[i],
            ];
        }
        out.write(item, U64x2(fold));
    }
}

/// The next of the words that [`ceiling_clmad`](fn@ceiling_clmad) multiplies by.
#[inline(always)]
const fn next_factor(x: u64) -> u64 {
    x.rotate_left(7).wrapping_add(0x9E37_79B9_7F4A_7C15)
}

/// What each ceiling kernel has to compute, by plain loops.
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference {
    use simt::mma::m16n8k32::{A, B, C};
    use simt::{U32x4, bulk, wgmma};

    use super::{
        CLMAD_CHAINS, MMA_COLUMNS, MMA_ROWS, WGMMA_COLUMNS, WGMMA_OUTPUTS, WGMMA_ROWS,
        WIDE_COLUMNS, WIDE_PRODUCTS, WIDE_ROWS, next_factor, next_salt, operand,
    };
    use crate::gf128::reference::carryless;

    /// [`super::ceiling_read`](fn@super::ceiling_read): what the kernel adds to `sum[0]`.
    #[must_use]
    pub fn read(source: &[U32x4]) -> u32 {
        source
            .iter()
            .flat_map(|vector| vector.0)
            .fold(0, u32::wrapping_add)
    }

    /// [`super::ceiling_imad_wide`](fn@super::ceiling_imad_wide): the output of one item.
    #[must_use]
    pub fn imad_wide(item: u32, rounds: u32) -> u64 {
        let mut operands: Vec<u32> = (0..(WIDE_ROWS + WIDE_COLUMNS) as u32)
            .map(|place| operand(item, place))
            .collect();
        let mut sums = vec![0u128; WIDE_ROWS * WIDE_COLUMNS];
        let mut salt = item;
        for _ in 0..WIDE_PRODUCTS * rounds as usize {
            let (a, b) = operands.split_at_mut(WIDE_ROWS);
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum += u128::from(a[i / WIDE_COLUMNS]) * u128::from(b[i % WIDE_COLUMNS]);
            }
            salt = next_salt(salt);
            for word in a {
                *word ^= salt;
            }
            for word in b {
                *word = word.wrapping_add(salt);
            }
        }
        sums.into_iter()
            .fold(0, |fold, sum| fold.rotate_left(1) ^ sum as u64)
    }

    /// [`super::ceiling_mma`](fn@super::ceiling_mma): the outputs of the 32 lanes of one item.
    #[must_use]
    pub fn mma(item: u32, rounds: u32) -> [u32; 32] {
        let mut a = vec![[[0i64; 32]; 16]; MMA_ROWS];
        let mut b = vec![[[0i64; 8]; 32]; MMA_COLUMNS];
        let mut sums = vec![[[0i64; 8]; 16]; MMA_ROWS * MMA_COLUMNS];
        let mut salts: Vec<u32> = (0..32).map(|lane| item * 32 + lane).collect();
        // What the lanes have XORed into their words of the first fragment of B so far.
        let mut masks = [0; 32];
        for (i, matrix) in a.iter_mut().enumerate() {
            for_each_byte(4, |lane, register, byte| {
                let word = operand(item * 32 + lane, 4 * i as u32 + register);
                let (row, column) = A::position(lane, register, byte);
                matrix[row as usize][column as usize] =
                    i64::from(word.to_le_bytes()[byte as usize] as i8);
            });
        }
        for _ in 0..rounds {
            for (j, matrix) in b.iter_mut().enumerate() {
                for_each_byte(2, |lane, register, byte| {
                    let place = (4 * MMA_ROWS + 2 * j) as u32 + register;
                    let mask = if j == 0 { masks[lane as usize] } else { 0 };
                    let word = operand(item * 32 + lane, place) ^ mask;
                    let (row, column) = B::position(lane, register, byte);
                    matrix[row as usize][column as usize] =
                        i64::from(word.to_le_bytes()[byte as usize]);
                });
            }
            for (tile, sum) in sums.iter_mut().enumerate() {
                let (a, b) = (&a[tile / MMA_COLUMNS], &b[tile % MMA_COLUMNS]);
                for (sums, a) in sum.iter_mut().zip(a) {
                    for (column, sum) in sums.iter_mut().enumerate() {
                        *sum += a.iter().zip(b).map(|(a, b)| a * b[column]).sum::<i64>();
                    }
                }
            }
            for (mask, salt) in masks.iter_mut().zip(&mut salts) {
                *salt = next_salt(*salt);
                *mask ^= *salt;
            }
        }
        std::array::from_fn(|lane| {
            let registers = sums
                .iter()
                .flat_map(|sum| (0..4).map(move |register| (sum, register)));
            registers.fold(0u32, |fold, (sum, register)| {
                let (row, column) = C::position(lane as u32, register, 0);
                fold.rotate_left(1) ^ sum[row as usize][column as usize] as u32
            })
        })
    }

    /// Every lane, register and byte of a fragment of `registers` words.
    fn for_each_byte(registers: u32, mut visit: impl FnMut(u32, u32, u32)) {
        for lane in 0..32 {
            for register in 0..registers {
                for byte in 0..4 {
                    visit(lane, register, byte);
                }
            }
        }
    }

    /// [`super::ceiling_wgmma`](fn@super::ceiling_wgmma): the outputs of the 256 threads of one item.
    #[must_use]
    pub fn wgmma(item: u32, rounds: u32) -> [u32; WGMMA_OUTPUTS] {
        let byte = |row: usize, k: usize| {
            let word = operand(item, (row * bulk::TILE_WIDTH + k) as u32 / 4);
            word.to_le_bytes()[k % 4]
        };
        let (a, b): (Vec<Vec<i32>>, Vec<Vec<i32>>) = (
            (0..WGMMA_ROWS)
                .map(|row| {
                    (0..bulk::TILE_WIDTH)
                        .map(|k| i32::from(byte(row, k) as i8))
                        .collect()
                })
                .collect(),
            (WGMMA_ROWS..WGMMA_ROWS + WGMMA_COLUMNS)
                .map(|row| {
                    (0..bulk::TILE_WIDTH)
                        .map(|k| i32::from(byte(row, k)))
                        .collect()
                })
                .collect(),
        );
        std::array::from_fn(|thread| {
            (0..WGMMA_COLUMNS / 2).fold(0u32, |fold, register| {
                let (row, column) = wgmma::D::position(thread as u32 % 128, register as u32);
                let row = wgmma::M * (thread / 128) + row as usize;
                let dot: i32 = a[row]
                    .iter()
                    .zip(&b[column as usize])
                    .map(|(a, b)| a * b)
                    .sum();
                fold.rotate_left(1) ^ (dot as u32).wrapping_mul(rounds)
            })
        })
    }

    /// [`super::ceiling_clmad`](fn@super::ceiling_clmad): the output of one item.
    #[must_use]
    pub fn clmad(item: u32, rounds: u32) -> [u64; 2] {
        let factor =
            |i: u32| u128::from(operand(item, 2 * i)) | u128::from(operand(item, 2 * i + 1)) << 32;
        let mut sums = [0; CLMAD_CHAINS];
        let mut x = factor(CLMAD_CHAINS as u32) as u64;
        for _ in 0..rounds {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum ^= carryless(factor(i as u32), u128::from(x)).0;
            }
            x = next_factor(x);
        }
        sums.into_iter().fold([0, 0], |[low, high], sum| {
            [
                low.rotate_left(1) ^ sum as u64,
                high.rotate_left(1) ^ (sum >> 64) as u64,
            ]
        })
    }
}
