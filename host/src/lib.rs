//! Backends, protocols and the command line of Gristmill.
//!
//! - [`backend`]: where kernels run, the emulator or an NVIDIA GPU.
//! - [`families`]: the families of kernels, each with its checks, benches and floors, in the terms of [`trial`].
//! - [`check`]: every kernel against a plain reference.
//! - [`mod@bench`]: every kernel beside what the hardware allows.
//! - [`choice`]: which variant does a job; [`mod@tune`] measures it.
//! - [`pir`]: private information retrieval.
//! - [`he`]: homomorphic encryption; [`wire`]: the frame of messages.
//! - [`cli`]: the program `gristmill`.

pub mod backend;
pub mod bench;
pub mod check;
pub mod choice;
pub mod cli;
pub mod families;
pub mod he;
pub mod image;
pub mod pir;
pub mod trial;
pub mod tune;
pub mod wire;
