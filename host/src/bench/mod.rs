//! How fast each variant is, beside what the hardware allows.
//!
//! A family states through its [trials](crate::trial::Trial) which shapes of a variant are worth timing and how much
//! [`Work`] one launch does. The [`Ceiling`]s are measured in the same run on the same device,
//! by kernels that do one thing only. The floor of a case is the longest time that any of its
//! resources takes at its ceiling; `of_floor` is floor over median, 1 being all that the
//! hardware has.
//!
//! On a GPU, events time the launches; on the emulator the wall clock does, and the ceilings are
//! the emulator's own.

mod plot;
mod time;

use std::time::{Duration, Instant};

use serde::Serialize;
use simt::launch::{LaunchError, VariantInfo};

use crate::backend::{Backend, Kind, Stream};
use crate::trial::{AnyTrial, Case, Ceiling, TrialError, Work};

pub use plot::svg;
pub use time::utc;

/// Timed runs of a case. Odd, so that the median is one of them.
const RUNS: usize = 31;

/// Launches are repeated inside a run until it takes about this long, so that neither the
/// resolution of an event (0.5 us) nor the gap before a launch shows.
const RUN_TIME: Duration = Duration::from_millis(1);

/// Launches inside a run at most.
const MAX_REPEATS: u32 = 1000;

/// A case is launched for at least this long before it is timed, so that clocks are up.
const WARM_UP: Duration = Duration::from_millis(50);

/// A measured ceiling.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The largest rate that any variant of its kernel reached.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
}

/// One case, timed.
#[derive(Clone, Debug, Serialize)]
pub struct Timed {
    /// The variant.
    pub variant: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// The shape.
    pub shape: String,
    /// Median time of a launch.
    pub median_ns: f64,
    /// Distance from the 10th to the 90th percentile, as a part of the median.
    pub spread: f64,
    /// Runs that the median is of.
    pub runs: usize,
    /// The time that its scarcest resource takes at its ceiling; null when that ceiling was not
    /// measured.
    pub floor_ns: Option<f64>,
    /// That resource.
    pub floor: Option<&'static str>,
    /// `floor_ns / median_ns`.
    pub of_floor: Option<f64>,
}

/// The results of a run, as `kernels bench --json` writes them.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The backend.
    pub backend: String,
    /// The GPU or CPU.
    pub device: String,
    /// The driver; null on the emulator.
    pub driver: Option<String>,
    /// The commit of the binary.
    pub commit: &'static str,
    /// When the run started, UTC.
    pub date: String,
    /// Ceilings by name.
    pub ceilings: std::collections::BTreeMap<&'static str, Measured>,
    /// Timed cases.
    pub results: Vec<Timed>,
}

/// Median and spread of the launches of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Median time of a launch.
    pub median_ns: f64,
    /// Distance from the 10th to the 90th percentile, as a part of the median.
    pub spread: f64,
    /// Runs that the median is of.
    pub runs: usize,
}

impl Sample {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let runs = times.len();
        let at = |part: f64| {
            let index = (part * (runs.saturating_sub(1)) as f64).round() as usize;
            times.get(index).copied().unwrap_or(f64::NAN)
        };
        let median_ns = at(0.5);
        Self {
            median_ns,
            spread: (at(0.9) - at(0.1)) / median_ns,
            runs,
        }
    }
}

/// Times runs of a queue: events on a GPU, the wall clock on the emulator.
struct Timer<'a> {
    stream: &'a Stream,
    events: Option<(crate::backend::Event, crate::backend::Event)>,
}

impl<'a> Timer<'a> {
    fn new(stream: &'a Stream) -> Result<Self, TrialError> {
        let backend = stream.backend();
        let events = match backend.kind() {
            Kind::Cuda => Some((backend.event()?, backend.event()?)),
            Kind::Cpu => None,
        };
        Ok(Self { stream, events })
    }

    fn time(
        &self,
        mut body: impl FnMut(&Stream) -> Result<(), LaunchError>,
    ) -> Result<Duration, TrialError> {
        if let Some((start, end)) = &self.events {
            self.stream.record(start)?;
            body(self.stream)?;
            self.stream.record(end)?;
            Ok(end.elapsed_since(start)?)
        } else {
            let start = Instant::now();
            body(self.stream)?;
            Ok(start.elapsed())
        }
    }
}

/// Times the launches of a case.
///
/// # Errors
///
/// A launch or the backend failed.
pub fn sample(stream: &Stream, case: &mut Case) -> Result<Sample, TrialError> {
    let timer = Timer::new(stream)?;
    let mut once = timer.time(|stream| (case.launch)(stream))?;
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        once = timer.time(|stream| (case.launch)(stream))?;
    }
    let wanted = RUN_TIME.as_secs_f64() / once.as_secs_f64().max(1e-9);
    let repeats = (wanted.ceil() as u32).clamp(1, MAX_REPEATS);
    let times = (0..RUNS)
        .map(|_| {
            let time = timer.time(|stream| (0..repeats).try_for_each(|_| (case.launch)(stream)))?;
            Ok(time.as_secs_f64() * 1e9 / f64::from(repeats))
        })
        .collect::<Result<Vec<_>, TrialError>>()?;
    Ok(Sample::of(times))
}

/// The rate of one ceiling: the best of the variants of its kernel.
///
/// # Errors
///
/// A launch or the backend failed.
pub fn measure_ceiling(
    backend: &Backend,
    ceiling: Ceiling,
    trial: &dyn AnyTrial,
    seed: u64,
) -> Result<Option<Measured>, TrialError> {
    let stream = backend.stream()?;
    let mut best: Option<f64> = None;
    for variant in trial.kernel().variants {
        if backend.supports(variant).is_err() {
            continue;
        }
        for mut case in trial.cases(backend, variant, seed)? {
            let sample = sample(&stream, &mut case)?;
            let rate = case.work.of(ceiling) as f64 / (sample.median_ns * 1e-9);
            if rate.is_finite() && rate > 0.0 {
                best = Some(best.map_or(rate, |best| best.max(rate)));
            }
        }
    }
    Ok(best.map(|value| Measured {
        value,
        unit: ceiling.unit(),
    }))
}

/// The floor of a launch: which ceiling bounds it, and how long it takes there at least.
fn floor(
    work: &Work,
    ceilings: &std::collections::BTreeMap<&'static str, Measured>,
) -> Option<(f64, &'static str)> {
    Ceiling::ALL
        .iter()
        .copied()
        .filter(|&ceiling| work.of(ceiling) > 0)
        .filter_map(|ceiling| {
            let measured = ceilings.get(ceiling.name())?;
            Some((
                work.of(ceiling) as f64 / measured.value * 1e9,
                ceiling.name(),
            ))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Times every case of a variant.
///
/// # Errors
///
/// A launch or the backend failed.
pub fn measure(
    backend: &Backend,
    trial: &dyn AnyTrial,
    variant: &'static VariantInfo,
    ceilings: &std::collections::BTreeMap<&'static str, Measured>,
    seed: u64,
) -> Result<Vec<Timed>, TrialError> {
    let stream = backend.stream()?;
    let mut timed = Vec::new();
    for mut case in trial.cases(backend, variant, seed)? {
        let Sample {
            median_ns,
            spread,
            runs,
        } = sample(&stream, &mut case)?;
        let bound = floor(&case.work, ceilings);
        timed.push(Timed {
            variant: variant.name,
            kernel: trial.kernel().name,
            shape: case.shape,
            median_ns,
            spread,
            runs,
            floor_ns: bound.map(|(ns, _)| ns),
            floor: bound.map(|(_, name)| name),
            of_floor: bound.map(|(ns, _)| ns / median_ns),
        });
    }
    Ok(timed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread_ignore_one_outlier() {
        let mut times: Vec<f64> = (0..30).map(|i| 100.0 + f64::from(i)).collect();
        times.push(1e9);
        let sample = Sample::of(times);
        assert_eq!(sample.runs, 31);
        assert!((sample.median_ns - 115.0).abs() < 1e-9, "{sample:?}");
        assert!(sample.spread < 0.25, "{sample:?}");
    }

    #[test]
    fn the_floor_is_the_scarcest_resource() {
        let rate = |value| Measured { value, unit: "" };
        let ceilings = [
            ("dram_read", rate(1e12)),
            ("dram_copy", rate(0.5e12)),
            ("imad_wide", rate(1e12)),
        ]
        .into();
        let mut work = Work {
            bytes_read: 1_000_000,
            ..Work::default()
        };
        assert_eq!(floor(&work, &ceilings), Some((1000.0, "dram_read")));
        work.bytes_written = 1_000_000;
        assert_eq!(floor(&work, &ceilings), Some((4000.0, "dram_copy")));
        work.imad_wide = 5_000_000;
        assert_eq!(floor(&work, &ceilings), Some((5000.0, "imad_wide")));
        // A ceiling that was not measured bounds nothing.
        work.clmad = u64::MAX;
        assert_eq!(floor(&work, &ceilings), Some((5000.0, "imad_wide")));
        assert_eq!(floor(&Work::default(), &ceilings), None);
    }
}
