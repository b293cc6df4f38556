//! Homomorphic encryption: what every protocol stands on.
//!
//! | module | |
//! | --- | --- |
//! | [`sample`] | the generator behind secrets, ternary coefficients, the discrete Gaussian |
//! | [`security`] | estimates of hardness, and what they cover |
//! | [`params`] | parameter sets, their security and failure bound |
//! | [`noise`] | the noise model |
//! | [`ring`] | elements in residues, their two forms, rounding |
//! | [`gadget`] | balanced digits, exact and approximate |
//! | [`lwe`] | learning with errors modulo 2^32: the scalar side |

pub mod gadget;
pub mod lwe;
pub mod noise;
pub mod params;
pub mod ring;
pub mod sample;
pub mod security;
