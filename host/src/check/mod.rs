//! Every kernel against a plain reference, on any backend.
//!
//! A family states through its [trials](crate::trial::Trial) how a kernel is checked; this runs them, on a backend or on the
//! emulator's checked mode. A kernel of the registry that no family tries makes `gristmill kernels check` fail.

pub mod suite;

use simt::launch::{Kernel, VariantInfo};

use crate::backend::{Backend, Mode};
use crate::trial::{Digest, find};

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
    let Some(trial) = find(kernel) else {
        return report(
            Outcome::Failed(format!("no family tries the kernel `{}`", kernel.name)),
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
    match trial.check(backend, variant, seed) {
        Ok(digest) => report(Outcome::Passed(digest), false),
        Err(error) => report(Outcome::Failed(error.to_string()), error.is_device_lost()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_check_fails() {
        static ORPHAN: Kernel = Kernel {
            name: "orphan",
            doc: "",
            params: &[],
            variants: &[VariantInfo {
                name: "orphan",
                constants: &[],
                block: 32,
                min_blocks: 0,
                shared_bytes: 0,
                min_arch: 80,
                arch_feature: None,
                entry: |_, _| {},
            }],
            file: "",
            line: 0,
        };
        let backend = Backend::cpu(Mode::Fast);
        let report = run(&Subject::Backend(&backend), &ORPHAN, &ORPHAN.variants[0], 0);
        let Outcome::Failed(reason) = report.outcome else {
            panic!("{report:?}");
        };
        assert_eq!(reason, "no family tries the kernel `orphan`");
    }
}
