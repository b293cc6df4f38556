//! Developer commands: `cargo xtask setup | image | sass | budget | benchmarks | bundle | owed | fuzz |
//! ci`.
//!
//! All of them work on the workspace this program was built in.

mod benchmarks;
mod bundle;
mod ci;
mod fuzz;
mod owed;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use codegen::arch::Arch;
use codegen::budget::{Budgets, Finding, Table};
use codegen::compiler::{DeviceCrate, Rustc};
use codegen::image::{EntryInfo, Image};
use codegen::ptxas::Assembler;
use codegen::toolchain::{self, Toolchain};
use codegen::{Build, Summary, device_folder};

/// Builds, shows and holds to their budgets the kernels of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Installs the device tool chain: rustc with its source (Debian, as root) and the pinned CUDA
    /// tools from PyPI, into .toolchain/
    Setup,
    /// Compiles every variant and prints what each costs
    Image {
        /// Architectures: all, or a list such as sm_80,sm_90a
        #[arg(long, default_value = "all", value_parser = archs)]
        arch: Archs,
        /// Prints variants whose name holds this text only
        #[arg(long)]
        filter: Option<String>,
        /// Writes the image to a file too
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Compiles one variant and prints its machine code
    Sass {
        /// The variant, as `image` names it
        variant: String,
        /// The architecture
        #[arg(long, default_value = "sm_90a")]
        arch: Arch,
        /// Prints the PTX instead
        #[arg(long)]
        ptx: bool,
    },
    /// Compares what every variant costs with the table in gpu-kernels/budgets
    Budget {
        /// Architectures: all, or a list such as sm_80,sm_90a
        #[arg(long, default_value = "all", value_parser = archs)]
        arch: Archs,
        /// Writes what was found into the table instead
        #[arg(long)]
        bless: bool,
    },
    /// Writes BENCHMARKS.md from the files in benches/results
    Benchmarks {
        /// Fails where it is out of date instead
        #[arg(long)]
        check: bool,
    },
    /// Builds a folder that checks and measures every kernel on a machine with a driver and no Rust
    Bundle {
        /// Architectures: all, or a list such as sm_80,sm_90a
        #[arg(long, default_value = "all", value_parser = archs)]
        arch: Archs,
        /// The folder
        #[arg(long, default_value = "target/bundle")]
        out: PathBuf,
    },
    /// Lists the figures that are owed (benches/results/OWED.md), or strikes those that a run meets
    Owed {
        /// A file that `kernels bench --json` wrote on a card
        results: Option<PathBuf>,
    },
    /// Feeds damaged messages to every decoder, guided by coverage
    Fuzz {
        /// Targets; none: all
        targets: Vec<String>,
        /// Stops each after so many runs (default: 1000000)
        #[arg(long, conflicts_with = "seconds")]
        runs: Option<u64>,
        /// Stops each after so many seconds
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Sets up what is missing, then checks everything that must hold before a change lands
    Ci,
}

/// A list of architectures, as one argument.
#[derive(Clone)]
struct Archs(Vec<Arch>);

fn archs(text: &str) -> std::result::Result<Archs, String> {
    let archs = Arch::parse_list(text).map_err(|error| error.to_string())?;
    if archs.is_empty() {
        Err("name at least one".to_owned())
    } else {
        Ok(Archs(archs))
    }
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(&Args::parse().command) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether somebody stopped reading, as `head` does.
fn is_closed_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(command: &Cmd) -> Result<ExitCode> {
    let workspace = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    match command {
        Cmd::Setup => setup(&workspace)?,
        Cmd::Benchmarks { check } => benchmarks::run(&workspace, *check)?,
        Cmd::Bundle { arch, out } => bundle::run(&workspace, &arch.0, out)?,
        Cmd::Owed { results } => owed::run(&workspace, results.as_deref())?,
        Cmd::Fuzz {
            targets,
            runs,
            seconds,
        } => {
            let stop = match seconds {
                Some(seconds) => fuzz::Stop::Seconds(*seconds),
                None => fuzz::Stop::Runs(runs.unwrap_or(1_000_000)),
            };
            fuzz::run(&workspace, targets, stop)?;
        }
        Cmd::Ci => {
            setup(&workspace)?;
            benchmarks::run(&workspace, true)?;
            ci::run(&workspace)?;
        }
        Cmd::Image { arch, filter, out } => {
            let (image, _) = build(&workspace, &arch.0, None)?;
            print(&table(&image, filter.as_deref()))?;
            if let Some(path) = out {
                let bytes = image.to_bytes()?;
                fs::write(path, &bytes).map_err(|error| format!("{}: {error}", path.display()))?;
                eprintln!("{}: {} bytes", path.display(), bytes.len());
            }
        }
        Cmd::Sass { variant, arch, ptx } => {
            let (image, _) = build(&workspace, &[*arch], Some(variant))?;
            let entry = image
                .find(variant, *arch)
                .ok_or_else(|| format!("the build holds no {variant} for {arch}"))?;
            print(&if *ptx { entry.ptx()? } else { entry.sass()? })?;
            eprint!("{}", table(&image, None));
        }
        Cmd::Budget { arch, bless } => return budget(&workspace, &arch.0, *bless),
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs what the device build misses.
fn setup(workspace: &Path) -> Result<()> {
    let mut out = io::stdout();
    let mut say = |line: &str| {
        // A set-up goes on when nobody reads about it.
        let _ = writeln!(out, "{line}");
    };
    toolchain::setup(workspace, &mut say)?;
    say("the device tool chain is complete");
    Ok(())
}

fn print(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Builds the kernels and tells on standard error what was done.
fn build(workspace: &Path, archs: &[Arch], only: Option<&str>) -> Result<(Image, Summary)> {
    let toolchain = Toolchain::find(workspace)?;
    let folder = device_folder(workspace);
    let start = Instant::now();
    let build = Build {
        compiler: &Rustc::new(&toolchain, &folder).chatty(io::stderr().is_terminal()),
        assembler: &Assembler::new(&toolchain, &folder.join("cache")),
        kernels: &DeviceCrate::kernels(workspace),
        archs,
        only,
        ptxas_version: &toolchain.ptxas_version,
        commit: &codegen::commit(workspace),
        progress: &|step| eprintln!("{:7.1} s  {step}", start.elapsed().as_secs_f64()),
    };
    let (image, summary) = build.run()?;
    eprintln!(
        "{:7.1} s  {} cubins assembled, {} from the cache; rustc {}, ptxas {}",
        start.elapsed().as_secs_f64(),
        summary.assembled,
        summary.cached,
        image.rustc(),
        image.ptxas(),
    );
    for (variant, arch, warning) in &summary.warnings {
        eprintln!("warning: {variant} for {arch}: {warning}");
    }
    Ok((image, summary))
}

fn budget(workspace: &Path, archs: &[Arch], bless: bool) -> Result<ExitCode> {
    let (image, _) = build(workspace, archs, None)?;
    let found = Table::of(&image);
    let budgets = Budgets::of(workspace);
    let (rustc, ptxas) = (image.rustc(), image.ptxas());
    if bless {
        // Rows of architectures that were not built stay as they are.
        let mut table = budgets.load(rustc, ptxas)?.unwrap_or_default();
        table.forget(archs);
        table.extend(found);
        let path = budgets.store(rustc, ptxas, &table)?;
        println!("{}: {} rows", path.display(), table.len());
        return Ok(ExitCode::SUCCESS);
    }
    let (path, held, same_tools) = budgets.nearest(rustc, ptxas)?;
    let comparison = held.compare(&found, archs, same_tools);
    let tell = |what: &str, findings: &[Finding]| {
        for finding in findings {
            println!("{what}: {finding}");
        }
    };
    tell("better", &comparison.better);
    tell("worse", &comparison.worse);
    let held_to = if same_tools {
        String::new()
    } else {
        format!(
            " (made by other tools than rustc {rustc}, ptxas {ptxas}: spills, stack and generic accesses only)"
        )
    };
    let path = path.display();
    if comparison.worse.is_empty() {
        println!("{} rows are within {path}{held_to}", found.len());
        if !comparison.better.is_empty() {
            println!("some are better: hold that with `cargo xtask budget --bless`");
        }
        Ok(ExitCode::SUCCESS)
    } else {
        let worse = comparison.worse.len();
        println!(
            "worse than {path}{held_to} in {worse} places; if that is meant, `cargo xtask budget --bless`"
        );
        Ok(ExitCode::FAILURE)
    }
}

/// A number of a variant, with the head of its column.
type Field = (&'static str, fn(&EntryInfo) -> u32);

/// What the variants cost, as aligned columns.
fn table(image: &Image, filter: Option<&str>) -> String {
    const FIELDS: &[Field] = &[
        ("regs", |info| info.registers),
        ("shared", |info| info.shared_bytes),
        ("dynamic", |info| info.dynamic_shared),
        ("stack", |info| info.stack_bytes),
        ("spills", |info| info.spill_bytes),
        ("instrs", |info| info.facts.instructions),
        ("loop", |info| info.facts.inner_loop),
        ("clmad", |info| info.facts.clmad),
        ("imma", |info| info.facts.imma),
        ("lds", |info| info.facts.lds + info.facts.ldsm),
        ("sts", |info| info.facts.sts),
        ("bar", |info| info.facts.barriers),
        ("generic", |info| {
            info.facts.generic_loads + info.facts.generic_stores
        }),
        ("local", |info| info.facts.local),
    ];
    let entries = image.entries().iter();
    let entries: Vec<_> = entries
        .filter(|entry| filter.is_none_or(|text| entry.variant.contains(text)))
        .collect();
    let width = entries
        .iter()
        .map(|entry| entry.variant.len())
        .max()
        .unwrap_or(0)
        .max(7);
    let mut text = format!("{:width$}  {:6}", "variant", "arch");
    for (name, _) in FIELDS {
        // Writing to a String does not fail.
        let _ = write!(text, " {name:>7}");
    }
    text.push('\n');
    for entry in entries {
        let _ = write!(text, "{:width$}  {:6}", entry.variant, entry.arch);
        for (_, get) in FIELDS {
            let _ = write!(text, " {:7}", get(entry));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use codegen::image::{Entry, SassFacts};

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn an_unknown_or_empty_list_of_architectures_is_refused() {
        let parse = |arch: &str| Args::try_parse_from(["cargo xtask", "image", "--arch", arch]);
        assert!(parse("all").is_ok());
        assert!(parse("sm_80,sm_90a").is_ok());
        for bad in ["", ",", "sm_91"] {
            assert_eq!(
                parse(bad).err().map(|error| error.exit_code()),
                Some(2),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn the_table_is_aligned_and_filtered() {
        let entry = |variant: &str| {
            let info = EntryInfo {
                variant: variant.to_owned(),
                arch: Arch::Sm90a,
                registers: 255,
                shared_bytes: 0,
                dynamic_shared: 65536,
                stack_bytes: 0,
                spill_bytes: 0,
                facts: SassFacts::default(),
            };
            Entry::new(info, "", b"", "")
        };
        let image = Image::new(
            "",
            "",
            "",
            vec![entry("mul"), entry("montgomery__per_thread_4")],
        );
        let text = table(&image, None);
        let lengths: Vec<_> = text.lines().map(str::len).collect();
        assert_eq!(lengths.len(), 3);
        assert!(lengths.iter().all(|&length| length == lengths[0]), "{text}");
        assert_eq!(table(&image, Some("gom")).lines().count(), 2);
    }
}
