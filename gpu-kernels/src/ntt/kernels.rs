//! The transforms as kernels: a polynomial per block, 16 values per thread.
//!
//! # Passes
//!
//! `RADIX = 2^k`: a pass takes `k` stages at once, with `RADIX` values in registers; one pass that takes the stages left
//! over comes at the end that has the short strides. Between passes the values lie in the block's tile of `N` words, at their own
//! index. The pass with the long strides touches global memory itself, since there neighbouring threads own neighbouring
//! words; at the other end a thread owns a run of words, so there the tile is copied, 16 bytes a thread.

use simt::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use simt::launch::{DeviceRef, Grid};
use simt::prelude::*;

use super::butterfly::{
    cooley_tukey, finish, forward_corrects, gentleman_sande, gentleman_sande_last,
};
use crate::arith::{Modulus, Shoup};

/// log2 of the values that a thread owns.
const LOG_PER_THREAD: usize = 4;

/// Values that a thread owns.
const PER_THREAD: usize = 1 << LOG_PER_THREAD;

/// The grid of a batch `[batch][primes][N]`: a block for each polynomial.
///
/// `None` if a grid does not reach that far (2^31 - 1 blocks) or the batch is empty: then there is nothing to launch.
#[cfg(not(target_arch = "nvptx64"))]
pub fn grid(batch: usize, primes: usize) -> Option<Grid> {
    let blocks = u32::try_from(batch.checked_mul(primes)?).ok()?;
    (1..=i32::MAX as u32)
        .contains(&blocks)
        .then_some(Grid::x(blocks))
}

/// Whether a buffer starts where 16-byte accesses may.
#[cfg(not(target_arch = "nvptx64"))]
fn aligned<T, B: DeviceRef<T> + ?Sized>(buffer: &B) -> bool {
    buffer.raw().address.is_multiple_of(16)
}

/// `count` factors from `first` on, a power of two of them: pairs come 16 bytes at a time.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn level<const RADIX: usize>(factors: Global<Shoup>, first: usize, count: usize) -> [Shoup; RADIX] {
    let mut level = [Shoup::default(); RADIX];
    if count == 1 {
        level[0] = factors.read_nc(first);
        return level;
    }
    // A level of more than one factor starts at an even index.
    for pair in 0..RADIX / 2 {
        if 2 * pair < count {
            let [f0, q0, f1, q1] = factors.cast::<U32x4>().read_nc(first / 2 + pair).0;
            level[2 * pair] = Shoup {
                factor: f0,
                quotient: q0,
            };
            level[2 * pair + 1] = Shoup {
                factor: f1,
                quotient: q1,
            };
        }
    }
    level
}

/// A group of a pass: the `RADIX` values of one thread, `1 << shift` words apart.
struct Group {
    /// Index of its block among the `2^first` blocks of the pass' first stage.
    block: usize,
    /// Index of its first value in the polynomial.
    base: usize,
}

impl Group {
    /// Group `index` of a pass of `levels` stages.
    #[inline(always)]
    fn new(index: usize, levels: usize, shift: usize) -> Self {
        let block = index >> shift;
        Group {
            block,
            base: (block << (shift + levels)) | (index & ((1 << shift) - 1)),
        }
    }
}

/// The two inputs of butterfly `b` (of `RADIX / 2`) at level `l`, and the node whose factor it takes.
#[inline(always)]
const fn pair<const RADIX: usize>(b: usize, l: usize) -> (usize, usize, usize) {
    let half = RADIX >> (l + 1);
    let node = b / half;
    let upper = node * 2 * half + b % half;
    (upper, upper + half, node)
}

/// Stages `first .. first + log2 RADIX` of the forward transform, for this thread's groups.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn forward_pass<const LOG_N: usize, const RADIX: usize>(
    q: Modulus,
    factors: Global<Shoup>,
    first: usize,
    read: impl Fn(usize) -> u32,
    write: impl Fn(usize, u32),
) {
    let levels = RADIX.trailing_zeros() as usize;
    let shift = LOG_N - first - levels;
    for g in 0..PER_THREAD / RADIX {
        let index = thread::thread_idx_x() as usize + g * (1 << LOG_N) / PER_THREAD;
        let group = Group::new(index, levels, shift);
        let mut v = [0; RADIX];
        for r in 0..RADIX {
            v[r] = read(group.base + (r << shift));
        }
        for l in 0..levels {
            let w = level::<RADIX>(factors, (1 << (first + l)) + (group.block << l), 1 << l);
            for b in 0..RADIX / 2 {
                let (x, y, node) = pair::<RADIX>(b, l);
                if forward_corrects(first + l) {
                    v[x] = q.below_4q(v[x]);
                }
                (v[x], v[y]) = cooley_tukey(q, v[x], v[y], w[node]);
            }
        }
        for r in 0..RADIX {
            write(group.base + (r << shift), v[r]);
        }
    }
}

/// Stages `first .. first + log2 RADIX` of the inverse transform, the highest first, for this thread's groups.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn inverse_pass<const LOG_N: usize, const RADIX: usize>(
    q: Modulus,
    factors: Global<Shoup>,
    first: usize,
    read: impl Fn(usize) -> u32,
    write: impl Fn(usize, u32),
) {
    let levels = RADIX.trailing_zeros() as usize;
    let shift = LOG_N - first - levels;
    for g in 0..PER_THREAD / RADIX {
        let index = thread::thread_idx_x() as usize + g * (1 << LOG_N) / PER_THREAD;
        let group = Group::new(index, levels, shift);
        let mut v = [0; RADIX];
        for r in 0..RADIX {
            v[r] = read(group.base + (r << shift));
        }
        for l in (0..levels).rev() {
            let w = level::<RADIX>(factors, (1 << (first + l)) + (group.block << l), 1 << l);
            let last = first + l == 0;
            // Entry 0 of the table is 1/N.
            let scale = if last {
                factors.read_nc(0)
            } else {
                Shoup::default()
            };
            for b in 0..RADIX / 2 {
                let (x, y, node) = pair::<RADIX>(b, l);
                (v[x], v[y]) = if last {
                    gentleman_sande_last(q, v[x], v[y], scale, w[node])
                } else {
                    gentleman_sande(q, v[x], v[y], w[node])
                };
            }
        }
        for r in 0..RADIX {
            write(group.base + (r << shift), v[r]);
        }
    }
}

/// `to[i] = f(from[i])` for the whole tile, 16 bytes at a time.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn copy<const LOG_N: usize>(read: impl Fn(usize) -> U32x4, write: impl Fn(usize, U32x4)) {
    for c in 0..PER_THREAD / 4 {
        let i = thread::thread_idx_x() as usize + c * (1 << LOG_N) / PER_THREAD;
        write(i, read(i));
    }
}

/// The forward transform of one polynomial.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn forward<const LOG_N: usize, const RADIX: usize>(
    q: Modulus,
    factors: Global<Shoup>,
    data: GlobalMut<u32>,
    tile: Shared<u32>,
) {
    let levels = RADIX.trailing_zeros() as usize;
    let mut first = 0;
    while first < LOG_N {
        let read = |i| {
            if first == 0 {
                data.as_const().read(i)
            } else {
                tile.read(i)
            }
        };
        let write = |i, x| tile.write(i, x);
        match LOG_N - first {
            left if left >= levels => forward_pass::<LOG_N, RADIX>(q, factors, first, read, write),
            3 => forward_pass::<LOG_N, 8>(q, factors, first, read, write),
            2 => forward_pass::<LOG_N, 4>(q, factors, first, read, write),
            _ => forward_pass::<LOG_N, 2>(q, factors, first, read, write),
        }
        thread::sync_threads();
        first += levels;
    }
    copy::<LOG_N>(
        |i| U32x4(tile.cast::<U32x4>().read(i).0.map(|x| finish(q, x))),
        |i, x| data.cast::<U32x4>().write(i, x),
    );
}

/// The inverse transform of one polynomial.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn inverse<const LOG_N: usize, const RADIX: usize>(
    q: Modulus,
    factors: Global<Shoup>,
    data: GlobalMut<u32>,
    tile: Shared<u32>,
) {
    let levels = RADIX.trailing_zeros() as usize;
    copy::<LOG_N>(
        |i| data.as_const().cast::<U32x4>().read(i),
        |i, x| tile.cast::<U32x4>().write(i, x),
    );
    // The passes of the forward transform, the last one first.
    let mut end = LOG_N.div_ceil(levels) * levels;
    while end > 0 {
        thread::sync_threads();
        let first = end - levels;
        let read = |i| tile.read(i);
        let write = |i, x| {
            if first == 0 {
                data.write(i, x);
            } else {
                tile.write(i, x);
            }
        };
        match LOG_N - first {
            left if left >= levels => inverse_pass::<LOG_N, RADIX>(q, factors, first, read, write),
            3 => inverse_pass::<LOG_N, 8>(q, factors, first, read, write),
            2 => inverse_pass::<LOG_N, 4>(q, factors, first, read, write),
            _ => inverse_pass::<LOG_N, 2>(q, factors, first, read, write),
        }
        end = first;
    }
}

/// Entry points that transform each polynomial of a batch in place. They differ in direction alone.
macro_rules! transforms {
    ($($(#[doc = $doc:literal])+ $name:ident = $one:ident;)+) => {$(
        $(#[doc = $doc])+
        #[kernel(
            block = 1 << (LOG_N - LOG_PER_THREAD),
            variants(LOG_N = [10, 11, 12, 13, 14], RADIX = [2, 4, 16]),
            shared = 4 << LOG_N,
            requires(
                primes > 0 && grid.x % primes == 0 && grid.y == 1 && grid.z == 1,
                moduli.len() == primes as usize,
                factors.len() == moduli.len() << LOG_N,
                data.len() == (grid.x as usize) << LOG_N,
                aligned(data) && aligned(factors) && aligned(moduli),
            )
        )]
        pub fn $name<const LOG_N: usize, const RADIX: usize>(
            data: GlobalMut<u32>,
            factors: Global<Shoup>,
            moduli: Global<Modulus>,
            primes: u32,
        ) {
            let tile = Shared::<u32>::dynamic(0);
            let polynomial = thread::block_idx_x();
            let prime = (polynomial % primes) as usize;
            let q = moduli.read_nc(prime);
            let factors = factors.offset(prime << LOG_N);
            let data = data.offset((polynomial as usize) << LOG_N);
            $one::<LOG_N, RADIX>(q, factors, data, tile);
        }
    )+};
}

transforms! {
    /// Transforms each polynomial of `data`, `[batch][primes][N]`, in place: values below `4q` in natural order to residues in
    /// bit-reversed order.
    ///
    /// `factors` is `TwiddleTable::forward`, `moduli` `TwiddleTable::moduli`, and [`grid`](fn@grid) says over which grid.
    ntt_forward = forward;

    /// Transforms each polynomial of `data`, `[batch][primes][N]`, back, in place: values below `4q` in bit-reversed order to
    /// residues in natural order, with the factor `1/N`.
    ///
    /// `factors` is `TwiddleTable::inverse`, `moduli` `TwiddleTable::moduli`, and [`grid`](fn@grid) says over which grid.
    ntt_inverse = inverse;
}
