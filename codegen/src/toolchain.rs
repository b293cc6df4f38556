//! Finding the device tool chain, and setting it up.
//!
//! | tool | where it is looked for |
//! | --- | --- |
//! | rustc | `GRISTMILL_RUSTC`; Debian's `/usr/bin/rustc` with package `rust-web-src`; the active rustup tool chain with component `rust-src` |
//! | ptxas, nvdisasm | `GRISTMILL_PTXAS`; `.toolchain/` in the workspace, where [`setup`] puts the pinned wheels |
//!
//! rustc needs the source of `core`, which is built for the GPU from it. Nothing here makes rustup
//! download anything.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The version of the wheels.
pub const CUDA_VERSION: &str = "13.5.37";
/// The wheels, and the tool that is taken out of each.
const WHEELS: &[(&str, &str)] = &[
    ("nvidia-cuda-nvcc", "ptxas"),
    ("nvidia-cuda-nvdisasm", "nvdisasm"),
    ("nvidia-cuda-cuobjdump", "cuobjdump"),
];
/// Debian's packages of a current rustc and its source.
const PACKAGES: &[&str] = &["rustc-web", "rust-web-src"];
/// The first rustc that takes every flag of the device build.
const OLDEST_RUSTC: (u32, u32) = (1, 95);
/// The first ptxas that knows `clmad`.
const OLDEST_PTXAS: (u32, u32) = (13, 3);
/// Where [`setup`] is, for messages.
const SETUP: &str = "run `cargo xtask setup`";

/// Why there is no device tool chain. Each message says what to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolchainError {
    /// No rustc with the source of its library was found.
    #[error(
        "the device build needs a rustc with the source of `core`: {SETUP}, or with rustup `rustup \
         component add rust-src`, or set GRISTMILL_RUSTC"
    )]
    NoRustc,
    /// The rustc asked for has no library source in its sysroot.
    #[error(
        "{rustc} has no library source in {sysroot}: install it (Debian: `apt-get install \
         rust-web-src`; rustup: `rustup component add rust-src`) or unset GRISTMILL_RUSTC"
    )]
    NoSource {
        /// The compiler.
        rustc: String,
        /// Its sysroot.
        sysroot: String,
    },
    /// ptxas or nvdisasm is absent.
    #[error("the device build needs {tool} at {path}: {SETUP}, or set GRISTMILL_PTXAS")]
    NoTool {
        /// `ptxas` or `nvdisasm`.
        tool: &'static str,
        /// Where it was looked for.
        path: String,
    },
    /// A tool is there and does not run.
    #[error("{tool} does not run: {detail}; {SETUP} again, or check the variable that names it")]
    Broken {
        /// The path that was run.
        tool: String,
        /// What came of it.
        detail: String,
    },
    /// A tool is older than the device build can use.
    #[error("{tool} is version {found}, the device build needs {needed} or later: {SETUP}")]
    TooOld {
        /// The path of the tool.
        tool: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: String,
    },
    /// A step of the set-up needs rights that this user does not have, or another system.
    #[error("{what} is missing and cannot be installed from here: run `{command}`, then {SETUP}")]
    Install {
        /// What is missing.
        what: &'static str,
        /// The command that installs it.
        command: String,
    },
    /// A step of the set-up failed.
    #[error("the set-up of {what} failed: {detail}")]
    Setup {
        /// What was being installed.
        what: &'static str,
        /// What the step said.
        detail: String,
    },
}

/// The tools of the device build, each seen to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The compiler, an absolute path and no rustup proxy.
    pub rustc: PathBuf,
    /// Its version, such as `1.96.0`.
    pub rustc_version: String,
    /// The cargo that goes with it.
    pub cargo: PathBuf,
    /// The assembler.
    pub ptxas: PathBuf,
    /// Its version, such as `13.5.37`.
    pub ptxas_version: String,
    /// The disassembler.
    pub nvdisasm: PathBuf,
}

/// Where to look; [`Toolchain::find`] fills it from the environment.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// `GRISTMILL_RUSTC`.
    pub rustc: Option<PathBuf>,
    /// `GRISTMILL_PTXAS`.
    pub ptxas: Option<PathBuf>,
    /// `CARGO`, which cargo sets for what it runs.
    pub cargo: Option<PathBuf>,
    /// Compilers to try in order where none is asked for.
    pub candidates: Vec<PathBuf>,
    /// The folder of the workspace, in which `.toolchain` lies and in which a rustup proxy runs.
    pub workspace: PathBuf,
}

impl Search {
    /// Reads the environment, for the workspace in `workspace`.
    pub fn from_env(workspace: &Path) -> Self {
        let path = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Self {
            rustc: path("GRISTMILL_RUSTC"),
            ptxas: path("GRISTMILL_PTXAS"),
            cargo: path("CARGO"),
            candidates: vec!["/usr/bin/rustc".into(), "rustc".into()],
            workspace: workspace.to_owned(),
        }
    }

    /// Where [`setup`] puts the tools.
    pub fn tools(&self) -> PathBuf {
        self.workspace
            .join(".toolchain")
            .join(format!("cuda-{CUDA_VERSION}"))
            .join("bin")
    }

    /// Finds a compiler: path, version and cargo.
    fn rustc(&self) -> Result<(PathBuf, String, PathBuf), ToolchainError> {
        if let Some(asked) = &self.rustc {
            return self.inspect(asked);
        }
        let mut error = ToolchainError::NoRustc;
        for candidate in &self.candidates {
            match self.inspect(candidate) {
                // An old compiler with its source says more than "none found".
                Err(old @ ToolchainError::TooOld { .. }) => error = old,
                Err(_) => {}
                found => return found,
            }
        }
        Err(error)
    }

    /// Asks a compiler for its sysroot and version, and looks for the library's source there.
    fn inspect(&self, rustc: &Path) -> Result<(PathBuf, String, PathBuf), ToolchainError> {
        let ask = |args: &[&str]| {
            let mut command = Command::new(rustc);
            command.args(args).current_dir(&self.workspace);
            // Inside `cargo` the proxy would inherit a tool chain; outside it reads
            // rust-toolchain.toml. It must not install what is absent.
            command.env("RUSTUP_AUTO_INSTALL", "0");
            stdout(&mut command)
        };
        let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
        if !sysroot
            .join("lib/rustlib/src/rust/library/core/src/lib.rs")
            .is_file()
        {
            return Err(ToolchainError::NoSource {
                rustc: rustc.display().to_string(),
                sysroot: sysroot.display().to_string(),
            });
        }
        // A proxy chooses a tool chain by folder and environment; the compiler itself does not.
        let direct = sysroot.join("bin").join("rustc");
        let rustc = if direct.is_file() {
            direct
        } else {
            rustc.to_owned()
        };
        let verbose = stdout(Command::new(&rustc).arg("-vV"))?;
        let version = verbose
            .lines()
            .find_map(|line| line.strip_prefix("release: "))
            .ok_or_else(|| ToolchainError::Broken {
                tool: rustc.display().to_string(),
                detail: "it prints no release".to_owned(),
            })?
            .to_owned();
        at_least(&rustc, &version, OLDEST_RUSTC)?;
        let cargo = self.cargo_for(&rustc, &version);
        Ok((rustc, version, cargo))
    }

    /// The cargo beside `rustc` where it is of the same release, since `-Zbuild-std` follows the
    /// layout of the library; else the cargo that runs us.
    fn cargo_for(&self, rustc: &Path, version: &str) -> PathBuf {
        let beside = rustc.with_file_name("cargo");
        let same = stdout(Command::new(&beside).arg("--version")).is_ok_and(|text| {
            text.split_whitespace()
                .nth(1)
                .is_some_and(|found| minor(found) == minor(version))
        });
        if same {
            beside
        } else {
            self.cargo.clone().unwrap_or_else(|| "cargo".into())
        }
    }

    /// Finds the assembler: path and version.
    fn ptxas(&self) -> Result<(PathBuf, String), ToolchainError> {
        let path = self
            .ptxas
            .clone()
            .unwrap_or_else(|| self.tools().join("ptxas"));
        let version = cuda_version("ptxas", &path)?;
        at_least(&path, &version, OLDEST_PTXAS)?;
        Ok((path, version))
    }

    /// Finds the disassembler: beside ptxas, or where the set-up puts it.
    fn nvdisasm(&self, ptxas: &Path) -> Result<PathBuf, ToolchainError> {
        let beside = ptxas.with_file_name("nvdisasm");
        let path = if beside.is_file() {
            beside
        } else {
            self.tools().join("nvdisasm")
        };
        cuda_version("nvdisasm", &path)?;
        Ok(path)
    }
}

impl Toolchain {
    /// Finds the tools for the workspace in `workspace`.
    ///
    /// # Errors
    ///
    /// [`ToolchainError`]: one sentence that says what is missing and what to run.
    pub fn find(workspace: &Path) -> Result<Self, ToolchainError> {
        Self::search(&Search::from_env(workspace))
    }

    /// Finds the tools where `search` says.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn search(search: &Search) -> Result<Self, ToolchainError> {
        let (rustc, rustc_version, cargo) = search.rustc()?;
        let (ptxas, ptxas_version) = search.ptxas()?;
        let nvdisasm = search.nvdisasm(&ptxas)?;
        Ok(Self {
            rustc,
            rustc_version,
            cargo,
            ptxas,
            ptxas_version,
            nvdisasm,
        })
    }
}

/// Installs what [`Toolchain::find`] misses, and tells `say` about each step.
///
/// rustc comes from Debian's archive where apt-get is there and we are root. The CUDA tools come
/// from PyPI by pip, pinned to [`CUDA_VERSION`], into `.toolchain/` of the workspace.
///
/// # Errors
///
/// [`ToolchainError::Install`] with the exact command where a person has to run it,
/// [`ToolchainError::Setup`] when a step fails, and whatever [`Toolchain::find`] reports after it.
pub fn setup(workspace: &Path, say: &mut dyn FnMut(&str)) -> Result<Toolchain, ToolchainError> {
    let search = Search::from_env(workspace);
    match search.rustc() {
        Ok((rustc, version, _)) => {
            say(&format!("rustc {version} with source: {}", rustc.display()));
        }
        Err(error @ (ToolchainError::NoRustc | ToolchainError::TooOld { .. })) => {
            if search.rustc.is_some() {
                return Err(error);
            }
            say(&format!(
                "installing {} with apt-get",
                PACKAGES.join(" and ")
            ));
            install_rustc()?;
        }
        Err(error) => return Err(error),
    }
    let ptxas = search.ptxas();
    if let (Some(_), Err(error)) = (&search.ptxas, &ptxas) {
        return Err(error.clone());
    }
    if let Err(error) = ptxas.and_then(|(ptxas, _)| search.nvdisasm(&ptxas)) {
        say(&format!("{error}"));
        say(&format!(
            "installing ptxas, nvdisasm and cuobjdump {CUDA_VERSION} with pip"
        ));
        install_tools(&search.tools())?;
    }
    let toolchain = Toolchain::search(&search)?;
    say(&format!(
        "ptxas {}: {}",
        toolchain.ptxas_version,
        toolchain.ptxas.display()
    ));
    Ok(toolchain)
}

/// What a person has to run where the set-up may not: `apt` says whether apt-get is there.
fn by_hand(apt: bool) -> ToolchainError {
    ToolchainError::Install {
        what: "a rustc with the source of its library",
        command: if apt {
            format!(
                "sudo apt-get update && sudo apt-get install {}",
                PACKAGES.join(" ")
            )
        } else {
            "rustup component add rust-src".to_owned()
        },
    }
}

/// Installs Debian's rustc and its source.
fn install_rustc() -> Result<(), ToolchainError> {
    let what = "a rustc with the source of its library";
    let has_apt = stdout(Command::new("apt-get").arg("--version")).is_ok();
    let is_root = stdout(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !has_apt || !is_root {
        return Err(by_hand(has_apt));
    }
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        run(&mut command).map_err(|detail| ToolchainError::Setup { what, detail })
    };
    apt(&["update", "--quiet"])?;
    // Debian's other rustc conflicts with this one; nobody's packages are removed for it.
    let mut install = vec![
        "install",
        "--quiet",
        "--yes",
        "--no-remove",
        "--no-install-recommends",
    ];
    install.extend(PACKAGES);
    apt(&install)
}

/// Installs the wheels into a folder beside the final one, keeps the tools and their licences, and
/// moves the result into place in one step.
fn install_tools(tools: &Path) -> Result<(), ToolchainError> {
    let what = "the CUDA tools";
    let failed = |detail: String| ToolchainError::Setup { what, detail };
    let at = |path: &Path, error: io::Error| failed(format!("{}: {error}", path.display()));
    let home = tools.parent().unwrap_or(tools);
    let staging = home.with_extension(format!("staging-{}", std::process::id()));
    let result = (|| {
        let wheels = staging.join("wheels");
        fs::create_dir_all(&wheels).map_err(|error| at(&wheels, error))?;
        pip(&wheels)?;
        let done = staging.join("done");
        let bin = done.join("bin");
        fs::create_dir_all(&bin).map_err(|error| at(&bin, error))?;
        for (wheel, tool) in WHEELS {
            let from = find_file(&wheels.join("nvidia"), tool)
                .ok_or_else(|| failed(format!("wheel {wheel} holds no {tool}")))?;
            let to = bin.join(tool);
            fs::rename(&from, &to).map_err(|error| at(&from, error))?;
            make_executable(&to).map_err(|error| at(&to, error))?;
            let info = format!("{}-{CUDA_VERSION}.dist-info", wheel.replace('-', "_"));
            let licences = wheels.join(info).join("licenses");
            if licences.is_dir() {
                let to = done.join(format!("licences-{tool}"));
                fs::rename(&licences, &to).map_err(|error| at(&licences, error))?;
            }
        }
        if home.exists() {
            fs::remove_dir_all(home).map_err(|error| at(home, error))?;
        }
        fs::rename(&done, home).map_err(|error| at(home, error))
    })();
    // Whatever became of it, what pip unpacked is no longer needed.
    let _ = fs::remove_dir_all(&staging);
    result
}

/// Unpacks the pinned wheels into `target`.
fn pip(target: &Path) -> Result<(), ToolchainError> {
    let what = "the CUDA tools";
    let wheels: Vec<String> = WHEELS
        .iter()
        .map(|(wheel, _)| format!("{wheel}=={CUDA_VERSION}"))
        .collect();
    let python = ["python3", "python"]
        .into_iter()
        .find(|python| stdout(Command::new(python).args(["-m", "pip", "--version"])).is_ok())
        .ok_or_else(|| ToolchainError::Install {
            what: "pip",
            command: "sudo apt-get install python3-pip".to_owned(),
        })?;
    let mut command = Command::new(python);
    command
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
        ])
        .args([
            "--disable-pip-version-check",
            "--root-user-action",
            "ignore",
            "--target",
        ])
        .arg(target)
        .args(wheels);
    run(&mut command).map_err(|detail| ToolchainError::Setup { what, detail })
}

/// Looks for a file by name below `folder`.
fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name() == Some(OsStr::new(name)) {
                return Some(path);
            }
        }
    }
    None
}

/// Gives a file its run bits: wheels do not always keep them.
pub(crate) fn make_executable(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// The version of a CUDA tool: `13.5.37` from `Cuda compilation tools, release 13.5, V13.5.37`.
fn cuda_version(tool: &'static str, path: &Path) -> Result<String, ToolchainError> {
    if !path.is_file() {
        return Err(ToolchainError::NoTool {
            tool,
            path: path.display().to_string(),
        });
    }
    let text = stdout(Command::new(path).arg("--version"))?;
    text.split_whitespace()
        .filter_map(|word| word.strip_prefix('V'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .map(|version| version.trim_end_matches(',').to_owned())
        .ok_or_else(|| ToolchainError::Broken {
            tool: path.display().to_string(),
            detail: "it prints no version".to_owned(),
        })
}

/// Major and minor number of a version.
fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn at_least(tool: &Path, found: &str, needed: (u32, u32)) -> Result<(), ToolchainError> {
    if minor(found) >= Some(needed) {
        return Ok(());
    }
    Err(ToolchainError::TooOld {
        tool: tool.display().to_string(),
        found: found.to_owned(),
        needed: format!("{}.{}", needed.0, needed.1),
    })
}

/// Runs a command for what it prints.
fn stdout(command: &mut Command) -> Result<String, ToolchainError> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let broken = |detail| ToolchainError::Broken {
        tool: tool.clone(),
        detail,
    };
    let output = command
        .output()
        .map_err(|error| broken(error.to_string()))?;
    if !output.status.success() {
        return Err(broken(last_line(&output)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command for its effect; an error is its exit status and last words.
fn run(command: &mut Command) -> Result<(), String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{tool}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{tool}: {}", last_line(&output)))
    }
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A folder with stand-ins for the tools, removed when dropped.
    struct Lab {
        folder: PathBuf,
        _alone: std::sync::MutexGuard<'static, ()>,
    }

    impl Lab {
        fn new(name: &str) -> Self {
            let alone = crate::one_with_scripts();
            let folder = env::temp_dir().join(format!("gristmill-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self {
                folder,
                _alone: alone,
            }
        }

        /// A script that prints `text` whatever it is asked.
        fn tool(&self, path: &str, text: &str) -> PathBuf {
            let path = self.folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/sh\ncat <<'END'\n{text}\nEND\n")).unwrap();
            make_executable(&path).unwrap();
            path
        }

        /// A compiler of `version` whose sysroot is `folder`, with or without source.
        fn rustc(&self, folder: &str, version: &str, source: bool) -> PathBuf {
            let sysroot = self.folder.join(folder);
            let script = format!(
                "#!/bin/sh\ncase $1 in --print) echo '{}';; *) echo 'release: {version}';; esac\n",
                sysroot.display()
            );
            let rustc = self.tool(&format!("{folder}/bin/rustc"), "");
            fs::write(&rustc, script).unwrap();
            let core = sysroot.join("lib/rustlib/src/rust/library/core/src");
            if source {
                fs::create_dir_all(&core).unwrap();
                fs::write(core.join("lib.rs"), "").unwrap();
            }
            rustc
        }

        fn cuda(&self, version: &str) {
            let text = format!("Cuda compilation tools, release 13.5, V{version}");
            for tool in ["ptxas", "nvdisasm"] {
                self.tool(&format!(".toolchain/cuda-{CUDA_VERSION}/bin/{tool}"), &text);
            }
        }

        fn search(&self, candidates: Vec<PathBuf>) -> Search {
            Search {
                candidates,
                workspace: self.folder.clone(),
                ..Search::default()
            }
        }
    }

    impl Drop for Lab {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn the_first_compiler_with_source_is_taken_with_the_cargo_beside_it() {
        let lab = Lab::new("found");
        let without = lab.rustc("rustup", "1.95.0", false);
        let with = lab.rustc("debian", "1.96.0", true);
        let cargo = lab.tool("debian/bin/cargo", "cargo 1.96.0 (abc 2026-05-25)");
        lab.cuda(CUDA_VERSION);
        let found = Toolchain::search(&lab.search(vec![without, with.clone()])).unwrap();
        assert_eq!((found.rustc, found.cargo), (with, cargo));
        assert_eq!(
            (&*found.rustc_version, &*found.ptxas_version),
            ("1.96.0", CUDA_VERSION)
        );
    }

    #[test]
    fn a_cargo_of_another_release_is_not_taken() {
        let lab = Lab::new("cargo");
        let rustc = lab.rustc("debian", "1.96.0", true);
        lab.tool("debian/bin/cargo", "cargo 1.85.0 (abc 2025-01-01)");
        lab.cuda(CUDA_VERSION);
        let mut search = lab.search(vec![rustc]);
        search.cargo = Some("/outer/cargo".into());
        assert_eq!(
            Toolchain::search(&search).unwrap().cargo,
            Path::new("/outer/cargo")
        );
    }

    #[test]
    fn no_compiler_with_source_says_what_to_run() {
        let lab = Lab::new("none");
        lab.cuda(CUDA_VERSION);
        let without = lab.rustc("rustup", "1.95.0", false);
        let search = lab.search(vec![without.clone(), lab.folder.join("absent")]);
        let error = Toolchain::search(&search).unwrap_err();
        assert_eq!(error, ToolchainError::NoRustc);
        assert!(error.to_string().contains("cargo xtask setup"), "{error}");
        // One that was asked for by name is not passed over.
        let asked = Search {
            rustc: Some(without),
            ..lab.search(vec![])
        };
        let error = Toolchain::search(&asked).unwrap_err();
        assert!(matches!(error, ToolchainError::NoSource { .. }), "{error}");
        assert!(error.to_string().contains("rust-web-src"), "{error}");
    }

    #[test]
    fn what_we_may_not_install_comes_with_the_exact_command() {
        let text = by_hand(true).to_string();
        let command = "`sudo apt-get update && sudo apt-get install rustc-web rust-web-src`";
        assert!(text.contains(command), "{text}");
        let text = by_hand(false).to_string();
        assert!(text.contains("`rustup component add rust-src`"), "{text}");
    }

    #[test]
    fn an_old_compiler_or_assembler_says_so() {
        let lab = Lab::new("old");
        let old = lab.rustc("old", "1.85.0", true);
        let error = Toolchain::search(&lab.search(vec![old])).unwrap_err();
        assert!(error.to_string().contains("version 1.85.0"), "{error}");
        let rustc = lab.rustc("new", "1.96.0-nightly", true);
        lab.cuda("12.9.41");
        let error = Toolchain::search(&lab.search(vec![rustc])).unwrap_err();
        assert!(error.to_string().contains("needs 13.3 or later"), "{error}");
    }

    #[test]
    fn a_missing_or_broken_assembler_is_a_sentence() {
        let lab = Lab::new("ptxas");
        let rustc = lab.rustc("debian", "1.96.0", true);
        let error = Toolchain::search(&lab.search(vec![rustc.clone()])).unwrap_err();
        assert!(
            matches!(error, ToolchainError::NoTool { tool: "ptxas", .. }),
            "{error}"
        );
        assert!(error.to_string().contains("cargo xtask setup"), "{error}");

        let mute = lab.tool("mute", "hello");
        let search = Search {
            ptxas: Some(mute),
            ..lab.search(vec![rustc.clone()])
        };
        let error = Toolchain::search(&search).unwrap_err();
        assert!(error.to_string().contains("prints no version"), "{error}");

        lab.cuda(CUDA_VERSION);
        fs::remove_file(lab.search(vec![]).tools().join("nvdisasm")).unwrap();
        let error = Toolchain::search(&lab.search(vec![rustc.clone()])).unwrap_err();
        assert!(
            matches!(
                error,
                ToolchainError::NoTool {
                    tool: "nvdisasm",
                    ..
                }
            ),
            "{error}"
        );

        let still = lab.folder.join("still");
        fs::write(&still, "no run bit").unwrap();
        let search = Search {
            ptxas: Some(still),
            ..lab.search(vec![rustc])
        };
        let error = Toolchain::search(&search).unwrap_err();
        assert!(matches!(error, ToolchainError::Broken { .. }), "{error}");
    }
}
