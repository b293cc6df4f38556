//! The checks and benches of the `ntt` kernels.

use super::Check;
use crate::bench::Bench;

/// The kernels of this family that are checked.
pub(super) static CHECKS: &[&dyn Check] = &[];

/// The kernels of this family that are timed.
pub(super) static BENCHES: &[&dyn Bench] = &[];
