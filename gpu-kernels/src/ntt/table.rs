//! Twiddle tables, and the transforms of a batch on a CPU with the same tables and butterflies.

use thiserror::Error;

use super::butterfly::{
    cooley_tukey, finish, forward_corrects, gentleman_sande, gentleman_sande_last,
};
use super::reference::bit_reverse;
use crate::arith::{Modulus, Shoup};

/// The longest transform: `N = 2^14`.
pub const MAX_LOG_N: u32 = 14;

/// Why there is no table, or why a batch does not fit it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableError {
    /// The list of moduli is empty.
    #[error("a transform needs at least one modulus")]
    NoModuli,
    /// `log_n` is 0 or above [`MAX_LOG_N`].
    #[error("no transform of length 2^{0}: log2 N must be 1..={MAX_LOG_N}")]
    Length(u32),
    /// A modulus that [`Modulus::new`] did not make.
    #[error("modulus {0} is not an odd prime below 2^29 with its constants")]
    Invalid(u32),
    /// The same prime twice: residues modulo both would not determine a coefficient.
    #[error("modulus {0} is given twice")]
    Repeated(u32),
    /// `2N` does not divide `q - 1`.
    #[error("modulus {modulus} has no negacyclic transform of length 2^{log_n}: 2^{} does not divide q - 1", log_n + 1)]
    NoRoot {
        /// The prime.
        modulus: u32,
        /// log2 of the length asked for.
        log_n: u32,
    },
    /// The batch is not `[batch][prime][N]`.
    #[error("{words} words are no whole number of {primes} polynomials of {n} words")]
    Batch {
        /// The words given.
        words: usize,
        /// The moduli of the table.
        primes: usize,
        /// The transform length.
        n: usize,
    },
}

/// The factors of the transforms of length `N` modulo a list of primes.
///
/// Both tables are `[prime][N]`. Entry `2^s + i` (`i < 2^s`) belongs to block `i` of the stage with `2^s` blocks:
///
/// - forward: `psi^brv(2^s + i)`, `brv` over `log2 N` bits; entry 0 is 1 and not used;
/// - inverse: `psi^-brv(2^s + i)`, except for the last stage, which multiplies by `1/N` too: entry 0 is `1/N` and entry 1 is
///   `psi^(-N/2) / N`.
#[derive(Debug, Clone)]
pub struct TwiddleTable {
    log_n: u32,
    moduli: Vec<Modulus>,
    forward: Vec<Shoup>,
    inverse: Vec<Shoup>,
}

impl TwiddleTable {
    /// The tables for length `2^log_n`.
    ///
    /// # Errors
    ///
    /// [`TableError`] for a length out of range, no moduli, a repeated one, or one without a root of order `2N`.
    pub fn new(moduli: &[Modulus], log_n: u32) -> Result<Self, TableError> {
        if !(1..=MAX_LOG_N).contains(&log_n) {
            return Err(TableError::Length(log_n));
        }
        if moduli.is_empty() {
            return Err(TableError::NoModuli);
        }
        let n = 1usize << log_n;
        let mut forward = Vec::with_capacity(moduli.len() * n);
        let mut inverse = Vec::with_capacity(moduli.len() * n);
        for (i, &q) in moduli.iter().enumerate() {
            if !q.is_valid() {
                return Err(TableError::Invalid(q.get()));
            }
            if moduli[..i].contains(&q) {
                return Err(TableError::Repeated(q.get()));
            }
            let no_root = TableError::NoRoot {
                modulus: q.get(),
                log_n,
            };
            let psi = q.root_of_unity(log_n + 1).ok_or_else(|| no_root.clone())?;
            // No inverse only for a multiple of q, and neither a root of unity nor N < q is one.
            let psi_inverse = q.inverse(psi).ok_or_else(|| no_root.clone())?;
            let n_inverse = q.inverse(n as u32).ok_or(no_root)?;
            forward.extend(powers(q, psi, log_n));
            let start = inverse.len();
            inverse.extend(powers(q, psi_inverse, log_n));
            inverse[start] = q.shoup(n_inverse);
            inverse[start + 1] = q.shoup(q.mul(inverse[start + 1].factor, n_inverse));
        }
        Ok(TwiddleTable {
            log_n,
            moduli: moduli.to_vec(),
            forward,
            inverse,
        })
    }

    /// log2 of the transform length.
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// The transform length `N`.
    pub fn n(&self) -> usize {
        1 << self.log_n
    }

    /// The moduli, in the order of the polynomials of a batch element.
    pub fn moduli(&self) -> &[Modulus] {
        &self.moduli
    }

    /// The forward factors, `[prime][N]`.
    pub fn forward(&self) -> &[Shoup] {
        &self.forward
    }

    /// The inverse factors, `[prime][N]`.
    pub fn inverse(&self) -> &[Shoup] {
        &self.inverse
    }

    /// Transforms a batch `[batch][prime][N]` in place, on this CPU: values below `4q` in, residues out.
    ///
    /// # Errors
    ///
    /// [`TableError::Batch`] unless `data` holds whole batch elements.
    pub fn transform_forward(&self, data: &mut [u32]) -> Result<(), TableError> {
        for (polynomial, prime) in self.polynomials(data)? {
            let (q, factors) = (self.moduli[prime], &self.forward[prime << self.log_n..]);
            for stage in 0..self.log_n as usize {
                let half = polynomial.len() >> (stage + 1);
                for (block, w) in polynomial
                    .chunks_exact_mut(2 * half)
                    .zip(&factors[1 << stage..])
                {
                    let (upper, lower) = block.split_at_mut(half);
                    for (x, y) in upper.iter_mut().zip(lower) {
                        let corrected = if forward_corrects(stage) {
                            q.below_4q(*x)
                        } else {
                            *x
                        };
                        (*x, *y) = cooley_tukey(q, corrected, *y, *w);
                    }
                }
            }
            for x in polynomial {
                *x = finish(q, *x);
            }
        }
        Ok(())
    }

    /// Transforms a batch `[batch][prime][N]` back, in place, on this CPU: values below `4q` in, residues out.
    ///
    /// # Errors
    ///
    /// [`TableError::Batch`] unless `data` holds whole batch elements.
    pub fn transform_inverse(&self, data: &mut [u32]) -> Result<(), TableError> {
        for (polynomial, prime) in self.polynomials(data)? {
            let (q, factors) = (self.moduli[prime], &self.inverse[prime << self.log_n..]);
            for stage in (1..self.log_n as usize).rev() {
                let half = polynomial.len() >> (stage + 1);
                for (block, w) in polynomial
                    .chunks_exact_mut(2 * half)
                    .zip(&factors[1 << stage..])
                {
                    let (upper, lower) = block.split_at_mut(half);
                    for (x, y) in upper.iter_mut().zip(lower) {
                        (*x, *y) = gentleman_sande(q, *x, *y, *w);
                    }
                }
            }
            let (upper, lower) = polynomial.split_at_mut(polynomial.len() / 2);
            for (x, y) in upper.iter_mut().zip(lower) {
                (*x, *y) = gentleman_sande_last(q, *x, *y, factors[0], factors[1]);
            }
        }
        Ok(())
    }

    /// The polynomials of a batch, each with the index of its modulus.
    fn polynomials<'a>(
        &self,
        data: &'a mut [u32],
    ) -> Result<impl Iterator<Item = (&'a mut [u32], usize)>, TableError> {
        let (n, primes) = (self.n(), self.moduli.len());
        if !data.len().is_multiple_of(primes * n) {
            return Err(TableError::Batch {
                words: data.len(),
                primes,
                n,
            });
        }
        Ok(data.chunks_exact_mut(n).zip((0..primes).cycle()))
    }
}

/// `root^brv(i)` for `i` in `0..2^log_n`.
fn powers(q: Modulus, root: u32, log_n: u32) -> Vec<Shoup> {
    let mut table = vec![Shoup::default(); 1 << log_n];
    let mut power = 1;
    for exponent in 0..table.len() {
        table[bit_reverse(exponent, log_n)] = q.shoup(power);
        power = q.mul(power, root);
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arith::prime::{NTT_16384, VIPIR, ntt_primes_below};
    use crate::ntt::reference;

    fn psi(table: &TwiddleTable, prime: usize) -> u32 {
        table.moduli()[prime]
            .root_of_unity(table.log_n() + 1)
            .unwrap()
    }

    /// Small and large primes with a transform of this length.
    fn moduli(log_n: u32) -> Vec<Modulus> {
        let mut all: Vec<_> = ntt_primes_below(1 << 29, log_n).take(2).collect();
        all.extend((1..1 << 12).find_map(|k| Modulus::new((k << (log_n + 1)) + 1)));
        all
    }

    /// Residues of each modulus in turn, `[prime][N]`.
    fn batch(log_n: u32) -> impl Strategy<Value = Vec<u32>> {
        let element: Vec<_> = moduli(log_n)
            .into_iter()
            .flat_map(|q| {
                let residue = prop_oneof![6 => 0..q.get(), 1 => Just(0), 1 => Just(q.get() - 1)];
                std::iter::repeat_n(residue, 1 << log_n)
            })
            .collect();
        element
    }

    fn cases() -> impl Strategy<Value = (TwiddleTable, [Vec<u32>; 2], Vec<u32>)> {
        (1..=7u32).prop_flat_map(|log_n| {
            let table = TwiddleTable::new(&moduli(log_n), log_n).unwrap();
            (Just(table), [batch(log_n), batch(log_n)], batch(log_n))
        })
    }

    fn forward(table: &TwiddleTable, a: &[u32]) -> Vec<u32> {
        let mut a = a.to_vec();
        table.transform_forward(&mut a).unwrap();
        a
    }

    fn inverse(table: &TwiddleTable, a: &[u32]) -> Vec<u32> {
        let mut a = a.to_vec();
        table.transform_inverse(&mut a).unwrap();
        a
    }

    /// `f(q, a, b)` value by value.
    fn zip(
        table: &TwiddleTable,
        a: &[u32],
        b: &[u32],
        f: impl Fn(Modulus, u32, u32) -> u32,
    ) -> Vec<u32> {
        let q = |i: usize| table.moduli()[(i >> table.log_n()) % table.moduli().len()];
        a.iter()
            .zip(b)
            .enumerate()
            .map(|(i, (&x, &y))| f(q(i), x, y))
            .collect()
    }

    proptest! {
        #[test]
        fn forward_and_inverse_are_the_textbooks((table, [a, _], _) in cases()) {
            let n = table.n();
            let (there, back) = (forward(&table, &a), inverse(&table, &a));
            for (prime, q) in table.moduli().iter().enumerate() {
                let range = prime * n..(prime + 1) * n;
                let psi = psi(&table, prime);
                prop_assert_eq!(&there[range.clone()], &reference::evaluate(&a[range.clone()], q.get(), psi));
                prop_assert_eq!(&back[range.clone()], &reference::inverse(&a[range], q.get(), psi));
            }
        }

        #[test]
        fn the_inverse_takes_the_forward_back((table, [a, _], _) in cases()) {
            prop_assert_eq!(&inverse(&table, &forward(&table, &a)), &a);
            prop_assert_eq!(&forward(&table, &inverse(&table, &a)), &a);
        }

        #[test]
        fn transforms_are_linear((table, [a, b], c) in cases()) {
            // c stands for a scalar of each modulus: its first value.
            let scalar = |q: Modulus, x: u32| q.mul(x, c[table.moduli().iter().position(|&m| m == q).unwrap() * table.n()]);
            let combined = zip(&table, &a, &b, |q, x, y| q.add(scalar(q, x), y));
            let expected = zip(&table, &forward(&table, &a), &forward(&table, &b), |q, x, y| q.add(scalar(q, x), y));
            prop_assert_eq!(forward(&table, &combined), expected);
            let expected = zip(&table, &inverse(&table, &a), &inverse(&table, &b), |q, x, y| q.add(scalar(q, x), y));
            prop_assert_eq!(inverse(&table, &combined), expected);
        }

        #[test]
        fn products_of_values_are_convolutions((table, [a, b], _) in cases()) {
            let product = inverse(&table, &zip(&table, &forward(&table, &a), &forward(&table, &b), Modulus::mul));
            let n = table.n();
            for (prime, q) in table.moduli().iter().enumerate() {
                let range = prime * n..(prime + 1) * n;
                let expected = reference::negacyclic_convolution(&a[range.clone()], &b[range.clone()], q.get());
                prop_assert_eq!(&product[range], &expected);
            }
        }

        #[test]
        fn values_below_4q_are_taken((table, [a, b], _) in cases()) {
            // b decides how many q to add to each value of a.
            let lifted = zip(&table, &a, &b, |q, x, y| x + y % 4 * q.get());
            prop_assert_eq!(forward(&table, &lifted), forward(&table, &a));
            prop_assert_eq!(inverse(&table, &lifted), inverse(&table, &a));
        }
    }

    #[test]
    fn every_length_at_its_extremes() {
        for log_n in 1..=MAX_LOG_N {
            let table = TwiddleTable::new(&NTT_16384[..1], log_n).unwrap();
            let (q, psi) = (table.moduli()[0].get(), psi(&table, 0));
            for value in [q - 1, 4 * q - 1] {
                let a = vec![value; table.n()];
                let reduced = vec![q - 1; table.n()];
                assert_eq!(
                    forward(&table, &a),
                    reference::forward(&reduced, q, psi),
                    "{log_n}"
                );
                assert_eq!(
                    inverse(&table, &a),
                    reference::inverse(&reduced, q, psi),
                    "{log_n}"
                );
            }
        }
    }

    #[test]
    fn the_vipir_primes_convolve_at_their_full_length() {
        let table = TwiddleTable::new(&VIPIR, 12).unwrap();
        let a: Vec<u32> = (0..3 * 4096u32)
            .map(|i| i.wrapping_mul(2_654_435_761) % VIPIR[i as usize / 4096].get())
            .collect();
        let square = inverse(
            &table,
            &zip(
                &table,
                &forward(&table, &a),
                &forward(&table, &a),
                Modulus::mul,
            ),
        );
        for (prime, q) in VIPIR.iter().enumerate() {
            let a = &a[prime * 4096..][..4096];
            assert_eq!(
                square[prime * 4096..][..4096],
                reference::negacyclic_convolution(a, a, q.get())
            );
        }
    }

    #[test]
    fn tables_that_cannot_be_are_refused() {
        let error = |moduli: &[Modulus], log_n| TwiddleTable::new(moduli, log_n).err();
        assert_eq!(error(&VIPIR, 0), Some(TableError::Length(0)));
        assert_eq!(error(&NTT_16384, 15), Some(TableError::Length(15)));
        assert_eq!(error(&[], 12), Some(TableError::NoModuli));
        assert_eq!(
            error(&[VIPIR[0], VIPIR[1], VIPIR[0]], 12),
            Some(TableError::Repeated(536_813_569))
        );
        assert_eq!(
            error(&VIPIR, 13),
            Some(TableError::NoRoot {
                modulus: 536_813_569,
                log_n: 13
            })
        );
        let mut words: [u32; 8] = bytemuck::cast(VIPIR[0]);
        words[4] ^= 1;
        assert_eq!(
            error(&[bytemuck::cast(words)], 12),
            Some(TableError::Invalid(536_813_569))
        );
    }

    #[test]
    fn a_batch_that_is_not_whole_is_refused() {
        let table = TwiddleTable::new(&VIPIR, 3).unwrap();
        for words in [1, 8, 16, 23, 25] {
            let expected = Err(TableError::Batch {
                words,
                primes: 3,
                n: 8,
            });
            assert_eq!(table.transform_forward(&mut vec![0; words]), expected);
            assert_eq!(table.transform_inverse(&mut vec![0; words]), expected);
        }
        assert_eq!(table.transform_forward(&mut []), Ok(()));
    }
}
