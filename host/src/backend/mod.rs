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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

pub use codegen::arch::Capability;
use codegen::image::Image;
use simt::Element;
pub use simt::emulator::Mode;
use simt::launch::{
    DeviceMut, DeviceRef, Launch, LaunchError, Queue, RawArg, RawBuffer, VariantInfo,
};

use crate::image;
pub use error::Error;
pub use graph::{Graph, Recorder};

/// The oldest CUDA version whose driver loads the cubins of ptxas 13 and has every symbol used.
pub const MIN_CUDA: CudaVersion = CudaVersion {
    major: 13,
    minor: 0,
};

/// The driver release that brought [`MIN_CUDA`].
pub const MIN_DRIVER_RELEASE: u32 = 580;

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
}

/// One of a pair of handles, by backend.
enum Either<A, B> {
    Cpu(A),
    Cuda(B),
}

type AnyDevice = Either<cpu::Cpu, cuda::Cuda>;
type AnyMemory = Either<<cpu::Cpu as Device>::Memory, <cuda::Cuda as Device>::Memory>;
type AnyStream = Either<<cpu::Cpu as Device>::Stream, <cuda::Cuda as Device>::Stream>;
type AnyEvent = Either<<cpu::Cpu as Device>::Event, <cuda::Cuda as Device>::Event>;
type AnyGraph = Either<<cpu::Cpu as Device>::Graph, <cuda::Cuda as Device>::Graph>;
type AnyPinned = Either<<cpu::Cpu as Device>::Pinned, <cuda::Cuda as Device>::Pinned>;

/// Runs `$body` with the handles of whichever backend all of them belong to.
macro_rules! on {
    ($call:literal: $device:ident = $from:expr $(, $name:ident = $handle:expr)*; $body:expr) => {
        match ($from, $($handle,)*) {
            (Either::Cpu($device), $(Either::Cpu($name),)*) => $body,
            (Either::Cuda($device), $(Either::Cuda($name),)*) => $body,
            #[allow(unreachable_patterns)]
            _ => Err(Error::OtherBackend { call: $call, what: "object" }.into()),
        }
    };
}

/// Locks; a panic elsewhere while the lock was held leaves nothing half-done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The release of the NVIDIA driver, where it can be read, and the CUDA version that it knows.
fn driver_text(version: CudaVersion) -> String {
    let release = std::fs::read_to_string("/proc/driver/nvidia/version")
        .ok()
        .and_then(|text| {
            // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release ..."
            let release = text.lines().next()?.split_whitespace().find(|word| {
                word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.')
            })?;
            Some(release.to_owned())
        });
    match release {
        Some(release) => format!("{release}, CUDA {version}"),
        None => format!("CUDA {version}"),
    }
}

struct Inner {
    id: u64,
    device: AnyDevice,
    /// The backend's own queue.
    lane: AnyStream,
    /// Live allocations by address.
    live: Mutex<BTreeMap<u64, Weak<Allocation>>>,
    /// Why the GPU was not taken, where it was looked for.
    passed_over: Option<Error>,
}

/// Memory and who owns it.
struct Allocation {
    memory: AnyMemory,
    backend: Arc<Inner>,
    address: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Before the memory itself goes, so that the address cannot be given out again first.
        lock(&self.backend.live).remove(&self.address);
    }
}

impl Allocation {
    fn raw(&self) -> RawBuffer {
        self.backend.raw(&self.memory)
    }
}

impl Inner {
    fn info(&self) -> &DeviceInfo {
        match &self.device {
            Either::Cpu(device) => device.info(),
            Either::Cuda(device) => device.info(),
        }
    }

    fn raw(&self, memory: &AnyMemory) -> RawBuffer {
        match (&self.device, memory) {
            (Either::Cpu(device), Either::Cpu(memory)) => device.raw(memory, self.id),
            (Either::Cuda(device), Either::Cuda(memory)) => device.raw(memory, self.id),
            // An allocation keeps the backend that made it.
            _ => unreachable!("memory of another backend"),
        }
    }

    /// The allocation that holds all bytes of `buffer`, and the byte offset in it.
    fn locate(
        &self,
        call: &'static str,
        buffer: &RawBuffer,
    ) -> Result<(Arc<Allocation>, usize), Error> {
        let other = Error::OtherBackend {
            call,
            what: "buffer",
        };
        if buffer.device != self.id {
            return Err(other);
        }
        let found = lock(&self.live)
            .range(..=buffer.address)
            .next_back()
            .and_then(|(_, allocation)| allocation.upgrade());
        let Some(allocation) = found else {
            return Err(other);
        };
        let whole = allocation.raw();
        let offset = buffer.address - whole.address;
        let inside = offset
            .checked_add(buffer.bytes)
            .is_some_and(|end| end <= whole.bytes);
        if inside {
            Ok((allocation, offset as usize))
        } else {
            Err(other)
        }
    }

    /// Refuses a launch that does not fit its kernel. Returns the allocations that it uses.
    fn check(&self, launch: &Launch<'_>) -> Result<Vec<(Arc<Allocation>, usize)>, LaunchError> {
        let name = launch.variant.name;
        let refuse = |reason: String| {
            Err(LaunchError::Refused {
                kernel: name,
                reason,
            })
        };
        let kernel = launch.kernel;
        if !kernel
            .variants
            .iter()
            .any(|variant| std::ptr::eq(variant, launch.variant))
        {
            return refuse(format!("it is no variant of `{}`", kernel.name));
        }
        launch.validate()?;
        let mut used = Vec::new();
        for (parameter, argument) in kernel.params.iter().zip(launch.args) {
            if let RawArg::Buffer(buffer) = argument {
                match self.locate("launch", buffer) {
                    Ok(allocation) => used.push(allocation),
                    Err(_) => {
                        return refuse(format!(
                            "the buffer for `{}` is not of this backend",
                            parameter.name
                        ));
                    }
                }
            }
        }
        Ok(used)
    }

    fn launch(&self, lane: &AnyStream, launch: &Launch<'_>) -> Result<(), LaunchError> {
        // Keeps the memory until the launch is enqueued; freeing waits for what is enqueued.
        let _used = self.check(launch)?;
        match (&self.device, lane) {
            (Either::Cpu(device), Either::Cpu(lane)) => device.launch(lane, launch),
            (Either::Cuda(device), Either::Cuda(lane)) => device.launch(lane, launch),
            _ => Err(LaunchError::Refused {
                kernel: launch.variant.name,
                reason: "the stream belongs to another backend".into(),
            }),
        }
    }

    fn upload<T: Element>(
        &self,
        lane: &AnyStream,
        target: &RawBuffer,
        len: usize,
        data: &[T],
    ) -> Result<(), Error> {
        same_length("upload", len, data.len())?;
        let (allocation, offset) = self.locate("upload", target)?;
        if data.is_empty() {
            return Ok(());
        }
        on!("upload": device = &self.device, lane = lane, memory = &allocation.memory;
            device.upload(lane, (memory, offset), bytemuck::cast_slice(data)))
    }

    fn download<T: Element>(
        &self,
        lane: &AnyStream,
        source: &RawBuffer,
        len: usize,
        data: &mut [T],
    ) -> Result<(), Error> {
        same_length("download", len, data.len())?;
        let (allocation, offset) = self.locate("download", source)?;
        if data.is_empty() {
            return Ok(());
        }
        on!("download": device = &self.device, lane = lane, memory = &allocation.memory;
            device.download(lane, (memory, offset), bytemuck::cast_slice_mut(data)))
    }
}

fn same_length(call: &'static str, buffer: usize, slice: usize) -> Result<(), Error> {
    if buffer == slice {
        Ok(())
    } else {
        Err(Error::Length {
            call,
            buffer,
            slice,
        })
    }
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

    fn allocate<T: Element>(&self, len: usize, zeroed: bool) -> Result<Buffer<T>, Error> {
        let too_long = Error::TooLong {
            len,
            size: size_of::<T>(),
        };
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(too_long)?;
        let memory = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.allocate(bytes, zeroed)?),
            Either::Cuda(device) => Either::Cuda(device.allocate(bytes, zeroed)?),
        };
        let address = self.0.raw(&memory).address;
        let allocation = Arc::new(Allocation {
            memory,
            backend: Arc::clone(&self.0),
            address,
        });
        lock(&self.0.live).insert(address, Arc::downgrade(&allocation));
        Ok(Buffer {
            allocation,
            len,
            element: PhantomData,
        })
    }

    /// A buffer of `len` elements with no particular contents. In checked mode, reading an
    /// element that nobody wrote is a fault.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.allocate(len, false)
    }

    /// A buffer of `len` zeroes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.allocate(len, true)
    }

    /// A buffer holding `data`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.alloc(data.len())?;
        self.0
            .upload(&self.0.lane, &buffer.raw_mut(), data.len(), data)?;
        Ok(buffer)
    }

    /// Overwrites a buffer or view, after all work of all streams.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] when `data` is not as long, [`Error::OtherBackend`], or a call to the
    /// driver failed.
    pub fn write<T: Element>(
        &self,
        target: &mut impl DeviceMut<T>,
        data: &[T],
    ) -> Result<(), Error> {
        self.synchronize()?;
        let len = target.len();
        self.0.upload(&self.0.lane, &target.raw_mut(), len, data)
    }

    /// The contents of a buffer or view, after all work of all streams.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed: faults of earlier launches on a
    /// GPU show here.
    pub fn download<T: Element>(&self, source: &impl DeviceRef<T>) -> Result<Vec<T>, Error> {
        self.synchronize()?;
        let mut data = zeroed_vec(source.len());
        self.0
            .download(&self.0.lane, &source.raw(), source.len(), &mut data)?;
        Ok(data)
    }

    /// Waits for all work of all streams.
    ///
    /// # Errors
    ///
    /// A call to the driver failed: faults of earlier launches on a GPU show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        on!("synchronize": device = &self.0.device; device.idle())
    }

    /// A new stream, ordered against nothing else.
    ///
    /// # Errors
    ///
    /// A call to the driver failed.
    pub fn stream(&self) -> Result<Stream, Error> {
        let lane = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.stream()?),
            Either::Cuda(device) => Either::Cuda(device.stream()?),
        };
        Ok(Stream {
            backend: self.clone(),
            lane,
        })
    }

    /// A new event.
    ///
    /// # Errors
    ///
    /// A call to the driver failed.
    pub fn event(&self) -> Result<Event, Error> {
        let raw = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.event()?),
            Either::Cuda(device) => Either::Cuda(device.event()?),
        };
        Ok(Event {
            backend: self.clone(),
            raw,
            recorded: AtomicBool::new(false),
        })
    }

    /// `len` zeroes in host memory that a GPU copies from and to at full speed.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>, Error> {
        let too_long = Error::TooLong {
            len,
            size: size_of::<T>(),
        };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(too_long)?;
        let raw = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.pin(bytes)?),
            Either::Cuda(device) => Either::Cuda(device.pin(bytes)?),
        };
        Ok(Pinned {
            raw,
            len,
            element: PhantomData,
        })
    }
}

impl Queue for Backend {
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        self.0.launch(&self.0.lane, launch)
    }
}

fn zeroed_vec<T: Element>(len: usize) -> Vec<T> {
    bytemuck::zeroed_vec(len)
}

/// Typed memory of a backend, freed when it is dropped.
pub struct Buffer<T> {
    allocation: Arc<Allocation>,
    len: usize,
    element: PhantomData<T>,
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({})", std::any::type_name::<T>(), self.len)
    }
}

impl<T: Element> Buffer<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The elements of `range`, to read.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] when `range` is not inside the buffer.
    pub fn view(&self, range: Range<usize>) -> Result<View<'_, T>, Error> {
        in_range(&range, self.len)?;
        Ok(View {
            buffer: self,
            range,
        })
    }

    /// The elements of `range`, to write.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] when `range` is not inside the buffer.
    pub fn view_mut(&mut self, range: Range<usize>) -> Result<ViewMut<'_, T>, Error> {
        in_range(&range, self.len)?;
        Ok(ViewMut {
            buffer: self,
            range,
        })
    }

    fn part(&self, range: &Range<usize>) -> RawBuffer {
        let mut raw = self.allocation.raw();
        raw.address += (range.start * size_of::<T>()) as u64;
        raw.bytes = (range.len() * size_of::<T>()) as u64;
        raw
    }
}

fn in_range(range: &Range<usize>, len: usize) -> Result<(), Error> {
    if range.start <= range.end && range.end <= len {
        Ok(())
    } else {
        Err(Error::Range {
            start: range.start,
            end: range.end,
            len,
        })
    }
}

impl<T: Element> DeviceRef<T> for Buffer<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn raw(&self) -> RawBuffer {
        self.part(&(0..self.len))
    }
}

impl<T: Element> DeviceMut<T> for Buffer<T> {
    fn raw_mut(&mut self) -> RawBuffer {
        self.part(&(0..self.len))
    }
}

/// A part of a [`Buffer`], to read.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    buffer: &'a Buffer<T>,
    range: Range<usize>,
}

impl<T: Element> DeviceRef<T> for View<'_, T> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn raw(&self) -> RawBuffer {
        self.buffer.part(&self.range)
    }
}

/// A part of a [`Buffer`], to write.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    buffer: &'a mut Buffer<T>,
    range: Range<usize>,
}

impl<T: Element> DeviceRef<T> for ViewMut<'_, T> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn raw(&self) -> RawBuffer {
        self.buffer.part(&self.range)
    }
}

impl<T: Element> DeviceMut<T> for ViewMut<'_, T> {
    fn raw_mut(&mut self) -> RawBuffer {
        self.buffer.part(&self.range)
    }
}

/// An ordered queue of work. Work of different streams is not ordered, unless by an [`Event`].
///
/// On the `cpu` backend work is done when the call returns.
pub struct Stream {
    backend: Backend,
    lane: AnyStream,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.backend.kind())
    }
}

impl Stream {
    /// The backend that it belongs to.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    fn inner(&self) -> &Inner {
        &self.backend.0
    }

    /// Waits for all work of this stream.
    ///
    /// # Errors
    ///
    /// A call to the driver failed: faults of earlier launches on a GPU show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        on!("synchronize": device = &self.inner().device, lane = &self.lane;
            device.synchronize(lane))
    }

    /// Overwrites a buffer or view, after the earlier work of this stream; returns when it is
    /// done.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn upload<T: Element>(
        &self,
        target: &mut impl DeviceMut<T>,
        data: &[T],
    ) -> Result<(), Error> {
        let len = target.len();
        self.inner()
            .upload(&self.lane, &target.raw_mut(), len, data)
    }

    /// The contents of a buffer or view after the earlier work of this stream.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn download<T: Element>(&self, source: &impl DeviceRef<T>) -> Result<Vec<T>, Error> {
        let mut data = zeroed_vec(source.len());
        self.download_into(source, &mut data)?;
        Ok(data)
    }

    /// As [`download`](Self::download), into a slice of the same length.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn download_into<T: Element>(
        &self,
        source: &impl DeviceRef<T>,
        data: &mut [T],
    ) -> Result<(), Error> {
        self.inner()
            .download(&self.lane, &source.raw(), source.len(), data)
    }

    /// Enqueues a copy between two buffers or views of the same length.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn copy<T: Element>(
        &self,
        target: &mut impl DeviceMut<T>,
        source: &impl DeviceRef<T>,
    ) -> Result<(), Error> {
        same_length("copy", target.len(), source.len())?;
        let bytes = source.len() * size_of::<T>();
        let (to, to_offset) = self.inner().locate("copy", &target.raw_mut())?;
        let (from, from_offset) = self.inner().locate("copy", &source.raw())?;
        if bytes == 0 {
            return Ok(());
        }
        on!("copy": device = &self.inner().device, lane = &self.lane, to = &to.memory, from = &from.memory;
            device.copy(lane, (to, to_offset), (from, from_offset), bytes))
    }

    /// Enqueues a fill with zero bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn zero<T: Element>(&self, target: &mut impl DeviceMut<T>) -> Result<(), Error> {
        let bytes = target.len() * size_of::<T>();
        let (to, offset) = self.inner().locate("zero", &target.raw_mut())?;
        if bytes == 0 {
            return Ok(());
        }
        on!("zero": device = &self.inner().device, lane = &self.lane, to = &to.memory;
            device.zero(lane, (to, offset), bytes))
    }

    /// Records `event` after the earlier work of this stream.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        self.owns("record", "event", &event.backend)?;
        on!("record": device = &self.inner().device, lane = &self.lane, event = &event.raw;
            device.record(lane, event))?;
        event.recorded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the later work of this stream wait for `event`.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        self.owns("wait", "event", &event.backend)?;
        on!("wait": device = &self.inner().device, lane = &self.lane, event = &event.raw;
            device.wait(lane, event))
    }

    fn owns(&self, call: &'static str, what: &'static str, backend: &Backend) -> Result<(), Error> {
        if Arc::ptr_eq(&self.backend.0, &backend.0) {
            Ok(())
        } else {
            Err(Error::OtherBackend { call, what })
        }
    }
}

impl Queue for Stream {
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        self.inner().launch(&self.lane, launch)
    }
}

/// A point in a stream, and when it was reached.
pub struct Event {
    backend: Backend,
    raw: AnyEvent,
    /// Whether a stream was ever given it: a driver asked about one that was not reports an error
    /// of ours as its own.
    recorded: AtomicBool,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.backend.kind())
    }
}

impl Event {
    /// Waits until the event is reached.
    ///
    /// # Errors
    ///
    /// A call to the driver failed: faults of earlier launches on a GPU show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        on!("synchronize": device = &self.backend.0.device, event = &self.raw;
            device.synchronize_event(event))
    }

    /// Time from `start` to this event, on the device's clock. Waits for both.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration, Error> {
        if !Arc::ptr_eq(&self.backend.0, &start.backend.0) {
            return Err(Error::OtherBackend {
                call: "elapsed_since",
                what: "event",
            });
        }
        if ![start, self]
            .iter()
            .all(|event| event.recorded.load(Ordering::Relaxed))
        {
            return Err(Error::NotRecorded);
        }
        start.synchronize()?;
        self.synchronize()?;
        on!("elapsed_since": device = &self.backend.0.device, from = &start.raw, to = &self.raw;
            device.elapsed(from, to))
    }
}

/// Host memory that a GPU copies from and to at full speed; plain memory on the `cpu` backend.
pub struct Pinned<T> {
    raw: AnyPinned,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned<{}>({})", std::any::type_name::<T>(), self.len)
    }
}

impl<T: Element> Pinned<T> {
    fn pointer(&self) -> *mut T {
        match &self.raw {
            Either::Cpu(raw) => raw.pointer(),
            Either::Cuda(raw) => raw.pointer(),
        }
        .as_ptr()
        .cast()
    }
}

impl<T: Element> std::ops::Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `pinned` allocated at least `len` elements, zeroed them (every bit pattern is
        // an element) and aligned them to 64 bytes or more; they live as long as `raw`.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }
}

impl<T: Element> std::ops::DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len) }
    }
}

#[cfg(test)]
mod tests;
