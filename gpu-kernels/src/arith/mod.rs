//! Arithmetic modulo primes below 2^29: Montgomery and Shoup products, lazy forms, primes and roots of unity.
//!
//! # Ranges
//!
//! A *residue* is a `u32` in `[0, q)`. With `q < 2^29` there are three spare bits in a word, and the *lazy* forms
//! use them: they return the right class in a range that is stated at each function (`[0, 2q)` mostly), and leave the
//! correction to the caller. `8q < 2^32` holds for every modulus, so a sum of lazy values below `8q` does not wrap.
//!
//! Corrections are written as a subtraction and an unsigned minimum ([`sub_min`]): no branch, no secret-dependent
//! time, and one fused instruction on recent GPUs; on CPUs the minimum is made with a mask.
//!
//! # Sources
//!
//! P. Montgomery, *Modular multiplication without trial division*, Math. Comp. 44 (1985); V. Shoup's product with a
//! precomputed quotient and the lazy ranges follow D. Harvey, *Faster arithmetic for number-theoretic transforms*,
//! J. Symb. Comp. 60 (2014).

mod modulus;
pub mod prime;

pub use modulus::{LAZY_PRODUCTS, Modulus, Shoup, sub_min};
