//! `cargo xtask fuzz`: libFuzzer over every decoder of a message, on the stable compiler.
//!
//! The crate `fuzz` is a workspace of its own, since all that it links is built with instrumentation. It
//! says which targets there are by the folders of seeds that it writes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Result;

/// What cargo-fuzz passes for libFuzzer without a sanitizer: counters at every edge and the operands of
/// comparisons, and checks of overflow and of debug assertions.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";

/// The longest that one input may take, in seconds.
const TIMEOUT: u32 = 10;
/// The most memory that a target may take, in MiB.
const MEMORY: u32 = 1024;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// After so many runs of each target.
    Runs(u64),
    /// After so many seconds of each target.
    Seconds(u64),
}

/// Runs the targets named, or all of them, and tells each in one line.
pub(crate) fn run(workspace: &Path, names: &[String], stop: Stop) -> Result<()> {
    let folder = workspace.join("target/fuzz");
    let program = build(workspace, &folder)?;
    let seeds = folder.join("seeds");
    // Seeds of an older format would be no messages now.
    let _ = fs::remove_dir_all(&seeds);
    let written = Command::new(&program).env("FUZZ_SEEDS", &seeds).output()?;
    if !written.status.success() {
        let text = String::from_utf8_lossy(&written.stderr);
        return Err(format!(
            "no seeds: {}",
            panic_of(&text).unwrap_or(text.trim().to_owned())
        )
        .into());
    }
    let targets = choose(names, known(&seeds)?)?;
    let width = targets.iter().map(String::len).max().unwrap_or(0);
    let mut crashed = Vec::new();
    for target in &targets {
        match fuzz(&folder, &program, target, stop)? {
            Ok(Figures {
                runs,
                seconds,
                coverage,
            }) => {
                let rate = runs as f64 / seconds.max(0.001);
                println!(
                    "{target:width$}  {runs} runs, {seconds:.1} s, {rate:.0} runs/s, {coverage} edges"
                );
            }
            Err(crash) => {
                println!("{target:width$}  FAILED: {crash}");
                crashed.push(format!("{target}: {crash}"));
            }
        }
    }
    if crashed.is_empty() {
        Ok(())
    } else {
        Err(crashed.join("; ").into())
    }
}

/// Builds the crate for the machine this runs on, named as a target so that the flags reach no build script.
fn build(workspace: &Path, folder: &Path) -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("-vV").output()?;
    let version = String::from_utf8_lossy(&version.stdout);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc does not say which machine this is")?;
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--release",
            "--quiet",
            "--locked",
            "--target",
            host,
        ])
        .arg("--manifest-path")
        .arg(workspace.join("fuzz/Cargo.toml"))
        .arg("--target-dir")
        .arg(folder)
        .env("RUSTFLAGS", RUSTFLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("GRISTMILL_ARCH")
        .status()?;
    if !status.success() {
        return Err("the fuzz targets do not build".into());
    }
    Ok(folder.join(host).join("release/gristmill-fuzz"))
}

/// The targets there are: the folders of seeds.
fn known(seeds: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(seeds).map_err(|error| format!("{}: {error}", seeds.display()))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Those of the targets there are that were named; all where none was.
fn choose(names: &[String], known: Vec<String>) -> Result<Vec<String>> {
    if let Some(other) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no target {other}: use {}", known.join(", ")).into());
    }
    Ok(if names.is_empty() {
        known
    } else {
        names.to_vec()
    })
}

/// What came of a target that did not crash.
struct Figures {
    runs: u64,
    seconds: f64,
    coverage: u64,
}

/// Runs one target; the inner error is a crash, in one line.
fn fuzz(
    folder: &Path,
    program: &Path,
    target: &str,
    stop: Stop,
) -> Result<std::result::Result<Figures, String>> {
    let [corpus, artifacts, logs] = ["corpus", "artifacts", "logs"].map(|name| folder.join(name));
    let (corpus, artifacts) = (corpus.join(target), artifacts.join(target));
    for folder in [&corpus, &artifacts, &logs] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let log = logs.join(format!("{target}.log"));
    let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let begun = Instant::now();
    let status = Command::new(program)
        .arg(match stop {
            Stop::Runs(runs) => format!("-runs={runs}"),
            Stop::Seconds(seconds) => format!("-max_total_time={seconds}"),
        })
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-timeout={TIMEOUT}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        // Messages have one length, so short inputs first would only cost time.
        .args(["-len_control=0", "-print_final_stats=1"])
        .arg(&corpus)
        .arg(folder.join("seeds").join(target))
        .env("FUZZ_TARGET", target)
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()?;
    let seconds = begun.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if status.success() {
        let runs = stat(&text, "stat::number_of_executed_units:").unwrap_or(0);
        let coverage = text.lines().rev().find_map(|line| stat(line, " cov:"));
        return Ok(Ok(Figures {
            runs,
            seconds,
            coverage: coverage.unwrap_or(0),
        }));
    }
    Ok(Err(crash(&text).unwrap_or_else(|| {
        format!("{status}, see {}", log.display())
    })))
}

/// The number after a word of libFuzzer's output.
fn stat(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// What happened, and the file with the input that made it happen.
fn crash(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Test unit written to ")?;
    let input = rest.lines().next()?;
    let what = panic_of(text).or_else(|| {
        let line = text
            .lines()
            .find(|line| line.contains("ERROR: libFuzzer:"))?;
        Some(line.split_once("ERROR: ")?.1.to_owned())
    });
    Some(format!(
        "{}, on the input {input}",
        what.unwrap_or_else(|| "crashed".to_owned())
    ))
}

/// Place and message of a panic, in one line.
fn panic_of(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(" panicked at ")?;
    let mut lines = rest.lines();
    let place = lines.next()?.trim_end_matches(':');
    Some(format!(
        "panicked at {place}: {}",
        lines.next().unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_libfuzzer_is_read() {
        let text = "#2\tINITED cov: 12 ft: 12\n#9\tDONE   cov: 345 ft: 400 corp: 9/8b\n\
            stat::number_of_executed_units: 1000\nstat::average_exec_per_sec: 7\n";
        assert_eq!(stat(text, "stat::number_of_executed_units:"), Some(1000));
        let coverage = text.lines().rev().find_map(|line| stat(line, " cov:"));
        assert_eq!(coverage, Some(345));
        assert_eq!(stat("cov:", "cov:"), None);
    }

    #[test]
    fn a_crash_is_one_line_with_its_input() {
        let text = "thread '<unnamed>' (7) panicked at src/lib.rs:3:5:\nno\nnote: more\n\
            ==1== ERROR: libFuzzer: deadly signal\nTest unit written to out/crash-12\nBase64: AA==\n";
        assert_eq!(
            crash(text).as_deref(),
            Some("panicked at src/lib.rs:3:5: no, on the input out/crash-12")
        );
        let text = "==1== ERROR: libFuzzer: timeout after 11 seconds\nTest unit written to out/timeout-1\n";
        assert_eq!(
            crash(text).as_deref(),
            Some("libFuzzer: timeout after 11 seconds, on the input out/timeout-1")
        );
        assert_eq!(crash("killed"), None);
    }

    #[test]
    fn a_target_that_is_not_there_is_named() {
        let known = || vec!["hint".to_owned(), "query".to_owned()];
        assert_eq!(choose(&[], known()).unwrap(), known());
        assert_eq!(choose(&["query".to_owned()], known()).unwrap(), ["query"]);
        assert_eq!(
            choose(&["hin".to_owned()], known())
                .unwrap_err()
                .to_string(),
            "there is no target hin: use hint, query"
        );
    }
}
