//! Every kernel against a plain reference, on any backend.
//!
//! A [`Check`] makes inputs from a seed, runs one variant of one kernel, holds every bit of its
//! outputs against the reference beside the kernel, and returns a [`Digest`] of the outputs. Two
//! backends that give the same digest for a seed gave the same bits.
//!
//! The kernels of a family are checked in the file of that family here, which lists them in its
//! `CHECKS`, and times them through its [`BENCHES`](crate::bench). A kernel of the registry that
//! no family checks makes `gristmill kernels check` fail.
//!
//! A check reads like this:
//!
//! ```no_run
//! # use gristmill::backend::Backend;
//! # use gristmill::check::{compare, CheckError, Digest, Inputs};
//! # use simt::launch::{Grid, Kernel, VariantInfo};
//! # fn launch_double(_: &Backend, _: &VariantInfo, _: &gristmill::backend::Buffer<u32>,
//! #     _: &mut gristmill::backend::Buffer<u32>) -> Result<(), CheckError> { Ok(()) }
//! # fn run(backend: &Backend, variant: &'static VariantInfo, seed: u64) -> Result<Digest, CheckError> {
//! let mut inputs = Inputs::new("double", seed);
//! let a = inputs.words(1000);
//! let expected: Vec<u32> = a.iter().map(|&x| x.wrapping_mul(2)).collect();
//!
//! let device_a = backend.upload(&a)?;
//! let mut device_c = backend.alloc(a.len())?;
//! launch_double(backend, variant, &device_a, &mut device_c)?;
//!
//! let c = backend.download(&device_c)?;
//! compare("c", &c, &expected)?;
//! Ok(Digest::of(&c))
//! # }
//! ```

pub mod suite;
mod toolkit;

mod byte_product;
mod ceilings;
mod gemm;
mod gf128;
mod montgomery;
mod ntt;

use std::fmt;

use simt::launch::{Kernel, LaunchError, VariantInfo};

use crate::backend::{self, Backend, Mode};

pub use toolkit::{DigestBuilder, Inputs, compare, compare_at, repeated, tiled, variant_of};

/// How one kernel is tried.
pub trait Check: Sync {
    /// The kernel that this checks.
    fn kernel(&self) -> &'static Kernel;

    /// Runs `variant` on inputs made from `seed` and compares every output with the reference.
    ///
    /// Inputs depend on the seed alone, never on the backend, and hold the edge values of their
    /// range. The emulator is slow (about 10^8 simple operations a second): keep one run under a
    /// second there, and take a size that is no multiple of the block.
    ///
    /// # Errors
    ///
    /// [`CheckError::Mismatch`] names the first wrong output; the rest is what went wrong before
    /// there was any.
    fn run(
        &self,
        backend: &Backend,
        variant: &'static VariantInfo,
        seed: u64,
    ) -> Result<Digest, CheckError>;
}

/// SHA-256 of the outputs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of one output.
    pub fn of<T: simt::Element>(output: &[T]) -> Self {
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

/// Why a check did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
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
    /// The variant is none that this check knows.
    #[error("the check does not know this variant")]
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

impl CheckError {
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

/// Every check there is.
pub fn checks() -> Vec<&'static dyn Check> {
    [
        byte_product::CHECKS,
        ceilings::CHECKS,
        gemm::CHECKS,
        gf128::CHECKS,
        montgomery::CHECKS,
        ntt::CHECKS,
    ]
    .concat()
}

/// Every bench hook there is.
pub fn benches() -> Vec<&'static dyn crate::bench::Bench> {
    [
        byte_product::BENCHES,
        gemm::BENCHES,
        gf128::BENCHES,
        montgomery::BENCHES,
        ntt::BENCHES,
    ]
    .concat()
}

/// The kernels that measure the ceilings.
pub fn ceilings() -> &'static [(crate::bench::Ceiling, &'static dyn crate::bench::Bench)] {
    ceilings::CEILINGS
}

/// What became of one variant.
#[derive(Debug)]
pub enum Outcome {
    /// Every output was right.
    Passed(Digest),
    /// It was not run, because this backend cannot run it.
    Skipped(String),
    /// It failed, with one sentence that says how.
    Failed(String),
}

/// One variant, one seed.
#[derive(Debug)]
pub struct Report {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The variant.
    pub variant: &'static VariantInfo,
    /// The seed of its inputs.
    pub seed: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the device is lost and nothing more can run.
    pub lost: bool,
}

/// The backend that [`run`] checks on.
#[derive(Debug)]
pub enum Subject<'a> {
    /// An open backend.
    Backend(&'a Backend),
    /// The emulator in checked mode; each run's schedule follows its seed.
    Checked,
}

/// Variants of the registry whose name holds `filter`, with their kernels, in order of name.
pub fn variants(filter: &str) -> Vec<(&'static Kernel, &'static VariantInfo)> {
    let mut variants: Vec<_> = simt::launch::kernels()
        .into_iter()
        .flat_map(|kernel| kernel.variants.iter().map(move |variant| (kernel, variant)))
        .filter(|(_, variant)| variant.name.contains(filter))
        .collect();
    variants.sort_by_key(|(_, variant)| variant.name);
    variants
}

/// Runs one variant with one seed.
pub fn run(
    subject: &Subject<'_>,
    kernel: &'static Kernel,
    variant: &'static VariantInfo,
    seed: u64,
) -> Report {
    let report = |outcome, lost| Report {
        kernel,
        variant,
        seed,
        outcome,
        lost,
    };
    let Some(check) = checks()
        .into_iter()
        .find(|check| std::ptr::eq(check.kernel(), kernel))
    else {
        return report(
            Outcome::Failed(format!("no check covers the kernel `{}`", kernel.name)),
            false,
        );
    };
    let owned;
    let backend = match subject {
        Subject::Backend(backend) => *backend,
        Subject::Checked => {
            owned = Backend::cpu(Mode::Checked { seed });
            &owned
        }
    };
    if let Err(reason) = backend.supports(variant) {
        return report(Outcome::Skipped(reason), false);
    }
    match check.run(backend, variant, seed) {
        Ok(digest) => report(Outcome::Passed(digest), false),
        Err(error) => report(Outcome::Failed(error.to_string()), error.is_device_lost()),
    }
}
