//! Embeds the kernel image and the commit.
//!
//! `GRISTMILL_ARCH` names the architectures to build device code for: `sm_90a`, a list such as
//! `sm_80,sm_90a`, or `all`. Unset or empty, the image is empty and no GPU tool is needed. Set where
//! the device tool chain is missing, the build fails with a sentence that says what to run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use codegen::arch::Arch;
use codegen::image::Image;
use codegen::toolchain::Toolchain;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Cargo repeats the line marked so before all that the build script printed; what the
            // compiler said stays there.
            let text = error.to_string();
            let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
            println!("cargo::error={first}");
            eprintln!("{rest}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    for name in ["GRISTMILL_ARCH", "GRISTMILL_RUSTC", "GRISTMILL_PTXAS"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = manifest.parent().ok_or("the workspace has no folder")?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("image.bin");

    let commit = codegen::commit(workspace);
    println!("cargo::rustc-env=GRISTMILL_COMMIT={commit}");
    // The commit says whether the sources differ from it, so it is asked for again when they change.
    watch(&manifest.join("src"));
    watch(&manifest.join("build.rs"));
    for path in codegen::commit_files(workspace) {
        watch(&path);
    }

    let archs = Arch::parse_list(&env::var("GRISTMILL_ARCH").unwrap_or_default())?;
    let image = if archs.is_empty() {
        Image::empty()
    } else {
        watch(&workspace.join("gpu-kernels"));
        let toolchain = Toolchain::find(workspace)?;
        watch(&toolchain.rustc);
        watch(&toolchain.ptxas);
        codegen::compile(&toolchain, &archs, workspace, &commit)?
    };
    fs::write(out, image.to_bytes()?)?;
    Ok(())
}

/// Runs this script again when a file, or anything in a folder, changes. A path that is not there
/// would run it every time.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
