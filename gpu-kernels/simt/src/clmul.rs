//! Carry-less multiply-add: products of polynomials over GF(2).
//!
//! `clmad` (PTX ISA 9.3) multiplies two 64-bit polynomials and XORs a third into the lower or upper half
//! of the 128-bit product. [`integer_lo`] and [`integer_hi`] give the same bits by integer
//! multiplications, the method of BearSSL's `ctmul64`: bits spaced four apart leave three zero bits
//! between them, so that carries of up to 15 summands cannot reach the next kept bit.

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
    // a = a0 ^ a1 ^ a2 ^ a3, where a_i holds the bits at positions i mod 4. At most 16 pairs of set bits
    // meet in one position, so a column sum needs five bits; the fifth is bit 0 of the *next* kept
    // column only at position 60 and beyond, where fewer than 16 pairs meet in the lower half.
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
