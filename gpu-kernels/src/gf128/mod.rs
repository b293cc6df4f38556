//! The field of 2^128 elements, in the two representations that cryptography uses.
//!
//! | type | modulus | bit `i` of the integer | product | bytes |
//! | --- | --- | --- | --- | --- |
//! | [`Ghash`] | x^128 + x^7 + x^2 + x + 1 | x^i | a b | little-endian `u128` |
//! | [`Polyval`] | x^128 + x^127 + x^126 + x^121 + 1 | x^i | dot(a, b) = a b x^-128 | the same |
//!
//! They are two types and mix only through conversions. `Ghash` is the natural order of sum-check
//! and of the binary-field provers; `Polyval` is the Montgomery form that RFC 8452 standardises,
//! and the cheapest way to compute GHASH (SP 800-38D), whose blocks it takes by reversing bytes
//! alone: see [`Polyval::from_gcm_key`] and [`Polyval::from_gcm_block`]. `Polyval::from(Ghash)` is
//! the isomorphism between the two fields, as products go over into products. The Fan-Paar tower is
//! a third representation, and not this one: there 2 * 3 = 1, here 2 * 3 = 6.
//!
//! # Methods
//!
//! A product is made by one of five [`method`]s, which give the same bits, or bit-sliced by
//! [`gf128_mul_bitsliced`](fn@gf128_mul_bitsliced). A sum of products stays [`Unreduced`] and is reduced
//! once. On a CPU the operators use the integer method: a fixed
//! sequence of shifts, masks, XORs and 64-bit multiplications, so that no branch and no address
//! depends on the operands. On a GPU they use `clmad`. `==` may stop at the first difference: compare
//! tags as bytes, in constant time.

mod bitsliced;
mod ghash;
mod kernels;
mod polyval;
mod product;
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference;
#[cfg(test)]
mod tests;

pub use bitsliced::gf128_mul_bitsliced;
pub use ghash::Ghash;
pub use kernels::*;
pub use polyval::Polyval;
pub use product::{Field128, Unreduced, method};
