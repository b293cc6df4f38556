//! Vector operations modulo one prime: products, sums, and the way into and out of Montgomery form.
//!
//! Each kernel works on `n` words, element by element. Any grid covers any `n`; [`grid`](fn@grid) gives a good one. With
//! `PER_THREAD = 1` a thread reads one word at a time; with 4 it moves 16 bytes, and the last `n mod 4` elements go one by one.
//! The 16-byte variants want buffers that start at a multiple of 16 bytes, as every allocation does; the launch is refused
//! otherwise.
//!
//! Operands are residues, below `q`. Larger ones are taken where the kernel says so; otherwise the result is some word, and
//! nothing worse.

use simt::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use simt::launch::{DeviceRef, Grid};
use simt::prelude::*;

use crate::arith::Modulus;

/// Threads of a block.
const BLOCK: usize = 256;

/// A grid that gives every thread of a `per_thread` variant one step over `n` elements, at most 2^20 blocks.
#[cfg(not(target_arch = "nvptx64"))]
pub fn grid(n: u64, per_thread: usize) -> Grid {
    let blocks = n.div_ceil((BLOCK * per_thread.max(1)) as u64);
    Grid::x(blocks.clamp(1, 1 << 20) as u32)
}

/// Whether a buffer starts where 16-byte accesses may.
#[cfg(not(target_arch = "nvptx64"))]
fn aligned<B: DeviceRef<u32> + ?Sized>(buffer: &B) -> bool {
    buffer.raw().address.is_multiple_of(16)
}

/// `out[i] = f(i-th words of the inputs)` for `i` below `n`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn map<const PER_THREAD: usize, const INPUTS: usize>(
    inputs: [Global<u32>; INPUTS],
    out: GlobalMut<u32>,
    n: u64,
    f: impl Fn([u32; INPUTS]) -> u32,
) {
    let n = n as usize;
    if PER_THREAD == 1 {
        for i in grid::stride::<1>(n) {
            out.write(i, f(inputs.map(|input| input.read(i))));
        }
        return;
    }
    for i in grid::stride::<1>(n / 4) {
        let lanes = inputs.map(|input| input.cast::<U32x4>().read(i).0);
        let mut result = [0; 4];
        for lane in 0..4 {
            result[lane] = f(lanes.map(|vector| vector[lane]));
        }
        out.cast::<U32x4>().write(i, U32x4(result));
    }
    // The ragged end: less than one vector, a word for each of the grid's first threads.
    let i = n / 4 * 4 + grid::global_id();
    if i < n {
        out.write(i, f(inputs.map(|input| input.read(i))));
    }
}

/// Kernels that make a word from the words at its index. They differ in operands and operation; the entry point, what it
/// requires, and its variants are the same. Each line reads: name, operands, output, modulus and operation.
macro_rules! elementwise {
    ($($(#[doc = $doc:literal])+ $name:ident($($input:ident),+) -> $out:ident = |$q:ident| $operation:expr;)+) => {$(
        $(#[doc = $doc])+
        #[kernel(
            block = BLOCK,
            variants(PER_THREAD = [1, 4]),
            requires(
                $q.is_valid(),
                $(n <= $input.len() as u64,)+
                n <= $out.len() as u64,
                PER_THREAD == 1 || ($(aligned($input) &&)+ aligned($out)),
            )
        )]
        pub fn $name<const PER_THREAD: usize>(
            $($input: Global<u32>,)+
            $out: GlobalMut<u32>,
            n: u64,
            $q: Modulus,
        ) {
            map::<PER_THREAD, _>([$($input),+], $out, n, |[$($input),+]| $operation);
        }
    )+};
}

elementwise! {
    /// `c[i] = a[i] * b[i] * 2^-32 mod q`: the Montgomery product. Either operand may be any word if the other is a residue.
    montgomery_mul(a, b) -> c = |q| q.montgomery_mul(a, b);

    /// `d[i] = a[i] * b[i] * 2^-32 + c[i] mod q`: the Montgomery product and a sum.
    montgomery_mul_add(a, b, c) -> d = |q| q.add(q.montgomery_mul(a, b), c);

    /// `c[i] = a[i] + b[i] mod q`, in Montgomery form or not.
    modular_add(a, b) -> c = |q| q.add(a, b);

    /// `c[i] = a[i] - b[i] mod q`, in Montgomery form or not.
    modular_sub(a, b) -> c = |q| q.sub(a, b);

    /// `b[i] = a[i] * 2^32 mod q`: into Montgomery form. `a[i]` may be any word.
    to_montgomery(a) -> b = |q| q.to_montgomery(a);

    /// `b[i] = a[i] * 2^-32 mod q`: out of Montgomery form. `a[i]` may be any word.
    from_montgomery(a) -> b = |q| q.from_montgomery(a);
}

/// The same operations with `%` on wide integers, sharing nothing with the kernels. `q` is an odd prime, `R = 2^32`.
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference {
    /// `R^-1 mod q` by Fermat's little theorem.
    fn r_inverse(q: u64) -> u64 {
        let r = (1u64 << 32) % q;
        (0..64).rev().fold(1, |power, bit| {
            let square = power * power % q;
            if (q - 2) >> bit & 1 == 1 {
                square * r % q
            } else {
                square
            }
        })
    }

    /// `a * b / R mod q`, element by element.
    pub fn montgomery_mul(a: &[u32], b: &[u32], q: u32) -> Vec<u32> {
        let (q, r_inverse) = (u64::from(q), r_inverse(u64::from(q)));
        a.iter()
            .zip(b)
            .map(|(&a, &b)| (u64::from(a) * u64::from(b) % q * r_inverse % q) as u32)
            .collect()
    }

    /// `a * b / R + c mod q`, element by element.
    pub fn montgomery_mul_add(a: &[u32], b: &[u32], c: &[u32], q: u32) -> Vec<u32> {
        modular_add(&montgomery_mul(a, b, q), c, q)
    }

    /// `a + b mod q`, element by element.
    pub fn modular_add(a: &[u32], b: &[u32], q: u32) -> Vec<u32> {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| ((u64::from(a) + u64::from(b)) % u64::from(q)) as u32)
            .collect()
    }

    /// `a - b mod q`, element by element.
    pub fn modular_sub(a: &[u32], b: &[u32], q: u32) -> Vec<u32> {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| (i64::from(a) - i64::from(b)).rem_euclid(i64::from(q)) as u32)
            .collect()
    }

    /// `a * R mod q`, element by element.
    pub fn to_montgomery(a: &[u32], q: u32) -> Vec<u32> {
        a.iter()
            .map(|&a| ((u128::from(a) << 32) % u128::from(q)) as u32)
            .collect()
    }

    /// `a / R mod q`, element by element.
    pub fn from_montgomery(a: &[u32], q: u32) -> Vec<u32> {
        montgomery_mul(a, &vec![1; a.len()], q)
    }
}
