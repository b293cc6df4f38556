//! The `cuda` backend against a driver of our own (`fake_driver.rs`): the order of calls, the
//! lifetimes of handles and the errors, on a machine without a GPU.
//!
//! `libcuda` is looked for once in a process, so each test runs this test binary again, with the
//! fake first in LD_LIBRARY_PATH.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use codegen::arch::Arch;
use codegen::image::{Entry, EntryInfo, SassFacts};
use cudarc::driver::sys;

use super::*;

/// Set in the processes that have the fake driver.
const MARK: &str = "GRISTMILL_FAKE_DRIVER";

/// Every test that makes sense on either backend.
const EITHER: &[&str] = &[
    "a_graph_keeps_the_memory_that_it_uses",
    "a_launch_on_memory_that_is_gone_or_of_another_backend_is_refused",
    "a_launch_that_does_not_fit_its_kernel_is_refused_before_it_starts",
    "copies_fills_events_and_pinned_memory",
    "empty_buffers_are_buffers",
    "launches_through_a_backend_a_stream_and_a_graph_do_the_same",
    "more_memory_than_there_is_is_refused_in_one_sentence",
    "views_are_ranges_of_their_buffer",
];

fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let entry = |variant: &str, arch, code: &str| {
            let info = EntryInfo {
                variant: variant.into(),
                arch,
                registers: 1,
                shared_bytes: 1024,
                dynamic_shared: 0,
                stack_bytes: 0,
                spill_bytes: 0,
                facts: SassFacts {
                    clmad: u32::from(variant.contains("clmad") || variant.contains("polyval")),
                    ..SassFacts::default()
                },
            };
            Entry::new(info, "", format!("{code}\0").as_bytes(), "")
        };
        let good = |variant: &str| entry(variant, Arch::Sm90a, &format!("FAKE {variant}"));
        let entries = vec![
            good("scale"),
            good("scale_shared"),
            good("scale_shared_too_large"),
            good("fault"),
            good("scale_clmad"),
            good("scale_no_graph"),
            good("ceiling_copy"),
            good("polyval_mul__schoolbook"),
            entry("scale_damaged", Arch::Sm90a, "not a cubin"),
            entry("scale_absent", Arch::Sm120, "FAKE scale_absent"),
        ];
        Image::new("", "", "", entries)
    })
}

/// The fake GPU, in a process that has one.
pub(super) fn backend() -> Option<Backend> {
    std::env::var_os(MARK)?;
    Some(Backend::cuda(image()).expect("the fake driver works"))
}

/// The folder of the fake `libcuda.so.1`, built once.
fn library() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder").keep();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/backend/fake_driver.rs");
        let built = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args([
                "--edition",
                "2024",
                "--crate-type",
                "cdylib",
                "--crate-name",
                "cuda",
            ])
            .arg("-o")
            .arg(folder.join("libcuda.so.1"))
            .arg(source)
            .status()
            .expect("rustc starts");
        assert!(built.success());
        folder
    });
    folder.clone()
}

/// Runs one test of this binary again, with the fake driver and `settings`.
fn again(test: &str, settings: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "--include-ignored", test])
        .env("LD_LIBRARY_PATH", library())
        .env(MARK, "1")
        .envs(settings.iter().copied())
        .output()
        .expect("this binary starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} with {settings:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// In a process with the fake driver: how many of its objects are alive.
fn live() -> usize {
    // SAFETY: the library is loaded, and the function has this signature in `fake_driver.rs`.
    unsafe {
        let count = sys::culib()
            .get::<extern "C" fn() -> usize>(b"fake_live")
            .expect("the fake driver");
        count()
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "builds a libcuda.so.1")]
fn the_tests_of_the_emulator_pass_on_the_fake_gpu() {
    for test in EITHER {
        again(&format!("backend::tests::{test}"), &[]);
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "builds a libcuda.so.1")]
fn what_only_a_gpu_does() {
    again("backend::tests::fake::inner_launches", &[]);
    again("backend::tests::fake::inner_leaks", &[]);
    again("backend::tests::fake::inner_promises", &[]);
    again("backend::tests::fake::inner_faults", &[]);
    again("backend::tests::fake::inner_fault_before", &[]);
    again("backend::tests::fake::inner_captures", &[]);
    again("backend::tests::fake::inner_two_backends", &[]);
    again("backend::tests::fake::inner_clmad", &[]);
    again(
        "backend::tests::fake::inner_clmad",
        &[("FAKE_CUDA_CLMAD", "0")],
    );
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "builds a libcuda.so.1")]
fn a_driver_or_gpu_that_does_not_do_is_one_sentence() {
    for (setting, value, expected) in [
        ("FAKE_CUDA_VERSION", "12080", "knows CUDA 12.8"),
        ("FAKE_CUDA_CAPABILITY", "75", "is sm_75"),
        (
            "FAKE_CUDA_CAPABILITY",
            "86",
            "for sm_90a, sm_120, not for sm_86",
        ),
        ("FAKE_CUDA_DEVICES", "0", "sees no GPU"),
        ("FAKE_CUDA_INIT", "100", "sees no GPU"),
        (
            "FAKE_CUDA_INIT",
            "999",
            "does not start (cuInit: CUDA_ERROR_UNKNOWN",
        ),
        ("FAKE_CUDA_INIT", "34", "is the stub of a toolkit"),
    ] {
        again(
            "backend::tests::fake::inner_refusal",
            &[(setting, value), ("EXPECTED", expected)],
        );
    }
}

#[test]
#[ignore = "needs the fake driver"]
fn inner_refusal() {
    let error = Backend::cuda(image()).expect_err("a refusal").to_string();
    let expected = std::env::var("EXPECTED").expect("EXPECTED");
    assert!(error.contains(&expected), "{error}");
    assert!(!error.contains('\n'), "{error}");
    assert_eq!(live(), 0);
}

fn launch_variant(backend: &Backend, name: &str) -> Result<Vec<u32>, CheckedError> {
    let a = backend.upload(&[1u32; 8])?;
    let mut c = backend.alloc_zeroed::<u32>(8)?;
    let variant = SCALE.variants.iter().find(|variant| variant.name == name);
    backend.launch(&Launch {
        kernel: &SCALE,
        variant: variant.expect("a variant"),
        grid: Grid::x(1),
        args: &[
            RawArg::Buffer(a.raw()),
            RawArg::Buffer(c.raw_mut()),
            RawArg::Scalar(&3u32.to_ne_bytes()),
            RawArg::Scalar(&8u32.to_ne_bytes()),
        ],
    })?;
    Ok(backend.download(&c)?)
}

type CheckedError = Box<dyn std::error::Error>;

#[test]
#[ignore = "needs the fake driver"]
fn inner_launches() {
    let backend = backend().expect("the fake driver");
    assert_eq!(backend.name(), "Fake GPU");
    assert_eq!(backend.l2_bytes(), 60 << 20);
    assert_eq!(backend.info().arch().as_deref(), Some("sm_90a"));
    assert_eq!(launch_variant(&backend, "scale").unwrap(), [3; 8]);
    assert_eq!(launch_variant(&backend, "scale_shared").unwrap(), [3; 8]);
    let refused = |name| launch_variant(&backend, name).unwrap_err().to_string();
    assert_eq!(
        refused("scale_shared_too_large"),
        "scale_shared_too_large: launch refused: it needs 233472 bytes of shared memory and Fake GPU has 232448 a block"
    );
    assert!(refused("scale_damaged").contains("does not load the sm_90a cubin of `scale_damaged`"));
    assert!(refused("scale_absent").contains("holds `scale_absent` for sm_120, not for sm_90a"));
    // From another thread, which has no current context of its own.
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let backend = backend.clone();
            std::thread::spawn(move || launch_variant(&backend, "scale").map_err(|e| e.to_string()))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap(), [3; 8]);
    }
}

#[test]
#[ignore = "needs the fake driver"]
fn inner_promises() {
    let backend = backend().expect("the fake driver");
    for promise in crate::check::suite::PROMISES {
        let result = (promise.run)(&backend);
        assert!(result.is_ok(), "{}: {result:?}", promise.name);
    }
    drop(backend);
    assert_eq!(live(), 0);
}

#[test]
#[ignore = "needs the fake driver"]
fn inner_clmad() {
    let backend = backend().expect("the fake driver");
    // Only what uses clmad depends on it.
    assert_eq!(launch_variant(&backend, "scale").unwrap(), [3; 8]);
    let right = std::env::var("FAKE_CUDA_CLMAD").is_err();
    for _ in 0..2 {
        let result = launch_variant(&backend, "scale_clmad");
        if right {
            assert_eq!(result.unwrap(), [3; 8]);
        } else {
            let error = result.unwrap_err().to_string();
            assert!(
                error.starts_with(
                    "scale_clmad: launch refused: `scale_clmad` uses clmad, which gives wrong bits"
                ),
                "{error}"
            );
            assert!(
                error.contains("gave 00000000000000000000000000000000 for 94c3"),
                "{error}"
            );
        }
    }
}

#[test]
#[ignore = "needs the fake driver"]
fn inner_leaks() {
    let backend = backend().expect("the fake driver");
    let before = live();
    launch_variant(&backend, "scale").unwrap();
    let a = backend.upload(&[1u32; 8]).unwrap();
    let mut c = backend.alloc_zeroed::<u32>(8).unwrap();
    let stream = backend.stream().unwrap();
    let graph = backend
        .graph(|queue| launch_scale(queue, Grid::x(1), &a, &mut c, 1, 8))
        .unwrap();
    // A graph that cannot be made leaves nothing behind.
    let missing = &SCALE.variants[4];
    assert_eq!(missing.name, "scale_absent");
    let failed = backend.graph(|queue| {
        queue.launch(&Launch {
            kernel: &SCALE,
            variant: missing,
            grid: Grid::x(1),
            args: &[
                RawArg::Buffer(a.raw()),
                RawArg::Buffer(a.raw()),
                RawArg::Scalar(&[0; 4]),
                RawArg::Scalar(&[0; 4]),
            ],
        })
    });
    assert!(failed.is_err());
    let event = backend.event().unwrap();
    let pinned = backend.pinned::<u8>(100).unwrap();
    // Two buffers, a stream, a graph, an event, pinned memory, and the module of `scale`.
    assert_eq!(live(), before + 7);
    drop((a, c, stream, graph, event, pinned));
    assert_eq!(live(), before + 1);
    let last = backend.upload(&[1u8]).unwrap();
    drop(backend);
    // A buffer keeps its backend.
    assert!(live() > 1);
    drop(last);
    assert_eq!(live(), 0);
}

#[test]
#[ignore = "needs the fake driver"]
fn inner_faults() {
    let backend = backend().expect("the fake driver");
    let error = launch_variant(&backend, "fault").unwrap_err().to_string();
    assert_eq!(
        error,
        "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS, said the fake driver (the last launch was `fault`)"
    );
    // Everything after it fails as well, and nothing panics on the way out.
    assert!(launch_variant(&backend, "scale").is_err());
}

#[test]
#[ignore = "needs the fake driver"]
fn inner_fault_before() {
    let backend = backend().expect("the fake driver");
    let stream = backend.stream().unwrap();
    let a = backend.upload(&[1u32; 8]).unwrap();
    let mut c = backend.alloc_zeroed::<u32>(8).unwrap();
    launch_named(&stream, "fault", &a, &mut c).unwrap();
    let error = launch_named(&stream, "scale", &a, &mut c).unwrap_err();
    assert_eq!(
        error.to_string(),
        "scale: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS, said the fake driver (the launch before it was `fault`)"
    );
}

#[test]
#[ignore = "needs the fake driver"]
fn inner_captures() {
    let backend = backend().expect("the fake driver");
    let a = backend.upload(&[1u32; 8]).unwrap();
    let mut c = backend.alloc_zeroed::<u32>(8).unwrap();
    let before = live();
    let error = backend
        .graph(|queue| {
            launch_named(queue, "scale", &a, &mut c)?;
            launch_named(queue, "scale_no_graph", &a, &mut c)?;
            launch_named(queue, "scale", &a, &mut c)
        })
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "scale_no_graph: cuLaunchKernel in a graph: the driver cannot record this launch"
    );
    // The two modules; nothing of the graph.
    assert_eq!(live(), before + 2);
    // Outside a graph it runs.
    assert_eq!(launch_variant(&backend, "scale_no_graph").unwrap(), [3; 8]);
}

/// Two backends on one GPU share its context: one that frees memory may not meet a capture of the other.
#[test]
#[ignore = "needs the fake driver"]
fn inner_two_backends() {
    let (one, two) = (backend().unwrap(), backend().unwrap());
    let done = AtomicBool::new(false);
    let done = &done;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                two.synchronize().expect("no capture is in its way");
            }
        });
        let a = one.upload(&[1u32; 8]).unwrap();
        let mut c = one.alloc_zeroed::<u32>(8).unwrap();
        for _ in 0..300 {
            let graph = one
                .graph(|queue| (0..20).try_for_each(|_| launch_named(queue, "scale", &a, &mut c)));
            graph.expect("no synchronisation is in its way");
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn launch_named(
    queue: &impl Queue,
    name: &str,
    a: &Buffer<u32>,
    c: &mut Buffer<u32>,
) -> Result<(), LaunchError> {
    let mut variants = SCALE.variants.iter();
    queue.launch(&Launch {
        kernel: &SCALE,
        variant: variants.find(|variant| variant.name == name).unwrap(),
        grid: Grid::x(1),
        args: &[
            RawArg::Buffer(a.raw()),
            RawArg::Buffer(c.raw()),
            RawArg::Scalar(&1u32.to_le_bytes()),
            RawArg::Scalar(&8u32.to_le_bytes()),
        ],
    })
}
