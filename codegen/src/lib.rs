//! From kernel variants to an embedded image, at build time.
//!
//! The path of a kernel: a [`compiler`] turns the `gpu-kernels` crate into PTX, [`ptx`] finishes
//! that text and splits it into one module per entry point, [`ptxas`] assembles each module for
//! each architecture, [`sass`] reads the machine code back, and [`image`] packs the results.
//! [`budget`] holds what they cost against a table in the repository.
//!
//! Only [`image`] and [`arch`] are needed at run time. Everything else runs in `host/build.rs` and
//! `cargo xtask`, and only where somebody asked for device code: a plain `cargo build` needs none
//! of it.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;

pub mod arch;
pub mod budget;
pub mod compiler;
pub mod image;
mod lines;
pub mod ptx;
pub mod ptxas;
pub mod sass;
pub mod toolchain;

use arch::{Arch, UnknownArch};
use compiler::{CompileError, Compiler, DeviceCrate, Pass, Rustc};
use image::{Entry, EntryInfo, Image, ImageError};
use ptx::{Module, PtxError, Split};
use ptxas::{AssembleError, Assembler};
use toolchain::{Toolchain, ToolchainError};

/// Why there is no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A tool is missing.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// An architecture is not known.
    #[error(transparent)]
    Arch(#[from] UnknownArch),
    /// The kernels do not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The compiler's PTX does not read as expected.
    #[error(transparent)]
    Ptx(#[from] PtxError),
    /// A variant does not assemble.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The image cannot be written or read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// No entry point has the name asked for.
    #[error(
        "no variant is called {name} for {target}; `cargo xtask image` lists all, `--filter TEXT` \
         some of them"
    )]
    UnknownVariant {
        /// What was asked for.
        name: String,
        /// What was compiled for.
        target: &'static str,
    },
}

/// What a build made beside the image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Results that were assembled before.
    pub cached: u64,
    /// Results that were assembled now.
    pub assembled: u64,
    /// What ptxas warned of: variant, architecture, text.
    pub warnings: Vec<(String, Arch, String)>,
}

/// A build of device code.
#[derive(Clone, Copy)]
pub struct Build<'a> {
    /// Takes the kernels to PTX.
    pub compiler: &'a dyn Compiler,
    /// Takes PTX to cubins.
    pub assembler: &'a Assembler,
    /// The kernels.
    pub kernels: &'a DeviceCrate,
    /// What to build for.
    pub archs: &'a [Arch],
    /// Builds this variant alone.
    pub only: Option<&'a str>,
    /// The version of ptxas, for the image.
    pub ptxas_version: &'a str,
    /// The commit, for the image.
    pub commit: &'a str,
    /// Told of each step.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

impl Build<'_> {
    /// Compiles each pass that the architectures need, and assembles every entry point for every
    /// architecture.
    ///
    /// # Errors
    ///
    /// [`Error`]; of several variants that fail, the first in order of the text.
    pub fn run(&self) -> Result<(Image, Summary), Error> {
        let mut passes: Vec<Pass> = Pass::ALL.to_vec();
        passes.retain(|&pass| self.archs.iter().any(|&arch| Pass::of(arch) == pass));
        // A pass is one thread's work most of the time: both at once.
        let splits: HashMap<Pass, Vec<Split>> = passes
            .into_par_iter()
            .map(|pass| Ok((pass, self.splits(pass)?)))
            .collect::<Result<_, Error>>()?;
        let jobs: Vec<(&Split, Arch)> = self
            .archs
            .iter()
            .flat_map(|&arch| {
                splits
                    .get(&Pass::of(arch))
                    .into_iter()
                    .flatten()
                    .map(move |split| (split, arch))
            })
            .collect();
        (self.progress)(&format!("assembling {} cubins", jobs.len()));
        let made: Vec<(Entry, Vec<String>)> = jobs
            .par_iter()
            // The largest kernels come in runs; one at a time keeps every core busy to the end.
            .with_max_len(1)
            .map(|&(split, arch)| self.entry(split, arch))
            .collect::<Result<_, Error>>()?;
        self.assembler.prune();
        let (cached, assembled) = self.assembler.counts();
        let mut summary = Summary {
            cached,
            assembled,
            warnings: Vec::new(),
        };
        let mut entries = Vec::with_capacity(made.len());
        for (entry, warnings) in made {
            let told = |text| (entry.variant.clone(), entry.arch, text);
            summary.warnings.extend(warnings.into_iter().map(told));
            entries.push(entry);
        }
        let image = Image::new(
            self.compiler.version(),
            self.ptxas_version,
            self.commit,
            entries,
        );
        Ok((image, summary))
    }

    fn splits(&self, pass: Pass) -> Result<Vec<Split>, Error> {
        (self.progress)(&format!("compiling for {}", pass.target_cpu()));
        let text = self.compiler.compile(self.kernels, pass, self.only)?;
        let mut splits = Module::parse(&text)?.split()?;
        if let Some(only) = self.only {
            splits.retain(|split| split.name == only);
            if splits.is_empty() {
                let (name, target) = (only.to_owned(), pass.target_cpu());
                return Err(Error::UnknownVariant { name, target });
            }
        }
        Ok(splits)
    }

    fn entry(&self, split: &Split, arch: Arch) -> Result<(Entry, Vec<String>), Error> {
        let assembled = self.assembler.assemble(split, arch)?;
        let report = assembled.report;
        let info = EntryInfo {
            variant: split.name.clone(),
            arch,
            registers: report.registers,
            shared_bytes: report.shared_bytes,
            dynamic_shared: split.bounds.dynamic_shared,
            stack_bytes: report.stack_bytes,
            spill_bytes: report.spill_bytes,
            facts: sass::facts(&assembled.sass),
        };
        let entry = Entry::new(info, &split.text, &assembled.cubin, &assembled.sass);
        Ok((entry, report.warnings))
    }
}

/// Where device builds of a workspace keep what they made: `device` in its target folder. Passes
/// and results are shared by every build of the workspace, since making them anew is slow.
pub fn device_folder(workspace: &Path) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty());
    // A relative path is relative to the folder of whoever runs cargo, which is the workspace's.
    target
        .map_or_else(|| workspace.join("target"), |path| workspace.join(path))
        .join("device")
}

/// The kernels of the workspace in `workspace` as an image for `archs`, embedding `commit`.
///
/// # Errors
///
/// [`Error`].
pub fn compile(
    toolchain: &Toolchain,
    archs: &[Arch],
    workspace: &Path,
    commit: &str,
) -> Result<Image, Error> {
    let folder = device_folder(workspace);
    let build = Build {
        compiler: &Rustc::new(toolchain, &folder),
        assembler: &Assembler::new(toolchain, &folder.join("cache")),
        kernels: &DeviceCrate::kernels(workspace),
        archs,
        only: None,
        ptxas_version: &toolchain.ptxas_version,
        commit,
        progress: &|_| (),
    };
    Ok(build.run()?.0)
}

/// The commit the workspace stands at, shortened, with `-dirty` where a tracked file differs from
/// it; `unknown` outside of a repository.
pub fn commit(workspace: &Path) -> String {
    let Some(commit) = git(workspace, &["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(
        workspace,
        &["status", "--porcelain", "--untracked-files=no"],
    ) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "-dirty",
    }
}

/// The files of the repository that change when another commit is checked out or made.
pub fn commit_files(workspace: &Path) -> Vec<PathBuf> {
    ["HEAD", "logs/HEAD"]
        .iter()
        .filter_map(|name| git(workspace, &["rev-parse", "--git-path", name]))
        .map(|path| workspace.join(path))
        .filter(|path| path.is_file())
        .collect()
}

/// What git prints, where it succeeds.
fn git(workspace: &Path, args: &[&str]) -> Option<String> {
    // Asking must not take the lock of the index from somebody who is committing.
    let output = Command::new("git")
        .arg("--no-optional-locks")
        .args(args)
        .current_dir(workspace)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

/// Held by each test that writes a script and runs it: a fork on another thread can hold the
/// script open for writing, and then it does not start.
#[cfg(test)]
pub(crate) fn one_with_scripts() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
