//! `cargo xtask ci`: everything that must hold before a change lands.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Result;

/// One step: what it is for, and the words of a command after `cargo`.
struct Step {
    title: &'static str,
    cargo: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

/// In the order in which a failure is cheapest to find.
const STEPS: &[Step] = &[
    Step {
        title: "format",
        cargo: &["fmt", "--all", "--check"],
        env: &[],
    },
    Step {
        title: "lints",
        cargo: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
        env: &[],
    },
    Step {
        title: "documentation",
        cargo: &["doc", "--workspace", "--no-deps", "--quiet"],
        env: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    Step {
        title: "kernels for every architecture, and their budgets",
        cargo: &["xtask", "budget"],
        env: &[],
    },
    Step {
        title: "tests",
        cargo: &["test", "--workspace"],
        // A test that needs the device tool chain fails without it instead of passing over it.
        env: &[("GRISTMILL_REQUIRE_TOOLCHAIN", "1")],
    },
    Step {
        title: "the main job",
        cargo: &["run", "--release", "--quiet"],
        env: &[],
    },
    Step {
        title: "every variant on the emulator",
        cargo: &[
            "run",
            "--release",
            "--quiet",
            "--",
            "kernels",
            "check",
            "--backend",
            "cpu",
        ],
        env: &[],
    },
    Step {
        title: "every variant on the emulator, checked",
        cargo: &[
            "run",
            "--release",
            "--quiet",
            "--",
            "kernels",
            "check",
            "--checked",
        ],
        env: &[],
    },
];

/// Runs every step and stops at the first that fails.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let start = Instant::now();
    for Step { title, cargo, env } in STEPS {
        println!("== {title}: cargo {}", cargo.join(" "));
        let begun = Instant::now();
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(*cargo)
            .envs(env.iter().copied())
            // What is tested is the plain build: an image has its own step.
            .env_remove("GRISTMILL_ARCH")
            .current_dir(workspace)
            .status()
            .map_err(|error| format!("cargo {}: {error}", cargo.join(" ")))?;
        if !status.success() {
            return Err(format!("{title}: `cargo {}` failed", cargo.join(" ")).into());
        }
        println!("== {title}: {:.0} s", begun.elapsed().as_secs_f64());
    }
    println!("== all passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
