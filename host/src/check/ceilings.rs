//! The checks of the ceiling kernels, and which ceiling each one measures.

use super::Check;
use crate::bench::{Bench, Ceiling};

/// The kernels of this family that are checked.
pub(super) static CHECKS: &[&dyn Check] = &[];

/// The kernels that measure a ceiling. Each case states its work in the unit of that ceiling.
pub(super) static CEILINGS: &[(Ceiling, &dyn Bench)] = &[];
