//! Parameters of the homomorphic layer, checked: security against the table of estimates, failure against the noise
//! model of the very set that is built.
//!
//! A [`Spec`] says what is wanted, [`Parameters::new`] refuses it with the reason or gives what everything else is
//! made with. [`Named`] has the sets that are shipped.

use std::fmt;
use std::sync::Arc;

use gpu_kernels::arith::prime;
use sha2::{Digest as _, Sha256};

use super::gadget::{Gadget, GadgetError};
use super::lwe::params::LweParameters;
use super::noise::{self, Noise, NoiseModel, RowNoise};
use super::ring::{Ring, RingError};
use super::sample::SIGMA_RANGE;
use super::security::{self, MAX_LOG2_FAILURE, MIN_SECURITY_BITS};
use crate::wire::Identity;

/// Digits of a gadget: see [`Gadget::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GadgetSpec {
    /// Digits l.
    pub digits: u32,
    /// Bits of the base, w.
    pub base_bits: u32,
    /// Low bits dropped, t.
    pub dropped: u32,
}

/// The modulus q' of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseModulus {
    /// The product of the first so many primes.
    Primes(u32),
    /// 2 to this power.
    Bits(u32),
}

/// What turns a query into one polynomial an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// Ring packing: the slots hold an LWE secret, the LWE ciphertexts are those of a scalar fold over `columns` columns
    /// of bytes, switched to the plaintext modulus. A record is bytes.
    Packing {
        /// Parameters of the scalar side.
        lwe: LweParameters,
        /// Columns of the database, D0.
        columns: u32,
    },
    /// Row selection: the slots hold a unit vector over `rows` rows of plaintext polynomials. A record is words modulo p.
    Rows {
        /// Rows, D0.
        rows: u32,
    },
}

/// A description of parameters, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// log2 of the ring degree N.
    pub log_n: u32,
    /// Primes of the modulus, each 1 modulo 2N.
    pub primes: Vec<u32>,
    /// Standard deviation of fresh errors, in hundredths.
    pub sigma_hundredths: u32,
    /// log2 of the plaintext modulus p.
    pub plaintext_bits: u32,
    /// The gadget of substitution keys and of RGSW(s).
    pub keys: GadgetSpec,
    /// The gadget of the selectors, RGSW ciphertexts of bits.
    pub selectors: GadgetSpec,
    /// The modulus of a response.
    pub response: ResponseModulus,
    /// What selects.
    pub selection: Selection,
    /// Polynomial folds after the selection, each by one bit.
    pub folds: u32,
    /// Coefficients that one record needs, over all its polynomials.
    pub record_coefficients: u64,
}

/// The sets that are shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// The set of VIPIR, for its hybrid protocol: N = 4096, three primes below 2^29, p = 2^18, five exact digits, response
    /// modulo one prime; LWE n = 1280, sigma 6.4, 2^16 columns.
    Vipir,
    /// `OnionPIRv2` at 128 bits: N = 4096, four primes below 2^26.5, so log2 q below 106, p = 2^32, five approximate digits for
    /// selectors and eight for keys, response modulo two primes, 256 rows.
    OnionPirV2,
    /// VIPIR's protocol with less to send and to compute: four approximate digits, a response of 17 bits, LWE n = 1152 and
    /// sigma 16.
    Compact,
}

impl Named {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Vipir, Self::OnionPirV2, Self::Compact];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vipir => "vipir",
            Self::OnionPirV2 => "onion-pir-v2",
            Self::Compact => "compact",
        }
    }

    /// The description.
    pub fn spec(self) -> Spec {
        let exact = GadgetSpec {
            digits: 5,
            base_bits: 18,
            dropped: 0,
        };
        let approximate = GadgetSpec {
            digits: 4,
            base_bits: 18,
            dropped: 15,
        };
        let vipir = Spec {
            log_n: 12,
            primes: prime::VIPIR.iter().map(|q| q.get()).collect(),
            sigma_hundredths: 320,
            plaintext_bits: 18,
            keys: exact,
            selectors: exact,
            response: ResponseModulus::Primes(1),
            selection: Selection::Packing {
                lwe: LweParameters::STANDARD,
                columns: 1 << 16,
            },
            folds: 8,
            record_coefficients: 4096,
        };
        match self {
            Self::Vipir => vipir,
            Self::OnionPirV2 => Spec {
                primes: prime::ONION_PIR.iter().map(|q| q.get()).collect(),
                plaintext_bits: 32,
                keys: GadgetSpec {
                    digits: 8,
                    base_bits: 14,
                    dropped: 0,
                },
                selectors: GadgetSpec {
                    digits: 5,
                    base_bits: 18,
                    dropped: 16,
                },
                response: ResponseModulus::Primes(2),
                selection: Selection::Rows { rows: 256 },
                ..vipir
            },
            Self::Compact => Spec {
                keys: approximate,
                selectors: approximate,
                response: ResponseModulus::Bits(17),
                selection: Selection::Packing {
                    lwe: LweParameters::SMALL,
                    columns: 1 << 16,
                },
                ..vipir
            },
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why parameters are refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// Estimated below 128 bits.
    #[error("N = {}, log2 q = {log2_modulus:.1} reaches {bits} bits and {MIN_SECURITY_BITS} are asked for: take a smaller modulus or a larger N", 1 << log_n)]
    TooWeak {
        /// log2 of the degree.
        log_n: u32,
        /// log2 of the modulus.
        log2_modulus: f64,
        /// The estimate, in bits.
        bits: f64,
    },
    /// No estimate says that the set is safe.
    #[error("N = {}, log2 q = {log2_modulus:.1}, sigma = {} is in no estimate: use N = 4096, log2 q up to 106 and sigma of 3.2 or more", 1 << log_n, f64::from(*sigma_hundredths) / 100.0)]
    NotEstimated {
        /// log2 of the degree.
        log_n: u32,
        /// log2 of the modulus.
        log2_modulus: f64,
        /// Standard deviation, in hundredths.
        sigma_hundredths: u32,
    },
    /// A record would come out wrong too often.
    #[error(
        "a record comes out wrong with probability 2^{log2_failure:.1} by the noise model, and 2^{MAX_LOG2_FAILURE} is the limit"
    )]
    Failure {
        /// log2 of the probability.
        log2_failure: f64,
    },
    /// More slots than one ciphertext expands to.
    #[error("{slots} slots are asked for, and a ciphertext of degree {n} has as many coefficients")]
    Slots {
        /// Slots asked for.
        slots: u64,
        /// The degree.
        n: usize,
    },
    /// A number that is not handled.
    #[error("{what} is {value}, and {range} is supported")]
    Unsupported {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What is supported.
        range: &'static str,
    },
    /// No ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A gadget that does not decompose.
    #[error(transparent)]
    Gadget(#[from] GadgetError),
}

/// Checked parameters, with what is computed from them once. Clones share it.
#[derive(Clone)]
pub struct Parameters(Arc<Inner>);

struct Inner {
    spec: Spec,
    ring: Ring,
    keys: Gadget,
    selectors: Gadget,
    response: Response,
    levels: u32,
    log2_failure: f64,
}

/// What a response is decrypted with.
pub(super) enum Response {
    /// The ring of its primes.
    Primes(Ring),
    /// The bits of the modulus.
    Bits(u32),
}

impl Response {
    /// Bits of a coefficient.
    pub(super) fn bits(&self) -> u32 {
        match self {
            Self::Primes(ring) => 128 - ring.modulus().leading_zeros(),
            Self::Bits(bits) => *bits,
        }
    }

    /// log2 of the modulus.
    fn log2(&self) -> f64 {
        match self {
            Self::Primes(ring) => (ring.modulus() as f64).log2(),
            Self::Bits(bits) => f64::from(*bits),
        }
    }
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.spec == other.0.spec
    }
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.spec.fmt(f)
    }
}

impl Parameters {
    /// Checks a description.
    ///
    /// # Errors
    ///
    /// [`ParameterError`] where the set is not known to reach 128 bits, fails a record with more than 2^-40, or is not
    /// handled.
    pub fn new(spec: Spec) -> Result<Self, ParameterError> {
        if !(11..=12).contains(&spec.log_n) {
            return Err(ParameterError::Unsupported {
                what: "log2 N",
                value: spec.log_n.into(),
                range: "11 or 12",
            });
        }
        if let ResponseModulus::Bits(bits) = spec.response
            && !(16..=20).contains(&bits)
        {
            return Err(ParameterError::Unsupported {
                what: "log2 of the response modulus",
                value: bits.into(),
                range: "16 to 20",
            });
        }
        let parameters = Self::build(spec)?;
        let (ring, spec) = (parameters.ring(), &parameters.0.spec);
        let log2_modulus = (ring.modulus() as f64).log2();
        let bits = security::rlwe_bits(spec.log_n, ring.modulus(), spec.sigma_hundredths).ok_or(
            ParameterError::NotEstimated {
                log_n: spec.log_n,
                log2_modulus,
                sigma_hundredths: spec.sigma_hundredths,
            },
        )?;
        if bits < MIN_SECURITY_BITS {
            return Err(ParameterError::TooWeak {
                log_n: spec.log_n,
                log2_modulus,
                bits,
            });
        }
        let log2_failure = parameters.log2_failure();
        if log2_failure > MAX_LOG2_FAILURE {
            return Err(ParameterError::Failure { log2_failure });
        }
        Ok(parameters)
    }

    /// Sets for tests, small enough to be tried in full. They are NOT secure, and only tests can build them.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn insecure(spec: Spec) -> Result<Self, ParameterError> {
        Self::build(spec)
    }

    /// Everything but security and failure.
    fn build(spec: Spec) -> Result<Self, ParameterError> {
        let unsupported =
            |what, value: u64, range| Err(ParameterError::Unsupported { what, value, range });
        let ring = Ring::new(&spec.primes, spec.log_n)?;
        if !SIGMA_RANGE.contains(&spec.sigma_hundredths) {
            return unsupported(
                "sigma in hundredths",
                spec.sigma_hundredths.into(),
                "100 to 3200",
            );
        }
        let log2_modulus = ring.modulus().ilog2();
        if !(1..=32).contains(&spec.plaintext_bits) || spec.plaintext_bits + 1 >= log2_modulus {
            return unsupported(
                "log2 of the plaintext modulus",
                spec.plaintext_bits.into(),
                "1 to 32, and less than the modulus has",
            );
        }
        if spec.folds > 32 {
            return unsupported("the number of folds", spec.folds.into(), "0 to 32");
        }
        if !(1..=1 << 32).contains(&spec.record_coefficients) {
            return unsupported(
                "the number of coefficients of a record",
                spec.record_coefficients,
                "1 to 2^32",
            );
        }
        let gadget = |spec: GadgetSpec| {
            Gadget::new(ring.modulus(), spec.digits, spec.base_bits, spec.dropped)
        };
        let (keys, selectors) = (gadget(spec.keys)?, gadget(spec.selectors)?);
        let response = match spec.response {
            ResponseModulus::Primes(count) => match spec.primes.get(..count as usize) {
                Some(primes @ ([_] | [_, _])) => Response::Primes(Ring::new(primes, spec.log_n)?),
                _ => {
                    return unsupported(
                        "the number of primes of a response",
                        count.into(),
                        "1 or 2, and no more than the modulus has",
                    );
                }
            },
            ResponseModulus::Bits(bits) => {
                let first = spec.primes.get(..2).unwrap_or(&spec.primes);
                let exact = Ring::new(first, spec.log_n)?;
                // |sum of N products of a ternary coefficient and one of at most half the modulus|, twice.
                if !(1..=20).contains(&bits) || exact.modulus() >> (spec.log_n + bits) == 0 {
                    return unsupported(
                        "log2 of the response modulus",
                        bits.into(),
                        "1 to 20, and less than the first two primes have over N",
                    );
                }
                Response::Bits(bits)
            }
        };
        let first_slots = match spec.selection {
            Selection::Packing { lwe, columns } => {
                if columns == 0 || columns > security::MAX_SAMPLES {
                    return unsupported("the number of columns", columns.into(), "1 to 2^20");
                }
                if spec.plaintext_bits < 9 {
                    return unsupported(
                        "log2 of the plaintext modulus",
                        spec.plaintext_bits.into(),
                        "9 or more for ring packing of bytes",
                    );
                }
                lwe.dimension() as u64
            }
            Selection::Rows { rows } => u64::from(rows.max(1)),
        };
        let slots = first_slots + u64::from(spec.folds) * u64::from(selectors.digits());
        let levels = slots.next_power_of_two().ilog2();
        if levels > spec.log_n {
            return Err(ParameterError::Slots { slots, n: ring.n() });
        }
        let mut inner = Inner {
            spec,
            ring,
            keys,
            selectors,
            response,
            levels,
            log2_failure: 0.0,
        };
        inner.log2_failure = inner.compute_log2_failure();
        Ok(Self(Arc::new(inner)))
    }

    /// The description.
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.0.ring
    }

    /// The gadget of substitution keys and of RGSW(s).
    pub fn keys(&self) -> &Gadget {
        &self.0.keys
    }

    /// The gadget of selectors.
    pub fn selectors(&self) -> &Gadget {
        &self.0.selectors
    }

    /// Standard deviation of fresh errors.
    pub fn sigma(&self) -> f64 {
        f64::from(self.0.spec.sigma_hundredths) / 100.0
    }

    /// Bits of a coefficient of a response.
    pub fn response_bits(&self) -> u32 {
        self.0.response.bits()
    }

    /// Levels of expansion h: a query's ciphertext holds 2^h slots.
    pub fn levels(&self) -> u32 {
        self.0.levels
    }

    /// Slots that a query uses: those of the selection, then l for each fold.
    pub fn slots(&self) -> usize {
        self.0.first_slots() + (self.0.spec.folds * self.0.selectors.digits()) as usize
    }

    /// Bits of a coefficient that a client wants: a byte after ring packing, a word modulo p otherwise.
    pub fn decoded_bits(&self) -> u32 {
        self.0.decoded_bits()
    }

    /// Estimated security of the RLWE side in bits, 0 where there is no estimate.
    pub fn security_bits(&self) -> f64 {
        let spec = &self.0.spec;
        security::rlwe_bits(spec.log_n, self.ring().modulus(), spec.sigma_hundredths).unwrap_or(0.0)
    }

    /// The noise model of this set.
    pub fn noise(&self) -> NoiseModel {
        self.0.noise()
    }

    /// The noise of an answer before it is switched.
    pub fn answer_noise(&self) -> Noise {
        self.0.answer_noise()
    }

    /// log2 of the probability that a record comes out wrong, by the model.
    pub fn log2_failure(&self) -> f64 {
        self.0.log2_failure
    }

    /// The identity of these parameters with a database, of which `database` is a hash: what every message carries.
    pub fn identity(&self, database: &[u8; 32]) -> Identity {
        let mut hash = Sha256::new();
        hash.update(b"gristmill he parameters 1");
        hash.update(self.0.spec.to_bytes());
        hash.update(database);
        Identity(hash.finalize().into())
    }
}

impl Inner {
    fn noise(&self) -> NoiseModel {
        NoiseModel::new(
            self.ring.n(),
            self.ring.modulus(),
            f64::from(self.spec.sigma_hundredths) / 100.0,
            self.spec.plaintext_bits,
            &self.keys,
            &self.selectors,
        )
    }

    fn first_slots(&self) -> usize {
        match self.spec.selection {
            Selection::Packing { lwe, .. } => lwe.dimension(),
            Selection::Rows { rows } => rows.max(1) as usize,
        }
    }

    fn decoded_bits(&self) -> u32 {
        match self.spec.selection {
            Selection::Packing { .. } => 8,
            Selection::Rows { .. } => self.spec.plaintext_bits,
        }
    }

    fn answer_noise(&self) -> Noise {
        let model = self.noise();
        let slot = model.expanded(self.levels);
        let selected = match self.spec.selection {
            Selection::Packing { lwe, .. } => model.packed(lwe.dimension() as u32, slot),
            Selection::Rows { rows } => model.selected(rows, slot),
        };
        let rows: RowNoise = model.converted(slot);
        (0..self.spec.folds).fold(selected, |noise, _| noise + model.external_product(rows))
    }

    fn compute_log2_failure(&self) -> f64 {
        let mut relative = self
            .noise()
            .switched(self.answer_noise(), self.response.log2());
        if let Selection::Packing { lwe, columns } = self.spec.selection {
            relative += noise::scalar_fold(&lwe, columns, self.spec.plaintext_bits);
        }
        noise::log2_failure(relative, self.decoded_bits(), self.spec.record_coefficients)
    }
}

impl Spec {
    /// The description as bytes, for its hash: numbers as little-endian words of 64 bits, in the order of the fields; a
    /// list with its length first, a choice with its number first.
    fn to_bytes(&self) -> Vec<u8> {
        let mut words: Vec<u64> = vec![self.log_n.into(), self.primes.len() as u64];
        words.extend(self.primes.iter().map(|&q| u64::from(q)));
        words.extend([self.sigma_hundredths, self.plaintext_bits].map(u64::from));
        for gadget in [self.keys, self.selectors] {
            words.extend([gadget.digits, gadget.base_bits, gadget.dropped].map(u64::from));
        }
        words.extend(match self.response {
            ResponseModulus::Primes(count) => [0, count.into()],
            ResponseModulus::Bits(bits) => [1, bits.into()],
        });
        match self.selection {
            Selection::Packing { lwe, columns } => words.extend([
                0,
                lwe.dimension() as u64,
                lwe.sigma_hundredths().into(),
                columns.into(),
            ]),
            Selection::Rows { rows } => words.extend([1, rows.into()]),
        }
        words.extend([self.folds.into(), self.record_coefficients]);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_sets_pass() {
        for (named, slots, levels, bits) in [
            (Named::Vipir, 1320, 11, 159.0),
            (Named::OnionPirV2, 296, 9, 128.9),
            (Named::Compact, 1184, 11, 159.0),
        ] {
            let parameters = Parameters::new(named.spec()).unwrap();
            assert_eq!(
                (parameters.slots(), parameters.levels()),
                (slots, levels),
                "{named}"
            );
            assert!((parameters.security_bits() - bits).abs() < 1e-9);
        }
        let response = |named: Named| Parameters::new(named.spec()).unwrap().response_bits();
        assert_eq!(Named::ALL.map(response), [29, 53, 17]);
    }

    /// The simulated figure of the whole tail at 64 GiB is 2^60.8.
    #[test]
    fn the_model_agrees_with_the_simulation() {
        let noise = Parameters::new(Named::Vipir.spec()).unwrap().answer_noise();
        assert!(
            (noise.log2_std() - 60.8).abs() < 0.6,
            "{}",
            noise.log2_std()
        );
    }

    #[test]
    fn weak_and_failing_sets_are_refused_with_the_reason() {
        let weak = Spec {
            log_n: 11,
            primes: vec![536_813_569, 536_690_689],
            ..Named::Vipir.spec()
        };
        assert!(matches!(
            Parameters::new(weak),
            Err(ParameterError::TooWeak { .. })
        ));
        let quiet = Spec {
            sigma_hundredths: 319,
            ..Named::Vipir.spec()
        };
        assert!(matches!(
            Parameters::new(quiet),
            Err(ParameterError::NotEstimated { .. })
        ));
        // Five exact digits everywhere do not decode at this size.
        let wide = GadgetSpec {
            digits: 5,
            base_bits: 22,
            dropped: 0,
        };
        let failing = Spec {
            keys: wide,
            selectors: wide,
            ..Named::OnionPirV2.spec()
        };
        assert!(matches!(
            Parameters::new(failing),
            Err(ParameterError::Failure { .. })
        ));
        // A response of 16 bits misses 2^-40 once a record is a whole polynomial.
        let short = Spec {
            response: ResponseModulus::Bits(16),
            ..Named::Compact.spec()
        };
        assert!(matches!(
            Parameters::new(short),
            Err(ParameterError::Failure { .. })
        ));
        let small = Spec {
            log_n: 10,
            ..Named::Vipir.spec()
        };
        assert!(matches!(
            Parameters::new(small),
            Err(ParameterError::Unsupported { .. })
        ));
    }

    #[test]
    fn every_field_changes_the_identity() {
        let of = |spec: Spec| Parameters::insecure(spec).unwrap().identity(&[0; 32]);
        let base = of(Named::Vipir.spec());
        assert_ne!(
            base,
            of(Spec {
                folds: 7,
                ..Named::Vipir.spec()
            })
        );
        assert_ne!(
            base,
            of(Spec {
                record_coefficients: 1,
                ..Named::Vipir.spec()
            })
        );
        assert_ne!(
            base,
            of(Spec {
                response: ResponseModulus::Bits(17),
                ..Named::Vipir.spec()
            })
        );
        assert_ne!(
            base,
            Parameters::new(Named::Vipir.spec())
                .unwrap()
                .identity(&[1; 32])
        );
    }
}
