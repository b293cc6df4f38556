//! One modulus with what its products need.

use core::fmt;

use simt::Element;

use super::prime::is_prime_u32;

/// The smaller of two words, in the same time for all.
#[inline(always)]
const fn min(a: u32, b: u32) -> u32 {
    // `Ord::min` is not const; this is the form that LLVM makes the same instruction of.
    #[cfg(target_arch = "nvptx64")]
    {
        if a < b { a } else { b }
    }
    // For a CPU a compiler may make a branch of that. The high word of the difference is a mask, all
    // ones where a < b.
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let difference = (a as u64).wrapping_sub(b as u64);
        b.wrapping_add(difference as u32 & (difference >> 32) as u32)
    }
}

/// `x - m` where that does not wrap, else `x`: brings `x < 2m` below `m`, for `m <= 2^31`.
///
/// A subtraction and an unsigned minimum: `x - m` wraps above `2^31` exactly when `x < m`.
#[inline(always)]
pub const fn sub_min(x: u32, m: u32) -> u32 {
    min(x.wrapping_sub(m), x)
}

/// The high word of `a * b`.
#[inline(always)]
const fn mul_hi(a: u32, b: u32) -> u32 {
    ((a as u64 * b as u64) >> 32) as u32
}

/// How many products of two residues a `u64` takes on top of zero, or of a value from
/// [`Modulus::fold`], for every modulus: after so many, fold.
pub const LAZY_PRODUCTS: usize = 64;

/// Whether `count` products of residues modulo `q` on top of a folded value stay below 2^64, where
/// `r = 2^32 mod q` or more.
const fn lazy_sum_fits(count: usize, q: u64, r: u64) -> bool {
    let largest_folded = u32::MAX as u128 * (r as u128 + 1);
    let product = (q as u128 - 1) * (q as u128 - 1);
    count as u128 * product + largest_folded <= u64::MAX as u128
}

// The proof, for every q < 2^29. For q > 2^32 / 9 the quotient of 2^32 by q is 8, so r = 2^32 - 8q
// and the sum is a convex function of q: its ends decide. For q <= 2^32 / 9 take r < q: the sum grows
// with q, and the largest decides.
const _: () = {
    let ninth = (1 << 32) / 9;
    let last = Modulus::MAX as u64;
    assert!(lazy_sum_fits(LAZY_PRODUCTS, ninth, ninth - 1));
    assert!(lazy_sum_fits(
        LAZY_PRODUCTS,
        ninth + 1,
        (1 << 32) - 8 * (ninth + 1)
    ));
    assert!(lazy_sum_fits(LAZY_PRODUCTS, last, (1 << 32) - 8 * last));
    assert!(!lazy_sum_fits(
        LAZY_PRODUCTS + 1,
        last,
        (1 << 32) - 8 * last
    ));
};

/// An odd prime `q < 2^29` and the constants that its products need.
///
/// It is plain data of 32 bytes: a scalar argument of a kernel, or an entry of a table in device memory. Multiples of
/// `q` are kept and not computed, because a compiler that derives `2q` from `q` loses the fused subtract-and-minimum.
///
/// The fields are private and [`Modulus::new`] validates, but bytes that come from elsewhere can be cast to a `Modulus`:
/// kernels that take one by value refuse it unless [`Modulus::is_valid`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct Modulus {
    q: u32,
    /// `-q mod 2^32`.
    neg_q: u32,
    two_q: u32,
    four_q: u32,
    /// `-q^-1 mod 2^32`.
    neg_inverse: u32,
    /// `R mod q`, `R = 2^32`.
    r: u32,
    /// `R^2 mod q`.
    r2: u32,
    /// `floor(2^32 / q)`, the Shoup quotient of 1.
    barrett: u32,
}

// SAFETY: eight u32 in C order, 32 bytes at an alignment of 16, so no padding; all zeros is a value of each field.
unsafe impl bytemuck::Zeroable for Modulus {}
// SAFETY: as above, and every bit pattern is a value of each field. A pattern that `new` would not make gives wrong
// residues, never undefined behaviour: no function here indexes memory or divides by a field.
unsafe impl bytemuck::Pod for Modulus {}
// SAFETY: `repr(C)` over fixed-width integers.
unsafe impl Element for Modulus {}

/// A constant factor with its precomputed quotient, for [`Modulus::mul_shoup_lazy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(C, align(8))]
pub struct Shoup {
    /// The factor `w`, below `q`.
    pub factor: u32,
    /// `floor(w * 2^32 / q)`.
    pub quotient: u32,
}

// SAFETY: two u32 in C order, 8 bytes at an alignment of 8, no padding; zero is a value of each field.
unsafe impl bytemuck::Zeroable for Shoup {}
// SAFETY: as above, and every bit pattern is a value of each field.
unsafe impl bytemuck::Pod for Shoup {}
// SAFETY: `repr(C)` over fixed-width integers.
unsafe impl Element for Shoup {}

impl fmt::Debug for Modulus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Modulus({})", self.q)
    }
}

impl fmt::Display for Modulus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.q.fmt(f)
    }
}

impl Modulus {
    /// Every modulus is at most this: `2^29 - 1`.
    pub const MAX: u32 = (1 << 29) - 1;

    /// The modulus `q`, or `None` unless `q` is an odd prime below `2^29`.
    pub const fn new(q: u32) -> Option<Self> {
        if q > Self::MAX || q.is_multiple_of(2) || !is_prime_u32(q) {
            return None;
        }
        // Newton's iteration doubles the right low bits: q * q = 1 mod 8 starts it with 3, then 6, 12, 24, 48.
        let mut inverse = q;
        let mut step = 0;
        while step < 4 {
            inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
            step += 1;
        }
        let r = ((1u64 << 32) % q as u64) as u32;
        Some(Modulus {
            q,
            neg_q: q.wrapping_neg(),
            two_q: 2 * q,
            four_q: 4 * q,
            neg_inverse: inverse.wrapping_neg(),
            r,
            r2: (r as u64 * r as u64 % q as u64) as u32,
            barrett: ((1u64 << 32) / q as u64) as u32,
        })
    }

    /// Whether this is what [`Modulus::new`] makes of its `q`.
    pub fn is_valid(self) -> bool {
        Self::new(self.q) == Some(self)
    }

    /// The prime `q`.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.q
    }

    /// `2^32 mod q`: 1 in Montgomery form.
    #[inline(always)]
    pub const fn r(self) -> u32 {
        self.r
    }

    // ---- corrections

    /// Brings `x < 2q` below `q`.
    #[inline(always)]
    pub const fn below_q(self, x: u32) -> u32 {
        sub_min(x, self.q)
    }

    /// Brings `x < 4q` below `2q`.
    #[inline(always)]
    pub const fn below_2q(self, x: u32) -> u32 {
        sub_min(x, self.two_q)
    }

    /// Brings `x < 8q` below `4q`.
    #[inline(always)]
    pub const fn below_4q(self, x: u32) -> u32 {
        sub_min(x, self.four_q)
    }

    // ---- sums

    /// `a + b mod q` of two residues, a residue.
    #[inline(always)]
    pub const fn add(self, a: u32, b: u32) -> u32 {
        self.below_q(a.wrapping_add(b))
    }

    /// `a - b mod q` of two residues, a residue.
    #[inline(always)]
    pub const fn sub(self, a: u32, b: u32) -> u32 {
        // a - b wraps above 2^31 when a < b, and a - b + q is the smaller of the two exactly then.
        let d = a.wrapping_sub(b);
        min(d.wrapping_add(self.q), d)
    }

    /// `-a mod q` of a residue, a residue: 0 for 0.
    #[inline(always)]
    pub const fn neg(self, a: u32) -> u32 {
        self.sub(0, a)
    }

    /// `x - y + 2q` in `[0, bound + 2q)`, for `x < bound <= 6q` and `y <= 2q`.
    #[inline(always)]
    pub const fn sub_lazy_2q(self, x: u32, y: u32) -> u32 {
        x.wrapping_add(self.two_q).wrapping_sub(y)
    }

    /// `x - y + 4q` in `[0, bound + 4q)`, for `x < bound <= 4q` and `y <= 4q`.
    #[inline(always)]
    pub const fn sub_lazy_4q(self, x: u32, y: u32) -> u32 {
        x.wrapping_add(self.four_q).wrapping_sub(y)
    }

    // ---- products

    /// Montgomery reduction: `x * 2^-32 mod q` in `[0, 2q)`, for `x < q * 2^32`.
    #[inline(always)]
    pub const fn redc_lazy(self, x: u64) -> u32 {
        // x + m q is a multiple of 2^32 below 2 q 2^32, which is below 2^62.
        let m = (x as u32).wrapping_mul(self.neg_inverse);
        ((x.wrapping_add(m as u64 * self.q as u64)) >> 32) as u32
    }

    /// Montgomery reduction: `x * 2^-32 mod q`, a residue, for `x < q * 2^32`.
    #[inline(always)]
    pub const fn redc(self, x: u64) -> u32 {
        self.below_q(self.redc_lazy(x))
    }

    /// Montgomery product `a * b * 2^-32 mod q` in `[0, 2q)`, for `a * b < q * 2^32`: any `u32` times a residue, or a value
    /// below `4q` times one below `2q`.
    #[inline(always)]
    pub const fn montgomery_mul_lazy(self, a: u32, b: u32) -> u32 {
        self.redc_lazy(a as u64 * b as u64)
    }

    /// Montgomery product `a * b * 2^-32 mod q`, a residue, for `a * b < q * 2^32`.
    #[inline(always)]
    pub const fn montgomery_mul(self, a: u32, b: u32) -> u32 {
        self.below_q(self.montgomery_mul_lazy(a, b))
    }

    /// `a * 2^32 mod q`, a residue: the Montgomery form of `a`, which may be any `u32`.
    #[inline(always)]
    pub const fn to_montgomery(self, a: u32) -> u32 {
        self.montgomery_mul(a, self.r2)
    }

    /// `a * 2^-32 mod q`, a residue, for any `u32`: takes [`Modulus::to_montgomery`] back.
    #[inline(always)]
    pub const fn from_montgomery(self, a: u32) -> u32 {
        self.redc(a as u64)
    }

    /// `a * b mod q`, a residue, of any `u32` and a residue `b`, neither in Montgomery form.
    ///
    /// Two Montgomery products: for a fixed `b`, [`Modulus::mul_shoup`] costs half.
    #[inline(always)]
    pub const fn mul(self, a: u32, b: u32) -> u32 {
        self.to_montgomery(self.montgomery_mul_lazy(a, b))
    }

    /// `w mod q` with its Shoup quotient. Divides: for tables, not for inner loops.
    pub const fn shoup(self, w: u32) -> Shoup {
        let factor = w % self.q;
        Shoup {
            factor,
            quotient: (((factor as u64) << 32) / self.q as u64) as u32,
        }
    }

    /// Shoup product `y * w mod q` in `[0, 2q)`, for **any** `u32` `y`.
    ///
    /// With `w' = floor(w 2^32 / q)`, `floor(y w' / 2^32)` is `floor(y w / q)` or one less, because `y < 2^32`.
    #[inline(always)]
    pub const fn mul_shoup_lazy(self, y: u32, w: Shoup) -> u32 {
        let estimate = mul_hi(y, w.quotient);
        y.wrapping_mul(w.factor)
            .wrapping_add(estimate.wrapping_mul(self.neg_q))
    }

    /// Shoup product `y * w mod q`, a residue, for any `u32` `y`.
    #[inline(always)]
    pub const fn mul_shoup(self, y: u32, w: Shoup) -> u32 {
        self.below_q(self.mul_shoup_lazy(y, w))
    }

    // ---- reductions

    /// `x mod q`, a residue, for any `u32` (Barrett).
    #[inline(always)]
    pub const fn reduce(self, x: u32) -> u32 {
        self.mul_shoup(
            x,
            Shoup {
                factor: 1,
                quotient: self.barrett,
            },
        )
    }

    /// A `u64` of the same class below `q * 2^32`, as [`Modulus::redc`] wants it: the high word times
    /// `2^32 mod q` plus the low word. [`LAZY_PRODUCTS`] more products fit on top of it.
    #[inline(always)]
    pub const fn fold(self, x: u64) -> u64 {
        // At most (2^32 - 1)(q - 1) + (2^32 - 1) = (2^32 - 1) q.
        ((x >> 32) as u32 as u64 * self.r as u64).wrapping_add(x as u32 as u64)
    }

    /// `x mod q`, a residue, for any `u64`.
    #[inline(always)]
    pub const fn reduce_u64(self, x: u64) -> u32 {
        self.to_montgomery(self.redc_lazy(self.fold(x)))
    }

    // ---- powers

    /// `a^exponent mod q`, a residue, for any `u32` `a`; `0^0` is 1. The time depends on the exponent only.
    pub const fn pow(self, a: u32, mut exponent: u64) -> u32 {
        let mut power = self.to_montgomery(a);
        let mut result = self.r;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.montgomery_mul(result, power);
            }
            power = self.montgomery_mul(power, power);
            exponent >>= 1;
        }
        self.from_montgomery(result)
    }

    /// `a^-1 mod q`, or `None` for a multiple of `q`. Fermat: the time does not depend on `a`.
    pub const fn inverse(self, a: u32) -> Option<u32> {
        match self.pow(a, self.q as u64 - 2) {
            0 => None,
            inverse => Some(inverse),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arith::prime::{NTT_16384, VIPIR};

    /// The extremes, and primes of every width.
    fn moduli() -> Vec<Modulus> {
        let mut all: Vec<_> = VIPIR.into_iter().chain(NTT_16384).collect();
        all.push(Modulus::LARGEST);
        for bits in 2..=29 {
            all.extend((1 << (bits - 1)..1 << bits).find_map(Modulus::new));
        }
        all
    }

    fn any_modulus() -> impl Strategy<Value = Modulus> {
        prop_oneof![
            proptest::sample::select(moduli()),
            (3u32..1 << 29).prop_map(|start| (start..1 << 29)
                .find_map(Modulus::new)
                .unwrap_or(Modulus::LARGEST)),
        ]
    }

    /// A modulus and residues of it, the edges often.
    fn residues<const LEN: usize>() -> impl Strategy<Value = (Modulus, [u32; LEN])> {
        any_modulus().prop_flat_map(|q| {
            let residue =
                prop_oneof![4 => 0..q.get(), 1 => Just(0), 1 => Just(1), 1 => Just(q.get() - 1)];
            (
                Just(q),
                proptest::collection::vec(residue, LEN).prop_map(|v| v.try_into().unwrap()),
            )
        })
    }

    fn wide(x: u32) -> u128 {
        u128::from(x)
    }

    #[test]
    fn only_odd_primes_below_2_to_29_are_moduli() {
        for q in [
            0,
            1,
            2,
            4,
            9,
            15,
            536_870_911,
            1 << 29,
            (1 << 29) + 3,
            2_147_483_647,
            u32::MAX,
        ] {
            assert_eq!(Modulus::new(q), None, "{q}");
        }
        for q in [3, 5, 12289, 536_870_909] {
            assert_eq!(Modulus::new(q).map(Modulus::get), Some(q));
        }
    }

    #[test]
    fn every_changed_field_is_noticed() {
        for modulus in moduli() {
            assert!(modulus.is_valid());
            for word in 0..8 {
                let mut words: [u32; 8] = bytemuck::cast(modulus);
                words[word] ^= 1 << word;
                assert!(
                    !bytemuck::cast::<_, Modulus>(words).is_valid(),
                    "{modulus} word {word}"
                );
            }
        }
        assert!(!<Modulus as bytemuck::Zeroable>::zeroed().is_valid());
    }

    #[test]
    fn negating_zero_gives_zero() {
        for q in moduli() {
            assert_eq!(q.neg(0), 0);
            assert_eq!(q.sub(0, 0), 0);
            assert_eq!(q.neg(1), q.get() - 1);
            assert_eq!(q.neg(q.get() - 1), 1);
        }
    }

    /// The proof beside the constant, tried on every modulus that could break it.
    #[test]
    fn lazy_sums_fit_for_every_modulus() {
        let near_the_ends = |q: u32| q > (1 << 29) - 100_000 || q.abs_diff(u32::MAX / 9) < 100_000;
        for q in (3..1 << 29)
            .step_by(2)
            .filter(|&q| q % 1009 == 1 || near_the_ends(q))
        {
            assert!(
                lazy_sum_fits(LAZY_PRODUCTS, q.into(), (1 << 32) % u64::from(q)),
                "{q}"
            );
        }
    }

    /// The largest sum that there is: fold, add the products, again and again.
    #[test]
    fn lazy_sums_of_the_largest_residues_do_not_wrap() {
        for q in moduli() {
            let product = u64::from(q.get() - 1).pow(2);
            let (mut sum, mut exact) = (u64::MAX, u128::from(u64::MAX));
            for _ in 0..20 {
                sum = (0..LAZY_PRODUCTS)
                    .try_fold(q.fold(sum), |sum, _| sum.checked_add(product))
                    .unwrap();
                exact += LAZY_PRODUCTS as u128 * u128::from(product);
                assert_eq!(u128::from(q.reduce_u64(sum)), exact % wide(q.get()));
            }
        }
    }

    #[test]
    fn extremes_stay_in_their_ranges() {
        for q in moduli() {
            let (m, top) = (q.get(), u64::from(q.get()) << 32);
            for x in [0, 1, (1 << 32) - 1, top - 1, top / 2] {
                let lazy = q.redc_lazy(x);
                assert!(lazy < 2 * m, "{q} {x}");
                assert_eq!(
                    wide(lazy) * (1 << 32) % wide(m),
                    u128::from(x) % wide(m),
                    "{q} {x}"
                );
            }
            for x in [0, u64::MAX, u64::MAX - 1, u64::MAX << 32, (1 << 32) - 1] {
                assert!(q.fold(x) < top, "{q} {x}");
                assert_eq!(u64::from(q.reduce_u64(x)), x % u64::from(m), "{q} {x}");
            }
            for y in [0, 1, m - 1, 8 * m - 1, u32::MAX] {
                for w in [0, 1, m / 2, m - 1, m, u32::MAX] {
                    let lazy = q.mul_shoup_lazy(y, q.shoup(w));
                    assert!(lazy < 2 * m, "{q} {y} {w}");
                    assert_eq!(
                        wide(lazy) % wide(m),
                        wide(y) * wide(w) % wide(m),
                        "{q} {y} {w}"
                    );
                }
            }
            for x in [0, m - 1, m, 2 * m - 1, 2 * m, 4 * m - 1, 4 * m, 8 * m - 1] {
                if x < 2 * m {
                    assert_eq!(q.below_q(x), x % m);
                }
                if x < 4 * m {
                    assert_eq!(q.below_2q(x), x % (2 * m));
                }
                assert_eq!(q.below_4q(x), x % (4 * m));
            }
            assert_eq!(q.sub_lazy_2q(6 * m - 1, 0), 8 * m - 1);
            assert_eq!(q.sub_lazy_2q(0, 2 * m), 0);
            assert_eq!(q.sub_lazy_4q(4 * m - 1, 0), 8 * m - 1);
            assert_eq!(q.sub_lazy_4q(0, 4 * m), 0);
        }
    }

    proptest! {
        #[test]
        fn the_branch_free_minimum_is_the_minimum(a: u32, b: u32, near in 0u32..3) {
            for (a, b) in [(a, b), (a, a.wrapping_add(near)), (a, 0), (a, u32::MAX), (0, u32::MAX)] {
                prop_assert_eq!(min(a, b), Ord::min(a, b));
                prop_assert_eq!(min(b, a), Ord::min(a, b));
            }
        }

        #[test]
        fn field_laws((q, [a, b, c]) in residues::<3>()) {
            prop_assert_eq!(q.add(a, b), q.add(b, a));
            prop_assert_eq!(q.mul(a, b), q.mul(b, a));
            prop_assert_eq!(q.add(q.add(a, b), c), q.add(a, q.add(b, c)));
            prop_assert_eq!(q.mul(q.mul(a, b), c), q.mul(a, q.mul(b, c)));
            prop_assert_eq!(q.mul(a, q.add(b, c)), q.add(q.mul(a, b), q.mul(a, c)));
            prop_assert_eq!(q.add(a, 0), a);
            prop_assert_eq!(q.mul(a, 1), a);
            prop_assert_eq!(q.add(a, q.neg(a)), 0);
            prop_assert_eq!(q.sub(a, b), q.add(a, q.neg(b)));
            prop_assert_eq!(q.inverse(a).map(|inverse| q.mul(a, inverse)), (a != 0).then_some(1));
        }

        #[test]
        fn sums_and_products_agree_with_wide_arithmetic((q, [a, b]) in residues::<2>()) {
            let m = wide(q.get());
            prop_assert_eq!(wide(q.add(a, b)), (wide(a) + wide(b)) % m);
            prop_assert_eq!(wide(q.sub(a, b)), (m + wide(a) - wide(b)) % m);
            prop_assert_eq!(wide(q.mul(a, b)), wide(a) * wide(b) % m);
            prop_assert_eq!(wide(q.mul_shoup(a, q.shoup(b))), wide(a) * wide(b) % m);
            prop_assert_eq!((wide(q.montgomery_mul(a, b)) << 32) % m, wide(a) * wide(b) % m);
        }

        #[test]
        fn any_word_reduces(q in any_modulus(), x: u32, y: u64, b: u32) {
            let m = q.get();
            prop_assert_eq!(q.reduce(x), x % m);
            prop_assert_eq!(u64::from(q.reduce_u64(y)), y % u64::from(m));
            prop_assert_eq!(q.from_montgomery(q.to_montgomery(x)), x % m);
            prop_assert_eq!(q.to_montgomery(q.from_montgomery(x)), x % m);
            prop_assert_eq!(wide(q.mul(x, b % m)), wide(x) * wide(b) % wide(m));
            prop_assert_eq!(q.shoup(x).factor, x % m);
        }

        #[test]
        fn montgomery_form_is_a_ring_isomorphism((q, [a, b]) in residues::<2>()) {
            let (x, y) = (q.to_montgomery(a), q.to_montgomery(b));
            prop_assert_eq!(q.from_montgomery(q.add(x, y)), q.add(a, b));
            prop_assert_eq!(q.from_montgomery(q.montgomery_mul(x, y)), q.mul(a, b));
            prop_assert_eq!(q.to_montgomery(1), q.r());
        }

        #[test]
        fn powers_multiply((q, [a]) in residues::<1>(), e in 0u64..1 << 40, f in 0u64..1 << 40) {
            prop_assert_eq!(q.pow(a, e + f), q.mul(q.pow(a, e), q.pow(a, f)));
            prop_assert_eq!(q.pow(a, 0), 1);
            prop_assert_eq!(q.pow(a, u64::from(q.get())), a);
        }
    }
}
