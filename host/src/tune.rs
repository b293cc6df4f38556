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
