//! The compiler behind the kernels.
//!
//! [`Compiler`] is the seam: it takes the crate of kernels to one PTX module a [`Pass`]. rustc's own
//! `nvptx64-nvidia-cuda` target is the implementation, [`Rustc`]; another compiler can stand beside
//! it without the rest of this crate knowing.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::arch::Arch;
use crate::ptxas::write_atomically;
use crate::toolchain::{Toolchain, make_executable};

/// One compilation of the kernels. Its PTX serves one or more architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// What every architecture from sm_80 on runs.
    Base,
    /// Hopper with its own instructions; kernels see `cfg(simt_sm_90a)`.
    Sm90a,
}

impl Pass {
    /// Every pass.
    pub const ALL: &'static [Self] = &[Self::Base, Self::Sm90a];

    /// The pass whose PTX an architecture is assembled from.
    pub const fn of(arch: Arch) -> Self {
        match arch {
            Arch::Sm80 | Arch::Sm86 | Arch::Sm89 | Arch::Sm100 | Arch::Sm120 => Self::Base,
            Arch::Sm90a => Self::Sm90a,
        }
    }

    /// The name of its folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Sm90a => "sm_90a",
        }
    }

    /// The architecture the compiler aims at.
    pub const fn target_cpu(self) -> &'static str {
        match self {
            Self::Base => "sm_80",
            Self::Sm90a => "sm_90a",
        }
    }

    /// The PTX version the compiler writes. The base pass stays at that of CUDA 11.8, so that an
    /// older driver can translate what no cubin is there for.
    const fn ptx_feature(self) -> &'static str {
        match self {
            Self::Base => "+ptx78",
            Self::Sm90a => "+ptx87",
        }
    }

    /// The `cfg` that kernels of this pass see.
    const fn cfg(self) -> Option<&'static str> {
        match self {
            Self::Base => None,
            Self::Sm90a => Some("simt_sm_90a"),
        }
    }
}

/// The crate of kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCrate {
    /// The manifest of its workspace, or its own.
    pub manifest: PathBuf,
    /// Its package name.
    pub package: String,
}

impl DeviceCrate {
    /// `gpu-kernels` of the workspace in `workspace`.
    pub fn kernels(workspace: &Path) -> Self {
        Self {
            manifest: workspace.join("Cargo.toml"),
            package: "gpu-kernels".to_owned(),
        }
    }
}

/// Why there is no PTX.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The compiler refused the source. Its messages are part of this one, unless they went to the
    /// terminal already.
    #[error("the kernels do not compile for {target} ({status}){}", .messages.as_ref().map_or(String::new(), |text| format!(":\n{text}")))]
    Refused {
        /// What was compiled for.
        target: &'static str,
        /// How the compiler ended.
        status: String,
        /// What it said.
        messages: Option<String>,
    },
    /// The compiler ended well and left no PTX.
    #[error("the compiler left no PTX at {path}; remove that folder and build again")]
    NoOutput {
        /// Where it should be.
        path: String,
    },
    /// A file could not be read or written, or the compiler not started.
    #[error("compiling for the GPU: {path}: {detail}")]
    Io {
        /// The file or tool.
        path: String,
        /// What the system said.
        detail: String,
    },
}

/// Takes kernels to PTX.
pub trait Compiler: Sync {
    /// The version that budgets are kept for, such as `1.96.0`.
    fn version(&self) -> &str;

    /// Compiles `kernels` and returns the PTX of all entry points, with a marker comment for each
    /// (see [`crate::ptx`]). With `only`, the entry points other than that one may be left out,
    /// which is faster.
    ///
    /// # Errors
    ///
    /// [`CompileError`].
    fn compile(
        &self,
        kernels: &DeviceCrate,
        pass: Pass,
        only: Option<&str>,
    ) -> Result<String, CompileError>;
}

/// rustc's `nvptx64-nvidia-cuda` target, driven by cargo, with `core` built from source.
#[derive(Debug, Clone)]
pub struct Rustc {
    program: PathBuf,
    version: String,
    cargo: PathBuf,
    /// The folder that holds a target folder for each pass.
    folder: PathBuf,
    /// Whether cargo writes to our standard error instead of into the error.
    chatty: bool,
}

const TARGET: &str = "nvptx64-nvidia-cuda";

/// Accepts any link and leaves an empty file: the PTX comes from `--emit=asm`.
const LINKER: &str = "#!/bin/sh
while [ $# -gt 0 ]; do
    if [ \"$1\" = -o ]; then : > \"$2\"; fi
    shift
done
";

/// What every crate of the device build is compiled with.
///
/// - `JumpThreading` copies barriers into both arms of a branch (rust-lang/rust #137086).
/// - Loops over const generics have to unroll, or arrays of accumulators land in local memory.
/// - A failed bounds check becomes a trap, without the machinery of a panic.
const FLAGS: &[&str] = &[
    "-Zmir-enable-passes=-JumpThreading",
    "-Cllvm-args=-unroll-threshold=20000",
    "-Zunstable-options",
    "-Cpanic=immediate-abort",
];

/// The profile, whatever the workspace's own says.
const PROFILE: &[(&str, &str)] = &[
    ("OPT_LEVEL", "3"),
    ("LTO", "fat"),
    ("CODEGEN_UNITS", "1"),
    ("PANIC", "abort"),
    // `.loc` and `.file` without sections that ptxas would want whole.
    ("DEBUG", "line-directives-only"),
    ("DEBUG_ASSERTIONS", "false"),
    ("OVERFLOW_CHECKS", "false"),
    ("INCREMENTAL", "false"),
    ("STRIP", "none"),
];

impl Rustc {
    /// The compiler of `toolchain`, with its target folders in `folder`. Those are worth keeping:
    /// `core` takes most of a minute.
    pub fn new(toolchain: &Toolchain, folder: &Path) -> Self {
        Self {
            program: toolchain.rustc.clone(),
            version: toolchain.rustc_version.clone(),
            cargo: toolchain.cargo.clone(),
            folder: folder.to_owned(),
            chatty: false,
        }
    }

    /// Lets the compiler write to our standard error, with colours and progress on a terminal.
    #[must_use]
    pub fn chatty(mut self, chatty: bool) -> Self {
        self.chatty = chatty;
        self
    }

    /// The folder, made where it is not there, under its one true name: cargo builds `core` again
    /// when the linker goes by another.
    fn prepare(&self) -> Result<Self, CompileError> {
        let folder = fs::create_dir_all(&self.folder).and_then(|()| fs::canonicalize(&self.folder));
        let folder = folder.map_err(|error| io_error(&self.folder, &error))?;
        Ok(Self {
            folder,
            ..self.clone()
        })
    }

    /// The folder that one pass builds in.
    fn target_folder(&self, pass: Pass) -> PathBuf {
        self.folder.join(pass.name())
    }

    /// Writes the stand-in for a linker into the target folder.
    fn linker(&self) -> Result<PathBuf, CompileError> {
        let path = self.folder.join("no-linker.sh");
        if fs::read_to_string(&path).ok().as_deref() != Some(LINKER) {
            write_atomically(&path, LINKER.as_bytes()).map_err(|error| io_error(&path, &error))?;
        }
        make_executable(&path).map_err(|error| io_error(&path, &error))?;
        Ok(path)
    }

    /// Cuts the paths of sources short, so that line tables name no folder of this machine: a file of the
    /// workspace is named from there, one of `core` from `library`.
    ///
    /// Flags of the compiler (`--remap-path-prefix`) would do it too, but `core` would be built anew for
    /// each workspace.
    fn shorten(&self, kernels: &DeviceCrate, mut text: String) -> String {
        let workspace = kernels.manifest.parent().map(Path::to_owned);
        let sysroot = self.program.ancestors().nth(2);
        let library = sysroot.map(|sysroot| sysroot.join("lib/rustlib/src/rust/library"));
        for (folder, name) in [(workspace, ""), (library, "library/")] {
            let Some(folder) = folder else { continue };
            // The compiler is given either name of a folder behind a link.
            for folder in fs::canonicalize(&folder).into_iter().chain([folder]) {
                let from = format!("\"{}/", folder.display());
                text = text.replace(&from, &format!("\"{name}"));
            }
        }
        text
    }

    fn command(
        &self,
        kernels: &DeviceCrate,
        pass: Pass,
        only: Option<&str>,
        ptx: &Path,
    ) -> Result<Command, CompileError> {
        let mut command = Command::new(&self.cargo);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(is_of_the_outer_build) {
                command.env_remove(name);
            }
        }
        let mut flags = vec![
            format!("-Ctarget-cpu={}", pass.target_cpu()),
            format!("-Ctarget-feature={}", pass.ptx_feature()),
        ];
        flags.extend(FLAGS.iter().map(ToString::to_string));
        if let Some(cfg) = pass.cfg() {
            flags.push(format!("--cfg={cfg}"));
        }
        command
            .env("RUSTC", &self.program)
            // An empty wrapper also overrides one from a configuration file.
            .env("RUSTC_WRAPPER", "")
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .env("CARGO_TARGET_NVPTX64_NVIDIA_CUDA_LINKER", self.linker()?);
        for (name, value) in PROFILE {
            command.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
        }
        // Either kind of library keeps the entry points through link-time optimisation, and cargo
        // remembers one build of each: that of all entry points stays fresh beside that of one.
        let kind = if only.is_some() {
            "staticlib"
        } else {
            "cdylib"
        };
        command.args([
            "rustc",
            "--lib",
            "--crate-type",
            kind,
            "--release",
            "-Zbuild-std=core",
        ]);
        command.args([
            "--target",
            TARGET,
            "--package",
            &kernels.package,
            "--manifest-path",
        ]);
        command
            .arg(&kernels.manifest)
            .arg("--target-dir")
            .arg(self.target_folder(pass));
        if !self.chatty {
            command.arg("--quiet");
        }
        let mut emit = OsString::from("--emit=asm=");
        emit.push(ptx);
        command.arg("--").arg(emit);
        if let Some(entry) = only {
            command
                .arg("--cfg=simt_only")
                .arg(format!("--cfg=simt_only=\"{entry}\""));
        }
        Ok(command)
    }

    fn run(&self, mut command: Command, pass: Pass) -> Result<(), CompileError> {
        let refused = |status: String, messages| CompileError::Refused {
            target: pass.target_cpu(),
            status,
            messages,
        };
        let io = |error: io::Error| io_error(&self.cargo, &error);
        command.stdin(Stdio::null());
        if self.chatty {
            // Standard output may be somebody's pipe.
            let status = command.stdout(Stdio::null()).status().map_err(io)?;
            return if status.success() {
                Ok(())
            } else {
                Err(refused(status.to_string(), None))
            };
        }
        let output = command.output().map_err(io)?;
        if output.status.success() {
            return Ok(());
        }
        let messages = String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned();
        Err(refused(output.status.to_string(), Some(messages)))
    }

    /// Makes cargo forget that the crate is built, since what it does not know of, the PTX, is gone.
    fn forget(&self, kernels: &DeviceCrate, pass: Pass) {
        let folder = self
            .target_folder(pass)
            .join(TARGET)
            .join("release/.fingerprint");
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        let prefix = format!("{}-", kernels.package);
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // If it stays, the PTX is reported as missing.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Compiler for Rustc {
    fn version(&self) -> &str {
        &self.version
    }

    fn compile(
        &self,
        kernels: &DeviceCrate,
        pass: Pass,
        only: Option<&str>,
    ) -> Result<String, CompileError> {
        let this = self.prepare()?;
        let one = if only.is_some() { "-one" } else { "" };
        let folder = this.target_folder(pass);
        fs::create_dir_all(&folder).map_err(|error| io_error(&folder, &error))?;
        let ptx = folder.join(format!("{}{one}.ptx", kernels.package));
        this.run(this.command(kernels, pass, only, &ptx)?, pass)?;
        if !ptx.is_file() {
            this.forget(kernels, pass);
            this.run(this.command(kernels, pass, only, &ptx)?, pass)?;
        }
        if !ptx.is_file() {
            return Err(CompileError::NoOutput {
                path: ptx.display().to_string(),
            });
        }
        let text = fs::read_to_string(&ptx).map_err(|error| io_error(&ptx, &error))?;
        Ok(this.shorten(kernels, text))
    }
}

/// Whether a variable was set by a cargo that we run inside of, or steers builds in a way that the
/// device build must not be steered: flags and wrappers, profiles, the outer job server.
fn is_of_the_outer_build(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_LINKER",
        "RUSTFLAGS",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_ENCODED_RUSTDOCFLAGS",
        "CARGO_MAKEFLAGS",
        "MAKEFLAGS",
        "MFLAGS",
        "CARGO_INCREMENTAL",
        "CARGO_TARGET_DIR",
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_TARGET_TMPDIR",
        "OUT_DIR",
        "TARGET",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "DEBUG",
        "PROFILE",
    ];
    const PREFIXES: &[&str] = &[
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_CFG_",
        "CARGO_FEATURE_",
        "CARGO_BUILD_",
        "CARGO_PROFILE_",
        "CARGO_BIN_",
        "CARGO_UNSTABLE_",
        "CARGO_TARGET_NVPTX64_",
        "DEP_",
        "CLIPPY_",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn io_error(path: &Path, error: &io::Error) -> CompileError {
    CompileError::Io {
        path: path.display().to_string(),
        detail: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rustc(folder: &Path) -> Rustc {
        Rustc {
            program: "/device/rustc".into(),
            version: "1.96.0".to_owned(),
            cargo: "/device/cargo".into(),
            folder: folder.to_owned(),
            chatty: false,
        }
    }

    #[test]
    fn one_pass_serves_every_architecture_but_the_specific_one() {
        for &arch in Arch::ALL {
            assert_eq!(Pass::of(arch) == Pass::Sm90a, arch.is_specific(), "{arch}");
        }
    }

    #[test]
    fn the_outer_build_does_not_reach_the_inner_one() {
        for name in [
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_PROFILE_RELEASE_DEBUG",
            "CARGO_BUILD_TARGET",
            "CARGO_FEATURE_STD",
            "CARGO_MAKEFLAGS",
            "TARGET",
        ] {
            assert!(is_of_the_outer_build(name), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "PATH",
            "CARGO_NET_OFFLINE",
            "RUSTUP_HOME",
            "CARGO_HTTP_PROXY",
        ] {
            assert!(!is_of_the_outer_build(name), "{name}");
        }
    }

    #[test]
    fn the_command_names_compiler_flags_and_pass() {
        let folder = env::temp_dir().join(format!("gristmill-command-{}", std::process::id()));
        let kernels = DeviceCrate::kernels(Path::new("/ws"));
        let rustc = rustc(&folder).prepare().unwrap();
        let command = rustc
            .command(
                &kernels,
                Pass::Sm90a,
                Some("mul__4"),
                Path::new("/out/k.ptx"),
            )
            .unwrap();
        let variable = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name);
            found
                .and_then(|(_, value)| value)
                .map(|value| value.to_string_lossy().into_owned())
        };
        assert_eq!(variable("RUSTC").as_deref(), Some("/device/rustc"));
        assert_eq!(variable("RUSTC_WORKSPACE_WRAPPER").as_deref(), Some(""));
        let flags = variable("CARGO_ENCODED_RUSTFLAGS").unwrap();
        for flag in [
            "-Ctarget-cpu=sm_90a",
            "-Ctarget-feature=+ptx87",
            "--cfg=simt_sm_90a",
        ] {
            assert!(
                flags.split('\u{1f}').any(|found| found == flag),
                "{flag} in {flags}"
            );
        }
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        assert!(
            args.iter().any(|arg| arg == "--emit=asm=/out/k.ptx"),
            "{args:?}"
        );
        assert!(
            args.iter().any(|arg| arg == "--cfg=simt_only=\"mul__4\""),
            "{args:?}"
        );
        let base = rustc
            .command(&kernels, Pass::Base, None, Path::new("/k"))
            .unwrap();
        assert!(!format!("{base:?}").contains("simt_"), "{base:?}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn paths_of_sources_name_no_folder_of_this_machine() {
        let kernels = DeviceCrate::kernels(Path::new("/ws"));
        let rustc = Rustc {
            program: "/usr/bin/rustc".into(),
            ..rustc(Path::new("/out"))
        };
        let text = ".file 1 \"/ws/gpu-kernels/src/gemm.rs\"\n\
                    .file 2 \"/usr/lib/rustlib/src/rust/library/core/src/cmp.rs\"\n";
        assert_eq!(
            rustc.shorten(&kernels, text.to_owned()),
            ".file 1 \"gpu-kernels/src/gemm.rs\"\n.file 2 \"library/core/src/cmp.rs\"\n"
        );
    }

    #[cfg(unix)]
    #[test]
    fn the_stand_in_for_a_linker_leaves_the_file_that_was_asked_for() {
        let _alone = crate::one_with_scripts();
        let folder = env::temp_dir().join(format!("gristmill-linker-{}", std::process::id()));
        let linker = rustc(&folder).prepare().unwrap().linker().unwrap();
        let out = folder.join("out file");
        let status = Command::new(linker)
            .args(["-flavor", "x", "-o"])
            .arg(&out)
            .arg("in")
            .status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read(&out).unwrap(), b"");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_compiler_that_is_not_there_is_a_typed_error() {
        let folder = env::temp_dir().join(format!("gristmill-absent-{}", std::process::id()));
        let mut absent = rustc(&folder);
        absent.cargo = folder.join("cargo");
        let kernels = DeviceCrate::kernels(Path::new("/ws"));
        let error = absent.compile(&kernels, Pass::Base, None).unwrap_err();
        assert!(matches!(error, CompileError::Io { .. }), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
