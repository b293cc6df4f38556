//! Why a file gives no records.

use std::path::PathBuf;

use super::{FileFormat, Likely};

/// Why a file gives no records.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The path is a folder.
    #[error("cannot read {}: it is a folder, give a file of records", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The file is larger than allowed.
    #[error("{} is larger than the limit of {limit} bytes: split it", path.display())]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The machine has no memory for the file.
    #[error("no memory for the {bytes} bytes of {}: split it", path.display())]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        bytes: u64,
    },
    /// There is no record in the file.
    #[error("{} holds no records: {what}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        what: &'static str,
    },
    /// More records than allowed.
    #[error("{} holds more than {limit} records: split it", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// A record is longer than allowed.
    #[error("{} line {line}: the record is {bytes} bytes long and {limit} are allowed: shorten or split it", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Length of the record.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Neither the extension nor an option says how to read the file.
    #[error("cannot tell the format of {} from its name: say --format lines, csv, tsv or binary", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A binary file whose record size was not given.
    #[error("{} is read as binary: say the size of its records with --record-bytes", path.display())]
    RecordBytesMissing {
        /// The file.
        path: PathBuf,
    },
    /// A record size for a format that has none.
    #[error("--record-bytes goes with binary files, and {} is read as {format}", path.display())]
    RecordBytesUnused {
        /// The file.
        path: PathBuf,
        /// How it is read.
        format: FileFormat,
    },
    /// A delimiter for a format that has none.
    #[error("--delimiter goes with --format csv or tsv, and {} is read as {format}", path.display())]
    DelimiterUnused {
        /// The file.
        path: PathBuf,
        /// How it is read.
        format: FileFormat,
    },
    /// A record size of zero or beyond the limit.
    #[error("a record size of {bytes} bytes is not possible: use 1 to {limit}")]
    RecordBytes {
        /// The size asked for.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A binary file that does not divide into records.
    #[error("{} has {bytes} bytes, which is no multiple of the record size {record_bytes}", path.display())]
    NotAMultiple {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// The record size.
        record_bytes: usize,
    },
    /// Keys were asked of a format without columns.
    #[error("{} is read as {format}, which has no key column: look records up by index", path.display())]
    NoColumns {
        /// The file.
        path: PathBuf,
        /// How it is read.
        format: FileFormat,
    },
    /// No column of that name.
    #[error("{} has no column \"{column}\": it has {known}{likely}", path.display())]
    UnknownColumn {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        column: String,
        /// The names there are.
        known: String,
        /// What else the file looks separated by.
        likely: Likely,
    },
    /// Two columns of that name.
    #[error("{} has more than one column \"{column}\": rename one in its first line", path.display())]
    RepeatedColumn {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        column: String,
    },
    /// A row that is no CSV or has another number of fields than the header.
    #[error("{} line {line}: {message}{likely}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
        /// What else the file looks separated by.
        likely: Likely,
    },
    /// A row without a key.
    #[error("{} line {line}: the key column \"{column}\" is empty: every row needs a key", path.display())]
    KeyEmpty {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The key column.
        column: String,
    },
    /// A key longer than allowed.
    #[error("{} line {line}: the key is {bytes} bytes long and {limit} are allowed", path.display())]
    KeyTooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Length of the key.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Two rows with one key.
    #[error("{} line {line}: the key \"{key}\" is that of line {first_line} too: choose a column without repetitions", path.display())]
    KeyRepeated {
        /// The file.
        path: PathBuf,
        /// The line of the second row, from 1.
        line: u64,
        /// The line of the first row, from 1.
        first_line: u64,
        /// The key.
        key: String,
    },
}
