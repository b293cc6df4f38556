//! Copies from global to shared memory that run while the thread goes on (`cp.async`, sm_80).
//!
//! A copy belongs to the group that the next [`commit`] closes. [`wait_group::<N>`](wait_group) waits
//! for all of this thread's groups but the last `N`; only then may this thread read the bytes, and only
//! after a barrier may another. Until then the source must not be written.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::{access, check};
use crate::{Element, Global, Shared};

/// The three widths.
macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident, $bytes:literal, $ptx:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name<T: Element, U: Element>(dst: Shared<T>, dst_index: usize, src: Global<U>, src_index: usize) {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the kernel keeps both indices inside their arrays; the emulator proves it on its
            // inputs.
            unsafe {
                asm!($ptx, in(reg32) dst.at(dst_index), in(reg64) src.pointer(src_index), options(nostack));
            }
            #[cfg(not(target_arch = "nvptx64"))]
            access::copy_async::<$bytes>(dst.place(dst_index), src.place(src_index));
        }
    )* };
}

copies! {
    /// Starts copying 4 bytes from element `src_index` of `src` to element `dst_index` of `dst`.
    copy4, 4, "cp.async.ca.shared.global [{}], [{}], 4;";
    /// Starts copying 8 bytes from element `src_index` of `src` to element `dst_index` of `dst`.
    copy8, 8, "cp.async.ca.shared.global [{}], [{}], 8;";
    /// Starts copying 16 bytes from element `src_index` of `src` to element `dst_index` of `dst`, past L1.
    copy16, 16, "cp.async.cg.shared.global [{}], [{}], 16;";
}

/// Closes this thread's current group of copies.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: ends a group, touches no memory.
    unsafe {
        asm!("cp.async.commit_group;", options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    check::commit_copies();
}

/// Waits for all of this thread's groups but the last `N` to arrive.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_group<const N: usize>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: without `nomem` later reads stay behind it.
    unsafe {
        asm!("cp.async.wait_group {};", const N, options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    check::wait_copies(N);
}

/// Waits for all of this thread's copies, committed or not.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_all() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: as in `wait_group`.
    unsafe {
        asm!("cp.async.wait_all;", options(nostack));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        check::commit_copies();
        check::wait_copies(0);
    }
}
