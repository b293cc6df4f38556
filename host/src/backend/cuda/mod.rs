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

mod code;
mod context;
mod graph;
mod memory;
mod open;
mod stream;

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codegen::image::Image;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use simt::launch::{Launch, LaunchError, RawArg, RawBuffer};

use super::device::Device;
use super::{CudaVersion, DeviceInfo, Error, MemoryInfo, lock};
use code::{Clmad, Function};
use context::{CAPTURE, Context, message};
use graph::Graph;
use memory::{Memory, Pinned};
pub(super) use open::open;
use stream::{Event, Stream};

/// An empty buffer still has an address of its own.
const MIN_BYTES: usize = 256;

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
        self.capture_all(launches)
    }
}

impl Cuda {
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
