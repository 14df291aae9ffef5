//! The `paralfetch-waits` command: hand over, end as the command ended whose waits were watched.

use std::process::ExitCode;

fn main() -> ExitCode {
    paralfetch_waits::cli::main()
}
