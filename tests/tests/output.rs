//! What the program prints is stable: fields are added, not renamed.

use std::io::Read;
use std::process::{Command, Output, Stdio};

use gristmill_tests::{gristmill, json, one_line, program, run, stdout};
use serde_json::Value;

fn has(value: &Value, fields: &[&str]) {
    let object = value.as_object().expect("an object");
    for field in fields {
        assert!(object.contains_key(*field), "no {field} in {value}");
    }
}

#[test]
fn info_says_what_there_is() {
    let info = json(&["info", "--json"]);
    has(
        &info,
        &[
            "version",
            "commit",
            "backend",
            "backend_reason",
            "gpu",
            "gpu_reason",
            "cpu",
            "image",
            "kernels",
            "variants",
        ],
    );
    // The tests show no GPU to the program.
    assert_eq!(info["backend"], "cpu");
    assert!(info["gpu"].is_null() && info["gpu_reason"].is_string());
    has(
        &info["cpu"],
        &[
            "name",
            "l2_bytes",
            "multiprocessors",
            "memory_free",
            "memory_total",
        ],
    );
    has(
        &info["image"],
        &["bytes", "archs", "variants", "rustc", "ptxas"],
    );
    assert!(info["variants"].as_u64() >= info["kernels"].as_u64());
    assert!(info["kernels"].as_u64() > Some(0));

    let text = stdout(&["info"]);
    for word in ["version", "backend", "cpu", "image", "kernels"] {
        assert!(text.lines().any(|line| line.starts_with(word)), "{text}");
    }
}

#[test]
fn list_has_a_row_for_every_variant() {
    let info = json(&["info", "--json"]);
    let list = json(&["kernels", "list", "--json"]);
    let rows = list.as_array().expect("an array");
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        has(
            row,
            &[
                "variant",
                "kernel",
                "arch",
                "registers",
                "shared_bytes",
                "stack_bytes",
                "spill_bytes",
            ],
        );
        let variant = row["variant"].as_str().expect("a name");
        let kernel = row["kernel"].as_str().expect("a name");
        assert!(variant.starts_with(kernel), "{variant} of {kernel}");
        names.push(variant);
        // With an empty image the numbers are null.
        for number in ["registers", "shared_bytes", "stack_bytes", "spill_bytes"] {
            let empty = info["image"]["variants"] == 0;
            assert!(!empty || row[number].is_null(), "{row}");
        }
    }
    names.dedup();
    assert_eq!(Some(names.len() as u64), info["variants"].as_u64());
    assert!(names.is_sorted());

    let one = json(&["kernels", "list", "--json", "--arch", "sm_90a"]);
    let one = one.as_array().expect("an array");
    assert_eq!(one.len(), names.len());
    assert!(one.iter().all(|row| row["arch"] == "sm_90a"));
}

#[test]
fn show_describes_a_variant() {
    let list = json(&["kernels", "list", "--json"]);
    let variant = list[0]["variant"].as_str().expect("a variant");
    let text = stdout(&["kernels", "show", variant]);
    for word in ["kernel", "source", "parameters", "block", "shared", "needs"] {
        assert!(text.lines().any(|line| line.starts_with(word)), "{text}");
    }
    // Without device code there is nothing else to show.
    let info = json(&["info", "--json"]);
    if info["image"]["variants"] == 0 {
        for what in ["--ptx", "--sass"] {
            gristmill_tests::fails(
                &["kernels", "show", variant, what],
                1,
                &["holds no GPU code", "cargo xtask setup", "GRISTMILL_ARCH"],
            );
        }
    }
}

#[test]
fn check_writes_its_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("check.json");
    let arguments = [
        "kernels",
        "check",
        "--backend",
        "cpu",
        "--filter",
        "gf128_mul__",
        "--seed",
        "5",
        "--seeds",
        "2",
        "--json",
        path.to_str().expect("a path"),
    ];
    let output = run(&mut gristmill(&arguments));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let results: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("the file")).expect("JSON");
    has(
        &results,
        &["backend", "device", "driver", "commit", "date", "results"],
    );
    let rows = results["results"].as_array().expect("an array");
    assert_eq!(results["passed"], rows.len());
    // The backend first, the sum last.
    assert_eq!(text.lines().count(), rows.len() + 2);
    for row in rows {
        has(row, &["variant", "kernel", "seed", "outcome", "digest"]);
        assert_eq!(row["outcome"], "passed");
        assert_eq!(row["digest"].as_str().map(str::len), Some(64));
        assert!(row["seed"] == 5 || row["seed"] == 6);
    }
    // A digest is of the outputs, so seeds differ and repetitions do not.
    assert_ne!(rows[0]["digest"], rows[1]["digest"]);
    let against = |path: &std::path::Path, filter| {
        run(&mut gristmill(&[
            "kernels",
            "check",
            "--backend",
            "cpu",
            "--checked",
            "--filter",
            filter,
            "--seed",
            "5",
            "--against",
            path.to_str().expect("a path"),
        ]))
    };
    assert!(against(&path, "gf128_mul__").status.success());
    let missing = against(&path, "polyval_mul__");
    assert_eq!(missing.status.code(), Some(1));
    let other = folder.path().join("other.json");
    let text = std::fs::read_to_string(&path).expect("the file");
    let digest = rows[0]["digest"].as_str().expect("a digest");
    std::fs::write(&other, text.replace(digest, &"0".repeat(64))).expect("a file");
    let differs = against(&other, "gf128_mul__");
    assert_eq!(differs.status.code(), Some(1));
    let text = String::from_utf8_lossy(&differs.stdout);
    assert!(text.contains("not those of cpu"), "{text}");
}

#[test]
fn without_arguments_it_is_the_demo() {
    let output = run(&mut gristmill(&[]));
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout)
            .matches('\n')
            .count(),
        1
    );
    for word in ["backend", "protocol", "up ", "down ", "answer"] {
        assert!(report.contains(word), "no {word:?} in {report}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    for arguments in [&["kernels", "list"][..], &["--help"], &["info", "--json"]] {
        let mut child = Command::new(program())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let mut stderr = String::new();
        if let Some(mut pipe) = child.stderr.take() {
            pipe.read_to_string(&mut stderr).expect("text");
        }
        let status = child.wait().expect("an end");
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        assert!(status.success(), "{arguments:?}: {status} {stderr}");
    }
}

/// The demo of a file with the one record `alpha`.
struct Demo {
    arguments: [String; 8],
    _folder: tempfile::TempDir,
}

impl Demo {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("words.txt");
        std::fs::write(&path, "alpha\n").expect("a file");
        let path = path.to_str().expect("a path");
        Self {
            arguments: [
                "pir",
                "demo",
                "--backend",
                "cpu",
                "--index",
                "0",
                "--records",
                path,
            ]
            .map(str::to_owned),
            _folder: folder,
        }
    }

    fn arguments(&self) -> [&str; 8] {
        self.arguments.each_ref().map(String::as_str)
    }
}

const CHECK: [&str; 6] = [
    "kernels",
    "check",
    "--backend",
    "cpu",
    "--filter",
    "gf128_mul__karatsuba",
];

/// Runs the program with what a shell makes of `redirection`.
fn redirected(redirection: &str, arguments: &[&str]) -> Output {
    Command::new("sh")
        .arg("-c")
        .arg(format!("exec \"$0\" \"$@\" {redirection}"))
        .arg(program())
        .args(arguments)
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .output()
        .expect("a shell")
}

#[test]
fn stdout_that_takes_nothing_is_an_error() {
    let demo = Demo::new();
    let demo = demo.arguments();
    let commands = [
        &["info"][..],
        &["info", "--json"],
        &["kernels", "list"],
        &["kernels", "list", "--json"],
        &["--help"],
        &["--version"],
        &CHECK,
        &demo,
        &[&demo[..], &["--json"]].concat(),
    ];
    for arguments in commands {
        for (redirection, why) in [
            (">&-", "it is closed"),
            (">&- <&-", "it is closed"),
            ("1</dev/null", "Bad file descriptor"),
            (">/dev/full", "No space left"),
        ] {
            let mut output = redirected(redirection, arguments);
            // The report of a demo stands before the error, where the demo came so far.
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.lines().last().unwrap_or_default().to_owned();
            if arguments.starts_with(&["pir"]) && why != "it is closed" {
                output.stderr = last.into_bytes();
            }
            one_line(arguments, &output, 1, &["cannot write", why]);
        }
        // Nothing is lost where nobody wants to read; some open /dev/null for both ways.
        for redirection in [">/dev/null", "1<>/dev/null"] {
            let output = redirected(redirection, arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        }
    }
}

#[test]
fn without_stderr_the_exit_code_says_it() {
    let demo = Demo::new();
    let demo = demo.arguments();
    let mut no_such_record = demo;
    no_such_record[5] = "1";
    for redirection in ["2>&-", "2</dev/null", "2>/dev/full"] {
        for (code, arguments) in [
            (0, &["info"][..]),
            (0, &CHECK),
            (2, &["nonsense"]),
            (1, &no_such_record),
            // The report is lost, so the demo failed; the record is not.
            (1, &demo),
            (1, &[&demo[..], &["--json"]].concat()),
        ] {
            let output = redirected(redirection, arguments);
            assert_eq!(output.status.code(), Some(code), "{arguments:?}");
            if arguments.starts_with(&demo) {
                assert_eq!(output.stdout, b"alpha\n", "{redirection}");
            }
            assert_eq!(
                output.stdout.is_empty(),
                code == 2 || arguments == no_such_record
            );
        }
        let output = redirected(&format!("{redirection} >&-"), &["info"]);
        assert_eq!(output.status.code(), Some(1), "{redirection}");
    }
    assert!(redirected("2>/dev/null", &demo).status.success());
}

#[test]
fn result_files_that_take_nothing_are_an_error() {
    let bench = [
        "kernels",
        "bench",
        "--backend",
        "cpu",
        "--filter",
        "gf128_mul__karatsuba",
    ];
    for (arguments, option) in [(&CHECK, "--json"), (&bench, "--json"), (&bench, "--plot")] {
        let arguments = [&arguments[..], &[option, "/dev/full"]].concat();
        let output = run(&mut gristmill(&arguments));
        one_line(&arguments, &output, 1, &["cannot write /dev/full"]);
    }
    // What cannot be synced is no failure.
    let arguments = [&CHECK[..], &["--json", "/dev/null"]].concat();
    assert!(run(&mut gristmill(&arguments)).status.success());
    let output = redirected(
        "3>&1 >/dev/null | cat",
        &[&CHECK[..], &["--json", "/dev/fd/3"]].concat(),
    );
    serde_json::from_slice::<Value>(&output.stdout).expect("JSON through a pipe");
}

/// A run that fails before it has results leaves those of an earlier one.
#[test]
fn results_stay_until_there_are_new_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("old.json");
    std::fs::write(&path, "old results, longer than nothing").expect("written");
    let json = path.to_str().expect("text");
    for command in ["check", "bench"] {
        gristmill_tests::fails(
            &["kernels", command, "--backend", "cuda", "--json", json],
            1,
            &[],
        );
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, "old results, longer than nothing");
    }
    stdout(&[
        "kernels",
        "check",
        "--filter",
        "montgomery_mul__per_thread_1",
        "--json",
        json,
    ]);
    let text = std::fs::read_to_string(&path).expect("it is there");
    serde_json::from_str::<Value>(&text).expect("new results alone");
}

/// What has results beside its words goes on when nobody reads them.
#[test]
fn a_closed_pipe_loses_no_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (json, table, none) = (file("c.json"), file("t.json"), file("none.json"));
    std::fs::write(&none, r#"{"backend": "cuda", "results": []}"#).expect("written");
    let closed = |arguments: &[&str]| {
        let mut child = Command::new(program())
            .args(arguments)
            .env("CUDA_VISIBLE_DEVICES", "-1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        child.wait().expect("it ends").code()
    };
    let filter = ["--backend", "cpu", "--filter", "montgomery_mul__"];
    let check = |more: &[&str]| closed(&[&["kernels", "check"], &filter[..], more].concat());
    assert_eq!(check(&["--json", &json]), Some(0));
    let text = std::fs::read_to_string(&json).expect("results");
    serde_json::from_str::<Value>(&text).expect("all of them");
    // A check that fails fails, read or not.
    assert_eq!(check(&["--against", &none]), Some(1));
    let tune = ["kernels", "tune", "--filter", "one_column", "--out", &table];
    assert_eq!(closed(&tune), Some(0));
    assert!(
        std::fs::read_to_string(&table)
            .expect("a table")
            .contains("byte_matvec")
    );
}
