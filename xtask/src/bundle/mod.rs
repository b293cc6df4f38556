//! `cargo xtask bundle`: a folder that checks and measures every kernel on a machine with a driver and no Rust.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use codegen::arch::Arch;

use crate::Result;

/// What runs there.
const MEASURE: &str = include_str!("measure.sh");

/// Builds for `archs` and fills `folder` with the program and the script. What else is in the folder stays.
pub(crate) fn run(workspace: &Path, archs: &[Arch], folder: &Path) -> Result<()> {
    let names: Vec<&str> = archs.iter().map(|arch| arch.name()).collect();
    let names = names.join(",");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--package", "gristmill"])
        .env("GRISTMILL_ARCH", &names)
        // A place of its own: the usual one may be moved by CARGO_TARGET_DIR, and holds a build without GPU code.
        .arg("--target-dir")
        .arg(workspace.join("target/bundle-build"))
        .current_dir(workspace)
        .status()?;
    if !status.success() {
        return Err(format!("the build for {names} failed").into());
    }
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = folder.join("gristmill");
    fs::copy(
        workspace.join("target/bundle-build/release/gristmill"),
        &program,
    )?;
    let script = folder.join("measure.sh");
    fs::write(&script, MEASURE)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let bytes = fs::metadata(&program)?.len();
    println!(
        "{}: gristmill ({:.1} MB, {names}) and measure.sh",
        folder.display(),
        bytes as f64 / 1e6
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Output;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// A bundle whose program is a shell script. One at a time: a process that another test starts while the script is
    /// written would hold it open for writing, and the system does not run such a file.
    struct Stand {
        folder: PathBuf,
        _alone: MutexGuard<'static, ()>,
    }

    static ONE: Mutex<()> = Mutex::new(());

    impl Stand {
        fn new(name: &str, program: &str) -> Self {
            let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
            let folder = std::env::temp_dir().join(format!("bundle-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [("gristmill", program), ("measure.sh", MEASURE)] {
                let path = folder.join(file);
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            Self {
                folder,
                _alone: alone,
            }
        }

        fn run(&self, limit: &str) -> Output {
            Command::new(self.folder.join("measure.sh"))
                .env("MEASURE_LIMIT", limit)
                .env("PATH", "/usr/bin:/bin")
                .output()
                .unwrap()
        }

        fn result(&self, file: &str) -> String {
            fs::read_to_string(self.folder.join("results").join(file)).unwrap_or_default()
        }
    }

    impl Drop for Stand {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn a_part_that_fails_or_hangs_keeps_no_other_from_its_results() {
        let stand = Stand::new(
            "parts",
            "#!/bin/sh\ncase \"$1 $2 $*\" in\n*bench*) sleep 60;;\n*--seeds*cuda*|*cuda*--seeds*) echo error: wrong; exit 1;;\n\
             *) echo fine \"$@\";;\nesac\n",
        );
        let output = stand.run("1");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let summary = stand.result("summary.txt");
        let line = |part: &str| {
            let found = summary
                .lines()
                .find(|line| line.split(' ').next() == Some(part));
            found
                .unwrap_or_else(|| panic!("no {part} in {summary}"))
                .to_owned()
        };
        assert!(line("check").contains("FAILED") && line("check").contains("exit 1: error: wrong"));
        assert!(line("bench").contains("ended at its limit"), "{summary}");
        assert!(line("demo").contains("passed"), "{summary}");
        assert!(line("demo-binary").contains("passed"), "{summary}");
        assert!(summary.ends_with(&format!(
            "2 parts failed; what they printed is in {}\n",
            stand.folder.join("results").display()
        )));
        assert!(stand.result("demo.txt").starts_with("fine pir demo"));
    }

    #[test]
    fn without_a_gpu_it_says_so_and_ends() {
        let stand = Stand::new(
            "none",
            "#!/bin/sh\nif [ \"$1\" = info ]; then echo backend cpu; else echo error: no NVIDIA driver >&2; exit 1; fi\n",
        );
        let output = stand.run("5");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("There is no GPU to measure on: no NVIDIA driver\n"),
            "{text}"
        );
        assert_eq!(stand.result("check.txt"), "");
    }
}
