//! `gristmill pir demo`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Subcommand;

use super::stream::Stream;
use super::{BackendArgument, Failure, Output};
use crate::choice::Table;
use crate::pir::demo::{self, Delimiter, DemoError, FileFormat, Options, Protocol};
use crate::pir::product::Kernels;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Retrieve one record privately: client and server in one process
    ///
    /// The record, and nothing else, goes to stdout; the report goes to stderr.
    Demo(DemoArguments),
}

#[derive(Debug, Default, clap::Args)]
pub(super) struct DemoArguments {
    /// The records: lines of text, CSV or TSV with a header, or binary [default: airports that
    /// this binary carries]
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// What the file is: lines, csv, tsv or binary [default: by its extension]
    #[arg(long)]
    format: Option<FileFormat>,
    /// What separates the fields of a row: one ASCII character or `tab` [default: a comma in CSV, a
    /// tab in TSV]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<Delimiter>,
    /// The column that --key looks in [default: the first one; `iata` for the airports]
    #[arg(long, value_name = "NAME")]
    key_column: Option<String>,
    /// The size of a binary record
    #[arg(long, value_name = "BYTES", value_parser = bytes, allow_negative_numbers = true)]
    record_bytes: Option<usize>,
    /// Which record, from 0
    #[arg(long, conflicts_with = "key", value_parser = index, allow_negative_numbers = true)]
    index: Option<u64>,
    /// Which record, by its key
    #[arg(long)]
    key: Option<String>,
    /// simple, double, onion, exppack-s, exppack-d, double-pack, hybrid or auto
    #[arg(long, default_value = "auto")]
    protocol: Protocol,
    /// Where the server computes
    #[arg(long, default_value = "auto")]
    backend: BackendArgument,
    /// Say how the shape of the database was chosen
    #[arg(long)]
    explain: bool,
    /// Write the report as one JSON object
    #[arg(long)]
    json: bool,
}

fn index(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .map_err(|_| "an index is a whole number, 0 for the first record")
}

fn bytes(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .map_err(|_| "a size is a whole number of bytes")
}

pub(super) fn run(command: Command, out: &mut Output<'_>) -> Result<(), Failure> {
    let Command::Demo(arguments) = command;
    let table = Table::load().map_err(Failure::failed)?;
    let kernels = Kernels::new(arguments.backend.open()?, table);
    let options = Options {
        records: arguments.records,
        format: arguments.format,
        delimiter: arguments.delimiter,
        key_column: arguments.key_column,
        record_bytes: arguments.record_bytes,
        index: arguments.index,
        key: arguments.key,
        protocol: arguments.protocol,
        explain: arguments.explain,
        json: arguments.json,
        progress: std::io::stderr().is_terminal(),
    };
    demo::run(&options, &kernels, out.writer(), &mut Stream::stderr()).map_err(failure)?;
    out.flush()
}

fn failure(error: DemoError) -> Failure {
    match error {
        DemoError::Output(ref cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => {
            Failure::Closed
        }
        _ if error.exit_code() == 2 => Failure::usage(error),
        _ => Failure::failed(error),
    }
}
