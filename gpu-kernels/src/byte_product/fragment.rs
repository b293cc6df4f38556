//! Which bytes of `D` and which words of `X` a lane feeds to which `mma.m16n8k32`.
//!
//! The planes of `X`, transposed, are the instruction's A operand and `D`, transposed, its B
//! operand, because then every operand is registers as a 16-byte load left them, and no lane has to
//! move bytes about:
//!
//! - The instruction sums over its 32 inner positions in any order, so both operands may be
//!   permuted alike along the inner dimension. A lane of group `g = lane / 4` and place `t = lane %
//!   4` wants four bytes at `4 t` and four at `16 + 4 t`; here it takes the 16 consecutive bytes at
//!   `16 t` of a *block* of 64, one access, and spends them on two instructions (*steps*).
//! - The 16 rows of A are two planes of eight columns of `X`: row `g` is the lower plane of column
//!   `g`, row `g + 8` the upper. Two instructions (*pairs* of planes) make all four planes, and
//!   their sums of one output are in one lane.
//!
//! The functions below are this map. The kernel computes its addresses and operands by them; the
//! tests hold them against the layout of the instruction.

/// Inner positions of a block: what one 16-byte access a lane and two instructions cover.
pub const BLOCK: u32 = 64;
/// Instructions along the inner dimension of a block.
pub const STEPS: usize = 2;
/// Pairs of planes: 0 and 1, 2 and 3.
pub const PAIRS: usize = 2;
/// Rows of `D` of an instruction.
pub const ROWS: u32 = 8;
/// Columns of `X` of an instruction.
pub const COLUMNS: u32 = 8;

/// The 16-byte piece of a block that this lane reads, of a row of `D` as of a column of `X`.
#[inline(always)]
#[must_use]
pub const fn piece(lane: u32) -> u32 {
    lane % 4
}

/// The row of `D`, and the column of `X`, whose piece this lane reads; of eight.
#[inline(always)]
#[must_use]
pub const fn line(lane: u32) -> u32 {
    lane / 4
}

/// The A registers of a pair and a step, from the four planes of the lane's piece of `X`.
#[inline(always)]
#[must_use]
pub const fn a_registers(pair: usize, step: usize, planes: [[u32; 4]; 4]) -> [u32; 4] {
    let (lower, upper) = (planes[2 * pair], planes[2 * pair + 1]);
    [
        lower[2 * step],
        upper[2 * step],
        lower[2 * step + 1],
        upper[2 * step + 1],
    ]
}

/// The B registers of a step, from the lane's piece of `D`.
#[inline(always)]
#[must_use]
pub const fn b_registers(step: usize, piece: [u32; 4]) -> [u32; 2] {
    [piece[2 * step], piece[2 * step + 1]]
}

/// The row of `D` of the outputs of a lane, of eight; `output` 0 or 1. Their column of `X` is
/// [`line()`].
#[inline(always)]
#[must_use]
pub const fn output_row(lane: u32, output: u32) -> u32 {
    2 * (lane % 4) + output
}

/// The sums of the four planes of an output, from the accumulators of the two pairs.
#[inline(always)]
#[must_use]
pub const fn output_sums(output: usize, pairs: [[i32; 4]; PAIRS]) -> [u32; 4] {
    [
        pairs[0][output] as u32,
        pairs[0][output + 2] as u32,
        pairs[1][output] as u32,
        pairs[1][output + 2] as u32,
    ]
}
