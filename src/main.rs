//! The `paralfetch` command: parse, hand over, end as the app ended.

use std::process::ExitCode;

fn main() -> ExitCode {
    abort_on_panic();
    paralfetch::cli::main()
}

/// A service of which one thread is missing would go on without it; systemd starts one anew that has ended. The build's
/// profile has panics unwind, as test programs need it.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
