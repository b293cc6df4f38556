//! How the kernels of a family are tried: what a family registers, and what its trials share.
//!
//! A [`Family`] is data. Its [`Trial`]s say for each kernel how it is checked against its plain reference and which shapes
//! are worth timing; [`check`](crate::check) and [`mod@bench`](crate::bench) run whatever is registered and know no family.
//!
//! A check makes inputs from a seed, runs one variant of one kernel, holds every bit of its outputs against the reference
//! beside the kernel, and returns a [`Digest`] of the outputs. Two backends that give the same digest for a seed gave the
//! same bits.
//!
//! ```no_run
//! use gpu_kernels::montgomery::{montgomery_mul, reference};
//! use gpu_kernels::arith::prime::VIPIR;
//! use gristmill::backend::Backend;
//! use gristmill::trial::{Case, Digest, Inputs, Trial, TrialError, verify};
//! use simt::launch::Grid;
//!
//! struct MontgomeryMul;
//!
//! impl Trial for MontgomeryMul {
//!     type Variant = montgomery_mul::Variant;
//!
//!     fn check(&self, backend: &Backend, variant: Self::Variant, mut inputs: Inputs) -> Result<Digest, TrialError> {
//!         let (n, q) = (1000, VIPIR[0]);
//!         let (a, b) = (inputs.residues(n, q.get()), inputs.residues(n, q.get()));
//!         let expected = reference::montgomery_mul(&a, &b, q.get());
//!         let (a, b) = (backend.upload(&a)?, backend.upload(&b)?);
//!         let mut c = backend.alloc(n)?;
//!         montgomery_mul::launch(backend, variant, Grid::x(2), &a, &b, &mut c, n as u64, q)?;
//!         verify(backend, "c", &c, &expected)
//!     }
//!
//!     fn cases(&self, _: &Backend, _: Self::Variant, _: Inputs) -> Result<Vec<Case>, TrialError> {
//!         Ok(vec![])
//!     }
//! }
//! ```

mod compare;
mod inputs;
mod job;
mod work;

use simt::launch::{Kernel, KernelVariant, VariantInfo};

use crate::backend::Backend;

pub use compare::{Digest, DigestBuilder, TrialError, compare, compare_at, verify, verify_at};
pub use inputs::{Inputs, repeated, tiled};
pub use job::{Job, constant};
pub use work::{Case, Ceiling, LaunchOnce, Work};

/// Kernels that belong together, and how they are tried.
#[derive(Debug)]
pub struct Family {
    /// Its name: that of its module in `gpu_kernels`.
    pub name: &'static str,
    /// Its kernels, each once.
    pub trials: &'static [&'static dyn AnyTrial],
    /// Those of its kernels that measure a ceiling.
    pub ceilings: &'static [(Ceiling, &'static dyn AnyTrial)],
    /// What protocols ask of them, where more than one variant can do it.
    pub jobs: &'static [&'static Job],
}

/// How one kernel is tried.
pub trait Trial: Sync {
    /// The variants of the kernel, the `Variant` of its module.
    type Variant: KernelVariant;

    /// Runs `variant` and compares every output with the reference.
    ///
    /// `inputs` depend on the kernel and a seed alone, never on the backend, and hold the edge values of their range. The
    /// emulator is slow (about 10^8 simple operations a second): keep one run under a second there, and take a size that is
    /// no multiple of the block.
    ///
    /// # Errors
    ///
    /// [`TrialError::Mismatch`] names the first wrong output; the rest is what went wrong before there was any.
    fn check(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        inputs: Inputs,
    ) -> Result<Digest, TrialError>;

    /// The shapes of `variant` that are worth timing on `backend`.
    ///
    /// On a GPU: random inputs, and a working set larger than [`Backend::l2_bytes`] (four times is good). On the emulator a
    /// launch should take about ten milliseconds.
    ///
    /// # Errors
    ///
    /// Whatever keeps the inputs from being made.
    fn cases(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError>;
}

/// A [`Trial`] of any kernel: variants go by their descriptor, inputs by their seed.
pub trait AnyTrial: Sync {
    /// The kernel.
    fn kernel(&self) -> &'static Kernel;

    /// As [`Trial::check`].
    ///
    /// # Errors
    ///
    /// As [`Trial::check`], and [`TrialError::UnknownVariant`].
    fn check(
        &self,
        backend: &Backend,
        variant: &VariantInfo,
        seed: u64,
    ) -> Result<Digest, TrialError>;

    /// As [`Trial::cases`].
    ///
    /// # Errors
    ///
    /// As [`Trial::cases`], and [`TrialError::UnknownVariant`].
    fn cases(
        &self,
        backend: &Backend,
        variant: &VariantInfo,
        seed: u64,
    ) -> Result<Vec<Case>, TrialError>;
}

impl<T: Trial> AnyTrial for T {
    fn kernel(&self) -> &'static Kernel {
        T::Variant::kernel()
    }

    fn check(
        &self,
        backend: &Backend,
        variant: &VariantInfo,
        seed: u64,
    ) -> Result<Digest, TrialError> {
        let (variant, inputs) = typed::<T>(variant, seed)?;
        Trial::check(self, backend, variant, inputs)
    }

    fn cases(
        &self,
        backend: &Backend,
        variant: &VariantInfo,
        seed: u64,
    ) -> Result<Vec<Case>, TrialError> {
        let (variant, inputs) = typed::<T>(variant, seed)?;
        Trial::cases(self, backend, variant, inputs)
    }
}

fn typed<T: Trial>(variant: &VariantInfo, seed: u64) -> Result<(T::Variant, Inputs), TrialError> {
    let variant = T::Variant::of(variant).ok_or(TrialError::UnknownVariant)?;
    Ok((variant, Inputs::new(T::Variant::kernel().name, seed)))
}

impl std::fmt::Debug for dyn AnyTrial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Trial").field(&self.kernel().name).finish()
    }
}

inventory::collect!(&'static Family);

/// Every family, in order of name. A family registers itself: `inventory::submit! { &FAMILY }`.
pub fn families() -> Vec<&'static Family> {
    let mut families: Vec<&Family> = inventory::iter::<&Family>.into_iter().copied().collect();
    families.sort_by_key(|family| family.name);
    families
}

/// The trial of a kernel, if a family has it.
pub fn find(kernel: &Kernel) -> Option<&'static dyn AnyTrial> {
    families()
        .into_iter()
        .flat_map(|family| family.trials)
        .copied()
        .find(|trial| std::ptr::eq(trial.kernel(), kernel))
}

/// Every ceiling that a family measures, with the kernel that does.
pub fn ceilings() -> impl Iterator<Item = (Ceiling, &'static dyn AnyTrial)> {
    families()
        .into_iter()
        .flat_map(|family| family.ceilings)
        .copied()
}
