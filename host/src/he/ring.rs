//! The ring `R_q = Z_q[X]/(X^N + 1)`, q a product of primes below 2^29, in residues.
//!
//! An element is `[prime][N]` words, each below its prime, in one of two forms: [`Coefficients`], or the [`Values`] of
//! the forward transform (`A[i] = a(psi^(2 brv(i) + 1))`, see [`gpu_kernels::ntt`]), in which products and
//! automorphisms are taken. The functions and tables are those of the kernels.
//!
//! What is done to secrets here (transforms, sums, products, scaling, rounding) takes the same steps for every value.
//! [`Ring::lift`] and what stands on it are for ciphertexts, which are public, and take the same steps too.

use std::marker::PhantomData;

use chacha20::ChaCha20Rng;
use gpu_kernels::arith::{LAZY_PRODUCTS, Modulus, Shoup};
use gpu_kernels::ntt::{TableError, TwiddleTable};
use rand::{Rng as _, SeedableRng as _};
use zeroize::Zeroize;

/// The most primes of a modulus.
pub const MAX_PRIMES: usize = 4;
/// q is below 2^107: a coefficient times 2^20 fits 127 bits, and larger moduli reach no security that is asked for.
pub const MAX_LOG2_MODULUS: u32 = 107;

/// Why there is no such ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// More primes than are handled.
    #[error("{0} primes: a modulus has 1 to {MAX_PRIMES}")]
    Primes(usize),
    /// A number that is no odd prime below 2^29.
    #[error("{0} is no odd prime below 2^29")]
    NotPrime(u32),
    /// No transform for these primes and this degree.
    #[error(transparent)]
    Transform(#[from] TableError),
    /// The product of the primes is too large.
    #[error("the modulus has {0} bits: at most {MAX_LOG2_MODULUS} are handled")]
    Modulus(u32),
}

/// Form of a polynomial: coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoefficientForm {}
/// Form of a polynomial: values at the roots of `X^N + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {}

/// An element of the ring, `[prime][N]` residues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polynomial<F> {
    words: Vec<u32>,
    form: PhantomData<F>,
}

/// An element of the ring by its coefficients.
pub type Coefficients = Polynomial<CoefficientForm>;
/// An element of the ring by its values, in the order of the transform.
pub type Values = Polynomial<ValueForm>;

impl<F> Polynomial<F> {
    /// The residues, `[prime][N]`.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    fn from_words(words: Vec<u32>) -> Self {
        Self {
            words,
            form: PhantomData,
        }
    }
}

impl<F> Zeroize for Polynomial<F> {
    fn zeroize(&mut self) {
        self.words.zeroize();
    }
}

/// A ring and the constants of its arithmetic.
#[derive(Clone, Debug)]
pub struct Ring {
    table: TwiddleTable,
    modulus: u128,
    /// Powers of psi, `[prime][2N]`.
    psi: Vec<u32>,
    primes: Vec<Prime>,
}

/// What one prime adds to the arithmetic of the ring.
#[derive(Clone, Debug)]
struct Prime {
    q: Modulus,
    /// The product of the primes before this one.
    before: u128,
    /// The products of the first 0, 1, .. primes, up to those that end before this one, modulo this one.
    before_modulo: Vec<Shoup>,
    /// 1 / before modulo this prime.
    before_inverse: Shoup,
    /// 1 / (modulus / prime) modulo this prime.
    cofactor_inverse: Shoup,
    /// floor(2^128 / prime).
    reciprocal: u128,
}

fn residue(x: u128, q: Modulus) -> u32 {
    (x % u128::from(q.get())) as u32
}

impl Ring {
    /// The ring of degree 2^`log_n` modulo the product of `primes`.
    ///
    /// # Errors
    ///
    /// [`RingError`] where a number is no usable prime, or has no transform of this degree, or there are too many.
    pub fn new(primes: &[u32], log_n: u32) -> Result<Self, RingError> {
        if primes.is_empty() || primes.len() > MAX_PRIMES {
            return Err(RingError::Primes(primes.len()));
        }
        let moduli = primes
            .iter()
            .map(|&q| Modulus::new(q).ok_or(RingError::NotPrime(q)))
            .collect::<Result<Vec<_>, _>>()?;
        let table = TwiddleTable::new(&moduli, log_n)?;
        // Four primes below 2^29: at most 116 bits.
        let modulus: u128 = primes.iter().map(|&q| u128::from(q)).product();
        let bits = 128 - modulus.leading_zeros();
        if bits > MAX_LOG2_MODULUS {
            return Err(RingError::Modulus(bits));
        }
        // The table was made, so that the roots exist, and distinct primes are invertible modulo each other.
        let invert = |x: u128, q: Modulus| q.shoup(q.inverse(residue(x, q)).unwrap_or_default());
        let mut before = 1;
        let mut befores = Vec::new();
        let mut constants = Vec::new();
        for &q in &moduli {
            constants.push(Prime {
                q,
                before,
                before_modulo: befores.iter().map(|&b| q.shoup(residue(b, q))).collect(),
                before_inverse: invert(before, q),
                cofactor_inverse: invert(modulus / u128::from(q.get()), q),
                reciprocal: u128::MAX / u128::from(q.get()),
            });
            befores.push(before);
            before *= u128::from(q.get());
        }
        let mut psi = Vec::with_capacity(moduli.len() << (log_n + 1));
        for &q in &moduli {
            let root = q.root_of_unity(log_n + 1).unwrap_or_default();
            let mut power = 1;
            for _ in 0..2 << log_n {
                psi.push(power);
                power = q.mul(power, root);
            }
        }
        Ok(Self {
            table,
            modulus,
            psi,
            primes: constants,
        })
    }

    /// The degree N.
    pub fn n(&self) -> usize {
        self.table.n()
    }

    /// log2 of the degree.
    pub fn log_n(&self) -> u32 {
        self.table.log_n()
    }

    /// The modulus q.
    pub fn modulus(&self) -> u128 {
        self.modulus
    }

    /// The primes.
    pub fn moduli(&self) -> &[Modulus] {
        self.table.moduli()
    }

    /// Words of an element.
    pub fn words(&self) -> usize {
        self.n() * self.primes.len()
    }

    /// Each residue of `words` with its modulus.
    fn by_prime<'a>(
        &'a self,
        words: &'a mut [u32],
    ) -> impl Iterator<Item = (&'a Prime, &'a mut [u32])> {
        self.primes.iter().zip(words.chunks_exact_mut(self.n()))
    }

    /// Zero.
    pub fn zero<F>(&self) -> Polynomial<F> {
        Polynomial::from_words(vec![0; self.words()])
    }

    /// Small integers as coefficients, each above -q_i and below q_i for every prime.
    pub fn small(&self, integers: &[i32]) -> Coefficients {
        let mut polynomial = self.zero();
        for (prime, words) in self.by_prime(&mut polynomial.words) {
            for (word, &x) in words.iter_mut().zip(integers) {
                *word = (x as u32).wrapping_add((x >> 31) as u32 & prime.q.get());
            }
        }
        polynomial
    }

    /// The same constant `c` modulo q as the constant coefficient.
    pub fn constant(&self, c: u128) -> Coefficients {
        let mut polynomial = self.zero();
        for (prime, words) in self.by_prime(&mut polynomial.words) {
            words[0] = residue(c, prime.q);
        }
        polynomial
    }

    /// To values.
    pub fn forward(&self, polynomial: Coefficients) -> Values {
        let mut words = polynomial.words;
        debug_assert_eq!(words.len(), self.words());
        // Elements of this ring have its length, the only thing that the transform refuses.
        let _ = self.table.transform_forward(&mut words);
        Polynomial::from_words(words)
    }

    /// To coefficients.
    pub fn inverse(&self, polynomial: Values) -> Coefficients {
        let mut words = polynomial.words;
        debug_assert_eq!(words.len(), self.words());
        let _ = self.table.transform_inverse(&mut words);
        Polynomial::from_words(words)
    }

    fn zip<F>(
        &self,
        x: &mut Polynomial<F>,
        y: &Polynomial<F>,
        f: impl Fn(Modulus, u32, u32) -> u32,
    ) {
        debug_assert_eq!(x.words.len(), y.words.len());
        for ((prime, xs), ys) in self
            .by_prime(&mut x.words)
            .zip(y.words.chunks_exact(self.n()))
        {
            for (x, &y) in xs.iter_mut().zip(ys) {
                *x = f(prime.q, *x, y);
            }
        }
    }

    /// x += y
    pub fn add<F>(&self, x: &mut Polynomial<F>, y: &Polynomial<F>) {
        self.zip(x, y, Modulus::add);
    }

    /// x -= y
    pub fn sub<F>(&self, x: &mut Polynomial<F>, y: &Polynomial<F>) {
        self.zip(x, y, Modulus::sub);
    }

    /// x *= y
    pub fn mul(&self, x: &mut Values, y: &Values) {
        self.zip(x, y, Modulus::mul);
    }

    /// x = -x
    pub fn negate<F>(&self, x: &mut Polynomial<F>) {
        for (prime, words) in self.by_prime(&mut x.words) {
            for word in words {
                *word = prime.q.neg(*word);
            }
        }
    }

    /// x *= c, for a public integer c.
    pub fn scale<F>(&self, x: &mut Polynomial<F>, c: u128) {
        for (prime, words) in self.by_prime(&mut x.words) {
            let factor = prime.q.shoup(residue(c, prime.q));
            for word in words {
                *word = prime.q.mul_shoup(*word, factor);
            }
        }
    }

    /// The sum of x_j y_j over at most [`LAZY_PRODUCTS`] pairs.
    pub fn inner<'a>(&self, pairs: impl Iterator<Item = (&'a Values, &'a Values)>) -> Values {
        let mut sums = vec![0_u64; self.words()];
        for (x, y) in pairs.take(LAZY_PRODUCTS) {
            debug_assert_eq!(x.words.len(), y.words.len());
            for ((sum, &x), &y) in sums.iter_mut().zip(&x.words).zip(&y.words) {
                *sum += u64::from(x) * u64::from(y);
            }
        }
        let mut result = self.zero::<ValueForm>();
        for ((prime, words), sums) in self
            .by_prime(&mut result.words)
            .zip(sums.chunks_exact(self.n()))
        {
            for (word, &sum) in words.iter_mut().zip(sums) {
                *word = prime.q.reduce_u64(sum);
            }
        }
        result
    }

    /// Bits of an index, reversed.
    fn reversed(&self, index: usize) -> usize {
        index.reverse_bits() >> (usize::BITS - self.log_n())
    }

    /// The automorphism X -> X^k of an element, k odd: value i is the value at the k-th power of point i.
    pub fn automorphism(&self, x: &Values, k: usize) -> Values {
        debug_assert!(k % 2 == 1);
        let mask = 2 * self.n() - 1;
        let from: Vec<usize> = (0..self.n())
            .map(|i| {
                let exponent = (2 * self.reversed(i) + 1).wrapping_mul(k) & mask;
                self.reversed(exponent >> 1)
            })
            .collect();
        let words = x
            .words
            .chunks_exact(self.n())
            .flat_map(|words| from.iter().map(|&i| words[i]))
            .collect();
        Polynomial::from_words(words)
    }

    /// x *= X^d, for any exponent.
    pub fn mul_monomial(&self, x: &mut Values, d: i64) {
        let two_n = 2 * self.n();
        let d = d.rem_euclid(two_n as i64) as usize;
        let exponents: Vec<usize> = (0..self.n())
            .map(|i| (2 * self.reversed(i) + 1) * d % two_n)
            .collect();
        for ((prime, words), psi) in self
            .by_prime(&mut x.words)
            .zip(self.psi.chunks_exact(two_n))
        {
            for (word, &exponent) in words.iter_mut().zip(&exponents) {
                *word = prime.q.mul(*word, psi[exponent]);
            }
        }
    }

    /// The coefficients as integers in [0, q) (Garner's mixed radix).
    pub fn lift(&self, x: &Coefficients) -> Vec<u128> {
        let n = self.n();
        let mut lifted = vec![0; n];
        let mut digits = [0_u32; MAX_PRIMES];
        for (i, lifted) in lifted.iter_mut().enumerate() {
            for (at, prime) in self.primes.iter().enumerate() {
                // Sum of the digits so far times their weights, modulo this prime.
                let mut known = 0;
                for (&digit, &weight) in digits.iter().zip(&prime.before_modulo) {
                    known = prime.q.add(known, prime.q.mul_shoup(digit, weight));
                }
                let rest = prime.q.sub(x.words[at * n + i], known);
                digits[at] = prime.q.mul_shoup(rest, prime.before_inverse);
                *lifted += prime.before * u128::from(digits[at]);
            }
        }
        lifted
    }

    /// An integer of [0, q) as the one of its class nearest to zero.
    pub fn centre(&self, x: u128) -> i128 {
        let above = (self.modulus / 2).wrapping_sub(x) >> 127;
        (x as i128) - (above * self.modulus) as i128
    }

    /// Integers as coefficients.
    pub fn reduce(&self, integers: &[i128]) -> Coefficients {
        let mut polynomial = self.zero();
        for (prime, words) in self.by_prime(&mut polynomial.words) {
            for (word, &x) in words.iter_mut().zip(integers) {
                *word = x.rem_euclid(i128::from(prime.q.get())) as u32;
            }
        }
        polynomial
    }

    /// `x[i] = round(q v[i] / 2^bits)`, for values below 2^bits and bits at most 32.
    pub fn scale_up(&self, values: &[u32], bits: u32) -> Coefficients {
        let floor = self.modulus >> bits;
        let rest = (self.modulus & ((1 << bits) - 1)) as u64;
        let half = (1_u64 << bits) >> 1;
        let mask = ((1_u64 << bits) - 1) as u32;
        let mut polynomial = self.zero();
        for (prime, words) in self.by_prime(&mut polynomial.words) {
            let floor = residue(floor, prime.q);
            for (word, &v) in words.iter_mut().zip(values) {
                let v = v & mask;
                let rest = (rest * u64::from(v) + half) >> bits;
                *word = prime.q.add(prime.q.mul(v, floor), prime.q.reduce_u64(rest));
            }
        }
        polynomial
    }

    /// `round(2^bits x[i] / q)` modulo 2^bits, for bits at most 32.
    ///
    /// The fraction x / q is the sum of y_j / q_j modulo 1, y_j = x q_j / q mod q_j, here with 128 bits and below by less
    /// than 2^-97. So what is rounded is exact unless x is the integer nearest to a border between two results: an
    /// error below q / 2^(bits + 1) - 1 is always taken away.
    pub fn scale_down(&self, x: &Coefficients, bits: u32) -> Vec<u32> {
        let mut fractions = vec![0_u128; self.n()];
        for (prime, words) in self.primes.iter().zip(x.words.chunks_exact(self.n())) {
            for (fraction, &word) in fractions.iter_mut().zip(words) {
                let y = prime.q.mul_shoup(word, prime.cofactor_inverse);
                *fraction = fraction.wrapping_add(prime.reciprocal.wrapping_mul(y.into()));
            }
        }
        let rounded = fractions
            .iter()
            .map(|fraction| (fraction.wrapping_add(1 << (127 - bits)) >> (128 - bits)) as u32)
            .collect();
        fractions.zeroize();
        rounded
    }

    /// A uniform element, from a public seed: see [`Seed`].
    pub fn uniform(&self, seed: &Seed, index: u32) -> Values {
        let mut polynomial = self.zero();
        for (at, (prime, words)) in self.by_prime(&mut polynomial.words).enumerate() {
            let q = prime.q.get();
            let mask = u32::MAX >> q.leading_zeros();
            let mut rng = ChaCha20Rng::from_seed(seed.0);
            rng.set_stream(u64::from(index) << 8 | at as u64);
            for word in words {
                // At least half of all draws are below q.
                *word = loop {
                    let draw = rng.next_u32() & mask;
                    if draw < q {
                        break draw;
                    }
                };
            }
        }
        polynomial
    }
}

/// What the uniform halves of ciphertexts are drawn from. It is public.
///
/// Half number `index` of a seed is an element in value form. Its residues modulo prime `j` are taken from the key
/// stream of `ChaCha20` (20 rounds, 64-bit block counter from 0) with the seed as key and `256 index + j` as 64-bit nonce,
/// read as little-endian words: each is cut to the bits of the prime and left out unless below it. This belongs to the
/// format of the messages: a change needs a new version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub(super) [u8; 32]);

impl Seed {
    /// The seed of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use gpu_kernels::ntt::reference::negacyclic_convolution;

    use super::*;

    fn ring() -> Ring {
        Ring::new(&[7681, 12289, 40961], 4).unwrap()
    }

    #[test]
    fn integers_lift_to_themselves() {
        let ring = ring();
        let reach = (ring.modulus() / 2) as i128;
        let integers: Vec<i128> = (-8..8).map(|i| i * (reach / 8)).collect();
        let lifted = ring.lift(&ring.reduce(&integers));
        let centred: Vec<i128> = lifted.iter().map(|&x| ring.centre(x)).collect();
        assert_eq!(centred, integers);
    }

    #[test]
    fn values_multiply_and_the_automorphism_is_that_of_coefficients() {
        let ring = ring();
        let (x, y) = (
            ring.uniform(&Seed::new([1; 32]), 0),
            ring.uniform(&Seed::new([1; 32]), 1),
        );
        assert_ne!(x, y);
        let mut product = x.clone();
        ring.mul(&mut product, &y);
        let (a, b, c) = (
            ring.inverse(x.clone()),
            ring.inverse(y),
            ring.inverse(product),
        );
        for (at, q) in ring.moduli().iter().enumerate() {
            let part = at * 16..(at + 1) * 16;
            let expected =
                negacyclic_convolution(&a.words()[part.clone()], &b.words()[part.clone()], q.get());
            assert_eq!(c.words()[part], expected);
        }
        for k in (1..32).step_by(2) {
            let image = ring.inverse(ring.automorphism(&x, k));
            for (at, q) in ring.moduli().iter().enumerate() {
                for i in 0..16 {
                    let (to, word) = (i * k % 32, a.words()[at * 16 + i]);
                    let expected = if to < 16 { word } else { q.neg(word) };
                    assert_eq!(image.words()[at * 16 + to % 16], expected, "k = {k}");
                }
            }
        }
    }

    #[test]
    fn scaling_down_takes_back_scaling_up_and_any_error_below_half_a_step() {
        let ring = ring();
        for bits in [1, 8, 18, 32] {
            let values: Vec<u32> = (0..16_u32)
                .map(|i| i.wrapping_mul(0x9e37_79b9) >> (32 - bits))
                .collect();
            let limit = (ring.modulus() >> (bits + 1)) as i128 - 2;
            for error in [0, limit, -limit] {
                let mut x = ring.scale_up(&values, bits);
                ring.add(&mut x, &ring.reduce(&[error; 16]));
                assert_eq!(
                    ring.scale_down(&x, bits),
                    values,
                    "{bits} bits, error {error}"
                );
            }
        }
    }
}
