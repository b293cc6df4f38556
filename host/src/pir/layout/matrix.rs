//! The database matrix: records laid out.

use rayon::prelude::*;

use super::{Layout, LayoutError, PADDING};
use crate::pir::records::Records;

/// A matrix of signed bytes, row after row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteMatrix {
    rows: usize,
    columns: usize,
    entries: Vec<i8>,
}

impl ByteMatrix {
    /// Rows D1.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns D0.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The entries, row after row.
    pub fn entries(&self) -> &[i8] {
        &self.entries
    }

    /// Row `row`.
    pub fn row(&self, row: usize) -> &[i8] {
        &self.entries[row * self.columns..(row + 1) * self.columns]
    }

    /// The matrix with one entry changed.
    #[cfg(test)]
    pub(crate) fn with_entry(mut self, at: usize, entry: i8) -> Self {
        self.entries[at] = entry;
        self
    }

    /// Lays records out.
    ///
    /// # Errors
    ///
    /// [`LayoutError::Inconsistent`] where the layout is not one of these records.
    pub fn build(records: &Records, layout: &Layout) -> Result<Self, LayoutError> {
        let fits = records.len() as u64 == layout.records
            && records.longest() as u64 <= layout.max_record_bytes.into()
            && (layout.prefix_bytes > 0 || records.of_one_length());
        if !fits {
            return Err(LayoutError::Inconsistent("it was made for other records"));
        }
        let (rows, columns) = (layout.rows() as usize, layout.columns() as usize);
        let mut entries = Vec::new();
        entries
            .try_reserve_exact(rows * columns)
            .map_err(|_| LayoutError::DatabaseTooLarge {
                records: layout.records,
                slot_bytes: layout.slot_bytes(),
                padded_bytes: layout.database_bytes().into(),
                limit: isize::MAX as u64,
            })?;
        entries.resize(rows * columns, 0);
        let (per_column, per_record) = (
            layout.records_per_column as usize,
            layout.columns_per_record as usize,
        );
        // Height of the part of a slot in one column.
        let height = rows / per_column;
        entries
            .par_chunks_mut(columns)
            .enumerate()
            .for_each(|(row, entries)| {
                let (slot, offset) = (row / height, row % height);
                for (column, entry) in entries.iter_mut().enumerate() {
                    let index = column / per_record * per_column + slot;
                    let byte = column % per_record * height + offset;
                    *entry = signed(
                        records
                            .get(index)
                            .map_or(PADDING, |record| slot_byte(record, layout, byte)),
                    );
                }
            });
        Ok(Self {
            rows,
            columns,
            entries,
        })
    }
}

/// Byte `at` of the slot of `record`.
fn slot_byte(record: &[u8], layout: &Layout, at: usize) -> u8 {
    let prefix = usize::from(layout.prefix_bytes);
    if at < prefix {
        (record.len() >> (8 * at)) as u8
    } else {
        record.get(at - prefix).copied().unwrap_or(PADDING)
    }
}

/// b - 128 as a signed byte.
pub(super) fn signed(byte: u8) -> i8 {
    (byte ^ 0x80) as i8
}
