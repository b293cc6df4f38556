//! Gadget decomposition: an integer as few balanced digits times powers of two.
//!
//! x = sum over j of d_j 2^(t + w j) + r, |r| <= 2^(t-1): digits d_j in [-2^(w-1), 2^(w-1)), the lowest t bits dropped with
//! rounding (t = 0 is exact: r = 0). Approximate digits are those of I. Chillotti et al., *TFHE*, J. Cryptology 33 (2020).

/// Digits, their base and what is dropped below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gadget {
    digits: u32,
    base_bits: u32,
    dropped: u32,
}

/// The most digits.
pub const MAX_DIGITS: u32 = 32;
/// The widest digit, in bits: a digit is smaller than the primes.
pub const MAX_BASE_BITS: u32 = 29;

/// Why a gadget does not decompose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GadgetError {
    /// Outside what is handled.
    #[error(
        "{digits} digits of {base_bits} bits above {dropped}: 1 to {MAX_DIGITS} digits of 1 to {MAX_BASE_BITS} bits are handled, and together with the dropped bits at most 120"
    )]
    Range {
        /// Digits l.
        digits: u32,
        /// Bits of the base, w.
        base_bits: u32,
        /// Bits dropped, t.
        dropped: u32,
    },
    /// The digits do not reach the largest value.
    #[error(
        "{digits} digits of {base_bits} bits above {dropped} do not reach values of {modulus_bits} bits: take more or wider digits, or drop more"
    )]
    Short {
        /// Digits l.
        digits: u32,
        /// Bits of the base, w.
        base_bits: u32,
        /// Bits dropped, t.
        dropped: u32,
        /// Bits of the modulus.
        modulus_bits: u32,
    },
}

impl Gadget {
    /// l digits of w bits, the lowest t bits dropped, for values modulo `modulus`.
    ///
    /// # Errors
    ///
    /// [`GadgetError`] where the digits do not reach every value in (-q/2, q/2).
    pub fn new(
        modulus: u128,
        digits: u32,
        base_bits: u32,
        dropped: u32,
    ) -> Result<Self, GadgetError> {
        if !(1..=MAX_DIGITS).contains(&digits)
            || !(1..=MAX_BASE_BITS).contains(&base_bits)
            || dropped > 64
            || digits * base_bits + dropped > 120
        {
            return Err(GadgetError::Range {
                digits,
                base_bits,
                dropped,
            });
        }
        let gadget = Self {
            digits,
            base_bits,
            dropped,
        };
        // The largest value and all that is added to it must leave no carry above the top digit.
        if modulus / 2 + gadget.offset() >= 1 << (dropped + digits * base_bits) {
            return Err(GadgetError::Short {
                digits,
                base_bits,
                dropped,
                modulus_bits: 128 - modulus.leading_zeros(),
            });
        }
        Ok(gadget)
    }

    /// Digits l.
    pub const fn digits(&self) -> u32 {
        self.digits
    }

    /// Bits of the base, w.
    pub const fn base_bits(&self) -> u32 {
        self.base_bits
    }

    /// Bits dropped, t.
    pub const fn dropped(&self) -> u32 {
        self.dropped
    }

    /// The weight of digit j, 2^(t + w j).
    pub const fn weight(&self, j: u32) -> u128 {
        1 << (self.dropped + self.base_bits * j)
    }

    /// Half a base at every digit, and half of what is dropped: added, it makes all digits non-negative.
    fn offset(&self) -> u128 {
        let half_base: u128 = (0..self.digits)
            .map(|j| self.weight(j) << self.base_bits >> 1)
            .sum();
        half_base + (1 << self.dropped >> 1)
    }

    /// The digits of `x`, |x| <= q/2, the lowest first.
    pub fn decompose(&self, x: i128) -> impl Iterator<Item = i32> + use<> {
        let Self {
            digits,
            base_bits,
            dropped,
        } = *self;
        let shifted = x.wrapping_add(self.offset() as i128) >> dropped;
        let (mask, half) = ((1_i128 << base_bits) - 1, 1_i32 << base_bits >> 1);
        (0..digits).map(move |j| ((shifted >> (base_bits * j)) & mask) as i32 - half)
    }

    /// What digits stand for.
    pub fn recompose(&self, digits: impl IntoIterator<Item = i32>) -> i128 {
        digits
            .into_iter()
            .zip(0..)
            .map(|(digit, j)| i128::from(digit) << (self.dropped + self.base_bits * j))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_value_of_a_small_modulus_comes_back() {
        for modulus in [17_u128, 97, 7681] {
            for base_bits in 1..=6 {
                for digits in 1..=14 {
                    for dropped in 0..=5 {
                        let Ok(gadget) = Gadget::new(modulus, digits, base_bits, dropped) else {
                            continue;
                        };
                        let reach = (modulus / 2) as i128;
                        for x in -reach..=reach {
                            let parts: Vec<i32> = gadget.decompose(x).collect();
                            let half = 1 << base_bits >> 1;
                            assert!(
                                parts.iter().all(|d| (-half..half).contains(d)),
                                "{gadget:?} {x}"
                            );
                            let error = x - gadget.recompose(parts);
                            assert!(
                                error.abs() <= 1 << dropped >> 1,
                                "{gadget:?} {x} off by {error}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_gadget_that_falls_short_is_refused() {
        // 15 bits above the 15 dropped cover values of 30 bits less a little.
        assert!(Gadget::new(1 << 29, 3, 5, 15).is_ok());
        assert!(matches!(
            Gadget::new(1 << 30, 3, 5, 15),
            Err(GadgetError::Short {
                modulus_bits: 31,
                ..
            })
        ));
        for (digits, base_bits, dropped) in [
            (0, 5, 0),
            (33, 2, 0),
            (2, 0, 0),
            (2, 30, 0),
            (1, 1, 65),
            (31, 29, 0),
        ] {
            assert!(matches!(
                Gadget::new(17, digits, base_bits, dropped),
                Err(GadgetError::Range { .. })
            ));
        }
    }

    proptest! {
        /// The gadgets of the named sets, the edges of the range often.
        #[test]
        fn values_of_the_real_moduli_come_back(unit in prop_oneof![Just(-1.0), Just(1.0), -1.0..1.0], near in -3_i128..=3) {
            let vipir = 536_813_569_u128 * 536_690_689 * 536_641_537;
            let onion = 94_904_321_u128 * 94_887_937 * 94_863_361 * 94_789_633;
            for (q, digits, base_bits, dropped) in [(vipir, 5, 18, 0), (vipir, 4, 18, 15), (onion, 5, 18, 16), (onion, 8, 14, 0)] {
                let gadget = Gadget::new(q, digits, base_bits, dropped).unwrap();
                let reach = (q / 2) as i128;
                let x = ((unit * reach as f64) as i128).saturating_add(near).clamp(-reach, reach);
                let error = x - gadget.recompose(gadget.decompose(x));
                prop_assert!(error.abs() <= 1 << dropped >> 1, "{x}: {error}");
            }
        }
    }
}
