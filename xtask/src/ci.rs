//! `cargo xtask ci`: everything that has to hold before a change lands.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;

/// One step: what it is called, what cargo is told, and variables for it.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// Whether its standard output is of no interest here.
    quiet: bool,
}

/// The steps behind the set-up of the tool chain, in order.
const STEPS: &[Step] = &[
    Step {
        name: "format",
        args: &["fmt", "--all", "--check"],
        variables: &[],
        quiet: false,
    },
    Step {
        name: "lints",
        args: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        variables: &[],
        quiet: false,
    },
    Step {
        name: "docs",
        args: &["doc", "--workspace", "--no-deps"],
        variables: &[("RUSTDOCFLAGS", "-D warnings")],
        quiet: false,
    },
    Step {
        name: "tests",
        args: &["test", "--workspace"],
        // Tests of the device build may not skip themselves here.
        variables: &[("GRISTMILL_REQUIRE_TOOLCHAIN", "1")],
        quiet: false,
    },
    Step {
        name: "kernels and budgets",
        args: &["xtask", "budget", "--arch", "all"],
        variables: &[],
        quiet: false,
    },
    Step {
        name: "the main job",
        args: &[
            "run",
            "--release",
            "--package",
            "gristmill",
            "--",
            "pir",
            "demo",
        ],
        variables: &[],
        quiet: true,
    },
];

/// Runs the steps in `workspace` until one fails.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let start = Instant::now();
    for step in STEPS {
        eprintln!(
            "{:7.1} s  {}: cargo {}",
            start.elapsed().as_secs_f64(),
            step.name,
            step.args.join(" ")
        );
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .args(step.args)
            .envs(step.variables.iter().copied())
            .current_dir(workspace);
        // Nothing here asks a question.
        command.stdin(Stdio::null());
        if step.quiet {
            command.stdout(Stdio::null());
        }
        let status = command.status()?;
        if !status.success() {
            return Err(format!("{} failed ({status})", step.name).into());
        }
    }
    eprintln!("{:7.1} s  all is well", start.elapsed().as_secs_f64());
    Ok(())
}
