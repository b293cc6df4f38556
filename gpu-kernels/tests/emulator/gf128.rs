//! The kernels of GF(2^128) on the emulator, against products from the definition.

use crate::harness::{self, Buffer, Emulator};
use gpu_kernels::gf128::{
    Ghash, Polyval, gf128_matmul, gf128_mul, gf128_mul_add, gf128_mul_bitsliced, polyval_mul,
    polyval_mul_add, reference,
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
                harness::refusal($mul::launch(&queue, $mul::Variant { method: 9 }, Grid::x(1), &a, &b, &mut c, 1));

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

#[test]
fn bit_planes_give_the_product_in_every_mode() {
    for mode in harness::modes() {
        for (n, grid) in [(0, 1), (1, 1), (31, 2), (32, 1), (33, 3), (700, 2)] {
            let queue = Emulator(mode);
            let elements =
                |seed| -> Vec<Ghash> { bits(seed, n).into_iter().map(Ghash::from_u128).collect() };
            let (a, b) = (elements(1), elements(4));
            let mut c: Buffer<Ghash> = queue.uninit(n);
            gf128_mul_bitsliced::launch(
                &queue,
                gf128_mul_bitsliced::Variant,
                Grid::x(grid),
                &queue.upload(&a),
                &queue.upload(&b),
                &mut c,
                n as u64,
            )
            .unwrap();
            let expected: Vec<_> = a
                .iter()
                .zip(&b)
                .map(|(&a, &b)| reference::ghash(a, b))
                .collect();
            assert!(c.download() == expected, "{mode:?}, n = {n}");
        }
    }
}

/// Every pair of monomials: each plane of each factor alone.
#[test]
fn bit_planes_give_the_product_of_all_monomials() {
    let queue = Emulator(Mode::Fast);
    let n = 128 * 128;
    let monomials = |exponent: fn(usize) -> usize| -> Vec<Ghash> {
        (0..n).map(|i| Ghash::from_u128(1 << exponent(i))).collect()
    };
    let (a, b) = (monomials(|i| i / 128), monomials(|i| i % 128));
    let mut c: Buffer<Ghash> = queue.uninit(n);
    gf128_mul_bitsliced::launch(
        &queue,
        gf128_mul_bitsliced::Variant,
        Grid::x(8),
        &queue.upload(&a),
        &queue.upload(&b),
        &mut c,
        n as u64,
    )
    .unwrap();
    for (i, product) in c.download().into_iter().enumerate() {
        assert_eq!(
            product,
            reference::ghash(a[i], b[i]),
            "x^{} x^{}",
            i / 128,
            i % 128
        );
    }
}

#[test]
fn matrices_multiply_in_every_mode() {
    let shapes = [
        (0, 3, 5),
        (1, 0, 1),
        (1, 1, 1),
        (16, 8, 64),
        (17, 25, 65),
        (5, 16, 130),
        (33, 2, 0),
    ];
    for mode in harness::modes() {
        for &variant in gf128_matmul::Variant::ALL {
            for (rows, terms, n) in shapes {
                for grid in [1, 3] {
                    let queue = Emulator(mode);
                    let elements = |seed, len| -> Vec<Ghash> {
                        bits(seed, len).into_iter().map(Ghash::from_u128).collect()
                    };
                    let (a, b) = (elements(1, rows * terms), elements(4, terms * n));
                    let before = elements(7, rows * n);
                    let mut c = queue.upload(&before);
                    gf128_matmul::launch(
                        &queue,
                        variant,
                        Grid::x(grid),
                        &queue.upload(&a),
                        &queue.upload(&b),
                        &mut c,
                        rows as u32,
                        terms as u32,
                        n as u64,
                    )
                    .unwrap();
                    let expected: Vec<_> = (0..rows * n)
                        .map(|i| {
                            let (row, column) = (i / n, i % n);
                            (0..terms).fold(before[i], |sum, t| {
                                sum + reference::ghash(a[row * terms + t], b[t * n + column])
                            })
                        })
                        .collect();
                    assert!(
                        c.download() == expected,
                        "{mode:?}, {variant:?}, {rows} x {terms} x {n}, {grid} blocks"
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_matrices_are_refused() {
    let queue = Emulator(Mode::Fast);
    let elements = |len| queue.upload(&vec![Ghash::default(); len]);
    let (a, b, mut c) = (elements(6), elements(8), elements(12));
    let variant = gf128_matmul::Variant::ALL[0];
    let mut launch = |rows, terms, n| {
        gf128_matmul::launch(&queue, variant, Grid::x(1), &a, &b, &mut c, rows, terms, n)
    };
    launch(3, 2, 4).unwrap();
    assert!(harness::refusal(launch(4, 2, 3)).contains("has_terms(a.len()"));
    assert!(harness::refusal(launch(2, 3, 3)).contains("has_terms(b.len()"));
    assert!(harness::refusal(launch(4, 1, 4)).contains("has_terms(c.len()"));
    assert!(harness::refusal(launch(1, 2, u64::MAX)).contains("has_terms"));
}
