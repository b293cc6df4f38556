//! The ceiling kernels on the emulator: they must compute what they are said to, or they measure nothing.

use crate::harness::{self, Buffer, Emulator};
use gpu_kernels::ceilings::{
    BLOCK, ceiling_clmad, ceiling_copy, ceiling_imad_wide, ceiling_l2_read, ceiling_mma,
    ceiling_read, reference,
};
use simt::emulator::Mode;
use simt::launch::Grid;
use simt::{U32x4, U64x2};

fn vectors(seed: u64, len: usize) -> Vec<U32x4> {
    let words = harness::words(&mut harness::random(seed), 4 * len);
    words
        .chunks_exact(4)
        .map(|four| U32x4([four[0], four[1], four[2], four[3]]))
        .collect()
}

/// Sizes around a tile of eight vectors a thread.
const SIZES: [usize; 6] = [0, 1, BLOCK + 7, 8 * BLOCK - 1, 8 * BLOCK, 17 * BLOCK + 3];

#[test]
fn read_adds_every_word_once() {
    for mode in harness::modes() {
        for n in SIZES {
            for grid in [1, 3] {
                let queue = Emulator(mode);
                let source = vectors(n as u64, n);
                let device_source = queue.upload(&source);
                let mut sum = queue.upload(&[5u32]);
                ceiling_read::launch(
                    &queue,
                    ceiling_read::Variant,
                    Grid::x(grid),
                    &device_source,
                    &mut sum,
                    n as u64,
                )
                .unwrap();
                assert_eq!(
                    sum.download(),
                    [reference::read(&source).wrapping_add(5)],
                    "{mode:?}, n = {n}"
                );
            }
        }
    }
}

#[test]
fn l2_read_adds_every_word_once_a_pass() {
    for mode in harness::modes() {
        for n in SIZES {
            for (grid, passes) in [(1, 0), (1, 2), (3, 5)] {
                let queue = Emulator(mode);
                let source = vectors(n as u64, n);
                let device_source = queue.upload(&source);
                let mut sum = queue.upload(&[5u32]);
                ceiling_l2_read::launch(
                    &queue,
                    ceiling_l2_read::Variant,
                    Grid::x(grid),
                    &device_source,
                    &mut sum,
                    n as u64,
                    passes,
                )
                .unwrap();
                let expected = reference::read(&source)
                    .wrapping_mul(passes)
                    .wrapping_add(5);
                assert_eq!(
                    sum.download(),
                    [expected],
                    "{mode:?}, n = {n}, {passes} passes"
                );
            }
        }
    }
}

#[test]
fn copy_copies() {
    for mode in harness::modes() {
        for n in SIZES {
            for grid in [1, 3] {
                let queue = Emulator(mode);
                let source = vectors(n as u64, n);
                let device_source = queue.upload(&source);
                let mut target = queue.uninit(n);
                let variant = ceiling_copy::Variant;
                ceiling_copy::launch(
                    &queue,
                    variant,
                    Grid::x(grid),
                    &device_source,
                    &mut target,
                    n as u64,
                )
                .unwrap();
                assert!(target.download() == source, "{mode:?}, n = {n}");
            }
        }
    }
}

#[test]
fn imad_wide_sums_its_products() {
    for mode in harness::modes() {
        for (items, rounds, grid) in [(1, 0, 1), (300, 1, 1), (700, 5, 2)] {
            let queue = Emulator(mode);
            let mut out: Buffer<u64> = queue.uninit(items);
            let variant = ceiling_imad_wide::Variant;
            ceiling_imad_wide::launch(
                &queue,
                variant,
                Grid::x(grid),
                &mut out,
                items as u32,
                rounds,
            )
            .unwrap();
            let expected: Vec<_> = (0..items as u32)
                .map(|item| reference::imad_wide(item, rounds))
                .collect();
            assert!(
                out.download() == expected,
                "{mode:?}, {items} items, {rounds} rounds"
            );
        }
    }
}

#[test]
fn mma_sums_its_products() {
    for mode in harness::modes() {
        for (items, rounds, grid) in [(1, 0, 1), (9, 1, 1), (20, 3, 2)] {
            let queue = Emulator(mode);
            let mut out: Buffer<u32> = queue.uninit(32 * items);
            let variant = ceiling_mma::Variant;
            ceiling_mma::launch(
                &queue,
                variant,
                Grid::x(grid),
                &mut out,
                items as u32,
                rounds,
            )
            .unwrap();
            let expected: Vec<_> = (0..items as u32)
                .flat_map(|item| reference::mma(item, rounds))
                .collect();
            assert!(
                out.download() == expected,
                "{mode:?}, {items} items, {rounds} rounds"
            );
        }
    }
}

#[test]
fn clmad_sums_its_products() {
    for mode in harness::modes() {
        for (items, rounds, grid) in [(1, 0, 1), (300, 1, 1), (700, 5, 2)] {
            let queue = Emulator(mode);
            let mut out: Buffer<U64x2> = queue.uninit(items);
            let variant = ceiling_clmad::Variant;
            ceiling_clmad::launch(
                &queue,
                variant,
                Grid::x(grid),
                &mut out,
                items as u32,
                rounds,
            )
            .unwrap();
            let expected: Vec<_> = (0..items as u32)
                .map(|item| U64x2(reference::clmad(item, rounds)))
                .collect();
            assert!(
                out.download() == expected,
                "{mode:?}, {items} items, {rounds} rounds"
            );
        }
    }
}

#[test]
fn wrong_launches_are_refused() {
    let queue = Emulator(Mode::Fast);
    let source = queue.upload(&vectors(1, 10));
    let mut sum = queue.upload(&[0u32]);
    let result = ceiling_read::launch(
        &queue,
        ceiling_read::Variant,
        Grid::x(1),
        &source,
        &mut sum,
        11,
    );
    assert!(harness::refusal(result).contains("n <= source.len()"));
    let mut none: Buffer<u32> = queue.uninit(0);
    let result = ceiling_read::launch(
        &queue,
        ceiling_read::Variant,
        Grid::x(1),
        &source,
        &mut none,
        10,
    );
    assert!(harness::refusal(result).contains("sum.len() >= 1"));
    let mut short: Buffer<U32x4> = queue.uninit(9);
    let result = ceiling_copy::launch(
        &queue,
        ceiling_copy::Variant,
        Grid::x(1),
        &source,
        &mut short,
        10,
    );
    assert!(harness::refusal(result).contains("n <= target.len()"));
    let mut out: Buffer<u32> = queue.uninit(63);
    let result = ceiling_mma::launch(&queue, ceiling_mma::Variant, Grid::x(1), &mut out, 2, 1);
    assert!(harness::refusal(result).contains("items as usize * 32 <= out.len()"));
    let mut out: Buffer<u64> = queue.uninit(1);
    let result = ceiling_imad_wide::launch(
        &queue,
        ceiling_imad_wide::Variant,
        Grid::x(1),
        &mut out,
        2,
        1,
    );
    assert!(harness::refusal(result).contains("items as usize <= out.len()"));
    let mut out: Buffer<U64x2> = queue.uninit(1);
    let result = ceiling_clmad::launch(&queue, ceiling_clmad::Variant, Grid::x(1), &mut out, 2, 1);
    assert!(harness::refusal(result).contains("items as usize <= out.len()"));
}
