//! Keys to indices, on the client's side.
//!
//! The server publishes the table of all keys; a client downloads it once and looks its key up at
//! home, so that the server sees neither key nor index.
//!
//! # What the server may see
//!
//! That the table was fetched, and that a query follows. It must not see whether a key was found: were no
//! query sent for a key that is absent, a server that saw the table fetched would learn just that. A
//! client across a network must answer [`KeyAbsent`] with a query for a random index, sent like any
//! other, and discard the answer. (The demo has both sides in one process and stops instead.)
//!
//! The table is the server's word, as the hint is: the identity of the database does not cover it.

use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use zeroize::Zeroizing;

use super::records::Records;
use super::simple::Parameters;
use crate::wire::{Identity, Kind, Reader, WireError, frame, unframe};

/// No record has that key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no record has the key \"{key}\"{}", column.as_ref().map(|c| format!(" in the column \"{c}\"")).unwrap_or_default())]
pub struct KeyAbsent {
    /// The key, as text.
    pub key: String,
    /// The key column, where it is known.
    pub column: Option<String>,
}

/// All keys of a database, in the order of its records, each padded to the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    identity: Identity,
    /// Bytes of the longest key.
    width: usize,
    /// One row a key: length in two bytes, the key, zeros.
    rows: Vec<u8>,
}

/// Bytes of the length of a key.
const LENGTH: usize = 2;
/// The longest key that a table may have, in bytes.
const MAX_WIDTH: u32 = 1 << 14;

impl KeyTable {
    /// The table of records that were read with keys, none otherwise.
    pub fn build(records: &Records, parameters: &Parameters) -> Option<Self> {
        let width = records.keys()?.map(<[u8]>::len).max()?;
        if width > MAX_WIDTH as usize {
            return None;
        }
        let keys = records.keys()?;
        let mut rows = Vec::with_capacity(keys.len() * (LENGTH + width));
        for key in keys {
            rows.extend((key.len() as u16).to_le_bytes());
            rows.extend_from_slice(key);
            rows.resize(rows.len() + width - key.len(), 0);
        }
        Some(Self {
            identity: *parameters.identity(),
            width,
            rows,
        })
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.rows.len() / (LENGTH + self.width)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The index of the record with this key. Every key of the table is compared, whole, whichever it
    /// is; only whether it was found is visible in time. What was compared is wiped.
    ///
    /// # Errors
    ///
    /// [`KeyAbsent`] where no record has it. The server must not notice: see the [module](self).
    pub fn find(&self, key: &[u8]) -> Result<u64, KeyAbsent> {
        let absent = || KeyAbsent {
            key: String::from_utf8_lossy(key).into_owned(),
            column: None,
        };
        if key.len() > self.width {
            return Err(absent());
        }
        let mut wanted = Zeroizing::new(Vec::with_capacity(LENGTH + self.width));
        wanted.extend((key.len() as u16).to_le_bytes());
        wanted.extend_from_slice(key);
        wanted.resize(LENGTH + self.width, 0);
        let mut found = subtle::Choice::from(0);
        let mut index = Zeroizing::new(0);
        for (at, row) in (0_u64..).zip(self.rows.chunks_exact(LENGTH + self.width)) {
            let same = row.ct_eq(&wanted);
            index.conditional_assign(&at, same);
            found |= same;
        }
        if bool::from(found) {
            Ok(*index)
        } else {
            Err(absent())
        }
    }

    /// The table as a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame(
            Kind::KeyTable,
            &self.identity,
            &[&(self.width as u32).to_le_bytes(), &self.rows],
        )
    }

    /// The table of a message.
    ///
    /// # Errors
    ///
    /// [`WireError`] where the bytes are no key table of this database.
    pub fn from_bytes(bytes: &[u8], parameters: &Parameters) -> Result<Self, WireError> {
        let kind = Kind::KeyTable;
        let (identity, payload) = unframe(kind, bytes)?;
        if identity != *parameters.identity() {
            return Err(WireError::Identity { kind });
        }
        let mut fields = Reader(payload);
        let width = fields.u32();
        let rows = fields.0;
        if width == 0 || width > MAX_WIDTH {
            return Err(WireError::Value {
                kind,
                what: format!("keys of {width} bytes"),
            });
        }
        let row = LENGTH + width as usize;
        let expected = u128::from(parameters.layout().records()) * row as u128;
        if rows.len() as u128 != expected {
            let (expected, found) = (expected.min(u64::MAX.into()) as u64, rows.len() as u64);
            return Err(WireError::Length {
                kind,
                expected,
                found,
            });
        }
        let canonical = |row: &[u8]| {
            let length = usize::from(Reader(row).u16());
            length >= 1
                && row
                    .get(LENGTH + length..)
                    .is_some_and(|rest| rest.iter().all(|&byte| byte == 0))
        };
        if !rows.chunks_exact(row).all(canonical) {
            return Err(WireError::Value {
                kind,
                what: "a key that is empty or longer than the table is wide".to_owned(),
            });
        }
        Ok(Self {
            identity,
            width: width as usize,
            rows: rows.to_vec(),
        })
    }
}
