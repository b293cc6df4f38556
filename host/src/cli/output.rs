//! Writing to stdout and stderr.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Failure;
use super::stream::Stream;

/// Stdout, or whatever stands for it. A closed pipe is [`Failure::Closed`].
pub(super) struct Output<'a> {
    writer: BufWriter<Box<dyn Write + 'a>>,
    /// Whether a failure waits for [`Output::settle`].
    defers: bool,
    /// The first that does.
    deferred: Option<Failure>,
}

impl Output<'_> {
    /// Stdout, which must be open: what cannot be told need not be computed.
    pub(super) fn stdout() -> Result<Output<'static>, Failure> {
        let mut stdout = Stream::stdout();
        stdout.check().map_err(|error| written(&error))?;
        Ok(Output {
            writer: BufWriter::new(Box::new(stdout)),
            defers: false,
            deferred: None,
        })
    }

    /// From here on a failure to write does not end the work: it has results beside what it says.
    /// [`Output::settle`] tells.
    pub(super) fn defer(&mut self) {
        self.defers = true;
    }

    /// The failure that was deferred.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        self.flush()?;
        self.deferred.take().map_or(Ok(()), Err)
    }

    fn outcome(&mut self, result: &std::io::Result<()>) -> Result<(), Failure> {
        let Err(error) = result else {
            return Ok(());
        };
        if self.defers {
            self.deferred.get_or_insert_with(|| written(error));
            Ok(())
        } else {
            Err(written(error))
        }
    }

    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let result = self.writer.write_all(text.as_bytes());
        self.outcome(&result)
    }

    pub(super) fn line(&mut self, line: impl std::fmt::Display) -> Result<(), Failure> {
        let result = writeln!(self.writer, "{line}");
        self.outcome(&result)
    }

    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
        self.line(text)
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let result = self.writer.flush();
        self.outcome(&result)
    }

    /// The writer itself, for bytes that are not text.
    pub(super) fn writer(&mut self) -> &mut dyn Write {
        &mut self.writer
    }
}

/// What a failed write to stdout means.
pub(super) fn written(error: &std::io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        Failure::Closed
    } else {
        Failure::Failed(format!("cannot write to stdout: {error}"))
    }
}

/// One line on stderr. If that fails too, the exit code has to say it alone.
pub(super) fn error(line: &str) {
    // Names of files and keys may hold line ends.
    let line = line.replace(char::is_control, "\u{fffd}");
    let _ = writeln!(std::io::stderr(), "error: {line}");
}

/// A remark on stderr.
pub(super) fn note(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A file for results, opened before the work that gives them, so that a wrong path is found first. What it held stays
/// until there is something to write.
pub(super) struct ResultFile<'a>(Option<(&'a Path, File)>);

impl<'a> ResultFile<'a> {
    /// Creates the file; without a path, what is written goes nowhere.
    pub(super) fn create(path: Option<&'a Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self(None));
        };
        match File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
        {
            Ok(file) => Ok(Self(Some((path, file)))),
            Err(error) => Err(unwritten(path, &error)),
        }
    }

    /// Writes and closes the file. Some file systems say only then that they are full.
    pub(super) fn write(self, text: &str) -> Result<(), Failure> {
        let Some((path, mut file)) = self.0 else {
            return Ok(());
        };
        // A pipe or a device has no length.
        let is_file = file.metadata().is_ok_and(|data| data.is_file());
        let cleared = if is_file { file.set_len(0) } else { Ok(()) };
        cleared
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| match file.sync_all() {
                // A pipe or a device: nothing is kept back there.
                Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
                synced => synced,
            })
            .map_err(|error| unwritten(path, &error))
    }

    pub(super) fn write_json(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
        text.push('\n');
        self.write(&text)
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}

/// A bar on stderr when that is a terminal, nothing otherwise.
pub(super) fn progress(steps: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Rows of text with columns as wide as they need to be, two spaces apart. The columns whose
/// `right` is true are aligned to the right.
pub(super) fn table(header: &[&str], right: &[bool], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut add = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, &width), &right) in cells.zip(&widths).zip(right) {
            let cell = if right {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            };
            line.push_str(&cell);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    add(&mut header.iter().copied());
    for row in rows {
        add(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_its_columns() {
        let rows = [
            vec!["a".into(), "1".into()],
            vec!["long".into(), "100".into()],
        ];
        assert_eq!(
            table(&["name", "n"], &[false, true], &rows),
            "name    n\na       1\nlong  100\n"
        );
    }
}
