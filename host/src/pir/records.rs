//! Records from a file: lines of text, CSV with an optional key column, or binary of a fixed size.
//!
//! A record is the very bytes of the file: a line without its end, a CSV row as it is written there,
//! or one fixed-size piece. Limits are checked before memory is taken for what they limit.

mod delimiter;
mod error;
mod options;
mod pieces;
mod rows;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use delimiter::{BadDelimiter, Delimiter, Likely};
pub use error::RecordError;
pub use options::{FileFormat, KeyColumn, ReadOptions, RecordLimits, UnknownName};

use options::choose_format;
use pieces::{binary, lines};
use rows::rows;

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
