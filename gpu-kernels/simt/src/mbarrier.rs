//! Barriers in shared memory that also count bytes (`mbarrier`, sm_90).
//!
//! An mbarrier goes through *phases*. A phase ends when as many arrivals as [`Mbarrier::init`] said have come and
//! all bytes that were announced ([`Mbarrier::arrive_expect`]) have been brought by copies that name it
//! ([`crate::bulk`]). A thread waits for the end of a phase by its parity: 0 for the first, 1 for the second, 0
//! for the third. Waiting with parity 1 on a fresh barrier passes at once, so a ring of buffers needs no special
//! first round: who fills waits for the other parity than who drains.
//!
//! What a thread did before it arrived is seen by those that waited for the end of that phase.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use crate::Shared;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::mbarrier;

/// A barrier in eight bytes of shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier(Shared<u64>);

impl Mbarrier {
    /// The barrier in element `i` of `words`.
    #[inline(always)]
    pub fn at(words: Shared<u64>, i: usize) -> Self {
        Self(words.offset(i))
    }

    /// Makes it a barrier of `arrivals` arrivals a phase, 1 to 2^20 - 1, in its first phase.
    ///
    /// One thread does this once, then [`fence_init`], then all meet at a barrier before anybody uses it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn init(self, arrivals: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: eight bytes of the kernel's own shared memory.
        unsafe {
            asm!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) self.address(), in(reg32) arrivals,
                options(nostack));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        mbarrier::init(self.0, arrivals);
    }

    /// Arrives once.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive(self) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: as in `init`.
        unsafe {
            asm!("{{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [{}]; }}", in(reg32) self.address(),
                options(nostack));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        mbarrier::arrive(self.0, 0);
    }

    /// Announces `bytes` more bytes for this phase, below 2^20, and arrives once.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive_expect(self, bytes: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: as in `init`.
        unsafe {
            asm!("{{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [{}], {}; }}", in(reg32) self.address(),
                in(reg32) bytes, options(nostack));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        mbarrier::arrive(self.0, bytes);
    }

    /// Waits for the end of the phase of this parity (0 or 1).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[cfg_attr(
        target_arch = "nvptx64",
        expect(named_asm_labels, reason = "labels of PTX are local to its braces")
    )]
    pub fn wait(self, parity: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: as in `init`.
        unsafe {
            asm!("{{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [{}], {}; @!done bra again; }}",
                in(reg32) self.address(), in(reg32) parity, options(nostack));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        mbarrier::wait(self.0, parity);
    }

    /// Address in the shared window.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn address(self) -> u32 {
        self.0.at(0)
    }

    /// The word it lives in.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) fn word(self) -> Shared<u64> {
        self.0
    }
}

/// Makes initialised barriers visible to the copy engine; the thread that initialised them calls it.
#[inline(always)]
pub fn fence_init() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: orders memory only.
    unsafe {
        asm!("fence.mbarrier_init.release.cluster;", options(nostack));
    }
}
