//! The frame of every message: magic, version, kind, identity, length, payload; little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 4 | `GMPR` |
//! | 2 | version, 1 |
//! | 2 | kind, [`Kind`] |
//! | 32 | identity: hash of database and parameters |
//! | 8 | length of the payload |
//!
//! Lengths are checked before anything is taken for them, and nothing may follow the payload.

use std::fmt;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Parameters of a database.
    Parameters = 1,
    /// The hint of a database.
    Hint = 2,
    /// A query.
    Query = 3,
    /// An answer.
    Answer = 4,
    /// The table of keys of a database.
    KeyTable = 5,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parameters => "parameters",
            Self::Hint => "hint",
            Self::Query => "query",
            Self::Answer => "answer",
            Self::KeyTable => "key table",
        })
    }
}

/// Which database, laid out how, under which parameters: SHA-256 over all of it. Every message carries
/// it, so that a client with an old hint is told and not answered with noise. It is a label and no
/// proof: it covers neither the words of the hint nor the rows of the key table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(pub(crate) [u8; 32]);

impl Identity {
    /// The hash.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end before the frame does.
    #[error("the {kind} is cut short: {bytes} bytes of at least {HEADER_BYTES}")]
    Truncated {
        /// What was expected.
        kind: Kind,
        /// Bytes there are.
        bytes: usize,
    },
    /// They are something else.
    #[error("this is no {kind}: it does not start with GMPR")]
    Magic {
        /// What was expected.
        kind: Kind,
    },
    /// They are of another version of the format.
    #[error(
        "the {kind} has version {version} and this program reads {VERSION}: use the same program on both sides"
    )]
    Version {
        /// What was expected.
        kind: Kind,
        /// The version found.
        version: u16,
    },
    /// They are another message.
    #[error("a {kind} was expected, and this is a message of kind {found}")]
    Kind {
        /// What was expected.
        kind: Kind,
        /// The number found.
        found: u16,
    },
    /// They are for another database, or other parameters.
    #[error(
        "the {kind} is for another database or other parameters: fetch parameters and hint again"
    )]
    Identity {
        /// What was expected.
        kind: Kind,
    },
    /// They are longer or shorter than such a message.
    #[error("the {kind} has {found} bytes after its header and {expected} are expected")]
    Length {
        /// What was expected.
        kind: Kind,
        /// Bytes expected.
        expected: u64,
        /// Bytes said or found.
        found: u64,
    },
    /// The payload says what cannot be.
    #[error("the {kind} cannot be used: {what}")]
    Value {
        /// What was expected.
        kind: Kind,
        /// What is wrong.
        what: String,
    },
}

/// Version of the format.
pub const VERSION: u16 = 1;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 48;
const MAGIC: [u8; 4] = *b"GMPR";

/// A message of these parts, in a row.
pub(crate) fn frame(kind: Kind, identity: &Identity, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + length);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((kind as u16).to_le_bytes());
    bytes.extend(identity.0);
    bytes.extend((length as u64).to_le_bytes());
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Takes the frame off: identity and payload. The payload has the length that the header says.
pub(crate) fn unframe(kind: Kind, bytes: &[u8]) -> Result<(Identity, &[u8]), WireError> {
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(WireError::Truncated {
            kind,
            bytes: bytes.len(),
        });
    };
    let mut fields = Reader(header);
    if fields.take() != Some(MAGIC) {
        return Err(WireError::Magic { kind });
    }
    let version = fields.u16();
    if version != VERSION {
        return Err(WireError::Version { kind, version });
    }
    let found = fields.u16();
    if found != kind as u16 {
        return Err(WireError::Kind { kind, found });
    }
    let identity = Identity(fields.take().unwrap_or_default());
    let expected = fields.u64();
    if expected != payload.len() as u64 {
        return Err(WireError::Length {
            kind,
            expected,
            found: payload.len() as u64,
        });
    }
    Ok((identity, payload))
}

/// Takes the frame off a message about a known database, whose payload has a known length.
pub(crate) fn unframe_for<'a>(
    kind: Kind,
    bytes: &'a [u8],
    identity: &Identity,
    length: u64,
) -> Result<&'a [u8], WireError> {
    let (found, payload) = unframe(kind, bytes)?;
    if found != *identity {
        return Err(WireError::Identity { kind });
    }
    if payload.len() as u64 != length {
        return Err(WireError::Length {
            kind,
            expected: length,
            found: payload.len() as u64,
        });
    }
    Ok(payload)
}

/// Reads fields off the front. Past the end everything reads as zero: lengths are checked before.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    /// The next N bytes; none, and none taken, where there are fewer.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take().unwrap_or_default())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take().unwrap_or_default())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take().unwrap_or_default())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take().unwrap_or_default())
    }
}

/// Words as little-endian bytes.
pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Words of little-endian bytes.
pub(crate) fn words_of(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: Identity = Identity([9; 32]);

    #[test]
    fn the_header_is_as_documented() {
        let bytes = frame(Kind::Query, &IDENTITY, &[b"ab", b"c"]);
        assert_eq!(&bytes[..8], b"GMPR\x01\0\x03\0");
        assert_eq!(bytes[8..40], [9; 32]);
        assert_eq!(bytes[40..48], 3_u64.to_le_bytes());
        assert_eq!(&bytes[48..], b"abc");
        assert_eq!(unframe(Kind::Query, &bytes), Ok((IDENTITY, &b"abc"[..])));
    }

    #[test]
    fn each_field_is_checked() {
        let kind = Kind::Query;
        let good = frame(kind, &IDENTITY, &[b"abc"]);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            unframe_for(kind, &bytes, &IDENTITY, 3).unwrap_err()
        };
        assert_eq!(with(0, b'g'), WireError::Magic { kind });
        assert_eq!(with(4, 2), WireError::Version { kind, version: 2 });
        assert_eq!(with(6, 4), WireError::Kind { kind, found: 4 });
        assert_eq!(with(8, 0), WireError::Identity { kind });
        assert_eq!(
            with(40, 4),
            WireError::Length {
                kind,
                expected: 4,
                found: 3
            }
        );
        assert_eq!(
            with(47, 255),
            WireError::Length {
                kind,
                expected: (255 << 56) + 3,
                found: 3
            }
        );
        assert_eq!(
            unframe_for(kind, &good, &IDENTITY, 4),
            Err(WireError::Length {
                kind,
                expected: 4,
                found: 3
            })
        );
        assert_eq!(
            unframe(kind, b"G"),
            Err(WireError::Truncated { kind, bytes: 1 })
        );
    }

    proptest! {
        #[test]
        fn words_come_back(words: Vec<u32>) {
            prop_assert_eq!(words_of(&bytes_of(&words)), words);
        }

        #[test]
        fn frames_that_are_cut_or_extended_are_refused(payload: Vec<u8>, extra in 1_usize..9, cut in 0.0..1.0) {
            let good = frame(Kind::Hint, &IDENTITY, &[&payload]);
            let cut = (good.len() as f64 * cut) as usize;
            prop_assert!(unframe(Kind::Hint, &good[..cut]).is_err());
            let long: Vec<u8> = good.iter().copied().chain(std::iter::repeat_n(0, extra)).collect();
            prop_assert!(unframe(Kind::Hint, &long).is_err());
        }
    }
}
