//! Device memory and page-locked host memory, freed when dropped.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys;

use super::context::{CAPTURE, Context, ignore};
use crate::backend::lock;

/// Device memory.
pub(in crate::backend) struct Memory {
    pub(super) context: Arc<Context>,
    pub(super) address: sys::CUdeviceptr,
    pub(super) bytes: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _no_capture = lock(&CAPTURE);
        if self.context.bind().is_err() {
            return;
        }
        // A launch may still use the memory.
        ignore("cuCtxSynchronize", result::ctx::synchronize());
        // SAFETY: allocated by `Cuda::allocate`, freed once, and the context is idle.
        ignore("cuMemFree", unsafe { result::memory_free(self.address) });
    }
}

/// Page-locked host memory.
pub(in crate::backend) struct Pinned {
    pub(super) context: Arc<Context>,
    pub(super) pointer: NonNull<u8>,
}

// SAFETY: plain memory that one owner frees; copies from and to it are finished when the call
// that started them returns.
unsafe impl Send for Pinned {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(in crate::backend) fn pointer(&self) -> NonNull<u8> {
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
