//! How long a launch took: one definition for cold, learned, prefetched, withheld and warm launches.
//!
//! A launch is complete when it has used half of its *completion pages*: of the files that the app's launches read last before
//! they have used 95 % of what they read, the last pages that no earlier read was near (the room `learn` finds them). What
//! comes behind is mostly read in the background. In a cold launch those uses are reads that the launch waits for. In
//! prefetched and warm ones, where nothing is left to wait for, the program uses the same pages at the same place of its
//! work, so that the same event stands for it. Half of them, since an app reads some files in the background, and not in
//! each launch. An app that has no such pages is complete when its last task exits.
//!
//! Nothing else tells the time of a launch. The last request to the drive, say, comes early in a prefetched launch and
//! late in one that is followed for longer: such times are not comparable, and are not told at all.

/// When a launch was complete by its completion pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// The app has none, or this kernel does not show their use.
    #[default]
    None,
    /// The launch has not used enough of them, or was watched too late.
    Missed,
    /// At this time, CLOCK_MONOTONIC in nanoseconds.
    At(u64),
}

/// How long a launch took from its execve on, in microseconds; `None` if that cannot be said as it is said of the app's
/// other launches. Times are CLOCK_MONOTONIC in nanoseconds; `exited_ns` is when its last task exited, if it has.
pub fn took_us(start_ns: u64, completion: Completion, exited_ns: Option<u64>) -> Option<u64> {
    let end_ns = match completion {
        Completion::At(at_ns) => at_ns,
        // It went another way through the app.
        Completion::Missed => return None,
        Completion::None => exited_ns?,
    };
    Some(end_ns.checked_sub(start_ns)? / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_takes_until_its_completion_or_without_pages_its_exit_and_nothing_else_tells() {
        use Completion::{At, Missed, None as NoPages};
        for (completion, exited_ns, took) in [
            (At(3_000_000), None, Some(2000)),
            // A GUI that is closed later, and a tool that goes on computing.
            (At(3_000_000), Some(9_000_000), Some(2000)),
            (Missed, Some(9_000_000), None),
            (Missed, None, None),
            (NoPages, Some(9_000_000), Some(8000)),
            (NoPages, None, None),
            // A clock that is damaged.
            (At(999_999), None, None),
        ] {
            assert_eq!(
                took_us(1_000_000, completion, exited_ns),
                took,
                "{completion:?} {exited_ns:?}"
            );
        }
    }
}
