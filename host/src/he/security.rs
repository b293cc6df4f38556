//! How hard the problems are that the schemes stand on: a table of estimates, and what it covers.
//!
//! Every estimate is lattice-estimator's (M. Albrecht, R. Player, S. Scott, *On the concrete hardness of learning with
//! errors*, J. Math. Cryptol. 9, 2015), MATZOV cost model, minimum over usvp, bdd and `dual_hybrid`. A set that no
//! estimate covers is not safe by interpolation: it is refused.

use std::fmt;

/// The security that a parameter set must reach, in bits.
pub const MIN_SECURITY_BITS: f64 = 128.0;
/// The largest probability, as log2, that a retrieved record is wrong.
pub const MAX_LOG2_FAILURE: f64 = -40.0;
/// Samples under one LWE secret for which the table holds. A query gives one a column.
pub const MAX_SAMPLES: u32 = 1 << 20;

/// The distribution of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Secret {
    /// Coefficients uniform in {-1, 0, 1}.
    Ternary,
    /// Coefficients uniform modulo q.
    Uniform,
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ternary => "ternary",
            Self::Uniform => "uniform",
        })
    }
}

/// LWE modulo 2^32, up to [`MAX_SAMPLES`] samples: dimension, sigma in hundredths, secret, bits.
const LWE: &[(u32, u32, Secret, f64)] = &[
    (1280, 640, Secret::Ternary, 137.9),
    (1280, 320, Secret::Ternary, 133.4),
    (1152, 1600, Secret::Ternary, 129.3),
    // SimplePIR as published (Henzinger et al., USENIX Security 2023).
    (1024, 640, Secret::Uniform, 121.5),
];

/// RLWE with a ternary secret: log2 N, log2 of the modulus, sigma in hundredths, bits.
const RLWE: &[(u32, u32, u32, f64)] = &[
    (12, 87, 320, 159.0),
    (12, 90, 320, 154.0),
    (12, 101, 320, 136.0),
    (12, 104, 320, 131.0),
    (12, 105, 320, 130.0),
    (12, 106, 320, 128.9),
    (12, 107, 320, 127.6),
    (12, 108, 320, 126.4),
    (12, 109, 320, 125.1),
    (11, 53, 320, 128.8),
    (11, 60, 320, 113.0),
];

/// Bits of security of LWE modulo 2^32, or `None` where no estimate covers the set: an estimate covers every set of
/// the same secret whose dimension and error are at least as large.
pub fn lwe_bits(dimension: u32, sigma_hundredths: u32, secret: Secret) -> Option<f64> {
    LWE.iter()
        .filter(|&&(n, sigma, of, _)| of == secret && n <= dimension && sigma <= sigma_hundredths)
        .map(|&(.., bits)| bits)
        .reduce(f64::max)
}

/// Bits of security of RLWE with a ternary secret, or `None` where no estimate covers the set: an estimate covers every
/// set whose degree and error are at least as large and whose modulus is at most as large.
pub fn rlwe_bits(log_n: u32, modulus: u128, sigma_hundredths: u32) -> Option<f64> {
    RLWE.iter()
        .filter(|&&(n, log_q, sigma, _)| {
            n <= log_n && modulus <= 1 << log_q && sigma <= sigma_hundredths
        })
        .map(|&(.., bits)| bits)
        .reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_covers_what_is_at_least_as_hard() {
        assert_eq!(rlwe_bits(12, 1 << 87, 320), Some(159.0));
        assert_eq!(rlwe_bits(12, (1 << 87) + 1, 320), Some(154.0));
        assert_eq!(rlwe_bits(12, 1 << 106, 320), Some(128.9));
        assert_eq!(rlwe_bits(12, (1 << 106) + 1, 320), Some(127.6));
        assert_eq!(rlwe_bits(12, (1 << 109) + 1, 320), None);
        assert_eq!(rlwe_bits(12, 1 << 87, 319), None);
        assert_eq!(rlwe_bits(11, 1 << 53, 320), Some(128.8));
        assert_eq!(rlwe_bits(11, (1 << 53) + 1, 320), Some(113.0));
        assert_eq!(rlwe_bits(13, 1 << 100, 320), Some(136.0));
        assert_eq!(rlwe_bits(10, 1 << 30, 320), None);
    }
}
