//! The line table of a PTX module: which line of Rust an instruction comes from.
//!
//! LLVM writes `.loc <file> <line> <column>` before instructions and one list of `.file` directives for
//! everything it compiled; ptxas makes a table of them (`-lineinfo`), which compute-sanitizer and profilers
//! read. The numbers of files, and the labels that only debug sections name, depend on every kernel of the
//! module: [`Lines::finish`] gives a split its own.
//!
//! A split's text, and so its key in the cache of results, changes when one of its lines moves, also where
//! the instructions stay: that entry point is assembled again, since its table would name wrong lines. Entry
//! points without code from the edited file keep their text and their results.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Labels that only debug sections name.
const LABELS: &[&str] = &["$L__func_begin", "$L__func_end", "$L__tmp"];

/// The files of a module, by the number that `.loc` gives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines(HashMap<String, String>);

impl Lines {
    /// Remembers what follows `.file`: a number and a quoted path.
    pub(crate) fn add(&mut self, text: &str) {
        if let Some((number, path)) = text.split_once(char::is_whitespace) {
            self.0.insert(number.to_owned(), path.trim().to_owned());
        }
    }

    /// Numbers the files of a split in the order of their use, and lists them at its end.
    pub(crate) fn finish(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut used: Vec<&str> = Vec::new();
        for line in text.lines() {
            let code = line.trim_start();
            if LABELS.iter().any(|label| code.starts_with(label)) {
                continue;
            }
            let place = code.strip_prefix(".loc").map(str::trim_start);
            let Some((file, place)) = place.and_then(|place| place.split_once(' ')) else {
                out += line;
                out.push('\n');
                continue;
            };
            // Where the path is not known a table would not parse: the line falls away.
            let Some(path) = self.0.get(file) else {
                continue;
            };
            let at = used.iter().position(|found| found == path);
            let at = at.unwrap_or_else(|| {
                used.push(path);
                used.len() - 1
            });
            // Line and column, without the comment that names the path again.
            let place = place.split("//").next().unwrap_or(place).trim_end();
            // Writing to a String does not fail.
            let _ = writeln!(out, "\t.loc\t{} {place}", at + 1);
        }
        for (at, path) in used.iter().enumerate() {
            let _ = write!(out, "\n.file {} {path}", at + 1);
        }
        if !used.is_empty() {
            out.push('\n');
        }
        out
    }
}
