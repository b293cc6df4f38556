//! The kernels of GF(2^128) on the emulator, against products from the definition.

use crate::harness::{self, Buffer, Emulator};
use gpu_kernels::gf128::{
    Ghash, Polyval, gf128_mul, gf128_mul_add, polyval_mul, polyval_mul_add, reference,
};
use proptest::prelude::*;
use rand_chacha::rand_core::Rng;
use simt::emulator::Mode;
use simt::launch::Grid;

/// `len` sets of bits; the first ones where reductions begin and end.
fn bits(seed: u64, len: usize) -> Vec<u128> {
    let mut random = harness::random(seed);
    let edges = [
        0,
        1,
        2,
        0x87,
        u128::MAX,
        1 << 127,
        1 << 64,
        1 << 63,
        0xC2 << 120 | 1,
        u64::MAX as u128,
    ];
    let skip = seed as usize % edges.len();
    let random = std::iter::repeat_with(move || {
        u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
    });
    edges
        .into_iter()
        .cycle()
        .skip(skip)
        .take(edges.len())
        .chain(random)
        .take(len)
        .collect()
}

/// The same tests for each representation.
macro_rules! kernel_suite {
    ($suite:ident, $field:ty, $mul:ident, $mul_add:ident, $reference:path) => {
        mod $suite {
            use super::*;

            fn elements(seed: u64, len: usize) -> Vec<$field> {
                bits(seed, len).into_iter().map(<$field>::from_u128).collect()
            }

            fn try_mul(mode: Mode, variant: $mul::Variant, grid: u32, n: usize, seed: u64) {
                let queue = Emulator(mode);
                let (a, b) = (elements(seed, n), elements(seed + 3, n));
                let mut c: Buffer<$field> = queue.uninit(n);
                let (device_a, device_b) = (queue.upload(&a), queue.upload(&b));
                $mul::launch(&queue, variant, Grid::x(grid), &device_a, &device_b, &mut c, n as u64).unwrap();
                let expected: Vec<_> = a.iter().zip(&b).map(|(&a, &b)| $reference(a, b)).collect();
                assert!(c.download() == expected, "{mode:?}, {variant:?}, n = {n}");
            }

            fn try_mul_add(mode: Mode, variant: $mul_add::Variant, grid: u32, n: usize, terms: usize, seed: u64) {
                let queue = Emulator(mode);
                let (a, b) = (elements(seed, n * terms), elements(seed + 3, n * terms));
                let before = elements(seed + 6, n);
                let mut c = queue.upload(&before);
                let (device_a, device_b) = (queue.upload(&a), queue.upload(&b));
                let (size, count) = (n as u64, terms as u32);
                $mul_add::launch(&queue, variant, Grid::x(grid), &device_a, &device_b, &mut c, size, count).unwrap();
                let expected: Vec<_> = (0..n)
                    .map(|i| {
                        let products = (0..terms).map(|t| $reference(a[t * n + i], b[t * n + i]));
                        products.fold(before[i], |sum, product| sum + product)
                    })
                    .collect();
                assert!(c.download() == expected, "{mode:?}, {variant:?}, n = {n}, terms = {terms}");
            }

            #[test]
            fn every_variant_in_every_mode() {
                for mode in harness::modes() {
                    for seed in 0..3 {
                        for &variant in $mul::Variant::ALL {
                            for n in [0, 1, 255, 256, 257, 700] {
                                try_mul(mode, variant, 1 + n as u32 % 3, n, seed);
                            }
                        }
                        for &variant in $mul_add::Variant::ALL {
                            for (n, terms) in [(0, 3), (1, 0), (5, 1), (257, 2), (100, 7)] {
                                try_mul_add(mode, variant, 1 + n as u32 % 3, n, terms, seed);
                            }
                        }
                    }
                }
            }

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(30))]

                #[test]
                fn any_size_any_grid(n in 0..600usize, terms in 0..4usize, grid in 1..5u32, seed in 0..1u64 << 32) {
                    for &variant in $mul::Variant::ALL {
                        try_mul(Mode::Fast, variant, grid, n, seed);
                    }
                    for &variant in $mul_add::Variant::ALL {
                        try_mul_add(Mode::Fast, variant, grid, n, terms, seed);
                    }
                }
            }

            #[test]
            fn wrong_launches_are_refused() {
                let queue = Emulator(Mode::Fast);
                let (a, b) = (queue.upload(&elements(1, 20)), queue.upload(&elements(2, 16)));
                let mut c: Buffer<$field> = queue.upload(&elements(3, 12));
                let variant = $mul::Variant::ALL[0];
                let mut mul = |n| $mul::launch(&queue, variant, Grid::x(1), &a, &b, &mut c, n);
                mul(12).unwrap();
                assert!(harness::refusal(mul(13)).contains("n <= c.len()"));
                assert!(harness::refusal(mul(17)).contains("n <= b.len()"));
                assert!(harness::refusal(mul(21)).contains("n <= a.len()"));
                harness::refusal($mul::launch(&queue, $mul::Variant { method: 3 }, Grid::x(1), &a, &b, &mut c, 1));

                let variant = $mul_add::Variant::ALL[0];
                let mut mul_add = |n, terms| $mul_add::launch(&queue, variant, Grid::x(1), &a, &b, &mut c, n, terms);
                mul_add(8, 2).unwrap();
                assert!(harness::refusal(mul_add(9, 2)).contains("has_terms(b.len(), n, terms)"));
                assert!(harness::refusal(mul_add(11, 2)).contains("has_terms(a.len(), n, terms)"));
                assert!(harness::refusal(mul_add(u64::MAX / 2 + 1, 2)).contains("has_terms"));
                assert!(harness::refusal(mul_add(13, 1)).contains("n <= c.len()"));
            }
        }
    };
}
kernel_suite!(
    natural_order,
    Ghash,
    gf128_mul,
    gf128_mul_add,
    reference::ghash
);
kernel_suite!(
    rfc_8452,
    Polyval,
    polyval_mul,
    polyval_mul_add,
    reference::polyval
);
