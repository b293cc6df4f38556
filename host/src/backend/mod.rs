//! Where kernels run: one handle, two implementations.
//!
//! - `cpu`, the emulator of `simt`: always there.
//! - `cuda`, an NVIDIA GPU through the CUDA driver, loaded at run time.
//!
//! [`Backend`] allocates typed [`Buffer`]s and opens [`Stream`]s; kernels are launched through
//! either, since both are a [`Queue`]. Every launch is checked before it starts: the arguments
//! against the parameters of the kernel, each buffer against the live allocations of this
//! backend, the grid against the limits. So a launch built by hand can be refused, but not
//! reach memory that it should not.
//!
//! ```no_run
//! use gristmill::backend::{Backend, Choice};
//!
//! # fn main() -> Result<(), gristmill::backend::Error> {
//! let backend = Backend::open(Choice::Auto)?;
//! let a = backend.upload(&[1u32, 2, 3])?;
//! assert_eq!(backend.download(&a)?, [1, 2, 3]);
//! # Ok(())
//! # }
//! ```

mod cpu;
mod cuda;
mod error;
mod graph;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

pub use codegen::arch::Capability;
pub use simt::emulator::Mode;
use simt::Element;
use simt::launch::{
    DeviceMut, DeviceRef, Launch, LaunchError, ParamKind, Queue, RawArg, RawBuffer, VariantInfo,
};

pub use error::Error;
pub use graph::{Graph, Recorder};

/// The oldest CUDA version whose driver loads the cubins of ptxas 13 and has every symbol used.
pub const MIN_CUDA: CudaVersion = CudaVersion {
    major: 13,
    minor: 0,
};

/// The driver release that brought [`MIN_CUDA`].
pub const MIN_DRIVER_RELEASE: u32 = 580;

/// Blocks of a grid along y and z at most (x: 2^31 - 1).
const MAX_GRID_YZ: u32 = 65_535;

/// A version of CUDA, as a driver reports the newest that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A number of bytes, shown in the largest binary unit that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        let unit = (self.0.max(1).ilog2() / 10).min(4) as usize;
        if unit == 0 {
            write!(f, "{} bytes", self.0)
        } else {
            let value = self.0 as f64 / (1u64 << (10 * unit)) as f64;
            write!(f, "{value:.1} {}", UNITS[unit])
        }
    }
}

/// Which backend to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The GPU when there is one that this binary has code for, the CPU otherwise.
    #[default]
    Auto,
    /// The emulator.
    Cpu,
    /// The GPU, or an error.
    Cuda,
}

/// The two backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The emulator.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

/// What a backend runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Which backend.
    pub kind: Kind,
    /// The name of the GPU or CPU.
    pub name: String,
    /// Compute capability of a GPU.
    pub capability: Option<Capability>,
    /// Release of the NVIDIA driver and the CUDA version that it knows.
    pub driver: Option<String>,
    /// Bytes of the L2 of a GPU, of the last-level cache of a CPU; 0 when it is not known.
    pub l2_bytes: u64,
    /// Streaming multiprocessors of a GPU, hardware threads of a CPU.
    pub multiprocessors: u32,
    /// Top clock in kHz, where it is known.
    pub clock_khz: Option<u32>,
    /// Shared memory that one block may have, in bytes.
    pub shared_bytes: u32,
}

impl DeviceInfo {
    /// The architecture to build device code for, as `GRISTMILL_ARCH` takes it.
    pub fn arch(&self) -> Option<String> {
        self.capability.map(|capability| {
            codegen::arch::Arch::ALL
                .iter()
                .rev()
                .find(|arch| arch.cubin_runs_on(capability))
                .map_or_else(
                    || format!("sm_{}{}", capability.major, capability.minor),
                    ToString::to_string,
                )
        })
    }
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that can still be had.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What a backend implementation has; [`Backend`] is the typed and checked face of it.
///
/// Offsets and lengths that reach these methods are already checked.
trait Device {
    type Memory;
    type Stream;
    type Event;
    type Graph;
    type Pinned;

    fn info(&self) -> &DeviceInfo;
    fn memory(&self) -> Result<MemoryInfo, Error>;
    fn allocate(&self, bytes: usize, zeroed: bool) -> Result<Self::Memory, Error>;
    fn raw(&self, memory: &Self::Memory, backend: u64) -> RawBuffer;
    fn pin(&self, bytes: usize) -> Result<Self::Pinned, Error>;
    fn stream(&self) -> Result<Self::Stream, Error>;
    fn event(&self) -> Result<Self::Event, Error>;
    /// Waits for all work of all streams.
    fn idle(&self) -> Result<(), Error>;

    fn synchronize(&self, stream: &Self::Stream) -> Result<(), Error>;
    fn upload(
        &self,
        stream: &Self::Stream,
        target: (&Self::Memory, usize),
        data: &[u8],
    ) -> Result<(), Error>;
    fn download(
        &self,
        stream: &Self::Stream,
        source: (&Self::Memory, usize),
        data: &mut [u8],
    ) -> Result<(), Error>;
    fn copy(
        &self,
        stream: &Self::Stream,
        target: (&Self::Memory, usize),
        source: (&Self::Memory, usize),
        bytes: usize,
    ) -> Result<(), Error>;
    fn zero(
        &self,
        stream: &Self::Stream,
        target: (&Self::Memory, usize),
        bytes: usize,
    ) -> Result<(), Error>;
    fn launch(&self, stream: &Self::Stream, launch: &Launch<'_>) -> Result<(), LaunchError>;
    fn record(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), Error>;
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), Error>;
    fn synchronize_event(&self, event: &Self::Event) -> Result<(), Error>;
    fn elapsed(&self, start: &Self::Event, end: &Self::Event) -> Result<Duration, Error>;

    /// Makes one object of `launches`, in order.
    fn graph(&self, launches: &[Launch<'_>]) -> Result<Self::Graph, Error>;
    fn launch_graph(&self, stream: &Self::Stream, graph: &Self::Graph) -> Result<(), LaunchError>;
}
