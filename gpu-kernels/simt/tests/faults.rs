//! One planted fault of each kind, found with kernel, block, thread and source line.

// Two calls of one barrier are the fault that some of these plant.
#![allow(clippy::if_same_then_else)]

mod common;

use common::{fault, kernel, launch, line_of, memory, values};
use simt::emulator::{Fault, FaultKind, Memory, Mode};
use simt::launch::HostEntry;
use simt::prelude::*;
use simt::thread::{
    FULL_MASK, block_idx_x, lane_id, sync_threads, sync_threads_count, sync_warp, thread_idx_x,
    warp_id,
};

const CHECKED: Mode = Mode::Checked { seed: 1 };

/// Asserts what a fault says, in its fields and in its one line of text.
fn assert_fault(
    fault: &Fault,
    kind: FaultKind,
    kernel: &str,
    block: u32,
    thread: u32,
    marker: &str,
) {
    let line = line_of(include_str!("faults.rs"), marker);
    assert_eq!(
        (fault.kind, fault.kernel, fault.variant),
        (kind, kernel, kernel),
        "{fault}"
    );
    assert_eq!(
        (fault.block, fault.thread, fault.line),
        ([block, 0, 0], thread, line),
        "{fault}"
    );
    let text = fault.to_string();
    for part in [
        kernel.to_owned(),
        format!("faults.rs:{line}"),
        format!("block ({block}, 0, 0)"),
        format!("thread {thread}:"),
        kind.to_string(),
    ] {
        assert!(text.contains(&part), "`{part}` is missing from `{text}`");
    }
    assert_eq!(text.lines().count(), 1);
}

/// Runs a kernel over `words` words of zeroes and gives its fault.
fn run(
    name: &'static str,
    grid: u32,
    block: u32,
    words: usize,
    mode: Mode,
    entry: HostEntry,
) -> Fault {
    let a = memory(&vec![0u32; words], mode);
    fault(launch(
        kernel(name, 1, block, 1024, entry),
        grid,
        &[&a],
        mode,
    ))
}

#[test]
fn out_of_bounds_in_global_memory() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let i = grid::global_id() + usize::from(grid::global_id() == 40);
            if i < 40 || i == 41 {
                a.write(i, 1); // out of bounds, global
            }
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        let fault = run("beyond", 2, 32, 41, mode, entry);
        assert_fault(
            &fault,
            FaultKind::OutOfBounds,
            "beyond",
            1,
            8,
            "out of bounds, global",
        );
        assert!(
            fault
                .detail
                .contains("4 bytes at byte 164 of the 164 of `buffer`"),
            "{fault}"
        );
    }
}

#[test]
fn out_of_bounds_in_shared_memory() {
    let entry: HostEntry = |_, drive| {
        drive(&|| {
            let tile = shared_array!(u32, 32);
            let _neighbour = shared_array!(u32, 32);
            if thread_idx_x() == 31 {
                tile.write(thread_idx_x() as usize + 1, 0); // out of bounds, shared
            }
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        let fault = run("beyond_tile", 1, 32, 1, mode, entry);
        assert_fault(
            &fault,
            FaultKind::OutOfBounds,
            "beyond_tile",
            0,
            31,
            "out of bounds, shared",
        );
        assert!(fault.detail.contains("shared array 0"), "{fault}");
    }
    let fault = run("beyond_dynamic", 1, 32, 1, Mode::Fast, |_, drive| {
        drive(&|| {
            let _ = Shared::<u32>::dynamic(1024)
                .offset(thread_idx_x() as usize)
                .read(0); // out of bounds, dynamic
        });
    });
    assert_fault(
        &fault,
        FaultKind::OutOfBounds,
        "beyond_dynamic",
        0,
        0,
        "out of bounds, dynamic",
    );
}

#[test]
fn before_the_start_is_out_of_bounds() {
    let fault = run("before", 1, 32, 64, Mode::Fast, |args, drive| {
        let a = args[0].global::<u32>();
        drive(&|| {
            let _ = a.read((thread_idx_x() as usize).wrapping_sub(1)); // before the start
        });
    });
    assert_fault(
        &fault,
        FaultKind::OutOfBounds,
        "before",
        0,
        0,
        "before the start",
    );
}

#[test]
fn misaligned() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global::<u32>();
        drive(&|| {
            let i = thread_idx_x() as usize;
            let _ = a.offset(usize::from(i == 3)).cast::<U32x4>().read(i); // misaligned
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        let fault = run("skewed", 1, 32, 132, mode, entry);
        assert_fault(&fault, FaultKind::Misaligned, "skewed", 0, 3, "misaligned");
    }
    let fault = run("skewed_tile", 1, 32, 1, Mode::Fast, |_, drive| {
        drive(&|| {
            let tile = shared_array!(u8, 64);
            tile.offset(2).cast::<u32>().write(0, 1); // misaligned, shared
        });
    });
    assert_fault(
        &fault,
        FaultKind::Misaligned,
        "skewed_tile",
        0,
        0,
        "misaligned, shared",
    );
}

#[test]
fn uninitialised_global_memory() {
    let read = kernel("unwritten", 1, 32, 0, |args, drive| {
        let a = args[0].global::<u32>();
        drive(&|| {
            if thread_idx_x() == 9 {
                let _ = a.read(grid::global_id()); // unwritten, global
            }
        });
    });
    let a = Memory::uninit(4 * 64, CHECKED).expect("memory");
    a.copy_in(0, &[0; 4 * 41]);
    let fault = fault(launch(read, 2, &[&a], CHECKED));
    assert_fault(
        &fault,
        FaultKind::Uninitialised,
        "unwritten",
        1,
        9,
        "unwritten, global",
    );
    // Once written by the host or by a kernel it may be read.
    a.copy_in(4 * 41, &[0; 4]);
    launch(read, 2, &[&a], CHECKED).expect("no fault");
}

#[test]
fn uninitialised_shared_memory() {
    let fault = run("unwritten_tile", 3, 64, 1, CHECKED, |_, drive| {
        drive(&|| {
            let tile = shared_array!(u32, 64);
            let i = thread_idx_x() as usize;
            if i != 17 {
                tile.write(i, 1);
            }
            sync_threads();
            if block_idx_x() == 2 && i == 3 {
                let _ = tile.read(17); // unwritten, shared
            }
        });
    });
    assert_fault(
        &fault,
        FaultKind::Uninitialised,
        "unwritten_tile",
        2,
        3,
        "unwritten, shared",
    );
}

#[test]
fn shared_memory_of_the_last_block_counts_as_unwritten() {
    let fault = run("stale", 2, 32, 1, CHECKED, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 32);
            // Whichever block comes second finds what the first one left.
            if a.atomic_add(0, 1, Order::Relaxed, Scope::Device) < 32 {
                tile.write(thread_idx_x() as usize, 1);
            } else if thread_idx_x() == 4 {
                let _ = tile.read(4); // stale
            }
        });
    });
    assert_eq!(
        (fault.kind, fault.thread),
        (FaultKind::Uninitialised, 4),
        "{fault}"
    );
}

#[test]
fn what_an_unwritten_word_led_to_is_not_the_fault() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let index = a.read(0); // unwritten index
            assert_ne!(index, 0, "an index cannot be zero");
        });
    };
    let a = Memory::uninit(4, CHECKED).expect("memory");
    let fault = fault(launch(
        kernel("led_astray", 1, 1, 0, entry),
        2,
        &[&a],
        CHECKED,
    ));
    assert_eq!(fault.kind, FaultKind::Uninitialised, "{fault}");
    assert_eq!(
        fault.line,
        line_of(include_str!("faults.rs"), "unwritten index")
    );
}

#[test]
fn shared_race_from_a_missing_barrier() {
    for seed in 0..20 {
        let fault = run(
            "no_barrier",
            1,
            64,
            1,
            Mode::Checked { seed },
            |_, drive| {
                drive(&|| {
                    let tile = shared_array!(u32, 64);
                    let i = thread_idx_x() as usize;
                    tile.write(i, 1); // race: write
                    let _ = tile.read(i ^ 32); // race: read
                });
            },
        );
        assert_eq!(
            (fault.kind, fault.kernel, fault.block),
            (FaultKind::SharedRace, "no_barrier", [0; 3]),
            "{fault}"
        );
        let source = include_str!("faults.rs");
        let (write, read) = (
            line_of(source, "race: write"),
            line_of(source, "race: read"),
        );
        // Whichever came second is the access at fault; the text names the other one.
        let other = if fault.line == write { read } else { write };
        assert!([write, read].contains(&fault.line), "{fault}");
        let (me, them) = (fault.thread, fault.thread ^ 32);
        assert!(
            fault.to_string().contains(&format!("thread {me}:")),
            "{fault}"
        );
        assert!(
            fault.detail.contains(&format!("by thread {them} at")),
            "{fault}"
        );
        assert!(
            fault.detail.contains(&format!("faults.rs:{other}")),
            "{fault}"
        );
    }
}

#[test]
fn shared_race_from_a_missing_second_barrier() {
    // Write, barrier, read, write again: the write may overtake another thread's read.
    for seed in 0..20 {
        let fault = run("overtaken", 1, 64, 1, Mode::Checked { seed }, |_, drive| {
            drive(&|| {
                let tile = shared_array!(u32, 64);
                let i = thread_idx_x() as usize;
                tile.write(i, 1);
                sync_threads();
                let v = tile.read(63 - i);
                tile.write(i, v);
            });
        });
        assert_eq!(fault.kind, FaultKind::SharedRace, "{fault}");
    }
}

#[test]
fn shared_race_of_a_writer_that_read_last() {
    // Its own read must not hide those of the others.
    for seed in 0..20 {
        let fault = run("reads_too", 1, 3, 1, Mode::Checked { seed }, |_, drive| {
            drive(&|| {
                let word = shared_array!(u32, 1);
                if thread_idx_x() == 1 {
                    word.write(0, 1);
                }
                sync_threads();
                let v = word.read(0);
                if thread_idx_x() == 0 {
                    word.write(0, v + 1);
                }
            });
        });
        assert_eq!(fault.kind, FaultKind::SharedRace, "{fault}");
    }
}

#[test]
fn shared_race_inside_a_warp() {
    let fault = run("lockstep", 1, 32, 1, CHECKED, |_, drive| {
        drive(&|| {
            let tile = shared_array!(u32, 32);
            tile.write(lane_id() as usize, 1);
            // A shuffle brings the lanes together but does not order memory.
            warp::shuffle(FULL_MASK, 0u32, 0);
            let _ = tile.read(lane_id() as usize ^ 1);
        });
    });
    assert_eq!(fault.kind, FaultKind::SharedRace, "{fault}");
}

#[test]
fn shared_race_past_the_wrong_named_barrier() {
    let fault = run("wrong_barrier", 1, 128, 1, CHECKED, |_, drive| {
        drive(&|| {
            let tile = shared_array!(u32, 128);
            let i = thread_idx_x() as usize;
            tile.write(i, 1);
            // Warps 0 and 1 meet, and warps 2 and 3; but the exchange is between 0 and 2, 1 and 3.
            sync_threads_count(1 + warp_id() / 2, 64);
            let _ = tile.read(i ^ 64);
        });
    });
    assert_eq!(fault.kind, FaultKind::SharedRace, "{fault}");
}

#[test]
fn an_atomic_races_with_a_plain_read() {
    let fault = run("histogram", 1, 64, 1, CHECKED, |_, drive| {
        drive(&|| {
            let bins = shared_array!(u32, 4);
            if thread_idx_x() < 4 {
                bins.write(thread_idx_x() as usize, 0);
            }
            sync_threads();
            bins.atomic_add(thread_idx_x() as usize % 4, 1, Order::Relaxed, Scope::Block);
            let _ = bins.read(thread_idx_x() as usize % 4);
        });
    });
    assert_eq!(fault.kind, FaultKind::SharedRace, "{fault}");
}

#[test]
fn global_race_between_blocks() {
    for seed in 0..10 {
        let fault = run(
            "neighbours",
            4,
            32,
            4 * 32 + 32,
            Mode::Checked { seed },
            |args, drive| {
                let a = args[0].global_mut::<u32>();
                drive(&|| {
                    let i = grid::global_id();
                    a.write(i, 1); // blocks: write
                    let _ = a.read(i + 32); // blocks: read
                });
            },
        );
        let source = include_str!("faults.rs");
        let lines = [
            line_of(source, "blocks: write"),
            line_of(source, "blocks: read"),
        ];
        assert!(
            fault.kind == FaultKind::GlobalRace && lines.contains(&fault.line),
            "{fault}"
        );
        assert!(fault.detail.contains("of block"), "{fault}");
    }
}

#[test]
fn global_race_inside_a_block() {
    let fault = run("in_block", 1, 64, 64, CHECKED, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let i = thread_idx_x() as usize;
            a.write(i, 1);
            let _ = a.read(i ^ 1);
        });
    });
    assert_eq!(fault.kind, FaultKind::GlobalRace, "{fault}");
}

/// Every block writes a partial result; the last one to count sums them. `$order`, and whether the block
/// meets before it counts, decide whether that is right.
macro_rules! last_block {
    ($order:expr, $barrier:expr) => {
        |args, drive| {
            let a = args[0].global_mut::<u32>();
            drive(&|| {
                let last = shared_array!(u32, 1);
                let i = thread_idx_x() as usize;
                a.write(1 + grid::global_id(), 1);
                if $barrier {
                    sync_threads();
                }
                if i == 0 {
                    last.write(0, a.atomic_add(0, 1, $order, Scope::Device));
                }
                sync_threads();
                if last.read(0) == 3 {
                    let _ = (0..4).map(|block| a.read(1 + 64 * block + i)).sum::<u32>();
                }
            });
        }
    };
}

#[test]
fn global_race_of_a_last_block_that_does_not_acquire() {
    for (name, entry) in [
        ("relaxed", last_block!(Order::Relaxed, true) as HostEntry),
        ("acquire_only", last_block!(Order::Acquire, true)),
        ("release_only", last_block!(Order::Release, true)),
        ("no_barrier_before", last_block!(Order::AcqRel, false)),
    ] {
        let fault = run(name, 4, 64, 1 + 4 * 64, CHECKED, entry);
        assert_eq!(
            (fault.kind, fault.kernel),
            (FaultKind::GlobalRace, name),
            "{fault}"
        );
    }
}

#[test]
fn atomics_of_block_scope_race_between_blocks() {
    let fault = run("narrow", 2, 32, 1, CHECKED, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            a.atomic_add(0, 1, Order::AcqRel, Scope::Block);
        });
    });
    assert_eq!(fault.kind, FaultKind::GlobalRace, "{fault}");
}

/// One lane a block takes up what earlier blocks left, writes a word, and leaves it behind with `$scope`.
macro_rules! baton {
    ($scope:expr) => {
        |args, drive| {
            let a = args[0].global_mut::<u32>();
            drive(&|| {
                if thread_idx_x() == 0 {
                    a.atomic_add(0, 1, Order::Acquire, Scope::Device);
                    a.write(1, block_idx_x());
                    simt::atomic::fence(Order::Release, $scope);
                    a.atomic_add(0, 1, Order::Relaxed, Scope::Device);
                }
            });
        }
    };
}

#[test]
fn a_fence_of_block_scope_does_not_reach_another_block() {
    let fault = run("narrow_fence", 3, 32, 2, CHECKED, baton!(Scope::Block));
    assert_eq!(fault.kind, FaultKind::GlobalRace, "{fault}");
    let a = memory(&[0u32; 2], CHECKED);
    let wide = kernel("wide_fence", 1, 32, 0, baton!(Scope::Device));
    launch(wide, 3, &[&a], CHECKED).expect("no fault");
    assert_eq!(values::<u32>(&a)[0], 6);
}

#[test]
fn the_read_only_path_does_not_see_what_the_launch_wrote() {
    let fault = run("read_only", 1, 32, 32, CHECKED, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let i = thread_idx_x() as usize;
            let v = a.read_nc(i);
            a.write(i, v + 1);
            sync_threads();
            let _ = a.read(31 - i);
            if i == 6 {
                let _ = a.read_nc(9); // stale path
            }
        });
    });
    assert_fault(
        &fault,
        FaultKind::GlobalRace,
        "read_only",
        0,
        6,
        "stale path",
    );
}

#[test]
fn divergence_at_a_barrier() {
    let entry: HostEntry = |_, drive| {
        drive(&|| {
            if block_idx_x() == 1 && thread_idx_x() >= 40 {
                return;
            }
            sync_threads(); // divergent barrier
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        let fault = run("some_leave", 2, 64, 1, mode, entry);
        assert_fault(
            &fault,
            FaultKind::Divergence,
            "some_leave",
            1,
            0,
            "divergent barrier",
        );
        assert!(
            fault.detail.contains("threads 0-39 wait at sync_threads"),
            "{fault}"
        );
        assert!(fault.detail.contains("threads 40-63 have ended"), "{fault}");
    }
}

#[test]
fn divergence_between_two_barriers_of_a_warp() {
    let entry: HostEntry = |_, drive| {
        drive(&|| {
            if thread_idx_x() < 16 {
                sync_threads();
            } else {
                sync_threads();
            }
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        assert_eq!(
            run("two_calls", 1, 64, 1, mode, entry).kind,
            FaultKind::Divergence
        );
    }
}

#[test]
fn divergence_at_a_named_barrier() {
    for (name, entry) in [
        // Half of each warp comes.
        (
            "half_warps",
            (|_, drive| {
                drive(&|| {
                    if thread_idx_x().is_multiple_of(2) {
                        sync_threads_count(1, 32);
                    }
                });
            }) as HostEntry,
        ),
        ("not_a_multiple", |_, drive| {
            drive(&|| sync_threads_count(1, 33));
        }),
        ("too_many", |_, drive| drive(&|| sync_threads_count(1, 128))),
        ("none", |_, drive| drive(&|| sync_threads_count(1, 0))),
        ("no_such_barrier", |_, drive| {
            drive(&|| sync_threads_count(16, 64));
        }),
        ("counts_differ", |_, drive| {
            drive(&|| sync_threads_count(1, 32 * (1 + warp_id())));
        }),
    ] {
        for mode in [Mode::Fast, CHECKED] {
            let fault = run(name, 1, 64, 1, mode, entry);
            assert_eq!(fault.kind, FaultKind::Divergence, "{name}: {fault}");
        }
    }
}

#[test]
fn divergence_at_a_warp_operation() {
    let entry: HostEntry = |_, drive| {
        drive(&|| {
            if warp_id() == 1 && lane_id() == 7 {
                return;
            }
            warp::ballot(FULL_MASK, true); // divergent ballot
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        let fault = run("lane_leaves", 1, 64, 1, mode, entry);
        assert_fault(
            &fault,
            FaultKind::Divergence,
            "lane_leaves",
            0,
            32,
            "divergent ballot",
        );
        assert!(
            fault.detail.contains("threads 32-38, 40-63 wait at ballot"),
            "{fault}"
        );
    }
}

#[test]
fn divergence_in_how_lanes_take_part() {
    for (name, entry) in [
        (
            "not_in_mask",
            (|_, drive| drive(&|| sync_warp(0xffff_fffe))) as HostEntry,
        ),
        ("reads_absent_lane", |_, drive| {
            drive(&|| {
                if lane_id() < 16 {
                    warp::shuffle(0xffff, 1u32, 20);
                }
            });
        }),
        ("two_operations", |_, drive| {
            drive(&|| {
                if lane_id() < 16 {
                    warp::any(FULL_MASK, true);
                } else {
                    warp::all(FULL_MASK, true);
                }
            });
        }),
        ("two_masks", |_, drive| {
            drive(&|| {
                sync_warp(if lane_id() < 16 {
                    FULL_MASK
                } else {
                    0xffff_fff0 | 1 << lane_id()
                });
            });
        }),
        ("mma_by_two_calls", |_, drive| {
            drive(&|| {
                let mut acc = [0; 4];
                if lane_id() < 16 {
                    mma::m16n8k32::s8s8(&mut acc, [0; 4], [0; 2]);
                } else {
                    mma::m16n8k32::s8s8(&mut acc, [0; 4], [0; 2]);
                }
            });
        }),
    ] {
        for mode in [Mode::Fast, CHECKED] {
            let fault = run(name, 1, 32, 1, mode, entry);
            assert_eq!(fault.kind, FaultKind::Divergence, "{name}: {fault}");
        }
    }
    let fault = run("short_warp", 1, 48, 1, Mode::Fast, |_, drive| {
        drive(&|| mma::m16n8k32::s8s8(&mut [0; 4], [0; 4], [0; 2]));
    });
    assert_eq!(
        (fault.kind, fault.thread / 32),
        (FaultKind::Divergence, 1),
        "{fault}"
    );
}

#[test]
fn divergence_between_shared_arrays() {
    let fault = run("two_tiles", 1, 32, 1, Mode::Fast, |_, drive| {
        drive(&|| {
            if thread_idx_x() < 16 {
                shared_array!(u32, 32);
            } else {
                shared_array!(u32, 64);
            }
        });
    });
    assert_eq!(
        (fault.kind, fault.thread),
        (FaultKind::Divergence, 16),
        "{fault}"
    );
}

#[test]
fn a_read_before_the_wait() {
    let fault = run("impatient", 1, 32, 64, CHECKED, |args, drive| {
        let a = args[0].global::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 64);
            let i = thread_idx_x() as usize;
            cp_async::copy4(tile, i, a, i);
            cp_async::commit();
            cp_async::copy4(tile, 32 + i, a, 32 + i);
            cp_async::commit();
            cp_async::wait_group::<1>();
            let _ = tile.read(i);
            if i == 21 {
                let _ = tile.read(32 + i); // impatient
            }
        });
    });
    assert_fault(
        &fault,
        FaultKind::AsyncRead,
        "impatient",
        0,
        21,
        "impatient",
    );
}

#[test]
fn a_read_behind_a_wait_for_uncommitted_copies() {
    let fault = run("uncommitted", 1, 32, 32, CHECKED, |args, drive| {
        let a = args[0].global::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 32);
            let i = thread_idx_x() as usize;
            cp_async::copy4(tile, i, a, i);
            cp_async::wait_group::<0>();
            let _ = tile.read(i);
        });
    });
    assert_eq!(fault.kind, FaultKind::AsyncRead, "{fault}");
}

#[test]
fn a_copied_tile_needs_a_barrier_too() {
    let fault = run(
        "no_barrier_after_copy",
        1,
        64,
        64,
        CHECKED,
        |args, drive| {
            let a = args[0].global::<u32>();
            drive(&|| {
                let tile = shared_array!(u32, 64);
                let i = thread_idx_x() as usize;
                cp_async::copy4(tile, i, a, i);
                cp_async::wait_all();
                let _ = tile.read(i ^ 32);
            });
        },
    );
    // Depending on who was first, the other thread's copy is unfinished, or finished but not ordered.
    assert!(
        matches!(fault.kind, FaultKind::AsyncRead | FaultKind::SharedRace),
        "{fault}"
    );
}

#[test]
fn a_copy_into_a_tile_that_is_still_read() {
    for seed in 0..10 {
        let fault = run(
            "too_early",
            1,
            64,
            128,
            Mode::Checked { seed },
            |args, drive| {
                let a = args[0].global::<u32>();
                drive(&|| {
                    let tile = shared_array!(u32, 64);
                    let i = thread_idx_x() as usize;
                    for round in 0..2 {
                        cp_async::copy4(tile, i, a, 64 * round + i);
                        cp_async::wait_all();
                        sync_threads();
                        let _ = tile.read(i ^ 32);
                        // A barrier is missing here: the next copy may land under a slow reader.
                    }
                });
            },
        );
        assert!(
            matches!(fault.kind, FaultKind::SharedRace | FaultKind::AsyncRead),
            "{fault}"
        );
    }
}

#[test]
fn the_source_of_a_copy_is_written_too_early() {
    let fault = run("moving_source", 1, 32, 32, CHECKED, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 32);
            let i = thread_idx_x() as usize;
            cp_async::copy4(tile, i, a.as_const(), i); // moving source
            a.write(i, 1);
            cp_async::wait_all();
        });
    });
    assert_eq!(fault.kind, FaultKind::GlobalRace, "{fault}");
    assert_eq!(
        fault.line,
        line_of(include_str!("faults.rs"), "moving source"),
        "{fault}"
    );
}

#[test]
fn a_wait_by_atomics_that_does_not_end() {
    let by_or: HostEntry = |args, drive| {
        let flag = args[0].global_mut::<u32>();
        drive(&|| {
            if grid::global_id() == 35 {
                while flag.atomic_or(1, 0, Order::Acquire, Scope::Device) == 0 {} // spins, flag
            }
        });
    };
    let by_exchange: HostEntry = |_, drive| {
        drive(&|| {
            let lock = shared_array!(u32, 1);
            if thread_idx_x() == 0 {
                lock.write(0, u32::from(block_idx_x() == 1));
            }
            sync_threads();
            if thread_idx_x() == 3 {
                while lock.atomic_compare_exchange(0, 0, 1, Order::AcqRel, Scope::Block) != 0 {} // spins, lock
            }
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        let fault = run("awaits", 2, 32, 2, mode, by_or);
        assert_fault(&fault, FaultKind::Spin, "awaits", 1, 3, "spins, flag");
        assert!(
            fault
                .detail
                .contains("4 bytes at byte 4 of the 8 of `buffer`"),
            "{fault}"
        );
        let fault = run("locks", 2, 32, 1, mode, by_exchange);
        assert_fault(&fault, FaultKind::Spin, "locks", 1, 3, "spins, lock");
    }
}

#[test]
fn a_wait_of_a_block_through_its_barrier() {
    let entry: HostEntry = |args, drive| {
        let flag = args[0].global_mut::<u32>();
        drive(&|| {
            loop {
                let now = flag.atomic_add(0, 0, Order::Acquire, Scope::Device); // spins, together
                if now != 0 {
                    break;
                }
                sync_threads();
            }
        });
    };
    let fault = run("together", 1, 2, 1, Mode::Fast, entry);
    assert_eq!(fault.kind, FaultKind::Spin, "{fault}");
    let line = line_of(include_str!("faults.rs"), "spins, together");
    assert_eq!(fault.line, line, "{fault}");
}

#[test]
fn a_wait_by_plain_reads_is_found_in_checked_mode() {
    let entry: HostEntry = |args, drive| {
        let flag = args[0].global_mut::<u32>();
        drive(&|| {
            if grid::global_id() == 35 {
                while flag.read(1) == 0 {} // spins, reading
            }
        });
    };
    let fault = run("reads", 2, 32, 2, CHECKED, entry);
    assert_fault(&fault, FaultKind::Spin, "reads", 1, 3, "spins, reading");
}

#[test]
fn atomics_that_change_nothing_are_no_wait_while_the_thread_gets_on() {
    const MANY: usize = (1 << 24) + 2;
    let a = memory(&[0u32; 4], Mode::Fast);
    let busy = kernel("busy", 1, 1, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            for i in 0..MANY {
                a.atomic_add(i % 2, 0, Order::Relaxed, Scope::Device);
            }
            // A look at a sign to stop between two pieces of work.
            for _ in 0..MANY {
                a.atomic_or(2, 0, Order::Relaxed, Scope::Device);
                a.atomic_add(3, 1, Order::Relaxed, Scope::Device);
            }
        });
    });
    launch(busy, 1, &[&a], Mode::Fast).expect("no fault");
    assert_eq!(values::<u32>(&a), [0, 0, 0, MANY as u32]);
}

#[test]
fn a_panic() {
    let entry: HostEntry = |_, drive| {
        drive(&|| {
            let table = [1, 2, 3];
            let i = thread_idx_x() as usize + block_idx_x() as usize;
            assert!(i < table.len() + 31, "index {i}"); // panics
        });
    };
    for mode in [Mode::Fast, CHECKED] {
        let fault = run("panics", 4, 32, 1, mode, entry);
        assert_eq!(
            (fault.kind, fault.thread),
            (FaultKind::Panic, 34 - fault.block[0]),
            "{fault}"
        );
        assert_eq!(
            fault.line,
            line_of(include_str!("faults.rs"), "panics"),
            "{fault}"
        );
        assert!(fault.to_string().contains("index 34"), "{fault}");
    }
}

#[test]
fn suspended_threads_are_dropped_after_a_fault() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static MADE: AtomicU32 = AtomicU32::new(0);
    static DROPPED: AtomicU32 = AtomicU32::new(0);
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            // A collective in a destructor must not wait for threads that will never come.
            sync_threads();
        }
    }
    let entry: HostEntry = |_, drive| {
        drive(&|| {
            MADE.fetch_add(1, Ordering::Relaxed);
            let _guard = Guard;
            sync_warp(FULL_MASK);
            assert!(thread_idx_x() != 63, "the last thread");
            sync_threads();
        });
    };
    for mode in [Mode::Fast, CHECKED, Mode::Checked { seed: 2 }] {
        assert_eq!(run("dropped", 1, 64, 1, mode, entry).kind, FaultKind::Panic);
        assert_eq!(
            MADE.load(Ordering::Relaxed),
            DROPPED.load(Ordering::Relaxed)
        );
    }
    assert!(DROPPED.load(Ordering::Relaxed) > 96);
    // The machine works on.
    let a = memory(&[0u32; 64], Mode::Fast);
    let count = kernel("after", 1, 64, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            sync_threads();
            a.write(thread_idx_x() as usize, thread_idx_x());
        });
    });
    launch(count, 1, &[&a], Mode::Fast).expect("no fault");
    assert_eq!(values::<u32>(&a), (0..64).collect::<Vec<_>>());
}
