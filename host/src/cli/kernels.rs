//! `gristmill kernels list | show | check | bench | tune`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use clap::Subcommand;
use codegen::arch::Arch;
use codegen::image::{Entry, Image};
use serde::Serialize;
use simt::launch::{Kernel, ParamKind, VariantInfo};

use super::output::{ResultFile, note, progress, table};
use super::{BackendArgument, Failure, Output};
use crate::backend::{Backend, Mode};
use crate::bench::{self, Measured, Results, Timed};
use crate::check::{self, Outcome, Subject};
use crate::choice::{Table, Tuned, VARIABLE};
use crate::image;
use crate::trial::{self, Ceiling};
use crate::tune;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List every variant with what it costs
    List {
        /// Only this architecture
        #[arg(long)]
        arch: Option<Arch>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show one variant: its descriptor, its PTX or its machine code
    Show {
        /// The variant, as `kernels list` names it
        variant: String,
        /// The architecture; may be left out when the binary holds one alone
        #[arg(long)]
        arch: Option<Arch>,
        /// Print its PTX
        #[arg(long, conflicts_with = "sass")]
        ptx: bool,
        /// Print its machine code
        #[arg(long)]
        sass: bool,
    },
    /// Run every variant against a plain reference
    Check(CheckArguments),
    /// Time every variant beside the ceilings of the device
    Bench(BenchArguments),
    /// Time the variants that can do a job, and keep which is fastest on this device
    Tune(TuneArguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckArguments {
    /// Where to run
    #[arg(long, default_value = "auto")]
    backend: BackendArgument,
    /// Only variants whose name holds this
    #[arg(long, default_value = "")]
    filter: String,
    /// The seed of the inputs
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// Run this many seeds, from --seed on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Use the emulator in checked mode, which finds races and bad accesses
    #[arg(long)]
    checked: bool,
    /// Write the results to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Hold the outputs against those of an earlier run, by the digests in its --json file: two
    /// backends must give the same bits
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct BenchArguments {
    /// Where to run
    #[arg(long, default_value = "auto")]
    backend: BackendArgument,
    /// Only variants whose name holds this
    #[arg(long, default_value = "")]
    filter: String,
    /// The seed of the inputs
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// Write the results to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a picture of the results to a file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct TuneArguments {
    /// Where to run
    #[arg(long, default_value = "auto")]
    backend: BackendArgument,
    /// Only jobs whose name holds this
    #[arg(long, default_value = "")]
    filter: String,
    /// The seed of the inputs
    #[arg(long, default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    seed: u64,
    /// The table to add to [default: $GRISTMILL_TUNING, or gristmill/tuning.json in the configuration
    /// folder: the one that is used]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn seed(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .map_err(|_| "a seed is a whole number from 0 to 18446744073709551615")
}

pub(super) fn run(command: Command, out: &mut Output<'_>) -> Result<(), Failure> {
    match command {
        Command::List { arch, json } => list(arch, json, out),
        Command::Show {
            variant,
            arch,
            ptx,
            sass,
        } => show(&variant, arch, ptx, sass, out),
        Command::Check(arguments) => check(&arguments, out),
        Command::Bench(arguments) => bench(&arguments, out),
        Command::Tune(arguments) => tune(arguments, out),
    }
}

/// A variant on an architecture, as `kernels list --json` writes it. Numbers are null when this
/// binary does not hold the variant for that architecture.
#[derive(Serialize)]
struct Row {
    variant: &'static str,
    kernel: &'static str,
    arch: Option<String>,
    /// Registers a thread.
    registers: Option<u32>,
    /// Shared memory of a block, static and dynamic.
    shared_bytes: Option<u32>,
    /// Stack frame of a thread.
    stack_bytes: Option<u32>,
    /// Spill stores and loads of a thread.
    spill_bytes: Option<u32>,
    /// Threads of a block.
    block: u32,
    /// The part of the shared memory that the launch adds.
    dynamic_shared_bytes: u32,
    /// What the machine code holds, counted in instructions.
    sass: Option<codegen::image::SassFacts>,
}

impl Row {
    fn new(kernel: &'static Kernel, variant: &'static VariantInfo, entry: Option<&Entry>) -> Self {
        Self {
            variant: variant.name,
            kernel: kernel.name,
            arch: entry.map(|entry| entry.arch.to_string()),
            registers: entry.map(|entry| entry.registers),
            shared_bytes: entry.map(|entry| entry.shared_bytes + entry.dynamic_shared),
            stack_bytes: entry.map(|entry| entry.stack_bytes),
            spill_bytes: entry.map(|entry| entry.spill_bytes),
            block: variant.block,
            dynamic_shared_bytes: variant.shared_bytes,
            sass: entry.map(|entry| entry.facts),
        }
    }
}

fn embedded() -> Result<&'static Image, Failure> {
    image::embedded().map_err(Failure::failed)
}

fn list(arch: Option<Arch>, json: bool, out: &mut Output<'_>) -> Result<(), Failure> {
    let image = embedded()?;
    let mut rows = Vec::new();
    for (kernel, variant) in check::variants("") {
        let entries = image.variant(variant.name);
        let mut entries: Vec<&Entry> = entries
            .iter()
            .filter(|entry| arch.is_none_or(|arch| entry.arch == arch))
            .collect();
        entries.sort_by_key(|entry| entry.arch);
        if entries.is_empty() {
            rows.push(Row {
                arch: arch.map(|arch| arch.to_string()),
                ..Row::new(kernel, variant, None)
            });
        }
        rows.extend(
            entries
                .into_iter()
                .map(|entry| Row::new(kernel, variant, Some(entry))),
        );
    }
    if json {
        return out.json(&rows);
    }
    let number = |value: Option<u32>| value.map_or_else(|| "-".into(), |value| value.to_string());
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.variant.into(),
                row.arch.clone().unwrap_or_else(|| "-".into()),
                row.block.to_string(),
                number(row.registers),
                number(row.shared_bytes),
                number(row.stack_bytes),
                number(row.spill_bytes),
                number(row.sass.map(|sass| sass.instructions)),
                number(row.sass.map(|sass| sass.inner_loop)),
            ]
        })
        .collect();
    out.text(&table(
        &[
            "variant",
            "arch",
            "block",
            "registers",
            "shared",
            "stack",
            "spills",
            "instructions",
            "inner loop",
        ],
        &[false, false, true, true, true, true, true, true, true],
        &cells,
    ))?;
    out.flush()?;
    if image.is_empty() {
        note(NO_CODE);
    }
    Ok(())
}

const NO_CODE: &str = "this binary holds no GPU code, so there are no numbers: run `cargo xtask setup` and build \
     again with `GRISTMILL_ARCH=sm_90a cargo build --release`";

fn show(
    name: &str,
    arch: Option<Arch>,
    ptx: bool,
    sass: bool,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let (kernel, variant) = find(name)?;
    let image = embedded()?;
    if !(ptx || sass) {
        return describe(kernel, variant, image, arch, out);
    }
    if image.is_empty() {
        return Err(Failure::failed(NO_CODE));
    }
    let held = image.variant(name);
    let names: Vec<&str> = held.iter().map(|entry| entry.arch.name()).collect();
    let names = names.join(", ");
    let entry = match (arch, held) {
        (_, []) => {
            return Err(Failure::Failed(format!(
                "this binary holds no GPU code for `{name}`: build again with \
                 `GRISTMILL_ARCH={} cargo build --release`",
                variant.arch_feature.unwrap_or("sm_90a")
            )));
        }
        (Some(arch), held) => held
            .iter()
            .find(|entry| entry.arch == arch)
            .ok_or_else(|| {
                Failure::Usage(format!(
                    "this binary holds `{name}` for {names}, not for {arch}: choose one of these, or build \
                     again with `GRISTMILL_ARCH={arch} cargo build --release`"
                ))
            })?,
        (None, [only]) => only,
        (None, _) => {
            return Err(Failure::Usage(format!(
                "this binary holds `{name}` for {names}: choose one with --arch"
            )));
        }
    };
    let text = if ptx { entry.ptx() } else { entry.sass() };
    let text = text.map_err(Failure::failed)?;
    out.text(text.trim_end())?;
    out.line("")
}

fn find(name: &str) -> Result<(&'static Kernel, &'static VariantInfo), Failure> {
    let variants = check::variants("");
    if let Some(found) = variants.iter().find(|(_, variant)| variant.name == name) {
        return Ok(*found);
    }
    let near = variants
        .iter()
        .map(|(_, variant)| (distance(name, variant.name), variant.name))
        .min();
    let near = match near {
        Some((distance, near)) if distance <= name.len() / 2 => {
            format!("did you mean `{near}`? ")
        }
        _ => String::new(),
    };
    Err(Failure::Usage(format!(
        "there is no variant `{name}`: {near}`gristmill kernels list` names them all"
    )))
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j].min(row[j + 1]) + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

fn describe(
    kernel: &'static Kernel,
    variant: &'static VariantInfo,
    image: &Image,
    arch: Option<Arch>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    out.line(variant.name)?;
    for line in kernel.doc.trim().lines() {
        out.line(format_args!("    {}", line.trim()))?;
    }
    let mut row = |name: &str, text: String| out.line(format_args!("{name:<11}{text}"));
    row("kernel", kernel.name.into())?;
    row("source", format!("{}:{}", kernel.file, kernel.line))?;
    let parameters: Vec<String> = kernel
        .params
        .iter()
        .map(|parameter| match parameter.kind {
            ParamKind::Global { element, .. } => format!("{}: Global<{element}>", parameter.name),
            ParamKind::GlobalMut { element, .. } => {
                format!("{}: GlobalMut<{element}>", parameter.name)
            }
            ParamKind::Scalar { ty, .. } => format!("{}: {ty}", parameter.name),
        })
        .collect();
    row("parameters", parameters.join(", "))?;
    if !variant.constants.is_empty() {
        let constants: Vec<String> = variant
            .constants
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        row("constants", constants.join(", "))?;
    }
    row("block", format!("{} threads", variant.block))?;
    if variant.min_blocks > 0 {
        row(
            "min blocks",
            format!("{} a multiprocessor", variant.min_blocks),
        )?;
    }
    row(
        "shared",
        format!("{} bytes at launch", variant.shared_bytes),
    )?;
    row(
        "needs",
        variant
            .arch_feature
            .map_or_else(|| format!("sm_{} or later", variant.min_arch), Into::into),
    )?;
    let held = image.variant(variant.name);
    let entries = held
        .iter()
        .filter(|entry| arch.is_none_or(|arch| entry.arch == arch));
    for entry in entries {
        let facts = &entry.facts;
        row(
            entry.arch.name(),
            format!(
                "{} registers, {} bytes shared, {} stack, {} spills; {} instructions ({} in the inner loop): \
                 {} CLMAD, {} IMMA, {} LDS, {} LDSM, {} STS, {} LDG, {} STG, {} BAR, {} generic, {} local",
                entry.registers,
                entry.shared_bytes + entry.dynamic_shared,
                entry.stack_bytes,
                entry.spill_bytes,
                facts.instructions,
                facts.inner_loop,
                facts.clmad,
                facts.imma,
                facts.lds,
                facts.ldsm,
                facts.sts,
                facts.ldg,
                facts.stg,
                facts.barriers,
                facts.generic_loads + facts.generic_stores,
                facts.local,
            ),
        )?;
    }
    Ok(())
}

/// The variants that a filter leaves; none is an error.
fn filtered(filter: &str) -> Result<Vec<(&'static Kernel, &'static VariantInfo)>, Failure> {
    let variants = check::variants(filter);
    if variants.is_empty() {
        return Err(Failure::Usage(format!(
            "no variant has `{filter}` in its name: `gristmill kernels list` names them all"
        )));
    }
    Ok(variants)
}

/// Says which backend was taken, and why not the GPU.
fn announce(backend: &Backend, out: &mut Output<'_>) -> Result<(), Failure> {
    let info = backend.info();
    match backend.passed_over() {
        Some(reason) => out.line(format_args!(
            "backend: {} ({}); not the GPU, because {reason}",
            info.kind, info.name
        )),
        None => out.line(format_args!("backend: {} ({})", info.kind, info.name)),
    }
}

/// `kernels check --json`.
#[derive(Serialize)]
struct CheckResults {
    backend: String,
    mode: Option<&'static str>,
    device: String,
    driver: Option<String>,
    commit: &'static str,
    date: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// What a backend promises beside running kernels; empty with a filter.
    promises: Vec<PromiseRow>,
    results: Vec<CheckRow>,
}

#[derive(Serialize)]
struct PromiseRow {
    name: &'static str,
    /// `passed` or `failed`.
    outcome: &'static str,
    reason: Option<String>,
}

#[derive(Serialize)]
struct CheckRow {
    variant: &'static str,
    kernel: &'static str,
    seed: u64,
    /// `passed`, `failed` or `skipped`.
    outcome: &'static str,
    /// SHA-256 of the outputs of a run that passed.
    digest: Option<String>,
    /// Why a run failed or was skipped.
    reason: Option<String>,
}

/// The digests of an earlier run.
struct Earlier {
    backend: String,
    digests: BTreeMap<(String, u64), String>,
}

impl Earlier {
    fn read(path: &Path) -> Result<Self, Failure> {
        #[derive(serde::Deserialize)]
        struct Run {
            backend: String,
            results: Vec<Row>,
        }
        #[derive(serde::Deserialize)]
        struct Row {
            variant: String,
            seed: u64,
            digest: Option<String>,
        }
        let failed = |error: &dyn std::fmt::Display| {
            Failure::Failed(format!("cannot read {}: {error}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let run: Run = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        Ok(Self {
            backend: run.backend,
            digests: run
                .results
                .into_iter()
                .filter_map(|row| Some(((row.variant, row.seed), row.digest?)))
                .collect(),
        })
    }

    /// A run that passed fails if its outputs are not those of the earlier run, or there are none.
    fn compare(&self, report: &mut check::Report) {
        let Outcome::Passed(digest) = &report.outcome else {
            return;
        };
        let digest = digest.to_string();
        let key = (report.variant.name.to_owned(), report.seed);
        let backend = &self.backend;
        match self.digests.get(&key) {
            Some(earlier) if *earlier == digest => {}
            Some(earlier) => {
                report.outcome = Outcome::Failed(format!(
                    "its outputs are not those of {backend}: digest {digest:.16}, there {earlier:.16}"
                ));
            }
            None => {
                report.outcome =
                    Outcome::Failed(format!("the earlier run on {backend} has no digest of it"));
            }
        }
    }
}

fn check(arguments: &CheckArguments, out: &mut Output<'_>) -> Result<(), Failure> {
    if arguments.checked && matches!(arguments.backend, BackendArgument::Cuda) {
        return Err(Failure::Usage(
            "--checked is a mode of the emulator: leave out --backend cuda (or use compute-sanitizer)"
                .into(),
        ));
    }
    let last = arguments
        .seed
        .checked_add(arguments.seeds - 1)
        .ok_or_else(|| {
            Failure::Usage("--seed plus --seeds passes 2^64: use a lower seed".into())
        })?;
    let variants = filtered(&arguments.filter)?;
    let earlier = arguments
        .against
        .as_deref()
        .map(Earlier::read)
        .transpose()?;
    let file = ResultFile::create(arguments.json.as_deref())?;
    out.defer();
    let started = SystemTime::now();
    let clock = Instant::now();
    let backend = if arguments.checked {
        Backend::cpu(Mode::Fast)
    } else {
        arguments.backend.open()?
    };
    announce(&backend, out)?;
    let subject = if arguments.checked {
        Subject::Checked
    } else {
        Subject::Backend(&backend)
    };

    let width = variants
        .iter()
        .map(|(_, variant)| variant.name.len())
        .max()
        .unwrap_or(0);
    let bar = progress(variants.len() * arguments.seeds as usize);
    let promises = if arguments.filter.is_empty() {
        promises(&subject, arguments.seed, out)?
    } else {
        Vec::new()
    };
    let mut rows = Vec::new();
    'all: for (kernel, variant) in variants {
        for seed in arguments.seed..=last {
            bar.set_message(variant.name);
            let mut report = check::run(&subject, kernel, variant, seed);
            if let Some(earlier) = &earlier {
                earlier.compare(&mut report);
            }
            bar.inc(1);
            let (outcome, digest, reason) = match &report.outcome {
                Outcome::Passed(digest) => ("passed", Some(digest.to_string()), None),
                Outcome::Skipped(reason) => ("skipped", None, Some(reason.clone())),
                Outcome::Failed(reason) => ("failed", None, Some(reason.clone())),
            };
            let word = match &report.outcome {
                Outcome::Passed(_) => "ok",
                Outcome::Skipped(_) => "skip",
                Outcome::Failed(_) => "FAIL",
            };
            let text = match &report.outcome {
                Outcome::Passed(digest) => format!("{digest:.16}"),
                Outcome::Skipped(reason) | Outcome::Failed(reason) => reason.clone(),
            };
            bar.suspend(|| {
                out.line(format_args!(
                    "{word:<4}  {:<width$}  seed {seed}  {text}",
                    variant.name
                ))
                .and_then(|()| out.flush())
            })?;
            rows.push(CheckRow {
                variant: variant.name,
                kernel: kernel.name,
                seed,
                outcome,
                digest,
                reason,
            });
            if report.lost {
                break 'all;
            }
        }
    }
    bar.finish_and_clear();

    let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let (passed, failed, skipped) = (count("passed"), count("failed"), count("skipped"));
    let broken = promises
        .iter()
        .filter(|promise| promise.outcome == "failed")
        .count();
    let mode = arguments.checked.then_some("checked");
    out.line(format_args!(
        "{passed} passed, {failed} failed, {skipped} skipped on {}{} ({}) in {:.1} s",
        backend.kind(),
        mode.map_or_else(String::new, |mode| format!(", {mode}")),
        backend.name(),
        clock.elapsed().as_secs_f64()
    ))?;
    out.flush()?;
    let first = rows
        .iter()
        .find(|row| row.outcome == "failed")
        .map(|row| format!("`{}` with seed {}", row.variant, row.seed));
    let runs = rows.len();
    let results = CheckResults {
        backend: backend.kind().to_string(),
        mode,
        device: backend.name().to_owned(),
        driver: backend.info().driver.clone(),
        commit: image::COMMIT,
        date: bench::utc(started),
        passed,
        failed,
        skipped,
        promises,
        results: rows,
    };
    file.write_json(&results)?;
    match first {
        _ if broken > 0 => Err(Failure::Failed(format!(
            "the {} backend breaks {broken} of its promises, and {failed} of {runs} checks failed",
            backend.kind()
        ))),
        Some(first) => Err(Failure::Failed(format!(
            "{failed} of {runs} checks failed, first {first}"
        ))),
        None => out.settle(),
    }
}

/// Tries what the backend promises beside running kernels.
fn promises(
    subject: &Subject<'_>,
    seed: u64,
    out: &mut Output<'_>,
) -> Result<Vec<PromiseRow>, Failure> {
    let checked;
    let backend = match subject {
        Subject::Backend(backend) => *backend,
        Subject::Checked => {
            checked = Backend::cpu(Mode::Checked { seed });
            &checked
        }
    };
    let mut rows = Vec::new();
    for promise in check::suite::PROMISES {
        let reason = (promise.run)(backend).err().map(|error| error.to_string());
        out.line(format_args!(
            "{:<4}  {}  {}",
            if reason.is_none() { "ok" } else { "FAIL" },
            promise.name,
            reason.as_deref().unwrap_or_default()
        ))?;
        out.flush()?;
        rows.push(PromiseRow {
            name: promise.name,
            outcome: if reason.is_none() { "passed" } else { "failed" },
            reason,
        });
    }
    Ok(rows)
}

/// A rate with the prefix that reads best.
fn rate(value: f64, unit: &str) -> String {
    let (scale, prefix) = match value {
        _ if value >= 1e12 => (1e12, "T"),
        _ if value >= 1e9 => (1e9, "G"),
        _ => (1e6, "M"),
    };
    let unit = if unit == "bytes/s" { "B/s" } else { unit };
    format!("{:>8.3} {prefix}{unit}", value / scale)
}

fn bench(arguments: &BenchArguments, out: &mut Output<'_>) -> Result<(), Failure> {
    let variants = filtered(&arguments.filter)?;
    let measures_a_ceiling =
        |kernel: &Kernel| trial::ceilings().any(|(_, trial)| std::ptr::eq(trial.kernel(), kernel));
    let timed: Vec<_> = variants
        .iter()
        .filter(|(kernel, _)| !measures_a_ceiling(kernel))
        .filter_map(|&(kernel, variant)| Some((trial::find(kernel)?, variant)))
        .collect();
    if timed.is_empty() {
        return Err(Failure::Usage(format!(
            "no variant with `{}` in its name is timed: only checks cover them",
            arguments.filter
        )));
    }
    if arguments.json.is_some() && arguments.json == arguments.plot {
        return Err(Failure::Usage(
            "--json and --plot name one file: name two".into(),
        ));
    }
    out.defer();
    let json = ResultFile::create(arguments.json.as_deref())?;
    let plot = ResultFile::create(arguments.plot.as_deref())?;
    let started = SystemTime::now();
    let backend = arguments.backend.open()?;
    announce(&backend, out)?;

    let bar = progress(Ceiling::ALL.len() + timed.len());
    let mut ceilings: BTreeMap<&'static str, Measured> = BTreeMap::new();
    for (ceiling, trial) in trial::ceilings() {
        bar.set_message(ceiling.name());
        let measured = bench::measure_ceiling(&backend, ceiling, trial, arguments.seed)
            .map_err(|error| Failure::Failed(format!("ceiling {}: {error}", ceiling.name())))?;
        bar.inc(1);
        if let Some(measured) = measured {
            bar.suspend(|| {
                out.line(format_args!(
                    "ceiling {:<10} {}",
                    ceiling.name(),
                    rate(measured.value, measured.unit)
                ))
                .and_then(|()| out.flush())
            })?;
            ceilings.insert(ceiling.name(), measured);
        }
    }

    let width = timed
        .iter()
        .map(|(_, variant)| variant.name.len())
        .max()
        .unwrap_or(0);
    let mut results: Vec<Timed> = Vec::new();
    for (trial, variant) in timed {
        bar.set_message(variant.name);
        if let Err(reason) = backend.supports(variant) {
            bar.inc(1);
            note(format_args!("skip {}: {reason}", variant.name));
            continue;
        }
        let cases = bench::measure(&backend, trial, variant, &ceilings, arguments.seed)
            .map_err(|error| Failure::Failed(format!("{}: {error}", variant.name)))?;
        bar.inc(1);
        for case in cases {
            let floor = match (case.floor, case.of_floor) {
                (Some(floor), Some(of_floor)) => {
                    format!("  {:>5.1} % of {floor}", of_floor * 100.0)
                }
                _ => String::new(),
            };
            bar.suspend(|| {
                out.line(format_args!(
                    "{:<width$}  {:<28}  {:>12.3} us  spread {:>5.1} %{floor}",
                    case.variant,
                    case.shape,
                    case.median_ns / 1e3,
                    case.spread * 100.0
                ))
                .and_then(|()| out.flush())
            })?;
            results.push(case);
        }
    }
    bar.finish_and_clear();

    let results = Results {
        backend: backend.kind().to_string(),
        device: backend.name().to_owned(),
        driver: backend.info().driver.clone(),
        commit: image::COMMIT,
        date: bench::utc(started),
        ceilings,
        results,
    };
    json.write_json(&results)?;
    plot.write(&bench::svg(&results).map_err(Failure::Failed)?)?;
    out.settle()
}

fn tune(arguments: TuneArguments, out: &mut Output<'_>) -> Result<(), Failure> {
    let jobs: Vec<_> = trial::families()
        .into_iter()
        .flat_map(|family| family.jobs)
        .filter(|job| job.name.contains(&arguments.filter))
        .collect();
    if jobs.is_empty() {
        return Err(Failure::Usage(format!(
            "no job has `{}` in its name: leave out --filter to see them all",
            arguments.filter
        )));
    }
    let path = arguments.out.or_else(Table::path).ok_or_else(|| {
        Failure::Usage(format!(
            "there is no configuration folder: name a file with --out or {VARIABLE}"
        ))
    })?;
    // A table that cannot be read or written is found before anything is measured.
    Table::update(&path, |_| ()).map_err(Failure::failed)?;
    out.defer();
    let started = SystemTime::now();
    let backend = arguments.backend.open()?;
    announce(&backend, out)?;
    let bar = progress(jobs.len());
    for job in jobs {
        bar.set_message(job.name);
        let timed = tune::tune(&backend, job, arguments.seed)
            .map_err(|error| Failure::Failed(format!("{}: {error}", job.name)))?;
        bar.inc(1);
        let default = job.default_for(backend.info());
        let Some(best) = tune::winner(&timed, default) else {
            note(format_args!(
                "skip {}: none of its variants runs here",
                job.name
            ));
            continue;
        };
        let mark = |candidate: &tune::Candidate| {
            let is = |other: &VariantInfo| candidate.variant.name == other.name;
            match (is(best.variant), default.is_some_and(is)) {
                (true, true) => "  chosen, built-in",
                (true, false) => "  chosen",
                (false, true) => "  built-in",
                (false, false) => "",
            }
        };
        bar.suspend(|| {
            out.line(format_args!("{} ({}), {}", job.name, job.what, best.shape))?;
            for candidate in &timed {
                out.line(format_args!(
                    "  {:<44}  {:>12.3} us  spread {:>5.1} %{}",
                    candidate.variant.name,
                    candidate.sample.median_ns / 1e3,
                    candidate.sample.spread * 100.0,
                    mark(candidate)
                ))?;
            }
            out.flush()
        })?;
        let tuned = Tuned {
            variant: best.variant.name.to_owned(),
            median_ns: best.sample.median_ns,
            shape: best.shape.clone(),
            commit: image::COMMIT.to_owned(),
            date: bench::utc(started),
        };
        Table::update(&path, |table| table.insert(backend.info(), job, tuned))
            .map_err(Failure::failed)?;
    }
    bar.finish_and_clear();
    out.line(format_args!("written to {}", path.display()))?;
    out.settle()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_the_prefix_that_reads_best() {
        assert_eq!(rate(4.53e12, "bytes/s").trim(), "4.530 TB/s");
        assert_eq!(rate(8.15e9, "op/s").trim(), "8.150 Gop/s");
        assert_eq!(rate(12.0, "op/s").trim(), "0.000 Mop/s");
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ntt__4", "ntt__4"), 0);
    }
}
