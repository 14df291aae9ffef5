//! The `paralfetch` command: parse, hand over, end as the app ended.

use std::process::ExitCode;

fn main() -> ExitCode {
    abort_on_panic();
    paralfetch::cli::main()
}

/// A thread that panics must not leave programs behind that wait for it at their execve: the kernel lets them go when the
/// process ends, and systemd starts the service again. The build's profile has panics unwind, as test programs need it.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
