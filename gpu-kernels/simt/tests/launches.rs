//! Launches: what is refused, what schedules vary, and what runs side by side.

mod common;

use std::collections::HashSet;

use common::{fault, kernel, launch, memory, values};
use simt::emulator::{self, FaultKind, Memory, Mode};
use simt::launch::{
    Grid, HostEntry, Kernel, Launch, LaunchError, Param, ParamKind, RawArg, RawBuffer,
};
use simt::prelude::*;
use simt::thread::{
    FULL_MASK, block_dim_x, block_idx_x, block_idx_y, block_idx_z, grid_dim_x, grid_dim_y,
    grid_dim_z, sync_threads, thread_idx_x,
};

/// Each thread draws a ticket per phase: the order in which threads ran.
fn tickets(mode: Mode) -> Vec<u32> {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            for phase in 0..2 {
                let ticket = a.atomic_add(0, 1, Order::Relaxed, Scope::Device);
                a.write(1 + 128 * phase + grid::global_id(), ticket);
                sync_threads();
            }
        });
    };
    let a = memory(&[0u32; 1 + 256], mode);
    launch(kernel("tickets", 1, 32, 0, entry), 4, &[&a], mode).expect("no fault");
    values::<u32>(&a)[1..].to_vec()
}

#[test]
fn a_seed_is_a_schedule() {
    let orders: HashSet<Vec<u32>> = (0..16)
        .map(|seed| tickets(Mode::Checked { seed }))
        .collect();
    assert_eq!(orders.len(), 16);
    assert_eq!(
        tickets(Mode::Checked { seed: 7 }),
        tickets(Mode::Checked { seed: 7 })
    );
    for order in orders {
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, (0..256).collect::<Vec<_>>());
        // Both the order of blocks and the order after a barrier vary.
        assert_ne!(order, (0..256).collect::<Vec<_>>());
    }
}

#[test]
fn a_seed_orders_the_blocks_too() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let ticket = a.atomic_add(0, 1, Order::Relaxed, Scope::Device);
            a.write(1 + block_idx_x() as usize, ticket);
        });
    };
    let order = |seed| {
        let mode = Mode::Checked { seed };
        let a = memory(&[0u32; 9], mode);
        launch(kernel("blocks", 1, 1, 0, entry), 8, &[&a], mode).expect("no fault");
        values::<u32>(&a)[1..].to_vec()
    };
    let orders: HashSet<Vec<u32>> = (0..8).map(order).collect();
    assert!(orders.len() > 4);
}

#[test]
fn a_racy_result_depends_on_the_seed() {
    // The fault is found under every schedule, though each leaves another value.
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| a.write(0, thread_idx_x()));
    };
    let reported: HashSet<u32> = (0..8)
        .map(|seed| {
            let mode = Mode::Checked { seed };
            let a = memory(&[0u32], mode);
            let fault = fault(launch(kernel("racy", 1, 32, 0, entry), 1, &[&a], mode));
            assert_eq!(fault.kind, FaultKind::GlobalRace);
            fault.thread
        })
        .collect();
    assert!(reported.len() > 1);
}

#[test]
fn indices_of_a_three_dimensional_grid() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            assert_eq!(
                (grid_dim_x(), grid_dim_y(), grid_dim_z(), block_dim_x()),
                (3, 2, 4, 2)
            );
            let block = block_idx_x() + 3 * (block_idx_y() + 2 * block_idx_z());
            let i = (2 * block + thread_idx_x()) as usize;
            a.write(i, a.read(i) + 1);
        });
    };
    let kernel = kernel("indices", 1, 2, 0, entry);
    for mode in [Mode::Fast, Mode::Checked { seed: 4 }] {
        let a = memory(&[0u32; 48], mode);
        let args = [RawArg::Buffer(a.raw(0))];
        let launch = Launch {
            kernel,
            variant: &kernel.variants[0],
            grid: Grid::xyz(3, 2, 4),
            args: &args,
        };
        emulator::run(&launch, mode).expect("no fault");
        assert_eq!(values::<u32>(&a), [1; 48]);
    }
}

/// A kernel with one buffer and one scalar.
fn two_parameters() -> &'static Kernel {
    let kernel = kernel("two_parameters", 1, 32, 0, |args, drive| {
        let (a, n) = (args[0].global_mut::<u32>(), args[1].scalar::<u32>());
        drive(&|| a.write(thread_idx_x() as usize, n));
    });
    let scalar = Param {
        name: "n",
        kind: ParamKind::Scalar { ty: "u32", size: 4 },
    };
    let params = [kernel.params, &[scalar]].concat().leak();
    let variants = std::slice::from_ref(&kernel.variants[0]);
    Box::leak(Box::new(Kernel {
        name: "two_parameters",
        doc: "",
        params,
        variants,
        file: "",
        line: 0,
    }))
}

#[test]
fn what_does_not_fit_is_refused() {
    let kernel = two_parameters();
    let a = Memory::zeroed(128, Mode::Fast).expect("memory");
    let buffer = RawArg::Buffer(a.raw(0));
    let n = 5u32.to_le_bytes();
    let scalar = RawArg::Scalar(&n);
    let run = |grid, args: &[RawArg<'_>]| {
        emulator::run(
            &Launch {
                kernel,
                variant: &kernel.variants[0],
                grid,
                args,
            },
            Mode::Fast,
        )
    };
    run(Grid::x(1), &[buffer, scalar]).expect("no fault");
    assert_eq!(values::<u32>(&a), [5; 32]);

    let gone = RawArg::Buffer(Memory::zeroed(128, Mode::Fast).expect("memory").raw(0));
    let on_gpu = RawArg::Buffer(RawBuffer::on_gpu(0x7000_0000, 128, 0));
    let mut beyond = a.raw(0);
    beyond.bytes += 1;
    for (grid, args, reason) in [
        (Grid::x(0), &[buffer, scalar][..], "grid"),
        (Grid::xy(1, 70_000), &[buffer, scalar], "grid"),
        (Grid::x(1), &[buffer], "1 arguments for 2"),
        (Grid::x(1), &[scalar, scalar], "a scalar for a buffer"),
        (Grid::x(1), &[buffer, buffer], "a buffer for a scalar"),
        (
            Grid::x(1),
            &[buffer, RawArg::Scalar(&[0; 8])],
            "8 bytes for a u32 of 4",
        ),
        (
            Grid::x(1),
            &[gone, scalar],
            "`buffer` is not in the emulator's memory",
        ),
        (
            Grid::x(1),
            &[on_gpu, scalar],
            "`buffer` is not in the emulator's memory",
        ),
        (
            Grid::x(1),
            &[RawArg::Buffer(beyond), scalar],
            "`buffer` is not in the emulator's memory",
        ),
    ] {
        let error = run(grid, args).expect_err(reason);
        assert!(matches!(error, LaunchError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(reason) && text.starts_with("two_parameters: "),
            "{text}"
        );
    }
}

#[test]
fn an_entry_that_disagrees_with_its_parameters_is_refused() {
    let kernel = kernel("disagrees", 1, 32, 0, |args, drive| {
        let _ = args[0].scalar::<u32>();
        drive(&|| ());
    });
    let a = Memory::zeroed(4, Mode::Fast).expect("memory");
    let error = launch(kernel, 1, &[&a], Mode::Fast).expect_err("refused");
    assert!(matches!(error, LaunchError::Refused { .. }), "{error}");
}

#[test]
fn too_much_shared_memory_is_refused_or_a_fault() {
    let kernel_with = |dynamic| {
        kernel("big", 0, 32, dynamic, |_, drive| {
            drive(&|| {
                shared_array!(u8, 48 * 1024);
            });
        })
    };
    launch(kernel_with(179 * 1024), 1, &[], Mode::Fast).expect("no fault");
    let fault = fault(launch(kernel_with(180 * 1024), 1, &[], Mode::Fast));
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    let error = launch(kernel_with(228 * 1024), 1, &[], Mode::Fast).expect_err("refused");
    assert!(matches!(error, LaunchError::Refused { .. }), "{error}");
}

#[test]
fn launches_from_many_threads_share_memory() {
    let add = kernel("add", 2, 64, 0, |args, drive| {
        let (a, b) = (args[0].global::<u32>(), args[1].global_mut::<u32>());
        drive(&|| {
            sync_threads();
            b.atomic_add(
                thread_idx_x() as usize,
                a.read(thread_idx_x() as usize),
                Order::Relaxed,
                Scope::Device,
            );
        });
    });
    for mode in [Mode::Fast, Mode::Checked { seed: 1 }] {
        let (a, b) = (memory(&[1u32; 64], mode), memory(&[0u32; 64], mode));
        std::thread::scope(|scope| {
            for i in 0..8 {
                // The two orders of arguments would lock each other out if locks had no order.
                let (a, b) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
                scope.spawn(move || launch(add, 2, &[a, b], mode).expect("no fault"));
            }
        });
        let sums = values::<u32>(&a)
            .into_iter()
            .chain(values::<u32>(&b))
            .sum::<u32>();
        assert!(sums >= 64 + 64 * 2 * 8, "{sums}");
    }
}

#[test]
fn one_buffer_may_be_passed_twice() {
    let copy = kernel("shift", 2, 32, 0, |args, drive| {
        let (a, b) = (args[0].global::<u32>(), args[1].global_mut::<u32>());
        drive(&|| {
            let v = a.read(thread_idx_x() as usize);
            b.write(32 + thread_idx_x() as usize, v);
        });
    });
    for mode in [Mode::Fast, Mode::Checked { seed: 1 }] {
        let a = memory::<u32>(&(0..64).collect::<Vec<_>>(), mode);
        launch(copy, 1, &[&a, &a], mode).expect("no fault");
        assert_eq!(values::<u32>(&a)[32..], (0..32).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_block_of_collectives() {
    let entry: HostEntry = |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let tile = shared_array!(u32, 1024);
            let i = thread_idx_x() as usize;
            tile.write(i, warp::reduce_add(FULL_MASK, i as u32));
            for step in [512, 256, 128, 64, 32] {
                sync_threads();
                if i < step {
                    tile.write(i, tile.read(i) + tile.read(i + step));
                }
            }
            if i == 0 {
                a.write(block_idx_x() as usize, tile.read(0));
            }
        });
    };
    for mode in [Mode::Fast, Mode::Checked { seed: 9 }] {
        let a = memory(&[0u32; 3], mode);
        launch(kernel("full", 1, 1024, 0, entry), 3, &[&a], mode).expect("no fault");
        assert_eq!(values::<u32>(&a), [1023 * 512; 3]);
    }
}

#[test]
#[should_panic(expected = "only be used in a kernel")]
fn a_word_outside_a_kernel_says_so() {
    sync_threads();
}

#[test]
fn copies_reach_any_offset() {
    let pattern: Vec<u8> = (0..100u8).collect();
    for mode in [Mode::Fast, Mode::Checked { seed: 0 }] {
        for (offset, len) in
            (0..20).flat_map(|offset| [0, 1, 7, 8, 9, 31, 80].map(|len| (offset, len)))
        {
            let memory = Memory::zeroed(100, mode).expect("memory");
            assert_eq!(memory.copy_in(offset, &pattern[..len]), len);
            let mut all = [0xff; 100];
            assert_eq!(memory.copy_out(0, &mut all), 100);
            let inside = |i: usize| (offset..offset + len).contains(&i);
            for (i, byte) in all.into_iter().enumerate() {
                assert_eq!(byte, if inside(i) { pattern[i - offset] } else { 0 });
            }
            let mut part = vec![0xff; len];
            assert_eq!(memory.copy_out(offset, &mut part), len);
            assert_eq!(part, pattern[..len]);
        }
        let memory = Memory::zeroed(100, mode).expect("memory");
        assert_eq!(memory.copy_in(96, &pattern), 4);
        assert_eq!(memory.copy_out(99, &mut [0; 8]), 1);
        assert_eq!(memory.copy_in(usize::MAX, &pattern), 0);
        assert_eq!(memory.copy_out(101, &mut [0; 8]), 0);
    }
    assert!(Memory::zeroed(usize::MAX, Mode::Fast).is_err());
}
