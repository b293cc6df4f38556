//! The kernels: `dp4a` for one column, tensor cores for many.

use simt::kernel;
use simt::prelude::*;

use super::{Shape, fragment, planes};

/// All lanes of a warp.
const WARP: u32 = u32::MAX;

/// The byte planes of the 16 words of `X` from `inner` on in the column that starts at `start`,
/// both counted in words: `[plane][four bytes]`. Words at or past `end`, the shape's `inner`, count
/// as zero.
#[inline(always)]
fn load_planes(x: Global<U32x4>, start: usize, inner: u32, end: u32) -> [[u32; 4]; 4] {
    let mut piece = [[0; 4]; 4];
    for quarter in 0..4 {
        let first = inner + 4 * quarter;
        let mut words = [0; 4];
        if first < end {
            words = x.read_nc((start + first as usize) / 4).0;
            for i in 1..4 {
                if first + i >= end {
                    words[i as usize] = 0;
                }
            }
        }
        let split = planes::split(words);
        for plane in 0..4 {
            piece[plane][quarter as usize] = split[plane];
        }
    }
    piece
}

/// `Y = D x` for one column: `y[row] = sum over k of D[row][k] * x[k]`, modulo 2^32.
///
/// A warp takes `ROWS` rows at a time, a lane 16 consecutive bytes of each and the 16 words that
/// meet them, so that the words and their planes serve `ROWS` rows. Any grid covers any number of
/// rows; [`Shape::matvec_blocks`] is the most that has work. Layout and strides: [`Shape`].
#[kernel(
    block = 256,
    variants(SIGNED = [signed = true, unsigned = false], ROWS = [4, 8]),
    requires(
        shape.is_valid(),
        shape.columns == 1,
        shape.database_len() <= database.len() as u64,
        shape.x_len() <= x.len() as u64,
        shape.y_len() <= y.len() as u64,
    )
)]
pub fn byte_matvec<const SIGNED: bool, const ROWS: usize>(
    database: Global<u8>,
    x: Global<u32>,
    y: GlobalMut<u32>,
    shape: Shape,
) {
    let (database, x) = (database.cast::<U32x4>(), x.cast::<U32x4>());
    let rows = shape.rows as usize;
    let row_pieces = shape.database_stride as usize / 16;
    let lane = thread::lane_id();
    let warps = grid::global_size() / 32;
    let mut first_row = grid::global_id() / 32 * ROWS;
    while first_row < rows {
        let mut sums = [[0u32; 4]; ROWS];
        let mut inner = 16 * lane;
        while inner < shape.inner {
            let mut pieces = [[0; 4]; ROWS];
            for r in 0..ROWS {
                // Past the last row: the last row again, and its sum thrown away.
                let row = (first_row + r).min(rows - 1);
                pieces[r] = database
                    .read_stream(row * row_pieces + inner as usize / 16)
                    .0;
            }
            let planes = load_planes(x, 0, inner, shape.inner);
            for r in 0..ROWS {
                for plane in 0..4 {
                    for i in 0..4 {
                        let sum = &mut sums[r][plane];
                        *sum = if SIGNED {
                            int::dp4a_s8u8(pieces[r][i], planes[plane][i], *sum as i32) as u32
                        } else {
                            int::dp4a_u8u8(pieces[r][i], planes[plane][i], *sum)
                        };
                    }
                }
            }
            inner += 16 * 32;
        }
        let mut mine = 0;
        for r in 0..ROWS {
            let total = warp::reduce_add(WARP, planes::join(sums[r]));
            if lane == r as u32 {
                mine = total;
            }
        }
        let row = first_row + lane as usize;
        if (lane as usize) < ROWS && row < rows {
            y.write(row, mine);
        }
        first_row += warps * ROWS;
    }
}

/// Rows of `D` that a block of [`byte_matmul`](fn@byte_matmul) multiplies at a time: 32 for each of
/// its 8 warps.
pub const MATMUL_ROWS: u32 = 8 * WARP_ROWS;
/// Rows of `D` that a warp multiplies at a time.
const WARP_ROWS: u32 = ROW_TILES as u32 * fragment::ROWS;
const ROW_TILES: usize = 4;
/// Pieces of `X` in a chunk: one for each thread to split.
const PIECES: usize = 256;
/// A fragments that a piece becomes.
const FRAGMENTS: usize = fragment::PAIRS * fragment::STEPS;

/// `Y = D X` on tensor cores: `y[column][row] = sum over k of D[row][k] * x[column][k]`, modulo
/// 2^32.
///
/// A block multiplies [`MATMUL_ROWS`] rows by `8 COLUMN_TILES` columns. It goes along the inner
/// dimension in chunks: each thread splits one piece of `X` into planes and leaves them in shared
/// memory as the A fragments of the lane that will want them; then each warp loads its B fragments
/// from `D`, 16 bytes a lane and with no detour, and multiplies them by all four planes of all
/// columns. The four sums of an output meet in one thread, which joins them. How lanes and bytes go
/// together is in [`fragment`].
///
/// Any grid covers any size; [`Shape::matmul_blocks`] is the most that has work. Blocks that follow
/// one another share rows, so that with more columns than a block has `D` is found in the L2.
/// Layout and strides: [`Shape`].
#[kernel(
    block = 256,
    variants(SIGNED = [signed = true, unsigned = false], COLUMN_TILES = [1, 4]),
    requires(
        shape.is_valid(),
        shape.database_len() <= database.len() as u64,
        shape.x_len() <= x.len() as u64,
        shape.y_len() <= y.len() as u64,
    )
)]
pub fn byte_matmul<const SIGNED: bool, const COLUMN_TILES: usize>(
    database: Global<u8>,
    x: Global<u32>,
    y: GlobalMut<u32>,
    shape: Shape,
) {
    // [parity of the chunk][tile of 32 pieces][pair and step][lane]: a warp reads or writes 512
    // consecutive bytes.
    let shared = shared_array!(U32x4, 2 * PIECES * FRAGMENTS);
    let slot = |parity: usize, tile: usize, pair: usize, step: usize, lane: u32| {
        let fragment = fragment::STEPS * pair + step;
        ((parity * (PIECES / 32) + tile) * FRAGMENTS + fragment) * 32 + lane as usize
    };
    let mut parity = 0;
    let chunk_blocks = PIECES / 32 / COLUMN_TILES;
    let chunk_inner = chunk_blocks as u32 * fragment::BLOCK;

    let (database, x) = (database.cast::<U32x4>(), x.cast::<U32x4>());
    let row_pieces = shape.database_stride as usize / 16;
    let (warp, lane) = (thread::thread_idx_x() / 32, thread::lane_id());

    let tile_columns = COLUMN_TILES as u32 * fragment::COLUMNS;
    let column_tiles = u64::from(shape.columns.div_ceil(tile_columns));
    let tiles = u64::from(shape.rows.div_ceil(MATMUL_ROWS)) * column_tiles;
    let chunks = shape.inner.div_ceil(chunk_inner);

    // The piece of X that this thread splits: its column in the tile, its place in the chunk.
    let (split_block, split_tile) = (warp / COLUMN_TILES as u32, warp % COLUMN_TILES as u32);
    let split_column = split_tile * fragment::COLUMNS + fragment::line(lane);
    let split_inner = split_block * fragment::BLOCK + 16 * fragment::piece(lane);

    let mut tile = u64::from(thread::block_idx_x());
    while tile < tiles {
        let first_row = (tile / column_tiles) as u32 * MATMUL_ROWS + warp * WARP_ROWS;
        let first_column = (tile % column_tiles) as u32 * tile_columns;
        // [column tile][row tile][pair][register]
        let mut sums = [[[[0i32; 4]; fragment::PAIRS]; ROW_TILES]; COLUMN_TILES];

        for chunk in 0..chunks {
            let column = first_column + split_column;
            let mut planes = [[0; 4]; 4];
            if column < shape.columns {
                let start = column as usize * shape.x_stride as usize;
                planes = load_planes(x, start, chunk * chunk_inner + split_inner, shape.inner);
            }
            for pair in 0..fragment::PAIRS {
                for step in 0..fragment::STEPS {
                    let a = fragment::a_registers(pair, step, planes);
                    shared.write(slot(parity, warp as usize, pair, step, lane), U32x4(a));
                }
            }
            // One barrier a chunk is enough: what is overwritten next was read before this one.
            thread::sync_threads();

            if first_row < shape.rows {
                for block in 0..chunk_blocks {
                    let inner = chunk * chunk_inner
                        + block as u32 * fragment::BLOCK
                        + 16 * fragment::piece(lane);
                    let mut pieces = [[0; 4]; ROW_TILES];
                    if inner < shape.inner {
                        for row_tile in 0..ROW_TILES {
                            // Past the last row: the last row again, and its sums thrown away.
                            let row =
                                first_row + row_tile as u32 * fragment::ROWS + fragment::line(lane);
                            let row = row.min(shape.rows - 1) as usize;
                            pieces[row_tile] =
                                database.read_nc(row * row_pieces + inner as usize / 16).0;
                        }
                    }
                    for column_tile in 0..COLUMN_TILES {
                        for pair in 0..fragment::PAIRS {
                            for step in 0..fragment::STEPS {
                                let tile = block * COLUMN_TILES + column_tile;
                                let a = shared.read(slot(parity, tile, pair, step, lane)).0;
                                for row_tile in 0..ROW_TILES {
                                    let b = fragment::b_registers(step, pieces[row_tile]);
                                    let sum = &mut sums[column_tile][row_tile][pair];
                                    if SIGNED {
                                        mma::m16n8k32::u8s8(sum, a, b);
                                    } else {
                                        mma::m16n8k32::u8u8(sum, a, b);
                                    }
                                }
                            }
                        }
                    }
                }
            }
            parity ^= 1;
        }

        for column_tile in 0..COLUMN_TILES {
            let column =
                first_column + column_tile as u32 * fragment::COLUMNS + fragment::line(lane);
            for row_tile in 0..ROW_TILES {
                for output in 0..2 {
                    let row = row_tile as u32 * fragment::ROWS + fragment::output_row(lane, output);
                    let row = first_row + row;
                    if row < shape.rows && column < shape.columns {
                        let word = planes::join(fragment::output_sums(
                            output as usize,
                            sums[column_tile][row_tile],
                        ));
                        y.write(
                            column as usize * shape.y_stride as usize + row as usize,
                            word,
                        );
                    }
                }
            }
        }
        tile += u64::from(thread::grid_dim_x());
    }
}
