//! The one heavy thing that a server does: its database times vectors of words, on some machine.

use std::fmt;

use gpu_kernels::byte_product::Shape;

use super::layout::ByteMatrix;
use crate::backend::{Backend, Buffer};
use crate::choice::{Choice, Table};
use crate::families::byte_product::{HINT, job_for, multiply};
use crate::trial::Job;

/// What a machine said when it could not hold or multiply a database: one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(String);

impl EngineError {
    /// The text of another error.
    pub fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// A machine that can hold a database and multiply by it.
pub trait Engine {
    /// What it is, for a report: "cpu (emulator, 2 threads)".
    fn describe(&self) -> String;

    /// Why it was taken in place of a GPU, where the best there is was asked for.
    fn passed_over(&self) -> Option<String> {
        None
    }

    /// Bytes of the cache that all of it shares, 0 where unknown.
    fn l2_bytes(&self) -> u64;

    /// Which kernels it takes for a product with each of these numbers of columns, where it has a choice.
    fn choices(&self, _columns: &[u32]) -> Vec<Choice> {
        Vec::new()
    }

    /// Takes a database into its memory.
    ///
    /// # Errors
    ///
    /// [`EngineError`], for instance where there is no memory for it.
    fn load(&self, database: &ByteMatrix) -> Result<Box<dyn Product>, EngineError>;
}

/// A database matrix D (D1 x D0 signed bytes) in the memory of an [`Engine`].
pub trait Product {
    /// Y = D X modulo 2^32, column by column: `x` holds `x.len() / D0` columns of D0 words, one after the
    /// other, and the result as many of D1 words.
    ///
    /// # Errors
    ///
    /// [`EngineError`] where the machine failed.
    fn multiply(&self, x: &[u32]) -> Result<Vec<u32>, EngineError>;
}

/// The kernels of [`gpu_kernels::byte_product`], on the emulator or on a GPU.
#[derive(Clone, Debug)]
pub struct Kernels {
    backend: Backend,
    table: Table,
}

impl Kernels {
    /// The kernels on a backend, chosen by a table.
    pub fn new(backend: Backend, table: Table) -> Self {
        Self { backend, table }
    }

    fn choose(&self, job: &'static Job) -> Result<Choice, EngineError> {
        self.table.choose(&self.backend, job).ok_or_else(|| {
            let candidate = job.candidates().next();
            let reason = candidate.and_then(|variant| self.backend.supports(variant).err());
            EngineError(format!(
                "no kernel for {} runs here: {}",
                job.what,
                reason.unwrap_or_default()
            ))
        })
    }
}

impl Engine for Kernels {
    fn describe(&self) -> String {
        format!("{}: {}", self.backend.kind(), self.backend.name())
    }

    fn passed_over(&self) -> Option<String> {
        self.backend.passed_over().map(ToString::to_string)
    }

    fn l2_bytes(&self) -> u64 {
        self.backend.l2_bytes()
    }

    fn choices(&self, columns: &[u32]) -> Vec<Choice> {
        let chosen = columns.iter().map(|&columns| job_for(columns));
        chosen.filter_map(|job| self.choose(job).ok()).collect()
    }

    fn load(&self, database: &ByteMatrix) -> Result<Box<dyn Product>, EngineError> {
        // What cannot be multiplied is not worth loading.
        self.choose(&HINT)?;
        Ok(Box::new(Loaded::new(self, database)?))
    }
}

/// The built-in tables choose.
impl From<&Backend> for Kernels {
    fn from(backend: &Backend) -> Self {
        Self::new(backend.clone(), Table::default())
    }
}

/// Bytes of a database that are staged for the device at a time.
const UPLOAD_BYTES: usize = 64 << 20;

fn too_large() -> EngineError {
    EngineError::new("the database is too large for the kernels: split it")
}

/// A database in the memory of a backend.
struct Loaded {
    kernels: Kernels,
    database: Buffer<u8>,
    /// For one column of X.
    shape: Shape,
}

impl Product for Loaded {
    fn multiply(&self, x: &[u32]) -> Result<Vec<u32>, EngineError> {
        let backend = &self.kernels.backend;
        let inner = self.shape.inner as usize;
        let columns = x.len() / inner;
        let shape = u32::try_from(columns)
            .ok()
            .and_then(|columns| Shape::packed(self.shape.rows, self.shape.inner, columns))
            .ok_or_else(too_large)?;
        // Columns go to their strides.
        let stride = shape.x_stride as usize;
        let mut strided = vec![0; columns * stride];
        for (to, from) in strided.chunks_exact_mut(stride).zip(x.chunks_exact(inner)) {
            to[..inner].copy_from_slice(from);
        }
        let x = backend.upload(&strided).map_err(EngineError::new)?;
        let rows = shape.y_stride as usize;
        let mut y = backend
            .alloc_zeroed(columns * rows)
            .map_err(EngineError::new)?;
        let chosen = self.kernels.choose(job_for(shape.columns))?;
        multiply(backend, chosen.variant, &self.database, &x, &mut y, shape)
            .map_err(EngineError::new)?;
        backend.download(&y).map_err(EngineError::new)
    }
}

impl Loaded {
    fn new(kernels: &Kernels, database: &ByteMatrix) -> Result<Self, EngineError> {
        let backend = &kernels.backend;
        let sizes = (
            u32::try_from(database.rows()),
            u32::try_from(database.columns()),
        );
        let (Ok(rows), Ok(columns)) = sizes else {
            return Err(too_large());
        };
        let shape = Shape::packed(rows, columns, 1).ok_or_else(too_large)?;
        let bytes = usize::try_from(shape.database_len()).map_err(|_| too_large())?;
        let stride = shape.database_stride as usize;
        // Rows go to their strides a few at a time; what fills them up stays zero.
        let mut buffer = backend
            .alloc_zeroed::<u8>(bytes)
            .map_err(EngineError::new)?;
        let at_a_time = (UPLOAD_BYTES / stride).max(1);
        let mut staged = Vec::new();
        for first in (0..database.rows()).step_by(at_a_time) {
            let part = at_a_time.min(database.rows() - first);
            staged.clear();
            staged.resize(part * stride, 0);
            for (at, staged) in staged.chunks_exact_mut(stride).enumerate() {
                let row = bytemuck::cast_slice(database.row(first + at));
                staged[..row.len()].copy_from_slice(row);
            }
            let mut target = buffer
                .view_mut(first * stride..(first + part) * stride)
                .map_err(EngineError::new)?;
            backend
                .write(&mut target, &staged)
                .map_err(EngineError::new)?;
        }
        Ok(Self {
            kernels: kernels.clone(),
            database: buffer,
            shape,
        })
    }
}

/// The plain loop that the kernels are held against.
#[cfg(test)]
pub(crate) mod reference {
    use super::{ByteMatrix, Engine, EngineError, Product};

    pub(crate) struct Reference;

    impl Engine for Reference {
        fn describe(&self) -> String {
            "reference".to_owned()
        }

        fn l2_bytes(&self) -> u64 {
            0
        }

        fn load(&self, database: &ByteMatrix) -> Result<Box<dyn Product>, EngineError> {
            Ok(Box::new(database.clone()))
        }
    }

    impl Product for ByteMatrix {
        fn multiply(&self, x: &[u32]) -> Result<Vec<u32>, EngineError> {
            let mut y = Vec::new();
            for x in x.chunks_exact(self.columns()) {
                for row in 0..self.rows() {
                    let terms = self
                        .row(row)
                        .iter()
                        .zip(x)
                        .map(|(&byte, &word)| i128::from(byte) * i128::from(word));
                    y.push(terms.sum::<i128>().rem_euclid(1 << 32) as u32);
                }
            }
            Ok(y)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use chacha20::ChaCha20Rng;
    use proptest::prelude::*;
    use rand::SeedableRng as _;

    use super::reference::Reference;
    use super::*;
    use crate::backend::Mode;
    use crate::he::lwe::params::LweParameters;
    use crate::he::sample::fill;
    use crate::pir::layout::Layout;
    use crate::pir::records::{ReadOptions, Records};

    fn random(bytes: &mut [u8], seed: u64) {
        fill(&mut ChaCha20Rng::seed_from_u64(seed), bytes);
    }

    /// A matrix of `columns` records of `rows` bytes, one a column.
    fn matrix(rows: usize, columns: usize, seed: u64) -> ByteMatrix {
        let mut data = vec![0; rows * columns];
        random(&mut data, seed);
        let options = ReadOptions {
            record_bytes: Some(rows),
            ..ReadOptions::default()
        };
        let records = Records::from_bytes(Path::new("a.bin"), data, &options).unwrap();
        let lwe = LweParameters::STANDARD;
        let layout = Layout::from_parts(columns as u64, rows as u32, 0, 1, 1, &lwe).unwrap();
        ByteMatrix::build(&records, &layout).unwrap()
    }

    fn words(len: usize, seed: u64) -> Vec<u32> {
        let mut words = vec![0; len];
        random(bytemuck::cast_slice_mut(&mut words), seed);
        words
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Sizes that are no multiple of anything, one column and several, on the emulator, in a schedule
        /// that varies, with its checks on.
        #[test]
        fn backends_multiply_like_the_plain_loop(
            rows in 1_usize..80,
            inner in 1_usize..150,
            columns in 1_usize..4,
            seed: u64,
        ) {
            let database = matrix(rows, inner, seed);
            let x = words(columns * inner, seed ^ 1);
            let expected = Reference.load(&database).unwrap().multiply(&x).unwrap();
            for mode in [Mode::Fast, Mode::Checked { seed }] {
                let product = Kernels::from(&Backend::cpu(mode)).load(&database).unwrap();
                prop_assert_eq!(&product.multiply(&x).unwrap(), &expected);
                // A second product of the same database: nothing is left of the first.
                prop_assert_eq!(&product.multiply(&x).unwrap(), &expected);
            }
        }
    }

    /// The way that a GPU takes, on the emulator.
    #[test]
    fn every_candidate_multiplies_like_the_plain_loop() {
        let database = matrix(70, 131, 3);
        let x = words(5 * 132, 4);
        let packed: Vec<u32> = x
            .chunks(132)
            .flat_map(|column| &column[..131])
            .copied()
            .collect();
        let expected = Reference
            .load(&database)
            .unwrap()
            .multiply(&packed)
            .unwrap();
        let backend = Backend::cpu(Mode::Fast);
        let shape = Shape::packed(70, 131, 5).unwrap();
        let loaded = Loaded::new(&Kernels::from(&backend), &database).unwrap();
        let x = backend.upload(&x).unwrap();
        for columns in [1, 2, 65] {
            let candidates: Vec<_> = job_for(columns).candidates().collect();
            assert!(candidates.len() > 1);
            for variant in candidates {
                let mut y = backend.alloc_zeroed(5 * 70).unwrap();
                multiply(&backend, variant, &loaded.database, &x, &mut y, shape).unwrap();
                assert_eq!(backend.download(&y).unwrap(), expected, "{}", variant.name);
            }
        }
        let stranger = crate::check::variants("ceiling_copy")[0].1;
        let mut y = backend.alloc_zeroed(5 * 70).unwrap();
        let error = multiply(&backend, stranger, &loaded.database, &x, &mut y, shape).unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
