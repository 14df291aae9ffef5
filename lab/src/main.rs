//! The `lab` program: parse, hand over.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::cli::main()
}
