//! Learning-with-errors parameters, checked: security against a table of estimates, and a failure
//! bound from the very parameters that are shipped.
//!
//! The modulus is q = 2^32, so that products wrap for free, and a plaintext is a byte: p = 2^8,
//! Delta = q / p = 2^24 exactly.

use crate::he::sample::SIGMA_RANGE;
use crate::he::security::{self, MAX_LOG2_FAILURE, MAX_SAMPLES, MIN_SECURITY_BITS, Secret};

/// log2 of the ciphertext modulus q.
pub const LOG2_MODULUS: u32 = 32;
/// log2 of the plaintext modulus p: one byte.
pub const LOG2_PLAINTEXT: u32 = 8;
/// Delta = q / p: what one unit of plaintext weighs in a ciphertext.
pub const DELTA: u32 = 1 << (LOG2_MODULUS - LOG2_PLAINTEXT);
/// The largest magnitude of a database entry, a signed byte.
const MAX_ENTRY: f64 = 128.0;

/// Largest dimension accepted: an honest one is far below, and the client multiplies by it.
const MAX_DIMENSION: u32 = 4096;
/// A set of LWE parameters at or above 128 bits. There is no other way to have one than through
/// the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LweParameters {
    dimension: u32,
    sigma_hundredths: u32,
    secret: Secret,
}

/// Why a parameter set is refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// Estimated below 128 bits.
    #[error(
        "LWE n = {dimension}, q = 2^32, sigma = {}, {secret} secret reaches {bits} bits and {MIN_SECURITY_BITS} are asked for: raise n or sigma",
        hundredths(*sigma_hundredths)
    )]
    TooWeak {
        /// LWE dimension n.
        dimension: u32,
        /// Standard deviation, in hundredths.
        sigma_hundredths: u32,
        /// Distribution of the secret.
        secret: Secret,
        /// The estimate, in bits.
        bits: f64,
    },
    /// No estimate says that the set is safe: every one that was run has a larger dimension or error.
    #[error(
        "LWE n = {dimension}, q = 2^32, sigma = {}, {secret} secret is in no estimate: use n = 1280 and sigma = 6.4 with a ternary secret",
        hundredths(*sigma_hundredths)
    )]
    NotEstimated {
        /// LWE dimension n.
        dimension: u32,
        /// Standard deviation, in hundredths.
        sigma_hundredths: u32,
        /// Distribution of the secret.
        secret: Secret,
    },
    /// Outside what this code handles.
    #[error(
        "LWE n = {dimension}, sigma = {} is outside the supported range: n up to {MAX_DIMENSION}, sigma from 1 to 32, ternary secrets",
        hundredths(*sigma_hundredths)
    )]
    Unsupported {
        /// LWE dimension n.
        dimension: u32,
        /// Standard deviation, in hundredths.
        sigma_hundredths: u32,
    },
}

fn hundredths(value: u32) -> f64 {
    f64::from(value) / 100.0
}

impl LweParameters {
    /// n = 1280, sigma = 6.4, ternary secret: 137.9 bits.
    pub const STANDARD: Self = Self {
        dimension: 1280,
        sigma_hundredths: 640,
        secret: Secret::Ternary,
    };

    /// n = 1152, sigma = 16, ternary secret: 129.3 bits, a tenth less hint and packing.
    pub const SMALL: Self = Self {
        dimension: 1152,
        sigma_hundredths: 1600,
        secret: Secret::Ternary,
    };

    /// Checks a set against the table: an estimate covers every set of the same secret whose dimension
    /// and error are at least as large.
    ///
    /// `sigma_hundredths` is the standard deviation of the error times 100 (not the width
    /// s = sigma * sqrt(2 pi)).
    ///
    /// # Errors
    ///
    /// [`ParameterError`] where the set is not known to reach 128 bits.
    pub fn new(
        dimension: u32,
        sigma_hundredths: u32,
        secret: Secret,
    ) -> Result<Self, ParameterError> {
        let bits = security::lwe_bits(dimension, sigma_hundredths, secret).ok_or(
            ParameterError::NotEstimated {
                dimension,
                sigma_hundredths,
                secret,
            },
        )?;
        if bits < MIN_SECURITY_BITS {
            return Err(ParameterError::TooWeak {
                dimension,
                sigma_hundredths,
                secret,
                bits,
            });
        }
        if dimension > MAX_DIMENSION
            || !SIGMA_RANGE.contains(&sigma_hundredths)
            || secret != Secret::Ternary
        {
            return Err(ParameterError::Unsupported {
                dimension,
                sigma_hundredths,
            });
        }
        Ok(Self {
            dimension,
            sigma_hundredths,
            secret,
        })
    }

    /// LWE dimension n.
    pub const fn dimension(&self) -> usize {
        self.dimension as usize
    }

    /// Standard deviation of the error, in hundredths.
    pub const fn sigma_hundredths(&self) -> u32 {
        self.sigma_hundredths
    }

    /// Standard deviation of the error.
    pub fn sigma(&self) -> f64 {
        hundredths(self.sigma_hundredths)
    }

    /// Distribution of the secret.
    pub const fn secret(&self) -> Secret {
        self.secret
    }

    /// Estimated security in bits.
    pub fn security_bits(&self) -> f64 {
        // A set that exists has an estimate; 0 would show a mistake rather than hide it.
        security::lwe_bits(self.dimension, self.sigma_hundredths, self.secret).unwrap_or(0.0)
    }

    /// The most columns a database may have so that a record of `coefficients` bytes comes out wrong
    /// with probability at most 2^-40, and so that one query stays within [`MAX_SAMPLES`].
    pub fn max_columns(&self, coefficients: u64) -> u32 {
        let budget = (log2_union(coefficients) - MAX_LOG2_FAILURE) * std::f64::consts::LN_2;
        let limit = NoiseModel::LIMIT * NoiseModel::LIMIT
            / (2.0 * self.sigma().powi(2) * MAX_ENTRY.powi(2) * budget);
        // The cast saturates; the noise model itself is asked again for the columns chosen.
        (limit.floor() as u32).min(MAX_SAMPLES)
    }
}

/// log2 of the two tails of `coefficients` coefficients.
fn log2_union(coefficients: u64) -> f64 {
    1.0 + (coefficients.max(1) as f64).log2()
}

/// What the error of an answer does to one record.
///
/// Coefficient i of an answer carries sum over j of D\[i]\[j] * e\[j]. A discrete Gaussian centred on the
/// integers is subgaussian with its parameter sigma (Micciancio and Peikert, Eurocrypt 2012, lemma
/// 2.8), hence so is the sum with variance sigma^2 * sum of D\[i]\[j]^2, and it passes T with probability at
/// most 2 exp(-T^2 / (2 variance)). That is a bound, not an approximation. Nothing else
/// disturbs the answer: Delta divides q.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseModel {
    variance: f64,
}

impl NoiseModel {
    /// Half of Delta: an error below it is rounded away.
    pub const LIMIT: f64 = (DELTA / 2) as f64;

    /// For any database of this many columns: every entry taken as -128.
    pub fn worst_case(lwe: &LweParameters, columns: u32) -> Self {
        Self {
            variance: lwe.sigma().powi(2) * MAX_ENTRY.powi(2) * f64::from(columns),
        }
    }

    /// For one row of a database, given the sum of the squares of its signed entries.
    pub fn of_row(lwe: &LweParameters, sum_of_squares: u64) -> Self {
        Self {
            variance: lwe.sigma().powi(2) * sum_of_squares as f64,
        }
    }

    /// Standard deviation of the error of one coefficient.
    pub fn standard_deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// log2 of a bound on the probability that any of `coefficients` coefficients is rounded wrongly.
    pub fn log2_failure(&self, coefficients: u64) -> f64 {
        log2_union(coefficients)
            - Self::LIMIT * Self::LIMIT / (2.0 * self.variance) * std::f64::consts::LOG2_E
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_sets_at_or_above_128_bits() {
        for (n, sigma, bits) in [
            (1280, 640, 137.9),
            (1280, 320, 133.4),
            (1152, 1600, 129.3),
            (1300, 700, 137.9),
        ] {
            let set = LweParameters::new(n, sigma, Secret::Ternary).unwrap();
            assert!(
                (set.security_bits() - bits).abs() < 1e-9,
                "n = {n}, sigma = {sigma}"
            );
        }
        assert_eq!(
            LweParameters::new(1280, 640, Secret::Ternary),
            Ok(LweParameters::STANDARD)
        );
    }

    #[test]
    fn constants_pass_the_check() {
        for set in [LweParameters::STANDARD, LweParameters::SMALL] {
            let again = LweParameters::new(set.dimension, set.sigma_hundredths, set.secret);
            assert_eq!(again, Ok(set));
        }
    }

    #[test]
    fn refuses_simplepir_as_published_and_says_why() {
        let error = LweParameters::new(1024, 640, Secret::Uniform).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LWE n = 1024, q = 2^32, sigma = 6.4, uniform secret reaches 121.5 bits and 128 are asked for: raise n or sigma"
        );
    }

    #[test]
    fn refuses_sets_that_no_estimate_covers() {
        for (n, sigma) in [
            (1279, 640),
            (1280, 319),
            (1151, 1600),
            (1152, 1599),
            (1024, 640),
            (0, 0),
        ] {
            assert!(
                matches!(
                    LweParameters::new(n, sigma, Secret::Ternary),
                    Err(ParameterError::NotEstimated { .. })
                ),
                "n = {n}, sigma = {sigma}"
            );
        }
        // A standard deviation given as the width s = sigma sqrt(2 pi) = 2.55 * 2.5066 must not pass.
        assert!(LweParameters::new(1280, 255, Secret::Ternary).is_err());
        assert!(matches!(
            LweParameters::new(u32::MAX, 640, Secret::Ternary),
            Err(ParameterError::Unsupported { .. })
        ));
    }

    #[test]
    fn failure_bound_stops_at_the_column_limit() {
        for (set, coefficients) in [
            (LweParameters::STANDARD, 1),
            (
                LweParameters::new(1152, 1600, Secret::Ternary).unwrap(),
                1 << 20,
            ),
        ] {
            let columns = set.max_columns(coefficients);
            assert!(
                NoiseModel::worst_case(&set, columns).log2_failure(coefficients)
                    <= MAX_LOG2_FAILURE
            );
            if columns < MAX_SAMPLES {
                let next = NoiseModel::worst_case(&set, columns + 1).log2_failure(coefficients);
                assert!(next > MAX_LOG2_FAILURE, "{next} at {} columns", columns + 1);
            }
        }
        // sigma = 16 runs out of noise long before samples: about 2^46 / (2 * 256 * 2^14 * 61 ln 2).
        let columns = LweParameters::new(1152, 1600, Secret::Ternary)
            .unwrap()
            .max_columns(1 << 20);
        assert!((190_000..210_000).contains(&columns), "{columns}");
    }

    #[test]
    fn model_agrees_with_the_published_figures() {
        // Random signed bytes have mean square 5461.5: 2^16.9 at 2^16 columns, 2^18.9 at 2^20.
        for (log2_columns, log2_std) in [(16, 16.9), (20, 18.9)] {
            let model =
                NoiseModel::of_row(&LweParameters::STANDARD, 54615 * (1 << log2_columns) / 10);
            assert!((model.standard_deviation().log2() - log2_std).abs() < 0.05);
        }
    }

    #[test]
    fn failure_probability_unites_all_coefficients() {
        let model = NoiseModel::worst_case(&LweParameters::STANDARD, 1 << 20);
        let one = model.log2_failure(1);
        assert!((model.log2_failure(1 << 20) - one - 20.0).abs() < 1e-9);
    }
}
