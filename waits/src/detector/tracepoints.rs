//! Which tracepoints the running kernel has, and what it cannot tell without the others.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use paralfetch::kernel::{TraceError, VMLINUX_BTF};

/// Type information of modules that a kernel may have ext4 and its journal in.
const MODULES: [&str; 2] = ["/sys/kernel/btf/ext4", "/sys/kernel/btf/jbd2"];

/// What the detector cannot do without.
const NEEDED: [&str; 2] = ["sched_switch", "sched_process_fork"];

/// What cannot be told where all of these tracepoints are missing.
const MISSING: [(&[&str], &str); 10] = [
    (
        &["folio_wait_writeback"],
        "which file's page a task waits for while it is written, and who wrote it",
    ),
    (
        &["contention_begin"],
        "who holds the lock that a task waits for",
    ),
    (
        &["ext4_sync_file_enter", "ext4_truncate_enter"],
        "which file an fsync or a truncate that waits is about (is ext4 loaded?)",
    ),
    (
        &["ext4_journal_start_inode"],
        "for which file a journal handle is wanted: only the file system",
    ),
    (
        &[
            "ext4_journal_start",
            "ext4_journal_start_sb",
            "ext4_journal_start_inode",
        ],
        "for which file system a journal handle is wanted, and who holds the transaction up (is ext4 loaded?)",
    ),
    (
        &["jbd2_handle_stats", "jbd2_commit_locking"],
        "who holds the handle that a task waits for (is jbd2 loaded?)",
    ),
    (
        &["block_rq_issue"],
        "whether a request is in the scheduler or in the drive, and whose writes a drive is busy with",
    ),
    (
        &["block_rq_insert"],
        "whether a request is in the scheduler or in the drive",
    ),
    (
        &["block_bio_queue"],
        "for which drive a task waits for a place in the queue",
    ),
    (&["writeback_dirty_folio"], "who wrote to a file"),
];

/// The tracepoints of the running kernel that programs can be attached to.
pub(super) struct Tracepoints(HashSet<String>);

impl Tracepoints {
    /// Reads their names from the type information of the kernel and of ext4's modules.
    ///
    /// # Errors
    /// When the kernel's own cannot be read, or has not those that the detector rests on.
    pub fn read() -> Result<Self, TraceError> {
        let mut names = HashSet::new();
        let kernel = fs::read(VMLINUX_BTF)
            .map_err(|error| TraceError::system("reading the kernel's BTF", error))?;
        add_tracepoints(&kernel, &mut names);
        for module in MODULES.iter().filter(|module| Path::new(module).exists()) {
            let module = fs::read(module)
                .map_err(|error| TraceError::system("reading the BTF of ext4's modules", error))?;
            add_tracepoints(&module, &mut names);
        }
        match NEEDED.into_iter().find(|name| !names.contains(*name)) {
            Some(name) => Err(TraceError::NoTracepoint(name)),
            None => Ok(Tracepoints(names)),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// What this kernel cannot tell, a clause each.
    pub fn missing(&self) -> Vec<String> {
        let lacks = |names: &[&str]| !names.iter().any(|name| self.has(name));
        MISSING
            .iter()
            .filter(|(names, _)| lacks(names))
            .map(|(_, what)| (*what).to_owned())
            .collect()
    }
}

/// Adds the tracepoints of a file of type information: for each there is a type `btf_trace_NAME`. All names stand
/// in one section, each with a zero behind it (Documentation/bpf/btf.rst).
fn add_tracepoints(btf: &[u8], names: &mut HashSet<String>) {
    let Some(strings) = string_section(btf) else {
        return;
    };
    let found = strings
        .split(|byte| *byte == 0)
        .filter_map(|name| std::str::from_utf8(name.strip_prefix(b"btf_trace_")?).ok());
    names.extend(found.map(str::to_owned));
}

fn string_section(btf: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes = btf.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(bytes)).ok()
    };
    let header = word(4)?;
    let start = header.checked_add(word(16)?)?;
    btf.get(start..start.checked_add(word(20)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn btf(strings: &[u8]) -> Vec<u8> {
        let words = [0x0001_eb9f, 24, 0, 4, 4, strings.len() as u32];
        let header = words.iter().flat_map(|word: &u32| word.to_ne_bytes());
        header
            .chain([0; 4])
            .chain(strings.iter().copied())
            .collect()
    }

    #[test]
    fn tracepoints_are_found_by_their_types() {
        let mut names = HashSet::new();
        let strings =
            b"\0int\0btf_trace_sched_switch\0my_btf_trace_x\0btf_trace_contention_begin\0";
        add_tracepoints(&btf(strings), &mut names);
        let expected = ["sched_switch", "contention_begin"].map(str::to_owned);
        assert_eq!(names, HashSet::from(expected));
    }

    #[test]
    fn damaged_type_information_has_none() {
        let whole = btf(b"\0btf_trace_sched_switch\0");
        for cut in 0..whole.len() {
            let mut names = HashSet::new();
            add_tracepoints(&whole[..cut], &mut names);
            assert!(names.is_empty(), "{cut}");
        }
    }

    #[test]
    fn what_is_missing_is_said_once() {
        let all = MISSING.iter().flat_map(|(names, _)| names.iter());
        let all: HashSet<String> = all.map(|name| (*name).to_owned()).collect();
        assert!(Tracepoints(all.clone()).missing().is_empty());
        let mut older = all;
        older.remove("ext4_journal_start_inode");
        older.remove("ext4_journal_start_sb");
        let missing = Tracepoints(older).missing();
        assert_eq!(
            missing,
            ["for which file a journal handle is wanted: only the file system"]
        );
        assert_eq!(Tracepoints(HashSet::new()).missing().len(), MISSING.len());
    }
}
