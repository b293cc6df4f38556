//! The `cpu` backend: the emulator of `simt`, on the machine's own memory.
//!
//! Launches run to their end before they return, so a stream has nothing to remember.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use simt::emulator::{self, Mode};
use simt::launch::{Launch, LaunchError, RawBuffer};

use super::device::Device;
use super::error::Error;
use super::{DeviceInfo, Kind, MemoryInfo, lock};

/// Bytes that checked mode may keep about a byte of memory, beside it: four stamps of 24 bytes for
/// each word that is touched, and some bits.
const SHADOW: u64 = 26;

/// Allocations below this are not held against the free memory: asking costs more.
const SMALL: u64 = 1 << 20;

/// An empty buffer still has an address of its own.
const MIN_BYTES: usize = 16;

/// Alignment of pinned memory: a cache line.
const ALIGNMENT: usize = 64;

/// The emulator behind the `cpu` backend.
pub(super) struct Cpu {
    mode: Mode,
    info: DeviceInfo,
}

impl Cpu {
    pub(super) fn new(mode: Mode) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            mode,
            info: DeviceInfo {
                kind: Kind::Cpu,
                name: cpu_name(),
                capability: None,
                driver: None,
                l2_bytes: last_level_cache(),
                multiprocessors: threads as u32,
                clock_khz: None,
                shared_bytes: 227 << 10,
            },
        }
    }

    /// Refuses what the machine has not got.
    fn admit(&self, bytes: usize) -> Result<(), Error> {
        let factor = match self.mode {
            Mode::Fast => 1,
            Mode::Checked { .. } => 1 + SHADOW,
        };
        let wanted = (bytes as u64).saturating_mul(factor);
        if wanted < SMALL {
            return Ok(());
        }
        match available() {
            Some(MemoryInfo { free, .. }) if wanted > free => Err(exhausted(wanted, free)),
            _ => Ok(()),
        }
    }
}

fn exhausted(wanted: u64, free: u64) -> Error {
    Error::OutOfMemory {
        place: "this machine".into(),
        wanted,
        free,
    }
}

/// Copies go through the emulator's own bookkeeping and are cut where the memory ends; the
/// callers have checked that it does not.
impl Device for Cpu {
    type Memory = emulator::Memory;
    type Stream = Stream;
    type Event = Event;
    type Graph = Graph;
    type Pinned = Pinned;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo, Error> {
        Ok(available().unwrap_or(MemoryInfo { free: 0, total: 0 }))
    }

    fn allocate(&self, bytes: usize, zeroed: bool) -> Result<emulator::Memory, Error> {
        self.admit(bytes)?;
        let size = bytes.max(MIN_BYTES);
        let memory = if zeroed {
            emulator::Memory::zeroed(size, self.mode)
        } else {
            emulator::Memory::uninit(size, self.mode)
        };
        memory.map_err(|_| exhausted(size as u64, 0))
    }

    fn raw(&self, memory: &emulator::Memory, backend: u64) -> RawBuffer {
        memory.raw(backend)
    }

    fn pin(&self, bytes: usize) -> Result<Pinned, Error> {
        self.admit(bytes)?;
        Pinned::new(bytes).ok_or_else(|| exhausted(bytes as u64, 0))
    }

    fn stream(&self) -> Result<Stream, Error> {
        Ok(Stream)
    }

    fn event(&self) -> Result<Event, Error> {
        Ok(Event(Mutex::new(None)))
    }

    fn idle(&self) -> Result<(), Error> {
        Ok(())
    }

    fn synchronize(&self, _: &Stream) -> Result<(), Error> {
        Ok(())
    }

    fn upload(
        &self,
        _: &Stream,
        (memory, offset): (&emulator::Memory, usize),
        data: &[u8],
    ) -> Result<(), Error> {
        memory.copy_in(offset, data);
        Ok(())
    }

    fn download(
        &self,
        _: &Stream,
        (memory, offset): (&emulator::Memory, usize),
        data: &mut [u8],
    ) -> Result<(), Error> {
        memory.copy_out(offset, data);
        Ok(())
    }

    fn copy(
        &self,
        _: &Stream,
        target: (&emulator::Memory, usize),
        source: (&emulator::Memory, usize),
        bytes: usize,
    ) -> Result<(), Error> {
        let mut piece = vec![0; bytes.min(1 << 20)];
        let mut done = 0;
        while done < bytes {
            let part = piece.len().min(bytes - done);
            source.0.copy_out(source.1 + done, &mut piece[..part]);
            target.0.copy_in(target.1 + done, &piece[..part]);
            done += part;
        }
        Ok(())
    }

    fn zero(
        &self,
        _: &Stream,
        (memory, offset): (&emulator::Memory, usize),
        bytes: usize,
    ) -> Result<(), Error> {
        let zeroes = vec![0; bytes.min(1 << 20)];
        let mut done = 0;
        while done < bytes {
            let part = zeroes.len().min(bytes - done);
            memory.copy_in(offset + done, &zeroes[..part]);
            done += part;
        }
        Ok(())
    }

    fn launch(&self, _: &Stream, launch: &Launch<'_>) -> Result<(), LaunchError> {
        emulator::run(launch, self.mode)
    }

    fn record(&self, _: &Stream, event: &Event) -> Result<(), Error> {
        *lock(&event.0) = Some(Instant::now());
        Ok(())
    }

    fn wait(&self, _: &Stream, _: &Event) -> Result<(), Error> {
        Ok(())
    }

    fn synchronize_event(&self, _: &Event) -> Result<(), Error> {
        Ok(())
    }

    fn elapsed(&self, start: &Event, end: &Event) -> Result<Duration, Error> {
        let (Some(start), Some(end)) = (*lock(&start.0), *lock(&end.0)) else {
            return Err(Error::NotRecorded);
        };
        Ok(end.saturating_duration_since(start))
    }

    fn graph(&self, _: &[Launch<'_>]) -> Result<Graph, Error> {
        Ok(Graph)
    }
}

/// Work is done when it is handed in.
pub(super) struct Stream;

/// When the work before it was done.
pub(super) struct Event(Mutex<Option<Instant>>);

/// The launches are kept by [`super::Graph`] and run one after the other.
pub(super) struct Graph;

/// Plain memory, aligned to a cache line.
pub(super) struct Pinned {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: shared access only reads.
unsafe impl Sync for Pinned {}

impl Pinned {
    fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(MIN_BYTES), ALIGNMENT).ok()?;
        // SAFETY: the size is not 0.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { pointer, layout })
    }

    pub(super) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with the same layout, freed once.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) }
    }
}

/// Free and total memory: what the kernel says is available, less where a control group allows
/// less. `None` where neither can be read.
fn available() -> Option<MemoryInfo> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib << 10)
    };
    let machine = MemoryInfo {
        free: field("MemAvailable:")?,
        total: field("MemTotal:")?,
    };
    let number = |path: &str| -> Option<u64> {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse().ok()
    };
    let group = || {
        // Version 2, then version 1; "max" or an absurd number means no limit.
        let limit = number("/sys/fs/cgroup/memory.max")
            .or_else(|| number("/sys/fs/cgroup/memory/memory.limit_in_bytes"))?;
        let used = number("/sys/fs/cgroup/memory.current")
            .or_else(|| number("/sys/fs/cgroup/memory/memory.usage_in_bytes"))?;
        // The page cache counts as used, but gives way.
        let cache = [
            "/sys/fs/cgroup/memory.stat",
            "/sys/fs/cgroup/memory/memory.stat",
        ]
        .iter()
        .find_map(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            let line = text
                .lines()
                .find(|line| line.starts_with("inactive_file "))?;
            line.split_whitespace().nth(1)?.parse().ok()
        })
        .unwrap_or(0);
        let used = used.saturating_sub(cache);
        (limit < machine.total).then(|| MemoryInfo {
            free: limit.saturating_sub(used),
            total: limit,
        })
    };
    Some(group().map_or(machine, |group| MemoryInfo {
        free: group.free.min(machine.free),
        total: group.total,
    }))
}

fn cpu_name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| format!("{} CPU", std::env::consts::ARCH))
}

/// Bytes of the last-level cache; 0 when it is not known.
fn last_level_cache() -> u64 {
    (0..8)
        .rev()
        .find_map(|index| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            let text = std::fs::read_to_string(path).ok()?;
            let text = text.trim();
            let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
            let shift = match unit {
                "K" => 10,
                "M" => 20,
                _ => return None,
            };
            Some(digits.parse::<u64>().ok()? << shift)
        })
        .unwrap_or(0)
}
