//! Gristmill's kernels and the arithmetic under them.
//!
//! One arithmetic serves all: a client on a CPU and a kernel on a GPU call the same functions of
//! [`arith`], so that the property tests speak for both. Every kernel lives beside a plain
//! `reference` module (host only) that shares no code with it.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
// Loops over an index unroll into registers; `array::IntoIter` was seen to put the array into local memory.
#![allow(clippy::needless_range_loop, clippy::manual_memcpy)]

pub mod arith;
pub mod byte_product;
pub mod ceilings;
pub mod gemm;
pub mod gf128;
pub mod montgomery;
pub mod ntt;
