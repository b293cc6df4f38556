//! From kernel variants to an embedded image, at build time.
//!
//! The path of a kernel: a [`compiler`] turns the `gpu-kernels` crate into PTX, [`ptx`] finishes
//! that text and splits it into one module per entry point, [`ptxas`] assembles each module for
//! each architecture, [`sass`] reads the machine code back, and [`image`] packs the results.
//! [`budget`] holds what they cost against a table in the repository.
//!
//! Only [`image`] and [`arch`] are needed at run time. Everything else runs in `host/build.rs` and
//! `cargo xtask`, and only where somebody asked for device code: a plain `cargo build` needs none
//! of it.

pub mod arch;
pub mod image;
pub mod ptx;
pub mod sass;
