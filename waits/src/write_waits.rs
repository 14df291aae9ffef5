//! Which waits were for writes: those that a system on which nobody writes would not have had.

use std::collections::HashMap;

use crate::{Wait, WaitCause};

/// The waits that were for writes, in their order.
///
/// What waits for pages under writeback, for the journal or for a limit on writes does so by its cause. A request in
/// the scheduler or the drive, a metadata block or a tag may be one's own read, so it counts where the kernel told for
/// whose write. A lock counts if its holder waited for a write meanwhile, as far as that is among these waits.
pub fn for_writes(waits: &[Wait]) -> Vec<&Wait> {
    let mut is_for_write: Vec<bool> = waits.iter().map(is_by_itself).collect();
    // When threads waited for a write.
    let mut holders: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let mut new: Vec<usize> = (0..waits.len()).filter(|at| is_for_write[*at]).collect();
    // Each round finds at least one more, or is the last.
    while !new.is_empty() {
        for wait in new.iter().map(|at| &waits[*at]) {
            holders.entry(wait.task.tid).or_default().push(span(wait));
        }
        new = (0..waits.len())
            .filter(|at| !is_for_write[*at] && is_held_up(&waits[*at], &holders))
            .collect();
        new.iter().for_each(|at| is_for_write[*at] = true);
    }
    let both = waits.iter().zip(is_for_write);
    both.filter_map(|(wait, is_for_write)| is_for_write.then_some(wait))
        .collect()
}

/// Whether the wait alone tells that it was for a write.
fn is_by_itself(wait: &Wait) -> bool {
    match wait.cause {
        WaitCause::Sync
        | WaitCause::Data
        | WaitCause::Discard
        | WaitCause::JournalHandle
        | WaitCause::JournalCommit
        | WaitCause::JournalBuffer
        | WaitCause::JournalSpace
        | WaitCause::WritebackThrottle
        | WaitCause::DirtyThrottle => true,
        WaitCause::Metadata | WaitCause::Tag | WaitCause::Scheduler | WaitCause::Drive => {
            wait.for_whom.is_some()
        }
        WaitCause::Lock | WaitCause::MemoryThrottle | WaitCause::Unknown => false,
    }
}

/// Whether the holder of the lock waited for a write while this task waited for the lock.
fn is_held_up(wait: &Wait, holders: &HashMap<u32, Vec<(u64, u64)>>) -> bool {
    let holder = wait.for_whom.as_ref().map(|holder| holder.tid);
    let (start, end) = span(wait);
    wait.cause == WaitCause::Lock
        && holder
            .and_then(|holder| holders.get(&holder))
            .is_some_and(|spans| spans.iter().any(|span| span.0 < end && start < span.1))
}

fn span(wait: &Wait) -> (u64, u64) {
    let end = wait.start_ns.saturating_add(wait.duration_ns);
    (wait.start_ns, end)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::WaitTask;

    fn wait(tid: u32, cause: WaitCause, (start_ns, end_ns): (u64, u64), whom: Option<u32>) -> Wait {
        let task = |tid: u32| WaitTask {
            pid: tid,
            tid,
            comm: "app".to_owned(),
            uid: 0,
        };
        Wait {
            task: task(tid),
            cause,
            start_ns,
            duration_ns: end_ns - start_ns,
            device: None,
            inode: None,
            block: None,
            for_whom: whom.map(task),
            under_way: false,
        }
    }

    #[test]
    fn a_read_of_ones_own_is_no_wait_for_a_write() {
        let waits = [
            wait(1, WaitCause::Sync, (0, 9), None),
            wait(1, WaitCause::Drive, (0, 9), None),
            wait(1, WaitCause::Drive, (0, 9), Some(2)),
            wait(1, WaitCause::Unknown, (0, 9), Some(2)),
        ];
        assert_eq!(for_writes(&waits), [&waits[0], &waits[2]]);
    }

    #[test]
    fn a_lock_counts_while_its_holder_waits_for_a_write() {
        let waits = [
            // Its holder waits for a lock whose holder waits for a commit.
            wait(1, WaitCause::Lock, (10, 40), Some(2)),
            wait(2, WaitCause::Lock, (5, 38), Some(3)),
            wait(3, WaitCause::JournalCommit, (0, 37), None),
            // Later, by somebody who waits for nothing, and in a circle.
            wait(4, WaitCause::Lock, (37, 60), Some(3)),
            wait(5, WaitCause::Lock, (0, 9), Some(6)),
            wait(7, WaitCause::Lock, (0, 9), Some(8)),
            wait(8, WaitCause::Lock, (0, 9), Some(7)),
            wait(9, WaitCause::Lock, (0, 9), None),
        ];
        assert_eq!(for_writes(&waits), [&waits[0], &waits[1], &waits[2]]);
    }

    proptest! {
        #[test]
        fn more_waits_never_take_one_away(
            waits in vec((
                0..6_u32,
                select(WaitCause::ALL.to_vec()),
                (0..50_u64, 0..20_u64),
                option::of(0..6_u32),
            ), 0..30),
            fewer in 0..30_usize,
        ) {
            let waits: Vec<Wait> = waits
                .into_iter()
                .map(|(tid, cause, (start, length), whom)| wait(tid, cause, (start, start + length), whom))
                .collect();
            let all = for_writes(&waits);
            for wait in for_writes(&waits[..fewer.min(waits.len())]) {
                prop_assert!(all.contains(&wait));
            }
            prop_assert!(waits.iter().filter(|wait| is_by_itself(wait)).all(|wait| all.contains(&wait)));
        }
    }
}
