//! Exchanges inside a warp: shuffles, votes and reductions.
//!
//! Each takes the mask of the lanes that take part. All of them must come, and the calling lane must
//! be one of them. None of these orders memory: use [`crate::thread::sync_warp`] for that.

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::block::{self, Shuffle};
#[cfg(target_arch = "nvptx64")]
use crate::ptx;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for i32 {}
    impl Sealed for u64 {}
}

/// A value that lanes can exchange: `u32`, `i32`, or `u64` (two exchanges on the device).
pub trait Lane: Copy + sealed::Sealed {
    /// Moves the 32-bit words of the value through `exchange`.
    #[doc(hidden)]
    #[must_use]
    fn through(self, exchange: impl FnMut(u32) -> u32) -> Self;
    /// The value as bits, and back.
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

/// Lanes of one word.
macro_rules! lane32 {
    ($($t:ty),*) => { $(
        impl Lane for $t {
            #[inline(always)]
            fn through(self, mut exchange: impl FnMut(u32) -> u32) -> Self {
                exchange(self as u32) as $t
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self as u32)
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as u32 as $t
            }
        }
    )* };
}
lane32!(u32, i32);

impl Lane for u64 {
    #[inline(always)]
    fn through(self, mut exchange: impl FnMut(u32) -> u32) -> Self {
        let low = exchange(self as u32);
        let high = exchange((self >> 32) as u32);
        u64::from(low) | u64::from(high) << 32
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        bits
    }
}

/// The four shuffles.
macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident($argument:ident) = $ptx:ident, $clamp:literal, $mode:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name<T: Lane>(mask: u32, value: T, $argument: u32) -> T {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: registers only.
            {
                value.through(|word| unsafe { ptx::$ptx(mask, word, $argument, $clamp) })
            }
            #[cfg(not(target_arch = "nvptx64"))]
            T::from_bits(block::shuffle(Shuffle::$mode, mask, value.to_bits(), $argument))
        }
    )* };
}

shuffles! {
    /// The value of lane `lane % 32`.
    shuffle(lane) = shuffle_index, 0x1f, Index;
    /// The value of the lane `delta` below; a lane without one keeps its own.
    shuffle_up(delta) = shuffle_up, 0, Up;
    /// The value of the lane `delta` above; a lane without one keeps its own.
    shuffle_down(delta) = shuffle_down, 0x1f, Down;
    /// The value of the lane whose number is this one's XOR `lanes`.
    shuffle_xor(lanes) = shuffle_xor, 0x1f, Xor;
}

/// Bit `i` is set when lane `i` of `mask` gave `true`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: registers only.
    unsafe {
        ptx::vote_ballot(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    block::ballot(mask, predicate)
}

/// Whether any lane of `mask` gave `true`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn any(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: registers only.
    unsafe {
        ptx::vote_any(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        block::any(mask, predicate)
    }
}

/// Whether every lane of `mask` gave `true`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn all(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: registers only.
    unsafe {
        ptx::vote_all(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        block::all(mask, predicate)
    }
}

/// The reductions (`redux.sync`, sm_80).
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident = $ptx:ident, $mode:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(mask: u32, value: u32) -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: registers only.
            unsafe {
                ptx::$ptx(value, mask)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            block::reduce(block::Reduction::$mode, mask, value)
        }
    )* };
}

reductions! {
    /// Sum over the lanes of `mask`, modulo 2^32.
    reduce_add = redux_add, Add;
    /// Smallest value of the lanes of `mask`, unsigned.
    reduce_min = redux_min, Min;
    /// Largest value of the lanes of `mask`, unsigned.
    reduce_max = redux_max, Max;
    /// AND over the lanes of `mask`.
    reduce_and = redux_and, And;
    /// OR over the lanes of `mask`.
    reduce_or = redux_or, Or;
    /// XOR over the lanes of `mask`.
    reduce_xor = redux_xor, Xor;
}
