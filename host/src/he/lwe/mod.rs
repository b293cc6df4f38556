//! Learning with errors modulo 2^32, the client's side of it: parameters, the public matrix, ternary
//! secrets and rounding.
//!
//! Whatever touches a secret here takes the same steps and touches the same memory for every value
//! of it.

pub mod params;

use chacha20::ChaCha20Rng;
use rand::SeedableRng as _;
use zeroize::Zeroizing;

use self::params::{DELTA, LweParameters};
use super::sample::{fill, ternary};

/// The public matrix A of the scheme, D0 rows (one a database column) and n columns, given by a seed.
///
/// Column k is the key stream of `ChaCha20` (20 rounds, Bernstein's form: 64-bit block counter from 0,
/// 64-bit nonce) with the seed as key and k as nonce, read as little-endian words; row j is word j of
/// each. So any part of A can be had without the rest. This belongs to the format of the messages: a
/// change needs a new version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicMatrix {
    seed: [u8; 32],
}

impl PublicMatrix {
    /// The matrix of a seed.
    pub const fn new(seed: [u8; 32]) -> Self {
        Self { seed }
    }

    /// Rows `first .. first + words.len()` of column `column`.
    pub fn column(&self, column: u64, first: usize, words: &mut [u32]) {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_stream(column);
        rng.set_word_pos(first as u128);
        fill(&mut rng, bytemuck::cast_slice_mut(words));
        for word in words {
            *word = u32::from_le(*word);
        }
    }
}

/// An LWE secret: n words, each 0, 1 or -1 modulo 2^32. Wiped when dropped; it cannot be copied.
pub(crate) struct TernarySecret(Zeroizing<Vec<u32>>);

impl TernarySecret {
    /// Draws a secret of dimension n.
    pub(crate) fn sample(lwe: &LweParameters, rng: &mut ChaCha20Rng) -> Self {
        let mut coefficients = Zeroizing::new(Vec::with_capacity(lwe.dimension()));
        for _ in 0..lwe.dimension() {
            coefficients.push(ternary(rng) as u32);
        }
        Self(coefficients)
    }

    /// Adds coefficient `k` times a public vector to `sums`, modulo 2^32.
    pub(crate) fn add_multiple(&self, k: usize, public: &[u32], sums: &mut [u32]) {
        let coefficient = self.0[k];
        for (sum, &word) in sums.iter_mut().zip(public) {
            *sum = sum.wrapping_add(coefficient.wrapping_mul(word));
        }
    }

    #[cfg(test)]
    pub(crate) fn coefficients(&self) -> &[u32] {
        &self.0
    }
}

/// The byte nearest to a decrypted word: round(word / Delta) modulo 2^8.
pub(crate) fn round(word: u32) -> u8 {
    (word.wrapping_add(DELTA / 2) / DELTA) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    #[test]
    fn public_matrix_is_the_chacha20_key_stream() {
        // Key and nonce zero: the key stream of Bernstein's test vector, 76b8e0ada0f13d90...
        let mut words = [0; 20];
        PublicMatrix::new([0; 32]).column(0, 0, &mut words);
        assert_eq!(
            &words[..4],
            &[0xade0_b876, 0x903d_f1a0, 0xe56a_5d40, 0x28bd_8653]
        );
        // The same key with nonces 0100000000000000 and 0000000000000001 (draft-agl-tls-chacha20poly1305).
        PublicMatrix::new([0; 32]).column(1, 0, &mut words);
        assert_eq!(&words[..2], &[0xd6df_3fef, 0xfb78_15c6]);
        PublicMatrix::new([0; 32]).column(1 << 56, 0, &mut words);
        assert_eq!(&words[..2], &[0x7bba_9cde, 0xf59e_d6f3]);
    }

    #[test]
    fn parts_of_a_column_agree_with_the_whole() {
        let matrix = PublicMatrix::new([7; 32]);
        let mut whole = vec![0; 400];
        matrix.column(3, 0, &mut whole);
        for (first, len) in [
            (0, 1),
            (1, 5),
            (15, 2),
            (16, 64),
            (63, 130),
            (64, 336),
            (399, 1),
        ] {
            let mut part = vec![0; len];
            matrix.column(3, first, &mut part);
            assert_eq!(part, whole[first..first + len], "{len} words from {first}");
        }
        let mut other = vec![0; 400];
        matrix.column(4, 0, &mut other);
        assert_ne!(whole, other);
    }

    #[test]
    fn secrets_are_ternary_and_even() {
        let mut rng = test_rng(1);
        let mut counts = [0_u32; 3];
        for _ in 0..100 {
            for &s in TernarySecret::sample(&LweParameters::STANDARD, &mut rng).coefficients() {
                counts[s.wrapping_add(1) as usize] += 1;
            }
        }
        // 128,000 draws: a third is 42,667 with standard deviation 169; six of them pass.
        for count in counts {
            assert!((41_650..43_680).contains(&count), "{counts:?}");
        }
    }

    #[test]
    fn rounding_takes_back_any_error_below_half_of_delta() {
        for byte in 0..=255_u8 {
            let exact = u32::from(byte) * DELTA;
            for error in [0, 1, DELTA / 2 - 1, 0_u32.wrapping_sub(DELTA / 2)] {
                assert_eq!(round(exact.wrapping_add(error)), byte);
            }
            assert_eq!(round(exact.wrapping_add(DELTA / 2)), byte.wrapping_add(1));
        }
    }
}
