//! The kernels on the emulator, fast and checked, against their plain references.

mod byte_product;
mod ceilings;
mod gemm;
mod gf128;
mod harness;
mod montgomery;
mod ntt;
