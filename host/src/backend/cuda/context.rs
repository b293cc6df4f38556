//! The primary context of a GPU, bound by every call, and what is said of a call that failed.

use std::sync::Mutex;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use crate::backend::{Error, lock};

/// The primary context of one GPU, and the modules loaded into it.
pub(super) struct Context {
    pub(super) device: sys::CUdevice,
    pub(super) raw: sys::CUcontext,
    pub(super) modules: Mutex<Vec<Module>>,
    pub(super) last_launch: Mutex<Option<&'static str>>,
}

/// Held while a stream is captured and while a context is synchronised. It is the process's: two
/// backends on one GPU share its primary context, and that may not be synchronised during a
/// capture.
pub(super) static CAPTURE: Mutex<()> = Mutex::new(());

pub(super) struct Module(pub(super) sys::CUmodule);

// SAFETY: driver handles are process-wide; the driver API may be called from any thread that
// has bound the context, which every method of the backend does first.
unsafe impl Send for Context {}
// SAFETY: as above; the driver takes its own locks.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn bind(&self) -> Result<(), Error> {
        // SAFETY: `raw` was retained by `open` and is released only when `self` is dropped.
        let bound = unsafe { result::ctx::set_current(self.raw) };
        self.check("cuCtxSetCurrent", bound)
    }

    /// Names the call, and the launch that an asynchronous error may come from.
    pub(super) fn check<T>(
        &self,
        call: &'static str,
        result: Result<T, DriverError>,
    ) -> Result<T, Error> {
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
pub(super) fn ignore(call: &'static str, result: Result<(), DriverError>) {
    if let Err(error) = result {
        tracing::debug!(call, "{}", message(error));
    }
}

pub(super) fn message(error: DriverError) -> String {
    let name = format!("{:?}", error.0);
    match error.error_string() {
        Ok(text) => format!("{name}, {}", text.to_string_lossy()),
        Err(_) => name,
    }
}
