//! The `cuda` backend: the CUDA driver API, loaded at run time through cudarc.
//!
//! Works on cudarc's `result` and `sys` floors, because the launches here are by descriptor
//! and the buffers are owned by [`super::Buffer`]. Three habits keep the rest simple:
//!
//! - Every entry binds the context to the calling thread first, so handles may move between
//!   threads.
//! - Copies between host and device return when they are done; only launches, device-side
//!   fills and event records are asynchronous.
//! - Memory is freed after the whole context is idle, so a buffer may be dropped while a
//!   launch still uses it.
//!
//! cudarc panics when `libcuda` or one of its symbols is absent: [`open`] looks for both
//! before it makes the first call.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use codegen::image::{Image, Match};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use simt::launch::{Grid, Launch, LaunchError, RawArg, RawBuffer, VariantInfo};

use super::device::Device;
use super::error::Error;
use super::info::driver_text;
use super::{Capability, CudaVersion, DeviceInfo, Kind, MIN_CUDA, MemoryInfo, lock};

/// Every driver symbol that this file reaches through cudarc.
const SYMBOLS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Shared bytes that a block may have without asking for more.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// An empty buffer still has an address of its own.
const MIN_BYTES: usize = 256;

/// The primary context of one GPU, and the modules loaded into it.
struct Context {
    device: sys::CUdevice,
    raw: sys::CUcontext,
    modules: Mutex<Vec<Module>>,
    last_launch: Mutex<Option<&'static str>>,
}

/// Held while a stream is captured and while a context is synchronised. It is the process's: two
/// backends on one GPU share its primary context, and that may not be synchronised during a
/// capture.
static CAPTURE: Mutex<()> = Mutex::new(());

struct Module(sys::CUmodule);

// SAFETY: driver handles are process-wide; the driver API may be called from any thread that
// has bound the context, which every method here does first.
unsafe impl Send for Context {}
// SAFETY: as above; the driver takes its own locks.
unsafe impl Sync for Context {}

impl Context {
    fn bind(&self) -> Result<(), Error> {
        // SAFETY: `raw` was retained by `open` and is released only when `self` is dropped.
        let bound = unsafe { result::ctx::set_current(self.raw) };
        self.check("cuCtxSetCurrent", bound)
    }

    /// Names the call, and the launch that an asynchronous error may come from.
    fn check<T>(&self, call: &'static str, result: Result<T, DriverError>) -> Result<T, Error> {
        result.map_err(|error| Error::Cuda {
            call,
            kernel: *lock(&self.last_launch),
            message: message(error),
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        for Module(module) in lock(&self.modules).drain(..) {
            // SAFETY: the module was loaded into this context and is unloaded once; streams,
            // graphs and memory keep the context alive, so nothing of them is left.
            ignore("cuModuleUnload", unsafe { result::module::unload(module) });
        }
        // SAFETY: `device` came from `cuDeviceGet` and the context was retained once.
        ignore("cuDevicePrimaryCtxRelease", unsafe {
            result::primary_ctx::release(self.device)
        });
    }
}

/// A destructor cannot report; the log can.
fn ignore(call: &'static str, result: Result<(), DriverError>) {
    if let Err(error) = result {
        tracing::debug!(call, "{}", message(error));
    }
}

fn message(error: DriverError) -> String {
    let name = format!("{:?}", error.0);
    match error.error_string() {
        Ok(text) => format!("{name}, {}", text.to_string_lossy()),
        Err(_) => name,
    }
}

/// The GPU behind the `cuda` backend.
pub(super) struct Cuda {
    context: Arc<Context>,
    image: &'static Image,
    info: DeviceInfo,
    version: CudaVersion,
    /// Fills of new memory run here.
    fill: Stream,
    functions: Mutex<HashMap<&'static str, Function>>,
    clmad: Mutex<Clmad>,
}

/// What is known of the `clmad` of this GPU and driver.
enum Clmad {
    Untried,
    /// The known answer is being computed, by a variant that uses it.
    Trying,
    Right,
    Wrong(String),
}

#[derive(Clone, Copy)]
struct Function {
    raw: sys::CUfunction,
    clmad: bool,
}

// SAFETY: a function handle is valid in every thread while its module is loaded.
unsafe impl Send for Function {}

/// Opens the first GPU that the driver shows (CUDA_VISIBLE_DEVICES chooses), to run the kernels
/// of `image`.
pub(super) fn open(image: &'static Image) -> Result<Cuda, Error> {
    // SAFETY: loads `libcuda` and drops it again; the library may be loaded more than once.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoDriver);
    }
    require(&["cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"])?;
    let mut number = 0;
    // SAFETY: the pointer is valid for the call, which needs no context.
    let queried = unsafe { sys::cuDriverGetVersion(&raw mut number) }.result();
    queried.map_err(|error| refused("cuDriverGetVersion", error))?;
    let version = CudaVersion {
        major: u32::try_from(number / 1000).unwrap_or(0),
        minor: u32::try_from(number % 1000 / 10).unwrap_or(0),
    };
    if version < MIN_CUDA {
        return Err(Error::DriverTooOld {
            found: format!("knows CUDA {version}"),
        });
    }
    require(SYMBOLS)?;

    result::init().map_err(|error| refused("cuInit", error))?;
    let count = result::device::get_count().map_err(|error| refused("cuDeviceGetCount", error))?;
    if count == 0 {
        return Err(Error::NoGpu);
    }
    let device = result::device::get(0).map_err(|error| refused("cuDeviceGet", error))?;
    let name =
        result::device::get_name(device).map_err(|error| refused("cuDeviceGetName", error))?;
    let attribute = |which| {
        // SAFETY: `device` came from `cuDeviceGet`.
        unsafe { result::device::get_attribute(device, which) }
            .map(|value| u32::try_from(value).unwrap_or(0))
            .map_err(|error| refused("cuDeviceGetAttribute", error))
    };
    use sys::CUdevice_attribute as Attribute;
    let capability = Capability {
        major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    };
    if capability.major < 8 {
        return Err(Error::GpuTooOld {
            name,
            major: capability.major,
            minor: capability.minor,
        });
    }
    let info = DeviceInfo {
        kind: Kind::Cuda,
        name,
        capability: Some(capability),
        driver: Some(driver_text(version)),
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).ok(),
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    };

    // SAFETY: `device` came from `cuDeviceGet`; the context is released when it is dropped.
    let raw = unsafe { result::primary_ctx::retain(device) }.map_err(|error| {
        if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            Error::OutOfMemory {
                place: info.name.clone(),
                wanted: 512 << 20,
                free: 0,
            }
        } else {
            refused("cuDevicePrimaryCtxRetain", error)
        }
    })?;
    let context = Arc::new(Context {
        device,
        raw,
        modules: Mutex::new(Vec::new()),
        last_launch: Mutex::new(None),
    });
    let fill = Stream::new(&context)?;
    Ok(Cuda {
        context,
        image,
        info,
        version,
        fill,
        functions: Mutex::new(HashMap::new()),
        clmad: Mutex::new(Clmad::Untried),
    })
}

/// Fails where `libcuda`, which is present, lacks one of `symbols`.
fn require(symbols: &[&str]) -> Result<(), Error> {
    // SAFETY: `libcuda` is present, so this does not panic.
    let library = unsafe { sys::culib() };
    for &symbol in symbols {
        // SAFETY: the symbol is only looked up, never called through this type.
        if unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_err() {
            return Err(Error::DriverTooOld {
                found: format!("has no {symbol}"),
            });
        }
    }
    Ok(())
}

/// A driver that is there but does not start.
fn refused(call: &'static str, error: DriverError) -> Error {
    use sys::CUresult as Code;
    let advice = match error.0 {
        Code::CUDA_ERROR_NO_DEVICE => return Error::NoGpu,
        Code::CUDA_ERROR_STUB_LIBRARY => {
            "libcuda is the stub of a toolkit, put the driver's own first in LD_LIBRARY_PATH"
        }
        Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | Code::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "the kernel module and libcuda are of different releases, reboot or reinstall the driver"
        }
        _ => "check that `nvidia-smi` works, or use `--backend cpu`",
    };
    Error::DriverFailed {
        call,
        message: message(error),
        advice,
    }
}

impl Device for Cuda {
    type Memory = Memory;
    type Stream = Stream;
    type Event = Event;
    type Graph = Graph;
    type Pinned = Pinned;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo, Error> {
        self.context.bind()?;
        let (free, total) = self.context.check("cuMemGetInfo", result::mem_get_info())?;
        Ok(MemoryInfo {
            free: free as u64,
            total: total as u64,
        })
    }

    fn allocate(&self, bytes: usize, zeroed: bool) -> Result<Memory, Error> {
        let size = bytes.max(MIN_BYTES);
        let exhausted = |free| Error::OutOfMemory {
            place: self.info.name.clone(),
            wanted: size as u64,
            free,
        };
        let free = self.memory()?.free;
        if size as u64 > free {
            return Err(exhausted(free));
        }
        // SAFETY: the memory is untyped here; `Buffer` gives it a type whose every bit
        // pattern is a value.
        let address = match unsafe { result::malloc_sync(size) } {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                return Err(exhausted(free));
            }
            other => self.context.check("cuMemAlloc", other)?,
        };
        let memory = Memory {
            context: Arc::clone(&self.context),
            address,
            bytes,
        };
        if zeroed {
            // SAFETY: `size` bytes at `address` were just allocated.
            let filled = unsafe { result::memset_d8_async(address, 0, size, self.fill.raw) };
            self.context.check("cuMemsetD8Async", filled)?;
            self.synchronize(&self.fill)?;
        }
        Ok(memory)
    }

    fn raw(&self, memory: &Memory, backend: u64) -> RawBuffer {
        RawBuffer::on_gpu(memory.address, memory.bytes as u64, backend)
    }

    fn pin(&self, bytes: usize) -> Result<Pinned, Error> {
        self.context.bind()?;
        // Not write-combined: the host reads what it downloads.
        // SAFETY: the memory is zeroed below before anyone reads it.
        let pinned =
            unsafe { result::malloc_host(bytes.max(MIN_BYTES), sys::CU_MEMHOSTALLOC_PORTABLE) };
        let pointer = self.context.check("cuMemHostAlloc", pinned)?.cast::<u8>();
        let Some(pointer) = NonNull::new(pointer) else {
            return Err(Error::Cuda {
                call: "cuMemHostAlloc",
                kernel: None,
                message: "a null pointer".into(),
            });
        };
        // SAFETY: the driver gave at least `bytes` writable bytes at `pointer`.
        unsafe { pointer.write_bytes(0, bytes) };
        Ok(Pinned {
            context: Arc::clone(&self.context),
            pointer,
        })
    }

    fn stream(&self) -> Result<Stream, Error> {
        Stream::new(&self.context)
    }

    fn event(&self) -> Result<Event, Error> {
        self.context.bind()?;
        let raw = self.context.check(
            "cuEventCreate",
            result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT),
        )?;
        Ok(Event {
            context: Arc::clone(&self.context),
            raw,
        })
    }

    fn idle(&self) -> Result<(), Error> {
        let _no_capture = lock(&CAPTURE);
        self.context.bind()?;
        self.context
            .check("cuCtxSynchronize", result::ctx::synchronize())
    }

    fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        self.context.bind()?;
        // SAFETY: the stream is alive.
        let done = unsafe { result::stream::synchronize(stream.raw) };
        self.context.check("cuStreamSynchronize", done)
    }

    fn upload(
        &self,
        stream: &Stream,
        (memory, offset): (&Memory, usize),
        data: &[u8],
    ) -> Result<(), Error> {
        debug_assert!(offset + data.len() <= memory.bytes);
        self.context.bind()?;
        // SAFETY: the destination is inside a live allocation; `data` outlives the copy,
        // because the stream is synchronised before this returns.
        let started =
            unsafe { result::memcpy_htod_async(memory.address + offset as u64, data, stream.raw) };
        let done = self.synchronize(stream);
        self.context.check("cuMemcpyHtoDAsync", started)?;
        done
    }

    fn download(
        &self,
        stream: &Stream,
        (memory, offset): (&Memory, usize),
        data: &mut [u8],
    ) -> Result<(), Error> {
        debug_assert!(offset + data.len() <= memory.bytes);
        self.context.bind()?;
        // SAFETY: as in `upload`.
        let started =
            unsafe { result::memcpy_dtoh_async(data, memory.address + offset as u64, stream.raw) };
        let done = self.synchronize(stream);
        self.context.check("cuMemcpyDtoHAsync", started)?;
        done
    }

    fn copy(
        &self,
        stream: &Stream,
        target: (&Memory, usize),
        source: (&Memory, usize),
        bytes: usize,
    ) -> Result<(), Error> {
        self.context.bind()?;
        // SAFETY: both ranges are inside live allocations of this context; freeing one waits
        // for the copy.
        let started = unsafe {
            result::memcpy_dtod_async(
                target.0.address + target.1 as u64,
                source.0.address + source.1 as u64,
                bytes,
                stream.raw,
            )
        };
        self.context.check("cuMemcpyDtoDAsync", started)
    }

    fn zero(
        &self,
        stream: &Stream,
        (memory, offset): (&Memory, usize),
        bytes: usize,
    ) -> Result<(), Error> {
        self.context.bind()?;
        // SAFETY: the range is inside a live allocation of this context; freeing it waits for
        // the fill.
        let started = unsafe {
            result::memset_d8_async(memory.address + offset as u64, 0, bytes, stream.raw)
        };
        self.context.check("cuMemsetD8Async", started)
    }

    fn launch(&self, stream: &Stream, launch: &Launch<'_>) -> Result<(), LaunchError> {
        let function = self
            .function(launch.variant)
            .map_err(|error| refusal(launch, error))?;
        let name = launch.variant.name;
        let before = lock(&self.context.last_launch).replace(name);
        self.enqueue(function, stream, launch).map_err(|error| {
            let error = message(error);
            LaunchError::Device {
                kernel: name,
                call: "cuLaunchKernel",
                // What an earlier launch did shows here.
                message: before.map_or(error.clone(), |before| {
                    format!("{error} (the launch before it was `{before}`)")
                }),
            }
        })
    }

    fn record(&self, stream: &Stream, event: &Event) -> Result<(), Error> {
        self.context.bind()?;
        // SAFETY: stream and event are alive.
        let recorded = unsafe { result::event::record(event.raw, stream.raw) };
        self.context.check("cuEventRecord", recorded)
    }

    fn wait(&self, stream: &Stream, event: &Event) -> Result<(), Error> {
        self.context.bind()?;
        // SAFETY: stream and event are alive.
        let waiting = unsafe {
            result::stream::wait_event(
                stream.raw,
                event.raw,
                sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT,
            )
        };
        self.context.check("cuStreamWaitEvent", waiting)
    }

    fn synchronize_event(&self, event: &Event) -> Result<(), Error> {
        self.context.bind()?;
        // SAFETY: the event is alive.
        let done = unsafe { result::event::synchronize(event.raw) };
        self.context.check("cuEventSynchronize", done)
    }

    fn elapsed(&self, start: &Event, end: &Event) -> Result<Duration, Error> {
        self.context.bind()?;
        // SAFETY: both events are alive.
        let elapsed = unsafe { result::event::elapsed(start.raw, end.raw) };
        let milliseconds = self.context.check("cuEventElapsedTime", elapsed)?;
        Ok(Duration::from_secs_f64(
            f64::from(milliseconds.max(0.0)) / 1e3,
        ))
    }

    fn graph(&self, launches: &[Launch<'_>]) -> Result<Graph, Error> {
        // Modules are loaded before the capture starts, never during it.
        let functions = launches
            .iter()
            .map(|launch| self.function(launch.variant))
            .collect::<Result<Vec<_>, _>>()?;
        let stream = self.stream()?;

        let (captured, ended) = {
            let _no_synchronisation = lock(&CAPTURE);
            self.context.bind()?;
            // SAFETY: the stream is new and used by nobody else.
            let begun = unsafe {
                result::stream::begin_capture(
                    stream.raw,
                    sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                )
            };
            self.context.check("cuStreamBeginCapture", begun)?;
            let captured = launches
                .iter()
                .zip(functions)
                .try_for_each(|(launch, function)| self.capture(function, &stream, launch));
            // SAFETY: the capture was begun above on this stream; it is ended whether or not
            // the launches succeeded.
            (captured, unsafe { result::stream::end_capture(stream.raw) })
        };
        let graph = match (captured, self.context.check("cuStreamEndCapture", ended)) {
            (Ok(()), graph) => CapturedGraph(graph?),
            (Err(error), graph) => {
                drop(graph.map(CapturedGraph));
                return Err(error.into());
            }
        };
        // SAFETY: `graph` is the graph of the capture just ended.
        let instance =
            unsafe { result::graph::instantiate(graph.0, sys::CUgraphInstantiate_flags(0)) };
        Ok(Graph {
            raw: self.context.check("cuGraphInstantiate", instance)?,
            context: Arc::clone(&self.context),
            last: launches.last().map(|launch| launch.variant.name),
        })
    }
}

/// A graph before it is instantiated.
struct CapturedGraph(sys::CUgraph);

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        // SAFETY: the graph of a capture, destroyed once; an instance does not need it.
        ignore("cuGraphDestroy", unsafe { result::graph::destroy(self.0) });
    }
}

impl Cuda {
    /// The architecture of the GPU as `GRISTMILL_ARCH` takes it.
    fn arch(&self) -> String {
        self.info.arch().unwrap_or_default()
    }

    pub(super) fn launch_graph(&self, stream: &Stream, graph: &Graph) -> Result<(), Error> {
        self.context.bind()?;
        if graph.last.is_some() {
            *lock(&self.context.last_launch) = graph.last;
        }
        // SAFETY: graph and stream are alive; `super::Graph` keeps the memory that its
        // launches use, and freeing it waits for them.
        let launched = unsafe { result::graph::launch(graph.raw, stream.raw) };
        self.context.check("cuGraphLaunch", launched)
    }

    /// Launches on a stream that is being captured. What makes the capture invalid is named here: its
    /// end could no longer tell which launch it was.
    fn capture(
        &self,
        function: Function,
        stream: &Stream,
        launch: &Launch<'_>,
    ) -> Result<(), LaunchError> {
        let failed = |call, message| LaunchError::Device {
            kernel: launch.variant.name,
            call,
            message,
        };
        self.enqueue(function, stream, launch)
            .map_err(|error| failed("cuLaunchKernel in a graph", message(error)))?;
        // SAFETY: the stream is alive.
        let status = unsafe { result::stream::is_capturing(stream.raw) }
            .map_err(|error| failed("cuStreamIsCapturing", message(error)))?;
        if status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
            Ok(())
        } else {
            Err(failed(
                "cuLaunchKernel in a graph",
                "the driver cannot record this launch".to_owned(),
            ))
        }
    }

    fn enqueue(
        &self,
        function: Function,
        stream: &Stream,
        launch: &Launch<'_>,
    ) -> Result<(), DriverError> {
        // SAFETY: as in `Context::bind`.
        unsafe { result::ctx::set_current(self.context.raw) }?;
        // The driver copies every argument before `cuLaunchKernel` returns. Buffers are
        // passed as their address.
        let mut arguments: Vec<*mut c_void> = launch
            .args
            .iter()
            .map(|argument| match argument {
                RawArg::Buffer(buffer) => (&raw const buffer.address).cast_mut().cast(),
                RawArg::Scalar(bytes) => bytes.as_ptr().cast_mut().cast(),
            })
            .collect();
        // SAFETY: `function` belongs to a module of this context that stays loaded as long as
        // the context. `super::Backend` has checked the arguments against the kernel's
        // parameters (number, kind, size), that every buffer is a live allocation of this
        // backend, and the grid and block against the limits. Memory is freed only after the
        // context is idle, so it outlives the launch.
        unsafe {
            result::launch_kernel(
                function.raw,
                (launch.grid.x, launch.grid.y, launch.grid.z),
                (launch.variant.block, 1, 1),
                launch.variant.shared_bytes,
                stream.raw,
                &mut arguments,
            )
        }
    }

    /// The function of a variant; loads its module on first use.
    fn function(&self, variant: &'static VariantInfo) -> Result<Function, Error> {
        let function = {
            let mut functions = lock(&self.functions);
            if let Some(function) = functions.get(variant.name) {
                *function
            } else {
                let function = self.load(variant)?;
                functions.insert(variant.name, function);
                function
            }
        };
        if function.clmad {
            self.trust_clmad(variant)?;
        }
        Ok(function)
    }

    /// Computes a known answer before the first variant with `clmad` runs: an assembler has been
    /// seen to drop the instruction on some targets, and a driver translates what it has no cubin
    /// for.
    fn trust_clmad(&self, variant: &'static VariantInfo) -> Result<(), Error> {
        {
            let mut state = lock(&self.clmad);
            match &*state {
                Clmad::Untried => *state = Clmad::Trying,
                Clmad::Trying | Clmad::Right => return Ok(()),
                Clmad::Wrong(detail) => {
                    return Err(Error::ClmadBroken {
                        variant: variant.name,
                        detail: detail.clone(),
                    });
                }
            }
        }
        match self.clmad_known_answer() {
            // No code: the image was cut down to other kernels, and there is nothing to try with.
            Ok(()) | Err(Error::NoCode { .. }) => *lock(&self.clmad) = Clmad::Right,
            Err(Error::ClmadBroken { detail, .. }) => {
                *lock(&self.clmad) = Clmad::Wrong(detail.clone());
                return Err(Error::ClmadBroken {
                    variant: variant.name,
                    detail,
                });
            }
            Err(error) => {
                *lock(&self.clmad) = Clmad::Untried;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The product of RFC 8452, section 3.
    fn clmad_known_answer(&self) -> Result<(), Error> {
        use gpu_kernels::gf128::{Polyval, method, polyval_mul};
        let a = Polyval::from_bytes(0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e_u128.to_be_bytes());
        let b = Polyval::from_bytes((0xff_u128 << 120).to_be_bytes());
        let expected =
            Polyval::from_bytes(0xebe5_6340_1e7e_91ea_3ad6_426b_8140_c394_u128.to_be_bytes());
        let variant = polyval_mul::Variant {
            method: method::SCHOOLBOOK,
        };
        let Some(variant) = variant.info() else {
            return Ok(());
        };

        let stream = self.stream()?;
        let memory = || self.allocate(size_of::<Polyval>(), true);
        let (from_a, from_b, to) = (memory()?, memory()?, memory()?);
        self.upload(&stream, (&from_a, 0), bytemuck::bytes_of(&a))?;
        self.upload(&stream, (&from_b, 0), bytemuck::bytes_of(&b))?;
        let raw = |memory| RawArg::Buffer(self.raw(memory, 0));
        let launch = Launch {
            kernel: &polyval_mul::KERNEL,
            variant,
            grid: Grid::x(1),
            args: &[
                raw(&from_a),
                raw(&from_b),
                raw(&to),
                RawArg::Scalar(&1u64.to_ne_bytes()),
            ],
        };
        launch.validate()?;
        let function = self.function(variant)?;
        let launched = self.enqueue(function, &stream, &launch);
        self.context.check("cuLaunchKernel", launched)?;
        let mut found = Polyval::default();
        self.download(&stream, (&to, 0), bytemuck::bytes_of_mut(&mut found))?;
        if found == expected {
            Ok(())
        } else {
            Err(Error::ClmadBroken {
                variant: variant.name,
                detail: format!(
                    "`{}` gave {:032x} for {:032x}",
                    variant.name,
                    found.to_u128(),
                    expected.to_u128()
                ),
            })
        }
    }

    fn load(&self, variant: &'static VariantInfo) -> Result<Function, Error> {
        let started = Instant::now();
        let code = Code::of(self.image, variant.name, &self.info)?;
        self.context.bind()?;
        // SAFETY: a cubin as ptxas wrote it, or PTX ending in a null byte; the driver copies it.
        let loaded = unsafe { result::module::load_data(code.bytes.as_ptr().cast()) };
        let module = loaded.map_err(|error| Error::ModuleRefused {
            variant: variant.name,
            what: code.what.clone(),
            driver: self.version.to_string(),
            arch: self.arch(),
            message: message(error),
        })?;
        lock(&self.context.modules).push(Module(module));
        let name = CString::new(variant.name).map_err(|_| Error::Cuda {
            call: "cuModuleGetFunction",
            kernel: Some(variant.name),
            message: "the name holds a null byte".into(),
        })?;
        // SAFETY: `module` was just loaded and stays loaded.
        let raw = unsafe { result::module::get_function(module, name) };
        let raw = raw.map_err(|error| Error::Cuda {
            call: "cuModuleGetFunction",
            kernel: Some(variant.name),
            message: message(error),
        })?;
        self.allow_shared(variant, raw)?;
        tracing::debug!(variant = variant.name, code = %code.what, elapsed = ?started.elapsed(), "loaded");
        Ok(Function {
            raw,
            clmad: code.clmad,
        })
    }

    /// Asks for the dynamic shared memory of a variant where it is more than the default.
    fn allow_shared(
        &self,
        variant: &'static VariantInfo,
        function: sys::CUfunction,
    ) -> Result<(), Error> {
        use sys::CUfunction_attribute_enum as Attribute;
        let failed = |call, error| Error::Cuda {
            call,
            kernel: Some(variant.name),
            message: message(error),
        };
        // SAFETY: `function` is of a loaded module.
        let fixed = unsafe {
            result::function::get_function_attribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            )
        }
        .map_err(|error| failed("cuFuncGetAttribute", error))?;
        let fixed = u32::try_from(fixed).unwrap_or(0);
        let all = u64::from(fixed) + u64::from(variant.shared_bytes);
        if all > u64::from(self.info.shared_bytes) {
            return Err(Error::Launch(LaunchError::Refused {
                kernel: variant.name,
                reason: format!(
                    "it needs {all} bytes of shared memory and {} has {} a block",
                    self.info.name, self.info.shared_bytes
                ),
            }));
        }
        if all <= u64::from(DEFAULT_SHARED_BYTES) {
            return Ok(());
        }
        // SAFETY: as above; the value is within the device's limit.
        unsafe {
            result::function::set_function_attribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                variant.shared_bytes as i32,
            )
        }
        .map_err(|error| failed("cuFuncSetAttribute", error))
    }
}

/// Device code of one variant, ready to load.
struct Code {
    /// A cubin, or PTX ending in a null byte.
    bytes: Vec<u8>,
    /// `the sm_90a cubin` or `the sm_80 PTX`.
    what: String,
    clmad: bool,
}

impl Code {
    fn of(image: &Image, variant: &'static str, device: &DeviceInfo) -> Result<Self, Error> {
        let arch = device.arch().unwrap_or_default();
        let selected = device
            .capability
            .and_then(|capability| image.select(variant, capability));
        match selected {
            Some(Match::Cubin(entry)) => Ok(Self {
                bytes: entry.cubin()?,
                what: format!("the {} cubin", entry.arch),
                clmad: entry.facts.clmad > 0,
            }),
            Some(Match::Ptx(entry)) => {
                let mut bytes = entry.ptx()?.into_bytes();
                bytes.push(0);
                Ok(Self {
                    bytes,
                    what: format!("the {} PTX", entry.arch),
                    clmad: entry.facts.clmad > 0,
                })
            }
            None if image.is_empty() => Err(Error::EmptyImage { arch }),
            None => {
                let held: Vec<_> = image
                    .variant(variant)
                    .iter()
                    .map(|entry| entry.arch.name())
                    .collect();
                Err(Error::NoCode {
                    what: format!("`{variant}`"),
                    held: if held.is_empty() {
                        "no architecture".into()
                    } else {
                        held.join(", ")
                    },
                    arch,
                })
            }
        }
    }
}

impl Cuda {
    /// Whether the image holds any code that the GPU can run.
    pub(super) fn has_code(&self) -> Result<(), Error> {
        has_code(self.image, &self.info)
    }
}

fn has_code(image: &Image, device: &DeviceInfo) -> Result<(), Error> {
    let arch = device.arch().unwrap_or_default();
    if image.is_empty() {
        return Err(Error::EmptyImage { arch });
    }
    let runs = device.capability.is_some_and(|capability| {
        image
            .archs()
            .iter()
            .any(|arch| arch.cubin_runs_on(capability) || arch.ptx_runs_on(capability))
    });
    if runs {
        return Ok(());
    }
    let held: Vec<_> = image.archs().iter().map(|arch| arch.name()).collect();
    Err(Error::NoCode {
        what: "GPU code".into(),
        held: held.join(", "),
        arch,
    })
}

/// A launch that did not get as far as the driver's launch call.
fn refusal(launch: &Launch<'_>, error: Error) -> LaunchError {
    match error {
        Error::Launch(error) => error,
        Error::Cuda { call, message, .. } => LaunchError::Device {
            kernel: launch.variant.name,
            call,
            message,
        },
        other => LaunchError::Refused {
            kernel: launch.variant.name,
            reason: other.to_string(),
        },
    }
}

/// Device memory.
pub(super) struct Memory {
    context: Arc<Context>,
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _no_capture = lock(&CAPTURE);
        if self.context.bind().is_err() {
            return;
        }
        // A launch may still use the memory.
        ignore("cuCtxSynchronize", result::ctx::synchronize());
        // SAFETY: allocated by `allocate`, freed once, and the context is idle.
        ignore("cuMemFree", unsafe { result::memory_free(self.address) });
    }
}

/// Page-locked host memory.
pub(super) struct Pinned {
    context: Arc<Context>,
    pointer: NonNull<u8>,
}

// SAFETY: plain memory that one owner frees; copies from and to it are finished when the call
// that started them returns.
unsafe impl Send for Pinned {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(super) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.bind().is_err() {
            return;
        }
        // SAFETY: allocated by `cuMemHostAlloc`, freed once, no copy in flight.
        ignore("cuMemFreeHost", unsafe {
            result::free_host(self.pointer.as_ptr().cast())
        });
    }
}

/// An ordered queue of work.
pub(super) struct Stream {
    context: Arc<Context>,
    raw: sys::CUstream,
}

// SAFETY: a stream handle may be used from any thread that has bound its context.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver takes its own locks.
unsafe impl Sync for Stream {}

impl Stream {
    fn new(context: &Arc<Context>) -> Result<Self, Error> {
        context.bind()?;
        // Not ordered against the legacy stream, which nothing here uses.
        let raw = context.check(
            "cuStreamCreate",
            result::stream::create(result::stream::StreamKind::NonBlocking),
        )?;
        Ok(Self {
            context: Arc::clone(context),
            raw,
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.bind().is_err() {
            return;
        }
        // SAFETY: created by `new`, destroyed once; work in it still runs to its end.
        ignore("cuStreamDestroy", unsafe {
            result::stream::destroy(self.raw)
        });
    }
}

/// A point in a stream, with its time.
pub(super) struct Event {
    context: Arc<Context>,
    raw: sys::CUevent,
}

// SAFETY: an event handle may be used from any thread that has bound its context.
unsafe impl Send for Event {}
// SAFETY: as above; the driver takes its own locks.
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind().is_err() {
            return;
        }
        // SAFETY: created by `Cuda::event`, destroyed once; the driver keeps what it still needs.
        ignore("cuEventDestroy", unsafe {
            result::event::destroy(self.raw)
        });
    }
}

/// Launches captured once, to be launched together.
pub(super) struct Graph {
    context: Arc<Context>,
    raw: sys::CUgraphExec,
    last: Option<&'static str>,
}

// SAFETY: an executable graph may be launched from any thread that has bound its context.
unsafe impl Send for Graph {}
// SAFETY: the driver serialises launches of one executable graph.
unsafe impl Sync for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_err() {
            return;
        }
        // SAFETY: instantiated by `Cuda::graph`, destroyed once; a launch in flight runs to its end.
        ignore("cuGraphExecDestroy", unsafe {
            result::graph::exec_destroy(self.raw)
        });
    }
}
