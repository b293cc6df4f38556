//! The program `gristmill`.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong arguments; a failure is one line on stderr. Output that cannot
//! be written is a failure; only a reader that goes away (`gristmill kernels list | head -1`) ends the
//! program quietly.

mod info;
mod kernels;
mod output;
mod pir;
mod stream;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum};

use crate::backend::{Backend, Choice};

use output::Output;

/// GPU cryptography with kernels written in Rust.
///
/// Without a command, `gristmill pir demo` runs with its defaults.
#[derive(Debug, Parser)]
#[command(name = "gristmill", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Private information retrieval
    #[command(subcommand)]
    Pir(pir::Command),
    /// List, show, check and time the kernels
    #[command(subcommand)]
    Kernels(kernels::Command),
    /// Show the backends of this machine and the device code of this binary
    Info(info::Arguments),
}

/// `--backend`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum BackendArgument {
    /// The GPU when there is one that this binary has code for, the CPU otherwise
    #[default]
    Auto,
    /// The emulator
    Cpu,
    /// An NVIDIA GPU
    Cuda,
}

impl BackendArgument {
    fn open(self) -> Result<Backend, Failure> {
        Backend::open(match self {
            Self::Auto => Choice::Auto,
            Self::Cpu => Choice::Cpu,
            Self::Cuda => Choice::Cuda,
        })
        .map_err(Failure::failed)
    }
}

/// Why the program does not exit with 0, or stops early.
#[derive(Debug)]
enum Failure {
    /// Wrong arguments: exit code 2.
    Usage(String),
    /// Exit code 1.
    Failed(String),
    /// Whoever read stdout is gone, and so is the reason to go on.
    Closed,
}

impl Failure {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    fn usage(error: impl std::fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }
}

/// Logs to stderr when the environment asks for it: `GRISTMILL_LOG=debug`.
fn log() {
    let level = std::env::var("GRISTMILL_LOG")
        .ok()
        .and_then(|text| text.parse::<tracing::Level>().ok());
    if let Some(level) = level {
        // Another subscriber may be installed already; then that one logs.
        let _ = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .try_init();
    }
}

/// Runs the program with its arguments, the name of the program first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    log();
    let result = parse(arguments).and_then(|cli| match cli {
        Some(cli) => run(cli),
        None => Ok(()),
    });
    let (code, line) = match result {
        Ok(()) | Err(Failure::Closed) => return ExitCode::SUCCESS,
        Err(Failure::Failed(line)) => (1, line),
        Err(Failure::Usage(line)) => (2, line),
    };
    output::error(&line);
    ExitCode::from(code)
}

fn run(cli: Cli) -> Result<(), Failure> {
    let command = cli
        .command
        .unwrap_or_else(|| Command::Pir(pir::Command::Demo(pir::DemoArguments::default())));
    let mut out = Output::stdout()?;
    match command {
        Command::Pir(command) => pir::run(command, &mut out)?,
        Command::Kernels(command) => kernels::run(command, &mut out)?,
        Command::Info(arguments) => info::run(&arguments, &mut out)?,
    }
    out.flush()
}

/// `None` when help or the version was asked for, and printed.
fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Cli>, Failure> {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let text = error.render();
                let mut out = Output::stdout()?;
                out.text(&if std::io::stdout().is_terminal() {
                    text.ansi().to_string()
                } else {
                    text.to_string()
                })?;
                out.flush()?;
                Ok(None)
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Err(Failure::Usage(
                "a command is missing: `gristmill --help` lists them".into(),
            )),
            _ => Err(Failure::Usage(one_line(&error.render().to_string()))),
        },
    }
}

/// clap's message without its usage, in one line.
fn one_line(message: &str) -> String {
    let text = message
        .split("\nUsage:")
        .next()
        .unwrap_or(message)
        .split("\nFor more information")
        .next()
        .unwrap_or(message);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_arguments_are_one_line() {
        for arguments in [
            &["gristmill", "nonsense"][..],
            &["gristmill", "kernels", "check", "--seed", "many"],
            &["gristmill", "kernels", "show"],
            &["gristmill", "info", "--backend"],
            &["gristmill", "kernels", "list", "--arch", "sm_1"],
            &["gristmill", "kernels"],
        ] {
            let failure = parse(arguments.iter().map(OsString::from)).unwrap_err();
            let Failure::Usage(line) = failure else {
                panic!("{arguments:?}: {failure:?}");
            };
            assert!(!line.contains('\n') && line.len() > 20, "{line}");
            assert!(
                !line.contains("Usage") && !line.starts_with("error"),
                "{line}"
            );
        }
    }
}
