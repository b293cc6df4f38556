//! Products of vectors of elements, and sums of products with one reduction each.

use simt::kernel;
use simt::prelude::*;

use super::{Field128, Ghash, Polyval, Unreduced};

/// `c[i] = a[i] * b[i]` for `i` below `n`, in the natural order.
///
/// Any grid covers any `n`. `METHOD`: [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2, schoolbook_shift = 3, karatsuba_shift = 4]),
    requires(n <= a.len() as u64, n <= b.len() as u64, n <= c.len() as u64)
)]
pub fn gf128_mul<const METHOD: u32>(
    a: Global<Ghash>,
    b: Global<Ghash>,
    c: GlobalMut<Ghash>,
    n: u64,
) {
    mul::<_, METHOD>(a, b, c, n);
}

/// `c[i] = dot(a[i], b[i])` of RFC 8452 for `i` below `n`.
///
/// Any grid covers any `n`. `METHOD`: [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2, karatsuba_shift = 4]),
    requires(n <= a.len() as u64, n <= b.len() as u64, n <= c.len() as u64)
)]
pub fn polyval_mul<const METHOD: u32>(
    a: Global<Polyval>,
    b: Global<Polyval>,
    c: GlobalMut<Polyval>,
    n: u64,
) {
    mul::<_, METHOD>(a, b, c, n);
}

/// `c[i] += sum over t < terms of a[t n + i] * b[t n + i]` for `i` below `n`, in the natural order.
///
/// The products of a sum stay unreduced until its end. Any grid covers any `n`. `METHOD`:
/// [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2]),
    requires(has_terms(a.len(), n, terms), has_terms(b.len(), n, terms), n <= c.len() as u64)
)]
pub fn gf128_mul_add<const METHOD: u32>(
    a: Global<Ghash>,
    b: Global<Ghash>,
    c: GlobalMut<Ghash>,
    n: u64,
    terms: u32,
) {
    mul_add::<_, METHOD>(a, b, c, n, terms);
}

/// `c[i] += sum over t < terms of dot(a[t n + i], b[t n + i])` for `i` below `n`.
///
/// The products of a sum stay unreduced until its end. Any grid covers any `n`. `METHOD`:
/// [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2]),
    requires(has_terms(a.len(), n, terms), has_terms(b.len(), n, terms), n <= c.len() as u64)
)]
pub fn polyval_mul_add<const METHOD: u32>(
    a: Global<Polyval>,
    b: Global<Polyval>,
    c: GlobalMut<Polyval>,
    n: u64,
    terms: u32,
) {
    mul_add::<_, METHOD>(a, b, c, n, terms);
}

/// Rows of `a` that a warp of [`gf128_matmul`](fn@gf128_matmul) multiplies by.
const WARP_ROWS: usize = 4;
/// Elements of a row of `b` that a thread of [`gf128_matmul`](fn@gf128_matmul) holds.
const THREAD_COLUMNS: usize = 2;
/// Rows of the tile of `c` that a block of [`gf128_matmul`](fn@gf128_matmul) makes.
pub const MATMUL_ROWS: usize = 4 * WARP_ROWS;
/// Columns of the tile of `c` that a block of [`gf128_matmul`](fn@gf128_matmul) makes.
pub const MATMUL_COLUMNS: usize = 32 * THREAD_COLUMNS;
/// Terms that a block of [`gf128_matmul`](fn@gf128_matmul) loads at a time.
const CHUNK: usize = 8;
/// Chunks in shared memory: one that is used and others on their way.
const STAGES: usize = 3;

/// `c += a * b` for matrices in the natural order, row by row: `a` is `rows x terms`, `b` is
/// `terms x n`, `c` is `rows x n`.
///
/// A few random combinations of many vectors: tables evaluated at several points at once, the row
/// checks of code-based commitments, batched openings. Each element of `b` serves `rows` products, so
/// this is bound by the products and not by memory. A block makes a tile of 16 rows and 64 columns,
/// each of its warps four of the rows. Any grid covers any shape; [`matmul_grid`] gives a block a
/// tile. `METHOD`: [`super::method`].
#[kernel(
    block = 128,
    min_blocks = 3,
    variants(METHOD = [schoolbook = 0, karatsuba = 1]),
    requires(
        has_terms(a.len(), u64::from(rows), terms),
        has_terms(b.len(), n, terms),
        has_terms(c.len(), n, rows)
    )
)]
pub fn gf128_matmul<const METHOD: u32>(
    a: Global<Ghash>,
    b: Global<Ghash>,
    c: GlobalMut<Ghash>,
    rows: u32,
    terms: u32,
    n: u64,
) {
    let a_chunks = shared_array!(Ghash, STAGES * MATMUL_ROWS * CHUNK);
    let b_chunks = shared_array!(Ghash, STAGES * CHUNK * MATMUL_COLUMNS);
    let (rows, terms, n) = (rows as usize, terms as usize, n as usize);
    let (thread, lane) = (thread::thread_idx_x() as usize, thread::lane_id() as usize);
    let warp_row = thread::warp_id() as usize * WARP_ROWS;
    let row_tiles = rows.div_ceil(MATMUL_ROWS);
    let tiles = row_tiles * n.div_ceil(MATMUL_COLUMNS);
    let mut tile = thread::block_idx_x() as usize;
    while tile < tiles {
        let first_row = tile % row_tiles * MATMUL_ROWS;
        let first_column = tile / row_tiles * MATMUL_COLUMNS;
        tile += thread::grid_dim_x() as usize;

        // What lies outside the matrices is computed from their edges, and not written.
        let a_row = (first_row + thread / CHUNK).min(rows - 1) * terms;
        let b_column = (first_column + thread % MATMUL_COLUMNS).min(n - 1);
        let fetch = |chunk: usize| {
            let (first, stage) = (chunk * CHUNK, chunk % STAGES);
            let term = first + thread % CHUNK;
            if term < terms {
                let to = stage * MATMUL_ROWS * CHUNK + thread;
                cp_async::copy16(a_chunks, to, a, a_row + term);
            }
            for i in 0..CHUNK * MATMUL_COLUMNS / 128 {
                let place = thread + 128 * i;
                let term = first + place / MATMUL_COLUMNS;
                if term < terms {
                    let to = stage * CHUNK * MATMUL_COLUMNS + place;
                    cp_async::copy16(b_chunks, to, b, term * n + b_column);
                }
            }
            cp_async::commit();
        };

        let mut sums = [[Unreduced::<Ghash, METHOD>::ZERO; THREAD_COLUMNS]; WARP_ROWS];
        // No warp is still at the last chunk of the tile before.
        thread::sync_threads();
        for chunk in 0..STAGES - 1 {
            fetch(chunk);
        }
        for chunk in 0..terms.div_ceil(CHUNK) {
            cp_async::wait_group::<{ STAGES - 2 }>();
            // The chunk has come for all threads, and all are done with the one before, whose place
            // the next one takes.
            thread::sync_threads();
            fetch(chunk + STAGES - 1);
            let stage = chunk % STAGES;
            let factors = a_chunks.offset((stage * MATMUL_ROWS + warp_row) * CHUNK);
            let elements = b_chunks.offset(stage * CHUNK * MATMUL_COLUMNS + lane);
            for t in 0..(terms - chunk * CHUNK).min(CHUNK) {
                let mut column = [Ghash::ZERO; THREAD_COLUMNS];
                for j in 0..THREAD_COLUMNS {
                    column[j] = elements.read(t * MATMUL_COLUMNS + 32 * j);
                }
                for k in 0..WARP_ROWS {
                    let factor = factors.read(k * CHUNK + t);
                    for j in 0..THREAD_COLUMNS {
                        sums[k][j] = sums[k][j].add_product(factor, column[j]);
                    }
                }
            }
        }
        for k in 0..WARP_ROWS {
            for j in 0..THREAD_COLUMNS {
                let (row, column) = (first_row + warp_row + k, first_column + lane + 32 * j);
                if row < rows && column < n {
                    let at = row * n + column;
                    c.write(at, c.read(at) + sums[k][j].reduce());
                }
            }
        }
    }
    cp_async::wait_all();
}

/// A block for each tile of the result of [`gf128_matmul`](fn@gf128_matmul), as far as a grid reaches.
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub fn matmul_grid(rows: u32, n: u64) -> simt::launch::Grid {
    let row_tiles = u64::from(rows).div_ceil(MATMUL_ROWS as u64);
    let tiles = row_tiles.saturating_mul(n.div_ceil(MATMUL_COLUMNS as u64));
    simt::launch::Grid::x(tiles.clamp(1, i32::MAX as u64) as u32)
}

/// Whether `len` elements are enough for `terms` times `n` of them.
#[cfg(not(target_arch = "nvptx64"))]
fn has_terms(len: usize, n: u64, terms: u32) -> bool {
    n.checked_mul(u64::from(terms))
        .is_some_and(|elements| elements <= len as u64)
}

#[inline(always)]
fn mul<F: Field128, const METHOD: u32>(a: Global<F>, b: Global<F>, c: GlobalMut<F>, n: u64) {
    for i in grid::stride::<1>(n as usize) {
        c.write(i, a.read(i).mul_with::<METHOD>(b.read(i)));
    }
}

#[inline(always)]
fn mul_add<F: Field128, const METHOD: u32>(
    a: Global<F>,
    b: Global<F>,
    c: GlobalMut<F>,
    n: u64,
    terms: u32,
) {
    for i in grid::stride::<1>(n as usize) {
        let mut sum = Unreduced::<F, METHOD>::ZERO;
        let mut at = i;
        for _ in 0..terms {
            sum = sum.add_product(a.read(at), b.read(at));
            at += n as usize;
        }
        c.write(i, c.read(i) + sum.reduce());
    }
}
