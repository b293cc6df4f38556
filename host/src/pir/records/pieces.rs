//! Records that are lines of text, or of one fixed size.

use std::ops::Range;
use std::path::Path;

use super::{Extents, RecordError, RecordLimits};

/// Notes one record, within the limits.
pub(super) fn push(
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

pub(super) fn lines(
    path: &Path,
    data: &[u8],
    limits: &RecordLimits,
) -> Result<Extents, RecordError> {
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

pub(super) fn binary(
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
