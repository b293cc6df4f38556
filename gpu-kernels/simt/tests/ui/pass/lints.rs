//! The expansion is clean under the lints that the workspace denies, and more.

#![deny(warnings, missing_docs, unused, unreachable_pub, rust_2018_idioms)]
#![deny(missing_debug_implementations, missing_copy_implementations, single_use_lifetimes, trivial_casts)]
#![deny(elided_lifetimes_in_paths, let_underscore_drop, unused_qualifications, unused_results)]

use simt::prelude::*;

/// Public, with everything.
#[kernel(
    block = 32 << LOG,
    variants(LOG = [0, 1], SIGNED = [true, false]),
    when = LOG > 0 || SIGNED,
    min_blocks = 1 + LOG,
    shared = size_of::<u64>() << LOG,
    requires((a.len() > 0), n < 1 << LOG),
)]
pub fn public<const LOG: u32, const SIGNED: bool>(a: Global<u32>, mut b: GlobalMut<u32>, n: u32) {
    b = b.offset(0);
    b.write(n as usize, if SIGNED { a.read(0) } else { LOG });
}

#[kernel(block = 32)]
fn private(_unused: GlobalMut<u32>) {}

#[kernel(block = 32)]
fn without_parameters() {}

/// Inside a module.
pub mod inner {
    use simt::{GlobalMut, kernel};

    /// Restricted.
    #[kernel(block = super::THREADS)]
    pub(super) fn restricted(a: GlobalMut<super::Word>, value: Inner) {
        a.write(0, value);
    }

    type Inner = super::Word;

    /// Paths from here.
    #[allow(unused_qualifications)]
    #[kernel(block = self::LANES, requires(a.len() >= self::LANES as usize))]
    pub(crate) fn from_here(a: GlobalMut<self::Inner>) {
        a.write(0, 1);
    }

    const LANES: u32 = 32;

    /// Paths written out.
    #[simt::kernel(block = 32)]
    pub(in crate::inner) fn in_path(a: simt::Global<u32>) {
        let _ = a.read(0);
    }
}

const THREADS: usize = 64;
type Word = u64;

fn main() {}
