//! Products of vectors of elements, and sums of products with one reduction each.

use simt::kernel;
use simt::prelude::*;

use super::{Field128, Ghash, Polyval, Unreduced};

/// `c[i] = a[i] * b[i]` for `i` below `n`, in the natural order.
///
/// Any grid covers any `n`. `METHOD`: [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2]),
    requires(n <= a.len() as u64, n <= b.len() as u64, n <= c.len() as u64)
)]
pub fn gf128_mul<const METHOD: u32>(
    a: Global<Ghash>,
    b: Global<Ghash>,
    c: GlobalMut<Ghash>,
    n: u64,
) {
    mul::<_, METHOD>(a, b, c, n);
}

/// `c[i] = dot(a[i], b[i])` of RFC 8452 for `i` below `n`.
///
/// Any grid covers any `n`. `METHOD`: [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2]),
    requires(n <= a.len() as u64, n <= b.len() as u64, n <= c.len() as u64)
)]
pub fn polyval_mul<const METHOD: u32>(
    a: Global<Polyval>,
    b: Global<Polyval>,
    c: GlobalMut<Polyval>,
    n: u64,
) {
    mul::<_, METHOD>(a, b, c, n);
}

/// `c[i] += sum over t < terms of a[t n + i] * b[t n + i]` for `i` below `n`, in the natural order.
///
/// The products of a sum stay unreduced until its end. Any grid covers any `n`. `METHOD`:
/// [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2]),
    requires(has_terms(a.len(), n, terms), has_terms(b.len(), n, terms), n <= c.len() as u64)
)]
pub fn gf128_mul_add<const METHOD: u32>(
    a: Global<Ghash>,
    b: Global<Ghash>,
    c: GlobalMut<Ghash>,
    n: u64,
    terms: u32,
) {
    mul_add::<_, METHOD>(a, b, c, n, terms);
}

/// `c[i] += sum over t < terms of dot(a[t n + i], b[t n + i])` for `i` below `n`.
///
/// The products of a sum stay unreduced until its end. Any grid covers any `n`. `METHOD`:
/// [`super::method`].
#[kernel(
    block = 256,
    variants(METHOD = [schoolbook = 0, karatsuba = 1, integer = 2]),
    requires(has_terms(a.len(), n, terms), has_terms(b.len(), n, terms), n <= c.len() as u64)
)]
pub fn polyval_mul_add<const METHOD: u32>(
    a: Global<Polyval>,
    b: Global<Polyval>,
    c: GlobalMut<Polyval>,
    n: u64,
    terms: u32,
) {
    mul_add::<_, METHOD>(a, b, c, n, terms);
}

/// Whether `len` elements are enough for `terms` times `n` of them.
#[cfg(not(target_arch = "nvptx64"))]
fn has_terms(len: usize, n: u64, terms: u32) -> bool {
    n.checked_mul(u64::from(terms))
        .is_some_and(|elements| elements <= len as u64)
}

#[inline(always)]
fn mul<F: Field128, const METHOD: u32>(a: Global<F>, b: Global<F>, c: GlobalMut<F>, n: u64) {
    for i in grid::stride::<1>(n as usize) {
        c.write(i, a.read(i).mul_with::<METHOD>(b.read(i)));
    }
}

#[inline(always)]
fn mul_add<F: Field128, const METHOD: u32>(
    a: Global<F>,
    b: Global<F>,
    c: GlobalMut<F>,
    n: u64,
    terms: u32,
) {
    for i in grid::stride::<1>(n as usize) {
        let mut sum = Unreduced::<F, METHOD>::ZERO;
        let mut at = i;
        for _ in 0..terms {
            sum = sum.add_product(a.read(at), b.read(at));
            at += n as usize;
        }
        c.write(i, c.read(i) + sum.reduce());
    }
}
