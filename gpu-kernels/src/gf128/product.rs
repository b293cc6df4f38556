//! 256-bit carry-less products, kept apart by field and by method until they are reduced.

use core::fmt::Debug;
use core::marker::PhantomData;
use core::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use simt::clmul;

/// How a product of two elements is made: the value of the `METHOD` const generic.
pub mod method {
    /// Four products of 64 x 64 bits, eight `clmad`; reduced by four more.
    pub const SCHOOLBOOK: u32 = 0;
    /// Three products of 64 x 64 bits, six `clmad`; reduced by four more.
    pub const KARATSUBA: u32 = 1;
    /// Karatsuba by integer multiplications with holes, reduced by shifts: for a GPU or a driver
    /// without `clmad`, and for CPUs, where it takes the same time for all operands.
    pub const INTEGER: u32 = 2;
    /// The products of [`SCHOOLBOOK`], reduced by shifts.
    pub const SCHOOLBOOK_SHIFT: u32 = 3;
    /// The products of [`KARATSUBA`], reduced by shifts.
    pub const KARATSUBA_SHIFT: u32 = 4;

    /// Whether a product is four products of halves, added in place.
    #[must_use]
    pub const fn is_schoolbook(method: u32) -> bool {
        method == SCHOOLBOOK || method == SCHOOLBOOK_SHIFT
    }

    /// Whether sums are reduced by shifts and XOR, and not by `clmad`.
    #[must_use]
    pub const fn reduces_by_shifts(method: u32) -> bool {
        method >= INTEGER
    }

    /// `CLMAD` instructions of a sum of `terms` products and its reduction.
    #[must_use]
    pub const fn clmad(method: u32, terms: u64) -> u64 {
        let product = match method {
            SCHOOLBOOK | SCHOOLBOOK_SHIFT => 8,
            KARATSUBA | KARATSUBA_SHIFT => 6,
            _ => 0,
        };
        terms * product + if reduces_by_shifts(method) { 0 } else { 4 }
    }

    /// What the operators of the fields use on this target.
    pub const DEFAULT: u32 = if cfg!(target_arch = "nvptx64") {
        KARATSUBA
    } else {
        INTEGER
    };
}

/// A representation of GF(2^128): 128 bits of which the carry-less product and [`Field128::reduce`]
/// make the product.
///
/// Addition is XOR, so subtraction is addition and negation does nothing. `Eq` is not promised to take
/// constant time.
pub trait Field128:
    Copy
    + Eq
    + Debug
    + Default
    + simt::Element
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + SubAssign
    + Neg<Output = Self>
    + Mul<Output = Self>
    + MulAssign
{
    /// The neutral element of addition: no bit set.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;

    /// The element with these bits, `[low, high]`.
    fn from_limbs(limbs: [u64; 2]) -> Self;

    /// The bits, `[low, high]`.
    fn limbs(self) -> [u64; 2];

    /// The element that a 256-bit carry-less product stands for; lowest limb first.
    fn reduce<const METHOD: u32>(product: [u64; 4]) -> Self;

    /// `self * rhs` by the given [`method`].
    #[inline(always)]
    #[must_use]
    fn mul_with<const METHOD: u32>(self, rhs: Self) -> Self {
        Unreduced::<Self, METHOD>::ZERO
            .add_product(self, rhs)
            .reduce()
    }

    /// `self * self`.
    #[inline(always)]
    #[must_use]
    fn square(self) -> Self {
        self * self
    }

    /// The multiplicative inverse, by the fixed exponent 2^128 - 2; zero gives zero.
    #[must_use]
    fn invert(self) -> Self {
        // After i steps: power = self^(2^i), result = self^(2^i - 2).
        let (mut power, mut result) = (self, Self::ONE);
        for _ in 1..128 {
            power = power.square();
            result *= power;
        }
        result
    }
}

/// A sum of 256-bit products of elements of `F` before its reduction, which is linear and so done
/// once for the sum.
///
/// What the three parts hold depends on the method, hence the parameter: schoolbook accumulates all
/// four limbs in place, Karatsuba its three partial products, to be joined only at the reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreduced<F, const METHOD: u32> {
    low: [u64; 2],
    middle: [u64; 2],
    high: [u64; 2],
    field: PhantomData<F>,
}

impl<F: Field128, const METHOD: u32> Unreduced<F, METHOD> {
    /// The empty sum.
    pub const ZERO: Self = Self {
        low: [0; 2],
        middle: [0; 2],
        high: [0; 2],
        field: PhantomData,
    };

    /// `self + a * b`.
    #[inline(always)]
    #[must_use]
    pub fn add_product(self, a: F, b: F) -> Self {
        let ([a0, a1], [b0, b1]) = (a.limbs(), b.limbs());
        if method::is_schoolbook(METHOD) {
            let ([mut r0, mut r1], [mut r2, mut r3]) = (self.low, self.high);
            r0 = clmul::clmad_lo(a0, b0, r0);
            r1 = clmul::clmad_hi(a0, b0, r1);
            r1 = clmul::clmad_lo(a0, b1, r1);
            r1 = clmul::clmad_lo(a1, b0, r1);
            r2 = clmul::clmad_hi(a0, b1, r2);
            r2 = clmul::clmad_hi(a1, b0, r2);
            r2 = clmul::clmad_lo(a1, b1, r2);
            r3 = clmul::clmad_hi(a1, b1, r3);
            Self {
                low: [r0, r1],
                high: [r2, r3],
                ..self
            }
        } else {
            Self {
                low: multiply_add::<METHOD>(a0, b0, self.low),
                middle: multiply_add::<METHOD>(a0 ^ a1, b0 ^ b1, self.middle),
                high: multiply_add::<METHOD>(a1, b1, self.high),
                field: PhantomData,
            }
        }
    }

    /// The 256-bit sum, lowest limb first; the top bit is never set.
    #[inline(always)]
    #[must_use]
    pub fn limbs(self) -> [u64; 4] {
        let ([l0, l1], [m0, m1], [h0, h1]) = (self.low, self.middle, self.high);
        if method::is_schoolbook(METHOD) {
            [l0, l1, h0, h1]
        } else {
            // a0 b1 + a1 b0 = (a0 + a1)(b0 + b1) + a0 b0 + a1 b1
            let (cross0, cross1) = (m0 ^ l0 ^ h0, m1 ^ l1 ^ h1);
            [l0, l1 ^ cross0, h0 ^ cross1, h1]
        }
    }

    /// The element that the sum stands for.
    #[inline(always)]
    #[must_use]
    pub fn reduce(self) -> F {
        F::reduce::<METHOD>(self.limbs())
    }
}

impl<F: Field128, const METHOD: u32> Add for Unreduced<F, METHOD> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let xor = |a: [u64; 2], b: [u64; 2]| [a[0] ^ b[0], a[1] ^ b[1]];
        Self {
            low: xor(self.low, other.low),
            middle: xor(self.middle, other.middle),
            high: xor(self.high, other.high),
            field: PhantomData,
        }
    }
}

impl<F: Field128, const METHOD: u32> Default for Unreduced<F, METHOD> {
    fn default() -> Self {
        Self::ZERO
    }
}

/// `accumulator + a * b` in 128 bits.
#[inline(always)]
fn multiply_add<const METHOD: u32>(a: u64, b: u64, accumulator: [u64; 2]) -> [u64; 2] {
    let [low, high] = accumulator;
    if METHOD == method::INTEGER {
        [clmul::integer_lo(a, b, low), clmul::integer_hi(a, b, high)]
    } else {
        [clmul::clmad_lo(a, b, low), clmul::clmad_hi(a, b, high)]
    }
}

/// The operators of a field, from its limbs, its `reduce` and [`method::DEFAULT`].
macro_rules! operators {
    ($field:ty) => {
        impl core::ops::Add for $field {
            type Output = Self;
            #[inline(always)]
            fn add(self, rhs: Self) -> Self {
                let ([a0, a1], [b0, b1]) = (self.limbs(), rhs.limbs());
                Self::from_limbs([a0 ^ b0, a1 ^ b1])
            }
        }
        impl core::ops::Sub for $field {
            type Output = Self;
            #[inline(always)]
            #[allow(clippy::suspicious_arithmetic_impl)] // characteristic two
            fn sub(self, rhs: Self) -> Self {
                self + rhs
            }
        }
        impl core::ops::Neg for $field {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                self
            }
        }
        impl core::ops::Mul for $field {
            type Output = Self;
            #[inline(always)]
            fn mul(self, rhs: Self) -> Self {
                self.mul_with::<{ crate::gf128::method::DEFAULT }>(rhs)
            }
        }
        impl core::ops::AddAssign for $field {
            #[inline(always)]
            fn add_assign(&mut self, rhs: Self) {
                *self = *self + rhs;
            }
        }
        impl core::ops::SubAssign for $field {
            #[inline(always)]
            fn sub_assign(&mut self, rhs: Self) {
                *self = *self - rhs;
            }
        }
        impl core::ops::MulAssign for $field {
            #[inline(always)]
            fn mul_assign(&mut self, rhs: Self) {
                *self = *self * rhs;
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        impl subtle::ConstantTimeEq for $field {
            fn ct_eq(&self, other: &Self) -> subtle::Choice {
                self.limbs().as_slice().ct_eq(other.limbs().as_slice())
            }
        }
        impl core::iter::Sum for $field {
            fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
                terms.fold(Self::ZERO, |sum, term| sum + term)
            }
        }
        impl core::iter::Product for $field {
            fn product<I: Iterator<Item = Self>>(factors: I) -> Self {
                factors.fold(Self::ONE, |product, factor| product * factor)
            }
        }
        impl core::fmt::LowerHex for $field {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::LowerHex::fmt(&self.to_u128(), f)
            }
        }
    };
}
pub(super) use operators;
