//! Wrong arguments and missing things: one line, and the right exit code.

use gristmill_tests::{fails, gristmill, one_line, run, stdout};

#[test]
fn unknown_words_are_wrong_arguments() {
    fails(&["nonsense"], 2, &["nonsense"]);
    fails(&["kernels"], 2, &["--help"]);
    fails(&["kernels", "nonsense"], 2, &["nonsense"]);
    fails(&["info", "--nonsense"], 2, &["--nonsense"]);
    fails(&["info", "extra"], 2, &["extra"]);
    fails(&["kernels", "show"], 2, &["VARIANT"]);
    fails(
        &["kernels", "check", "--backend", "tpu"],
        2,
        &["tpu", "auto", "cpu", "cuda"],
    );
}

#[test]
fn an_unknown_variant_is_named_and_a_near_one_offered() {
    fails(
        &["kernels", "show", "no_such_variant"],
        2,
        &["no_such_variant", "gristmill kernels list"],
    );
    fails(
        &["kernels", "show", "montgomery_mul__per_thread_5"],
        2,
        &["did you mean `montgomery_mul__per_thread_"],
    );
}

#[test]
fn a_filter_that_leaves_nothing_is_a_wrong_argument() {
    fails(
        &["kernels", "check", "--filter", "no_such"],
        2,
        &["no_such", "gristmill kernels list"],
    );
    fails(
        &["kernels", "bench", "--filter", "no_such"],
        2,
        &["no_such", "gristmill kernels list"],
    );
}

#[test]
fn an_unknown_architecture_is_a_wrong_argument() {
    fails(
        &["kernels", "list", "--arch", "sm_91"],
        2,
        &["sm_91", "sm_90a"],
    );
}

#[test]
fn a_seed_is_a_number_of_64_bits() {
    for seed in ["many", "-1", "1.5", "18446744073709551616", ""] {
        let arguments = ["kernels", "check", "--seed", seed];
        let output = run(&mut gristmill(&arguments));
        one_line(&arguments, &output, 2, &["--seed"]);
    }
    fails(&["kernels", "check", "--seeds", "0"], 2, &["--seeds", "0"]);
    fails(
        &[
            "kernels",
            "check",
            "--seed",
            "18446744073709551615",
            "--seeds",
            "2",
        ],
        2,
        &["2^64"],
    );
}

#[test]
fn checked_mode_is_the_emulators() {
    fails(
        &["kernels", "check", "--checked", "--backend", "cuda"],
        2,
        &["--checked", "compute-sanitizer"],
    );
}

#[test]
fn the_gpu_where_there_is_none_says_what_to_do() {
    for command in ["check", "bench"] {
        fails(
            &["kernels", command, "--backend", "cuda"],
            1,
            &["`--backend cpu`"],
        );
    }
    fails(
        &["pir", "demo", "--backend", "cuda"],
        1,
        &["`--backend cpu`"],
    );
}

#[test]
fn a_result_file_that_cannot_be_written_is_an_error() {
    let arguments = [
        "kernels",
        "check",
        "--backend",
        "cpu",
        "--filter",
        "gf128_mul__",
        "--json",
        "no/such/folder/x.json",
    ];
    fails(&arguments, 1, &["cannot write no/such/folder/x.json: "]);
}

#[test]
fn an_index_is_a_number() {
    for index in ["x", "-1", "1.0", "18446744073709551616"] {
        fails(&["pir", "demo", "--index", index], 2, &["--index", index]);
    }
}

#[test]
fn an_unknown_protocol_is_a_wrong_argument_that_lists_the_known_ones() {
    fails(
        &["pir", "demo", "--protocol", "nix"],
        2,
        &["nix", "simple", "hybrid", "auto"],
    );
    fails(
        &["pir", "demo", "--protocol", "onion"],
        2,
        &["onion", "not built", "simple"],
    );
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [
        &["--help"][..],
        &["kernels", "--help"],
        &["kernels", "check", "--help"],
        &["pir", "demo", "--help"],
        &["help", "info"],
    ] {
        assert!(stdout(arguments).contains("Usage: gristmill"));
    }
    assert!(stdout(&["--version"]).starts_with("gristmill "));
}
