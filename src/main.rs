//! The `paralfetch` command: parse, hand over, end as the app ended.

use std::process::ExitCode;

fn main() -> ExitCode {
    paralfetch::cli::main()
}
