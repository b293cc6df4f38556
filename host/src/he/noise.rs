//! The noise model: the variance that every step adds, and the probability that a record comes out wrong.
//!
//! The same code validates parameters, so that no set is shipped under a bound that was computed for another.
//!
//! # The model
//!
//! Errors of a ciphertext are taken as independent of what they are multiplied with: digits, which are uniform in their
//! range because the halves of ciphertexts are, and ternary secrets, of variance 2/3. A step then adds variances, and
//! the product of a polynomial of coefficient variance D and an error polynomial has N D times the *mean* variance of
//! that error. Tests measure every step against it.
//!
//! Expansion spreads errors unevenly: the coefficients at multiples of the slot count hold most of them. [`Noise`]
//! carries the mean over all coefficients, which counts when the ciphertext is multiplied, and the largest, which counts
//! when it is decrypted as it is.
//!
//! A result is wrong when an error passes half the distance of two plaintexts; with z standard deviations to there, the
//! model says at most 2 exp(-z^2 / 2), and a record is wrong when any coefficient that it needs is.

use super::gadget::Gadget;
use super::lwe::params::{LOG2_MODULUS, LweParameters, NoiseModel as ScalarNoise};

/// Variance of a ternary secret's coefficient.
const SECRET: f64 = 2.0 / 3.0;
/// Variance of a rounding to integers.
const ROUNDING: f64 = 1.0 / 12.0;

/// Variance of the error of a ciphertext's coefficients, in units of the integers modulo q.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Mean over all coefficients.
    pub mean: f64,
    /// That of the coefficient with the most.
    pub peak: f64,
}

impl Noise {
    /// The same variance everywhere.
    pub const fn even(variance: f64) -> Self {
        Self {
            mean: variance,
            peak: variance,
        }
    }

    /// log2 of the standard deviation, from the mean.
    pub fn log2_std(&self) -> f64 {
        self.mean.log2() / 2.0
    }
}

impl std::ops::Add for Noise {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            mean: self.mean + other.mean,
            peak: self.peak + other.peak,
        }
    }
}

/// What a decomposition does to errors.
#[derive(Clone, Copy, Debug)]
struct Digits {
    /// Sum over the digits of their variance.
    energy: f64,
    /// Variance of what is dropped.
    dropped: f64,
}

impl Digits {
    fn new(gadget: &Gadget, modulus: f64) -> Self {
        let base = f64::from(gadget.base_bits()).exp2();
        let energy = (0..gadget.digits())
            .map(|j| {
                // The top digit has the range that q leaves to it.
                let span = modulus / gadget.weight(j) as f64;
                (base * base).min(span * span + 1.0) * ROUNDING
            })
            .sum();
        let dropped = match gadget.dropped() {
            0 => 0.0,
            bits => f64::from(2 * bits).exp2() * ROUNDING,
        };
        Self { energy, dropped }
    }
}

/// The noise of one scheme's operations.
#[derive(Clone, Copy, Debug)]
pub struct NoiseModel {
    n: f64,
    modulus: f64,
    fresh: f64,
    plaintext: f64,
    keys: Digits,
    selectors: Digits,
}

/// Errors of an RGSW ciphertext's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNoise {
    /// Of the rows that multiply digits of b.
    pub b: Noise,
    /// Of the rows that multiply digits of a.
    pub a: Noise,
}

impl NoiseModel {
    /// The model for degree n, modulus q, standard deviation sigma of fresh errors, log2 of the plaintext modulus, and the
    /// gadgets of keys and of selectors.
    pub fn new(
        n: usize,
        modulus: u128,
        sigma: f64,
        plaintext_bits: u32,
        keys: &Gadget,
        selectors: &Gadget,
    ) -> Self {
        let modulus = modulus as f64;
        Self {
            n: n as f64,
            modulus,
            fresh: sigma * sigma,
            plaintext: f64::from(plaintext_bits).exp2(),
            keys: Digits::new(keys, modulus),
            selectors: Digits::new(selectors, modulus),
        }
    }

    /// A fresh encryption.
    pub fn fresh(&self) -> Noise {
        Noise::even(self.fresh)
    }

    /// What one key switching adds.
    pub fn key_switching(&self) -> Noise {
        Noise::even(self.n * self.keys.energy * self.fresh + self.keys.dropped * SECRET * self.n)
    }

    /// A slot after `levels` levels of expansion of a fresh encryption. Every level adds a ciphertext and its image.
    pub fn expanded(&self, levels: u32) -> Noise {
        (0..levels).fold(self.fresh(), |Noise { mean, peak }, _| {
            let added = self.key_switching();
            Noise {
                mean: 2.0 * mean + added.mean,
                // Coefficients that the automorphism leaves in place are doubled.
                peak: 4.0 * peak + added.peak,
            }
        })
    }

    /// The rows of an RGSW ciphertext made from slots: the others are each slot times the secret, by a product with RGSW(s).
    pub fn converted(&self, slot: Noise) -> RowNoise {
        let product = 2.0 * self.n * self.keys.energy * self.fresh;
        // What is dropped of a is multiplied by s^2, whose coefficients have variance 2 N (2/3)^2: s_i s_j appears twice.
        let dropped = self.keys.dropped * (2.0 * (SECRET * self.n).powi(2) + SECRET * self.n);
        RowNoise {
            b: slot,
            a: Noise::even(SECRET * self.n * slot.mean + product + dropped),
        }
    }

    /// The rows of an RGSW ciphertext that the client encrypted, for the gadget of selectors.
    pub fn fresh_rows(&self) -> RowNoise {
        RowNoise {
            b: self.fresh(),
            a: self.fresh(),
        }
    }

    /// What an external product adds to the noise of its ciphertext, for a message of 0, 1 or +-X^k.
    pub fn external_product(&self, rows: RowNoise) -> Noise {
        Noise::even(
            self.n * self.selectors.energy * (rows.b.mean + rows.a.mean)
                + self.selectors.dropped * (1.0 + SECRET * self.n),
        )
    }

    /// The sum of `terms` slots, each times a polynomial uniform modulo p in balanced representation: ring packing, where
    /// each of n slots is multiplied by a polynomial of the hint.
    pub fn packed(&self, terms: u32, slot: Noise) -> Noise {
        self.plaintext_sum(terms, slot, ROUNDING)
    }

    /// The sum of `terms` slots, each times any polynomial of coefficients up to p / 2: a row selection, where the
    /// polynomials are records and may be anything.
    pub fn selected(&self, terms: u32, slot: Noise) -> Noise {
        self.plaintext_sum(terms, slot, 0.25)
    }

    fn plaintext_sum(&self, terms: u32, slot: Noise, of_square: f64) -> Noise {
        Noise::even(f64::from(terms) * self.n * self.plaintext.powi(2) * of_square * slot.mean)
    }

    /// The relative error of a response: its variance as a fraction of the square of the response's modulus q'. Switching
    /// rounds both halves.
    pub fn switched(&self, noise: Noise, log2_response: f64) -> f64 {
        noise.peak / self.modulus.powi(2)
            + (SECRET * self.n + 1.0) * ROUNDING / (2.0 * log2_response).exp2()
    }
}

/// The relative error of a scalar fold switched to 2^`bits`: its variance as a fraction of the square of the modulus.
/// Every entry of the database is taken as -128.
pub fn scalar_fold(lwe: &LweParameters, columns: u32, bits: u32) -> f64 {
    let fold = ScalarNoise::worst_case(lwe, columns)
        .standard_deviation()
        .log2();
    let rounding = (SECRET * lwe.dimension() as f64 + 1.0) * ROUNDING;
    (2.0 * (fold - f64::from(LOG2_MODULUS))).exp2() + rounding / f64::from(2 * bits).exp2()
}

/// log2 of the probability that any of `coefficients` is decoded to `bits` bits wrongly, where their relative error has
/// this variance. The bound 2 exp(-z^2 / 2), capped at 0.
pub fn log2_failure(relative_variance: f64, bits: u32, coefficients: u64) -> f64 {
    let limit = (-f64::from(bits) - 1.0).exp2();
    let exponent = limit * limit / (2.0 * relative_variance) * std::f64::consts::LOG2_E;
    (1.0 + (coefficients.max(1) as f64).log2() - exponent).min(0.0)
}
