//! The device bodies that several words share.
//!
//! What must not be duplicated, sunk or moved between branches (barriers, shuffles, votes, `mma`) goes
//! through LLVM's intrinsics, which carry `convergent`; `asm!` does not. The rest is `asm!` where LLVM
//! has no way to say the state space or cache operator.

use core::arch::asm;
use core::mem::MaybeUninit;

use crate::Scope;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: stops the grid; the launch ends with an error on the host.
    unsafe { core::arch::nvptx::trap() }
}

unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    pub(crate) fn barrier_all(barrier: u32);
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
    pub(crate) fn barrier_count(barrier: u32, threads: u32);
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    pub(crate) fn warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    pub(crate) fn shuffle_index(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    pub(crate) fn shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    pub(crate) fn shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    pub(crate) fn shuffle_xor(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    pub(crate) fn vote_ballot(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    pub(crate) fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    pub(crate) fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.redux.sync.add"]
    pub(crate) fn redux_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    pub(crate) fn redux_min(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    pub(crate) fn redux_max(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    pub(crate) fn redux_and(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    pub(crate) fn redux_or(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    pub(crate) fn redux_xor(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.prmt"]
    pub(crate) fn prmt(a: u32, b: u32, selector: u32) -> u32;
}

/// The four accumulator registers an `mma` gives back.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Accumulators(
    pub(crate) i32,
    pub(crate) i32,
    pub(crate) i32,
    pub(crate) i32,
);

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.s8"]
    pub(crate) fn mma_s8s8(
        a0: u32,
        a1: u32,
        a2: u32,
        a3: u32,
        b0: u32,
        b1: u32,
        c0: i32,
        c1: i32,
        c2: i32,
        c3: i32,
    ) -> Accumulators;
    #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.s8.u8"]
    pub(crate) fn mma_s8u8(
        a0: u32,
        a1: u32,
        a2: u32,
        a3: u32,
        b0: u32,
        b1: u32,
        c0: i32,
        c1: i32,
        c2: i32,
        c3: i32,
    ) -> Accumulators;
    #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.u8.s8"]
    pub(crate) fn mma_u8s8(
        a0: u32,
        a1: u32,
        a2: u32,
        a3: u32,
        b0: u32,
        b1: u32,
        c0: i32,
        c1: i32,
        c2: i32,
        c3: i32,
    ) -> Accumulators;
    #[link_name = "llvm.nvvm.mma.m16n8k32.row.col.u8"]
    pub(crate) fn mma_u8u8(
        a0: u32,
        a1: u32,
        a2: u32,
        a3: u32,
        b0: u32,
        b1: u32,
        c0: i32,
        c1: i32,
        c2: i32,
        c3: i32,
    ) -> Accumulators;
}

/// Memory fence of a scope.
#[inline(always)]
pub(crate) fn fence(scope: Scope) {
    // SAFETY: orders memory; without `nomem` the compiler keeps accesses on their side of it.
    unsafe {
        match scope {
            Scope::Block => asm!("fence.acq_rel.cta;", options(nostack)),
            Scope::Device => asm!("fence.acq_rel.gpu;", options(nostack)),
            Scope::System => asm!("fence.acq_rel.sys;", options(nostack)),
        }
    }
}

/// Loads of one value in the largest pieces its alignment allows, up to 16 bytes an instruction.
macro_rules! load {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $address:ty, $class:ident) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) unsafe fn $name<T: Copy>(address: $address) -> T {
            let mut value = MaybeUninit::<T>::uninit();
            let to = value.as_mut_ptr().cast::<u8>();
            let mut at = 0;
            while at < size_of::<T>() {
                // `as` moves a pointer or an integer by bytes alike.
                let from = offset(address, at);
                // SAFETY: the caller promises `size_of::<T>()` readable, aligned bytes; `at` stays
                // inside `value`, and a piece is never wider than the alignment of `T`.
                unsafe {
                    match piece::<T>() {
                        16 => {
                            let (x, y, z, w): (u32, u32, u32, u32);
                            asm!(concat!($prefix, ".v4.u32 {{{},{},{},{}}}, [{}];"), out(reg32) x, out(reg32) y,
                                 out(reg32) z, out(reg32) w, in($class) from, options(nostack, readonly));
                            to.add(at).cast::<[u32; 4]>().write_unaligned([x, y, z, w]);
                        }
                        8 => {
                            let x: u64;
                            asm!(concat!($prefix, ".u64 {}, [{}];"), out(reg64) x, in($class) from,
                                 options(nostack, readonly));
                            to.add(at).cast::<u64>().write_unaligned(x);
                        }
                        4 => {
                            let x: u32;
                            asm!(concat!($prefix, ".u32 {}, [{}];"), out(reg32) x, in($class) from,
                                 options(nostack, readonly));
                            to.add(at).cast::<u32>().write_unaligned(x);
                        }
                        2 => {
                            let x: u16;
                            asm!(concat!($prefix, ".u16 {}, [{}];"), out(reg16) x, in($class) from,
                                 options(nostack, readonly));
                            to.add(at).cast::<u16>().write_unaligned(x);
                        }
                        _ => {
                            let x: u16;
                            asm!(concat!($prefix, ".u8 {}, [{}];"), out(reg16) x, in($class) from,
                                 options(nostack, readonly));
                            to.add(at).write(x as u8);
                        }
                    }
                }
                at += piece::<T>();
            }
            // SAFETY: every byte of it was written above.
            unsafe { value.assume_init() }
        }
    };
}

/// Stores of one value, piece by piece as [`load!`].
macro_rules! store {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $address:ty, $class:ident) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) unsafe fn $name<T: Copy>(address: $address, value: T) {
            let from = (&raw const value).cast::<u8>();
            let mut at = 0;
            while at < size_of::<T>() {
                let to = offset(address, at);
                // SAFETY: as for the loads, with writable bytes.
                unsafe {
                    match piece::<T>() {
                        16 => {
                            let [x, y, z, w] = from.add(at).cast::<[u32; 4]>().read_unaligned();
                            asm!(concat!($prefix, ".v4.u32 [{}], {{{},{},{},{}}};"), in($class) to, in(reg32) x,
                                 in(reg32) y, in(reg32) z, in(reg32) w, options(nostack));
                        }
                        8 => asm!(concat!($prefix, ".u64 [{}], {};"), in($class) to,
                                  in(reg64) from.add(at).cast::<u64>().read_unaligned(), options(nostack)),
                        4 => asm!(concat!($prefix, ".u32 [{}], {};"), in($class) to,
                                  in(reg32) from.add(at).cast::<u32>().read_unaligned(), options(nostack)),
                        2 => asm!(concat!($prefix, ".u16 [{}], {};"), in($class) to,
                                  in(reg16) from.add(at).cast::<u16>().read_unaligned(), options(nostack)),
                        _ => asm!(concat!($prefix, ".u8 [{}], {};"), in($class) to,
                                  in(reg16) u16::from(from.add(at).read()), options(nostack)),
                    }
                }
                at += piece::<T>();
            }
        }
    };
}

/// Widest access to a `T`: its alignment, at most 16 bytes.
#[inline(always)]
const fn piece<T>() -> usize {
    if align_of::<T>() > 16 {
        16
    } else {
        align_of::<T>()
    }
}

/// An address of either width.
trait Address: Copy {
    fn plus(self, bytes: usize) -> Self;
}
impl Address for u32 {
    #[inline(always)]
    fn plus(self, bytes: usize) -> Self {
        self.wrapping_add(bytes as u32)
    }
}
impl<T> Address for *const T {
    #[inline(always)]
    fn plus(self, bytes: usize) -> Self {
        self.wrapping_byte_add(bytes)
    }
}
impl<T> Address for *mut T {
    #[inline(always)]
    fn plus(self, bytes: usize) -> Self {
        self.wrapping_byte_add(bytes)
    }
}
#[inline(always)]
fn offset<A: Address>(address: A, bytes: usize) -> A {
    address.plus(bytes)
}

load! {
    /// `ld.shared`.
    load_shared, "ld.shared", u32, reg32
}
load! {
    /// `ld.global.nc`: the read-only path.
    load_global_nc, "ld.global.nc", *const T, reg64
}
load! {
    /// `ld.global` that leaves L1 to others.
    load_global_stream, "ld.global.L1::no_allocate", *const T, reg64
}
store! {
    /// `st.shared`.
    store_shared, "st.shared", u32, reg32
}
store! {
    /// `st.global.cs`: evicted first.
    store_global_stream, "st.global.cs", *mut T, reg64
}

core::arch::global_asm!(".extern .shared .align 1024 .b8 simt_dynamic_shared[];");

/// Shared address of the kernel's dynamic arena.
#[inline(always)]
pub(crate) fn dynamic_shared() -> u32 {
    let address: u32;
    // SAFETY: gives an address, touches no memory.
    unsafe {
        asm!("mov.u32 {}, simt_dynamic_shared;", out(reg32) address, options(pure, nomem, nostack));
    }
    address
}
