//! A wait: a task that slept uninterruptibly, for how long, for what, and whose write it waited for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a task waited for. [`WaitDetector`](crate::WaitDetector) says how each is told from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCause {
    /// Pages of a file under writeback, in fsync(2), truncate(2) and the like (the paper's D_sync).
    Sync,
    /// A metadata block that is being written or read: inode table, directory, bitmap, extents (D_meta).
    Metadata,
    /// A page of a file under writeback that a write(2) or a write fault wants to change (D_data).
    Data,
    /// A discard of freed blocks (D_discard).
    Discard,
    /// A handle of the journal: the running transaction is locked until its handles are stopped.
    JournalHandle,
    /// The commit of a transaction of the journal.
    JournalCommit,
    /// A metadata buffer that the committing transaction writes to the journal (a shadow buffer).
    JournalBuffer,
    /// Room in the journal: a checkpoint writes its oldest transactions in place.
    JournalSpace,
    /// A tag of the drive's queue: as many requests are under way as it takes.
    Tag,
    /// Writeback throttling (wbt) or another limit of the block layer on writes.
    WritebackThrottle,
    /// The dirty limits: balance_dirty_pages makes writers sleep.
    DirtyThrottle,
    /// The memory cgroup's limit: memory.high makes its tasks sleep, or they reclaim and wait for writeback.
    MemoryThrottle,
    /// A lock that another task holds.
    Lock,
    /// The task's own request was queued in the I/O scheduler most of the time.
    Scheduler,
    /// The task's own request was in the drive most of the time.
    Drive,
    /// Nothing of the above, or the kernel does not tell.
    Unknown,
}

impl WaitCause {
    /// All causes, in the order in which tables list them.
    pub const ALL: [WaitCause; 16] = [
        WaitCause::Sync,
        WaitCause::Metadata,
        WaitCause::Data,
        WaitCause::Discard,
        WaitCause::JournalHandle,
        WaitCause::JournalCommit,
        WaitCause::JournalBuffer,
        WaitCause::JournalSpace,
        WaitCause::Tag,
        WaitCause::WritebackThrottle,
        WaitCause::DirtyThrottle,
        WaitCause::MemoryThrottle,
        WaitCause::Lock,
        WaitCause::Scheduler,
        WaitCause::Drive,
        WaitCause::Unknown,
    ];

    /// Name of the cause in tables and in JSON, in kebab case.
    pub fn name(self) -> &'static str {
        match self {
            WaitCause::Sync => "sync",
            WaitCause::Metadata => "metadata",
            WaitCause::Data => "data",
            WaitCause::Discard => "discard",
            WaitCause::JournalHandle => "journal-handle",
            WaitCause::JournalCommit => "journal-commit",
            WaitCause::JournalBuffer => "journal-buffer",
            WaitCause::JournalSpace => "journal-space",
            WaitCause::Tag => "tag",
            WaitCause::WritebackThrottle => "writeback-throttle",
            WaitCause::DirtyThrottle => "dirty-throttle",
            WaitCause::MemoryThrottle => "memory-throttle",
            WaitCause::Lock => "lock",
            WaitCause::Scheduler => "scheduler",
            WaitCause::Drive => "drive",
            WaitCause::Unknown => "unknown",
        }
    }

    /// One line for a person who reads the name for the first time.
    pub fn explanation(self) -> &'static str {
        match self {
            WaitCause::Sync => "pages of a file that are being written (fsync, truncate)",
            WaitCause::Metadata => "a metadata block that is being written or read",
            WaitCause::Data => "a page that is being written and that the task wants to change",
            WaitCause::Discard => "a discard of freed blocks",
            WaitCause::JournalHandle => {
                "a journal handle: a transaction is closed, others still use it"
            }
            WaitCause::JournalCommit => "the commit of a journal transaction",
            WaitCause::JournalBuffer => "a metadata buffer that a commit is writing to the journal",
            WaitCause::JournalSpace => "room in the journal: a checkpoint is under way",
            WaitCause::Tag => "a free place in the drive's queue",
            WaitCause::WritebackThrottle => "the block layer's limit on writes (wbt)",
            WaitCause::DirtyThrottle => "the limit on dirty memory: the writer is slowed down",
            WaitCause::MemoryThrottle => "the memory limit of its cgroup",
            WaitCause::Lock => "a lock that another task holds",
            WaitCause::Scheduler => "its own request, queued in the I/O scheduler",
            WaitCause::Drive => "its own request, in the drive",
            WaitCause::Unknown => "something else, or the kernel does not tell",
        }
    }
}

impl fmt::Display for WaitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A task of a wait: who waits, or for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitTask {
    /// Process, as the initial pid namespace numbers it.
    pub pid: u32,
    /// Thread, as the initial pid namespace numbers it.
    pub tid: u32,
    /// The thread's name.
    pub comm: String,
    /// User of the task, as the initial user namespace numbers it.
    pub uid: u32,
}

/// One wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Who waits.
    pub task: WaitTask,
    /// What for.
    pub cause: WaitCause,
    /// When it began, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// How long it took, or has taken so far, in nanoseconds.
    pub duration_ns: u64,
    /// Device of the request or of the inode, the kernel's dev_t ((major << 20) | minor).
    pub device: Option<u32>,
    /// Number of the inode, if the wait was for a file's pages.
    pub inode: Option<u64>,
    /// Block of the device in units of 512 bytes, if the wait was for a request or a buffer.
    pub block: Option<u64>,
    /// The holder of the handle or lock, or the task whose write was waited for.
    pub for_whom: Option<WaitTask>,
    /// Whether the wait has not ended yet.
    pub under_way: bool,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_cause_is_listed_once_and_named_as_in_json() {
        let names: HashSet<&str> = WaitCause::ALL.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), WaitCause::ALL.len());
        for cause in WaitCause::ALL {
            let json = serde_json::to_string(&cause).unwrap();
            assert_eq!(json, format!("\"{}\"", cause.name()));
            assert!(!cause.explanation().is_empty() && !cause.explanation().contains('\n'));
        }
    }
}
