//! The one heavy thing that a server does: its database times vectors of words, on some machine.

use std::fmt;

use super::layout::ByteMatrix;

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

    /// Bytes of the cache that all of it shares, 0 where unknown.
    fn l2_bytes(&self) -> u64;

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
