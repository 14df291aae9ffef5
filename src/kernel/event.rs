//! From the bytes of a record to an event.

use rustix::fs::makedev;

use super::skel::types::{pf_by, pf_event, pf_kind};
use super::{path_record, record_bytes};
use crate::model::PAGE_SIZE;
use crate::model::PathUse;
use crate::model::{Access, By, Source};

/// One record of the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// An access to pages.
    Access(Access),
    /// A path that was looked up.
    Path(PathUse),
    /// The launch tree's last task exited, at this CLOCK_MONOTONIC time in nanoseconds.
    Exit(u64),
    /// A reason to fetch what was recorded, and nothing else.
    Wakeup,
}

/// Reads a record. `None` if it is not an event of the programs, which only a mismatch between the compiled BPF
/// object and this program could cause.
pub fn parse(record: &[u8], kernel_page_size: u64) -> Option<TraceEvent> {
    let raw: pf_event = record_bytes::read(record, size_of::<pf_event>())?;
    let kind = u32::from(raw.kind);
    if kind == pf_kind::PF_PATH.0 {
        return path_record::parse(record).map(TraceEvent::Path);
    }
    if kind == pf_kind::PF_EXIT.0 {
        return Some(TraceEvent::Exit(raw.time_ns));
    }
    if [pf_kind::PF_MOUNT_NS.0, pf_kind::PF_FULL.0].contains(&kind) {
        return Some(TraceEvent::Wakeup);
    }
    let source = if kind == pf_kind::PF_ADDED.0 {
        Source::Added
    } else if kind == pf_kind::PF_READ.0 {
        Source::Read
    } else if kind == pf_kind::PF_FAULT.0 {
        Source::Fault
    } else if kind == pf_kind::PF_FAULT_AROUND.0 {
        Source::Window
    } else {
        return None;
    };
    let by = match u32::from(raw.by) {
        by if by == pf_by::PF_TREE.0 => By::Tree,
        by if by == pf_by::PF_PREFETCHER.0 => By::Own,
        by if by == pf_by::PF_HELPER.0 => By::Helper,
        by if by == pf_by::PF_DAEMON.0 => By::Daemon,
        _ => By::Other,
    };
    // A kernel page of 16 or 64 KiB is several of ours.
    let scale = (kernel_page_size / PAGE_SIZE).max(1);
    Some(TraceEvent::Access(Access {
        time_ns: raw.time_ns,
        dev: user_dev(raw.dev),
        ino: raw.ino,
        generation: raw.generation,
        start: raw.start.checked_mul(scale)?,
        len: u64::from(raw.pages).checked_mul(scale)?,
        source,
        by,
    }))
}

/// The kernel's dev_t (12 bits of major, 20 of minor) in the encoding of `st_dev`.
pub fn user_dev(kernel_dev: u32) -> u64 {
    makedev(kernel_dev >> 20, kernel_dev & 0xf_ffff)
}

/// `st_dev`'s encoding as the kernel's dev_t.
pub fn kernel_dev(dev: u64) -> u32 {
    rustix::fs::major(dev) << 20 | rustix::fs::minor(dev)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_convert_both_ways() {
        for (major, minor) in [(8, 1), (259, 4), (7, 300), (0, 45)] {
            let dev = makedev(major, minor);
            assert_eq!(user_dev(kernel_dev(dev)), dev);
        }
        assert_eq!(kernel_dev(makedev(8, 3)), 0x0080_0003);
    }

    #[test]
    fn short_or_foreign_records_are_not_events() {
        assert_eq!(parse(&[], 4096), None);
        assert_eq!(parse(&[0; 8], 4096), None);
        assert_eq!(parse(&[0; size_of::<pf_event>()], 4096), None);
    }

    #[test]
    fn prefetchers_helpers_daemons_and_others_are_told_apart() {
        let event = |kind: pf_kind, by: pf_by| {
            let raw = pf_event {
                ino: 7,
                pages: 1,
                kind: kind.0 as u8,
                by: by.0 as u8,
                ..Default::default()
            };
            match parse(record_bytes::write(&raw), 4096) {
                Some(TraceEvent::Access(access)) => (access.source, access.by),
                other => panic!("{other:?}"),
            }
        };
        let prefetcher = event(pf_kind::PF_ADDED, pf_by::PF_PREFETCHER);
        assert_eq!(prefetcher, (Source::Added, By::Own));
        let other = event(pf_kind::PF_FAULT, pf_by::PF_OTHER);
        assert_eq!(other, (Source::Fault, By::Other));
        let helper = event(pf_kind::PF_READ, pf_by::PF_HELPER);
        assert_eq!(helper, (Source::Read, By::Helper));
        let daemon = event(pf_kind::PF_ADDED, pf_by::PF_DAEMON);
        assert_eq!(daemon, (Source::Added, By::Daemon));
    }

    #[test]
    fn larger_kernel_pages_become_several() {
        let raw = pf_event {
            ino: 7,
            start: 3,
            pages: 2,
            kind: pf_kind::PF_ADDED.0 as u8,
            by: pf_by::PF_TREE.0 as u8,
            ..Default::default()
        };
        let event = parse(record_bytes::write(&raw), 16384);
        let Some(TraceEvent::Access(access)) = event else {
            panic!("not an access");
        };
        assert_eq!((access.start, access.len), (12, 8));
        assert_eq!((access.source, access.by), (Source::Added, By::Tree));
    }
}
