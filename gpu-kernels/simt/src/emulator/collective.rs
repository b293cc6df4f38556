//! Warp operations: lanes meet, bring registers, and take what is made of them.

use std::panic::Location;
use std::ptr;

use crate::thread::{FULL_MASK, WARP};

/// Registers a lane brings to a warp operation and takes from it.
///
/// A value goes in and comes out in the first one or two; a shuffle's lane argument is the third. An
/// `mma` brings four sums, four words of A and two of B, and takes four sums; a `wgmma` brings four words of A
/// and takes those of its quad.
type Registers = [u32; 16];

/// How a lane came to a warp operation.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) mask: u32,
    pub(crate) location: &'static Location<'static>,
}

impl Call {
    /// Whether two lanes that came like this meet.
    #[inline(always)]
    fn meets(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.mask == other.mask
            && (!self.operation.is_aligned()
                || ptr::eq(self.location, other.location)
                || self.location == other.location)
    }
}

/// The lanes of a warp that wait for each other.
pub(crate) struct Warp {
    /// Lanes that exist: the last warp of a block may be short.
    present: u32,
    /// Lanes that wait.
    arrived: u32,
    /// Whether all lanes that wait came like the first one. If so nobody needs to look at `calls`.
    alike: bool,
    first: Option<Call>,
    calls: [Option<Call>; WARP as usize],
    registers: [Registers; WARP as usize],
}

impl Warp {
    /// A warp of the first `threads` lanes, at most all.
    pub(crate) fn new(threads: u32) -> Self {
        Self {
            present: FULL_MASK >> (WARP - threads.min(WARP)),
            arrived: 0,
            alike: true,
            first: None,
            calls: [None; WARP as usize],
            registers: [[0; 16]; WARP as usize],
        }
    }

    /// Forgets who waits.
    pub(crate) fn clear(&mut self) {
        self.arrived = 0;
    }

    /// The short way: `lane` comes like those before it, and is neither the first nor the last. Otherwise
    /// nothing happens.
    #[inline(always)]
    pub(crate) fn join(&mut self, lane: u32, call: &Call, brought: &[u32]) -> bool {
        let arrived = self.arrived | 1 << lane;
        let members = call.mask & self.present;
        let joins = self.arrived != 0
            && self.alike
            && members >> lane & 1 == 1
            && arrived & members != members
            && self.first.as_ref().is_some_and(|first| first.meets(call));
        if joins {
            self.registers[lane as usize][..brought.len()].copy_from_slice(brought);
            self.calls[lane as usize] = Some(*call);
            self.arrived = arrived;
        }
        joins
    }

    /// `lane` comes by `call` and brings registers. If it was the last one, performs the operation and
    /// gives the lanes that may go on.
    pub(crate) fn arrive(
        &mut self,
        lane: u32,
        call: Call,
        brought: &[u32],
    ) -> Result<Option<u32>, String> {
        let Call {
            operation, mask, ..
        } = call;
        if mask >> lane & 1 == 0 {
            return Err(format!(
                "lane {lane} is not in the mask {mask:#010x} it gave"
            ));
        }
        if operation.is_aligned() && self.present != FULL_MASK {
            return Err(format!(
                "{} in a warp of {} threads",
                operation.name(),
                self.present.count_ones()
            ));
        }
        self.registers[lane as usize][..brought.len()].copy_from_slice(brought);
        self.calls[lane as usize] = Some(call);
        match &self.first {
            Some(first) if self.arrived != 0 => self.alike &= first.meets(&call),
            _ => (self.first, self.alike) = (Some(call), true),
        }
        self.arrived |= 1 << lane;
        let members = mask & self.present;
        let meets = |lane: u32| self.calls[lane as usize].is_some_and(|other| other.meets(&call));
        if self.arrived & members != members || !self.alike && !lanes(members).all(meets) {
            return Ok(None);
        }
        self.arrived &= !members;
        operation.perform(members, &mut self.registers)?;
        Ok(Some(members))
    }

    /// What the last operation made for `lane`.
    #[inline(always)]
    pub(crate) fn taken<const TAKEN: usize>(&self, lane: u32) -> [u32; TAKEN] {
        std::array::from_fn(|i| self.registers[lane as usize][i])
    }

    /// The lanes that wait, and how they came.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, Call)> {
        lanes(self.arrived).filter_map(|lane| Some((lane, self.calls[lane as usize]?)))
    }
}

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
    Wgmma,
    WgmmaRegisters,
    WgmmaWait,
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
        matches!(
            self,
            Self::Ldmatrix { .. }
                | Self::Mma(_)
                | Self::Wgmma
                | Self::WgmmaRegisters
                | Self::WgmmaWait
        )
    }

    /// Whether what lanes wrote before it is seen by the others after it. Shuffles, votes and reductions
    /// exchange registers only.
    pub(crate) fn orders_memory(self) -> bool {
        self == Self::Sync
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
            Self::Wgmma | Self::WgmmaRegisters => "wgmma",
            Self::WgmmaWait => "wgmma::wait_group",
        }
    }

    /// Performs the operation for the lanes of `members` on the warp's 32 sets of registers.
    ///
    /// Fails with the reason if a lane asks for what is undefined.
    fn perform(self, members: u32, warp: &mut [Registers; WARP as usize]) -> Result<(), String> {
        match self {
            Self::Sync | Self::Wgmma | Self::WgmmaWait => {}
            Self::WgmmaRegisters => gather(warp),
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

/// `wgmma`: each lane gets the four words of each lane of its quad.
fn gather(warp: &mut [Registers; WARP as usize]) {
    for quad in warp.as_chunks_mut::<4>().0 {
        let mut all = [0; 16];
        for (words, registers) in all.chunks_mut(4).zip(&*quad) {
            words.copy_from_slice(&registers[..4]);
        }
        quad.fill(all);
    }
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
    for group in 0..8 {
        for quad in 0..4 {
            let registers = &warp[4 * group + quad];
            a[group][quad] = registers[4];
            a[group + 8][quad] = registers[5];
            a[group][quad + 4] = registers[6];
            a[group + 8][quad + 4] = registers[7];
            b[group][quad] = registers[8];
            b[group][quad + 4] = registers[9];
        }
    }
    let b = b.map(widen::<B_SIGNED>);
    for (row, words) in a.into_iter().enumerate() {
        let sums = dots(&widen::<A_SIGNED>(words), &b);
        for quad in 0..4 {
            let registers = &mut warp[4 * (row % 8) + quad];
            for j in 0..2 {
                let sum = &mut registers[2 * (row / 8) + j];
                *sum = sum.wrapping_add(sums[2 * quad + j] as u32);
            }
        }
    }
}

/// 32 bytes along k as 16-bit numbers, in an order of its own.
#[cfg(target_arch = "x86_64")]
pub(super) type Widened = [std::arch::x86_64::__m128i; 4];

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn widen<const SIGNED: bool>(words: [u32; 8]) -> Widened {
    use std::arch::x86_64::{
        _mm_cmpgt_epi8, _mm_setzero_si128, _mm_unpackhi_epi8, _mm_unpacklo_epi8,
    };
    let [low, high] = bytemuck::cast::<[u32; 8], [std::arch::x86_64::__m128i; 2]>(words);
    // SAFETY: every x86-64 has SSE2.
    unsafe {
        let zero = _mm_setzero_si128();
        let upper = |bytes| {
            if SIGNED {
                _mm_cmpgt_epi8(zero, bytes)
            } else {
                zero
            }
        };
        [
            _mm_unpacklo_epi8(low, upper(low)),
            _mm_unpackhi_epi8(low, upper(low)),
            _mm_unpacklo_epi8(high, upper(high)),
            _mm_unpackhi_epi8(high, upper(high)),
        ]
    }
}

/// Dot products of a row with eight columns. 32 products below 2^16 in magnitude: the sums are exact.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn dots(row: &Widened, columns: &[Widened; 8]) -> [i32; 8] {
    use std::arch::x86_64::{
        _mm_add_epi32, _mm_madd_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32,
        _mm_unpacklo_epi64,
    };
    // SAFETY: every x86-64 has SSE2.
    let fours = [0, 4].map(|first| unsafe {
        // Four sums of each column, then a transposition that adds them up.
        let [s, t, u, v] = std::array::from_fn(|i| {
            let [a, b, c, d]: Widened =
                std::array::from_fn(|k| _mm_madd_epi16(row[k], columns[first + i][k]));
            _mm_add_epi32(_mm_add_epi32(a, b), _mm_add_epi32(c, d))
        });
        let st = _mm_add_epi32(_mm_unpacklo_epi32(s, t), _mm_unpackhi_epi32(s, t));
        let uv = _mm_add_epi32(_mm_unpacklo_epi32(u, v), _mm_unpackhi_epi32(u, v));
        _mm_add_epi32(_mm_unpacklo_epi64(st, uv), _mm_unpackhi_epi64(st, uv))
    });
    bytemuck::cast(fours)
}

/// 32 bytes along k as 16-bit numbers.
#[cfg(not(target_arch = "x86_64"))]
pub(super) type Widened = [i16; 32];

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn widen<const SIGNED: bool>(words: [u32; 8]) -> Widened {
    let bytes: [u8; 32] = bytemuck::cast(words);
    bytes.map(|byte| {
        if SIGNED {
            i16::from(byte as i8)
        } else {
            i16::from(byte)
        }
    })
}

/// Dot products of a row with eight columns. 32 products below 2^16 in magnitude: the sums are exact.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn dots(row: &Widened, columns: &[Widened; 8]) -> [i32; 8] {
    columns.each_ref().map(|column| {
        row.iter()
            .zip(column)
            .map(|(a, b)| i32::from(*a) * i32::from(*b))
            .sum()
    })
}
