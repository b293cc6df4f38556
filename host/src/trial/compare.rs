//! Outputs held against a reference.

use std::fmt::{self, Debug};

use sha2::{Digest as _, Sha256};
use simt::Element;
use simt::launch::LaunchError;

use crate::backend::{self, Backend, Buffer};

/// SHA-256 of the outputs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of one output.
    pub fn of<T: Element>(output: &[T]) -> Self {
        DigestBuilder::new().output(output).finish()
    }
}

impl fmt::Display for Digest {
    /// In hexadecimal; a precision cuts it to that many digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let text = self.0.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        f.pad(&text)
    }
}

/// Why a trial did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// An output is not what the reference says.
    #[error("{place} is {got}, expected {expected} (the first of {wrong} wrong among {all})")]
    Mismatch {
        /// Output and index, for instance `c[17]`.
        place: String,
        /// What the kernel gave.
        got: String,
        /// What the reference gave.
        expected: String,
        /// Elements that differ.
        wrong: usize,
        /// Elements compared.
        all: usize,
    },
    /// The output has another length than the reference.
    #[error("{output} has {got} elements, expected {expected}")]
    Length {
        /// The output.
        output: String,
        /// Elements of the output.
        got: usize,
        /// Elements of the reference.
        expected: usize,
    },
    /// The variant is none of the kernel's.
    #[error("the kernel has no such variant")]
    UnknownVariant,
    /// A launch was refused, met a fault, or failed on the device.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] backend::Error),
    /// Anything else, in one sentence.
    #[error("{0}")]
    Other(String),
}

impl TrialError {
    /// Whether the device is in doubt after this: nothing else should run on it.
    pub fn is_device_lost(&self) -> bool {
        matches!(
            self,
            Self::Launch(LaunchError::Device { .. })
                | Self::Backend(
                    backend::Error::Cuda { .. }
                        | backend::Error::Launch(LaunchError::Device { .. })
                )
        )
    }
}

/// Downloads an output, compares it with the reference bit for bit, and gives its digest.
///
/// # Errors
///
/// As [`compare`], and whatever keeps the output from being read.
pub fn verify<T: Element + Debug>(
    backend: &Backend,
    output: &str,
    device: &Buffer<T>,
    expected: &[T],
) -> Result<Digest, TrialError> {
    verify_at(backend, output, device, expected, |index| index.to_string())
}

/// As [`verify`], with a name of one's own for the place of an index, such as `row, column`.
///
/// # Errors
///
/// As [`verify`].
pub fn verify_at<T: Element + Debug>(
    backend: &Backend,
    output: &str,
    device: &Buffer<T>,
    expected: &[T],
    place: impl Fn(usize) -> String,
) -> Result<Digest, TrialError> {
    let got = backend.download(device)?;
    compare_at(output, &got, expected, place)?;
    Ok(Digest::of(&got))
}

/// Compares an output with the reference, bit for bit.
///
/// # Errors
///
/// [`TrialError::Mismatch`] with the index and both values of the first difference, and
/// [`TrialError::Length`].
pub fn compare<T: Element + Debug>(
    output: &str,
    got: &[T],
    expected: &[T],
) -> Result<(), TrialError> {
    compare_at(output, got, expected, |index| index.to_string())
}

/// As [`compare`], with a name of one's own for the place of an index, such as `row, column`.
///
/// # Errors
///
/// As [`compare`].
pub fn compare_at<T: Element + Debug>(
    output: &str,
    got: &[T],
    expected: &[T],
    place: impl Fn(usize) -> String,
) -> Result<(), TrialError> {
    if got.len() != expected.len() {
        return Err(TrialError::Length {
            output: output.to_owned(),
            got: got.len(),
            expected: expected.len(),
        });
    }
    let differ =
        |(got, expected): &(&T, &T)| bytemuck::bytes_of(*got) != bytemuck::bytes_of(*expected);
    let pairs = || got.iter().zip(expected);
    let Some(index) = pairs().position(|pair| differ(&pair)) else {
        return Ok(());
    };
    Err(TrialError::Mismatch {
        place: format!("{output}[{}]", place(index)),
        got: format!("{:?}", got[index]),
        expected: format!("{:?}", expected[index]),
        wrong: pairs().filter(differ).count(),
        all: got.len(),
    })
}

/// Collects the outputs of a run into one [`Digest`].
#[derive(Clone, Debug, Default)]
pub struct DigestBuilder(Sha256);

impl DigestBuilder {
    /// Nothing collected yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an output: its length in bytes, then its bytes as they lie in memory.
    #[must_use]
    pub fn output<T: Element>(mut self, output: &[T]) -> Self {
        let bytes: &[u8] = bytemuck::cast_slice(output);
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// The digest of what was added.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_names_place_and_both_values() {
        assert!(compare("c", &[1u32, 2, 3], &[1, 2, 3]).is_ok());
        let error = compare("c", &[1u32, 2, 3], &[1, 5, 4]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "c[1] is 2, expected 5 (the first of 2 wrong among 3)"
        );
        let error = compare("c", &[1u32], &[1, 5]).unwrap_err();
        assert_eq!(error.to_string(), "c has 1 elements, expected 2");
        let error = compare_at("m", &[0u8; 6], &[0, 0, 0, 0, 9, 0], |i| {
            format!("{}, {}", i / 3, i % 3)
        });
        assert!(error.unwrap_err().to_string().starts_with("m[1, 1] is 0"));
    }

    #[test]
    fn digests_separate_outputs_and_match_the_standard() {
        // SHA-256 of eight zero bytes (the length), FIPS 180-4.
        assert_eq!(
            Digest::of::<u8>(&[]).to_string(),
            "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc"
        );
        let split = |a: &[u8], b: &[u8]| DigestBuilder::new().output(a).output(b).finish();
        assert_ne!(split(&[1], &[2, 3]), split(&[1, 2], &[3]));
        assert_eq!(format!("{:.8}", Digest([0xab; 32])), "abababab");
    }
}
