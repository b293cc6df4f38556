//! Which variant is fastest for a job on the device at hand.

use simt::launch::VariantInfo;

use crate::backend::Backend;
use crate::bench::{Sample, sample};
use crate::trial::{Job, TrialError};

/// One candidate, timed.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The variant.
    pub variant: &'static VariantInfo,
    /// The shape.
    pub shape: String,
    /// Its time.
    pub sample: Sample,
}

/// Times every candidate of `job` that `backend` can run, the fastest first.
///
/// # Errors
///
/// A launch or the backend failed.
pub fn tune(backend: &Backend, job: &Job, seed: u64) -> Result<Vec<Candidate>, TrialError> {
    let stream = backend.stream()?;
    let mut timed = Vec::new();
    for variant in job.candidates() {
        if backend.supports(variant).is_err() {
            continue;
        }
        let mut case = (job.case)(backend, variant, seed)?;
        timed.push(Candidate {
            variant,
            sample: sample(&stream, &mut case)?,
            shape: case.shape,
        });
    }
    timed.sort_by(|a, b| a.sample.median_ns.total_cmp(&b.sample.median_ns));
    Ok(timed)
}

/// The candidate to take: the fastest, unless the built-in one is as fast as far as the runs can tell.
pub fn winner<'a>(timed: &'a [Candidate], default: Option<&VariantInfo>) -> Option<&'a Candidate> {
    let best = timed.first()?;
    let built_in = timed
        .iter()
        .find(|candidate| default.is_some_and(|default| default.name == candidate.variant.name));
    // Half of each spread on its side of the median.
    let apart = |built_in: &Candidate| {
        best.sample.median_ns * (1.0 + best.sample.spread / 2.0)
            < built_in.sample.median_ns * (1.0 - built_in.sample.spread / 2.0)
    };
    match built_in {
        Some(built_in) if !apart(built_in) => Some(built_in),
        _ => Some(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_variant_gives_way_to_a_clearly_faster_one_only() {
        let variants = &gpu_kernels::ntt::ntt_forward::KERNEL.variants;
        let candidate = |variant: &'static VariantInfo, median_ns, spread| Candidate {
            variant,
            shape: String::new(),
            sample: Sample {
                median_ns,
                spread,
                runs: 31,
            },
        };
        let name = |timed: &[Candidate]| {
            let found = winner(timed, Some(&variants[1]));
            found.map(|candidate| candidate.variant.name)
        };
        let faster = candidate(&variants[0], 90.0, 0.02);
        let clear = [faster.clone(), candidate(&variants[1], 100.0, 0.02)];
        assert_eq!(name(&clear), Some(variants[0].name));
        let noisy = [faster.clone(), candidate(&variants[1], 100.0, 0.3)];
        assert_eq!(name(&noisy), Some(variants[1].name));
        assert_eq!(name(&[faster]), Some(variants[0].name));
        assert_eq!(name(&[]), None);
    }
}
