//! `gristmill pir demo`: one private lookup, with client and server in one process that pass each other
//! nothing but bytes.
//!
//! The record goes to one writer (stdout) and nothing else does: text and CSV end with a line end, a
//! binary record is its bytes. The report goes to another (stderr): lines of text, or with
//! [`Options::json`] one JSON object on one line, the fields of [`Report`].

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::keys::{KeyAbsent, KeyTable};
use super::layout::{Candidate, Layout, LayoutError, LayoutPolicy, RecordShape};
use super::product::{Engine, EngineError};
use super::records::{KeyColumn, Likely, ReadOptions, RecordError, Records};
use super::simple::{
    Answer, Client, ClientError, Database, Hint, Parameters, Query, RecoverError, Server,
    ServerError,
};
use crate::he::lwe::params::{LOG2_MODULUS, LOG2_PLAINTEXT, LweParameters};
use crate::he::sample::{RandomError, fill, secure_rng};
use crate::wire::WireError;

pub use super::records::{Delimiter, FileFormat, UnknownName};

/// The airports that the binary carries; `data/README.md` says where they come from.
const AIRPORTS: &[u8] = include_bytes!("../../../data/airports.csv");
/// Their name in messages, and their key column.
const AIRPORTS_NAME: &str = "airports.csv";
const AIRPORTS_KEY: &str = "iata";

/// A PIR protocol that the command line may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The best of those that are built: `SimplePIR` for now.
    #[default]
    Auto,
    /// `SimplePIR`.
    Simple,
    /// `DoublePIR`: not built yet.
    Double,
    /// `OnionPIR`: not built yet.
    Onion,
    /// `SimplePIR` with ring packing: not built yet.
    ExppackS,
    /// `DoublePIR` with ring packing: not built yet.
    ExppackD,
    /// Double packing: not built yet.
    DoublePack,
    /// The hybrid: not built yet.
    Hybrid,
}

impl Protocol {
    const ALL: [(&'static str, Self); 8] = [
        ("simple", Self::Simple),
        ("double", Self::Double),
        ("onion", Self::Onion),
        ("exppack-s", Self::ExppackS),
        ("exppack-d", Self::ExppackD),
        ("double-pack", Self::DoublePack),
        ("hybrid", Self::Hybrid),
        ("auto", Self::Auto),
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, protocol)| *protocol == self)
            .map_or("", |(name, _)| name)
    }
}

impl FromStr for Protocol {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, protocol)| *protocol)
            .ok_or_else(|| UnknownName {
                what: "protocol",
                given: name.to_owned(),
                known: "simple, double, onion, exppack-s, exppack-d, double-pack, hybrid, auto",
            })
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
    /// `--delimiter C`: what separates the fields of a row; none: a comma in CSV, a tab in TSV.
    pub delimiter: Option<Delimiter>,
    /// `--record-bytes B`: size of a binary record (implies binary where nothing says otherwise).
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
    /// Draw progress on stderr while the hint is computed: set it when stderr is a terminal.
    pub progress: bool,
}

/// Why a demo failed: one line that says what, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Both an index and a key.
    #[error("an index and a key are given: choose one")]
    IndexAndKey,
    /// A protocol of a later step.
    #[error("the protocol {} is not built yet: use simple or auto", .0.name())]
    NotBuilt(Protocol),
    /// The records cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The records have no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The key table would be too wide.
    #[error("the keys of {} are too long for a key table: look records up by index", .0.display())]
    NoKeyTable(PathBuf),
    /// No record has the key.
    #[error("{absent}{likely}")]
    Key {
        /// The key.
        absent: KeyAbsent,
        /// What else the file looks separated by.
        likely: Likely,
    },
    /// The machine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The client cannot ask.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The operating system gave no randomness.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// A message was not read back.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The answer gave no record.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The answer gave another record than the file has.
    #[error("the record that was retrieved is not the one in {}: please report this", path.display())]
    WrongRecord {
        /// The file.
        path: PathBuf,
    },
    /// Standard output or error could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl DemoError {
    /// The exit code of the process: 2 when the arguments contradict each other or ask for what is not
    /// there, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::IndexAndKey
            | Self::NotBuilt(_)
            | Self::Records(
                RecordError::UnknownFormat { .. }
                | RecordError::RecordBytesMissing { .. }
                | RecordError::RecordBytesUnused { .. }
                | RecordError::RecordBytes { .. }
                | RecordError::DelimiterUnused { .. }
                | RecordError::NoColumns { .. },
            ) => 2,
            _ => 1,
        }
    }
}

/// What happened, as `--json` has it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The protocol.
    pub protocol: &'static str,
    /// Where the server computed.
    pub backend: String,
    /// Why that is not a GPU, where it was to be the best there is.
    pub backend_reason: Option<String>,
    /// The file of records.
    pub source: String,
    /// How it was read.
    pub format: String,
    /// The delimiter to try where the file was read as one column and looks like more.
    pub likely_delimiter: Option<Delimiter>,
    /// Number of records.
    pub records: u64,
    /// Length of the longest record, in bytes.
    pub max_record_bytes: u32,
    /// LWE dimension n.
    pub lwe_dimension: usize,
    /// log2 of the modulus q.
    pub log2_modulus: u32,
    /// log2 of the plaintext modulus p.
    pub log2_plaintext: u32,
    /// Standard deviation of the error.
    pub sigma: f64,
    /// Distribution of the secret.
    pub secret: String,
    /// Estimated security in bits.
    pub security_bits: f64,
    /// log2 of a bound on the probability that the record is wrong.
    pub log2_failure: f64,
    /// Height of the database matrix, D1.
    pub rows: u64,
    /// Width of the database matrix, D0.
    pub columns: u64,
    /// Bytes of the database matrix.
    pub database_bytes: u64,
    /// Whole records in a column.
    pub records_per_column: u32,
    /// Columns, and query vectors, of a record.
    pub columns_per_record: u32,
    /// Bytes down once: parameters and hint.
    pub hint_bytes: usize,
    /// Bytes down once for lookup by key, 0 for lookup by index.
    pub key_table_bytes: usize,
    /// Bytes up for the record: the query.
    pub up_bytes: usize,
    /// Bytes down for the record: the answer.
    pub down_bytes: usize,
    /// Index of the record: what the client knows and the server does not.
    pub index: u64,
    /// Bytes of the record.
    pub record_bytes: usize,
    /// Whether the record is the one of the file. Always so: anything else is an error.
    pub correct: bool,
    /// Time of each step, in order.
    pub steps: Vec<Step>,
    /// With `--explain`: how it was to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explanation>,
}

/// One step and its time.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// What was done: read, layout, hint, download, key, query, answer, recover.
    pub name: &'static str,
    /// Who did it: server or client.
    pub side: &'static str,
    /// Nanoseconds it took.
    pub ns: u64,
}

/// Why the lookup was done as it was.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Stages of an answer.
    pub stages: Vec<Stage>,
    /// Queries over which the hint was spread when traffic was weighed.
    pub queries_per_hint: u32,
    /// The kernels that the server took, where it had a choice.
    pub kernels: Vec<Chosen>,
    /// The layouts with the least traffic, the chosen one first.
    pub layouts: Vec<Weighed>,
}

/// A stage of an answer.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// Ciphertexts it takes: query vectors.
    pub ciphertexts: u32,
    /// Bytes that stay close while it runs: the query vectors. The database streams past them.
    pub working_set_bytes: u64,
    /// Bytes of the cache shared by the device, 0 where unknown.
    pub l2_bytes: u64,
    /// How it runs.
    pub choice: &'static str,
}

/// A kernel that was chosen.
#[derive(Clone, Debug, Serialize)]
pub struct Chosen {
    /// What it does.
    pub job: &'static str,
    /// The variant.
    pub variant: &'static str,
    /// Where the choice comes from.
    pub source: String,
}

/// A layout that was weighed.
#[derive(Clone, Debug, Serialize)]
pub struct Weighed {
    /// Height D1.
    pub rows: u64,
    /// Width D0.
    pub columns: u64,
    /// Whole records in a column.
    pub records_per_column: u32,
    /// Columns of a record.
    pub columns_per_record: u32,
    /// Bytes of the hint.
    pub hint_bytes: u64,
    /// Bytes up for a record.
    pub up_bytes: u64,
    /// Bytes down for a record.
    pub down_bytes: u64,
    /// Bytes for a record, with its part of the hint.
    pub cost_bytes: u64,
}

/// Looks one record up, checks it against the file, and writes it to `record` (stdout) and the report to
/// `report` (stderr).
///
/// # Errors
///
/// Any of [`DemoError`]. Nothing is written to `record` then, unless it is the report alone that cannot
/// be written.
pub fn run(
    options: &Options,
    engine: &dyn Engine,
    record: &mut dyn Write,
    report: &mut dyn Write,
) -> Result<Report, DemoError> {
    if options.index.is_some() && options.key.is_some() {
        return Err(DemoError::IndexAndKey);
    }
    if !matches!(options.protocol, Protocol::Auto | Protocol::Simple) {
        return Err(DemoError::NotBuilt(options.protocol));
    }
    let mut clock = Clock::default();
    let records = clock.time("read", "server", || read(options))?;

    let (lwe, policy) = (LweParameters::STANDARD, LayoutPolicy::default());
    let database = clock.time("layout", "server", || {
        Database::build(&records, lwe, &policy)
    })?;
    let layout = *database.parameters().layout();
    // What the client fetches first; a wrong index or key is known before the long part.
    let parameters_bytes = database.parameters().to_bytes();
    let table_bytes = match options.key {
        Some(_) => key_table(&records, &database)?,
        None => Vec::new(),
    };
    let parameters = Parameters::from_bytes(&parameters_bytes)?;
    let index = match (&options.key, options.index) {
        (Some(key), _) => clock.time("lookup", "client", || -> Result<_, DemoError> {
            let table = KeyTable::from_bytes(&table_bytes, &parameters)?;
            let column = records.key_column().map(str::to_owned);
            table.find(key.as_bytes()).map_err(|absent| DemoError::Key {
                absent: KeyAbsent { column, ..absent },
                likely: records.likely_delimiter(),
            })
        })?,
        (None, Some(index)) => index,
        (None, None) => random_below(layout.records())?,
    };
    if index >= layout.records() {
        return Err(ClientError::Index {
            index,
            records: layout.records(),
        }
        .into());
    }

    let server = clock.time("hint", "server", || {
        serve(&database, engine, options.progress)
    })?;
    drop(database);
    let hint_bytes = server.hint().to_bytes();
    let client = clock.time("download", "client", || {
        Hint::from_bytes(&hint_bytes, &parameters)
            .and_then(|hint| Client::new(parameters.clone(), hint))
    })?;
    let key = clock.time("key", "client", || client.key())?;
    let (query, state) = clock.time("query", "client", || {
        key.query(index).map(|(q, s)| (q.to_bytes(), s))
    })?;
    let answer = clock.time("answer", "server", || -> Result<_, ServerError> {
        Ok(server
            .answer(&Query::from_bytes(&query, server.parameters())?)?
            .to_bytes())
    })?;
    let found = clock.time("recover", "client", || -> Result<_, DemoError> {
        Ok(state.recover(&Answer::from_bytes(&answer, client.parameters())?)?)
    })?;

    if records.get(index as usize) != Some(&found[..]) {
        return Err(DemoError::WrongRecord {
            path: records.path().to_owned(),
        });
    }
    let summary = Report {
        protocol: "simple",
        backend: engine.describe(),
        backend_reason: engine.passed_over(),
        source: if options.records.is_some() {
            records.path().display().to_string()
        } else {
            format!("{AIRPORTS_NAME} (built in)")
        },
        format: records.format().to_string(),
        likely_delimiter: records.likely_delimiter().0,
        records: layout.records(),
        max_record_bytes: layout.max_record_bytes(),
        lwe_dimension: lwe.dimension(),
        log2_modulus: LOG2_MODULUS,
        log2_plaintext: LOG2_PLAINTEXT,
        sigma: lwe.sigma(),
        secret: lwe.secret().to_string(),
        security_bits: lwe.security_bits(),
        log2_failure: client.parameters().log2_failure(),
        rows: layout.rows(),
        columns: layout.columns(),
        database_bytes: layout.database_bytes(),
        records_per_column: layout.records_per_column(),
        columns_per_record: layout.columns_per_record(),
        hint_bytes: parameters_bytes.len() + hint_bytes.len(),
        key_table_bytes: table_bytes.len(),
        up_bytes: query.len(),
        down_bytes: answer.len(),
        index,
        record_bytes: found.len(),
        correct: true,
        steps: clock.steps,
        explain: options
            .explain
            .then(|| explain(&records, &layout, &lwe, &policy, engine))
            .transpose()?,
    };
    let mut text = Vec::new();
    if options.json {
        serde_json::to_writer(&mut text, &summary).map_err(std::io::Error::from)?;
        text.push(b'\n');
    } else {
        write_text(&summary, &mut text)?;
    }
    // The report before the record: on a terminal the record then stands last. Where it cannot be
    // written the record still can.
    let reported = report.write_all(&text);
    record.write_all(&found)?;
    if records.format() != FileFormat::Binary {
        record.write_all(b"\n")?;
    }
    record.flush()?;
    reported?;
    Ok(summary)
}

/// Times steps.
#[derive(Default)]
struct Clock {
    steps: Vec<Step>,
}

impl Clock {
    fn time<T>(&mut self, name: &'static str, side: &'static str, step: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = step();
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.steps.push(Step { name, side, ns });
        value
    }
}

fn read(options: &Options) -> Result<Records, RecordError> {
    let mut read = ReadOptions {
        format: options.format,
        record_bytes: options.record_bytes,
        delimiter: options.delimiter,
        keys: match (&options.key_column, &options.key, &options.records) {
            (Some(column), _, _) => KeyColumn::Named(column.clone()),
            (None, Some(_), Some(_)) => KeyColumn::First,
            (None, Some(_), None) => KeyColumn::Named(AIRPORTS_KEY.to_owned()),
            (None, None, _) => KeyColumn::None,
        },
        ..ReadOptions::default()
    };
    if let Some(path) = &options.records {
        Records::read(path, &read)
    } else {
        read.format = options.format.or(Some(FileFormat::Csv));
        Records::from_bytes(Path::new(AIRPORTS_NAME), Cow::Borrowed(AIRPORTS), &read)
    }
}

fn serve(database: &Database, engine: &dyn Engine, progress: bool) -> Result<Server, EngineError> {
    let bar = if progress {
        let style = ProgressStyle::with_template("hint {bar:40} {pos}/{len} columns, {eta} left");
        ProgressBar::new(database.parameters().lwe().dimension() as u64)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    } else {
        ProgressBar::hidden()
    };
    let server = Server::new(database, engine, &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    server
}

/// The message with all keys.
fn key_table(records: &Records, database: &Database) -> Result<Vec<u8>, DemoError> {
    KeyTable::build(records, database.parameters())
        .map(|table| table.to_bytes())
        .ok_or_else(|| DemoError::NoKeyTable(records.path().to_owned()))
}

/// A random index below `records`, within 2^-64 of uniform.
fn random_below(records: u64) -> Result<u64, RandomError> {
    let mut bytes = [0; 16];
    fill(&mut secure_rng()?, &mut bytes);
    let uniform = u128::from_le_bytes(bytes) >> 64;
    Ok(((uniform * u128::from(records)) >> 64) as u64)
}

/// How many of the layouts that were weighed are shown.
const SHOWN: usize = 5;

fn explain(
    records: &Records,
    layout: &Layout,
    lwe: &LweParameters,
    policy: &LayoutPolicy,
    engine: &dyn Engine,
) -> Result<Explanation, LayoutError> {
    let mut candidates = Layout::candidates(&RecordShape::of(records), lwe, policy)?;
    candidates.sort_by(|a, b| {
        let chosen = |c: &Candidate| c.layout != *layout;
        chosen(a).cmp(&chosen(b)).then(a.cost.total_cmp(&b.cost))
    });
    let layouts = candidates.iter().take(SHOWN).map(|candidate| Weighed {
        rows: candidate.layout.rows(),
        columns: candidate.layout.columns(),
        records_per_column: candidate.layout.records_per_column(),
        columns_per_record: candidate.layout.columns_per_record(),
        hint_bytes: candidate.hint_bytes,
        up_bytes: candidate.up_bytes,
        down_bytes: candidate.down_bytes,
        cost_bytes: candidate.cost as u64,
    });
    let stage = Stage {
        name: "scalar fold",
        ciphertexts: layout.columns_per_record(),
        working_set_bytes: layout.up_bytes(),
        l2_bytes: engine.l2_bytes(),
        choice: "operation-level: the fold has no other",
    };
    let columns = [lwe.dimension() as u32, layout.columns_per_record()];
    let kernels = engine.choices(&columns).into_iter().map(|choice| Chosen {
        job: choice.job.what,
        variant: choice.variant.name,
        source: choice.source.to_string(),
    });
    Ok(Explanation {
        kernels: kernels.collect(),
        stages: vec![stage],
        queries_per_hint: policy.queries_per_hint,
        layouts: layouts.collect(),
    })
}

fn write_text(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let mut line = |name: &str, text: String| writeln!(out, "{name:<10} {text}");
    line(
        "records",
        format!(
            "{}, {}: {} of up to {} bytes",
            report.source,
            report.format,
            grouped(report.records),
            grouped(report.max_record_bytes.into())
        ),
    )?;
    if report.likely_delimiter.is_some() {
        line("", format!("one column{}", Likely(report.likely_delimiter)))?;
    }
    line(
        "backend",
        match &report.backend_reason {
            Some(reason) => format!("{}; not the GPU, because {reason}", report.backend),
            None => report.backend.clone(),
        },
    )?;
    line(
        "protocol",
        format!(
            "SimplePIR: n = {}, q = 2^{}, p = 2^{}, sigma = {}, {} secret",
            report.lwe_dimension,
            report.log2_modulus,
            report.log2_plaintext,
            report.sigma,
            report.secret
        ),
    )?;
    line(
        "security",
        format!(
            "{} bits; the record is wrong with probability below 2^{:.0}",
            report.security_bits,
            report.log2_failure.ceil()
        ),
    )?;
    let shared = match (report.records_per_column, report.columns_per_record) {
        (1, 1) => "a record a column".to_owned(),
        (records, 1) => format!("{records} records a column"),
        (_, columns) => format!("{columns} columns a record"),
    };
    line(
        "database",
        format!(
            "{} rows x {} columns, {} bytes, {shared}",
            grouped(report.rows),
            grouped(report.columns),
            grouped(report.database_bytes)
        ),
    )?;
    let times = report.hint_bytes as f64 / report.database_bytes.max(1) as f64;
    line(
        "once down",
        format!(
            "{} bytes of hint, {times:.1} times the database; it serves any number of queries",
            grouped(report.hint_bytes as u64)
        ),
    )?;
    if report.key_table_bytes > 0 {
        line(
            "",
            format!("{} bytes of keys", grouped(report.key_table_bytes as u64)),
        )?;
    }
    line("up", format!("{} bytes", grouped(report.up_bytes as u64)))?;
    line(
        "down",
        format!("{} bytes", grouped(report.down_bytes as u64)),
    )?;
    for step in &report.steps {
        line(
            "time",
            format!(
                "{:<9} {:<7} {:>12}",
                step.name,
                step.side,
                milliseconds(step.ns)
            ),
        )?;
    }
    if let Some(explanation) = &report.explain {
        for stage in &explanation.stages {
            line(
                "stage",
                format!(
                    "{}: {} ciphertexts, working set {} bytes, L2 {} bytes, {}",
                    stage.name,
                    stage.ciphertexts,
                    grouped(stage.working_set_bytes),
                    grouped(stage.l2_bytes),
                    stage.choice
                ),
            )?;
        }
        for kernel in &explanation.kernels {
            line(
                "kernel",
                format!("{}: {} ({})", kernel.job, kernel.variant, kernel.source),
            )?;
        }
        for (at, layout) in explanation.layouts.iter().enumerate() {
            line(
                if at == 0 { "chosen" } else { "instead of" },
                format!(
                    "{} x {}: hint {}, up {}, down {}: {} bytes a record at {} queries a hint",
                    grouped(layout.rows),
                    grouped(layout.columns),
                    grouped(layout.hint_bytes),
                    grouped(layout.up_bytes),
                    grouped(layout.down_bytes),
                    grouped(layout.cost_bytes),
                    explanation.queries_per_hint
                ),
            )?;
        }
    }
    line(
        "record",
        format!(
            "{}, {} bytes, equal to the one in the file",
            grouped(report.index),
            grouped(report.record_bytes as u64)
        ),
    )
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", Duration::from_nanos(ns).as_secs_f64() * 1e3)
}

/// A number with a comma before every third digit.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pir::product::reference::Reference;
    use std::fs;

    fn demo(options: &Options) -> Result<(Vec<u8>, String, Report), DemoError> {
        let (mut record, mut report) = (Vec::new(), Vec::new());
        let summary = run(options, &Reference, &mut record, &mut report)?;
        Ok((record, String::from_utf8(report).unwrap(), summary))
    }

    fn file(name: &str, data: &[u8]) -> (tempfile::TempDir, Options) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, data).unwrap();
        (
            folder,
            Options {
                records: Some(path),
                ..Options::default()
            },
        )
    }

    #[test]
    fn the_airports_are_read_whole() {
        let records = read(&Options {
            key: Some("ZRH".to_owned()),
            ..Options::default()
        })
        .unwrap();
        assert_eq!(records.len(), 7884);
        assert_eq!(records.key_column(), Some("iata"));
        assert_eq!(records.longest(), 171);
        // Header, a line end a row, and the rows make the file.
        let header = AIRPORTS.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        assert_eq!(
            records.total_bytes() as usize + records.len() + header,
            AIRPORTS.len()
        );
    }

    #[test]
    fn the_record_and_nothing_else_goes_to_the_first_writer() {
        let (_folder, options) = file("a.txt", b"one\ntwo\nthree\n");
        let (record, report, summary) = demo(&Options {
            index: Some(2),
            ..options
        })
        .unwrap();
        assert_eq!(record, b"three\n");
        assert_eq!(
            (summary.index, summary.record_bytes, summary.correct),
            (2, 5, true)
        );
        for name in [
            "backend",
            "security",
            "database",
            "once down",
            "up ",
            "down ",
            "time ",
        ] {
            assert!(report.contains(&format!("\n{name}")), "{name} in {report}");
        }
    }

    #[test]
    fn binary_records_come_as_they_are() {
        let (_folder, options) = file("a.bin", &[1, 2, 0, 255]);
        let options = Options {
            index: Some(1),
            record_bytes: Some(2),
            ..options
        };
        assert_eq!(demo(&options).unwrap().0, [0, 255]);
    }

    #[test]
    fn without_an_index_some_record_comes() {
        let (_folder, options) = file("a.txt", b"x\nx\nx\n");
        assert_eq!(demo(&options).unwrap().0, b"x\n");
    }

    #[test]
    fn keys_are_those_of_the_first_column_or_the_one_named() {
        let (_folder, options) = file("a.csv", b"id,name\n1,a\n2,b\n");
        let by_id = Options {
            key: Some("2".to_owned()),
            ..options.clone()
        };
        let (record, report, _) = demo(&by_id).unwrap();
        assert_eq!(record, b"2,b\n");
        assert!(report.contains("bytes of keys"));
        let by_name = Options {
            key: Some("a".to_owned()),
            key_column: Some("name".to_owned()),
            ..options
        };
        assert_eq!(demo(&by_name).unwrap().0, b"1,a\n");
    }

    #[test]
    fn json_is_one_object_with_the_sizes_sent() {
        let (_folder, options) = file("a.txt", b"one\ntwo\nthree\n");
        let (_, report, summary) = demo(&Options {
            index: Some(0),
            json: true,
            explain: true,
            ..options
        })
        .unwrap();
        let json: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report.lines().count(), 1);
        assert_eq!(json["up_bytes"], summary.up_bytes);
        assert_eq!(json["records"], 3);
        assert_eq!(json["correct"], true);
        let steps: Vec<_> = json["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            steps,
            [
                "read", "layout", "hint", "download", "key", "query", "answer", "recover"
            ]
        );
        assert_eq!(json["explain"]["layouts"][0]["rows"], json["rows"]);
        let (_folder, options) = file("a.txt", b"one\n");
        assert!(
            !demo(&Options {
                json: true,
                ..options
            })
            .unwrap()
            .1
            .contains("explain")
        );
    }

    #[test]
    fn explain_shows_the_chosen_layout_first() {
        let (_folder, options) = file("a.txt", "some text\n".repeat(300).as_bytes());
        let (_, report, summary) = demo(&Options {
            explain: true,
            ..options
        })
        .unwrap();
        let chosen = report
            .lines()
            .find(|line| line.starts_with("chosen"))
            .unwrap();
        assert!(
            chosen.contains(&format!(" {} x {}:", summary.rows, summary.columns)),
            "{chosen}"
        );
        assert!(report.contains("scalar fold"));
    }

    /// One line each, the exit code, and nothing on the first writer.
    #[test]
    fn bad_requests_are_refused_in_one_line() {
        let (_folder, text) = file("a.txt", b"one\ntwo\n");
        let (_other, csv) = file("a.csv", b"id,name\n1,a\n2,a\n");
        let key = |options: &Options, key: &str| Options {
            key: Some(key.to_owned()),
            ..options.clone()
        };
        let path = csv.records.clone().unwrap().display().to_string();
        let cases = [
            (
                Options {
                    index: Some(2),
                    ..text.clone()
                },
                1,
                "index 2 is past the end: the database has 2 records, 0 to 1".to_owned(),
            ),
            (
                Options {
                    index: Some(0),
                    ..key(&csv, "1")
                },
                2,
                "an index and a key are given: choose one".to_owned(),
            ),
            (
                Options {
                    protocol: Protocol::Hybrid,
                    ..text.clone()
                },
                2,
                "the protocol hybrid is not built yet: use simple or auto".to_owned(),
            ),
            (
                key(&csv, "3"),
                1,
                "no record has the key \"3\" in the column \"id\"".to_owned(),
            ),
            (
                Options {
                    key_column: Some("name".to_owned()),
                    ..key(&csv, "a")
                },
                1,
                format!(
                    "{path} line 3: the key \"a\" is that of line 2 too: choose a column without repetitions"
                ),
            ),
            (
                key(&text, "one"),
                2,
                format!(
                    "{} is read as lines, which has no key column: look records up by index",
                    text.records.clone().unwrap().display()
                ),
            ),
        ];
        for (options, code, expected) in cases {
            let (mut record, mut report) = (Vec::new(), Vec::new());
            let error = run(&options, &Reference, &mut record, &mut report).unwrap_err();
            assert_eq!((error.exit_code(), error.to_string()), (code, expected));
            assert!(record.is_empty() && report.is_empty());
        }
    }

    #[test]
    fn protocols_have_names() {
        for (name, protocol) in Protocol::ALL {
            assert_eq!((name.parse(), protocol.name()), (Ok(protocol), name));
        }
        assert_eq!(
            "fast".parse::<Protocol>().unwrap_err().to_string(),
            "unknown protocol \"fast\": use one of simple, double, onion, exppack-s, exppack-d, double-pack, hybrid, auto"
        );
    }

    #[test]
    fn a_wrong_record_is_an_error() {
        struct Wrong;
        impl Engine for Wrong {
            fn describe(&self) -> String {
                "wrong".to_owned()
            }
            fn l2_bytes(&self) -> u64 {
                0
            }
            fn load(
                &self,
                database: &crate::pir::layout::ByteMatrix,
            ) -> Result<Box<dyn crate::pir::product::Product>, EngineError> {
                // The database of another file.
                Reference.load(&database.clone().with_entry(0, 1))
            }
        }
        let (_folder, options) = file("a.bin", &[3, 4]);
        let options = Options {
            index: Some(0),
            record_bytes: Some(1),
            ..options
        };
        let (mut record, mut report) = (Vec::new(), Vec::new());
        let error = run(&options, &Wrong, &mut record, &mut report).unwrap_err();
        assert!(
            matches!(error, DemoError::WrongRecord { .. }) && record.is_empty(),
            "{error}"
        );
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 12, 999, 1000, 1234567].map(grouped),
            ["0", "12", "999", "1,000", "1,234,567"]
        );
    }
}
