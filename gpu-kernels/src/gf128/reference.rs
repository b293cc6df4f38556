//! GF(2^128) from the definition: polynomials multiplied and reduced bit by bit. Slow, and nothing
//! to get wrong.

use super::{Ghash, Polyval};

/// x^7 + x^2 + x + 1: the modulus of [`Ghash`] without its x^128.
const GHASH_MODULUS: u128 = 0x87;
/// x^127 + x^126 + x^121 + 1: the modulus of [`Polyval`] without its x^128.
const POLYVAL_MODULUS: u128 = 1 << 127 | 1 << 126 | 1 << 121 | 1;

/// The low and high 128 bits of the carry-less product.
#[must_use]
pub fn carryless(a: u128, b: u128) -> (u128, u128) {
    let (mut low, mut high) = (0, 0);
    for i in 0..128 {
        if b >> i & 1 == 1 {
            low ^= a << i;
            if i > 0 {
                high ^= a >> (128 - i);
            }
        }
    }
    (low, high)
}

/// `a * b` in the natural order.
#[must_use]
pub fn ghash(a: Ghash, b: Ghash) -> Ghash {
    let (mut low, mut high) = carryless(a.to_u128(), b.to_u128());
    for i in (0..128).rev() {
        if high >> i & 1 == 1 {
            // x^(128 + i) = x^i * modulus; the part at and above x^128 goes back into bits below i.
            low ^= GHASH_MODULUS << i;
            if i > 0 {
                high ^= GHASH_MODULUS >> (128 - i);
            }
        }
    }
    Ghash::from_u128(low)
}

/// dot(a, b) = a b x^-128.
#[must_use]
pub fn polyval(a: Polyval, b: Polyval) -> Polyval {
    let (mut low, mut high) = carryless(a.to_u128(), b.to_u128());
    for _ in 0..128 {
        // Divide by x: where the constant term is set, add the modulus first, x^128 included.
        if low & 1 == 1 {
            low ^= POLYVAL_MODULUS;
            high ^= 1;
        }
        low = low >> 1 | high << 127;
        high >>= 1;
    }
    Polyval::from_u128(low)
}
