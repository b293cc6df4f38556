//! What the tests of the whole share: the program `gristmill`, and ways to run it.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;

use assert_cmd::Command;

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The program, built once with the profile of the tests.
///
/// # Panics
///
/// When cargo does not build it.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mut cargo = std::process::Command::new(env!("CARGO"));
        cargo
            .current_dir(workspace())
            .args(["build", "--package", "gristmill", "--bin", "gristmill"])
            .arg("--message-format=json");
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let output = cargo.output().expect("cargo starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find_map(|message| {
                let name = message["target"]["name"].as_str()?;
                let path = message["executable"].as_str()?;
                (name == "gristmill").then(|| path.into())
            })
            .expect("cargo names the program")
    })
}

/// The program with arguments, on a machine that shows no GPU.
pub fn gristmill(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args(arguments)
        .env("CUDA_VISIBLE_DEVICES", "-1")
        // A table of whoever runs the tests has no say.
        .env("GRISTMILL_TUNING", "")
        .env(
            "XDG_CONFIG_HOME",
            workspace().join("target/no-configuration"),
        )
        .current_dir(workspace());
    command
}

/// Runs the program, which must fail with `code` and one line on stderr that holds each of
/// `words`, and print nothing to stdout.
///
/// # Panics
///
/// When it does anything else.
pub fn fails(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(&mut gristmill(arguments));
    one_line(arguments, &output, code, words);
    assert!(
        output.stdout.is_empty(),
        "{arguments:?} printed {:?}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// The checks of [`fails`] on an output, without the one on stdout.
///
/// # Panics
///
/// When the code, the number of lines or a word is another.
pub fn one_line(arguments: &[&str], output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    let [line] = lines[..] else {
        panic!("{arguments:?}: {} lines: {stderr}", lines.len());
    };
    assert!(line.starts_with("error: "), "{arguments:?}: {line}");
    for word in words {
        assert!(line.contains(word), "{arguments:?}: no {word:?} in {line}");
    }
}

/// Runs a command to its end.
///
/// # Panics
///
/// When it cannot be started.
pub fn run(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

/// The stdout of the program, which must succeed.
///
/// # Panics
///
/// When it fails.
pub fn stdout(arguments: &[&str]) -> String {
    let output = run(&mut gristmill(arguments));
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// The stdout of the program as JSON.
///
/// # Panics
///
/// When it fails or prints anything else.
pub fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(arguments)).expect("JSON")
}
