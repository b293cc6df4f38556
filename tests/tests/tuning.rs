//! `kernels tune` writes a table, and what is in the table is used.

use gristmill_tests::{fails, gristmill, stdout};

#[test]
fn what_was_tuned_is_used_and_a_damaged_table_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("sub/tuning.json");
    let explained = || {
        let output = gristmill(&["pir", "demo", "--explain", "--index", "5"])
            .env("GRISTMILL_TUNING", &table)
            .output()
            .expect("it runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, report) = explained();
    assert_eq!(code, Some(0), "{report}");
    assert!(
        report.contains("byte_matvec__signed__rows_8 (built-in default)"),
        "{report}"
    );

    let path = table.to_str().expect("text");
    let text = stdout(&["kernels", "tune", "--filter", "one_column", "--out", path]);
    assert!(text.contains("byte_matvec__signed__rows_4"), "{text}");
    assert!(text.ends_with(&format!("written to {path}\n")), "{text}");
    let (code, report) = explained();
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains(&format!("(tuned, {path})")), "{report}");

    std::fs::write(&table, "{").expect("written");
    let (code, report) = explained();
    assert_eq!(code, Some(1), "{report}");
    assert!(
        report.starts_with(&format!("error: {path}: not a table of `kernels tune`")),
        "{report}"
    );
}

#[test]
fn a_filter_that_no_job_has_is_a_wrong_argument() {
    fails(
        &["kernels", "tune", "--filter", "nothing"],
        2,
        &["no job", "nothing"],
    );
}
