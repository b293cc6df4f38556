//! The byte product's kernels on the emulator, against exact arithmetic.

use crate::harness::{self, Buffer, Emulator};
use gpu_kernels::byte_product::{MATMUL_ROWS, Shape, byte_matmul, byte_matvec, reference};
use proptest::prelude::*;
use simt::emulator::Mode;
use simt::launch::Grid;

/// Inputs of a shape, fill included, which is random too: it must have no influence.
fn inputs(shape: Shape, seed: u64) -> (Vec<u8>, Vec<u32>) {
    let mut random = harness::random(seed);
    let database = harness::bytes(&mut random, shape.database_len() as usize);
    (
        database,
        harness::words(&mut random, shape.x_len() as usize),
    )
}

/// A shape whose strides are larger than they have to be, by as much as `seed` says.
fn loose(rows: u32, inner: u32, columns: u32, seed: u64) -> Shape {
    let shape = Shape::packed(rows, inner, columns).unwrap();
    let slack = |shift: u32| (seed >> shift) as u32 % 3;
    Shape {
        database_stride: shape.database_stride + 16 * slack(0),
        x_stride: shape.x_stride + 4 * slack(2),
        y_stride: shape.y_stride + slack(4),
        ..shape
    }
}

/// What a run must leave in `Y`: the product, and what was there before where `Y` has fill.
fn expected(signed: bool, database: &[u8], x: &[u32], shape: Shape, before: &[u32]) -> Vec<u32> {
    let product = reference::product(signed, database, x, shape);
    let is_fill = |i: usize| i % shape.y_stride as usize >= shape.rows as usize;
    (0..product.len())
        .map(|i| if is_fill(i) { before[i] } else { product[i] })
        .collect()
}

/// Runs `launch` on inputs of `shape` and compares.
fn try_product(
    mode: Mode,
    signed: bool,
    shape: Shape,
    seed: u64,
    launch: impl FnOnce(&Emulator, &Buffer<u8>, &Buffer<u32>, &mut Buffer<u32>),
) {
    let (database, x) = inputs(shape, seed);
    try_product_of(mode, signed, shape, &database, &x, launch);
}

fn try_product_of(
    mode: Mode,
    signed: bool,
    shape: Shape,
    database: &[u8],
    x: &[u32],
    launch: impl FnOnce(&Emulator, &Buffer<u8>, &Buffer<u32>, &mut Buffer<u32>),
) {
    let queue = Emulator(mode);
    let before = harness::words(&mut harness::random(99), shape.y_len() as usize);
    let mut y = queue.upload(&before);
    launch(&queue, &queue.upload(database), &queue.upload(x), &mut y);
    let expected = expected(signed, database, x, shape, &before);
    assert!(
        y.download() == expected,
        "{mode:?}, signed {signed}, {shape:?}"
    );
}

fn matvec(mode: Mode, variant: byte_matvec::Variant, grid: u32, shape: Shape, seed: u64) {
    try_product(
        mode,
        variant.signed,
        shape,
        seed,
        |queue, database, x, y| {
            byte_matvec::launch(queue, variant, Grid::x(grid), database, x, y, shape).unwrap();
        },
    );
}

fn matmul(mode: Mode, variant: byte_matmul::Variant, grid: u32, shape: Shape, seed: u64) {
    try_product(
        mode,
        variant.signed,
        shape,
        seed,
        |queue, database, x, y| {
            byte_matmul::launch(queue, variant, Grid::x(grid), database, x, y, shape).unwrap();
        },
    );
}

#[test]
fn matvec_of_ragged_sizes() {
    for mode in harness::modes() {
        for &variant in byte_matvec::Variant::ALL {
            for (seed, &(rows, inner)) in [
                (1, 1),
                (1, 0),
                (3, 15),
                (4, 16),
                (8, 17),
                (9, 512),
                (37, 513),
                (70, 700),
            ]
            .iter()
            .enumerate()
            {
                let seed = seed as u64 * 37 + 5;
                matvec(
                    mode,
                    variant,
                    1 + rows % 3,
                    loose(rows, inner, 1, seed),
                    seed,
                );
            }
        }
    }
}

#[test]
fn matmul_of_ragged_sizes() {
    let sizes = [
        (1, 1, 1),
        (1, 0, 1),
        (7, 16, 2),
        (8, 31, 8),
        (33, 64, 9),
        (40, 65, 31),
        (MATMUL_ROWS, 130, 32),
        (MATMUL_ROWS + 5, 513, 33),
    ];
    for mode in harness::modes() {
        for &variant in byte_matmul::Variant::ALL {
            for (seed, &(rows, inner, columns)) in sizes.iter().enumerate() {
                let seed = seed as u64 * 41 + 7;
                matmul(
                    mode,
                    variant,
                    1 + columns % 3,
                    loose(rows, inner, columns, seed),
                    seed,
                );
            }
        }
    }
}

/// Sums of 2^16 equal terms, a row for each byte and a column for each word: the largest are far
/// over 32 bits, so that the accumulators wrap.
#[test]
fn extremes_over_65536_inner_positions() {
    const INNER: u32 = 1 << 16;
    let bytes = [0, 1, 127, 128, 255];
    let words = [0, 1, 255, u32::MAX];
    let database: Vec<u8> = bytes
        .iter()
        .flat_map(|&byte| vec![byte; INNER as usize])
        .collect();
    let x: Vec<u32> = words
        .iter()
        .flat_map(|&word| vec![word; INNER as usize])
        .collect();

    for &variant in byte_matvec::Variant::ALL {
        for x in x.chunks_exact(INNER as usize) {
            let shape = Shape::packed(bytes.len() as u32, INNER, 1).unwrap();
            try_product_of(
                Mode::Fast,
                variant.signed,
                shape,
                &database,
                x,
                |queue, database, x, y| {
                    byte_matvec::launch(queue, variant, Grid::x(1), database, x, y, shape).unwrap();
                },
            );
        }
    }
    for &variant in byte_matmul::Variant::ALL {
        let shape = Shape::packed(bytes.len() as u32, INNER, words.len() as u32).unwrap();
        try_product_of(
            Mode::Fast,
            variant.signed,
            shape,
            &database,
            &x,
            |queue, database, x, y| {
                byte_matmul::launch(queue, variant, Grid::x(1), database, x, y, shape).unwrap();
            },
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn matvec_is_the_product(
        variant in prop::sample::select(byte_matvec::Variant::ALL),
        (rows, inner) in (1..100u32, 0..1500u32),
        grid in 1..4u32,
        seed: u64,
    ) {
        matvec(Mode::Fast, variant, grid, loose(rows, inner, 1, seed), seed);
    }

    #[test]
    fn matmul_is_the_product(
        variant in prop::sample::select(byte_matmul::Variant::ALL),
        (rows, inner, columns) in (1..300u32, 0..700u32, 1..70u32),
        grid in 1..4u32,
        seed: u64,
    ) {
        matmul(Mode::Fast, variant, grid, loose(rows, inner, columns, seed), seed);
    }
}

#[test]
fn nothing_to_do_is_done() {
    for shape in [
        Shape::packed(0, 16, 1).unwrap(),
        Shape::packed(0, 0, 1).unwrap(),
    ] {
        matvec(
            Mode::Checked { seed: 1 },
            byte_matvec::Variant::ALL[0],
            1,
            shape,
            1,
        );
        matmul(
            Mode::Checked { seed: 1 },
            byte_matmul::Variant::ALL[0],
            1,
            shape,
            1,
        );
    }
    let shape = Shape::packed(5, 16, 0).unwrap();
    matmul(
        Mode::Checked { seed: 1 },
        byte_matmul::Variant::ALL[0],
        1,
        shape,
        1,
    );
}

#[test]
fn wrong_launches_are_refused() {
    let queue = Emulator(Mode::Fast);
    let good = Shape::packed(3, 40, 5).unwrap();
    let (database, x) = inputs(good, 1);
    let (database, x) = (queue.upload(&database), queue.upload(&x));
    let mut y = queue.uninit::<u32>(good.y_len() as usize);
    let variant = byte_matmul::Variant::ALL[0];
    let mut launch = |shape: Shape| {
        byte_matmul::launch(&queue, variant, Grid::x(1), &database, &x, &mut y, shape)
    };

    launch(good).unwrap();
    for (shape, reason) in [
        (
            Shape {
                database_stride: 40,
                ..good
            },
            "shape.is_valid()",
        ),
        (
            Shape {
                x_stride: 39,
                ..good
            },
            "shape.is_valid()",
        ),
        (
            Shape {
                y_stride: 2,
                ..good
            },
            "shape.is_valid()",
        ),
        (
            Shape {
                rows: 4,
                y_stride: 4,
                ..good
            },
            "shape.database_len() <= database.len()",
        ),
        (
            Shape {
                database_stride: 64,
                ..good
            },
            "shape.database_len() <= database.len()",
        ),
        (
            Shape {
                rows: Shape::MAX_SIZE,
                database_stride: 1 << 31,
                y_stride: Shape::MAX_SIZE,
                ..good
            },
            "shape.database_len()",
        ),
        (Shape { columns: 6, ..good }, "shape.x_len() <= x.len()"),
        (
            Shape {
                x_stride: 44,
                ..good
            },
            "shape.x_len() <= x.len()",
        ),
        (
            Shape {
                y_stride: 4,
                ..good
            },
            "shape.y_len() <= y.len()",
        ),
    ] {
        let refusal = harness::refusal(launch(shape));
        assert!(
            refusal.contains(reason),
            "{refusal:?} does not name {reason:?}"
        );
    }

    let variant = byte_matvec::Variant::ALL[0];
    let result = byte_matvec::launch(&queue, variant, Grid::x(1), &database, &x, &mut y, good);
    assert!(harness::refusal(result).contains("shape.columns == 1"));
    let variant = byte_matvec::Variant {
        signed: true,
        rows: 5,
    };
    let shape = Shape { columns: 1, ..good };
    harness::refusal(byte_matvec::launch(
        &queue,
        variant,
        Grid::x(1),
        &database,
        &x,
        &mut y,
        shape,
    ));
}
