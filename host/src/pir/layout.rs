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

mod matrix;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::records::Records;
use crate::he::lwe::params::{LweParameters, NoiseModel};
use crate::he::security::MAX_LOG2_FAILURE;

pub use matrix::ByteMatrix;

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
