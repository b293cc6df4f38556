//! How records lie in the database matrix.
//!
//! The database is a matrix of D1 rows and D0 columns of signed bytes (a byte b is stored as b - 128,
//! which keeps the error of an answer small); a query names a column and its answer is that column.
//! Every record takes one *slot* of S bytes: where lengths differ a little-endian length of 1 to 4
//! bytes, then the record, then padding. Either a column holds r whole slots one under the other, or a
//! slot spans c columns side by side and takes c queries; r and c are public, so the number of
//! queries says nothing about the record.
//!
//! Everything is public here: no function of this module sees which record is wanted.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::params::{LweParameters, MAX_LOG2_FAILURE, NoiseModel};
use super::records::Records;

/// The byte that pads slots: stored as 0 it adds no noise.
pub(crate) const PADDING: u8 = 128;

/// The largest hint, query or answer that a client takes memory for, in bytes: the server's word
/// alone must not cost it more.
pub const MAX_MESSAGE_BYTES: u64 = 1 << 30;

/// The most multiplications of words that a client makes for one query: about a minute of one core. The
/// server's word alone must not cost it more.
pub const MAX_KEY_WORK: u64 = 1 << 36;

/// What the records are like, as far as the layout cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordShape {
    /// Number of records.
    pub records: u64,
    /// Length of the longest, in bytes.
    pub longest: u64,
    /// Whether all have that length, so that no length needs storing.
    pub of_one_length: bool,
    /// Bytes of all records together.
    pub total_bytes: u64,
}

impl RecordShape {
    /// The shape of these records.
    pub fn of(records: &Records) -> Self {
        Self {
            records: records.len() as u64,
            longest: records.longest() as u64,
            of_one_length: records.of_one_length(),
            total_bytes: records.total_bytes(),
        }
    }
}

/// What a layout may cost, and for how many queries a hint is meant to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutPolicy {
    /// The largest padded database, in bytes.
    pub database_bytes: u64,
    /// The largest hint, in bytes; at most [`MAX_MESSAGE_BYTES`] count, which is all that clients take.
    pub hint_bytes: u64,
    /// Queries over which the download of the hint is spread when traffic is weighed.
    pub queries_per_hint: u32,
}

impl LayoutPolicy {
    /// The largest hint, in bytes, that this policy and every client allow.
    fn hint_limit(&self) -> u64 {
        self.hint_bytes.min(MAX_MESSAGE_BYTES)
    }
}

impl Default for LayoutPolicy {
    /// Databases up to 8 GiB, hints up to 1 GiB, 100 queries a hint.
    fn default() -> Self {
        Self {
            database_bytes: 8 << 30,
            hint_bytes: MAX_MESSAGE_BYTES,
            queries_per_hint: 100,
        }
    }
}

/// Padding beyond this factor is refused for databases that are not small.
const MAX_PADDING_FACTOR: u64 = 32;
/// A padded database up to this size is small: any padding is accepted.
const SMALL_DATABASE: u64 = 64 << 20;
/// The most columns that a slot may span.
const MAX_COLUMNS_PER_RECORD: u32 = 1024;

/// Why records have no layout.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// No record at all.
    #[error("a database needs at least one record")]
    NoRecords,
    /// The padded database is too large.
    #[error(
        "{records} records padded to {slot_bytes} bytes each take {padded_bytes} bytes and {limit} are allowed: split the database"
    )]
    DatabaseTooLarge {
        /// Number of records.
        records: u64,
        /// Slot size S in bytes.
        slot_bytes: u64,
        /// Bytes of all slots.
        padded_bytes: u128,
        /// The limit in bytes.
        limit: u64,
    },
    /// A few long records blow the database up.
    #[error(
        "{total_bytes} bytes of records become {padded_bytes} when each is padded to the longest, {longest} bytes: shorten or split the long ones"
    )]
    PaddingExplodes {
        /// Bytes of all records.
        total_bytes: u64,
        /// Bytes of all slots.
        padded_bytes: u128,
        /// Length of the longest record.
        longest: u64,
    },
    /// No choice of columns keeps the hint within the limit.
    #[error(
        "the smallest hint for {records} records of {slot_bytes} bytes takes {hint_bytes} bytes and {limit} are allowed: split the database"
    )]
    HintTooLarge {
        /// Number of records.
        records: u64,
        /// Slot size S in bytes.
        slot_bytes: u64,
        /// The smallest hint found, in bytes.
        hint_bytes: u128,
        /// The limit in bytes.
        limit: u64,
    },
    /// Too many columns: a record would be decoded wrongly, or a secret used for more samples than the
    /// security estimate covers.
    #[error(
        "a database of {columns} columns fails with probability 2^{log2_failure:.1} a record, or passes {max_columns} columns: 2^-40 is asked for"
    )]
    TooManyColumns {
        /// D0.
        columns: u64,
        /// The most columns there may be.
        max_columns: u32,
        /// log2 of the failure bound.
        log2_failure: f64,
    },
    /// A message is larger than a client takes.
    #[error("messages of {bytes} bytes, over {limit}")]
    MessageTooLarge {
        /// Bytes of the largest message.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A query costs a client too much.
    #[error(
        "a query takes {products} multiplications of the client, over {limit}: split the database"
    )]
    TooMuchWork {
        /// Multiplications of words for one query.
        products: u64,
        /// The limit.
        limit: u64,
    },
    /// Numbers of a message that fit no database.
    #[error("the layout is not one of a database: {0}")]
    Inconsistent(&'static str),
}

/// Where every record lies in the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    records: u64,
    max_record_bytes: u32,
    prefix_bytes: u8,
    records_per_column: u32,
    columns_per_record: u32,
}

/// One layout that was weighed, in bytes of traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The layout.
    pub layout: Layout,
    /// Bytes of the hint, downloaded once.
    pub hint_bytes: u64,
    /// Bytes up for one record.
    pub up_bytes: u64,
    /// Bytes down for one record.
    pub down_bytes: u64,
    /// Bytes a record costs with the hint spread over the queries of the policy.
    pub cost: f64,
}

impl Layout {
    /// The layout with the least traffic per record, the hint spread over the queries of the policy, of
    /// those that every client takes ([`Layout::check_client`]).
    ///
    /// # Errors
    ///
    /// [`LayoutError`] where every layout passes a limit; the text says by how much.
    pub fn choose(
        shape: &RecordShape,
        lwe: &LweParameters,
        policy: &LayoutPolicy,
    ) -> Result<Self, LayoutError> {
        let candidates = Self::candidates(shape, lwe, policy)?;
        let limit = policy.hint_limit();
        let small = || candidates.iter().filter(|c| c.hint_bytes <= limit);
        let best = small().filter(|c| c.layout.check_client(lwe).is_ok());
        if let Some(best) = best.min_by(|a, b| a.cost.total_cmp(&b.cost)) {
            return Ok(best.layout);
        }
        if let Some(products) = small().map(|c| c.layout.key_work(lwe)).min() {
            return Err(LayoutError::TooMuchWork {
                products,
                limit: MAX_KEY_WORK,
            });
        }
        let slot_bytes = slot(shape)?.1;
        if let Some(hint_bytes) = candidates.iter().map(|c| c.hint_bytes).min() {
            Err(LayoutError::HintTooLarge {
                records: shape.records,
                slot_bytes,
                hint_bytes: hint_bytes.into(),
                limit,
            })
        } else {
            // Even with the tallest columns weighed there are too many of them.
            let max_columns = lwe.max_columns(slot_bytes);
            let rows =
                u128::from(shape.records).div_ceil(max_columns.into()) * u128::from(slot_bytes);
            Err(LayoutError::HintTooLarge {
                records: shape.records,
                slot_bytes,
                hint_bytes: rows * lwe.dimension() as u128 * 4,
                limit,
            })
        }
    }

    /// The layouts that [`Layout::choose`] weighs: those near the least traffic with whole records in a
    /// column, and every number of columns that a record may span. Hints over the limit are among them.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] where the padded database passes a limit.
    pub fn candidates(
        shape: &RecordShape,
        lwe: &LweParameters,
        policy: &LayoutPolicy,
    ) -> Result<Vec<Candidate>, LayoutError> {
        let (prefix_bytes, slot_bytes) = slot(shape)?;
        let padded_bytes = u128::from(shape.records) * u128::from(slot_bytes);
        if padded_bytes > policy.database_bytes.into() {
            let (records, limit) = (shape.records, policy.database_bytes);
            return Err(LayoutError::DatabaseTooLarge {
                records,
                slot_bytes,
                padded_bytes,
                limit,
            });
        }
        let (total_bytes, longest) = (shape.total_bytes, shape.longest);
        if padded_bytes > SMALL_DATABASE.into()
            && padded_bytes / u128::from(MAX_PADDING_FACTOR) > total_bytes.into()
        {
            return Err(LayoutError::PaddingExplodes {
                total_bytes,
                padded_bytes,
                longest,
            });
        }
        let hint_weight = 1.0 + lwe.dimension() as f64 / f64::from(policy.queries_per_hint.max(1));
        let max_columns = u64::from(lwe.max_columns(slot_bytes));
        let (records, layout) = (
            shape.records,
            |records_per_column: u64, columns_per_record: u64| Self {
                records: shape.records,
                max_record_bytes: shape.longest as u32,
                prefix_bytes,
                records_per_column: records_per_column as u32,
                columns_per_record: columns_per_record as u32,
            },
        );
        // Whole records: N / r columns up, r S rows down and hint_weight times that: least near
        // r = sqrt(N / (S hint_weight)).
        let ideal = (records as f64 / (slot_bytes as f64 * hint_weight)).sqrt() as u64;
        let least = records.div_ceil(max_columns).max(1);
        let near = ideal.saturating_sub(REACH).max(1)..=ideal.saturating_add(REACH);
        // The fewest that the number of columns allows, and the most that the limit of the hint does.
        let hint_of_one = 4 * lwe.dimension() as u64 * slot_bytes;
        // A column has less than 2^32 rows, which also keeps every product below far from 2^63. Where
        // that makes too many columns, the check refuses them.
        let tallest = (u64::from(u32::MAX) / slot_bytes).max(1);
        let whole: BTreeSet<u64> = near
            .chain([least, policy.hint_limit() / hint_of_one])
            .map(|per_column| per_column.clamp(least, records).min(tallest))
            .collect();
        let whole = whole.into_iter().map(|per_column| layout(per_column, 1));
        // Spanning: fewer rows, a smaller hint, more columns and more queries.
        let most = slot_bytes
            .min(max_columns / records)
            .min(MAX_COLUMNS_PER_RECORD.into());
        let spanning = (2..=most).map(|columns| layout(1, columns));
        Ok(whole
            .chain(spanning)
            .filter(|l| l.up_bytes() <= MAX_MESSAGE_BYTES && l.check(lwe).is_ok())
            .map(|layout| {
                let hint_bytes = layout.hint_bytes(lwe);
                let (up_bytes, down_bytes) = (layout.up_bytes(), layout.down_bytes());
                let spread = hint_bytes as f64 / f64::from(policy.queries_per_hint.max(1));
                Candidate {
                    layout,
                    hint_bytes,
                    up_bytes,
                    down_bytes,
                    cost: (up_bytes + down_bytes) as f64 + spread,
                }
            })
            .collect())
    }

    /// The layout of a message, checked against itself and against the parameters.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] where the numbers describe no database or one that fails too often.
    pub(crate) fn from_parts(
        records: u64,
        max_record_bytes: u32,
        prefix_bytes: u8,
        records_per_column: u32,
        columns_per_record: u32,
        lwe: &LweParameters,
    ) -> Result<Self, LayoutError> {
        let layout = Self {
            records,
            max_record_bytes,
            prefix_bytes,
            records_per_column,
            columns_per_record,
        };
        if records == 0 {
            return Err(LayoutError::NoRecords);
        }
        if prefix_bytes > 4 || (prefix_bytes == 0 && max_record_bytes == 0) {
            return Err(LayoutError::Inconsistent("the length prefix"));
        }
        if u64::from(max_record_bytes) >> (8 * u32::from(prefix_bytes)) != 0 && prefix_bytes != 0 {
            return Err(LayoutError::Inconsistent(
                "records longer than their prefix can say",
            ));
        }
        let whole = records_per_column >= 1 && columns_per_record == 1;
        let spanning = records_per_column == 1 && columns_per_record >= 1;
        if !(whole || spanning) || u64::from(records_per_column) > records {
            return Err(LayoutError::Inconsistent("records a column"));
        }
        if columns_per_record > MAX_COLUMNS_PER_RECORD {
            return Err(LayoutError::Inconsistent("columns a record"));
        }
        // Before any product of the two is taken.
        if records.div_ceil(records_per_column.into()) > u64::from(u32::MAX) {
            return Err(LayoutError::Inconsistent("the number of columns"));
        }
        if u64::from(records_per_column) * layout.slot_bytes() > u64::from(u32::MAX) {
            return Err(LayoutError::Inconsistent("the number of rows"));
        }
        layout.check(lwe)?;
        Ok(layout)
    }

    /// Whether a record comes out right often enough, within the samples of the security estimate, and
    /// every column holds something.
    pub(crate) fn check(&self, lwe: &LweParameters) -> Result<(), LayoutError> {
        // 10 bytes over 6 columns take 5: the last would hold nothing of any slot.
        if self.decoded_bytes() - self.slot_height() >= self.slot_bytes() {
            return Err(LayoutError::Inconsistent("columns that hold nothing"));
        }
        let (columns, max_columns) = (self.columns(), lwe.max_columns(self.decoded_bytes()));
        let log2_failure = self.log2_failure(lwe);
        if columns > max_columns.into() || log2_failure > MAX_LOG2_FAILURE {
            return Err(LayoutError::TooManyColumns {
                columns,
                max_columns,
                log2_failure,
            });
        }
        Ok(())
    }

    /// Whether every client takes a database of this layout: its messages, each up to
    /// [`MAX_MESSAGE_BYTES`], and its work, up to [`MAX_KEY_WORK`].
    ///
    /// # Errors
    ///
    /// [`LayoutError::MessageTooLarge`] or [`LayoutError::TooMuchWork`].
    pub fn check_client(&self, lwe: &LweParameters) -> Result<(), LayoutError> {
        let bytes = self
            .hint_bytes(lwe)
            .max(self.up_bytes())
            .max(self.down_bytes());
        if bytes > MAX_MESSAGE_BYTES {
            return Err(LayoutError::MessageTooLarge {
                bytes,
                limit: MAX_MESSAGE_BYTES,
            });
        }
        let products = self.key_work(lwe);
        if products > MAX_KEY_WORK {
            return Err(LayoutError::TooMuchWork {
                products,
                limit: MAX_KEY_WORK,
            });
        }
        Ok(())
    }

    /// log2 of a bound on the probability that a retrieved record is wrong, for any content of the
    /// database: a union over all bytes that are decoded for it, the slot and the fill behind it.
    pub fn log2_failure(&self, lwe: &LweParameters) -> f64 {
        let columns = u32::try_from(self.columns()).unwrap_or(u32::MAX);
        NoiseModel::worst_case(lwe, columns).log2_failure(self.decoded_bytes())
    }

    /// Number of records N.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// The longest record there may be, in bytes.
    pub const fn max_record_bytes(&self) -> u32 {
        self.max_record_bytes
    }

    /// Bytes of the length before each record: 0 where all have one length.
    pub const fn prefix_bytes(&self) -> u8 {
        self.prefix_bytes
    }

    /// Slot size S in bytes: prefix and record.
    pub const fn slot_bytes(&self) -> u64 {
        self.max_record_bytes as u64 + self.prefix_bytes as u64
    }

    /// Slots one under the other in a column, r.
    pub const fn records_per_column(&self) -> u32 {
        self.records_per_column
    }

    /// Columns that a slot spans, c: the queries that a record takes.
    pub const fn columns_per_record(&self) -> u32 {
        self.columns_per_record
    }

    /// Height of the part of a slot in one column: S / c, rounded up.
    const fn slot_height(&self) -> u64 {
        self.slot_bytes().div_ceil(self.columns_per_record as u64)
    }

    /// Bytes that are decoded for a record and must be right: its slot and what fills the last column
    /// of it.
    pub const fn decoded_bytes(&self) -> u64 {
        self.slot_height() * self.columns_per_record as u64
    }

    /// Height of a column, D1, in bytes.
    pub const fn rows(&self) -> u64 {
        self.slot_height() * self.records_per_column as u64
    }

    /// Number of columns, D0.
    pub const fn columns(&self) -> u64 {
        self.records.div_ceil(self.records_per_column as u64) * self.columns_per_record as u64
    }

    /// Bytes of the matrix: D1 D0.
    pub const fn database_bytes(&self) -> u64 {
        self.rows() * self.columns()
    }

    /// Bytes of the hint without its header: 4 n D1.
    pub const fn hint_bytes(&self, lwe: &LweParameters) -> u64 {
        4 * lwe.dimension() as u64 * self.rows()
    }

    /// Bytes of the queries for one record without their header: 4 c D0.
    pub const fn up_bytes(&self) -> u64 {
        4 * self.columns_per_record as u64 * self.columns()
    }

    /// Bytes of the answers for one record without their header: 4 c D1.
    pub const fn down_bytes(&self) -> u64 {
        4 * self.columns_per_record as u64 * self.rows()
    }

    /// Multiplications of words that a client makes for one query: n c (D0 + D1).
    pub const fn key_work(&self, lwe: &LweParameters) -> u64 {
        lwe.dimension() as u64 * self.columns_per_record as u64 * (self.columns() + self.rows())
    }
}

/// How far around the ideal number of records a column is searched.
const REACH: u64 = 16;

/// Prefix and slot size of records of this shape.
fn slot(shape: &RecordShape) -> Result<(u8, u64), LayoutError> {
    if shape.records == 0 {
        return Err(LayoutError::NoRecords);
    }
    if shape.longest > u64::from(u32::MAX) {
        return Err(LayoutError::Inconsistent("records over 4 GiB"));
    }
    let prefix_bytes = match shape.longest {
        // Empty records still take a byte, so that a slot is never empty.
        longest if shape.of_one_length && longest > 0 => 0,
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    };
    Ok((prefix_bytes, shape.longest + u64::from(prefix_bytes)))
}

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
fn signed(byte: u8) -> i8 {
    (byte ^ 0x80) as i8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pir::params::Secret;
    use crate::pir::records::ReadOptions;
    use proptest::prelude::*;
    use std::path::Path;

    const LWE: LweParameters = LweParameters::STANDARD;

    fn shape(records: u64, longest: u64) -> RecordShape {
        RecordShape {
            records,
            longest,
            of_one_length: true,
            total_bytes: records * longest,
        }
    }

    fn choose(records: u64, longest: u64) -> Result<Layout, LayoutError> {
        Layout::choose(&shape(records, longest), &LWE, &LayoutPolicy::default())
    }

    #[test]
    fn bytes_are_stored_less_128() {
        assert_eq!([0, 1, 127, 128, 255].map(signed), [-128, -127, -1, 0, 127]);
        assert_eq!(signed(PADDING), 0);
    }

    #[test]
    fn slots_know_their_prefix() {
        let slot_of = |longest, of_one_length| {
            slot(&RecordShape {
                records: 1,
                longest,
                of_one_length,
                total_bytes: 1,
            })
        };
        assert_eq!(slot_of(8, true), Ok((0, 8)));
        assert_eq!(slot_of(0, true), Ok((1, 1)));
        for (longest, prefix) in [
            (0, 1),
            (255, 1),
            (256, 2),
            (65535, 2),
            (65536, 3),
            (1 << 24, 4),
        ] {
            assert_eq!(
                slot_of(longest, false),
                Ok((prefix, longest + u64::from(prefix))),
                "{longest}"
            );
        }
    }

    /// Others die on small databases of small entries.
    #[test]
    fn small_databases_have_layouts() {
        for records in [1, 2, 3, 100, 1_000] {
            for bytes in 1..=8 {
                let layout = choose(records, bytes).unwrap();
                assert!(
                    layout.database_bytes() >= records * bytes,
                    "{records} x {bytes}"
                );
                assert!(
                    layout.database_bytes() < 2 * records * bytes + 64 * bytes,
                    "{records} x {bytes}: {layout:?}"
                );
            }
        }
    }

    /// Others die at 2^20 entries of one bit; a byte is the least here.
    #[test]
    fn a_million_tiny_entries_have_a_layout() {
        let layout = choose(1 << 20, 1).unwrap();
        assert!(layout.columns() <= LWE.max_columns(1).into());
        assert!(layout.hint_bytes(&LWE) < 4 << 20, "{layout:?}");
    }

    /// Others' parameter search works in one order of sizes only.
    #[test]
    fn every_order_of_sizes_has_a_layout() {
        for log2_records in 0..=20 {
            for log2_bytes in 0..=(30 - log2_records).min(20) {
                let layout = choose(1 << log2_records, 1 << log2_bytes).unwrap();
                assert!(
                    layout.hint_bytes(&LWE) <= 1 << 30,
                    "2^{log2_records} x 2^{log2_bytes}"
                );
            }
        }
    }

    /// Others' hint explodes in silence at 2^16 records of 28,672 bits.
    #[test]
    fn wide_records_keep_the_hint_small() {
        let layout = choose(1 << 16, 3584).unwrap();
        assert!(
            layout.hint_bytes(&LWE) <= 20 << 20,
            "{} bytes",
            layout.hint_bytes(&LWE)
        );
        assert!(layout.hint_bytes(&LWE) < layout.database_bytes() / 10);
    }

    /// A hundred million rows: whole records share columns, columns stay within the samples.
    #[test]
    fn a_hundred_million_rows_have_a_layout() {
        let layout = choose(100_000_000, 8).unwrap();
        assert!(layout.hint_bytes(&LWE) < 64 << 20, "{layout:?}");
        assert_eq!(layout.columns_per_record(), 1);
    }

    #[test]
    fn few_large_records_span_columns() {
        let layout = choose(10, 32 << 10).unwrap();
        assert!(layout.columns_per_record() > 1, "{layout:?}");
        assert!(layout.rows() * u64::from(layout.columns_per_record()) >= 32 << 10);
        assert_eq!(
            layout.columns(),
            10 * u64::from(layout.columns_per_record())
        );
        assert!(
            layout.hint_bytes(&LWE) < (4 * 1280) << 15,
            "no smaller than a column a record"
        );
    }

    #[test]
    fn a_tight_limit_of_the_hint_is_kept() {
        let shape = shape(7884, 172);
        for (hint_bytes, per_column) in [(880_640, 1), (1_761_279, 1), (1_761_280, 2)] {
            let policy = LayoutPolicy {
                hint_bytes,
                // A hint that costs nothing: only the limit holds it.
                queries_per_hint: u32::MAX,
                ..LayoutPolicy::default()
            };
            let layout = Layout::choose(&shape, &LWE, &policy).unwrap();
            assert_eq!(layout.records_per_column(), per_column, "{hint_bytes}");
        }
    }

    #[test]
    fn explosions_are_refused_with_their_numbers() {
        let policy = LayoutPolicy::default();
        let database = choose(1 << 20, 1 << 14).unwrap_err();
        assert_eq!(
            database.to_string(),
            "1048576 records padded to 16384 bytes each take 17179869184 bytes and 8589934592 are allowed: split the database"
        );
        let one_long = RecordShape {
            records: 10_000,
            longest: 1 << 18,
            of_one_length: false,
            total_bytes: 1 << 19,
        };
        let padding = Layout::choose(&one_long, &LWE, &policy).unwrap_err();
        assert_eq!(
            padding.to_string(),
            "524288 bytes of records become 2621470000 when each is padded to the longest, 262144 bytes: shorten or split the long ones"
        );
        let small = LayoutPolicy {
            hint_bytes: 100_000,
            ..policy
        };
        let hint = Layout::choose(&shape(1 << 20, 1 << 10), &LWE, &small).unwrap_err();
        assert_eq!(
            hint.to_string(),
            "the smallest hint for 1048576 records of 1024 bytes takes 5242880 bytes and 100000 are allowed: split the database"
        );
        assert_eq!(
            Layout::choose(&shape(0, 8), &LWE, &policy),
            Err(LayoutError::NoRecords)
        );
        assert!(Layout::choose(&shape(1, 1 << 33), &LWE, &policy).is_err());
        let endless = RecordShape {
            records: u64::MAX,
            longest: 1 << 20,
            of_one_length: true,
            total_bytes: u64::MAX,
        };
        assert!(Layout::choose(&endless, &LWE, &policy).is_err());
    }

    #[test]
    fn a_layout_of_a_message_is_checked() {
        let from = |n, s, p, r, c| Layout::from_parts(n, s, p, r, c, &LWE);
        assert!(from(10, 4, 1, 2, 1).is_ok());
        for (n, s, p, r, c) in [
            (0, 4, 1, 1, 1),
            (10, 4, 1, 0, 1),
            (10, 4, 1, 1, 0),
            (10, 4, 1, 2, 2),
            (10, 4, 1, 11, 1),
            (10, 4, 5, 1, 1),
            (10, 0, 0, 1, 1),
            (10, 256, 1, 1, 1),
            (10, 4, 1, 1, 1025),
            (u64::MAX, 4, 1, 1, 1),
            (u64::MAX, u32::MAX, 4, u32::MAX, 1),
            (1 << 21, 4, 1, 1, 1),
        ] {
            assert!(from(n, s, p, r, c).is_err(), "{n} {s} {p} {r} {c}");
        }
    }

    /// 10 bytes over 6 columns take 5; 1 byte takes 1.
    #[test]
    fn a_layout_of_a_message_with_empty_columns_is_refused() {
        let waste = LayoutError::Inconsistent("columns that hold nothing");
        for (slot, c) in [(10, 6), (8, 5), (1, 2), (1000, 1001), (1000, 600)] {
            let layout = Layout::from_parts(3, slot, 0, 1, c, &LWE);
            assert_eq!(layout, Err(waste), "{slot} bytes over {c}");
        }
        for (slot, c) in [(10, 5), (10, 4), (8, 8), (1, 1)] {
            assert!(Layout::from_parts(3, slot, 0, 1, c, &LWE).is_ok());
        }
    }

    /// 3 bytes over 2 columns are read as 4, and a record is refused where the fourth is wrong.
    #[test]
    fn the_failure_bound_counts_the_fill_behind_a_slot() {
        let layout = Layout::from_parts(10, 3, 0, 1, 2, &LWE).unwrap();
        let four = NoiseModel::worst_case(&LWE, 20).log2_failure(4);
        assert!((layout.log2_failure(&LWE) - four).abs() < 1e-9);
        // Noise and not samples limits this set, so the count shows in what is refused.
        let lwe = LweParameters::new(1152, 1600, Secret::Ternary).unwrap();
        let from = |columns: u32| Layout::from_parts((columns / 2).into(), 3, 0, 1, 2, &lwe);
        assert!(lwe.max_columns(4) + 2 < lwe.max_columns(3));
        assert!(from(lwe.max_columns(4)).is_ok());
        assert!(matches!(
            from(lwe.max_columns(3)),
            Err(LayoutError::TooManyColumns { .. })
        ));
    }

    #[test]
    fn more_records_than_32_bits_count_do_not_wrap() {
        let policy = LayoutPolicy {
            database_bytes: u64::MAX,
            hint_bytes: u64::MAX,
            queries_per_hint: u32::MAX,
        };
        // With the hint that is allowed all of 2^33 would go into one column; 2^53 records need 2^33 in
        // each.
        for log2_records in [33, 34, 52, 53, 63] {
            for longest in [1, 3, u64::from(u32::MAX)] {
                let shape = RecordShape {
                    records: 1 << log2_records,
                    longest,
                    of_one_length: true,
                    total_bytes: u64::MAX,
                };
                let layout = Layout::choose(&shape, &LWE, &policy);
                let fits = log2_records <= 34 && longest <= 3;
                assert_eq!(
                    layout.is_ok(),
                    fits,
                    "2^{log2_records} x {longest}: {layout:?}"
                );
            }
        }
    }

    /// Whatever the policy allows, what is chosen is what clients take.
    #[test]
    fn a_hint_that_clients_refuse_is_not_chosen() {
        let policy = LayoutPolicy {
            database_bytes: 1 << 50,
            hint_bytes: u64::MAX,
            ..LayoutPolicy::default()
        };
        let large = Layout::choose(&shape(1 << 30, 1 << 10), &LWE, &policy).unwrap_err();
        assert!(
            matches!(
                large,
                LayoutError::HintTooLarge {
                    limit: MAX_MESSAGE_BYTES,
                    ..
                }
            ),
            "{large}"
        );
        let free = LayoutPolicy {
            queries_per_hint: u32::MAX,
            ..policy
        };
        for (records, longest) in [(1 << 36, 1), (1 << 20, 1 << 14), (1 << 8, 1 << 20)] {
            let layout = Layout::choose(&shape(records, longest), &LWE, &free).unwrap();
            assert_eq!(layout.check_client(&LWE), Ok(()), "{layout:?}");
        }
    }

    /// One record of 100 MiB: its hint fits when it spans enough columns, and a query would take minutes.
    #[test]
    fn a_query_of_minutes_is_refused() {
        let error = choose(1, 100 << 20).unwrap_err();
        let LayoutError::TooMuchWork { products, limit } = error else {
            panic!("{error}");
        };
        assert!(products > limit && limit == MAX_KEY_WORK);
        assert!(products >= 1280 * (100 << 20), "{products}");
        let layout = Layout::from_parts(1, 100 << 20, 0, 1, 1024, &LWE).unwrap();
        assert_eq!(layout.key_work(&LWE), 1280 * 1024 * (1024 + 102_400));
        assert!(layout.hint_bytes(&LWE) <= MAX_MESSAGE_BYTES);
        assert!(matches!(
            layout.check_client(&LWE),
            Err(LayoutError::TooMuchWork { .. })
        ));
    }

    /// Every byte of every slot is where the documentation says.
    #[test]
    fn matrices_hold_every_slot() {
        let text = b"a\nbcd\n\nefghij\nk\nlm\nno\n";
        let records =
            Records::from_bytes(Path::new("a.txt"), text.to_vec(), &ReadOptions::default())
                .unwrap();
        let cases = [(1, 1), (2, 1), (3, 1), (7, 1), (1, 2), (1, 3), (1, 7)];
        for (r, c) in cases {
            let layout = Layout::from_parts(7, 6, 1, r, c, &LWE).unwrap();
            let matrix = ByteMatrix::build(&records, &layout).unwrap();
            assert_eq!(
                (matrix.rows() as u64, matrix.columns() as u64),
                (layout.rows(), layout.columns())
            );
            for (index, record) in records.iter().enumerate() {
                let mut slot = vec![record.len() as u8];
                slot.extend(record);
                slot.resize(7, PADDING);
                let height = matrix.rows() / r as usize;
                for (at, &byte) in slot.iter().enumerate() {
                    let row = index % r as usize * height + at % height;
                    let column = index / r as usize * c as usize + at / height;
                    assert_eq!(
                        matrix.row(row)[column],
                        signed(byte),
                        "record {index} byte {at} of {r}, {c}"
                    );
                }
            }
        }
        let other = Layout::from_parts(8, 6, 1, 1, 1, &LWE).unwrap();
        assert!(ByteMatrix::build(&records, &other).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// The search near the ideal finds what trying every layout finds, within a few percent.
        #[test]
        fn search_is_near_the_best_of_all(records in 1_u64..3000, longest in 1_u64..3000, wide: bool) {
            let lwe = if wide { LweParameters::new(1152, 1600, Secret::Ternary).unwrap() } else { LWE };
            let policy = LayoutPolicy::default();
            let shape = shape(records, longest);
            let found = Layout::candidates(&shape, &lwe, &policy).unwrap();
            let best = found.iter().map(|c| c.cost).fold(f64::INFINITY, f64::min);
            let every = (1..=records).map(|r| (r, 1)).chain((1..=longest.min(1024)).map(|c| (1, c)));
            let least = every
                .filter_map(|(r, c)| Layout::from_parts(records, longest as u32, 0, r as u32, c as u32, &lwe).ok())
                .map(|l| (l.up_bytes() + l.down_bytes()) as f64 + l.hint_bytes(&lwe) as f64 / 100.0)
                .fold(f64::INFINITY, f64::min);
            prop_assert!(best <= least * 1.02, "{best} against {least}");
        }
    }
}
