//! Kernels without faults compute the right thing in fast mode.

mod common;

use common::{fault, kernel, launch, memory, values};
use simt::emulator::{FaultKind, Mode};
use simt::prelude::*;
use simt::thread::{FULL_MASK, block_idx_x, sync_threads, thread_idx_x};

#[test]
fn grid_stride_covers_every_item_once() {
    let add = kernel("add", 2, 64, 0, |args, drive| {
        let (a, b) = (args[0].global::<u32>(), args[1].global_mut::<u32>());
        drive(&|| {
            for i in grid::stride::<3>(1000) {
                b.write(i, b.read(i) + a.read(i));
            }
        });
    });
    let a = memory::<u32>(&(0..1000).collect::<Vec<_>>(), Mode::Fast);
    let b = memory::<u32>(&vec![7; 1000], Mode::Fast);
    launch(add, 5, &[&a, &b], Mode::Fast).expect("no fault");
    assert_eq!(values::<u32>(&b), (7..1007).collect::<Vec<_>>());
}

#[test]
fn a_tile_is_reversed_through_shared_memory() {
    let reverse = kernel("reverse", 1, 256, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 256);
            let (i, base) = (thread_idx_x() as usize, 256 * block_idx_x() as usize);
            tile.write(i, a.read(base + i));
            sync_threads();
            a.write(base + i, tile.read(255 - i));
        });
    });
    let a = memory::<u32>(&(0..2560).collect::<Vec<_>>(), Mode::Fast);
    launch(reverse, 10, &[&a], Mode::Fast).expect("no fault");
    let expected: Vec<u32> = (0..10)
        .flat_map(|block| (0..256).rev().map(move |i| 256 * block + i))
        .collect();
    assert_eq!(values::<u32>(&a), expected);
}

#[test]
fn a_butterfly_of_shuffles_sums_a_warp() {
    let sum = kernel("sum", 1, 96, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let mut v = a.read(grid::global_id());
            for lanes in [16, 8, 4, 2, 1] {
                v += warp::shuffle_xor(FULL_MASK, v, lanes);
            }
            a.write(grid::global_id(), v);
        });
    });
    let a = memory::<u32>(&(0..192).collect::<Vec<_>>(), Mode::Fast);
    launch(sum, 2, &[&a], Mode::Fast).expect("no fault");
    let expected: Vec<u32> = (0..192)
        .map(|i| (i / 32 * 32..i / 32 * 32 + 32).sum())
        .collect();
    assert_eq!(values::<u32>(&a), expected);
}

#[test]
fn a_panic_becomes_a_fault() {
    let panics = kernel("panics", 0, 32, 0, |_, drive| {
        drive(&|| assert!(thread_idx_x() != 5 || block_idx_x() != 1, "thread five"));
    });
    let fault = fault(launch(panics, 2, &[], Mode::Fast));
    assert_eq!(
        (fault.kind, fault.block, fault.thread),
        (FaultKind::Panic, [1, 0, 0], 5)
    );
    assert!(
        fault.file.ends_with("fast.rs") && fault.detail.contains("thread five"),
        "{fault}"
    );
}
