//! What warp operations make of the registers their lanes bring.

use crate::thread::WARP;

/// Registers a lane brings to a warp operation and takes from it.
///
/// A value goes in and comes out in the first one or two; a shuffle's lane argument is the third; an `mma`
/// brings four words of A, two of B and four sums, and takes four sums.
pub(crate) type Registers = [u32; 10];

/// A warp operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Sync,
    Shuffle(Shuffle),
    Ballot,
    Any,
    All,
    Reduce(Reduction),
    Ldmatrix { count: u8, transposed: bool },
    Mma(Signs),
}

/// Where a shuffle reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shuffle {
    Index,
    Up,
    Down,
    Xor,
}

/// How a reduction joins two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Signedness of the operands of an `mma`, A first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signs {
    SS,
    SU,
    US,
    UU,
}

impl Operation {
    /// Whether every lane of the warp must come, by the same call (`.aligned`).
    pub(crate) fn is_aligned(self) -> bool {
        matches!(self, Self::Ldmatrix { .. } | Self::Mma(_))
    }

    /// The word of the vocabulary, for a fault.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync_warp",
            Self::Shuffle(Shuffle::Index) => "shuffle",
            Self::Shuffle(Shuffle::Up) => "shuffle_up",
            Self::Shuffle(Shuffle::Down) => "shuffle_down",
            Self::Shuffle(Shuffle::Xor) => "shuffle_xor",
            Self::Ballot => "ballot",
            Self::Any => "any",
            Self::All => "all",
            Self::Reduce(Reduction::Add) => "reduce_add",
            Self::Reduce(Reduction::Min) => "reduce_min",
            Self::Reduce(Reduction::Max) => "reduce_max",
            Self::Reduce(Reduction::And) => "reduce_and",
            Self::Reduce(Reduction::Or) => "reduce_or",
            Self::Reduce(Reduction::Xor) => "reduce_xor",
            Self::Ldmatrix { .. } => "ldmatrix",
            Self::Mma(_) => "mma",
        }
    }

    /// Performs the operation for the lanes of `members` on the warp's 32 sets of registers.
    ///
    /// Fails with the reason if a lane asks for what is undefined.
    pub(crate) fn perform(
        self,
        members: u32,
        warp: &mut [Registers; WARP as usize],
    ) -> Result<(), String> {
        match self {
            Self::Sync => {}
            Self::Shuffle(mode) => shuffle(mode, members, warp)?,
            Self::Ballot | Self::Any | Self::All => {
                let votes =
                    lanes(members).fold(0, |votes, lane| votes | warp[lane as usize][0] << lane);
                let result = match self {
                    Self::Ballot => votes,
                    Self::Any => u32::from(votes != 0),
                    _ => u32::from(votes == members),
                };
                broadcast(result, members, warp);
            }
            Self::Reduce(mode) => {
                let values = lanes(members).map(|lane| warp[lane as usize][0]);
                let result = match mode {
                    Reduction::Add => values.fold(0, u32::wrapping_add),
                    Reduction::Min => values.fold(u32::MAX, u32::min),
                    Reduction::Max => values.fold(0, u32::max),
                    Reduction::And => values.fold(u32::MAX, |a, b| a & b),
                    Reduction::Or => values.fold(0, |a, b| a | b),
                    Reduction::Xor => values.fold(0, |a, b| a ^ b),
                };
                broadcast(result, members, warp);
            }
            Self::Ldmatrix { count, transposed } => distribute(count as usize, transposed, warp),
            Self::Mma(Signs::SS) => multiply::<true, true>(warp),
            Self::Mma(Signs::SU) => multiply::<true, false>(warp),
            Self::Mma(Signs::US) => multiply::<false, true>(warp),
            Self::Mma(Signs::UU) => multiply::<false, false>(warp),
        }
        Ok(())
    }
}

/// The lanes of a mask, ascending.
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < WARP).then_some(lane)
    })
}

fn broadcast(result: u32, members: u32, warp: &mut [Registers; WARP as usize]) {
    for lane in lanes(members) {
        warp[lane as usize][0] = result;
    }
}

fn shuffle(
    mode: Shuffle,
    members: u32,
    warp: &mut [Registers; WARP as usize],
) -> Result<(), String> {
    let values = (*warp).map(|registers| [registers[0], registers[1]]);
    for lane in lanes(members) {
        let argument = warp[lane as usize][2] % WARP;
        let source = match mode {
            Shuffle::Index => argument,
            Shuffle::Up => lane.checked_sub(argument).unwrap_or(lane),
            Shuffle::Down if lane + argument < WARP => lane + argument,
            Shuffle::Down => lane,
            Shuffle::Xor => lane ^ argument,
        };
        if members >> source & 1 == 0 {
            return Err(format!(
                "lane {lane} reads lane {source}, which takes no part"
            ));
        }
        warp[lane as usize][..2].copy_from_slice(&values[source as usize]);
    }
    Ok(())
}

/// `ldmatrix`: lane `8 m + r` brought row `r` of matrix `m` in its first four registers.
fn distribute(count: usize, transposed: bool, warp: &mut [Registers; WARP as usize]) {
    let rows = (*warp).map(|registers| [registers[0], registers[1], registers[2], registers[3]]);
    for (lane, registers) in warp.iter_mut().enumerate() {
        for (matrix, word) in registers[..count].iter_mut().enumerate() {
            let element = |row: usize, column: usize| {
                rows[8 * matrix + row][column / 2] >> (16 * (column % 2)) & 0xffff
            };
            let (line, pair) = (lane / 4, 2 * (lane % 4));
            *word = if transposed {
                element(pair, line) | element(pair + 1, line) << 16
            } else {
                element(line, pair) | element(line, pair + 1) << 16
            };
        }
    }
}

/// The product of an `mma.m16n8k32`.
///
/// The layout is written out here a second time, word-wise, for speed; a test holds it against
/// [`crate::mma::m16n8k32`].
fn multiply<const A_SIGNED: bool, const B_SIGNED: bool>(warp: &mut [Registers; WARP as usize]) {
    // Rows of A and columns of B as words of four bytes along k.
    let mut a = [[0u32; 8]; 16];
    let mut b = [[0u32; 8]; 8];
    for (lane, registers) in warp.iter().enumerate() {
        let (group, quad) = (lane / 4, lane % 4);
        a[group][quad] = registers[0];
        a[group + 8][quad] = registers[1];
        a[group][quad + 4] = registers[2];
        a[group + 8][quad + 4] = registers[3];
        b[group][quad] = registers[4];
        b[group][quad + 4] = registers[5];
    }
    let a = a.map(|row| widen::<A_SIGNED>(&row));
    let b = b.map(|column| widen::<B_SIGNED>(&column));
    for (lane, registers) in warp.iter_mut().enumerate() {
        for register in 0..4 {
            let (row, column) = (lane / 4 + 8 * (register / 2), 2 * (lane % 4) + register % 2);
            registers[register] = registers[6 + register].wrapping_add(dot(&a[row], &b[column]));
        }
    }
}

fn widen<const SIGNED: bool>(words: &[u32; 8]) -> [i16; 32] {
    let bytes: &[u8; 32] = bytemuck::cast_ref(words);
    bytes.map(|byte| {
        if SIGNED {
            i16::from(byte as i8)
        } else {
            i16::from(byte)
        }
    })
}

/// 32 products below 2^16 in magnitude: the sum is exact.
fn dot(a: &[i16; 32], b: &[i16; 32]) -> u32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| i32::from(*a) * i32::from(*b))
        .sum::<i32>() as u32
}
