//! Products of a warpgroup, barriers in shared memory and the copy engine: what they compute, and the faults of
//! those who do not wait.

mod common;

use std::collections::HashSet;

use common::{fault, kernel, launch, line_of, memory, values};
use simt::bulk::{L2, Tensor, TensorMap, tile_offset};
use simt::emulator::{Fault, FaultKind, Mode};
use simt::launch::HostEntry;
use simt::mbarrier;
use simt::prelude::*;
use simt::thread::{sync_threads, thread_idx_x};
use simt::wgmma::{A, D, Tile};

const MODES: [Mode; 4] = [
    Mode::Fast,
    Mode::Checked { seed: 0 },
    Mode::Checked { seed: 1 },
    Mode::Checked { seed: 2 },
];

/// Bytes that look random and hold the extremes.
fn bytes(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|i| match i % 37 {
            0 => 0x80,
            1 => 0xff,
            2 => 0x7f,
            _ => (i.wrapping_mul(0x9e37_79b9) ^ seed.wrapping_mul(0x85eb_ca6b)).to_be_bytes()[0],
        })
        .collect()
}

#[test]
fn layouts_cover_each_element_once() {
    let mut sums = HashSet::new();
    let mut words = HashSet::new();
    for thread in 0..128 {
        for register in 0..128 {
            let (row, column) = D::position(thread, register);
            assert!(row < 64 && column < 256);
            assert!(sums.insert((row, column)));
        }
        for register in 0..4 {
            for byte in 0..4 {
                let (row, column) = A::position(thread, register, byte);
                assert!(row < 64 && column < 32);
                assert!(words.insert((row, column)));
            }
        }
    }
    let offsets: HashSet<_> = (0..64)
        .flat_map(|row| (0..128).map(move |byte| tile_offset(row, byte)))
        .collect();
    assert_eq!(
        (sums.len(), words.len(), offsets.len()),
        (64 * 256, 64 * 32, 64 * 128)
    );
    assert!(offsets.iter().all(|offset| *offset < 64 * 128));
}

#[test]
fn layouts_match_the_figures_of_the_ptx_isa() {
    assert_eq!(
        [D::position(0, 1), D::position(37, 6), D::position(127, 3)],
        [(0, 1), (25, 10), (63, 7)]
    );
    assert_eq!(
        [A::position(0, 0, 0), A::position(33, 3, 1)],
        [(0, 0), (24, 21)]
    );
    // 128-byte swizzle: row 3 has its pieces 0 and 3 exchanged.
    assert_eq!(
        [tile_offset(3, 0), tile_offset(3, 49), tile_offset(8, 16)],
        [432, 385, 1040]
    );
}

/// One step of a product of 64 x 32 by 32 x N bytes, from tiles that the threads fill themselves.
fn product<const SUMS: usize>(how: usize) -> HostEntry {
    fn fill(tile: Shared<u8>, rows: usize, from: Global<u8>) {
        for i in (thread_idx_x() as usize..rows * 128).step_by(128) {
            tile.write(tile_offset(i / 128, i % 128), from.read(i));
        }
    }
    fn run<const SUMS: usize, const HOW: usize>(a: Global<u8>, b: Global<u8>, d: GlobalMut<i32>) {
        let tiles = Shared::<u8>::dynamic(0);
        let (tile_a, tile_b) = (tiles, tiles.offset(64 * 128));
        fill(tile_a, 64, a);
        fill(tile_b, 2 * SUMS, b);
        bulk::fence_async();
        sync_threads();
        let thread = thread_idx_x();
        let mut sums = [1; SUMS];
        wgmma::pin(&mut sums);
        wgmma::fence();
        for step in [2, 1] {
            let b = Tile::new(tile_b).step(step);
            if HOW == 2 {
                let words = std::array::from_fn(|register| {
                    u32::from_le_bytes(std::array::from_fn(|byte| {
                        let (row, column) = A::position(thread, register as u32, byte as u32);
                        a.read(128 * row as usize + 32 * step + column as usize)
                    }))
                });
                wgmma::u8u8_registers(&mut sums, words, b);
            } else if HOW == 1 {
                wgmma::u8u8(&mut sums, Tile::new(tile_a).step(step), b);
            } else {
                wgmma::s8u8(&mut sums, Tile::new(tile_a).step(step), b);
            }
        }
        wgmma::commit();
        wgmma::wait_group::<0>();
        wgmma::pin(&mut sums);
        for (register, sum) in sums.into_iter().enumerate() {
            let (row, column) = D::position(thread, register as u32);
            d.write(row as usize * 2 * SUMS + column as usize, sum);
        }
    }
    match how {
        0 => |args, go| {
            let (a, b, d) = (args[0].global(), args[1].global(), args[2].global_mut());
            go(&|| run::<SUMS, 0>(a, b, d));
        },
        1 => |args, go| {
            let (a, b, d) = (args[0].global(), args[1].global(), args[2].global_mut());
            go(&|| run::<SUMS, 1>(a, b, d));
        },
        _ => |args, go| {
            let (a, b, d) = (args[0].global(), args[1].global(), args[2].global_mut());
            go(&|| run::<SUMS, 2>(a, b, d));
        },
    }
}

fn try_products<const SUMS: usize>() {
    let n = 2 * SUMS;
    let (a, b) = (bytes(64 * 128, 1), bytes(n * 128, 2));
    for how in 0..3 {
        let widen = |byte: u8| {
            if how == 0 {
                i32::from(byte as i8)
            } else {
                i32::from(byte)
            }
        };
        let expected: Vec<i32> = (0..64 * n)
            .map(|at| {
                let (row, column) = (at / n, at % n);
                1 + (32..96)
                    .map(|k| widen(a[128 * row + k]) * i32::from(b[128 * column + k]))
                    .sum::<i32>()
            })
            .collect();
        for mode in MODES {
            let kernel = kernel(
                "product",
                3,
                128,
                (64 + n as u32) * 128,
                product::<SUMS>(how),
            );
            let d = memory(&vec![0i32; 64 * n], mode);
            launch(kernel, 1, &[&memory(&a, mode), &memory(&b, mode), &d], mode).expect("clean");
            assert_eq!(values::<i32>(&d), expected, "N = {n}, form {how}");
        }
    }
}

#[test]
fn products_are_those_of_the_matrices() {
    try_products::<4>();
    try_products::<16>();
    try_products::<32>();
    try_products::<64>();
    try_products::<128>();
}

/// A ring of two buffers of 128 bytes: thread 32 copies, the first warp sums, bytes come back as they went.
fn ring(wait_for_full: bool, wait_for_empty: bool) -> HostEntry {
    fn run<const FULL: bool, const EMPTY: bool>(a: Global<u8>, c: GlobalMut<u32>) {
        let tiles = shared_array!(u32, 64);
        let words = shared_array!(u64, 4);
        let (full, empty) = (|i| Mbarrier::at(words, i), |i| Mbarrier::at(words, 2 + i));
        let thread = thread_idx_x();
        if thread == 0 {
            for i in 0..2 {
                full(i).init(1);
                empty(i).init(1);
            }
            mbarrier::fence_init();
        }
        sync_threads();
        for round in 0..6 {
            let (slot, parity) = (round % 2, (round / 2 % 2) as u32);
            if thread == 32 {
                if EMPTY {
                    empty(slot).wait(parity ^ 1);
                }
                full(slot).arrive_expect(128);
                bulk::copy(
                    tiles,
                    32 * slot,
                    a,
                    128 * round,
                    128,
                    full(slot),
                    L2::Normal,
                ); // copy
            } else if thread < 32 {
                if FULL {
                    full(slot).wait(parity);
                }
                let word = tiles.read(32 * slot + thread as usize); // drain
                c.write(32 * round + thread as usize, word);
                thread::sync_warp(u32::MAX);
                if thread == 0 {
                    empty(slot).arrive();
                }
            }
        }
    }
    match (wait_for_full, wait_for_empty) {
        (true, true) => |args, go| {
            let (a, c) = (args[0].global(), args[1].global_mut());
            go(&|| run::<true, true>(a, c));
        },
        (false, _) => |args, go| {
            let (a, c) = (args[0].global(), args[1].global_mut());
            go(&|| run::<false, true>(a, c));
        },
        (true, false) => |args, go| {
            let (a, c) = (args[0].global(), args[1].global_mut());
            go(&|| run::<true, false>(a, c));
        },
    }
}

#[test]
fn a_ring_of_buffers_brings_every_byte_once() {
    let a = bytes(6 * 128, 3);
    for mode in MODES {
        let c = memory(&vec![0u32; 6 * 32], mode);
        launch(
            kernel("ring", 2, 64, 0, ring(true, true)),
            1,
            &[&memory(&a, mode), &c],
            mode,
        )
        .expect("clean");
        assert_eq!(values::<u8>(&c), a);
    }
}

fn ring_fault(full: bool, empty: bool, seed: u64) -> Fault {
    let mode = Mode::Checked { seed };
    let a = memory(&bytes(6 * 128, 3), mode);
    let c = memory(&vec![0u32; 6 * 32], mode);
    fault(launch(
        kernel("ring", 2, 64, 0, ring(full, empty)),
        1,
        &[&a, &c],
        mode,
    ))
}

#[test]
fn who_reads_before_the_copy_has_arrived_is_found() {
    for seed in 0..8 {
        let fault = ring_fault(false, true, seed);
        assert!(
            matches!(
                fault.kind,
                FaultKind::AsyncRead | FaultKind::SharedRace | FaultKind::Uninitialised
            ),
            "{fault}"
        );
    }
}

#[test]
fn who_fills_a_buffer_that_is_still_read_is_found() {
    for seed in 0..8 {
        let fault = ring_fault(true, false, seed);
        // The copy over a reader, or, if the copies ran ahead, an arrival too many.
        assert!(
            matches!(
                fault.kind,
                FaultKind::AsyncRead | FaultKind::SharedRace | FaultKind::Divergence
            ),
            "{fault}"
        );
    }
}

/// The fault of a kernel of one warp over one buffer of 1 KiB.
fn one_warp(entry: HostEntry) -> Fault {
    let mode = Mode::Checked { seed: 5 };
    let a = memory(&bytes(1024, 4), mode);
    fault(launch(kernel("one", 1, 32, 4096, entry), 1, &[&a], mode))
}

#[test]
fn an_mbarrier_nobody_initialised_is_found() {
    let fault = one_warp(|_, go| {
        go(&|| {
            let words = shared_array!(u64, 1);
            Mbarrier::at(words, 0).wait(0); // too soon
        });
    });
    assert_eq!(fault.kind, FaultKind::Uninitialised, "{fault}");
    assert_eq!(
        fault.line,
        line_of(include_str!("warpgroup.rs"), "too soon")
    );
}

#[test]
fn an_mbarrier_that_never_ends_its_phase_is_found() {
    let fault = one_warp(|_, go| {
        go(&|| {
            let words = shared_array!(u64, 1);
            let barrier = Mbarrier::at(words, 0);
            if thread_idx_x() == 0 {
                barrier.init(2);
            }
            sync_threads();
            if thread_idx_x() == 3 {
                barrier.arrive();
                barrier.wait(0); // for ever
            }
        });
    });
    assert_eq!(
        (fault.kind, fault.thread),
        (FaultKind::Divergence, 3),
        "{fault}"
    );
    assert!(fault.detail.contains("an mbarrier"), "{fault}");
    assert_eq!(
        fault.line,
        line_of(include_str!("warpgroup.rs"), "for ever")
    );
}

#[test]
fn bytes_announced_and_not_brought_keep_a_phase_open() {
    let fault = one_warp(|args, go| {
        let a = args[0].global::<u8>();
        go(&|| {
            let tile = Shared::<u8>::dynamic(0);
            let words = shared_array!(u64, 1);
            let barrier = Mbarrier::at(words, 0);
            if thread_idx_x() == 0 {
                barrier.init(1);
                barrier.arrive_expect(48);
                bulk::copy(tile, 0, a, 0, 32, barrier, L2::EvictFirst);
                barrier.wait(0);
            }
        });
    });
    assert_eq!(fault.kind, FaultKind::Divergence, "{fault}");
}

#[test]
fn a_barrier_used_before_its_initialisation_is_ordered_is_a_race() {
    let fault = one_warp(|_, go| {
        go(&|| {
            let words = shared_array!(u64, 1);
            let barrier = Mbarrier::at(words, 0);
            if thread_idx_x() == 0 {
                barrier.init(31);
            }
            warp::ballot(u32::MAX, true);
            if thread_idx_x() > 0 {
                barrier.arrive();
            }
        });
    });
    assert_eq!(fault.kind, FaultKind::SharedRace, "{fault}");
}

/// Copies a tile of 16 rows from byte 64 of row 2 on, of a matrix of 10 rows of 180 bytes every 192.
fn tile_entry() -> HostEntry {
    |args, go| {
        let (source, map) = (args[0].global::<u8>(), args[1].global::<TensorMap>());
        let out = args[2].global_mut::<u8>();
        go(&|| {
            let tile = Shared::<u8>::dynamic(0);
            let words = shared_array!(u64, 1);
            let barrier = Mbarrier::at(words, 0);
            if thread_idx_x() == 0 {
                barrier.init(1);
                mbarrier::fence_init();
                bulk::acquire_map(map);
                barrier.arrive_expect(16 * 128);
                bulk::copy_tile(tile, map, source, 64, 2, barrier, L2::EvictLast);
            }
            sync_threads();
            barrier.wait(0);
            for i in (thread_idx_x() as usize..16 * 128).step_by(32) {
                out.write(i, tile.read(tile_offset(i / 128, i % 128)));
            }
        });
    }
}

const MATRIX: Tensor = Tensor {
    width: 180,
    rows: 10,
    stride: 192,
    tile_rows: 16,
};

#[test]
fn a_tile_arrives_swizzled_with_zeroes_beyond_the_matrix() {
    let source = bytes(10 * 192, 6);
    let expected: Vec<u8> = (0..16 * 128)
        .map(|i| {
            let (row, byte) = (2 + i / 128, 64 + i % 128);
            if row < 10 && byte < 180 {
                source[192 * row + byte]
            } else {
                0
            }
        })
        .collect();
    for mode in MODES {
        let source = memory(&source, mode);
        let map = memory(&[TensorMap::emulated(source.raw(0).address, &MATRIX)], mode);
        let out = memory(&[0u8; 16 * 128], mode);
        launch(
            kernel("tile", 3, 32, 4096, tile_entry()),
            1,
            &[&source, &map, &out],
            mode,
        )
        .expect("clean");
        assert_eq!(values::<u8>(&out), expected);
    }
}

#[test]
fn a_map_of_another_buffer_is_found() {
    let mode = Mode::Fast;
    let (source, other) = (
        memory(&bytes(10 * 192, 6), mode),
        memory(&bytes(10 * 192, 7), mode),
    );
    let map = memory(&[TensorMap::emulated(other.raw(0).address, &MATRIX)], mode);
    let out = memory(&[0u8; 16 * 128], mode);
    let fault = fault(launch(
        kernel("tile", 3, 32, 4096, tile_entry()),
        1,
        &[&source, &map, &out],
        mode,
    ));
    assert_eq!(fault.kind, FaultKind::OutOfBounds, "{fault}");
}

#[test]
fn a_tensor_must_fit_its_buffer_and_the_copy_engine() {
    assert_eq!(MATRIX.check(10 * 192 - 12), Ok(()));
    let refused = |tensor: Tensor, bytes| tensor.check(bytes).unwrap_err();
    assert!(refused(MATRIX, 10 * 192 - 13).contains("1907 bytes"));
    assert!(
        refused(
            Tensor {
                stride: 184,
                ..MATRIX
            },
            1 << 20
        )
        .contains("multiple of 16")
    );
    assert!(
        refused(
            Tensor {
                stride: 176,
                ..MATRIX
            },
            1 << 20
        )
        .contains("no less than a row")
    );
    assert!(
        refused(
            Tensor {
                tile_rows: 257,
                ..MATRIX
            },
            1 << 20
        )
        .contains("1 to 256")
    );
    assert!(refused(Tensor { rows: 0, ..MATRIX }, 1 << 20).contains("1 to 2^32"));
}

#[test]
fn a_tile_overwritten_before_its_product_is_waited_for_is_a_race() {
    let mode = Mode::Checked { seed: 3 };
    let (a, b) = (
        memory(&bytes(65 * 128, 1), mode),
        memory(&bytes(8 * 128, 2), mode),
    );
    let entry: HostEntry = |args, go| {
        let (a, b) = (args[0].global::<u8>(), args[1].global::<u8>());
        go(&|| {
            let tiles = Shared::<u8>::dynamic(0);
            let words = shared_array!(u64, 2);
            let (full, empty) = (Mbarrier::at(words, 0), Mbarrier::at(words, 1));
            let thread = thread_idx_x();
            if thread == 0 {
                full.init(1);
                empty.init(1);
            }
            sync_threads();
            if thread == 128 {
                for round in 0..2 {
                    empty.wait(round ^ 1);
                    full.arrive_expect(72 * 128);
                    bulk::copy(
                        tiles,
                        0,
                        a,
                        128 * round as usize,
                        64 * 128,
                        full,
                        L2::Normal,
                    );
                    bulk::copy(tiles, 64 * 128, b, 0, 8 * 128, full, L2::Normal);
                }
            } else if thread < 128 {
                let mut sums = [0; 4];
                full.wait(0);
                let left = Tile::new(tiles);
                let right = Tile::new(tiles.offset(64 * 128));
                wgmma::fence();
                wgmma::s8u8(&mut sums, left, right); // early
                wgmma::commit();
                // The group is not waited for before the tile is given back.
                thread::sync_threads_count(1, 128);
                if thread == 0 {
                    empty.arrive();
                }
                full.wait(1);
                wgmma::wait_group::<0>();
            }
        });
    };
    let fault = fault(launch(
        kernel("early", 2, 160, 72 * 128, entry),
        1,
        &[&a, &b],
        mode,
    ));
    assert!(
        matches!(fault.kind, FaultKind::SharedRace | FaultKind::AsyncRead),
        "{fault}"
    );
    assert_eq!(
        fault.line,
        line_of(include_str!("warpgroup.rs"), "early"),
        "{fault}"
    );
}
