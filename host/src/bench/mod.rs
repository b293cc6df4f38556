//! How fast each variant is, beside what the hardware allows.
//!
//! A family states through [`Bench`] which shapes of a variant are worth timing and how much
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
use simt::launch::{Kernel, LaunchError, VariantInfo};

use crate::backend::{Backend, Kind, Stream};
use crate::check::CheckError;

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

/// What one launch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of memory that must be read at least once.
    pub bytes_read: u64,
    /// Bytes of memory that must be written at least once.
    pub bytes_written: u64,
    /// Bytes that must come from L2 at least, where they are more than those from memory.
    pub l2_read: u64,
    /// 32 x 32 + 64 bit multiply-adds (`IMAD.WIDE`), over all threads.
    pub imad_wide: u64,
    /// 8-bit multiply-adds on tensor cores, by `mma.sync`.
    pub mma_int8: u64,
    /// 8-bit multiply-adds on tensor cores, by `wgmma`.
    pub wgmma_int8: u64,
    /// 64 x 64 bit carry-less multiply-adds, one half of the product each (`CLMAD`), over all
    /// threads.
    pub clmad: u64,
}

/// A limit of the hardware, measured by a kernel that does nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ceiling {
    /// Bytes a second that memory can be read at.
    DramRead,
    /// Bytes a second that memory can be copied at, read and written bytes both counted.
    DramCopy,
    /// Bytes a second that L2 can be read at.
    L2Read,
    /// `IMAD.WIDE` a second.
    ImadWide,
    /// 8-bit tensor multiply-adds a second (`mma.m16n8k32`).
    MmaInt8,
    /// 8-bit tensor multiply-adds a second of warpgroups (`wgmma`, sm_90a).
    WgmmaInt8,
    /// `CLMAD` a second.
    Clmad,
}

impl Ceiling {
    /// Every ceiling.
    pub const ALL: &'static [Self] = &[
        Self::DramRead,
        Self::DramCopy,
        Self::L2Read,
        Self::ImadWide,
        Self::MmaInt8,
        Self::WgmmaInt8,
        Self::Clmad,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::DramRead => "dram_read",
            Self::DramCopy => "dram_copy",
            Self::L2Read => "l2_read",
            Self::ImadWide => "imad_wide",
            Self::MmaInt8 => "mma_int8",
            Self::WgmmaInt8 => "wgmma_int8",
            Self::Clmad => "clmad",
        }
    }

    /// The unit in results.
    pub fn unit(self) -> &'static str {
        match self {
            Self::DramRead | Self::DramCopy | Self::L2Read => "bytes/s",
            Self::ImadWide | Self::MmaInt8 | Self::WgmmaInt8 | Self::Clmad => "op/s",
        }
    }
}

impl Work {
    /// What a launch takes from a resource.
    ///
    /// Memory counts against the read ceiling when nearly all of it is read (a tenth or less
    /// written), else against the copy ceiling.
    pub fn of(&self, ceiling: Ceiling) -> u64 {
        let bytes = self.bytes_read + self.bytes_written;
        let mostly_read = self.bytes_written <= bytes / 10;
        match ceiling {
            Ceiling::DramRead if mostly_read => bytes,
            Ceiling::DramCopy if !mostly_read => bytes,
            Ceiling::DramRead | Ceiling::DramCopy => 0,
            Ceiling::L2Read => self.l2_read,
            Ceiling::ImadWide => self.imad_wide,
            Ceiling::MmaInt8 => self.mma_int8,
            Ceiling::WgmmaInt8 => self.wgmma_int8,
            Ceiling::Clmad => self.clmad,
        }
    }
}

/// One shape of a variant, ready to launch.
pub struct Case {
    /// The shape, for instance `n=2^26`.
    pub shape: String,
    /// What one launch does.
    pub work: Work,
    /// Launches once; owns its buffers.
    pub launch: LaunchOnce,
}

/// Launches a case once on a stream.
pub type LaunchOnce = Box<dyn FnMut(&Stream) -> Result<(), LaunchError>>;

impl Case {
    /// A case of its three parts.
    pub fn new(
        shape: impl Into<String>,
        work: Work,
        launch: impl FnMut(&Stream) -> Result<(), LaunchError> + 'static,
    ) -> Self {
        Self {
            shape: shape.into(),
            work,
            launch: Box::new(launch),
        }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case")
            .field("shape", &self.shape)
            .field("work", &self.work)
            .finish_non_exhaustive()
    }
}

/// Which shapes of a kernel are worth timing.
pub trait Bench: Sync {
    /// The kernel that this times.
    fn kernel(&self) -> &'static Kernel;

    /// The cases of `variant` on `backend`.
    ///
    /// On a GPU: random inputs, and a working set larger than [`Backend::l2_bytes`] (four times
    /// is good). On the emulator a launch should take about ten milliseconds.
    ///
    /// # Errors
    ///
    /// Whatever keeps the inputs from being made.
    fn cases(
        &self,
        backend: &Backend,
        variant: &'static VariantInfo,
        seed: u64,
    ) -> Result<Vec<Case>, CheckError>;
}

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
struct Sample {
    median_ns: f64,
    spread: f64,
    runs: usize,
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
    fn new(stream: &'a Stream) -> Result<Self, CheckError> {
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
    ) -> Result<Duration, CheckError> {
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

fn sample(stream: &Stream, case: &mut Case) -> Result<Sample, CheckError> {
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
        .collect::<Result<Vec<_>, CheckError>>()?;
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
    bench: &dyn Bench,
    seed: u64,
) -> Result<Option<Measured>, CheckError> {
    let stream = backend.stream()?;
    let mut best: Option<f64> = None;
    for variant in bench.kernel().variants {
        if backend.supports(variant).is_err() {
            continue;
        }
        for mut case in bench.cases(backend, variant, seed)? {
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
    bench: &dyn Bench,
    variant: &'static VariantInfo,
    ceilings: &std::collections::BTreeMap<&'static str, Measured>,
    seed: u64,
) -> Result<Vec<Timed>, CheckError> {
    let stream = backend.stream()?;
    let mut timed = Vec::new();
    for mut case in bench.cases(backend, variant, seed)? {
        let Sample {
            median_ns,
            spread,
            runs,
        } = sample(&stream, &mut case)?;
        let bound = floor(&case.work, ceilings);
        timed.push(Timed {
            variant: variant.name,
            kernel: bench.kernel().name,
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
