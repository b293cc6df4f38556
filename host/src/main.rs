//! The program `gristmill`; see [`gristmill::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    gristmill::cli::main(std::env::args_os())
}
