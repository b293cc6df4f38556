//! Carry-less multiply-add: products of polynomials over GF(2).
//!
//! `clmad` (PTX ISA 9.3) multiplies two 64-bit polynomials and XORs a third into the lower or upper half
//! of the 128-bit product. [`integer_lo`] and [`integer_hi`] give the same bits by integer
//! multiplications, the method of BearSSL's `ctmul64` (T. Pornin): of each factor only every fourth bit is
//! kept at a time, so that a column of the product has three zero bits above it to carry into.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Lower 64 bits of the carry-less product `a * b`, XOR `addend`: `clmad.lo.u64`.
#[inline(always)]
pub fn clmad_lo(a: u64, b: u64, addend: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let result: u64;
        // SAFETY: registers only.
        unsafe {
            asm!("clmad.lo.u64 {}, {}, {}, {};", out(reg64) result, in(reg64) a, in(reg64) b, in(reg64) addend,
                options(pure, nomem, nostack));
        }
        result
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        integer_lo(a, b, addend)
    }
}

/// Upper 64 bits of the carry-less product `a * b`, XOR `addend`: `clmad.hi.u64`.
#[inline(always)]
pub fn clmad_hi(a: u64, b: u64, addend: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let result: u64;
        // SAFETY: registers only.
        unsafe {
            asm!("clmad.hi.u64 {}, {}, {}, {};", out(reg64) result, in(reg64) a, in(reg64) b, in(reg64) addend,
                options(pure, nomem, nostack));
        }
        result
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        integer_hi(a, b, addend)
    }
}

/// Every fourth bit.
const FOURTH: u64 = 0x1111_1111_1111_1111;

/// [`clmad_lo`] without the instruction.
#[inline(always)]
pub fn integer_lo(a: u64, b: u64, addend: u64) -> u64 {
    // a is the sum of four parts, part i with the bits at positions i mod 4, and b likewise. In a product
    // of two parts, position p gathers at most p / 4 + 1 pairs: fewer than 16 below position 60, which
    // four bits hold, and from 60 on the carry leaves the word. So the low bit of each column is right.
    let mut result = addend;
    let mut i = 0;
    while i < 4 {
        let mask = FOURTH << i;
        let mut column = 0;
        let mut j = 0;
        while j < 4 {
            let k = (4 + i - j) % 4;
            column ^= (a & (FOURTH << j)).wrapping_mul(b & (FOURTH << k));
            j += 1;
        }
        result ^= column & mask;
        i += 1;
    }
    result
}

/// [`clmad_hi`] without the instruction.
#[inline(always)]
pub fn integer_hi(a: u64, b: u64, addend: u64) -> u64 {
    // Reversing the bits of both factors reverses the 127-bit product: its upper half becomes a lower
    // half, one position off.
    integer_lo(a.reverse_bits(), b.reverse_bits(), 0).reverse_bits() >> 1 ^ addend
}
