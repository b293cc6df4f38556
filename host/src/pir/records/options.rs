//! What to read and how: formats, limits, keys.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::{Delimiter, RecordError};

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

    pub(super) fn delimiter(self) -> Option<Delimiter> {
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

pub(super) fn choose_format(path: &Path, options: &ReadOptions) -> Result<FileFormat, RecordError> {
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
