//! Backends, protocols and the command line of Gristmill.
//!
//! - [`backend`]: where kernels run, the emulator or an NVIDIA GPU.
//! - [`check`]: every kernel against a plain reference.
//! - [`mod@bench`]: every kernel beside what the hardware allows.
//! - [`pir`]: private information retrieval.
//! - [`cli`]: the program `gristmill`.

pub mod backend;
pub mod bench;
pub mod check;
pub mod cli;
pub mod image;
pub mod pir;
