//! A driver that is there but does not do: one sentence each, and no panic.
//!
//! The driver is the fake of the host crate's tests, built as `libcuda.so.1`.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use gristmill_tests::{gristmill, json, one_line, run, workspace};
use tempfile::TempDir;

fn library(edit: impl Fn(String) -> String) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let source = workspace().join("host/src/backend/fake_driver.rs");
    let text = edit(std::fs::read_to_string(source).expect("the fake driver"));
    let copy = folder.path().join("fake_driver.rs");
    std::fs::write(&copy, text).expect("a copy");
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
        .arg(folder.path().join("libcuda.so.1"))
        .arg(copy)
        .status()
        .expect("rustc starts");
    assert!(built.success());
    folder
}

fn whole() -> &'static Path {
    static WHOLE: OnceLock<TempDir> = OnceLock::new();
    WHOLE.get_or_init(|| library(|text| text)).path()
}

fn fails_with(folder: &Path, settings: &[(&str, &str)], words: &[&str]) {
    let arguments = ["kernels", "check", "--backend", "cuda"];
    let output = run(gristmill(&arguments)
        .env("LD_LIBRARY_PATH", folder)
        .envs(settings.iter().copied()));
    one_line(&arguments, &output, 1, words);
}

#[test]
fn too_old_a_driver_or_gpu() {
    fails_with(
        whole(),
        &[("FAKE_CUDA_VERSION", "12040")],
        &["CUDA 12.4", "driver 580"],
    );
    fails_with(
        whole(),
        &[("FAKE_CUDA_CAPABILITY", "75")],
        &["Fake GPU is sm_75", "sm_80"],
    );
    fails_with(whole(), &[("FAKE_CUDA_DEVICES", "0")], &["no GPU"]);
    fails_with(whole(), &[("FAKE_CUDA_INIT", "803")], &["cuInit", "reboot"]);
}

#[test]
fn a_driver_without_a_symbol_is_too_old_and_no_panic() {
    let folder = library(|text| text.replace("fn cuEventElapsedTime_v2", "fn cuEventElapsedTime"));
    fails_with(folder.path(), &[], &["has no cuEventElapsedTime_v2", "580"]);
    let folder = library(|text| text.replace("fn cuDriverGetVersion", "fn other"));
    fails_with(folder.path(), &[], &["has no cuDriverGetVersion"]);
}

#[test]
fn a_library_that_is_no_driver_is_no_panic() {
    let folder = library(|_| String::new());
    fails_with(folder.path(), &[], &["has no cuDriverGetVersion"]);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("libcuda.so.1"), "text").expect("a file");
    fails_with(folder.path(), &[], &["no NVIDIA driver"]);
}

#[test]
fn a_gpu_without_code_for_it_is_shown_and_not_taken() {
    let info = json(&["info", "--json"]);
    if info["image"]["variants"] != 0 {
        return;
    }
    fails_with(whole(), &[], &["holds no GPU code", "cargo xtask setup"]);
    let output = run(gristmill(&["info", "--json"]).env("LD_LIBRARY_PATH", whole()));
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(info["backend"], "cpu");
    assert_eq!(info["gpu"]["name"], "Fake GPU");
    assert_eq!(info["gpu"]["arch"], "sm_90a");
    assert_eq!(info["gpu"]["l2_bytes"], 60 << 20);
    assert!(
        info["backend_reason"]
            .as_str()
            .expect("a reason")
            .contains("GRISTMILL_ARCH=sm_90a")
    );
}
