//! What a stack of kernel functions waits for.
//!
//! The innermost function that waits says for what; functions further out say on whose behalf. Names differ
//! between kernels, and compilers inline: several names stand for one kind of wait, and none is needed.

/// A kind of sleep, by the stack alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sleep {
    /// For a page, or all pages of a file, that is being written.
    PageWriteback,
    /// As `PageWriteback`, in order to change the page.
    StablePage,
    /// For the lock of a page that is not being read.
    PageLock,
    /// For a page that is being read.
    PageRead,
    /// For the lock of a buffer: it is being written or read.
    BufferLock,
    /// For a buffer's input or output to end.
    Buffer,
    /// For a buffer that the commit writes to the journal.
    Shadow,
    /// For a handle of the journal.
    Handle,
    /// For a commit of the journal.
    Commit,
    /// For room in the journal.
    Space,
    /// For a place in the drive's queue.
    Tag,
    /// For the block layer's limit on writes.
    Throttle,
    /// For the dirty limits.
    Dirty,
    /// For memory, or for the limit of the cgroup.
    Memory,
    /// For a discard.
    Discard,
    /// For a mutex or a semaphore.
    Lock,
    /// For a request that it has submitted itself.
    Request,
    /// None of these.
    Other,
}

/// What a function says about the stack that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The task sleeps in it, or in something that it calls, for this.
    Waits(Sleep),
    /// Waits for a bit of a page: for which, its callers say.
    WaitsForPage,
    /// Waits for a bit of something else: for which, its callers say.
    WaitsForBit,
    /// As `WaitsForBit`, to set the bit.
    WaitsForBitLock,
    /// What is waited for within is this.
    Within(Scope),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Memory is reclaimed.
    Reclaim,
    /// Blocks are discarded.
    Discard,
    /// Room is made in the journal.
    Checkpoint,
    /// A page is to be changed, which must not happen while it is written.
    Stable,
    /// Pages under writeback are waited for.
    Writeback,
    /// A page is read.
    Read,
    /// A metadata buffer is about to be changed.
    WriteAccess,
    /// The journal's own thread commits.
    Committing,
    /// Input or output is waited for.
    Io,
}

/// The functions that matter, by name.
const ROLES: &[(&str, Role)] = {
    use Role::{WaitsForBit, WaitsForBitLock, WaitsForPage};
    use Scope as S;
    use Sleep as W;
    const fn waits(sleep: Sleep) -> Role {
        Role::Waits(sleep)
    }
    const fn within(scope: Scope) -> Role {
        Role::Within(scope)
    }
    &[
        // mm/filemap.c
        ("folio_wait_bit_common", WaitsForPage),
        ("folio_wait_bit", WaitsForPage),
        ("folio_wait_bit_killable", WaitsForPage),
        ("folio_put_wait_locked", WaitsForPage),
        ("__folio_lock", WaitsForPage),
        ("__folio_lock_killable", WaitsForPage),
        ("__folio_lock_or_retry", WaitsForPage),
        ("folio_wait_writeback", within(S::Writeback)),
        ("folio_wait_writeback_killable", within(S::Writeback)),
        ("__filemap_fdatawait_range", within(S::Writeback)),
        ("folio_wait_stable", within(S::Stable)),
        ("__filemap_get_folio", within(S::Stable)),
        ("ext4_write_begin", within(S::Stable)),
        ("ext4_da_write_begin", within(S::Stable)),
        ("ext4_page_mkwrite", within(S::Stable)),
        ("filemap_page_mkwrite", within(S::Stable)),
        ("filemap_fault", within(S::Read)),
        ("filemap_read", within(S::Read)),
        ("filemap_get_pages", within(S::Read)),
        ("filemap_update_page", within(S::Read)),
        ("filemap_read_folio", within(S::Read)),
        ("filemap_splice_read", within(S::Read)),
        ("do_read_cache_folio", within(S::Read)),
        ("page_cache_ra_unbounded", within(S::Read)),
        ("do_swap_page", within(S::Read)),
        // mm/page-writeback.c, fs/fs-writeback.c
        ("balance_dirty_pages", waits(W::Dirty)),
        ("balance_dirty_pages_ratelimited_flags", waits(W::Dirty)),
        ("wb_wait_for_completion", waits(W::PageWriteback)),
        ("__inode_wait_for_writeback", waits(W::PageWriteback)),
        ("inode_wait_for_writeback", waits(W::PageWriteback)),
        ("inode_sleep_on_writeback", waits(W::PageWriteback)),
        ("writeback_single_inode", waits(W::PageWriteback)),
        // mm/vmscan.c, mm/memcontrol.c
        ("mem_cgroup_handle_over_high", waits(W::Memory)),
        ("__mem_cgroup_handle_over_high", waits(W::Memory)),
        ("reclaim_throttle", waits(W::Memory)),
        ("throttle_direct_reclaim", waits(W::Memory)),
        ("try_to_free_pages", within(S::Reclaim)),
        ("try_to_free_mem_cgroup_pages", within(S::Reclaim)),
        ("try_charge_memcg", within(S::Reclaim)),
        // fs/buffer.c, kernel/sched/wait_bit.c
        ("__lock_buffer", waits(W::BufferLock)),
        ("__wait_on_buffer", waits(W::Buffer)),
        ("out_of_line_wait_on_bit", WaitsForBit),
        ("__wait_on_bit", WaitsForBit),
        ("out_of_line_wait_on_bit_lock", WaitsForBitLock),
        ("__wait_on_bit_lock", WaitsForBitLock),
        ("bit_wait_io", within(S::Io)),
        // fs/jbd2
        ("do_get_write_access", within(S::WriteAccess)),
        ("jbd2_journal_get_create_access", within(S::WriteAccess)),
        ("wait_transaction_locked", waits(W::Handle)),
        ("jbd2_journal_wait_updates", waits(W::Handle)),
        ("jbd2_journal_lock_updates", waits(W::Handle)),
        ("start_this_handle", waits(W::Handle)),
        ("add_transaction_credits", waits(W::Handle)),
        ("wait_transaction_switching", waits(W::Commit)),
        ("jbd2_log_wait_commit", waits(W::Commit)),
        ("__jbd2_log_wait_for_space", within(S::Checkpoint)),
        ("jbd2_log_do_checkpoint", within(S::Checkpoint)),
        ("jbd2_journal_commit_transaction", within(S::Committing)),
        ("jbd2_write_superblock", within(S::Committing)),
        // block
        ("blk_mq_get_tag", waits(W::Tag)),
        ("rq_qos_wait", waits(W::Throttle)),
        ("__rq_qos_throttle", waits(W::Throttle)),
        ("wbt_wait", waits(W::Throttle)),
        ("blkcg_maybe_throttle_current", waits(W::Throttle)),
        ("submit_bio_wait", waits(W::Request)),
        ("bio_await_chain", waits(W::Request)),
        ("bio_await", waits(W::Request)),
        ("blk_wait_io", waits(W::Request)),
        ("blk_io_schedule", waits(W::Request)),
        ("blk_execute_rq", waits(W::Request)),
        ("wait_for_completion_io", waits(W::Request)),
        ("wait_for_completion_io_timeout", waits(W::Request)),
        ("__iomap_dio_rw", waits(W::Request)),
        ("dio_await_one", waits(W::Request)),
        ("blkdev_issue_flush", waits(W::Request)),
        ("blkdev_issue_discard", within(S::Discard)),
        ("__blkdev_issue_discard", within(S::Discard)),
        ("blk_ioctl_discard", within(S::Discard)),
        ("blkdev_issue_secure_erase", within(S::Discard)),
        ("ext4_issue_discard", within(S::Discard)),
        ("ext4_trim_extent", within(S::Discard)),
        ("ext4_try_to_trim_range", within(S::Discard)),
        ("ext4_discard_work", within(S::Discard)),
        // kernel/locking
        ("__mutex_lock", waits(W::Lock)),
        ("__mutex_lock_slowpath", waits(W::Lock)),
        ("__mutex_lock_killable_slowpath", waits(W::Lock)),
        ("mutex_lock", waits(W::Lock)),
        ("mutex_lock_killable", waits(W::Lock)),
        ("rwsem_down_read_slowpath", waits(W::Lock)),
        ("rwsem_down_write_slowpath", waits(W::Lock)),
        ("down_read", waits(W::Lock)),
        ("down_write", waits(W::Lock)),
        ("__percpu_down_read", waits(W::Lock)),
        ("percpu_rwsem_wait", waits(W::Lock)),
        ("percpu_down_write", waits(W::Lock)),
        ("__down_common", waits(W::Lock)),
    ]
};

/// Names of all functions that the classification knows.
pub(super) fn functions() -> Vec<&'static str> {
    ROLES.iter().map(|(name, _)| *name).collect()
}

fn role(name: &str) -> Option<Role> {
    let found = ROLES.iter().find(|(known, _)| *known == name);
    found.map(|(_, role)| *role)
}

/// What a stack waits for: its functions from the innermost outwards. Those that are not known may be left out.
pub(super) fn classify(stack: &[&str]) -> Sleep {
    let roles: Vec<Role> = stack.iter().filter_map(|name| role(name)).collect();
    let inner = roles.iter().find(|role| !matches!(role, Role::Within(_)));
    let is_within = |scope| roles.contains(&Role::Within(scope));

    if is_within(Scope::Reclaim) {
        return Sleep::Memory;
    }
    let sleep = match inner {
        Some(Role::Waits(sleep)) => *sleep,
        Some(Role::WaitsForPage) if is_within(Scope::Writeback) => match is_within(Scope::Stable) {
            true => Sleep::StablePage,
            false => Sleep::PageWriteback,
        },
        Some(Role::WaitsForPage) if is_within(Scope::Read) => Sleep::PageRead,
        Some(Role::WaitsForPage) => Sleep::PageLock,
        Some(Role::WaitsForBit) if is_within(Scope::WriteAccess) => Sleep::Shadow,
        // Calls of __lock_buffer and __wait_on_buffer may be the last in them, and leave no trace.
        Some(Role::WaitsForBit) if is_within(Scope::Io) => Sleep::Buffer,
        Some(Role::WaitsForBitLock) if is_within(Scope::Io) => Sleep::BufferLock,
        _ => Sleep::Other,
    };
    match sleep {
        Sleep::Request if is_within(Scope::Discard) => Sleep::Discard,
        Sleep::Buffer | Sleep::BufferLock | Sleep::Commit | Sleep::Lock | Sleep::Other
            if is_within(Scope::Checkpoint) =>
        {
            Sleep::Space
        }
        Sleep::Buffer if is_within(Scope::Committing) => Sleep::Request,
        sleep => sleep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks of Linux 6.18 on x86-64, as they were seen, without what lies further out than the file system.
    const SEEN: &[(Sleep, &str)] = &[
        (
            Sleep::PageWriteback,
            "io_schedule folio_wait_bit folio_wait_writeback __filemap_fdatawait_range \
             file_write_and_wait_range ext4_sync_file do_fsync",
        ),
        (
            Sleep::PageWriteback,
            "io_schedule folio_wait_bit folio_wait_writeback truncate_inode_partial_folio \
             truncate_inode_pages_range truncate_pagecache ext4_setattr notify_change do_truncate",
        ),
        (
            Sleep::PageWriteback,
            "wb_wait_for_completion sync_inodes_sb sync_filesystem freeze_super",
        ),
        (
            Sleep::StablePage,
            "io_schedule folio_wait_bit folio_wait_writeback __filemap_get_folio ext4_da_write_begin \
             generic_perform_write ext4_buffered_write_iter vfs_write",
        ),
        (
            Sleep::PageRead,
            "io_schedule folio_wait_bit_common filemap_fault __do_fault do_fault __handle_mm_fault",
        ),
        (
            Sleep::PageRead,
            "io_schedule folio_wait_bit_common filemap_get_pages filemap_read vfs_read",
        ),
        (
            Sleep::BufferLock,
            "io_schedule bit_wait_io __wait_on_bit_lock out_of_line_wait_on_bit_lock \
             do_get_write_access jbd2_journal_get_write_access __ext4_journal_get_write_access \
             ext4_reserve_inode_write __ext4_mark_inode_dirty ext4_dirty_inode __mark_inode_dirty \
             ext4_setattr notify_change chmod_common",
        ),
        (
            Sleep::Buffer,
            "io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit __ext4_find_entry \
             ext4_lookup path_openat",
        ),
        (
            Sleep::Buffer,
            "io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit ext4_read_bh \
             ext4_read_inode_bitmap __ext4_new_inode ext4_create path_openat",
        ),
        (
            Sleep::Request,
            "io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit \
             jbd2_journal_commit_transaction kjournald2 kthread",
        ),
        (
            Sleep::Space,
            "io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit jbd2_write_superblock \
             jbd2_journal_update_sb_log_tail __jbd2_update_log_tail jbd2_cleanup_journal_tail \
             jbd2_log_do_checkpoint jbd2_journal_flush ext4_freeze freeze_super",
        ),
        (
            Sleep::Commit,
            "jbd2_log_wait_commit ext4_sync_file do_fsync __x64_sys_fsync",
        ),
        (
            Sleep::Request,
            "schedule_timeout io_schedule_timeout wait_for_completion_io_timeout submit_bio_wait \
             blkdev_issue_flush ext4_sync_file do_fsync",
        ),
        (
            Sleep::Request,
            "schedule_timeout io_schedule_timeout __iomap_dio_rw iomap_dio_rw ext4_file_write_iter",
        ),
        (
            Sleep::Lock,
            "percpu_rwsem_wait __percpu_down_read lo_rw_aio loop_process_work process_one_work",
        ),
        (
            Sleep::Other,
            "schedule_timeout __wait_for_common wait_for_completion_state kernel_clone \
             __x64_sys_vfork",
        ),
        (
            Sleep::Other,
            "inode_dio_wait ext4_file_write_iter lo_rw_aio loop_process_work process_one_work",
        ),
    ];

    fn names(stack: &str) -> Vec<&str> {
        stack.split_ascii_whitespace().collect()
    }

    #[test]
    fn stacks_that_were_seen_are_told_apart() {
        for (sleep, stack) in SEEN {
            assert_eq!(classify(&names(stack)), *sleep, "{stack}");
        }
    }

    #[test]
    fn functions_that_are_not_known_change_nothing() {
        let known = functions();
        for (sleep, stack) in SEEN {
            let kept: Vec<&str> = names(stack)
                .into_iter()
                .filter(|name| known.contains(name))
                .collect();
            assert_eq!(classify(&kept), *sleep, "{stack}");
        }
    }

    /// Memory is reclaimed on behalf of whoever needs it: what the task waits for then is not its own.
    #[test]
    fn whatever_is_waited_for_in_reclaim_is_memory() {
        for (_, stack) in SEEN {
            let within = format!("{stack} shrink_node try_to_free_pages __alloc_pages_noprof");
            assert_eq!(classify(&names(&within)), Sleep::Memory);
        }
    }

    #[test]
    fn each_function_has_one_role() {
        let mut known = functions();
        known.sort_unstable();
        let listed = known.len();
        known.dedup();
        assert_eq!(known.len(), listed);
    }
}
