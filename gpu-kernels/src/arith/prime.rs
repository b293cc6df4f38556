//! Primality, the primes that the transforms use, and roots of unity.

use super::Modulus;

/// Writes `n - 1 = odd * 2^twos` and runs Miller-Rabin for each base; `n` is odd and above every base's square root.
macro_rules! miller_rabin {
    ($name:ident, $word:ty, $wide:ty) => {
        const fn $name(n: $word, bases: &[$word]) -> bool {
            const fn mul(a: $word, b: $word, n: $word) -> $word {
                (a as $wide * b as $wide % n as $wide) as $word
            }
            let twos = (n - 1).trailing_zeros();
            let mut i = 0;
            'bases: while i < bases.len() {
                let base = bases[i] % n;
                i += 1;
                if base == 0 {
                    continue;
                }
                let (mut x, mut power, mut exponent) = (1, base, (n - 1) >> twos);
                while exponent > 0 {
                    if exponent & 1 == 1 {
                        x = mul(x, power, n);
                    }
                    power = mul(power, power, n);
                    exponent >>= 1;
                }
                if x == 1 || x == n - 1 {
                    continue;
                }
                let mut round = 1;
                while round < twos {
                    x = mul(x, x, n);
                    if x == n - 1 {
                        continue 'bases;
                    }
                    round += 1;
                }
                return false;
            }
            true
        }
    };
}
miller_rabin!(strong_probable_prime_u32, u32, u64);
miller_rabin!(strong_probable_prime_u64, u64, u128);

/// Whether `n` is prime; exact for every `u32`.
///
/// Miller-Rabin with the bases 2, 7, 61, which no composite below 4,759,123,141 passes (G. Jaeschke, *On strong
/// pseudoprimes to several bases*, Math. Comp. 61, 1993).
pub const fn is_prime_u32(n: u32) -> bool {
    if n < 2 || n.is_multiple_of(2) {
        return n == 2;
    }
    strong_probable_prime_u32(n, &[2, 7, 61])
}

/// Whether `n` is prime; exact for every `u64`.
///
/// Miller-Rabin with the first twelve primes as bases, which no composite below 3.18e23 passes (J. Sorenson and
/// J. Webster, *Strong pseudoprimes to twelve prime bases*, Math. Comp. 86, 2017).
pub const fn is_prime_u64(n: u64) -> bool {
    if n < 2 || n.is_multiple_of(2) {
        return n == 2;
    }
    strong_probable_prime_u64(n, &[2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37])
}

/// A table of moduli, checked when the crate is compiled.
const fn moduli<const LEN: usize>(primes: [u32; LEN], log_order: u32) -> [Modulus; LEN] {
    let mut table = [Modulus::LARGEST; LEN];
    let mut i = 0;
    while i < LEN {
        assert!(
            (primes[i] - 1).trailing_zeros() >= log_order,
            "the prime has no root of unity of this order"
        );
        table[i] = match Modulus::new(primes[i]) {
            Some(modulus) => modulus,
            None => panic!("not an odd prime below 2^29"),
        };
        i += 1;
    }
    table
}

/// The three primes of the VIPIR parameter set: the largest below 2^29 with `8192 | q - 1`, so for `N <= 4096`.
///
/// Their product is just below 2^87 (log2 = 86.9987).
pub const VIPIR: [Modulus; 3] = moduli([536_813_569, 536_690_689, 536_641_537], 13);

/// Four primes for `OnionPIR` at 128 bits: the largest below 2^26.5 with `8192 | q - 1`, so for `N <= 4096`.
///
/// Their product is just below 2^106 (log2 = 105.9973).
pub const ONION_PIR: [Modulus; 4] = moduli([94_904_321, 94_887_937, 94_863_361, 94_789_633], 13);

/// The eight largest primes below 2^29 with `2^15 | q - 1`: they serve every transform length up to `N = 2^14`.
pub const NTT_16384: [Modulus; 8] = moduli(
    [
        536_641_537,
        536_608_769,
        536_543_233,
        536_215_553,
        535_920_641,
        535_756_801,
        535_461_889,
        535_232_513,
    ],
    15,
);

/// The primes `q < limit`, `q < 2^29`, with `2 * 2^log_n | q - 1`, the largest first.
///
/// These are the moduli that have a negacyclic transform of length `2^log_n`. The iterator is empty when there is none,
/// as for `log_n >= 28`.
pub fn ntt_primes_below(limit: u32, log_n: u32) -> impl Iterator<Item = Modulus> {
    let order = 1u32.checked_shl(log_n.saturating_add(1)).unwrap_or(0);
    let top = limit.min(1 << 29);
    // The largest candidate k * order + 1 below `top`; none when the order does not fit.
    let count = if order == 0 || top < 2 {
        0
    } else {
        (top - 2) / order
    };
    (1..=count)
        .rev()
        .filter_map(move |k| Modulus::new(k * order + 1))
}

impl Modulus {
    /// The largest prime below 2^29.
    pub const LARGEST: Modulus = match Modulus::new(536_870_909) {
        Some(modulus) => modulus,
        None => panic!("not an odd prime below 2^29"),
    };

    /// The smallest quadratic non-residue.
    pub fn non_residue(self) -> u32 {
        // Half of all residues are non-residues, so the search ends; the smallest is below sqrt(q) + 1.
        (2..self.get())
            .find(|&x| self.pow(x, u64::from(self.get() - 1) / 2) == self.get() - 1)
            .unwrap_or(2)
    }

    /// A primitive root of unity of order `2^log_order`, or `None` when `2^log_order` does not divide `q - 1`.
    ///
    /// The choice is deterministic: `g^((q - 1) / 2^log_order)` for the smallest quadratic non-residue `g`. Both parties
    /// of a protocol must use the same root for their transforms to agree.
    pub fn root_of_unity(self, log_order: u32) -> Option<u32> {
        let exponent = self.get() - 1;
        if exponent.trailing_zeros() < log_order {
            return None;
        }
        // Order 2^log_order exactly: its 2^(log_order - 1)-th power is g^((q - 1) / 2) = -1.
        Some(self.pow(self.non_residue(), u64::from(exponent >> log_order)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieve(limit: usize) -> Vec<bool> {
        let mut prime = vec![true; limit];
        prime[..2].fill(false);
        for p in 2..limit {
            if prime[p] {
                for multiple in (p * p..limit).step_by(p) {
                    prime[multiple] = false;
                }
            }
        }
        prime
    }

    #[test]
    fn primality_agrees_with_a_sieve() {
        for (n, &prime) in sieve(200_000).iter().enumerate() {
            assert_eq!(is_prime_u32(n as u32), prime, "{n}");
            assert_eq!(is_prime_u64(n as u64), prime, "{n}");
        }
    }

    #[test]
    fn strong_pseudoprimes_are_refused() {
        // Strong pseudoprimes to base 2; to 2, 3, 5; to 2, 3, 5, 7; to the first nine and eleven primes.
        for n in [2047, 25_326_001, 3_215_031_751] {
            assert!(!is_prime_u32(n), "{n}");
            assert!(!is_prime_u64(u64::from(n)), "{n}");
        }
        assert!(!is_prime_u64(3_825_123_056_546_413_051));
        assert!(!is_prime_u64(u64::MAX));
        assert!(!is_prime_u32(u32::MAX));
    }

    #[test]
    fn the_largest_primes_of_each_width_are_found() {
        assert!(is_prime_u32(4_294_967_291));
        assert!(is_prime_u64(18_446_744_073_709_551_557));
        assert!(
            (536_870_910..1 << 29).all(|n| !is_prime_u32(n)),
            "Modulus::LARGEST is not the largest"
        );
    }

    #[test]
    fn the_tables_hold_the_largest_primes() {
        assert!(ntt_primes_below(1 << 29, 12).take(3).eq(VIPIR));
        assert!(ntt_primes_below(1 << 29, 14).take(8).eq(NTT_16384));
    }

    #[test]
    fn prime_search_respects_its_limits() {
        assert!(
            ntt_primes_below(17, 2).next().is_none(),
            "17 is not below 17"
        );
        assert_eq!(ntt_primes_below(18, 2).next().map(Modulus::get), Some(17));
        for log_n in [28, 29, 30, 31, 32, u32::MAX] {
            assert_eq!(ntt_primes_below(u32::MAX, log_n).count(), 0, "{log_n}");
        }
        for limit in 0..3 {
            assert_eq!(ntt_primes_below(limit, 0).count(), 0);
        }
        assert_eq!(
            ntt_primes_below(12, 0)
                .map(Modulus::get)
                .collect::<Vec<_>>(),
            [11, 7, 5, 3]
        );
    }

    #[test]
    fn roots_have_their_exact_order() {
        for modulus in VIPIR
            .into_iter()
            .chain(NTT_16384)
            .chain([3, 5, 17, 257, 7681, 12289].map(|q| Modulus::new(q).unwrap()))
        {
            let most = (modulus.get() - 1).trailing_zeros();
            assert_eq!(modulus.root_of_unity(0), Some(1));
            for log_order in 1..=most {
                let root = modulus.root_of_unity(log_order).unwrap();
                assert_eq!(
                    modulus.pow(root, 1 << (log_order - 1)),
                    modulus.get() - 1,
                    "{} {log_order}",
                    modulus.get()
                );
            }
            assert_eq!(modulus.root_of_unity(most + 1), None);
            assert_eq!(modulus.root_of_unity(u32::MAX), None);
        }
    }
}
