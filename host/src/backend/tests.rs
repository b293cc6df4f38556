//! The backend with the emulator behind it. What a GPU can be asked as well is in
//! [`crate::check::suite`].

use std::time::Duration;

use simt::Global;
use simt::GlobalMut;
use simt::grid;
use simt::launch::{DeviceMut, DeviceRef, Grid, Kernel, Param, ParamKind, RawArg};

use super::*;

mod fake;

/// `c[i] += factor * a[i]`, as `#[kernel]` would describe it.
fn scale(a: Global<u32>, c: GlobalMut<u32>, factor: u32, n: u32) {
    for i in grid::stride::<1>(n as usize) {
        c.write(i, c.read(i).wrapping_add(a.read(i).wrapping_mul(factor)));
    }
}

fn scale_entry(args: &[RawArg<'_>], run: &mut dyn FnMut(&(dyn Fn() + Sync))) {
    let (a, c) = (args[0].global::<u32>(), args[1].global_mut::<u32>());
    let (factor, n) = (args[2].scalar::<u32>(), args[3].scalar::<u32>());
    run(&|| scale(a, c, factor, n));
}

const fn variant(name: &'static str) -> VariantInfo {
    VariantInfo {
        name,
        constants: &[],
        block: 64,
        min_blocks: 0,
        shared_bytes: 0,
        min_arch: 80,
        arch_feature: None,
        entry: scale_entry,
    }
}

static SCALE: Kernel = Kernel {
    name: "scale",
    doc: "",
    params: &[
        Param {
            name: "a",
            kind: ParamKind::Global {
                element: "u32",
                size: 4,
            },
        },
        Param {
            name: "c",
            kind: ParamKind::GlobalMut {
                element: "u32",
                size: 4,
            },
        },
        Param {
            name: "factor",
            kind: ParamKind::Scalar { ty: "u32", size: 4 },
        },
        Param {
            name: "n",
            kind: ParamKind::Scalar { ty: "u32", size: 4 },
        },
    ],
    variants: &[
        variant("scale"),
        VariantInfo {
            block: 2048,
            ..variant("scale_too_wide")
        },
        VariantInfo {
            shared_bytes: 100 << 10,
            ..variant("scale_shared")
        },
        VariantInfo {
            shared_bytes: 227 << 10,
            ..variant("scale_shared_too_large")
        },
        variant("scale_absent"),
        variant("scale_damaged"),
        variant("fault"),
        variant("scale_clmad"),
        variant("scale_no_graph"),
    ],
    file: file!(),
    line: line!(),
};

fn launch_scale(
    queue: &impl Queue,
    grid: Grid,
    a: &impl DeviceRef<u32>,
    c: &mut impl DeviceMut<u32>,
    factor: u32,
    n: u32,
) -> Result<(), LaunchError> {
    queue.launch(&Launch {
        kernel: &SCALE,
        variant: &SCALE.variants[0],
        grid,
        args: &[
            RawArg::Buffer(a.raw()),
            RawArg::Buffer(c.raw_mut()),
            RawArg::Scalar(&factor.to_ne_bytes()),
            RawArg::Scalar(&n.to_ne_bytes()),
        ],
    })
}

/// Both modes of the emulator, or, where [`fake`] runs the tests again, its GPU.
fn backends() -> Vec<Backend> {
    match fake::backend() {
        Some(backend) => vec![backend],
        None => vec![
            Backend::cpu(Mode::Fast),
            Backend::cpu(Mode::Checked { seed: 1 }),
        ],
    }
}

fn reason(error: LaunchError) -> String {
    match error {
        LaunchError::Refused { reason, .. } => reason,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn launches_through_a_backend_a_stream_and_a_graph_do_the_same() {
    for backend in backends() {
        let numbers: Vec<u32> = (0..1000).collect();
        let a = backend.upload(&numbers).unwrap();
        let mut c = backend.alloc_zeroed::<u32>(1000).unwrap();
        launch_scale(&backend, Grid::x(3), &a, &mut c, 2, 1000).unwrap();
        let stream = backend.stream().unwrap();
        launch_scale(&stream, Grid::x(1), &a, &mut c, 3, 1000).unwrap();
        let graph = backend
            .graph(|queue| {
                launch_scale(queue, Grid::x(2), &a, &mut c, 4, 1000)?;
                launch_scale(queue, Grid::x(2), &a, &mut c, 5, 500)
            })
            .unwrap();
        assert_eq!(graph.len(), 2);
        let expected = |i: u32, graphs: u32| i * (5 + graphs * if i < 500 { 9 } else { 4 });
        let check = |graphs| {
            let got = stream.download(&c).unwrap();
            assert!((0..1000).all(|i| got[i as usize] == expected(i, graphs)));
        };
        check(0);
        graph.launch(&stream).unwrap();
        graph.launch(&stream).unwrap();
        check(2);
    }
}

#[test]
fn a_graph_keeps_the_memory_that_it_uses() {
    let backend = backends().remove(0);
    let a = backend.upload(&[7u32; 64]).unwrap();
    let mut c = backend.alloc_zeroed::<u32>(64).unwrap();
    let graph = backend
        .graph(|queue| launch_scale(queue, Grid::x(1), &a, &mut c, 1, 64))
        .unwrap();
    assert_eq!(lock(&backend.0.live).len(), 2);
    drop(a);
    assert_eq!(lock(&backend.0.live).len(), 2);
    graph.launch(&backend.stream().unwrap()).unwrap();
    assert_eq!(backend.download(&c).unwrap(), [7; 64]);
    drop((graph, c));
    assert_eq!(lock(&backend.0.live).len(), 0);
}

#[test]
fn a_launch_on_memory_that_is_gone_or_of_another_backend_is_refused() {
    let backend = backends().remove(0);
    let other = Backend::cpu(Mode::Fast);
    let a = backend.upload(&[1u32; 8]).unwrap();
    let mut foreign = other.alloc_zeroed::<u32>(8).unwrap();
    let error = launch_scale(&backend, Grid::x(1), &a, &mut foreign, 1, 8).unwrap_err();
    assert_eq!(reason(error), "the buffer for `c` is not of this backend");

    let gone = backend.alloc_zeroed::<u32>(8).unwrap();
    let raw = gone.raw();
    drop(gone);
    let too_long = {
        let mut raw = a.raw();
        raw.bytes += 4;
        raw
    };
    let before = {
        let mut raw = a.raw();
        raw.address -= 4;
        raw
    };
    for raw in [raw, too_long, before] {
        let error = backend
            .launch(&Launch {
                kernel: &SCALE,
                variant: &SCALE.variants[0],
                grid: Grid::x(1),
                args: &[
                    RawArg::Buffer(a.raw()),
                    RawArg::Buffer(raw),
                    RawArg::Scalar(&[0; 4]),
                    RawArg::Scalar(&[0; 4]),
                ],
            })
            .unwrap_err();
        assert_eq!(reason(error), "the buffer for `c` is not of this backend");
    }
}

#[test]
fn a_launch_that_does_not_fit_its_kernel_is_refused_before_it_starts() {
    let backend = backends().remove(0);
    let buffer = backend.upload(&[1u32; 8]).unwrap();
    let raw = RawArg::Buffer(buffer.raw());
    let word = RawArg::Scalar(&[0; 4]);
    let right = [raw, raw, word, word];
    let try_launch = |variant: usize, grid, args: &[RawArg<'_>]| {
        let launch = Launch {
            kernel: &SCALE,
            variant: &SCALE.variants[variant],
            grid,
            args,
        };
        backend.launch(&launch)
    };
    assert!(try_launch(0, Grid::x(1), &right).is_ok());
    for (variant, grid, args) in [
        (1, Grid::x(1), &right[..]),
        (0, Grid::x(0), &right),
        (0, Grid::xy(1, 65_536), &right),
        (0, Grid::x(1 << 31), &right),
        (0, Grid::x(1), &right[..3]),
        (0, Grid::x(1), &[raw, word, word, word]),
        (0, Grid::x(1), &[raw, raw, raw, word]),
        (0, Grid::x(1), &[raw, raw, word, RawArg::Scalar(&[0; 8])]),
    ] {
        let reason = reason(try_launch(variant, grid, args).unwrap_err());
        assert!(!reason.contains('\n') && reason.len() > 10, "{reason}");
    }
    static OTHER: Kernel = Kernel {
        name: "other",
        doc: "",
        params: SCALE.params,
        variants: &[],
        file: "",
        line: 0,
    };
    let error = backend
        .launch(&Launch {
            kernel: &OTHER,
            variant: &SCALE.variants[0],
            grid: Grid::x(1),
            args: &right,
        })
        .unwrap_err();
    assert_eq!(reason(error), "it is no variant of `other`");
}

#[test]
fn a_fault_in_a_kernel_is_an_error_with_its_place() {
    for backend in backends() {
        let a = backend.upload(&[1u32; 8]).unwrap();
        let mut c = backend.alloc_zeroed::<u32>(8).unwrap();
        let error = launch_scale(&backend, Grid::x(1), &a, &mut c, 1, 9).unwrap_err();
        let line = error.to_string();
        assert!(matches!(error, LaunchError::Fault(_)), "{line}");
        assert!(
            line.contains("scale") && line.contains("tests.rs"),
            "{line}"
        );
    }
}

#[test]
fn views_are_ranges_of_their_buffer() {
    for backend in backends() {
        let a = backend.upload(&(0..100u32).collect::<Vec<_>>()).unwrap();
        let mut c = backend.alloc_zeroed::<u32>(50).unwrap();
        let from = a.view(10..30).unwrap();
        let mut to = c.view_mut(5..25).unwrap();
        launch_scale(&backend, Grid::x(1), &from, &mut to, 1, 20).unwrap();
        let got = backend.download(&c).unwrap();
        assert_eq!(got[..5], [0; 5]);
        assert_eq!(got[5..25], (10..30).collect::<Vec<_>>());
        assert_eq!(got[25..], [0; 25]);
        if backend.kind() == Kind::Cuda {
            continue;
        }
        // The bounds are those of the view.
        let mut to = c.view_mut(5..25).unwrap();
        assert!(launch_scale(&backend, Grid::x(1), &from, &mut to, 1, 21).is_err());
        assert!(matches!(a.view(90..101), Err(Error::Range { .. })));
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = a.view(9..8).is_err();
        assert!(reversed);
        assert!(
            backend
                .download(&a.view(100..100).unwrap())
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn more_memory_than_there_is_is_refused_in_one_sentence() {
    for backend in backends() {
        let free = backend.memory().unwrap().free;
        assert!(free > 0);
        for error in [
            backend.alloc::<u8>(free as usize * 2).unwrap_err(),
            backend.alloc_zeroed::<u64>(free as usize).unwrap_err(),
        ] {
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
            assert!(error.to_string().contains(" free and "), "{error}");
        }
        if backend.kind() == Kind::Cpu {
            assert!(backend.pinned::<u8>(free as usize * 2).is_err());
        }
        assert!(matches!(
            backend.alloc::<u64>(usize::MAX / 4).unwrap_err(),
            Error::TooLong { .. }
        ));
        assert!(matches!(
            backend.alloc::<u8>(usize::MAX).unwrap_err(),
            Error::TooLong { .. }
        ));
    }
}

#[test]
fn copies_fills_events_and_pinned_memory() {
    for backend in backends() {
        let stream = backend.stream().unwrap();
        let mut pinned = backend.pinned::<u32>(100).unwrap();
        assert_eq!(pinned[..], [0; 100]);
        for (i, word) in pinned.iter_mut().enumerate() {
            *word = i as u32 + 1;
        }
        let (start, end) = (backend.event().unwrap(), backend.event().unwrap());
        assert!(matches!(end.elapsed_since(&start), Err(Error::NotRecorded)));
        let mut a = backend.alloc::<u32>(100).unwrap();
        let mut b = backend.alloc_zeroed::<u32>(100).unwrap();
        stream.record(&start).unwrap();
        stream.upload(&mut a, &pinned).unwrap();
        stream
            .copy(&mut b.view_mut(10..20).unwrap(), &a.view(0..10).unwrap())
            .unwrap();
        stream.zero(&mut b.view_mut(15..30).unwrap()).unwrap();
        stream.record(&end).unwrap();
        backend.stream().unwrap().wait(&end).unwrap();
        assert!(end.elapsed_since(&start).unwrap() < Duration::from_secs(10));

        let got = stream.download(&b).unwrap();
        assert_eq!(got[10..15], [1, 2, 3, 4, 5]);
        assert_eq!(got.iter().sum::<u32>(), 15);
        stream
            .download_into(&a.view(95..100).unwrap(), &mut pinned[..5])
            .unwrap();
        assert_eq!(pinned[..6], [96, 97, 98, 99, 100, 6]);
        backend.write(&mut b, &[3; 100]).unwrap();
        assert_eq!(backend.download(&b).unwrap(), [3; 100]);

        assert!(matches!(
            stream.upload(&mut b, &[1]),
            Err(Error::Length { .. })
        ));
        let other = Backend::cpu(Mode::Fast);
        let foreign = other.upload(&[1u32]).unwrap();
        assert!(matches!(
            stream.download(&foreign),
            Err(Error::OtherBackend { .. })
        ));
        let event = other.event().unwrap();
        assert!(matches!(
            stream.record(&event),
            Err(Error::OtherBackend { .. })
        ));
    }
}

#[test]
fn empty_buffers_are_buffers() {
    for backend in backends() {
        let a = backend.upload::<u32>(&[]).unwrap();
        let mut b = backend.alloc_zeroed::<u32>(0).unwrap();
        assert!(a.is_empty() && b.bytes() == 0);
        assert_ne!(a.raw().address, b.raw().address);
        launch_scale(&backend, Grid::x(1), &a, &mut b, 1, 0).unwrap();
        assert!(backend.download(&b).unwrap().is_empty());
        assert!(backend.pinned::<u64>(0).unwrap().is_empty());
    }
}

#[test]
fn auto_says_why_it_did_not_take_the_gpu() {
    let backend = Backend::open(Choice::Auto).unwrap();
    assert_eq!(backend.kind() == Kind::Cpu, backend.passed_over().is_some());
}

#[test]
fn errors_are_one_line_that_says_what_to_do() {
    for error in [
        Error::NoDriver,
        Error::DriverTooOld {
            found: "knows CUDA 12.4".into(),
        },
        Error::NoGpu,
        Error::GpuTooOld {
            name: "Tesla T4".into(),
            major: 7,
            minor: 5,
        },
        Error::EmptyImage {
            arch: "sm_90a".into(),
        },
        Error::NoCode {
            what: "`k`".into(),
            held: "sm_80".into(),
            arch: "sm_90a".into(),
        },
        Error::OutOfMemory {
            place: "NVIDIA H200".into(),
            wanted: 3 << 40,
            free: 5 << 30,
        },
    ] {
        let line = error.to_string();
        assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        assert!(line.contains(": "), "{line}");
    }
}

#[test]
fn bytes_read_well() {
    let text = |bytes| Bytes(bytes).to_string();
    assert_eq!(text(0), "0 bytes");
    assert_eq!(text(1023), "1023 bytes");
    assert_eq!(text(60 << 20), "60.0 MiB");
    assert_eq!(text(141 << 30), "141.0 GiB");
    assert_eq!(text(u64::MAX), "16777216.0 TiB");
}
