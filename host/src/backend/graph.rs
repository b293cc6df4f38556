//! Launches recorded once and launched together.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use simt::launch::{Grid, Kernel, Launch, LaunchError, Queue, RawArg, VariantInfo};

use super::device::Device;
use super::either::{AnyGraph, Either};
use super::inner::Allocation;
use super::{Backend, Error, Stream};

/// A scalar argument, aligned for any element.
struct Scalar {
    words: Vec<u128>,
    bytes: usize,
}

impl Scalar {
    fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0u128; bytes.len().div_ceil(16)];
        bytemuck::cast_slice_mut::<u128, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self {
            words,
            bytes: bytes.len(),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &bytemuck::cast_slice::<u128, u8>(&self.words)[..self.bytes]
    }
}

enum Argument {
    Buffer {
        allocation: Arc<Allocation>,
        offset: usize,
        bytes: u64,
    },
    Scalar(Scalar),
}

impl Argument {
    fn borrow(&self) -> RawArg<'_> {
        match self {
            Self::Buffer {
                allocation,
                offset,
                bytes,
            } => {
                let mut raw = allocation.raw();
                raw.address += *offset as u64;
                raw.bytes = *bytes;
                RawArg::Buffer(raw)
            }
            Self::Scalar(scalar) => RawArg::Scalar(scalar.as_bytes()),
        }
    }
}

/// A launch that owns its arguments and keeps the memory it uses.
struct Recorded {
    kernel: &'static Kernel,
    variant: &'static VariantInfo,
    grid: Grid,
    arguments: Vec<Argument>,
}

fn with_launches<R>(recorded: &[Recorded], body: impl FnOnce(&[Launch<'_>]) -> R) -> R {
    let arguments: Vec<Vec<RawArg<'_>>> = recorded
        .iter()
        .map(|launch| launch.arguments.iter().map(Argument::borrow).collect())
        .collect();
    let launches: Vec<Launch<'_>> = recorded
        .iter()
        .zip(&arguments)
        .map(|(launch, args)| Launch {
            kernel: launch.kernel,
            variant: launch.variant,
            grid: launch.grid,
            args,
        })
        .collect();
    body(&launches)
}

/// Takes launches as a stream does, and keeps them for a [`Graph`].
pub struct Recorder<'a> {
    backend: &'a Backend,
    recorded: RefCell<Vec<Recorded>>,
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} launches)", self.recorded.borrow().len())
    }
}

impl Queue for Recorder<'_> {
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        let mut used = self.backend.0.check(launch)?.into_iter();
        let arguments = launch
            .args
            .iter()
            .filter_map(|argument| match argument {
                // `check` returns one allocation for each buffer, in order.
                RawArg::Buffer(buffer) => {
                    used.next().map(|(allocation, offset)| Argument::Buffer {
                        allocation,
                        offset,
                        bytes: buffer.bytes,
                    })
                }
                RawArg::Scalar(bytes) => Some(Argument::Scalar(Scalar::new(bytes))),
            })
            .collect();
        self.recorded.borrow_mut().push(Recorded {
            kernel: launch.kernel,
            variant: launch.variant,
            grid: launch.grid,
            arguments,
        });
        Ok(())
    }
}

/// Launches recorded once and launched together, in order: one call to the driver on a GPU.
///
/// A graph keeps the memory that its launches use.
pub struct Graph {
    backend: Backend,
    recorded: Vec<Recorded>,
    raw: AnyGraph,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} launches)", self.recorded.len())
    }
}

impl Backend {
    /// Records the launches that `body` makes into a graph. Nothing runs yet.
    ///
    /// # Errors
    ///
    /// Whatever `body` returns; a variant that this backend cannot run; a failed call to the
    /// driver.
    pub fn graph(
        &self,
        body: impl FnOnce(&Recorder<'_>) -> Result<(), LaunchError>,
    ) -> Result<Graph, Error> {
        let recorder = Recorder {
            backend: self,
            recorded: RefCell::new(Vec::new()),
        };
        body(&recorder)?;
        let recorded = recorder.recorded.into_inner();
        let raw = with_launches(&recorded, |launches| match &self.0.device {
            Either::Cpu(device) => device.graph(launches).map(Either::Cpu),
            Either::Cuda(device) => device.graph(launches).map(Either::Cuda),
        })?;
        Ok(Graph {
            backend: self.clone(),
            recorded,
            raw,
        })
    }
}

impl Graph {
    /// Launches recorded.
    pub fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Whether there is nothing to launch.
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Enqueues all launches.
    ///
    /// The buffers are those that were recorded: the caller sees to it that nothing else uses
    /// them meanwhile, as with any work on a stream.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`] when the stream is not of the graph's backend; a fault of a
    /// launch on the `cpu` backend; a failed call to the driver.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        stream.owns("launch", "graph", &self.backend)?;
        match (&self.backend.0.device, &stream.lane, &self.raw) {
            (Either::Cuda(device), Either::Cuda(lane), Either::Cuda(graph)) => {
                device.launch_graph(lane, graph)
            }
            _ => with_launches(&self.recorded, |launches| {
                launches
                    .iter()
                    .try_for_each(|launch| stream.launch(launch))
                    .map_err(Error::from)
            }),
        }
    }
}
