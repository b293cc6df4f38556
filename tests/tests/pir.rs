//! `gristmill pir demo` from outside: the record to stdout, the report to stderr, and one line for what
//! goes wrong.

use std::fs;
use std::path::PathBuf;

use gristmill_tests::{fails, gristmill, run, workspace};
use serde_json::Value;
use tempfile::TempDir;

/// A file in a folder that goes when the test ends.
struct File {
    path: PathBuf,
    _folder: TempDir,
}

impl File {
    fn new(name: &str, data: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::write(&path, data).expect("a file");
        Self {
            path,
            _folder: folder,
        }
    }

    fn name(&self) -> &str {
        self.path.to_str().expect("a name")
    }
}

/// The record and the report of a demo that must succeed.
fn demo(arguments: &[&str]) -> (Vec<u8>, String) {
    let output = run(&mut gristmill(
        &[&["pir", "demo", "--backend", "cpu"], arguments].concat(),
    ));
    let report = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{arguments:?}: {report}");
    (output.stdout, report)
}

/// Asserts that a demo fails with `code` and one line with `words`.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    fails(&[&["pir", "demo"], arguments].concat(), code, words);
}

/// The airport with this code, looked for without the program.
fn airport(code: &str) -> String {
    let text = fs::read_to_string(workspace().join("data/airports.csv")).expect("the airports");
    let mut rows = text
        .lines()
        .filter(|row| row.split(',').nth(1) == Some(&format!("\"{code}\"")));
    rows.next().expect("the airport").to_owned() + "\n"
}

#[test]
fn an_airport_comes_from_what_the_binary_carries() {
    // In a folder without the data: the binary alone is enough.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let output = run(gristmill(&["pir", "demo", "--key", "ZRH"]).current_dir(&elsewhere));
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), airport("ZRH"));
    for word in [
        "backend    cpu",
        "137.9 bits",
        "7,884",
        "up ",
        "down ",
        "hint ",
        "key ",
        "query ",
        "answer ",
        "recover ",
    ] {
        assert!(report.contains(word), "no {word:?} in {report}");
    }
}

#[test]
fn lines_come_by_index() {
    let file = File::new("words.txt", "alpha\nbeta\r\n\ndelta with more\n");
    for (index, line) in [
        ("0", "alpha\n"),
        ("1", "beta\n"),
        ("2", "\n"),
        ("3", "delta with more\n"),
    ] {
        let (record, _) = demo(&["--records", file.name(), "--index", index]);
        assert_eq!(String::from_utf8_lossy(&record), line);
    }
}

#[test]
fn csv_rows_come_by_key_of_any_column() {
    let file = File::new("stock.csv", "sku,name\nA-1,\"nut, hex\"\nB-2,bolt\n");
    let (record, _) = demo(&["--records", file.name(), "--key", "A-1"]);
    assert_eq!(record, b"A-1,\"nut, hex\"\n");
    let (record, _) = demo(&[
        "--records",
        file.name(),
        "--key-column",
        "name",
        "--key",
        "bolt",
    ]);
    assert_eq!(record, b"B-2,bolt\n");
}

#[test]
fn binary_records_come_byte_by_byte() {
    let data: Vec<u8> = (0..=255).cycle().take(24 * 25).collect();
    let file = File::new("table.bin", &data);
    let (record, _) = demo(&[
        "--records",
        file.name(),
        "--record-bytes",
        "24",
        "--index",
        "11",
    ]);
    assert_eq!(record, data[11 * 24..12 * 24]);
}

#[test]
fn json_says_what_was_sent() {
    let file = File::new("words.txt", "alpha\nbeta\n");
    let (record, report) = demo(&[
        "--records",
        file.name(),
        "--index",
        "1",
        "--json",
        "--explain",
    ]);
    assert_eq!(record, b"beta\n");
    assert_eq!(report.lines().count(), 1);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    for field in [
        "protocol",
        "backend",
        "records",
        "rows",
        "columns",
        "up_bytes",
        "down_bytes",
        "hint_bytes",
        "security_bits",
        "log2_failure",
        "steps",
        "explain",
    ] {
        assert!(!report[field].is_null(), "no {field} in {report}");
    }
    assert_eq!(
        (&report["protocol"], &report["records"]),
        (&"simple".into(), &2.into())
    );
    assert!(report["security_bits"].as_f64() >= Some(128.0));
    assert!(report["log2_failure"].as_f64() <= Some(-40.0));
}

#[test]
fn a_pipe_gets_no_progress() {
    let (_, report) = demo(&["--index", "0"]);
    assert!(!report.contains(['\r', '\x1b']), "{report:?}");
}

#[test]
fn bad_files_are_refused_in_one_line() {
    let missing = tempfile::tempdir().expect("a folder");
    let missing = missing.path().join("none.txt");
    refused(
        &["--records", missing.to_str().expect("a name")],
        1,
        &["cannot read", "none.txt"],
    );
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().to_str().expect("a name");
    refused(
        &["--records", name, "--format", "lines"],
        1,
        &["is a folder"],
    );
    let empty = File::new("empty.txt", "");
    refused(
        &["--records", empty.name()],
        1,
        &["empty.txt", "it is empty"],
    );
    let long = File::new("long.txt", ["x\n", &"y".repeat((1 << 20) + 1)].concat());
    refused(
        &["--records", long.name()],
        1,
        &["line 2", "1048577", "1048576"],
    );
    let odd = File::new("odd.bin", "12345");
    refused(
        &["--records", odd.name(), "--record-bytes", "2"],
        1,
        &["no multiple"],
    );
    refused(&["--records", odd.name()], 2, &["--record-bytes"]);
    let ragged = File::new("ragged.csv", "a,b\n1,2\n3\n");
    refused(&["--records", ragged.name()], 1, &["line 3", "1 fields"]);
    let unknown = File::new("file.xyz", "1\n");
    refused(&["--records", unknown.name()], 2, &["--format"]);
}

#[test]
fn bad_indices_and_keys_are_refused_in_one_line() {
    let csv = File::new("a.csv", "id,name\n1,x\n2,x\n");
    refused(
        &["--records", csv.name(), "--index", "2"],
        1,
        &["index 2", "2 records"],
    );
    refused(
        &["--records", csv.name(), "--key", "3"],
        1,
        &["no record has the key \"3\"", "\"id\""],
    );
    refused(
        &[
            "--records",
            csv.name(),
            "--key-column",
            "name",
            "--key",
            "x",
        ],
        1,
        &["line 3", "line 2"],
    );
    refused(
        &["--records", csv.name(), "--key-column", "no", "--key", "x"],
        1,
        &["no column \"no\"", "id, name"],
    );
    refused(
        &["--records", csv.name(), "--index", "0", "--key", "1"],
        2,
        &["--index", "--key"],
    );
    refused(&["--index", "-1"], 2, &["-1"]);
    refused(&["--index", "7884"], 1, &["7884", "7883"]);
    refused(&["--key", "QQQQ"], 1, &["QQQQ", "iata"]);
    let text = File::new("a.txt", "1\n");
    refused(
        &["--records", text.name(), "--key", "1"],
        2,
        &["no key column"],
    );
}

#[test]
fn unknown_and_unbuilt_protocols_are_wrong_arguments() {
    refused(&["--protocol", "fast"], 2, &["fast", "simple", "auto"]);
    refused(&["--protocol", "hybrid"], 2, &["hybrid", "not built yet"]);
    let file = File::new("words.txt", "alpha\n");
    let (record, _) = demo(&["--records", file.name(), "--protocol", "simple"]);
    assert_eq!(record, b"alpha\n");
}

#[test]
fn other_formats_can_be_said() {
    let file = File::new("words.xyz", "k\tv\na\tb\n");
    let (record, _) = demo(&["--records", file.name(), "--format", "tsv", "--key", "a"]);
    assert_eq!(record, b"a\tb\n");
    refused(
        &["--records", file.name(), "--format", "xml"],
        2,
        &["xml", "lines, csv, tsv, binary"],
    );
}

#[test]
fn rows_are_separated_by_what_is_said() {
    let file = File::new("people.csv", "id;name\n1;Ada, the first\n2;Bob\n");
    let of_key = |delimiter, key| {
        let arguments = ["--records", file.name(), "--delimiter", delimiter];
        demo(&[&arguments[..], &["--key-column", "name", "--key", key]].concat()).0
    };
    assert_eq!(of_key(";", "Bob"), b"2;Bob\n");
    assert_eq!(of_key(";", "Ada, the first"), b"1;Ada, the first\n");
    let tabs = File::new("people.csv", "id\tname\n1\tAda\n");
    for delimiter in ["tab", "\\t", "\t"] {
        let arguments = ["--records", tabs.name(), "--delimiter", delimiter];
        let (record, _) = demo(&[&arguments[..], &["--key", "1"]].concat());
        assert_eq!(record, b"1\tAda\n");
    }
    for delimiter in ["\"", "'", "\n", "\r", "é", ";;", ""] {
        refused(
            &["--records", file.name(), "--delimiter", delimiter],
            2,
            &["--delimiter", "one ASCII character"],
        );
    }
    let text = File::new("a.txt", "1;2\n");
    for format in [&[][..], &["--format", "lines"], &["--format", "binary"]] {
        let arguments = ["--records", text.name(), "--delimiter", ";"];
        refused(
            &[&arguments[..], format].concat(),
            2,
            &["--delimiter goes with --format csv or tsv"],
        );
    }
}

#[test]
fn a_wrong_delimiter_is_told_with_a_likely_one() {
    let likely = "the file looks separated by ';': try --delimiter ';'";
    let decimals = File::new("prices.csv", "id;price\n1;2,50\n");
    refused(&["--records", decimals.name()], 1, &["line 2", likely]);
    let people = File::new("people.csv", "id;name\n1;Ada\n2;Bob\n");
    let people = ["--records", people.name()];
    for (wanted, words) in [
        (&["--key", "1"][..], "no record has the key"),
        (&["--key-column", "id"], "no column \"id\""),
    ] {
        refused(&[&people[..], wanted].concat(), 1, &[words, likely]);
    }
    let by_index = [&people[..], &["--index", "1"]].concat();
    let (record, report) = demo(&by_index);
    assert_eq!(record, b"2;Bob\n");
    assert!(report.contains(likely), "{report}");
    let (_, report) = demo(&[&by_index[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["likely_delimiter"], ";");
}

#[test]
fn a_gpu_that_is_passed_over_is_told_why() {
    let run = |arguments: &[&str]| {
        let output = run(&mut gristmill(&[&["pir", "demo"], arguments].concat()));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&run(&[&["--json"], arguments].concat())).expect("JSON")
    };
    let file = File::new("words.txt", "alpha\n");
    let auto = ["--records", file.name()];
    let reason = gristmill_tests::json(&["info", "--json"])["backend_reason"].clone();
    let text = run(&auto);
    let words = format!(
        "; not the GPU, because {}",
        reason.as_str().expect("a reason")
    );
    assert!(text.contains(&words), "no {words:?} in {text}");
    assert_eq!(json(&auto)["backend_reason"], reason);
    // Who asks for the CPU passes nothing over.
    let cpu = [&auto[..], &["--backend", "cpu"]].concat();
    assert!(!run(&cpu).contains("not the GPU"));
    assert!(json(&cpu)["backend_reason"].is_null());
}

#[test]
fn line_ends_in_arguments_leave_the_error_one_line() {
    let csv = File::new("a.csv", "id\n1\n");
    for arguments in [
        &["--records", csv.name(), "--key", "a\nb"][..],
        &["--records", csv.name(), "--key-column", "a\nb"],
        &["--records", "no\nfile.csv"],
    ] {
        refused(arguments, 1, &["\u{fffd}"]);
    }
}
