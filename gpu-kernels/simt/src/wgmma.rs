//! Tensor-core products of a warpgroup (`wgmma`, sm_90a): `D (64 x N) += A (64 x 32) * B (32 x N)` of bytes, with
//! 32-bit sums that wrap.
//!
//! The four warps of a warpgroup (128 threads, the first a multiple of 128) come together. B, and A where it is
//! not in registers, lie in shared memory as [`Tile`]s: K-major rows of 128 bytes in the 128-byte swizzle, as
//! [`crate::bulk::copy_tile`] leaves them.
//!
//! A product is asynchronous. [`fence`] comes before the first that touches registers written since; [`commit`]
//! closes a group; after [`wait_group::<N>`](wait_group) all groups but the last `N` have ended, and only then may
//! their sums be read, their A registers be written and their tiles be overwritten. LLVM does not know this: what
//! it must not move across a fence or a wait is [`pin`]ned there.
//!
//! The emulator performs a product at once. In checked mode it looks at the tiles a second time at the wait, so
//! that a tile overwritten too early is a race; registers reused too early it cannot see.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use crate::Shared;
use crate::bulk::TILE_WIDTH;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::block::Signs;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::memory::Region;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::wgmma as emulated;

/// Rows of A and D.
pub const M: usize = 64;
/// Columns of A, rows of B: bytes of a step.
pub const K: usize = 32;
/// Steps in a row of a tile.
pub const STEPS: usize = TILE_WIDTH / K;

/// Layout of D: 64 rows, N columns, N / 2 registers.
#[derive(Clone, Copy, Debug)]
pub struct D;

impl D {
    /// Row and column of sum `register` of thread `thread` (0 to 127) of the warpgroup. PTX ISA, "Register
    /// fragments for wgmma.mma_async.m64nNk32, matrix D".
    #[inline(always)]
    #[must_use]
    pub const fn position(thread: u32, register: u32) -> (u32, u32) {
        let (warp, lane) = (thread / 32, thread % 32);
        (
            16 * warp + lane / 4 + 8 * (register / 2 % 2),
            8 * (register / 4) + 2 * (lane % 4) + register % 2,
        )
    }
}

/// Layout of A in registers: 64 rows, 32 columns, four words of four bytes.
#[derive(Clone, Copy, Debug)]
pub struct A;

impl A {
    /// Row and column of byte `byte` of word `register` of thread `thread` of the warpgroup.
    #[inline(always)]
    #[must_use]
    pub const fn position(thread: u32, register: u32, byte: u32) -> (u32, u32) {
        let (warp, lane) = (thread / 32, thread % 32);
        let (row, column) = crate::mma::m16n8k32::A::position(lane, register, byte);
        (16 * warp + row, column)
    }
}

/// An operand in shared memory: K-major rows of 128 bytes in the 128-byte swizzle, and which 32 of the 128
/// bytes count.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// The matrix descriptor (PTX ISA, "Asynchronous warpgroup-level matrix shared memory layout").
    #[cfg(target_arch = "nvptx64")]
    descriptor: u64,
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) address: usize,
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) region: *const Region,
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) step: usize,
}

impl Tile {
    /// The tile that starts at `memory`, at a multiple of 1,024 bytes of shared memory.
    #[inline(always)]
    pub fn new(memory: Shared<u8>) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            // 128-byte swizzle; 1,024 bytes from one group of eight rows to the next.
            const LAYOUT: u64 = 1 << 62 | (1024 >> 4) << 32 | 1 << 16;
            Self {
                descriptor: LAYOUT | (memory.at(0) >> 4) as u64,
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let (address, region) = memory.place(0);
            Self {
                address,
                region,
                step: 0,
            }
        }
    }

    /// The part that starts at row `row`, a multiple of eight.
    #[inline(always)]
    #[must_use]
    pub fn from_row(self, row: usize) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            Self {
                descriptor: self.descriptor + (row * TILE_WIDTH >> 4) as u64,
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            Self {
                address: self.address + row * TILE_WIDTH,
                ..self
            }
        }
    }

    /// Step `step` of its row: bytes `32 step` to `32 step + 31`; of a fresh tile, step 0.
    #[inline(always)]
    #[must_use]
    pub fn step(self, step: usize) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            Self {
                descriptor: self.descriptor + (step * K >> 4) as u64,
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            Self { step, ..self }
        }
    }
}

/// Before the first product after this warpgroup wrote registers that products touch.
#[inline(always)]
pub fn fence() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: orders registers and memory only.
    unsafe {
        asm!("wgmma.fence.sync.aligned;", options(nostack));
    }
}

/// Closes the group of the products since the last.
#[inline(always)]
pub fn commit() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: ends a group.
    unsafe {
        asm!("wgmma.commit_group.sync.aligned;", options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    emulated::commit();
}

/// Waits for all groups but the last `N`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_group<const N: usize>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: without `nomem` later accesses stay behind it.
    unsafe {
        asm!("wgmma.wait_group.sync.aligned {};", const N, options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    emulated::wait(N);
}

/// Keeps the compiler from moving accesses to `registers`, a multiple of four, across this place.
#[inline(always)]
pub fn pin<T: Register, const COUNT: usize>(registers: &mut [T; COUNT]) {
    const { assert!(COUNT.is_multiple_of(4)) };
    #[cfg(target_arch = "nvptx64")]
    for i in 0..COUNT / 4 {
        let i = 4 * i;
        let [mut x, mut y, mut z, mut w] = [
            registers[i],
            registers[i + 1],
            registers[i + 2],
            registers[i + 3],
        ]
        .map(T::word);
        // SAFETY: does nothing.
        unsafe {
            asm!("// {} {} {} {}", inout(reg32) x, inout(reg32) y, inout(reg32) z, inout(reg32) w, options(nostack));
        }
        registers[i] = T::from_word(x);
        registers[i + 1] = T::from_word(y);
        registers[i + 2] = T::from_word(z);
        registers[i + 3] = T::from_word(w);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = registers;
    }
}

/// What a 32-bit register holds.
pub trait Register: Copy {
    /// Its bits.
    fn word(self) -> u32;
    /// The value with these bits.
    fn from_word(word: u32) -> Self;
}

impl Register for u32 {
    #[inline(always)]
    fn word(self) -> u32 {
        self
    }
    #[inline(always)]
    fn from_word(word: u32) -> Self {
        word
    }
}

impl Register for i32 {
    #[inline(always)]
    fn word(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn from_word(word: u32) -> Self {
        word as i32
    }
}

/// Raises the registers of each thread of this warp to `COUNT`, a multiple of 8 (`setmaxnreg`). All warps of a
/// warpgroup do; they wait until others have given up as many.
#[inline(always)]
pub fn raise_registers<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: changes no value.
    unsafe {
        asm!("setmaxnreg.inc.sync.aligned.u32 {};", const COUNT, options(nostack));
    }
}

/// Lowers the registers of each thread of this warp to `COUNT`, a multiple of 8. All warps of a warpgroup do.
#[inline(always)]
pub fn lower_registers<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: changes no value.
    unsafe {
        asm!("setmaxnreg.dec.sync.aligned.u32 {};", const COUNT, options(nostack));
    }
}

/// The instruction for one width: `$first` and `$rest` number its sums.
#[cfg(target_arch = "nvptx64")]
macro_rules! instruction {
    ($shape:literal, $types:literal, $sums:ident, shared $a:ident, $b:ident, $first:literal $($rest:literal)*) => {
        asm!(concat!("wgmma.mma_async.sync.aligned.", $shape, ".s32.", $types, " {{{", $first, "}",
                $(", {", $rest, "}",)* "}}, {a}, {b}, 1;"),
            inout(reg32) $sums[$first], $(inout(reg32) $sums[$rest],)*
            a = in(reg64) $a.descriptor, b = in(reg64) $b.descriptor, options(nostack))
    };
    ($shape:literal, $types:literal, $sums:ident, registers $a:ident, $b:ident, $first:literal $($rest:literal)*) => {
        asm!(concat!("wgmma.mma_async.sync.aligned.", $shape, ".s32.", $types, " {{{", $first, "}",
                $(", {", $rest, "}",)* "}}, {{{a0}, {a1}, {a2}, {a3}}}, {b}, 1;"),
            inout(reg32) $sums[$first], $(inout(reg32) $sums[$rest],)*
            a0 = in(reg32) $a[0], a1 = in(reg32) $a[1], a2 = in(reg32) $a[2], a3 = in(reg32) $a[3],
            b = in(reg64) $b.descriptor, options(nostack))
    };
}

/// The instruction of the width that `SUMS` says.
#[cfg(target_arch = "nvptx64")]
macro_rules! by_width {
    ($types:literal, $sums:ident, $place:ident $a:ident, $b:ident) => {
        // SAFETY: registers, and tiles that the kernel keeps in its shared memory; the emulator proves it on
        // its inputs.
        unsafe {
            match SUMS {
                4 => instruction!("m64n8k32", $types, $sums, $place $a, $b, 0 1 2 3),
                16 => instruction!("m64n32k32", $types, $sums, $place $a, $b, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
                32 => instruction!("m64n64k32", $types, $sums, $place $a, $b, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
                    16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31),
                64 => instruction!("m64n128k32", $types, $sums, $place $a, $b, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
                    16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
                    48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63),
                _ => instruction!("m64n256k32", $types, $sums, $place $a, $b, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
                    16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
                    48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79
                    80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108
                    109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127),
            }
        }
    };
}

/// Whether there is a product with so many sums a thread.
const fn has_width(sums: usize) -> bool {
    matches!(sums, 4 | 16 | 32 | 64 | 128)
}

/// The products.
macro_rules! products {
    ($($(#[$doc:meta])* $name:ident, $place:ident $a:ty, $types:literal, $signs:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name<const SUMS: usize>(sums: &mut [i32; SUMS], a: $a, b: Tile) {
            const { assert!(has_width(SUMS), "N is 8, 32, 64, 128 or 256, and a thread has N / 2 sums") };
            #[cfg(target_arch = "nvptx64")]
            by_width!($types, sums, $place a, b);
            #[cfg(not(target_arch = "nvptx64"))]
            emulated::$place(Signs::$signs, sums, a, b);
        }
    )* };
}

products! {
    /// A of signed bytes in shared memory, B unsigned. `SUMS` is `N / 2`.
    s8u8, shared Tile, "s8.u8", SU;
    /// Unsigned bytes in shared memory. `SUMS` is `N / 2`.
    u8u8, shared Tile, "u8.u8", UU;
    /// A of unsigned bytes in registers, laid out as [`A`], B unsigned. `SUMS` is `N / 2`.
    u8u8_registers, registers [u32; 4], "u8.u8", UU;
}
