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
mod device;
mod either;
mod error;
mod graph;
mod info;
mod inner;
mod memory;
mod stream;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use codegen::arch::Capability;
use codegen::image::Image;
pub use simt::emulator::Mode;
use simt::launch::{Launch, LaunchError, Queue, VariantInfo};

use crate::image;
use device::Device;
use either::{AnyDevice, AnyStream, Either, on};
pub use error::Error;
pub use graph::{Graph, Recorder};
pub use info::{Bytes, CudaVersion, DeviceInfo, Kind, MIN_CUDA, MIN_DRIVER_RELEASE, MemoryInfo};
use inner::Inner;
pub use memory::{Buffer, Pinned, View, ViewMut};
pub use stream::{Event, Stream};

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

/// Locks; a panic elsewhere while the lock was held leaves nothing half-done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle to a backend; clones are the same backend.
#[derive(Clone)]
pub struct Backend(Arc<Inner>);

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backend").field(self.info()).finish()
    }
}

/// What the machine's GPU is, whether or not this binary has code for it.
///
/// # Errors
///
/// No driver, a driver too old, no GPU, a GPU too old.
pub fn probe_gpu() -> Result<(DeviceInfo, MemoryInfo), Error> {
    let device = cuda::open(image::embedded()?)?;
    Ok((device.info().clone(), device.memory()?))
}

impl Backend {
    /// Opens the backend of `choice`.
    ///
    /// `Auto` takes the GPU when there is one and this binary holds code for it;
    /// [`passed_over`](Self::passed_over) says why it was not taken.
    ///
    /// # Errors
    ///
    /// With `Cuda`: no driver, a driver too old, no GPU, a GPU too old, no code for it in this
    /// binary. The others do not fail.
    pub fn open(choice: Choice) -> Result<Self, Error> {
        match choice {
            Choice::Cpu => Ok(Self::cpu(Mode::Fast)),
            Choice::Cuda => Self::cuda(image::embedded()?),
            Choice::Auto => Ok(
                match image::embedded().map_err(Error::from).and_then(Self::cuda) {
                    Ok(backend) => backend,
                    Err(error) => Self::with_cpu(Mode::Fast, Some(error)),
                },
            ),
        }
    }

    /// The emulator in a mode of its own.
    pub fn cpu(mode: Mode) -> Self {
        Self::with_cpu(mode, None)
    }

    fn with_cpu(mode: Mode, passed_over: Option<Error>) -> Self {
        Self::new(
            Either::Cpu(cpu::Cpu::new(mode)),
            Either::Cpu(cpu::Stream),
            passed_over,
        )
    }

    fn cuda(image: &'static Image) -> Result<Self, Error> {
        let device = cuda::open(image)?;
        device.has_code()?;
        let lane = device.stream()?;
        Ok(Self::new(Either::Cuda(device), Either::Cuda(lane), None))
    }

    fn new(device: AnyDevice, lane: AnyStream, passed_over: Option<Error>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device,
            lane,
            live: Mutex::new(BTreeMap::new()),
            passed_over,
        }))
    }

    /// Which of the two it is.
    pub fn kind(&self) -> Kind {
        self.info().kind
    }

    /// What it runs on.
    pub fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    /// The name of the GPU or CPU.
    pub fn name(&self) -> &str {
        &self.info().name
    }

    /// Bytes of the GPU's L2, or of the CPU's last-level cache; 0 when not known.
    pub fn l2_bytes(&self) -> u64 {
        self.info().l2_bytes
    }

    /// Why `Auto` did not take a GPU.
    pub fn passed_over(&self) -> Option<&Error> {
        self.0.passed_over.as_ref()
    }

    /// Free and total memory.
    ///
    /// # Errors
    ///
    /// A call to the driver failed.
    pub fn memory(&self) -> Result<MemoryInfo, Error> {
        on!("memory": device = &self.0.device; device.memory())
    }

    /// Whether the device of this backend can run a variant; the error says why not.
    ///
    /// # Errors
    ///
    /// One sentence: the architecture is too old, or not the one that the variant is for.
    pub fn supports(&self, variant: &VariantInfo) -> Result<(), String> {
        let Some(capability) = self.info().capability else {
            return Ok(());
        };
        let number = capability.major * 10 + capability.minor;
        match variant.arch_feature {
            Some(only) if self.info().arch().as_deref() != Some(only) => Err(format!(
                "it is for {only} alone and this GPU is sm_{number}"
            )),
            _ if number < variant.min_arch => Err(format!(
                "it needs sm_{} and this GPU is sm_{number}",
                variant.min_arch
            )),
            _ => Ok(()),
        }
    }

    /// Waits for all work of all streams.
    ///
    /// # Errors
    ///
    /// A call to the driver failed: faults of earlier launches on a GPU show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        on!("synchronize": device = &self.0.device; device.idle())
    }
}

impl Queue for Backend {
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        self.0.launch(&self.0.lane, launch)
    }
}

#[cfg(test)]
mod tests;
