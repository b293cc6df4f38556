//! The kernels on the emulator, fast and checked, against their plain references.

mod gemm;
mod harness;
mod montgomery;
mod ntt;
