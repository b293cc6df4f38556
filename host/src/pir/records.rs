//! Records from a file: lines of text, CSV with an optional key column, or binary of a fixed size.
//!
//! A record is the very bytes of the file: a line without its end, a CSV row as it is written there,
//! or one fixed-size piece. Limits are checked before memory is taken for what they limit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

mod delimiter;

pub use delimiter::{BadDelimiter, Delimiter, Likely};

/// The shape of a record file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// One record a line, without its line end. An empty line is an empty record.
    Lines,
    /// Comma-separated values, or separated by a [`Delimiter`] of choice: a header line, then one record a row, as written there.
    Csv,
    /// Tab-separated values, like CSV.
    Tsv,
    /// Records of one fixed size, one after the other.
    Binary,
}

impl FileFormat {
    const KNOWN: &'static str = "lines, csv, tsv, binary";

    /// The format that the extension of `path` stands for: `txt`, `text`, `lst`, `log` and `lines` for
    /// lines of text, `csv`, `tsv` and `tab`, `bin`, `dat` and `raw` for binary.
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "txt" | "text" | "lst" | "log" | "lines" => Self::Lines,
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "bin" | "dat" | "raw" => Self::Binary,
            _ => return None,
        })
    }

    fn delimiter(self) -> Option<Delimiter> {
        match self {
            Self::Csv => Some(Delimiter::COMMA),
            Self::Tsv => Some(Delimiter::TAB),
            Self::Lines | Self::Binary => None,
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lines => "lines",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Binary => "binary",
        })
    }
}

/// A name that stands for nothing here; its text lists the names that do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{given}\": use one of {known}")]
pub struct UnknownName {
    /// What was to be named.
    pub what: &'static str,
    /// The name given.
    pub given: String,
    /// The names there are.
    pub known: &'static str,
}

impl FromStr for FileFormat {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "lines" => Ok(Self::Lines),
            "csv" => Ok(Self::Csv),
            "tsv" => Ok(Self::Tsv),
            "binary" => Ok(Self::Binary),
            _ => Err(UnknownName {
                what: "record format",
                given: name.to_owned(),
                known: Self::KNOWN,
            }),
        }
    }
}

/// What is accepted from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Records in it.
    pub records: usize,
    /// Bytes of one record.
    pub record_bytes: usize,
    /// Bytes of one key.
    pub key_bytes: usize,
}

impl Default for RecordLimits {
    /// 4 GiB, 2^27 records of up to 1 MiB, keys of up to 1 KiB.
    fn default() -> Self {
        Self {
            file_bytes: 4 << 30,
            records: 1 << 27,
            record_bytes: 1 << 20,
            key_bytes: 1 << 10,
        }
    }
}

/// How to read a file.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; none: by [`FileFormat::of_path`].
    pub format: Option<FileFormat>,
    /// Bytes of a binary record. Given without a format it means binary.
    pub record_bytes: Option<usize>,
    /// What separates the fields of a row; none: the delimiter of the format. Given without a format
    /// it means CSV.
    pub delimiter: Option<Delimiter>,
    /// Whether to read keys, and from which column of a CSV.
    pub keys: KeyColumn,
    /// Limits.
    pub limits: RecordLimits,
}

/// Where keys come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyColumn {
    /// Read no keys: records are found by index.
    #[default]
    None,
    /// The first column of a CSV.
    First,
    /// The column of this name.
    Named(String),
}

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

/// Where each record lies in the data.
#[derive(Clone, Debug)]
enum Extents {
    /// Pieces of one size.
    Fixed(usize),
    /// Start and end of each.
    Listed(Vec<(u64, u64)>),
}

/// The keys of all records, in their order.
#[derive(Clone, Debug, Default)]
struct Keys {
    column: String,
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

/// A file of records, in memory.
#[derive(Clone, Debug)]
pub struct Records {
    path: PathBuf,
    format: FileFormat,
    delimiter: Option<Delimiter>,
    data: Cow<'static, [u8]>,
    extents: Extents,
    keys: Option<Keys>,
    longest: usize,
}

impl Records {
    /// Reads the records of a file.
    ///
    /// # Errors
    ///
    /// Any of [`RecordError`], naming the file and the line.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Self, RecordError> {
        // The format first: a file that cannot be used need not be read.
        let format = choose_format(path, options)?;
        let data = read_file(path, options.limits.file_bytes)?;
        Self::parse(path, format, Cow::Owned(data), options)
    }

    /// Records of bytes that are in memory already; `name` stands for them in messages and gives the
    /// format where `options` do not.
    ///
    /// # Errors
    ///
    /// Any of [`RecordError`].
    pub fn from_bytes(
        name: &Path,
        data: impl Into<Cow<'static, [u8]>>,
        options: &ReadOptions,
    ) -> Result<Self, RecordError> {
        let (format, data) = (choose_format(name, options)?, data.into());
        if data.len() as u64 > options.limits.file_bytes {
            return Err(RecordError::FileTooLarge {
                path: name.to_owned(),
                limit: options.limits.file_bytes,
            });
        }
        Self::parse(name, format, data, options)
    }

    fn parse(
        path: &Path,
        format: FileFormat,
        data: Cow<'static, [u8]>,
        options: &ReadOptions,
    ) -> Result<Self, RecordError> {
        if data.is_empty() {
            return Err(RecordError::Empty {
                path: path.to_owned(),
                what: "it is empty",
            });
        }
        let limits = &options.limits;
        let delimiter = options.delimiter.or(format.delimiter());
        let mut keys = None;
        let extents = match format {
            FileFormat::Lines => lines(path, &data, limits)?,
            FileFormat::Binary => {
                let bytes =
                    options
                        .record_bytes
                        .ok_or_else(|| RecordError::RecordBytesMissing {
                            path: path.to_owned(),
                        })?;
                binary(path, &data, bytes, limits)?
            }
            FileFormat::Csv | FileFormat::Tsv => {
                let (extents, found) = rows(
                    path,
                    delimiter.unwrap_or(Delimiter::COMMA),
                    &data,
                    &options.keys,
                    limits,
                )?;
                keys = found;
                extents
            }
        };
        let mut records = Self {
            path: path.to_owned(),
            format,
            delimiter,
            data,
            extents,
            keys,
            longest: 0,
        };
        records.longest = records.iter().map(<[u8]>::len).max().unwrap_or(0);
        Ok(records)
    }

    /// The file, or the name given for it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the file was read.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// What the file looks separated by where it does not look separated by what it was read with.
    pub fn likely_delimiter(&self) -> Likely {
        self.delimiter
            .map_or(Likely(None), |delimiter| delimiter.other(&self.data))
    }

    /// Number of records, at least 1.
    pub fn len(&self) -> usize {
        match &self.extents {
            Extents::Fixed(size) => self.data.len() / size,
            Extents::Listed(list) => list.len(),
        }
    }

    /// Never: a file without records is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of the longest record, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes of all records together.
    pub fn total_bytes(&self) -> u64 {
        match &self.extents {
            Extents::Fixed(_) => self.data.len() as u64,
            Extents::Listed(list) => list.iter().map(|(start, end)| end - start).sum(),
        }
    }

    /// Whether all records have one length.
    pub fn of_one_length(&self) -> bool {
        self.iter().all(|record| record.len() == self.longest)
    }

    /// Record `index`, from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let range = match &self.extents {
            Extents::Fixed(size) => {
                index.checked_mul(*size)?..index.checked_add(1)?.checked_mul(*size)?
            }
            Extents::Listed(list) => list
                .get(index)
                .map(|&(start, end)| start as usize..end as usize)?,
        };
        self.data.get(range)
    }

    /// All records in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// The key column, where keys were read.
    pub fn key_column(&self) -> Option<&str> {
        self.keys.as_ref().map(|keys| keys.column.as_str())
    }

    /// The keys in the order of the records, where keys were read. None is empty and none repeated.
    pub fn keys(&self) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        self.keys
            .as_ref()
            .map(|keys| (0..keys.ends.len()).map(|index| &keys.bytes[keys.range(index)]))
    }
}

impl Keys {
    fn range(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start as usize..self.ends[index] as usize
    }
}

fn choose_format(path: &Path, options: &ReadOptions) -> Result<FileFormat, RecordError> {
    let inferred = || FileFormat::of_path(path);
    let format = match (options.format, options.record_bytes) {
        (Some(format), _) => format,
        (None, Some(_)) => match inferred() {
            // A size given for a text file is a mistake to be told, not a reason to read it otherwise.
            Some(text) => text,
            None => FileFormat::Binary,
        },
        (None, None) => inferred()
            .or(options.delimiter.map(|_| FileFormat::Csv))
            .ok_or_else(|| RecordError::UnknownFormat {
                path: path.to_owned(),
            })?,
    };
    if format != FileFormat::Binary && options.record_bytes.is_some() {
        return Err(RecordError::RecordBytesUnused {
            path: path.to_owned(),
            format,
        });
    }
    if format.delimiter().is_none() && options.delimiter.is_some() {
        return Err(RecordError::DelimiterUnused {
            path: path.to_owned(),
            format,
        });
    }
    if format.delimiter().is_none() && options.keys != KeyColumn::None {
        return Err(RecordError::NoColumns {
            path: path.to_owned(),
            format,
        });
    }
    Ok(format)
}

fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, RecordError> {
    let wrap = |source| RecordError::Read {
        path: path.to_owned(),
        source,
    };
    let too_large = || RecordError::FileTooLarge {
        path: path.to_owned(),
        limit,
    };
    let file = File::open(path).map_err(wrap)?;
    let metadata = file.metadata().map_err(wrap)?;
    if metadata.is_dir() {
        return Err(RecordError::Folder {
            path: path.to_owned(),
        });
    }
    // A pipe says 0 here: its length shows as it is read.
    let expected = metadata.len();
    if expected > limit {
        return Err(too_large());
    }
    let mut data = Vec::new();
    data.try_reserve_exact(expected as usize)
        .map_err(|_| RecordError::OutOfMemory {
            path: path.to_owned(),
            bytes: expected,
        })?;
    file.take(limit.saturating_add(1))
        .read_to_end(&mut data)
        .map_err(wrap)?;
    if data.len() as u64 > limit {
        return Err(too_large());
    }
    Ok(data)
}

/// Notes one record, within the limits.
fn push(
    list: &mut Vec<(u64, u64)>,
    record: Range<usize>,
    path: &Path,
    line: u64,
    limits: &RecordLimits,
) -> Result<(), RecordError> {
    if record.len() > limits.record_bytes {
        return Err(RecordError::TooLong {
            path: path.to_owned(),
            line,
            bytes: record.len(),
            limit: limits.record_bytes,
        });
    }
    if list.len() >= limits.records {
        return Err(RecordError::TooMany {
            path: path.to_owned(),
            limit: limits.records,
        });
    }
    list.push((record.start as u64, record.end as u64));
    Ok(())
}

fn lines(path: &Path, data: &[u8], limits: &RecordLimits) -> Result<Extents, RecordError> {
    let mut list = Vec::new();
    let mut start = 0;
    while start < data.len() {
        let length = data[start..].iter().position(|&byte| byte == b'\n');
        let next = length.map_or(data.len(), |length| start + length + 1);
        let mut end = length.map_or(data.len(), |length| start + length);
        if data[start..end].ends_with(b"\r") {
            end -= 1;
        }
        let line = list.len() as u64 + 1;
        push(&mut list, start..end, path, line, limits)?;
        start = next;
    }
    Ok(Extents::Listed(list))
}

fn binary(
    path: &Path,
    data: &[u8],
    record_bytes: usize,
    limits: &RecordLimits,
) -> Result<Extents, RecordError> {
    if record_bytes == 0 || record_bytes > limits.record_bytes {
        return Err(RecordError::RecordBytes {
            bytes: record_bytes,
            limit: limits.record_bytes,
        });
    }
    if !data.len().is_multiple_of(record_bytes) {
        return Err(RecordError::NotAMultiple {
            path: path.to_owned(),
            bytes: data.len(),
            record_bytes,
        });
    }
    if data.len() / record_bytes > limits.records {
        return Err(RecordError::TooMany {
            path: path.to_owned(),
            limit: limits.records,
        });
    }
    Ok(Extents::Fixed(record_bytes))
}

fn rows(
    path: &Path,
    delimiter: Delimiter,
    data: &[u8],
    key_column: &KeyColumn,
    limits: &RecordLimits,
) -> Result<(Extents, Option<Keys>), RecordError> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter.byte())
        .has_headers(true)
        .from_reader(data);
    let row_error = |error: &csv::Error, fallback: u64| {
        let line = error.position().map_or(fallback, csv::Position::line);
        let message = match error.kind() {
            csv::ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => {
                format!("the row has {len} fields and the header {expected_len}")
            }
            _ => error.to_string(),
        };
        RecordError::Row {
            path: path.to_owned(),
            line,
            message,
            likely: delimiter.other(data),
        }
    };
    let header = reader.byte_headers().map_err(|e| row_error(&e, 1))?.clone();
    let likely = || delimiter.other(data);
    let key_field = key_field(path, &header, key_column, likely)?;
    let mut keys = key_field.map(|field| Keys {
        column: text(&header[field]),
        ..Keys::default()
    });
    // Line of each row, for the message about a repeated key.
    let mut lines = Vec::new();
    let mut list = Vec::new();
    let mut row = csv::ByteRecord::new();
    while reader
        .read_byte_record(&mut row)
        .map_err(|e| row_error(&e, 0))?
    {
        let start = row.position().map_or(0, |p| p.byte() as usize);
        let end = reader.position().byte() as usize;
        let (range, skipped) = trim(data, start..end);
        let line = row.position().map_or(0, csv::Position::line) + skipped;
        push(&mut list, range, path, line, limits)?;
        if let (Some(field), Some(keys)) = (key_field, &mut keys) {
            // Rows of another length than the header are refused by the reader.
            let key = row.get(field).unwrap_or_default();
            if key.is_empty() {
                return Err(RecordError::KeyEmpty {
                    path: path.to_owned(),
                    line,
                    column: keys.column.clone(),
                });
            }
            if key.len() > limits.key_bytes {
                let (bytes, limit) = (key.len(), limits.key_bytes);
                return Err(RecordError::KeyTooLong {
                    path: path.to_owned(),
                    line,
                    bytes,
                    limit,
                });
            }
            keys.bytes.extend_from_slice(key);
            keys.ends.push(keys.bytes.len() as u64);
            lines.push(line);
        }
    }
    if list.is_empty() {
        return Err(RecordError::Empty {
            path: path.to_owned(),
            what: "it has a header line and no rows",
        });
    }
    if let Some(keys) = &keys {
        let mut seen = HashMap::with_capacity(list.len());
        for (index, &line) in lines.iter().enumerate() {
            let key = &keys.bytes[keys.range(index)];
            if let Some(first_line) = seen.insert(key, line) {
                return Err(RecordError::KeyRepeated {
                    path: path.to_owned(),
                    line,
                    first_line,
                    key: text(key),
                });
            }
        }
    }
    Ok((Extents::Listed(list), keys))
}

fn key_field(
    path: &Path,
    header: &csv::ByteRecord,
    column: &KeyColumn,
    likely: impl Fn() -> Likely,
) -> Result<Option<usize>, RecordError> {
    let name = match column {
        KeyColumn::None => return Ok(None),
        KeyColumn::First => return Ok((!header.is_empty()).then_some(0)),
        KeyColumn::Named(name) => name,
    };
    let mut fields = header
        .iter()
        .enumerate()
        .filter(|(_, field)| *field == name.as_bytes());
    match (fields.next(), fields.next()) {
        (Some((field, _)), None) => Ok(Some(field)),
        (Some(_), Some(_)) => Err(RecordError::RepeatedColumn {
            path: path.to_owned(),
            column: name.clone(),
        }),
        (None, _) => Err(RecordError::UnknownColumn {
            path: path.to_owned(),
            column: name.clone(),
            known: header.iter().map(text).collect::<Vec<_>>().join(", "),
            likely: likely(),
        }),
    }
}

/// Takes line ends off both sides (the reader counts empty lines before a row as part of it), and says
/// how many lines were before the row.
fn trim(data: &[u8], range: Range<usize>) -> (Range<usize>, u64) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let row = &data[range.clone()];
    let front = row.iter().take_while(|byte| is_end(byte)).count();
    let back = row[front..]
        .iter()
        .rev()
        .take_while(|byte| is_end(byte))
        .count();
    let lines = (0..front).filter(|&at| row[at] == b'\n').count();
    (range.start + front..range.end - back, lines as u64)
}

/// Bytes of a file for a message: one line, and not too long.
fn text(bytes: &[u8]) -> String {
    const LONGEST: usize = 80;
    let mut text: String = String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn parse(name: &str, data: &[u8], options: &ReadOptions) -> Result<Records, RecordError> {
        Records::from_bytes(Path::new(name), data.to_vec(), options)
    }

    fn all(records: &Records) -> Vec<&[u8]> {
        records.iter().collect()
    }

    fn keyed(column: &str) -> ReadOptions {
        ReadOptions {
            keys: KeyColumn::Named(column.to_owned()),
            ..ReadOptions::default()
        }
    }

    fn sized(bytes: usize) -> ReadOptions {
        ReadOptions {
            record_bytes: Some(bytes),
            ..ReadOptions::default()
        }
    }

    #[test]
    fn lines_keep_their_bytes_and_lose_their_ends() {
        let records = parse(
            "a.txt",
            b"one\r\n\ntwo \xff\r\nthree",
            &ReadOptions::default(),
        )
        .unwrap();
        assert_eq!(all(&records), [&b"one"[..], b"", b"two \xff", b"three"]);
        assert_eq!(
            (records.len(), records.longest(), records.total_bytes()),
            (4, 5, 13)
        );
        assert_eq!(records.get(4), None);
        assert!(!records.of_one_length());
        // A last line end is no empty record; one lone empty line is a record.
        assert_eq!(
            parse("a.txt", b"x\n", &ReadOptions::default())
                .unwrap()
                .len(),
            1
        );
        assert_eq!(
            all(&parse("a.txt", b"\n", &ReadOptions::default()).unwrap()),
            [b""]
        );
    }

    #[test]
    fn csv_rows_are_the_bytes_of_the_file() {
        let data = b"id,name\r\n1,\"a,\"\"b\"\r\n\r\n\n2,\"two\nlines\"\n3,c";
        let records = parse("a.csv", data, &keyed("id")).unwrap();
        assert_eq!(
            all(&records),
            [&b"1,\"a,\"\"b\""[..], b"2,\"two\nlines\"", b"3,c"]
        );
        assert_eq!(
            records.keys().unwrap().collect::<Vec<_>>(),
            [b"1", b"2", b"3"]
        );
        assert_eq!(records.key_column(), Some("id"));
        let by_name = parse("a.csv", data, &keyed("name")).unwrap();
        assert_eq!(
            by_name.keys().unwrap().collect::<Vec<_>>(),
            [&b"a,\"b"[..], b"two\nlines", b"c"]
        );
        let without = parse("a.csv", data, &ReadOptions::default()).unwrap();
        assert!(without.keys().is_none() && without.key_column().is_none());
    }

    #[test]
    fn a_byte_order_mark_belongs_to_no_column() {
        let records = parse("a.csv", b"\xef\xbb\xbfid,name\n1,a\n", &keyed("id")).unwrap();
        assert_eq!(all(&records), [b"1,a"]);
    }

    #[test]
    fn tsv_splits_at_tabs() {
        let records = parse("a.tsv", b"id\tname\n7\ta,b\n", &keyed("name")).unwrap();
        assert_eq!(records.keys().unwrap().collect::<Vec<_>>(), [b"a,b"]);
    }

    #[test]
    fn rows_split_at_the_delimiter_of_choice() {
        let semicolons = ReadOptions {
            delimiter: ";".parse().ok(),
            ..keyed("name")
        };
        // A delimiter alone means CSV where the name says nothing.
        for name in ["a.csv", "a.tsv", "a"] {
            let records = parse(name, b"id;name\n1;\"a;b\"\n2;c,d\n", &semicolons).unwrap();
            assert_eq!(all(&records), [&b"1;\"a;b\""[..], b"2;c,d"]);
            let keys: Vec<_> = records.keys().unwrap().collect();
            assert_eq!(keys, [&b"a;b"[..], b"c,d"]);
            assert_eq!(records.likely_delimiter(), Likely(None));
        }
        let one_column = parse("a.csv", b"id;name\n1;a\n", &ReadOptions::default()).unwrap();
        assert_eq!(one_column.likely_delimiter().0, ";".parse().ok());
    }

    #[test]
    fn binary_splits_at_the_size() {
        let records = parse("a.bin", b"abcdef", &sized(2)).unwrap();
        assert_eq!(all(&records), [b"ab", b"cd", b"ef"]);
        assert!(records.of_one_length());
        assert_eq!(records.get(usize::MAX), None);
        // A size alone means binary where the name says nothing.
        assert_eq!(parse("a", b"abcdef", &sized(3)).unwrap().len(), 2);
    }

    #[test]
    fn the_format_can_be_overridden() {
        let lines = ReadOptions {
            format: Some(FileFormat::Lines),
            ..ReadOptions::default()
        };
        assert_eq!(parse("a.csv", b"id\n1\n", &lines).unwrap().len(), 2);
        assert_eq!("tsv".parse(), Ok(FileFormat::Tsv));
        let error = "xml".parse::<FileFormat>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown record format \"xml\": use one of lines, csv, tsv, binary"
        );
    }

    /// One line of text for each way a file can be wrong, naming the file, the line and the remedy.
    #[test]
    fn bad_files_are_refused_in_one_line() {
        let plain = ReadOptions::default();
        let long = ReadOptions {
            limits: RecordLimits {
                record_bytes: 3,
                ..RecordLimits::default()
            },
            ..plain.clone()
        };
        let few = ReadOptions {
            limits: RecordLimits {
                records: 2,
                ..RecordLimits::default()
            },
            ..plain.clone()
        };
        let short_keys = ReadOptions {
            limits: RecordLimits {
                key_bytes: 2,
                ..RecordLimits::default()
            },
            ..keyed("id")
        };
        let small = ReadOptions {
            limits: RecordLimits {
                file_bytes: 3,
                ..RecordLimits::default()
            },
            ..plain.clone()
        };
        let cases: &[(&str, &[u8], &ReadOptions, &str)] = &[
            ("a.txt", b"", &plain, "a.txt holds no records: it is empty"),
            (
                "a.csv",
                b"id,name\n",
                &plain,
                "a.csv holds no records: it has a header line and no rows",
            ),
            (
                "a.txt",
                b"ab\r\nabc\r\nabcd\r\n",
                &long,
                "a.txt line 3: the record is 4 bytes long and 3 are allowed: shorten or split it",
            ),
            (
                "a.txt",
                b"1\n2\n3\n",
                &few,
                "a.txt holds more than 2 records: split it",
            ),
            (
                "a.txt",
                b"1234",
                &small,
                "a.txt is larger than the limit of 3 bytes: split it",
            ),
            (
                "a.xml",
                b"1",
                &plain,
                "cannot tell the format of a.xml from its name: say --format lines, csv, tsv or binary",
            ),
            (
                "a.bin",
                b"1",
                &plain,
                "a.bin is read as binary: say the size of its records with --record-bytes",
            ),
            (
                "a.csv",
                b"1",
                &sized(1),
                "--record-bytes goes with binary files, and a.csv is read as csv",
            ),
            (
                "a.bin",
                b"1",
                &sized(0),
                "a record size of 0 bytes is not possible: use 1 to 1048576",
            ),
            (
                "a.bin",
                b"1",
                &sized(1048577),
                "a record size of 1048577 bytes is not possible: use 1 to 1048576",
            ),
            (
                "a.bin",
                b"12345",
                &sized(2),
                "a.bin has 5 bytes, which is no multiple of the record size 2",
            ),
            (
                "a.txt",
                b"1",
                &keyed("id"),
                "a.txt is read as lines, which has no key column: look records up by index",
            ),
            (
                "a.csv",
                b"id,name\n1,2\n",
                &keyed("key"),
                "a.csv has no column \"key\": it has id, name",
            ),
            (
                "a.csv",
                b"id;name\n1;2,5\n",
                &plain,
                "a.csv line 2: the row has 2 fields and the header 1; the file looks separated by ';': try --delimiter ';'",
            ),
            (
                "a.csv",
                b"id\tname\n1\t2\n",
                &keyed("id"),
                "a.csv has no column \"id\": it has id\u{fffd}name; the file looks separated by tab: try --delimiter tab",
            ),
            (
                "a.bin",
                b"1",
                &ReadOptions {
                    delimiter: Some(Delimiter::TAB),
                    ..sized(1)
                },
                "--delimiter goes with --format csv or tsv, and a.bin is read as binary",
            ),
            (
                "a.csv",
                b"id,id\n1,2\n",
                &keyed("id"),
                "a.csv has more than one column \"id\": rename one in its first line",
            ),
            (
                "a.csv",
                b"id,name\n1,2\n3\n",
                &plain,
                "a.csv line 3: the row has 1 fields and the header 2",
            ),
            (
                "a.csv",
                b"id,name\n1,2\n\n,3\n",
                &keyed("id"),
                "a.csv line 4: the key column \"id\" is empty: every row needs a key",
            ),
            (
                "a.csv",
                b"id,name\nabc,2\n",
                &short_keys,
                "a.csv line 2: the key is 3 bytes long and 2 are allowed",
            ),
            (
                "a.csv",
                b"id,name\n1,2\n\n2,\"x\ny\"\n1,4\n",
                &keyed("id"),
                "a.csv line 6: the key \"1\" is that of line 2 too: choose a column without repetitions",
            ),
        ];
        for (name, data, options, expected) in cases {
            let error = parse(name, data, options).expect_err(expected);
            assert_eq!(error.to_string(), *expected);
        }
    }

    #[test]
    fn a_record_at_the_limit_passes_and_one_byte_more_does_not() {
        let limit = RecordLimits::default().record_bytes;
        for name in ["a.txt", "a.csv"] {
            for (length, fits) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
                let mut data = b"header\n".to_vec();
                data.extend(std::iter::repeat_n(b'x', length));
                match parse(name, &data, &ReadOptions::default()) {
                    Ok(records) => assert!(fits && records.longest() == length),
                    Err(RecordError::TooLong { line: 2, bytes, .. }) => {
                        assert!(!fits && bytes == length);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        let data = vec![0; 2 * limit + 2];
        assert_eq!(parse("a.bin", &data[2..], &sized(limit)).unwrap().len(), 2);
        assert!(matches!(
            parse("a.bin", &data, &sized(limit + 1)),
            Err(RecordError::RecordBytes { .. })
        ));
    }

    #[test]
    fn files_are_read_and_missing_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let error = Records::read(&path, &ReadOptions::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("cannot read {}: ", path.display())),
            "{error}"
        );
        File::create(&path)
            .unwrap()
            .write_all(b"one\ntwo\n")
            .unwrap();
        assert_eq!(
            Records::read(&path, &ReadOptions::default()).unwrap().len(),
            2
        );
        let lines = ReadOptions {
            format: Some(FileFormat::Lines),
            ..ReadOptions::default()
        };
        assert!(matches!(
            Records::read(folder.path(), &lines),
            Err(RecordError::Folder { .. })
        ));
        let small = ReadOptions {
            limits: RecordLimits {
                file_bytes: 7,
                ..RecordLimits::default()
            },
            ..lines
        };
        assert!(matches!(
            Records::read(&path, &small),
            Err(RecordError::FileTooLarge { limit: 7, .. })
        ));
    }

    #[test]
    fn text_of_a_message_is_one_short_line() {
        assert_eq!(text(b"a\nb"), "a\u{fffd}b");
        assert_eq!(text(&[b'x'; 200]).chars().count(), 81);
    }

    proptest::proptest! {
        /// Whatever the bytes, reading ends with records that lie in the file or with one line.
        #[test]
        fn any_bytes_are_read_or_refused(data: Vec<u8>, name in "[ab]\\.(txt|csv|tsv|bin)", size in 1_usize..5) {
            let options = ReadOptions {
                record_bytes: name.ends_with("bin").then_some(size),
                keys: if name.ends_with("sv") { KeyColumn::First } else { KeyColumn::None },
                ..ReadOptions::default()
            };
            match parse(&name, &data, &options) {
                Ok(records) => {
                    proptest::prop_assert!(!records.is_empty());
                    proptest::prop_assert_eq!(records.iter().count(), records.len());
                    proptest::prop_assert!(records.total_bytes() <= data.len() as u64);
                }
                Err(error) => proptest::prop_assert_eq!(error.to_string().lines().count(), 1),
            }
        }
    }
}
