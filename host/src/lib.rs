//! Backends, protocols and the command line of Gristmill.

pub mod pir;
