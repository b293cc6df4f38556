//! The device build on a crate of two small kernels: compile, finish, split, assemble, count, pack.
//!
//! Runs where the device tool chain is installed. Without it the tests say so and pass, unless
//! `GRISTMILL_REQUIRE_TOOLCHAIN` is set, as it is in CI.

use std::path::{Path, PathBuf};

use codegen::arch::{Arch, Capability};
use codegen::compiler::{Compiler, DeviceCrate, Pass, Rustc};
use codegen::image::{Image, Match};
use codegen::ptx::Module;
use codegen::ptxas::Assembler;
use codegen::toolchain::Toolchain;
use codegen::{Build, Error, device_folder};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fixture() -> DeviceCrate {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture/Cargo.toml");
    DeviceCrate {
        manifest,
        package: "fixture".to_owned(),
    }
}

/// The tool chain, or a word on why the test is skipped.
fn toolchain() -> Option<Toolchain> {
    match Toolchain::find(&workspace()) {
        Ok(toolchain) => Some(toolchain),
        Err(error) if std::env::var_os("GRISTMILL_REQUIRE_TOOLCHAIN").is_some() => {
            panic!("GRISTMILL_REQUIRE_TOOLCHAIN is set: {error}")
        }
        Err(error) => {
            eprintln!("SKIPPED, no device tool chain: {error}");
            None
        }
    }
}

/// The compiler with the workspace's own folders, so that `core` is built once for all.
fn compiler(toolchain: &Toolchain) -> Rustc {
    Rustc::new(toolchain, &device_folder(&workspace()))
}

fn build(toolchain: &Toolchain, archs: &[Arch], only: Option<&str>) -> Result<Image, Error> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device-cache");
    let build = Build {
        compiler: &compiler(toolchain),
        assembler: &Assembler::new(toolchain, &cache),
        kernels: &fixture(),
        archs,
        only,
        ptxas_version: &toolchain.ptxas_version,
        commit: "fixture",
        progress: &|step| eprintln!("{step}"),
    };
    build.run().map(|(image, _)| image)
}

#[test]
fn two_kernels_become_an_image_for_every_architecture() {
    let Some(toolchain) = toolchain() else { return };
    let image = build(&toolchain, Arch::ALL, None).unwrap();
    assert_eq!(image.entries().len(), 2 * Arch::ALL.len());
    assert_eq!(image.rustc(), toolchain.rustc_version);
    assert_eq!(image.ptxas(), toolchain.ptxas_version);
    for &arch in Arch::ALL {
        let exchange = image.find("exchange", arch).unwrap();
        assert_eq!(
            (exchange.shared_bytes, exchange.dynamic_shared),
            (1024, 0),
            "{arch}"
        );
        assert_eq!(
            (exchange.stack_bytes, exchange.spill_bytes),
            (0, 0),
            "{arch}"
        );
        assert!(
            exchange.registers > 0 && exchange.registers <= 128,
            "{arch}"
        );
        let facts = exchange.facts;
        assert_eq!((facts.lds, facts.sts, facts.barriers), (1, 1, 1), "{arch}");
        assert_eq!(
            (facts.ldg, facts.stg, facts.generic_loads, facts.local),
            (1, 1, 0, 0),
            "{arch}"
        );
        assert!(
            facts.inner_loop > 2,
            "{arch}: the loop of `mix` is not seen"
        );

        let lookup = image.find("lookup", arch).unwrap();
        assert_eq!(
            (lookup.shared_bytes, lookup.dynamic_shared),
            (0, 512),
            "{arch}"
        );
        assert!(lookup.facts.clmad > 0, "{arch}: no CLMAD");
        assert_eq!(lookup.facts.inner_loop, 0, "{arch}");
        assert!(lookup.sass().unwrap().contains("CLMAD"), "{arch}");
        assert!(lookup.cubin().unwrap().starts_with(b"\x7fELF"), "{arch}");
    }
    // What is embedded is what was built.
    let again = Image::from_bytes(&image.to_bytes().unwrap()).unwrap();
    assert_eq!(again, image);
    let hopper = Capability { major: 9, minor: 0 };
    let Some(Match::Cubin(entry)) = again.select("lookup", hopper) else {
        panic!("no cubin")
    };
    assert_eq!(entry.arch, Arch::Sm90a);
}

#[test]
fn each_split_holds_its_own_data_and_the_bounds_reach_the_cubin() {
    let Some(toolchain) = toolchain() else { return };
    let image = build(&toolchain, &[Arch::Sm90a], None).unwrap();
    let exchange = image.find("exchange", Arch::Sm90a).unwrap().ptx().unwrap();
    let lookup = image.find("lookup", Arch::Sm90a).unwrap().ptx().unwrap();
    assert!(
        exchange.contains(".maxntid 256, 1, 1\n.minnctapersm 2\n"),
        "{exchange}"
    );
    assert!(lookup.contains(".maxntid 128, 1, 1\n{"), "{lookup}");
    for (name, text, other) in [
        ("fixture_tile", &exchange, &lookup),
        ("mix", &exchange, &lookup),
        ("fixture_table", &lookup, &exchange),
        ("fixture_arena", &lookup, &exchange),
    ] {
        assert!(text.contains(name), "{name} is missing from\n{text}");
        assert!(!other.contains(name), "{name} is in\n{other}");
    }
    assert!(exchange.contains(".func"), "`mix` was inlined:\n{exchange}");
    assert!(
        lookup.starts_with(".version 9.3\n.target sm_90a\n"),
        "{lookup}"
    );
    assert!(
        exchange.starts_with(".version 8.7\n.target sm_90a\n"),
        "{exchange}"
    );
    // ptxas keeps to the bounds: the attribute records the block it compiled for.
    let cubin = image
        .find("exchange", Arch::Sm90a)
        .unwrap()
        .cubin()
        .unwrap();
    // EIATTR_MAX_THREADS: format 4, attribute 5, 12 bytes, x, y, z.
    let bounds = [4, 5, 12, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0];
    assert!(
        cubin.windows(bounds.len()).any(|bytes| bytes == bounds),
        "no bound of 256 threads"
    );
}

#[test]
fn a_cubin_names_the_lines_of_rust_and_no_folder_of_this_machine() {
    let Some(toolchain) = toolchain() else { return };
    let image = build(&toolchain, &[Arch::Sm80, Arch::Sm90a], None).unwrap();
    let home = std::fs::canonicalize(workspace()).unwrap();
    for entry in image.entries() {
        let (cubin, ptx) = (entry.cubin().unwrap(), entry.ptx().unwrap());
        let text = String::from_utf8_lossy(&cubin);
        for part in [".debug_line", "lib.rs"] {
            assert!(text.contains(part), "{}: no {part}", entry.variant);
        }
        for text in [&text, ptx.as_str()] {
            assert!(!text.contains(home.to_str().unwrap()), "{}", entry.variant);
        }
        assert!(ptx.contains(".file 1 \"") && !ptx.contains(" \"/"), "{ptx}");
    }
}

#[test]
fn one_variant_can_be_built_alone_and_an_unknown_one_is_told() {
    let Some(toolchain) = toolchain() else { return };
    let image = build(&toolchain, &[Arch::Sm80, Arch::Sm86], Some("lookup")).unwrap();
    let names: Vec<_> = image
        .entries()
        .iter()
        .map(|entry| entry.variant.as_str())
        .collect();
    assert_eq!(names, ["lookup", "lookup"]);
    let error = build(&toolchain, &[Arch::Sm80], Some("lookout")).unwrap_err();
    assert!(matches!(error, Error::UnknownVariant { .. }), "{error}");
    assert!(error.to_string().contains("lookout for sm_80"), "{error}");
}

#[test]
fn a_variant_that_ptxas_refuses_is_named() {
    let Some(toolchain) = toolchain() else { return };
    let text = compiler(&toolchain)
        .compile(&fixture(), Pass::Base, None)
        .unwrap();
    let text = text.replace("clmad.lo.u64", "clmad.low.u64");
    let splits = Module::parse(&text).unwrap().split().unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device-cache");
    let assembler = Assembler::new(&toolchain, &cache);
    let split = splits.iter().find(|split| split.name == "lookup").unwrap();
    let error = assembler
        .assemble(split, Arch::Sm89)
        .unwrap_err()
        .to_string();
    for part in ["lookup", "sm_89", "kernel.ptx, line"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn source_that_does_not_compile_brings_the_compilers_words() {
    let Some(toolchain) = toolchain() else { return };
    let kernels = DeviceCrate {
        package: "absent".to_owned(),
        ..fixture()
    };
    let error = compiler(&toolchain)
        .compile(&kernels, Pass::Base, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("do not compile for sm_80") && error.contains("absent"),
        "{error}"
    );
}
