//! `gristmill pir demo`: one private lookup, client and server in one process.
//! (Interface only, so that the command line can be wired; the body follows.)

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

/// A PIR protocol that the command line may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The best of those that are built: SimplePIR for now.
    #[default]
    Auto,
    /// SimplePIR.
    Simple,
    /// DoublePIR (not built yet).
    Double,
    /// OnionPIR (not built yet).
    Onion,
    /// SimplePIR with ring packing (not built yet).
    ExppackS,
    /// DoublePIR with ring packing (not built yet).
    ExppackD,
    /// Double packing (not built yet).
    DoublePack,
    /// The hybrid (not built yet).
    Hybrid,
}

/// The shape of a record file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// One record a line.
    Lines,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// Records of one fixed size.
    Binary,
}

/// A name that is no [`Protocol`] or [`FileFormat`]; its text lists those there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{given}\": use one of {known}")]
pub struct UnknownName {
    what: &'static str,
    given: String,
    known: &'static str,
}

impl FromStr for Protocol {
    type Err = UnknownName;
    fn from_str(_: &str) -> Result<Self, UnknownName> {
        Ok(Self::Auto)
    }
}

impl FromStr for FileFormat {
    type Err = UnknownName;
    fn from_str(_: &str) -> Result<Self, UnknownName> {
        Ok(Self::Lines)
    }
}

/// What `pir demo` is asked to do. `Options::default()` takes a random record of the airports that
/// the binary carries.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--records FILE`; none: the airports that the binary carries.
    pub records: Option<PathBuf>,
    /// `--format lines|csv|tsv|binary`; none: inferred from the extension.
    pub format: Option<FileFormat>,
    /// `--key-column NAME`; none: `iata` in the airports, else the first column.
    pub key_column: Option<String>,
    /// `--record-bytes B`: size of a binary record (implies binary where the format is not given).
    pub record_bytes: Option<usize>,
    /// `--index I`, from 0. Not with a key.
    pub index: Option<u64>,
    /// `--key K`. Not with an index.
    pub key: Option<String>,
    /// `--protocol P`.
    pub protocol: Protocol,
    /// `--explain`: say in the report how the shape was chosen.
    pub explain: bool,
    /// `--json`: the report is one JSON object on one line instead of text.
    pub json: bool,
    /// Draw progress while the hint is computed: set it when stderr is a terminal.
    pub progress: bool,
}

/// Why a demo failed: one line that says what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Standard output or error could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl DemoError {
    /// The exit code of the process: 2 when the arguments contradict each other or name what is not
    /// there, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        1
    }
}

/// A machine that can hold a database and multiply it: implemented for `crate::backend::Backend`.
pub trait Engine {}

/// Looks one record up and writes it to `record` (stdout), and the report to `report` (stderr).
///
/// # Errors
///
/// Any of [`DemoError`].
pub fn run(_options: &Options, _engine: &dyn Engine, _record: &mut dyn Write, _report: &mut dyn Write) -> Result<(), DemoError> {
    Ok(())
}
