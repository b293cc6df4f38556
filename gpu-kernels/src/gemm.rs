//! Batched modular matrix product: `C[p] = A[p] * B[p] mod q`, one product per point `p`.
//!
//! This is the shape of ring packing and of row selection after a transform: for each of `primes * N` points of a
//! [`crate::ntt`] batch, one small matrix product modulo the prime of that point.
//!
//! # Data
//!
//! All matrices are row-major words: `A` is `[points][M][K]`, `B` `[points][K][N]`, `C` `[points][M][N]`. Point `p` belongs to
//! modulus `p / points_per_modulus`. Entries of `A` and `B` are residues; an entry that is not makes its products wrong, because
//! the sums below may wrap.
//!
//! # Lazy sums
//!
//! A `u64` takes the sum of [`LAZY_PRODUCTS`] products of two residues on top of a folded value
//! ([`Modulus::fold`]), for every modulus below 2^29; the proof stands beside that constant. So an
//! accumulator is folded after every `TILES_PER_FOLD` tiles, and reduced once, at the end.

use simt::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use simt::launch::Grid;
use simt::prelude::*;

use crate::arith::{LAZY_PRODUCTS, Modulus};

/// Threads along each side of a block: a block is `SIDE * SIDE` threads.
const SIDE: usize = 16;
/// Rows of `C` that a thread computes.
const ROWS: usize = 4;
/// Rows of `C` that a block computes.
const TILE_M: usize = SIDE * ROWS;
/// Columns of `A` that a block holds at a time.
const TILE_K: usize = 8;
/// Words between two columns of the tile of `A`, which is kept transposed: 4 mod 32, so that the eight columns that a warp
/// writes at once fall into different banks; a multiple of 4, so that 16-byte reads stay aligned.
const COLUMN: usize = TILE_M + 4;
/// Tiles of `TILE_K` products between two folds.
const TILES_PER_FOLD: usize = LAZY_PRODUCTS / TILE_K;
const _: () = assert!(TILES_PER_FOLD >= 1 && TILES_PER_FOLD * TILE_K <= LAZY_PRODUCTS);

/// The grid of a product: a block for each tile of each `C[p]`, the tiles of a point one after the other.
///
/// `columns` is the `COLUMNS` of the variant. `None` if `C` is empty (nothing to launch) or has more than 2^31 - 1 tiles.
#[cfg(not(target_arch = "nvptx64"))]
pub fn grid(points: u32, m: u32, n: u32, columns: usize) -> Option<Grid> {
    let tiles = u128::from(m.div_ceil(TILE_M as u32))
        * u64::from(n).div_ceil((SIDE * columns.max(1)) as u64) as u128;
    let blocks = u32::try_from(tiles * u128::from(points)).ok()?;
    (1..=i32::MAX as u32)
        .contains(&blocks)
        .then_some(Grid::x(blocks))
}

/// How many points `grid` covers: 0 unless it is a whole number of them.
#[cfg(not(target_arch = "nvptx64"))]
fn points(grid: Grid, m: u32, n: u32, columns: usize) -> u32 {
    let of_one = self::grid(1, m, n, columns).map_or(0, |grid| grid.x);
    if of_one == 0 || grid.y != 1 || grid.z != 1 || !grid.x.is_multiple_of(of_one) {
        return 0;
    }
    grid.x / of_one
}

/// Whether `words` words are `points` matrices of `rows * columns` words.
#[cfg(not(target_arch = "nvptx64"))]
fn are(words: usize, points: u32, rows: u32, columns: u32) -> bool {
    words as u128 == u128::from(points) * u128::from(rows) * u128::from(columns)
}

/// `C[p] = A[p] * B[p] mod q`: an `M x K` by `K x N` product for each point. `K = 0` gives zeros.
///
/// The number of points is that of [`grid`](fn@grid); the buffers hold exactly their matrices. A block computes 64 x `16 COLUMNS` entries
/// of `C`, a thread 4 x `COLUMNS`.
#[kernel(
    block = SIDE * SIDE,
    variants(COLUMNS = [1, 4]),
    requires(
        points(grid, m, n, COLUMNS) > 0,
        are(a.len(), points(grid, m, n, COLUMNS), m, k),
        are(b.len(), points(grid, m, n, COLUMNS), k, n),
        are(c.len(), points(grid, m, n, COLUMNS), m, n),
        points_per_modulus > 0,
        points(grid, m, n, COLUMNS).div_ceil(points_per_modulus) as usize <= moduli.len(),
    )
)]
pub fn modular_gemm<const COLUMNS: usize>(
    a: Global<u32>,
    b: Global<u32>,
    c: GlobalMut<u32>,
    moduli: Global<Modulus>,
    points_per_modulus: u32,
    m: u32,
    k: u32,
    n: u32,
) {
    let tile_a = shared_array!(u32, TILE_K * COLUMN);
    let tile_b = shared_array!(u32, TILE_K * SIDE * COLUMNS);
    let (m, k, n) = (m as usize, k as usize, n as usize);
    let tile_n = SIDE * COLUMNS;
    let thread = thread::thread_idx_x() as usize;
    // This thread's entries of the tile of C.
    let (row, column) = (thread / SIDE * ROWS, thread % SIDE * COLUMNS);
    // Which tile of which point: 32-bit divisions, as a grid is below 2^31 blocks.
    let (down, across) = (
        (m as u32).div_ceil(TILE_M as u32),
        (n as u32).div_ceil(tile_n as u32),
    );
    let block = thread::block_idx_x();
    let (top, left) = (
        (block / across % down) as usize * TILE_M,
        (block % across) as usize * tile_n,
    );
    let point = block / across / down;
    let q = moduli.read_nc((point / points_per_modulus) as usize);
    let point = point as usize;
    let (a, b, c) = (
        a.offset(point * m * k),
        b.offset(point * k * n),
        c.offset(point * m * n),
    );

    let mut sums = [[0u64; COLUMNS]; ROWS];
    let mut until_fold = TILES_PER_FOLD;
    let mut start = 0;
    while start < k {
        // Words beyond the matrices count as 0.
        for piece in 0..TILE_M * TILE_K / (SIDE * SIDE) {
            let index = thread + piece * SIDE * SIDE;
            let (i, j) = (index / TILE_K, index % TILE_K);
            let inside = top + i < m && start + j < k;
            let word = if inside {
                a.read((top + i) * k + start + j)
            } else {
                0
            };
            tile_a.write(j * COLUMN + i, word);
        }
        let mut index = thread;
        while index < TILE_K * tile_n {
            let (i, j) = (index / tile_n, index % tile_n);
            let inside = start + i < k && left + j < n;
            let word = if inside {
                b.read((start + i) * n + left + j)
            } else {
                0
            };
            tile_b.write(index, word);
            index += SIDE * SIDE;
        }
        thread::sync_threads();
        for i in 0..TILE_K {
            let x = tile_a.cast::<U32x4>().read((i * COLUMN + row) / ROWS).0;
            let mut y = [0; COLUMNS];
            if COLUMNS == 4 {
                let quad = tile_b.cast::<U32x4>().read((i * tile_n + column) / 4).0;
                for j in 0..COLUMNS {
                    y[j] = quad[j];
                }
            } else {
                for j in 0..COLUMNS {
                    y[j] = tile_b.read(i * tile_n + column + j);
                }
            }
            for r in 0..ROWS {
                for j in 0..COLUMNS {
                    sums[r][j] = int::mad_wide(x[r], y[j], sums[r][j]);
                }
            }
        }
        thread::sync_threads();
        start += TILE_K;
        until_fold -= 1;
        if until_fold == 0 {
            until_fold = TILES_PER_FOLD;
            sums = sums.map(|row| row.map(|sum| q.fold(sum)));
        }
    }
    for r in 0..ROWS {
        for j in 0..COLUMNS {
            let (i, j, sum) = (top + row + r, left + column + j, sums[r][j]);
            if i < m && j < n {
                c.write(i * n + j, q.reduce_u64(sum));
            }
        }
    }
}

/// The same product with `u128` sums and one `%` an entry, sharing nothing with the kernel.
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference {
    /// `A * B mod q` of a row-major `m x k` and a `k x n` matrix, row-major.
    pub fn modular_product(
        a: &[u32],
        b: &[u32],
        (m, k, n): (usize, usize, usize),
        q: u32,
    ) -> Vec<u32> {
        let entry = |i: usize, j: usize| -> u128 {
            (0..k)
                .map(|l| u128::from(a[i * k + l]) * u128::from(b[l * n + j]))
                .sum()
        };
        (0..m * n)
            .map(|at| (entry(at / n, at % n) % u128::from(q)) as u32)
            .collect()
    }
}
