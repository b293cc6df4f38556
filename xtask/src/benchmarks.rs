//! `cargo xtask benchmarks`: BENCHMARKS.md from the files in `benches/results`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;

/// Writes BENCHMARKS.md anew; with `check`, fails where it is not what the results say.
pub(crate) fn run(workspace: &Path, check: bool) -> Result<()> {
    let folder = workspace.join("benches/results");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    // Names start with the date: newest first.
    files.sort();
    files.reverse();

    let mut text = String::from(
        "# Benchmarks\n\nMade by `cargo xtask benchmarks` from `benches/results`; newest first. \
         `of floor` is the time the hardware allows, at the ceiling named and measured in the same \
         run, over the median time.\n",
    );
    for path in files {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let result: Value = serde_json::from_str(&fs::read_to_string(&path)?)
            .map_err(|error| format!("{name}: {error}"))?;
        // Checks are recorded beside the benches; they have no ceilings.
        if result["ceilings"].is_object() {
            section(&mut text, &name, &result);
        }
    }

    let path = workspace.join("BENCHMARKS.md");
    if check {
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            return Err(
                "BENCHMARKS.md is not what benches/results say: run `cargo xtask benchmarks`"
                    .into(),
            );
        }
    } else {
        fs::write(&path, text)?;
    }
    Ok(())
}

fn section(out: &mut String, name: &str, result: &Value) {
    let word = |key: &str| result[key].as_str().unwrap_or("unknown").to_owned();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "\n## {}, {}\n\nDriver {}, commit {}, file `{name}`.\n\n| ceiling | value | unit |\n| --- | --- | --- |",
        word("device"),
        word("date"),
        word("driver"),
        word("commit"),
    );
    if let Some(ceilings) = result["ceilings"].as_object() {
        for (ceiling, value) in ceilings {
            let _ = writeln!(
                out,
                "| {ceiling} | {:.4e} | {} |",
                value["value"].as_f64().unwrap_or(f64::NAN),
                value["unit"].as_str().unwrap_or("")
            );
        }
    }
    out.push_str("\n| variant | shape | median | spread | floor | of floor |\n| --- | --- | --- | --- | --- | --- |\n");
    for row in result["results"].as_array().into_iter().flatten() {
        let number = |key: &str| row[key].as_f64();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            row["variant"].as_str().unwrap_or(""),
            row["shape"].as_str().unwrap_or(""),
            number("median_ns").map_or_else(|| "-".to_owned(), time),
            number("spread").map_or_else(
                || "-".to_owned(),
                |spread| format!("{:.1} %", 100.0 * spread)
            ),
            row["floor"].as_str().unwrap_or("-"),
            number("of_floor").map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        );
    }
}

/// Nanoseconds in the unit that suits them.
fn time(ns: f64) -> String {
    if ns >= 1e6 {
        format!("{:.3} ms", ns / 1e6)
    } else if ns >= 1e3 {
        format!("{:.2} us", ns / 1e3)
    } else {
        format!("{ns:.0} ns")
    }
}
