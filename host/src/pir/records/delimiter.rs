//! What stands between the fields of a row, and what a file looks separated by.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The character between two fields: ASCII, neither a quote nor part of a line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(u8);

/// A text that is no [`Delimiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a delimiter is one ASCII character, no quote and no line break, or `tab`")]
pub struct BadDelimiter;

impl Delimiter {
    /// The one of CSV.
    pub const COMMA: Self = Self(b',');
    /// The one of TSV.
    pub const TAB: Self = Self(b'\t');

    /// Those that a file may look separated by, the likelier first.
    const USUAL: [Self; 4] = [Self(b';'), Self::TAB, Self::COMMA, Self(b'|')];

    /// The byte in the file.
    pub fn byte(self) -> u8 {
        self.0
    }

    /// What the start of `data` looks separated by where it does not look separated by this.
    pub(super) fn other(self, data: &[u8]) -> Likely {
        if columns(data, self).is_some() {
            return Likely(None);
        }
        let mut best = (1, None);
        for delimiter in Self::USUAL {
            let columns = columns(data, delimiter).unwrap_or(0);
            if columns > best.0 {
                best = (columns, Some(delimiter));
            }
        }
        Likely(best.1)
    }
}

impl FromStr for Delimiter {
    type Err = BadDelimiter;

    /// One character, or `tab` or `\t` for the tab.
    fn from_str(text: &str) -> Result<Self, BadDelimiter> {
        match text.as_bytes() {
            b"tab" | b"\\t" => Ok(Self::TAB),
            [b'"' | b'\'' | b'\r' | b'\n'] => Err(BadDelimiter),
            &[byte] if byte.is_ascii() => Ok(Self(byte)),
            _ => Err(BadDelimiter),
        }
    }
}

/// The character itself.
impl Serialize for Delimiter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_char(self.0.into())
    }
}

/// As the command line takes it, in quotes for the shell.
impl fmt::Display for Delimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TAB => f.write_str("tab"),
            Self(byte) => write!(f, "'{}'", char::from(byte)),
        }
    }
}

/// A guess at the delimiter of a file. Its text is empty, or goes on a message about the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Likely(pub Option<Delimiter>);

impl fmt::Display for Likely {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(delimiter) => write!(
                f,
                "; the file looks separated by {delimiter}: try --delimiter {delimiter}"
            ),
            None => Ok(()),
        }
    }
}

/// The number of fields that the first rows of `data` have at this delimiter: more than one, and the
/// same in each.
fn columns(data: &[u8], delimiter: Delimiter) -> Option<usize> {
    const BYTES: usize = 1 << 16;
    const ROWS: usize = 20;
    let start = match data.get(..BYTES) {
        // Whole lines of it.
        Some(start) => &start[..start.iter().rposition(|&byte| byte == b'\n')?],
        None => data,
    };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter.byte())
        .has_headers(false)
        .from_reader(start);
    let mut columns = None;
    for row in reader.byte_records().take(ROWS) {
        // Rows of another length than the first are refused by the reader.
        columns = Some(row.ok()?.len());
    }
    columns.filter(|&columns| columns > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_have_names() {
        for (text, byte) in [
            (";", b';'),
            ("|", b'|'),
            ("tab", b'\t'),
            ("\\t", b'\t'),
            ("\t", b'\t'),
            (" ", b' '),
        ] {
            let delimiter: Delimiter = text.parse().unwrap();
            assert_eq!(delimiter.byte(), byte);
        }
        for text in ["", "\"", "'", "\n", "\r", "\\n", "é", ";;", "comma"] {
            assert_eq!(text.parse::<Delimiter>(), Err(BadDelimiter), "{text:?}");
        }
        for delimiter in Delimiter::USUAL {
            let text = delimiter.to_string();
            assert_eq!(text.trim_matches('\'').parse(), Ok(delimiter));
        }
    }

    #[test]
    fn a_file_looks_separated_by_what_gives_it_columns() {
        let long = "id;name\n1;\"a;b\"\n2;c,d\n".repeat(1 << 13);
        for (data, likely) in [
            ("id;name\n1;a\n", Some(b';')),
            ("id;name\n1;2,5\n2;3\n", Some(b';')),
            ("id\tname\n1\ta\n", Some(b'\t')),
            ("id|name|more\n1|a|;\n", Some(b'|')),
            (&*long, Some(b';')),
            // One column, or columns that are there.
            ("id\n1\n", None),
            ("id,name\n1;2,a;b\n", None),
            // Ragged at every delimiter.
            ("id,name\n1;2;3\n4\n", None),
            ("", None),
        ] {
            let found = Delimiter::COMMA.other(data.as_bytes()).0;
            assert_eq!(found.map(Delimiter::byte), likely, "{data}");
        }
    }
}
