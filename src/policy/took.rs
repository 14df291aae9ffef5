//! How long a launch took: one definition for cold, learned, prefetched, withheld and warm launches.
//!
//! A launch is complete when it uses its *completion page*: the last page of the app's launch that no earlier read was
//! near (the room `learn` finds it). In a cold launch that use is the last read that the launch waits for. In
//! prefetched and warm ones, where nothing is left to wait for, the program uses the same page at the same place of its
//! work, so that the same event stands for it. An app that has no such page is complete when its last task exits.
//!
//! Nothing else tells the time of a launch. The last request to the drive, say, comes early in a prefetched launch and
//! late in one that is followed for longer: such times are not comparable, and are not told at all.

/// The completion page of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionPage {
    /// The app has none, or this kernel does not show its use.
    #[default]
    None,
    /// The launch has not used it.
    Unused,
    /// The launch used it first at this time, CLOCK_MONOTONIC in nanoseconds.
    Used(u64),
}

/// How long a launch took from its execve on, in microseconds; `None` if that cannot be said as it is said of the app's
/// other launches. Times are CLOCK_MONOTONIC in nanoseconds; `exited_ns` is when its last task exited, if it has.
pub fn took_us(start_ns: u64, page: CompletionPage, exited_ns: Option<u64>) -> Option<u64> {
    let end_ns = match page {
        CompletionPage::Used(used_ns) => used_ns,
        // It went another way through the app.
        CompletionPage::Unused => return None,
        CompletionPage::None => exited_ns?,
    };
    Some(end_ns.checked_sub(start_ns)? / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_takes_until_its_completion_page_or_without_one_its_exit_and_nothing_else_tells() {
        use CompletionPage::{None as NoPage, Unused, Used};
        for (page, exited_ns, took) in [
            (Used(3_000_000), None, Some(2000)),
            // A GUI that is closed later, and a tool that goes on computing.
            (Used(3_000_000), Some(9_000_000), Some(2000)),
            (Unused, Some(9_000_000), None),
            (Unused, None, None),
            (NoPage, Some(9_000_000), Some(8000)),
            (NoPage, None, None),
            // A clock that is damaged.
            (Used(999_999), None, None),
        ] {
            assert_eq!(
                took_us(1_000_000, page, exited_ns),
                took,
                "{page:?} {exited_ns:?}"
            );
        }
    }
}
