//! Index maps and byte planes here; the kernels on the emulator in [`super::super`]'s integration
//! tests.

use proptest::prelude::*;
use simt::mma::m16n8k32::{A, B, C};

use super::{Shape, fragment, planes, reference};

/// The inner position within a block that `step`'s instruction has at its own position `inner` of
/// 32.
fn permuted(step: u32, inner: u32) -> u32 {
    let (half, place, byte) = (inner / 16, inner % 16 / 4, inner % 4);
    16 * place + 8 * step + 4 * half + byte
}

#[test]
fn the_two_steps_of_a_block_use_each_inner_position_once() {
    let mut seen: Vec<u32> = (0..fragment::STEPS as u32)
        .flat_map(|step| (0..32).map(move |inner| permuted(step, inner)))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..fragment::BLOCK).collect::<Vec<_>>());
}

/// Every byte that the kernel puts into an A or B register is the one that the instruction
/// multiplies there, and every sum that it takes from an accumulator is the one that the
/// instruction left there.
#[test]
fn lanes_feed_the_instruction_what_its_layout_asks_for() {
    // A piece whose bytes say where in the block they are.
    let numbered = |lane: u32| -> [u32; 4] {
        std::array::from_fn(|word| {
            let first = 16 * fragment::piece(lane) + 4 * word as u32;
            u32::from_le_bytes(std::array::from_fn(|byte| (first + byte as u32) as u8))
        })
    };
    for lane in 0..32 {
        for step in 0..fragment::STEPS {
            for pair in 0..fragment::PAIRS {
                // Planes are told apart by the top two bits, which positions below 64 do not use.
                let planes: [[u32; 4]; 4] = std::array::from_fn(|plane| {
                    numbered(lane).map(|word| word | (plane as u32 * 0x4040_4040))
                });
                for (register, word) in fragment::a_registers(pair, step, planes)
                    .into_iter()
                    .enumerate()
                {
                    for (byte, value) in word.to_le_bytes().into_iter().enumerate() {
                        let (row, inner) = A::position(lane, register as u32, byte as u32);
                        assert_eq!(row % 8, fragment::line(lane));
                        assert_eq!(u32::from(value / 64), 2 * pair as u32 + row / 8);
                        assert_eq!(u32::from(value % 64), permuted(step as u32, inner));
                    }
                }
            }
            for (register, word) in fragment::b_registers(step, numbered(lane))
                .into_iter()
                .enumerate()
            {
                for (byte, value) in word.to_le_bytes().into_iter().enumerate() {
                    let (inner, column) = B::position(lane, register as u32, byte as u32);
                    assert_eq!(column, fragment::line(lane));
                    assert_eq!(u32::from(value), permuted(step as u32, inner));
                }
            }
        }
        // Accumulators that say which plane, column of X and row of D they belong to.
        let sums: [[i32; 4]; fragment::PAIRS] = std::array::from_fn(|pair| {
            std::array::from_fn(|register| {
                let (row, column) = C::position(lane, register as u32, 0);
                ((2 * pair as u32 + row / 8) << 16 | (row % 8) << 8 | column) as i32
            })
        });
        for output in 0..2 {
            for (plane, sum) in fragment::output_sums(output, sums).into_iter().enumerate() {
                let row = fragment::output_row(lane, output as u32);
                assert_eq!(sum, (plane as u32) << 16 | fragment::line(lane) << 8 | row);
            }
        }
    }
}

proptest! {
    #[test]
    fn planes_are_the_bytes_of_the_words(words in any::<[u32; 4]>()) {
        let split = planes::split(words);
        for (plane, word) in split.iter().enumerate() {
            for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
                prop_assert_eq!(byte, words[i].to_le_bytes()[plane]);
            }
        }
        for (i, &word) in words.iter().enumerate() {
            let byte = |plane: usize| u32::from(split[plane].to_le_bytes()[i]);
            prop_assert_eq!(planes::join([byte(0), byte(1), byte(2), byte(3)]), word);
        }
    }

    /// The method, without its kernels: four products of bytes that wrap at 32 bits, against
    /// 128-bit arithmetic.
    #[test]
    fn joined_plane_products_are_the_product(
        signed in any::<bool>(),
        pairs in prop::collection::vec((extreme_byte(), extreme_word()), 0..300),
        repeat in prop_oneof![4 => Just(1usize), 1 => Just(216)],
    ) {
        let (bytes, words): (Vec<u8>, Vec<u32>) = pairs.into_iter().unzip();
        let (bytes, words) = (bytes.repeat(repeat), words.repeat(repeat));
        let sums: [u32; 4] = std::array::from_fn(|plane| {
            bytes.iter().zip(&words).fold(0u32, |sum, (&byte, word)| {
                let factor = u32::from(word.to_le_bytes()[plane]);
                let byte = if signed { byte as i8 as u32 } else { u32::from(byte) };
                sum.wrapping_add(byte.wrapping_mul(factor))
            })
        });
        let shape = Shape { rows: 1, inner: words.len() as u32, columns: 1, ..Shape::default() };
        let shape = Shape { database_stride: shape.inner, x_stride: shape.inner, y_stride: 1, ..shape };
        prop_assert_eq!(planes::join(sums), reference::product(signed, &bytes, &words, shape)[0]);
    }
}

fn extreme_byte() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(vec![0, 1, 127, 128, 255]), any::<u8>()]
}

fn extreme_word() -> impl Strategy<Value = u32> {
    prop_oneof![
        prop::sample::select(vec![0, 1, 255, 256, 1 << 31, u32::MAX]),
        any::<u32>()
    ]
}

#[test]
fn packed_shapes_are_valid_and_too_large_ones_are_none() {
    for inner in [0, 1, 15, 16, 17, 700, 1 << 16] {
        let shape = Shape::packed(3, inner, 5).unwrap();
        assert!(shape.is_valid(), "{shape:?}");
        assert!(shape.database_stride - inner < 16 && shape.x_stride - inner < 4);
    }
    for shape in [
        (Shape::MAX_SIZE, 1, 1),
        (1, Shape::MAX_SIZE, 1),
        (1, 1, Shape::MAX_SIZE),
    ] {
        assert!(Shape::packed(shape.0, shape.1, shape.2).is_some_and(|shape| shape.is_valid()));
    }
    for shape in [
        (Shape::MAX_SIZE + 1, 1, 1),
        (1, u32::MAX, 1),
        (1, 1, Shape::MAX_SIZE + 1),
    ] {
        assert_eq!(Shape::packed(shape.0, shape.1, shape.2), None);
    }
    assert_eq!(
        Shape::packed(1 << 20, 1 << 16, 1).unwrap().database_len(),
        64 << 30
    );
}

/// A lane that counts in steps of 512 would wrap past the end and never come out.
#[test]
fn an_inner_dimension_that_a_counter_wraps_past_is_invalid() {
    let with = |inner: u32| Shape {
        rows: 1,
        inner,
        columns: 1,
        database_stride: u32::MAX - 15,
        x_stride: u32::MAX - 3,
        y_stride: 1,
    };
    assert!(with(Shape::MAX_SIZE).is_valid());
    // The last step of the last lane, of those that start below `inner`.
    let last = (Shape::MAX_SIZE - 1) / 16 * 16;
    assert!(last.checked_add(512).is_some());
    for inner in [Shape::MAX_SIZE + 1, u32::MAX - 15] {
        assert!(!with(inner).is_valid(), "{inner}");
        assert_eq!(Shape::packed(1, inner, 1), None, "{inner}");
    }
}

#[test]
fn strides_that_the_kernels_cannot_use_are_invalid() {
    let good = Shape::packed(3, 40, 5).unwrap();
    let too_many = Shape::MAX_SIZE + 16;
    assert!(
        !Shape {
            rows: too_many,
            y_stride: too_many,
            ..good
        }
        .is_valid()
    );
    assert!(
        !Shape {
            inner: too_many,
            database_stride: too_many,
            x_stride: too_many,
            ..good
        }
        .is_valid()
    );
    assert!(
        !Shape {
            columns: too_many,
            ..good
        }
        .is_valid()
    );
    assert!(
        !Shape {
            database_stride: 40,
            ..good
        }
        .is_valid()
    );
    assert!(
        !Shape {
            database_stride: 32,
            ..good
        }
        .is_valid()
    );
    assert!(
        !Shape {
            x_stride: 36,
            ..good
        }
        .is_valid()
    );
    assert!(
        !Shape {
            x_stride: 42,
            ..good
        }
        .is_valid()
    );
    assert!(
        !Shape {
            y_stride: 2,
            ..good
        }
        .is_valid()
    );
}
