//! Streams and events, destroyed when dropped.

use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys;

use super::context::{Context, ignore};
use crate::backend::Error;

/// An ordered queue of work.
pub(in crate::backend) struct Stream {
    context: Arc<Context>,
    pub(super) raw: sys::CUstream,
}

// SAFETY: a stream handle may be used from any thread that has bound its context.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver takes its own locks.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Error> {
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
pub(in crate::backend) struct Event {
    pub(super) context: Arc<Context>,
    pub(super) raw: sys::CUevent,
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
