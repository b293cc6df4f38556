//! Random choices of a client: the generator behind every secret, ternary coefficients and the discrete Gaussian.
//!
//! Whatever touches a secret here takes the same steps and touches the same memory for every value
//! of it.

use chacha20::ChaCha20Rng;
use rand::rngs::SysRng;
use rand::{SeedableRng as _, TryRng as _};
use zeroize::Zeroizing;

/// The operating system gave no random bytes.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct RandomError(String);

/// A generator for secrets, seeded with 256 bits of the operating system. Its state is wiped when it
/// is dropped.
///
/// # Errors
///
/// [`RandomError`] where the operating system has no randomness to give.
pub fn secure_rng() -> Result<ChaCha20Rng, RandomError> {
    let mut seed = Zeroizing::new([0; 32]);
    SysRng
        .try_fill_bytes(seed.as_mut_slice())
        .map_err(|e| RandomError(e.to_string()))?;
    Ok(ChaCha20Rng::from_seed(*seed))
}

/// Fills `bytes` from the generator, which cannot fail.
pub(crate) fn fill(rng: &mut ChaCha20Rng, bytes: &mut [u8]) {
    let Ok(()) = rng.try_fill_bytes(bytes);
}

/// One ternary coefficient: -1, 0 or 1, each with probability 1/3 but for 2^-128.
pub(crate) fn ternary(rng: &mut ChaCha20Rng) -> i32 {
    let mut bytes = Zeroizing::new([0; 16]);
    fill(rng, bytes.as_mut_slice());
    trit(u128::from_le_bytes(*bytes)) as i32 - 1
}

/// floor(3 u / 2^128): uniform in {0, 1, 2} but for 2^-128, and takes no loop and no branch.
fn trit(uniform: u128) -> u32 {
    let (high, low) = (uniform >> 64, uniform & u128::from(u64::MAX));
    ((3 * high + ((3 * low) >> 64)) >> 64) as u32
}

/// The discrete Gaussian over the integers: P(x) proportional to exp(-x^2 / (2 sigma^2)).
///
/// Sampled by inversion with a cumulative table, read whole for every sample: no branch and no address
/// depends on what comes out. Probabilities are rounded to 2^-96 and the tail beyond the table weighs
/// less, so that a sample is within 2^-88 of the exact distribution in statistical distance.
#[derive(Clone, Debug)]
pub struct DiscreteGaussian {
    /// Entry k is P(|x| <= k) in units of 2^-96, rounded down; entries up to the last below 1.
    table: Vec<u128>,
}

/// Range of standard deviations that the sampler is built for, in hundredths.
pub(crate) const SIGMA_RANGE: std::ops::RangeInclusive<u32> = 100..=3200;

/// Fraction bits of the cumulative table.
const TABLE_BITS: u32 = 96;

impl DiscreteGaussian {
    /// The table for a standard deviation, given in hundredths and within [`SIGMA_RANGE`].
    pub(crate) fn new(sigma_hundredths: u32) -> Self {
        let sigma_hundredths = u128::from(sigma_hundredths);
        // rho(k) = g^(k^2) with g = exp(-1 / (2 sigma^2)) = exp(-5000 / sigma_hundredths^2).
        let g = fixed::exp_neg(fixed::ratio(
            5000,
            sigma_hundredths * sigma_hundredths,
            fixed::BITS,
        ));
        let g_squared = fixed::mul(g, g);
        // Twelve standard deviations: beyond, 2^-96 holds nothing.
        let last = (sigma_hundredths * 12).div_ceil(100);
        let mut weights = Vec::new();
        let (mut rho, mut step) = (fixed::ONE, g);
        for k in 0..=last {
            // Both signs of a magnitude share its weight; 7 bits of room keep the sum within 128.
            weights.push(if k == 0 { rho >> 8 } else { rho >> 7 });
            rho = fixed::mul(rho, step);
            step = fixed::mul(step, g_squared);
        }
        let total = weights.iter().sum::<u128>();
        let mut sum = 0;
        let table = weights
            .iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .take_while(|&sum| sum < total)
            .map(|sum| fixed::ratio(sum, total, TABLE_BITS))
            .filter(|&entry| entry < (1 << TABLE_BITS) - 1)
            .collect();
        Self { table }
    }

    /// One sample.
    pub(crate) fn sample(&self, rng: &mut ChaCha20Rng) -> i32 {
        let mut bytes = Zeroizing::new([0; 16]);
        fill(rng, bytes.as_mut_slice());
        let uniform = u128::from_le_bytes(*bytes);
        let sign = (uniform & 1) as u32;
        let uniform = uniform >> (128 - TABLE_BITS);
        let mut magnitude = 0;
        for &entry in &self.table {
            // Both are below 2^96, so the top bit of the difference is the borrow: 1 where uniform < entry.
            magnitude += 1 - (uniform.wrapping_sub(entry) >> 127) as u32;
        }
        // x or -x: complement and add one where the sign is set.
        (magnitude ^ sign.wrapping_neg()).wrapping_add(sign) as i32
    }
}

/// Fixed-point arithmetic on [0, 1] with 127 fraction bits, for the table.
mod fixed {
    pub(super) const BITS: u32 = 127;
    pub(super) const ONE: u128 = 1 << BITS;

    /// a b, rounded down.
    pub(super) fn mul(a: u128, b: u128) -> u128 {
        const LOW: u128 = u64::MAX as u128;
        let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
        // a1, b1 <= 2^63: the sums below stay under 2^128.
        let middle = a1 * b0 + ((a0 * b0) >> 64);
        let (middle_high, middle_low) = (middle >> 64, middle & LOW);
        let middle_low = middle_low + a0 * b1;
        let high = a1 * b1 + middle_high + (middle_low >> 64);
        (high << 1) | ((middle_low & LOW) >> 63)
    }

    /// floor(2^bits * numerator / denominator), for numerator < denominator < 2^127.
    pub(super) fn ratio(numerator: u128, denominator: u128, bits: u32) -> u128 {
        let mut remainder = numerator;
        let mut quotient = 0;
        for _ in 0..bits {
            remainder <<= 1;
            quotient <<= 1;
            if remainder >= denominator {
                remainder -= denominator;
                quotient |= 1;
            }
        }
        quotient
    }

    /// exp(-x) for x in [0, 1), by its alternating series.
    pub(super) fn exp_neg(x: u128) -> u128 {
        let (mut term, mut even, mut odd) = (ONE, 0, 0);
        for k in 1..64 {
            if k % 2 == 1 {
                even += term >> 1;
            } else {
                odd += term >> 1;
            }
            term = mul(term, x) / k;
        }
        (even - odd) << 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    /// The three values change over at the words next to 2^128 / 3 and 2^129 / 3, not earlier.
    #[test]
    fn a_trit_takes_128_bits() {
        let third = u128::MAX / 3;
        assert_eq!([0, third, third + 1].map(trit), [0, 0, 1]);
        assert_eq!([2 * third, 2 * third + 1, u128::MAX].map(trit), [1, 2, 2]);
    }

    #[test]
    fn gaussian_table_matches_an_independent_computation() {
        // floor(2^96 P(|x| <= k)) to 60 digits, by mpmath.
        let table = DiscreteGaussian::new(640).table;
        for (k, expected) in GAUSSIAN_640 {
            assert_eq!(table[*k], *expected, "k = {k}");
        }
        assert!(table.windows(2).all(|w| w[0] < w[1]), "the table must grow");
        assert!(table[table.len() - 1] < (1 << TABLE_BITS));
    }

    const GAUSSIAN_640: &[(usize, u128)] = &[
        (0, 0x0ff5_2b40_64a1_f258_29df_05b2),
        (1, 0x2f7c_60a7_3fd7_d188_26e8_b6ed),
        (2, 0x4de1_5b3a_dda5_de9d_c9e7_ac0c),
        (6, 0xb0d0_b934_23b9_46aa_10ad_1999),
        (13, 0xf71c_1bc6_a8d9_fb0b_c6f2_555a),
        (20, 0xffa7_e8f4_2ad7_bced_0088_1f07),
        (40, 0xffff_fffe_fa3b_c3e8_6187_73e8),
        (60, 0xffff_ffff_ffff_ffff_f1d0_5243),
        (70, 0xffff_ffff_ffff_ffff_ffff_ffe9),
    ];

    #[test]
    fn samples_have_the_moments_and_the_shape_of_the_distribution() {
        for sigma_hundredths in [640, 320, 1600] {
            let sampler = DiscreteGaussian::new(sigma_hundredths);
            let mut rng = test_rng(2);
            const SAMPLES: usize = 200_000;
            let draws: Vec<i32> = (0..SAMPLES).map(|_| sampler.sample(&mut rng)).collect();
            let count = SAMPLES as f64;
            let mean = draws.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
            let variance = draws.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / count;
            let sigma = f64::from(sigma_hundredths) / 100.0;
            assert!(mean.abs() < 5.0 * sigma / count.sqrt(), "mean {mean}");
            // The variance of a sample variance is 2 sigma^4 / count.
            assert!(
                (variance / sigma.powi(2) - 1.0).abs() < 5.0 * (2.0 / count).sqrt(),
                "variance {variance}"
            );
            // Chi-squared over -3 sigma .. 3 sigma, a cell a value.
            let reach = (3.0 * sigma) as i32;
            let total: f64 = (-400..=400)
                .map(|x| (-f64::from(x * x) / (2.0 * sigma * sigma)).exp())
                .sum();
            let chi_squared: f64 = (-reach..=reach)
                .map(|x| {
                    let expected =
                        count * (-f64::from(x * x) / (2.0 * sigma * sigma)).exp() / total;
                    let seen = draws.iter().filter(|&&d| d == x).count() as f64;
                    (seen - expected).powi(2) / expected
                })
                .sum();
            let cells = f64::from(2 * reach + 1);
            assert!(
                chi_squared < cells + 5.0 * (2.0 * cells).sqrt(),
                "chi-squared {chi_squared} over {cells} cells"
            );
            assert!(draws.iter().all(|x| f64::from(x.abs()) < 12.0 * sigma));
        }
    }

    #[test]
    fn fixed_point_exponential_matches_floating_point() {
        for (numerator, denominator) in [
            (5000, 640 * 640),
            (5000, 320 * 320),
            (5000, 1600 * 1600),
            (1, 2),
        ] {
            let x = fixed::ratio(numerator, denominator, fixed::BITS);
            let got = fixed::exp_neg(x) as f64 / fixed::ONE as f64;
            let want = (-(numerator as f64) / denominator as f64).exp();
            assert!((got - want).abs() < 1e-15, "{got} for {want}");
        }
    }

    #[test]
    fn generators_of_the_operating_system_differ() {
        let draw = || {
            let mut bytes = [0; 8];
            fill(&mut secure_rng().unwrap(), &mut bytes);
            bytes
        };
        assert_ne!(draw(), draw());
    }
}
