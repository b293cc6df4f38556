//! What `#[kernel]` and the typed launch refuse to compile, and in which words; and what they
//! accept.
//!
//! The expected words are those of the compiler that rust-toolchain.toml names.

/// Each file in `ui/fail` fails with exactly the errors beside it; each in `ui/pass` compiles
/// without a warning and runs.
#[test]
fn kernels_that_compile_and_that_do_not() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
