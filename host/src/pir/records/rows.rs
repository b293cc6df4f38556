//! Records that are rows of a CSV, and their keys.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::pieces::push;
use super::{Delimiter, Extents, KeyColumn, Keys, Likely, RecordError, RecordLimits};

pub(super) fn rows(
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
pub(super) fn text(bytes: &[u8]) -> String {
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
