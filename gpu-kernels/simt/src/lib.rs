//! The words a GPU kernel may use.
//!
//! A kernel is a plain Rust function. What makes it one is the vocabulary of this crate: who am I
//! ([`thread`], [`grid`]), what can I touch ([`Global`], [`GlobalMut`], [`Shared`]), how do I meet the
//! other threads ([`thread::sync_threads`], [`warp`], [`atomic`]), and which instructions have no
//! operator of their own ([`int`], [`clmul`], [`mma`], [`wgmma`], [`cp_async`], [`bulk`]).
//!
//! Every word has two bodies, side by side. For the target `nvptx64` it is the PTX instruction; the
//! names follow the PTX ISA and, where it has one, `cuda_std`. For any other target it is a call into
//! the [`emulator`], which runs one coroutine per GPU thread and can check every access. The function
//! that uses the words is the same for both, so what a test proves on a laptop is a statement about the
//! kernel that runs on the card.
//!
//! ```
//! use simt::prelude::*;
//!
//! /// `c[i] = a[i] + b[i]` modulo 2^32.
//! #[kernel(block = 256, variants(PER_THREAD = [1, 4]))]
//! pub fn add<const PER_THREAD: usize>(a: Global<u32>, b: Global<u32>, c: GlobalMut<u32>, n: u32) {
//!     for i in grid::stride::<PER_THREAD>(n as usize) {
//!         c.write(i, a.read(i).wrapping_add(b.read(i)));
//!     }
//! }
//! # fn main() {
//! assert_eq!(add::KERNEL.variants[1].name, "add__per_thread_4");
//! # }
//! ```
//!
//! # Reading order
//!
//! [`element`] and [`global`] show how one access becomes one instruction; [`thread`] and [`warp`] how
//! threads meet; [`mma`] how an instruction and its data layout are kept apart. [`kernel`] makes entry
//! points, descriptors and a typed launch of a function. On the host side [`launch`] holds the types that
//! describe a kernel and one launch of it, and [`emulator`] the machine that runs it.
//!
//! # Two rules that the compiler does not know
//!
//! LLVM may copy or move an `asm!` into a branch; what all lanes must execute together goes through its
//! intrinsics, which carry `convergent`, or is at least never `pure`. And rustc's MIR jump threading copies
//! barriers: kernels are built with `-Zmir-enable-passes=-JumpThreading`.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        asm_experimental_arch,
        stdarch_nvptx,
        link_llvm_intrinsics,
        abi_unadjusted
    )
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

pub mod atomic;
pub mod bulk;
pub mod clmul;
pub mod cp_async;
pub mod element;
pub mod global;
pub mod grid;
pub mod int;
pub mod mbarrier;
pub mod mma;
pub mod prelude;
pub mod shared;
pub mod thread;
pub mod warp;
pub mod wgmma;

#[cfg(target_arch = "nvptx64")]
mod ptx;

#[cfg(not(target_arch = "nvptx64"))]
pub mod emulator;
#[cfg(not(target_arch = "nvptx64"))]
pub mod launch;
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub mod macro_support;

pub use atomic::{Order, Scope};
pub use element::{Element, U8x16, U32x2, U32x4, U64x2};
pub use global::{Global, GlobalMut};
pub use shared::Shared;
pub use simt_macros::kernel;
