//! The field in its natural order.

use bytemuck::{Pod, Zeroable};
use simt::clmul;

use super::product::{Field128, method, operators};

/// An element of GF(2)\[x\] / (x^128 + x^7 + x^2 + x + 1); bit `i` of the little-endian integer is
/// x^i.
///
/// GHASH's modulus in natural order, as the binary-field provers use it. The blocks of AES-GCM hold
/// their bits in the opposite order: [`Ghash::from_gcm_block`] and [`Ghash::to_gcm_block`] convert.
/// Two elements of 64-bit halves, so that kernels move one in a single 16-byte access.
///
/// `==` is not promised to take constant time: compare secrets, authentication tags above all, with
/// `subtle::ConstantTimeEq`, which the host has for this type.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghash {
    low: u64,
    high: u64,
}

// SAFETY: all bits zero is zero.
unsafe impl Zeroable for Ghash {}
// SAFETY: two 64-bit integers, size and alignment 16, so no padding; the layout is C's on both
// sides.
unsafe impl Pod for Ghash {}
// SAFETY: as for `Pod`.
unsafe impl simt::Element for Ghash {}

operators!(Ghash);

impl Ghash {
    /// The element with these coefficients, x^0 in bit 0.
    #[inline(always)]
    #[must_use]
    pub const fn from_u128(bits: u128) -> Self {
        Self {
            low: bits as u64,
            high: (bits >> 64) as u64,
        }
    }

    /// The coefficients, x^0 in bit 0.
    #[inline(always)]
    #[must_use]
    pub const fn to_u128(self) -> u128 {
        self.low as u128 | (self.high as u128) << 64
    }

    /// A block of SP 800-38D: the top bit of byte 0 is x^0, the lowest bit of byte 15 is x^127.
    #[must_use]
    pub const fn from_gcm_block(block: [u8; 16]) -> Self {
        Self::from_u128(u128::from_be_bytes(block).reverse_bits())
    }

    /// The block of SP 800-38D; the inverse of [`Ghash::from_gcm_block`].
    #[must_use]
    pub const fn to_gcm_block(self) -> [u8; 16] {
        self.to_u128().reverse_bits().to_be_bytes()
    }

    /// `self * x`.
    #[inline(always)]
    #[must_use]
    pub const fn mul_x(self) -> Self {
        let carry = (self.high >> 63).wrapping_neg();
        Self {
            low: self.low << 1 ^ carry & 0x87,
            high: self.high << 1 | self.low >> 63,
        }
    }

    /// `self / x`.
    #[inline(always)]
    #[must_use]
    pub const fn div_x(self) -> Self {
        // x^-1 = x^127 + x^6 + x + 1
        let borrow = (self.low & 1).wrapping_neg();
        let (low, high) = (self.low >> 1 | self.high << 63, self.high >> 1);
        Self {
            low: low ^ borrow & 0x43,
            high: high ^ borrow & 1 << 63,
        }
    }
}

impl Field128 for Ghash {
    const ZERO: Self = Self::from_u128(0);
    const ONE: Self = Self::from_u128(1);

    #[inline(always)]
    fn from_limbs([low, high]: [u64; 2]) -> Self {
        Self { low, high }
    }

    #[inline(always)]
    fn limbs(self) -> [u64; 2] {
        [self.low, self.high]
    }

    /// x^128 = x^7 + x^2 + x + 1 = 0x87, limb by limb from the top.
    #[inline(always)]
    fn reduce<const METHOD: u32>([r0, r1, r2, r3]: [u64; 4]) -> Self {
        const P: u64 = 0x87;
        if method::reduces_by_shifts(METHOD) {
            let low = |v: u64| v ^ v << 1 ^ v << 2 ^ v << 7;
            let high = |v: u64| v >> 63 ^ v >> 62 ^ v >> 57;
            let r2 = r2 ^ high(r3);
            Self {
                low: r0 ^ low(r2),
                high: r1 ^ low(r3) ^ high(r2),
            }
        } else {
            let r1 = clmul::clmad_lo(r3, P, r1);
            let r2 = clmul::clmad_hi(r3, P, r2);
            Self {
                low: clmul::clmad_lo(r2, P, r0),
                high: clmul::clmad_hi(r2, P, r1),
            }
        }
    }
}
