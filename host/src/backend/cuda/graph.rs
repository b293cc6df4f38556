//! Launches captured on a stream, to be launched together.

use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys;
use simt::launch::{Launch, LaunchError};

use super::Cuda;
use super::code::Function;
use super::context::{CAPTURE, Context, ignore, message};
use super::stream::Stream;
use crate::backend::device::Device;
use crate::backend::{Error, lock};

/// Launches captured once, to be launched together.
pub(in crate::backend) struct Graph {
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
        // SAFETY: instantiated by `Cuda::capture_all`, destroyed once; a launch in flight runs to its
        // end.
        ignore("cuGraphExecDestroy", unsafe {
            result::graph::exec_destroy(self.raw)
        });
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
    /// Captures `launches` on a stream of their own and makes one object of them.
    pub(super) fn capture_all(&self, launches: &[Launch<'_>]) -> Result<Graph, Error> {
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

    pub(in crate::backend) fn launch_graph(
        &self,
        stream: &Stream,
        graph: &Graph,
    ) -> Result<(), Error> {
        self.context.bind()?;
        if graph.last.is_some() {
            *lock(&self.context.last_launch) = graph.last;
        }
        // SAFETY: graph and stream are alive; `backend::Graph` keeps the memory that its
        // launches use, and freeing it waits for them.
        let launched = unsafe { result::graph::launch(graph.raw, stream.raw) };
        self.context.check("cuGraphLaunch", launched)
    }

    /// Launches on a stream that is being captured. What makes the capture invalid is named here:
    /// its end could no longer tell which launch it was.
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
}
