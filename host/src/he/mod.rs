//! Homomorphic encryption: what every protocol stands on.
//!
//! | module | |
//! | --- | --- |
//! | [`sample`] | the generator behind secrets, ternary coefficients, the discrete Gaussian |
//! | [`security`] | estimates of hardness, and what they cover |
//! | [`lwe`] | learning with errors modulo 2^32: the scalar side |

pub mod lwe;
pub mod sample;
pub mod security;
