//! Fragment layouts as data, the instruction's host body, and the naive product agree.

mod common;

use std::collections::HashSet;

use common::{kernel, launch, memory, values};
use proptest::prelude::*;
use simt::emulator::Mode;
use simt::launch::HostEntry;
use simt::mma::m16n8k32::{A, B, C, K, M, N};
use simt::prelude::*;
use simt::thread::lane_id;

const LANES: u32 = 32;

/// Fragments of a warp from a matrix of bytes, by the layout alone.
fn fragments(
    registers: u32,
    position: fn(u32, u32, u32) -> (u32, u32),
    element: impl Fn(u32, u32) -> u8,
) -> Vec<u32> {
    let word = |lane, register| {
        u32::from_le_bytes(std::array::from_fn(|byte| {
            let (row, column) = position(lane, register, byte as u32);
            element(row, column)
        }))
    };
    (0..LANES)
        .flat_map(|lane| (0..registers).map(move |register| (lane, register)))
        .map(|(l, r)| word(l, r))
        .collect()
}

#[test]
fn layouts_cover_each_element_once() {
    fn cover(
        registers: u32,
        bytes: u32,
        rows: u32,
        columns: u32,
        position: fn(u32, u32, u32) -> (u32, u32),
    ) {
        let mut seen = HashSet::new();
        for (lane, register, byte) in (0..LANES)
            .flat_map(|l| (0..registers).flat_map(move |r| (0..bytes).map(move |b| (l, r, b))))
        {
            let (row, column) = position(lane, register, byte);
            assert!(row < rows && column < columns, "({row}, {column})");
            assert!(seen.insert((row, column)), "({row}, {column}) twice");
        }
        assert_eq!(seen.len() as u32, rows * columns);
    }
    cover(A::REGISTERS, 4, M, K, A::position);
    cover(B::REGISTERS, 4, K, N, B::position);
    cover(C::REGISTERS, 1, M, N, C::position);
}

#[test]
fn layouts_match_the_figures_of_the_ptx_isa() {
    // "Matrix fragments for mma.m16n8k32": a few cells read off the figures.
    assert_eq!(
        [
            A::position(0, 0, 0),
            A::position(5, 1, 2),
            A::position(31, 2, 3)
        ],
        [(0, 0), (9, 6), (7, 31)]
    );
    assert_eq!(
        [
            B::position(0, 0, 0),
            B::position(6, 1, 1),
            B::position(31, 1, 3)
        ],
        [(0, 0), (25, 1), (31, 7)]
    );
    assert_eq!(
        [
            C::position(0, 1, 0),
            C::position(5, 2, 0),
            C::position(31, 3, 0)
        ],
        [(0, 1), (9, 2), (15, 7)]
    );
}

/// A kernel that multiplies the fragments in its buffer: A, B, then C in place.
macro_rules! product {
    ($name:ident) => {
        |args, drive| {
            let a = args[0].global_mut::<u32>();
            drive(&|| {
                let lane = lane_id() as usize;
                let (b, c) = (a.offset(128), a.offset(192));
                let mut acc = std::array::from_fn(|i| c.read(4 * lane + i) as i32);
                mma::m16n8k32::$name(
                    &mut acc,
                    std::array::from_fn(|i| a.read(4 * lane + i)),
                    std::array::from_fn(|i| b.read(2 * lane + i)),
                );
                for (i, sum) in acc.into_iter().enumerate() {
                    c.write(4 * lane + i, sum as u32);
                }
            });
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_instruction_is_the_naive_product(
        a in prop::collection::vec(any::<u8>(), (M * K) as usize),
        b in prop::collection::vec(any::<u8>(), (K * N) as usize),
        c in prop::collection::vec(any::<u32>(), (M * N) as usize),
        extreme: bool,
    ) {
        // Sums of the largest products are as good a case as random ones.
        let (a, b) = if extreme { (vec![0xff; a.len()], vec![0x80; b.len()]) } else { (a, b) };
        let (a_at, b_at) = (|i, k| a[(i * K + k) as usize], |k, j| b[(k * N + j) as usize]);
        let entries: [(HostEntry, bool, bool); 4] = [
            (product!(s8s8), true, true),
            (product!(s8u8), true, false),
            (product!(u8s8), false, true),
            (product!(u8u8), false, false),
        ];
        for (entry, a_signed, b_signed) in entries {
            let value = |byte: u8, signed: bool| if signed { i64::from(byte as i8) } else { i64::from(byte) };
            let mut words = fragments(A::REGISTERS, A::position, a_at);
            words.extend(fragments(B::REGISTERS, B::position, b_at));
            for (lane, register) in (0..LANES).flat_map(|l| (0..C::REGISTERS).map(move |r| (l, r))) {
                let (i, j) = C::position(lane, register, 0);
                words.push(c[(i * N + j) as usize]);
            }
            let memory = memory(&words, Mode::Fast);
            launch(kernel("product", 1, 32, 0, entry), 1, &[&memory], Mode::Fast).expect("no fault");
            let out = values::<u32>(&memory);
            for (lane, register) in (0..LANES).flat_map(|l| (0..C::REGISTERS).map(move |r| (l, r))) {
                let (i, j) = C::position(lane, register, 0);
                let dot: i64 = (0..K).map(|k| value(a_at(i, k), a_signed) * value(b_at(k, j), b_signed)).sum();
                let expected = c[(i * N + j) as usize].wrapping_add(dot as u32);
                prop_assert_eq!(out[192 + (4 * lane + register) as usize], expected, "({}, {})", i, j);
            }
        }
    }
}

#[test]
fn ldmatrix_loads_the_fragments_of_an_mma() {
    // A row-major 16 x 32 tile of bytes, and B as 8 columns of 32 bytes: the usual way to an mma.
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let (tile, columns) = (shared_array!(U8x16, 32), shared_array!(U8x16, 16));
            let lane = lane_id() as usize;
            for i in 0..4 {
                tile.cast::<u32>().write(4 * lane + i, a.read(4 * lane + i));
            }
            for i in 0..2 {
                columns
                    .cast::<u32>()
                    .write(2 * lane + i, a.read(128 + 2 * lane + i));
            }
            thread::sync_warp(thread::FULL_MASK);
            // Matrices of A in the order of its registers: upper, lower, upper right, lower right.
            let x = tile.ldmatrix_x4(2 * (lane % 16) + lane / 16);
            let y = columns.ldmatrix_x2(2 * (lane % 8) + lane / 8 % 2);
            for (i, word) in x.into_iter().enumerate() {
                a.write(4 * lane + i, word);
            }
            for (i, word) in y.into_iter().enumerate() {
                a.write(128 + 2 * lane + i, word);
            }
        });
    };
    let a_at = |i: u32, k: u32| (i * 32 + k) as u8 ^ (i * 7) as u8;
    let b_at = |k: u32, j: u32| (j * 32 + k) as u8 ^ 0xa5;
    let pack = |bytes: Vec<u8>| {
        bytes
            .chunks(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect::<Vec<_>>()
    };
    let mut words = pack((0..M * K).map(|i| a_at(i / K, i % K)).collect());
    words.extend(pack((0..N * K).map(|i| b_at(i % K, i / K)).collect()));
    for mode in [Mode::Fast, Mode::Checked { seed: 5 }] {
        let memory = memory(&words, mode);
        launch(kernel("ldmatrix", 1, 32, 0, entry), 1, &[&memory], mode).expect("no fault");
        let mut expected = fragments(A::REGISTERS, A::position, a_at);
        expected.extend(fragments(B::REGISTERS, B::position, b_at));
        assert_eq!(values::<u32>(&memory), expected);
    }
}

#[test]
fn ldmatrix_forms_agree_with_their_definition() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(U32x4, 32);
            let lane = lane_id() as usize;
            // Element (matrix, row, column) holds 64 matrix + 8 row + column.
            tile.write(
                lane,
                U32x4(std::array::from_fn(|i| {
                    let first = 8 * lane as u32 + 2 * i as u32;
                    first | (first + 1) << 16
                })),
            );
            thread::sync_warp(thread::FULL_MASK);
            let mut out = Vec::new();
            out.extend(tile.ldmatrix_x1(lane));
            out.extend(tile.ldmatrix_x2(lane));
            out.extend(tile.ldmatrix_x4(lane));
            out.extend(tile.ldmatrix_x1_trans(lane));
            out.extend(tile.ldmatrix_x2_trans(lane));
            out.extend(tile.ldmatrix_x4_trans(lane));
            for (i, word) in out.into_iter().enumerate() {
                a.write(14 * lane + i, word);
            }
        });
    };
    let memory = memory(&[0u32; 14 * 32], Mode::Fast);
    launch(kernel("forms", 1, 32, 0, entry), 1, &[&memory], Mode::Fast).expect("no fault");
    let out = values::<u32>(&memory);
    for lane in 0..32 {
        let (line, pair) = (lane / 4, 2 * (lane % 4));
        let plain = |matrix: u32| {
            (64 * matrix + 8 * line + pair) | (64 * matrix + 8 * line + pair + 1) << 16
        };
        let trans = |matrix: u32| {
            (64 * matrix + 8 * pair + line) | (64 * matrix + 8 * (pair + 1) + line) << 16
        };
        let matrices = [0, 0, 1, 0, 1, 2, 3];
        let expected: Vec<u32> = matrices
            .map(plain)
            .into_iter()
            .chain(matrices.map(trans))
            .collect();
        assert_eq!(out[14 * lane as usize..][..14], expected);
    }
}
