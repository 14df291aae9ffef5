//! From the evidence that the programs have collected of a wait to what it was for.

use std::ptr;

use paralfetch::model::shown;

use super::skel::types::{pf_wait, pf_wait_inode, pf_wait_request, pf_wait_task};
use super::stack::Sleep;
use crate::{Wait, WaitCause, WaitTask};

/// The block layer counts in these, whatever the drive's own blocks are.
const SECTOR: u64 = 512;

/// Reads a report. `None` if it is none, which only a mismatch between the compiled BPF object and this program
/// could cause.
pub(super) fn parse(record: &[u8]) -> Option<pf_wait> {
    let record = record.get(..size_of::<pf_wait>())?;
    // SAFETY: so many bytes, and any are a value: `bpf/waits.h` has nothing but integers and arrays of them.
    Some(unsafe { ptr::read_unaligned(record.as_ptr().cast()) })
}

/// The return addresses of a report.
pub(super) fn stack(raw: &pf_wait) -> &[u64] {
    let frames = raw.stack_bytes as usize / size_of::<u64>();
    &raw.stack[..frames.min(raw.stack.len())]
}

/// What was waited for, from the evidence that agrees with the stack.
pub(super) fn explain(raw: &pf_wait, sleep: Sleep, under_way: bool) -> Wait {
    let cause = cause(raw, sleep);
    let place = place(raw, cause);
    let whom = whom(raw, sleep, cause);
    Wait {
        task: task(&raw.task),
        cause,
        start_ns: raw.start_ns,
        duration_ns: raw.duration_ns,
        device: place.device,
        inode: place.inode,
        block: place.block,
        for_whom: whom.filter(|whom| whom.tid != 0).map(task),
        under_way,
    }
}

fn cause(raw: &pf_wait, sleep: Sleep) -> WaitCause {
    match sleep {
        Sleep::PageWriteback if is_own_write(raw) => phase(raw).unwrap_or(WaitCause::Sync),
        Sleep::PageWriteback if is_metadata(&raw.page) => WaitCause::Metadata,
        Sleep::PageWriteback => WaitCause::Sync,
        Sleep::StablePage if is_metadata(&raw.page) => WaitCause::Metadata,
        Sleep::StablePage => WaitCause::Data,
        Sleep::BufferLock => WaitCause::Metadata,
        Sleep::Buffer => phase(raw).unwrap_or(WaitCause::Metadata),
        Sleep::PageRead | Sleep::Request => phase(raw).unwrap_or(WaitCause::Drive),
        Sleep::Shadow => WaitCause::JournalBuffer,
        Sleep::Handle => WaitCause::JournalHandle,
        Sleep::Commit => WaitCause::JournalCommit,
        Sleep::Space => WaitCause::JournalSpace,
        Sleep::Tag => WaitCause::Tag,
        Sleep::Throttle => WaitCause::WritebackThrottle,
        Sleep::Dirty => WaitCause::DirtyThrottle,
        Sleep::Memory => WaitCause::MemoryThrottle,
        Sleep::Discard => WaitCause::Discard,
        Sleep::Lock | Sleep::PageLock => WaitCause::Lock,
        Sleep::Other => WaitCause::Unknown,
    }
}

/// Bytes of the kernel's pages, in which indexes of pages count.
fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn is_metadata(page: &pf_wait_inode) -> bool {
    page.dev != 0 && page.is_metadata != 0
}

/// Whether the page was in the task's own synchronous write: then nobody has begun to write it before.
fn is_own_write(raw: &pf_wait) -> bool {
    let (page, request) = (&raw.page, &raw.request);
    let pages = u64::from(request.bytes).div_ceil(page_bytes()).max(1);
    request.is_write != 0
        && page.mapping != 0
        && page.mapping == request.mapping
        && (request.index..request.index.saturating_add(pages)).contains(&page.index)
}

/// Where the task's own request was for most of the wait. `None` if it has made none.
fn phase(raw: &pf_wait) -> Option<WaitCause> {
    let request = &raw.request;
    if request.dev == 0 {
        return None;
    }
    let end = raw.start_ns.saturating_add(raw.duration_ns);
    let within = |time: u64| match time {
        0 => end,
        time => time.clamp(raw.start_ns, end),
    };
    let inserted = within(request.inserted_ns);
    let issued = within(request.issued_ns);
    let completed = within(request.completed_ns);
    let queued = issued.saturating_sub(inserted);
    let in_drive = completed.saturating_sub(issued);
    Some(match queued > in_drive {
        true => WaitCause::Scheduler,
        false => WaitCause::Drive,
    })
}

#[derive(Default)]
struct WaitPlace {
    device: Option<u32>,
    inode: Option<u64>,
    block: Option<u64>,
}

impl WaitPlace {
    fn file(inode: &pf_wait_inode) -> Self {
        WaitPlace {
            device: known(inode.dev),
            inode: (inode.dev != 0 && inode.is_metadata == 0)
                .then_some(inode.ino)
                .filter(|&ino| ino != 0),
            block: is_metadata(inode).then(|| inode.index * (page_bytes() / SECTOR)),
        }
    }

    fn request(request: &pf_wait_request) -> Self {
        WaitPlace {
            device: known(request.dev),
            inode: Some(request.ino).filter(|&ino| ino != 0),
            block: (request.dev != 0).then_some(request.sector),
        }
    }

    /// Where the last bio went: its index is the sector.
    fn bio(bio: &pf_wait_inode) -> Self {
        WaitPlace {
            device: known(bio.dev),
            inode: None,
            block: (bio.dev != 0).then_some(bio.index),
        }
    }
}

fn known(dev: u32) -> Option<u32> {
    (dev != 0).then_some(dev)
}

fn place(raw: &pf_wait, cause: WaitCause) -> WaitPlace {
    use WaitCause as C;
    match cause {
        C::Sync | C::Data if raw.page.dev != 0 => WaitPlace::file(&raw.page),
        C::Metadata if is_metadata(&raw.page) => WaitPlace::file(&raw.page),
        C::Sync
        | C::Data
        | C::Metadata
        | C::JournalHandle
        | C::JournalCommit
        | C::JournalBuffer
        | C::JournalSpace => WaitPlace::file(&raw.operation),
        C::Scheduler | C::Drive => WaitPlace::request(&raw.request),
        C::Tag | C::WritebackThrottle | C::Discard => WaitPlace::bio(&raw.bio),
        C::DirtyThrottle | C::MemoryThrottle | C::Lock | C::Unknown => WaitPlace::default(),
    }
}

/// Who is waited for; a task does not wait for itself.
fn whom(raw: &pf_wait, sleep: Sleep, cause: WaitCause) -> Option<&pf_wait_task> {
    use WaitCause as C;
    let other = |task: &&pf_wait_task| task.tid != 0 && task.tid != raw.task.tid;
    let drive_writer = Some(&raw.drive_writer).filter(other);
    match cause {
        C::JournalHandle => Some(&raw.handle_holder).filter(other),
        C::Lock if sleep == Sleep::Lock => Some(&raw.lock_holder).filter(other),
        C::Sync | C::Data => Some(&raw.page_writer).filter(other).or(drive_writer),
        C::DirtyThrottle | C::MemoryThrottle | C::Unknown => None,
        _ => drive_writer,
    }
}

/// Names a task. Its user chooses the name, which may be no text; what [`shown`] replaces is replaced.
fn task(raw: &pf_wait_task) -> WaitTask {
    let name: Vec<u8> = raw.name.iter().map(|&byte| byte as u8).collect();
    let end = name.iter().position(|&byte| byte == 0);
    let name = String::from_utf8_lossy(&name[..end.unwrap_or(name.len())]);
    WaitTask {
        pid: raw.pid,
        tid: raw.tid,
        comm: name.chars().map(shown).collect(),
        uid: raw.uid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty milliseconds, of task 7 of process 5.
    fn wait() -> pf_wait {
        pf_wait {
            start_ns: 1_000,
            duration_ns: 20_000_000,
            task: named(7, "app"),
            drive_writer: named(9, "writer"),
            ..Default::default()
        }
    }

    fn named(tid: u32, name: &str) -> pf_wait_task {
        let mut task = pf_wait_task {
            pid: 5,
            tid,
            uid: 1000,
            ..Default::default()
        };
        for (to, from) in task.name.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
        task
    }

    fn page(ino: u64, index: u64) -> pf_wait_inode {
        pf_wait_inode {
            dev: 0x0080_0001,
            ino,
            index,
            mapping: 0xffff_8880_0000_1000,
            ..Default::default()
        }
    }

    /// Times in milliseconds after the beginning of the wait.
    fn request(inserted: u64, issued: u64, completed: u64) -> pf_wait_request {
        let at = |ms: u64| 1_000 + ms * 1_000_000;
        pf_wait_request {
            dev: 0x0080_0001,
            tid: 7,
            sector: 4096,
            inserted_ns: at(inserted),
            issued_ns: at(issued),
            completed_ns: at(completed),
            bytes: 2 * page_bytes() as u32,
            ..Default::default()
        }
    }

    fn whom(wait: &Wait) -> Option<u32> {
        wait.for_whom.as_ref().map(|task| task.tid)
    }

    #[test]
    fn a_page_under_writeback_is_its_writers() {
        let mut raw = wait();
        raw.page = page(12, 3);
        raw.page_writer = named(8, "editor");
        let seen = explain(&raw, Sleep::PageWriteback, false);
        assert_eq!(seen.cause, WaitCause::Sync);
        assert_eq!((seen.device, seen.inode), (Some(0x0080_0001), Some(12)));
        assert_eq!(seen.task.comm, "app");
        assert_eq!(whom(&seen), Some(8));
        // Nobody waits for himself: then it is the drive that is busy.
        raw.page_writer = named(7, "app");
        assert_eq!(whom(&explain(&raw, Sleep::PageWriteback, true)), Some(9));
        assert_eq!(
            explain(&raw, Sleep::StablePage, true).cause,
            WaitCause::Data
        );
    }

    #[test]
    fn pages_of_the_block_device_are_metadata() {
        let mut raw = wait();
        raw.page = page(0x0080_0001, 3);
        raw.page.is_metadata = 1;
        let seen = explain(&raw, Sleep::PageWriteback, false);
        assert_eq!(seen.cause, WaitCause::Metadata);
        assert_eq!(
            (seen.inode, seen.block),
            (None, Some(3 * page_bytes() / SECTOR))
        );
    }

    #[test]
    fn a_page_of_its_own_synchronous_write_is_a_request() {
        let mut raw = wait();
        raw.page = page(12, 3);
        raw.request = request(0, 2, 20);
        raw.request.is_write = 1;
        raw.request.mapping = raw.page.mapping;
        raw.request.index = 2;
        let cause = |raw: &pf_wait| explain(raw, Sleep::PageWriteback, false).cause;
        assert_eq!(cause(&raw), WaitCause::Drive);
        // The request has two pages.
        raw.page.index = 4;
        assert_eq!(cause(&raw), WaitCause::Sync);
        raw.page.index = 2;
        raw.request.is_write = 0;
        assert_eq!(cause(&raw), WaitCause::Sync);
    }

    #[test]
    fn a_request_counts_where_it_was_for_most_of_the_wait() {
        let mut raw = wait();
        let cause = |raw: &pf_wait, sleep| explain(raw, sleep, false).cause;
        // Without a request of its own, somebody else reads the page.
        assert_eq!(cause(&raw, Sleep::PageRead), WaitCause::Drive);
        assert_eq!(cause(&raw, Sleep::Buffer), WaitCause::Metadata);
        raw.request = request(0, 15, 20);
        assert_eq!(cause(&raw, Sleep::PageRead), WaitCause::Scheduler);
        assert_eq!(cause(&raw, Sleep::Buffer), WaitCause::Scheduler);
        raw.request = request(0, 5, 20);
        assert_eq!(cause(&raw, Sleep::PageRead), WaitCause::Drive);
        let seen = explain(&raw, Sleep::PageRead, false);
        assert_eq!((seen.block, whom(&seen)), (Some(4096), Some(9)));
        // It stands there still.
        raw.request.issued_ns = 0;
        raw.request.completed_ns = 0;
        assert_eq!(cause(&raw, Sleep::PageRead), WaitCause::Scheduler);
    }

    #[test]
    fn evidence_counts_only_where_the_stack_agrees() {
        let mut raw = wait();
        raw.page = page(12, 3);
        raw.page_writer = named(8, "editor");
        raw.operation = page(13, 0);
        raw.lock_holder = named(3, "locker");
        raw.handle_holder = named(4, "holder");
        let seen = |sleep| explain(&raw, sleep, false);
        assert_eq!(whom(&seen(Sleep::Lock)), Some(3));
        assert_eq!(whom(&seen(Sleep::PageLock)), Some(9));
        assert_eq!(whom(&seen(Sleep::Handle)), Some(4));
        assert_eq!(whom(&seen(Sleep::Dirty)), None);
        assert_eq!(whom(&seen(Sleep::Other)), None);
        assert_eq!(seen(Sleep::Commit).inode, Some(13));
        assert_eq!(seen(Sleep::Other).device, None);
    }

    #[test]
    fn names_of_tasks_have_no_control_characters() {
        let mut raw = wait();
        raw.task = named(7, "a\x1b[2J");
        raw.page = page(12, 3);
        // CSI as one character.
        raw.page_writer = named(8, "b\u{9b}2J\n");
        let seen = explain(&raw, Sleep::PageWriteback, false);
        assert_eq!(seen.task.comm, "a\u{fffd}[2J");
        let writer = seen.for_whom.map(|task| task.comm);
        assert_eq!(writer.as_deref(), Some("b\u{fffd}2J\u{fffd}"));
    }

    #[test]
    fn stacks_end_where_they_were_filled() {
        let mut raw = wait();
        assert!(stack(&raw).is_empty());
        raw.stack_bytes = 24;
        assert_eq!(stack(&raw).len(), 3);
        raw.stack_bytes = u32::MAX;
        assert_eq!(stack(&raw).len(), raw.stack.len());
    }

    #[test]
    fn short_records_are_no_reports() {
        let raw = wait();
        // SAFETY: an initialised struct of integers that leave no gaps.
        let record = unsafe {
            std::slice::from_raw_parts((&raw const raw).cast::<u8>(), size_of::<pf_wait>())
        };
        assert_eq!(parse(record).map(|raw| raw.duration_ns), Some(20_000_000));
        assert!(parse(&record[1..]).is_none());
    }
}
