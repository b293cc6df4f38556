//! Tensor-core products of small integer matrices (`mma.sync`).
//!
//! One module per shape. A module holds the instruction for each signedness, and apart from it the
//! layout of its operands as data ([`m16n8k32::A`], [`m16n8k32::B`], [`m16n8k32::C`]): which element of
//! the matrix each byte of each register of each lane is. Code that fills fragments can then be tested
//! against the layout without running the instruction.

/// `C (16 x 8) += A (16 x 32) * B (32 x 8)`: bytes in, 32-bit sums out.
///
/// Fragments, per lane: `a` four words, `b` two words (each four bytes along `k`), `acc` four sums. PTX
/// ISA, "Matrix Fragments for mma.m16n8k32"; A is row-major and B column-major (`.row.col`). Sums wrap
/// modulo 2^32. Every lane of the warp must come.
pub mod m16n8k32 {
    #[cfg(not(target_arch = "nvptx64"))]
    use crate::emulator::block::{self, Signs};
    #[cfg(target_arch = "nvptx64")]
    use crate::ptx;

    /// Rows of A and C.
    pub const M: u32 = 16;
    /// Columns of B and C.
    pub const N: u32 = 8;
    /// Columns of A, rows of B.
    pub const K: u32 = 32;

    /// Layout of the A operand: 16 rows, 32 columns.
    #[derive(Clone, Copy, Debug)]
    pub struct A;

    impl A {
        /// Words a lane holds.
        pub const REGISTERS: u32 = 4;

        /// Row and column of byte `byte` (0 to 3, from the low end) of word `register` of `lane`.
        #[inline(always)]
        pub const fn position(lane: u32, register: u32, byte: u32) -> (u32, u32) {
            (
                lane / 4 + 8 * (register % 2),
                4 * (lane % 4) + 16 * (register / 2) + byte,
            )
        }
    }

    /// Layout of the B operand: 32 rows, 8 columns.
    #[derive(Clone, Copy, Debug)]
    pub struct B;

    impl B {
        /// Words a lane holds.
        pub const REGISTERS: u32 = 2;

        /// Row and column of byte `byte` (0 to 3, from the low end) of word `register` of `lane`.
        #[inline(always)]
        pub const fn position(lane: u32, register: u32, byte: u32) -> (u32, u32) {
            (4 * (lane % 4) + 16 * register + byte, lane / 4)
        }
    }

    /// Layout of the accumulator: 16 rows, 8 columns.
    #[derive(Clone, Copy, Debug)]
    pub struct C;

    impl C {
        /// Sums a lane holds.
        pub const REGISTERS: u32 = 4;

        /// Row and column of sum `register` of `lane`; a register is one element, so `byte` plays no part.
        #[inline(always)]
        pub const fn position(lane: u32, register: u32, byte: u32) -> (u32, u32) {
            let _ = byte;
            (lane / 4 + 8 * (register / 2), 2 * (lane % 4) + register % 2)
        }
    }

    /// The four signednesses.
    macro_rules! products {
        ($($(#[$doc:meta])* $name:ident = $ptx:ident, $signs:ident;)*) => { $(
            $(#[$doc])*
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn $name(acc: &mut [i32; 4], a: [u32; 4], b: [u32; 2]) {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: registers only.
                unsafe {
                    let sums = ptx::$ptx(
                        a[0], a[1], a[2], a[3], b[0], b[1], acc[0], acc[1], acc[2], acc[3],
                    );
                    *acc = [sums.0, sums.1, sums.2, sums.3];
                }
                #[cfg(not(target_arch = "nvptx64"))]
                block::mma(Signs::$signs, acc, a, b);
            }
        )* };
    }

    products! {
        /// Both operands signed.
        s8s8 = mma_s8s8, SS;
        /// A signed, B unsigned.
        s8u8 = mma_s8u8, SU;
        /// A unsigned, B signed.
        u8s8 = mma_u8s8, US;
        /// Both operands unsigned.
        u8u8 = mma_u8u8, UU;
    }
}
