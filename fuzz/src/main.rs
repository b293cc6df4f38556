//! libFuzzer over one target, the one that `FUZZ_TARGET` names. With `FUZZ_SEEDS` it only writes the
//! inputs to start from into that folder, one folder in it for each target.

#![no_main]

use std::env;
use std::path::Path;
use std::process::exit;
use std::sync::OnceLock;

use gristmill_fuzz::{TARGETS, Target};

/// The target, and the length of a right payload.
static CHOSEN: OnceLock<(&Target, usize)> = OnceLock::new();

fn choose() {
    if let Some(folder) = env::var_os("FUZZ_SEEDS") {
        for target in TARGETS {
            if let Err(error) = target.write_seeds(Path::new(&folder)) {
                eprintln!("{}: {error}", Path::new(&folder).display());
                exit(1);
            }
        }
        exit(0);
    }
    let name = env::var("FUZZ_TARGET").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("FUZZ_TARGET is one of {}", names.join(", "));
        exit(1);
    };
    CHOSEN.get_or_init(|| (target, target.right_length()));
}

libfuzzer_sys::fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some((target, right)) = CHOSEN.get() {
        target.run(data, *right);
    }
});
