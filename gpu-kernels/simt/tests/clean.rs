//! Kernels without faults pass the checks, under many schedules, and compute the same in both modes.

mod common;

use common::{kernel, launch, memory, values};
use simt::emulator::{Memory, Mode};
use simt::launch::HostEntry;
use simt::prelude::*;
use simt::thread::{
    FULL_MASK, block_idx_x, grid_dim_x, lane_id, sync_threads, sync_threads_count, sync_warp,
    thread_idx_x, warp_id,
};

/// Runs a kernel over copies of `input` in fast mode and under eight schedules; gives what they all left.
fn run(
    name: &'static str,
    grid: u32,
    block: u32,
    shared: u32,
    input: &[u32],
    entry: HostEntry,
) -> Vec<u32> {
    let kernel = kernel(name, 1, block, shared, entry);
    let outcome = |mode| {
        let a = memory(input, mode);
        launch(kernel, grid, &[&a], mode).unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        values::<u32>(&a)
    };
    let fast = outcome(Mode::Fast);
    for seed in 0..8 {
        assert_eq!(outcome(Mode::Checked { seed }), fast, "{name}, seed {seed}");
    }
    fast
}

#[test]
fn the_last_block_reduces() {
    let entry: HostEntry = |args, drive| {
        // Word 0 counts blocks, word 1 is the sum, then a word per block and the input.
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let last = shared_array!(u32, 1);
            let (i, blocks) = (thread_idx_x() as usize, grid_dim_x() as usize);
            let sum = warp::reduce_add(FULL_MASK, a.read(2 + blocks + grid::global_id()));
            if i == 0 {
                a.write(2 + block_idx_x() as usize, sum);
                last.write(0, a.atomic_add(0, 1, Order::AcqRel, Scope::Device));
            }
            sync_threads();
            if last.read(0) as usize == blocks - 1 {
                let mine = if i < blocks { a.read(2 + i) } else { 0 };
                let sum = warp::reduce_add(FULL_MASK, mine);
                if i == 0 {
                    a.write(1, sum);
                    a.write(0, 0);
                }
            }
        });
    };
    let mut input = vec![0; 2 + 9];
    input.extend(1..=9 * 32);
    assert_eq!(
        run("last_block", 9, 32, 0, &input, entry)[..2],
        [0, 9 * 16 * (9 * 32 + 1)]
    );
}

#[test]
fn the_last_block_reduces_by_fences() {
    // The older form: plain writes, a fence, a relaxed counter, a fence.
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let last = shared_array!(u32, 1);
            let i = thread_idx_x() as usize;
            a.write(2 + grid::global_id(), 1);
            simt::atomic::fence(Order::Release, Scope::Device);
            sync_threads();
            if i == 0 {
                simt::atomic::fence(Order::AcqRel, Scope::Device);
                last.write(0, a.atomic_add(0, 1, Order::Relaxed, Scope::Device));
                simt::atomic::fence(Order::AcqRel, Scope::Device);
            }
            sync_threads();
            if last.read(0) == grid_dim_x() - 1 {
                let sum: u32 = (0..grid_dim_x() as usize)
                    .map(|block| a.read(2 + 64 * block + i))
                    .sum();
                a.atomic_add(1, sum, Order::Relaxed, Scope::Device);
            }
        });
    };
    assert_eq!(
        run("fences", 5, 64, 0, &vec![0; 2 + 5 * 64], entry)[1],
        5 * 64
    );
}

#[test]
fn a_warp_exchanges_through_shared_memory() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 96);
            let (warp, lane, i) = (
                tile.offset(32 * warp_id() as usize),
                lane_id() as usize,
                grid::global_id(),
            );
            let mut v = a.read(i);
            for step in [1, 2, 4, 8, 16] {
                warp.write(lane, v);
                sync_warp(FULL_MASK);
                v = v.wrapping_mul(3) ^ warp.read(lane ^ step);
                sync_warp(FULL_MASK);
            }
            a.write(i, v);
        });
    };
    run(
        "warp_exchange",
        3,
        96,
        0,
        &(0..288).collect::<Vec<_>>(),
        entry,
    );
}

#[test]
fn halves_of_a_warp_synchronise_apart() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 32);
            let lane = lane_id() as usize;
            let mask = if lane < 16 { 0xffff } else { 0xffff_0000 };
            for round in 0..=lane / 16 {
                tile.write(lane, a.read(lane) + round as u32);
                sync_warp(mask);
                a.write(lane, tile.read(lane ^ 1));
                sync_warp(mask);
            }
        });
    };
    run("halves", 1, 32, 0, &(0..32).collect::<Vec<_>>(), entry);
}

#[test]
fn named_barriers_pair_warps() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 128);
            let i = thread_idx_x() as usize;
            // Warps 0 and 2 meet, and warps 1 and 3; each pair has its own number of rounds.
            let pair = warp_id() % 2;
            for _ in 0..2 + pair {
                tile.write(i, a.read(i));
                sync_threads_count(1 + pair, 64);
                a.write(i, tile.read(i ^ 64) + 1);
                sync_threads_count(1 + pair, 64);
            }
            sync_threads();
            tile.write(i, a.read(i ^ 32));
            sync_threads();
            a.write(i, tile.read(127 - i));
        });
    };
    run("pairs", 1, 128, 0, &(0..128).collect::<Vec<_>>(), entry);
}

#[test]
fn a_producer_warp_hands_tiles_to_consumers() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 32);
            let lane = lane_id() as usize;
            for round in 0..4 {
                if warp_id() == 0 {
                    tile.write(lane, a.read(32 * round + lane));
                    sync_threads_count(1, 96);
                    sync_threads_count(2, 96);
                } else {
                    sync_threads_count(1, 96);
                    let v = tile.read(lane);
                    sync_threads_count(2, 96);
                    a.write(128 + 64 * round + thread_idx_x() as usize - 32, v);
                }
            }
        });
    };
    run(
        "producer",
        1,
        96,
        0,
        &(0..128 + 256).collect::<Vec<_>>(),
        entry,
    );
}

#[test]
fn threads_write_different_bytes_of_a_word() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u8, 64);
            let i = thread_idx_x() as usize;
            tile.write(i, i as u8);
            a.cast::<u16>().write(i, 0x100 + i as u16);
            sync_threads();
            if i < 16 {
                a.write(32 + i, tile.cast::<u32>().read(i));
            }
        });
    };
    let bytes: Vec<u32> = (0..16).map(|i| 0x0302_0100 + 0x0404_0404 * i).collect();
    assert_eq!(run("bytes", 1, 64, 0, &[0; 48], entry)[32..], bytes);
}

#[test]
fn tiles_are_copied_ahead() {
    // Two buffers: while one is summed, the next tile is on its way into the other.
    let entry: HostEntry = |args, drive| {
        const TILES: usize = 5;
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let buffers = shared_array!(U32x4, 2 * 32);
            let i = thread_idx_x() as usize;
            let fetch = |tile: usize| {
                cp_async::copy16(
                    buffers,
                    32 * (tile % 2) + i,
                    a.as_const().cast::<U32x4>(),
                    32 * tile + i,
                );
                cp_async::commit();
            };
            let mut sum = 0u32;
            fetch(0);
            for tile in 0..TILES {
                if tile + 1 < TILES {
                    fetch(tile + 1);
                    cp_async::wait_group::<1>();
                } else {
                    cp_async::wait_all();
                }
                sync_threads();
                sum += buffers
                    .read(32 * (tile % 2) + (i + 1) % 32)
                    .0
                    .iter()
                    .sum::<u32>();
                sync_threads();
            }
            a.write(128 * TILES + i, sum);
        });
    };
    let out = run(
        "double_buffer",
        1,
        32,
        0,
        &(0..5 * 128 + 32).collect::<Vec<_>>(),
        entry,
    );
    let expected = |i: u32| {
        (0..5)
            .map(|tile| {
                (0..4)
                    .map(|j| 128 * tile + 4 * ((i + 1) % 32) + j)
                    .sum::<u32>()
            })
            .sum::<u32>()
    };
    assert_eq!(out[640..], (0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn atomics_of_many_threads_meet_in_one_word() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let bins = Shared::<u32>::dynamic(64);
            let i = thread_idx_x() as usize;
            if i < 8 {
                bins.write(i, 0);
            }
            sync_threads();
            bins.atomic_add(i % 8, i as u32, Order::Relaxed, Scope::Block);
            sync_threads();
            if i < 8 {
                a.atomic_add(i, bins.read(i), Order::Relaxed, Scope::Device);
                a.cast::<u64>().atomic_max(
                    4 + i,
                    bins.read(i).into(),
                    Order::Relaxed,
                    Scope::Device,
                );
            }
        });
    };
    run("bins", 7, 64, 96, &[0; 24], entry);
}

#[test]
fn a_lock_in_shared_memory_orders_its_holders() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let state = shared_array!(u32, 2);
            if thread_idx_x() == 0 {
                state.write(0, 0);
                state.write(1, 0);
            }
            sync_threads();
            // Taken by whoever runs: in the emulator a thread is not interrupted between collectives.
            state.atomic_exchange(0, 1, Order::Acquire, Scope::Block);
            state.write(1, state.read(1) + 1);
            state.atomic_exchange(0, 0, Order::Release, Scope::Block);
            sync_threads();
            if thread_idx_x() == 0 {
                a.write(0, state.read(1));
            }
        });
    };
    assert_eq!(run("lock", 1, 64, 0, &[0], entry), [64]);
}

#[test]
fn many_readers_then_a_barrier_then_a_writer() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let word = shared_array!(u32, 1);
            for round in 0..4 {
                if thread_idx_x() == round {
                    word.write(0, round);
                }
                sync_threads();
                let v = word.read(0);
                sync_threads();
                a.write(thread_idx_x() as usize, v);
            }
        });
    };
    run("broadcast", 1, 64, 0, &[0; 64], entry);
}

#[test]
fn launches_follow_each_other() {
    // What one launch wrote the next one may read and overwrite.
    let shift = kernel("shift", 1, 32, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let i = grid::global_id();
            a.write(64 * (1 - i / 32 % 2) + i, i as u32);
        });
    });
    let mode = Mode::Checked { seed: 3 };
    let a = Memory::uninit(4 * 256, mode).expect("memory");
    for _ in 0..3 {
        launch(shift, 4, &[&a], mode).expect("no fault");
    }
}

#[test]
fn memory_may_be_made_in_one_mode_and_used_in_the_other() {
    let double = kernel("double", 1, 32, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| a.write(grid::global_id(), 2 * a.read(grid::global_id())));
    });
    let write = kernel("write", 1, 32, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| a.write(grid::global_id(), 1));
    });
    let checked = Mode::Checked { seed: 0 };
    for (made, first, second) in [
        (Mode::Fast, checked, checked),
        (checked, Mode::Fast, checked),
    ] {
        let a = Memory::uninit(4 * 64, made).expect("memory");
        launch(write, 2, &[&a], first).expect("no fault");
        launch(double, 2, &[&a], second).expect("no fault");
        assert_eq!(values::<u32>(&a), [2; 64]);
    }
}

#[test]
fn empty_and_small_buffers() {
    let touch = kernel("touch", 2, 32, 0, |args, drive| {
        let (a, b) = (args[0].global_mut::<u8>(), args[1].global_mut::<u8>());
        drive(&|| {
            if thread_idx_x() == 0 {
                a.write(0, 1);
            }
            let _ = b;
        });
    });
    for mode in [Mode::Fast, Mode::Checked { seed: 0 }] {
        let (a, b) = (memory(&[0u8], mode), memory::<u8>(&[], mode));
        launch(touch, 1, &[&a, &b], mode).expect("no fault");
        assert_eq!(values::<u8>(&a), [1]);
    }
}
