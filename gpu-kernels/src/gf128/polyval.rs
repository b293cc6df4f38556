//! The field as RFC 8452 multiplies in it.

use bytemuck::{Pod, Zeroable};
use simt::clmul;

use super::ghash::Ghash;
use super::product::{Field128, method, operators};

/// An element of GF(2)\[x\] / (x^128 + x^127 + x^126 + x^121 + 1) under RFC 8452's product dot(a,
/// b) = a b x^-128; bit `i` of the little-endian integer is x^i.
///
/// The neutral element of the product is therefore [`Polyval::ONE`](Field128::ONE) = x^128 and not
/// the polynomial 1. `*` is dot; [`Polyval::mul_x`] is the standard's mulX_POLYVAL, a
/// multiplication by the plain polynomial x.
///
/// `==` is not promised to take constant time: compare secrets, authentication tags above all, with
/// `subtle::ConstantTimeEq`, which the host has for this type.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Polyval {
    low: u64,
    high: u64,
}

// SAFETY: all bits zero is zero.
unsafe impl Zeroable for Polyval {}
// SAFETY: two 64-bit integers, size and alignment 16, so no padding; the layout is C's on both
// sides.
unsafe impl Pod for Polyval {}
// SAFETY: as for `Pod`.
unsafe impl simt::Element for Polyval {}

operators!(Polyval);

/// The modulus without its x^128.
const MODULUS: u128 = 0xC200_0000_0000_0000_0000_0000_0000_0001;

impl Polyval {
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

    /// A block of RFC 8452: the little-endian integer.
    #[must_use]
    pub const fn from_bytes(block: [u8; 16]) -> Self {
        Self::from_u128(u128::from_le_bytes(block))
    }

    /// The block of RFC 8452; the inverse of [`Polyval::from_bytes`].
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.to_u128().to_le_bytes()
    }

    /// A data block of SP 800-38D, for a GHASH computed as a POLYVAL: ByteReverse (RFC 8452,
    /// appendix A).
    ///
    /// Horner's rule over such blocks with a key from [`Polyval::from_gcm_key`] ends at the GHASH,
    /// which [`Polyval::to_gcm_block`] gives back. The blocks carry a factor x^-1 that the key does
    /// not, so this is not the isomorphism `Polyval::from(Ghash)`.
    #[must_use]
    pub const fn from_gcm_block(block: [u8; 16]) -> Self {
        Self::from_u128(u128::from_be_bytes(block))
    }

    /// The block of SP 800-38D; the inverse of [`Polyval::from_gcm_block`].
    #[must_use]
    pub const fn to_gcm_block(self) -> [u8; 16] {
        self.to_u128().to_be_bytes()
    }

    /// The hash key of SP 800-38D, for a GHASH computed as a POLYVAL: mulX(ByteReverse(H)) (RFC
    /// 8452, appendix A).
    #[must_use]
    pub const fn from_gcm_key(key: [u8; 16]) -> Self {
        Self::from_gcm_block(key).mul_x()
    }

    /// `self * x` for the polynomial x: mulX_POLYVAL of RFC 8452.
    #[inline(always)]
    #[must_use]
    pub const fn mul_x(self) -> Self {
        let carry = (self.high >> 63).wrapping_neg() as i64 as i128 as u128;
        Self::from_u128(self.to_u128() << 1 ^ carry & MODULUS)
    }

    /// `self / x`; the inverse of [`Polyval::mul_x`].
    #[inline(always)]
    #[must_use]
    pub const fn div_x(self) -> Self {
        // x^-1 = x^127 + x^126 + x^125 + x^120
        let borrow = (self.low & 1).wrapping_neg();
        let (low, high) = (self.low >> 1 | self.high << 63, self.high >> 1);
        Self {
            low,
            high: high ^ borrow & 0xE1 << 56,
        }
    }
}

/// The isomorphism of the fields: products and sums go over into products and sums.
impl From<Ghash> for Polyval {
    fn from(element: Ghash) -> Self {
        // Reversing the bits gives a(1/x) x^127; with x^-128 in each product, one more x makes the
        // map multiplicative.
        Self::from_u128(element.to_u128().reverse_bits()).mul_x()
    }
}

/// The inverse isomorphism.
impl From<Polyval> for Ghash {
    fn from(element: Polyval) -> Self {
        Self::from_u128(element.div_x().to_u128().reverse_bits())
    }
}

impl Field128 for Polyval {
    const ZERO: Self = Self::from_u128(0);
    /// x^128 modulo the modulus.
    const ONE: Self = Self::from_u128(MODULUS);

    #[inline(always)]
    fn from_limbs([low, high]: [u64; 2]) -> Self {
        Self { low, high }
    }

    #[inline(always)]
    fn limbs(self) -> [u64; 2] {
        [self.low, self.high]
    }

    /// Montgomery reduction: 1 = x^64 (x^64 + x^63 + x^62 + x^57) modulo the modulus moves the
    /// lowest limb up, twice.
    #[inline(always)]
    fn reduce<const METHOD: u32>([r0, r1, r2, r3]: [u64; 4]) -> Self {
        const P: u64 = 0xC2 << 56;
        if method::reduces_by_shifts(METHOD) {
            let low = |v: u64| v << 63 ^ v << 62 ^ v << 57;
            let high = |v: u64| v ^ v >> 1 ^ v >> 2 ^ v >> 7;
            let r1 = r1 ^ low(r0);
            Self {
                low: r2 ^ high(r0) ^ low(r1),
                high: r3 ^ high(r1),
            }
        } else {
            let r1 = clmul::clmad_lo(r0, P, r1);
            let r2 = clmul::clmad_hi(r0, P, r2 ^ r0);
            Self {
                low: clmul::clmad_lo(r1, P, r2),
                high: clmul::clmad_hi(r1, P, r3 ^ r1),
            }
        }
    }
}
