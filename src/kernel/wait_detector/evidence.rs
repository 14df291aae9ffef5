//! From the evidence that the programs have collected of a wait to what it was for.

use super::skel::types::{pf_wait, pf_wait_inode, pf_wait_request, pf_wait_task};
use super::stack::Sleep;
use crate::kernel::record_bytes::{self, Plain};
use crate::model::{PAGE_SIZE, SECTORS_PER_PAGE, Wait, WaitCause, WaitTask};

// SAFETY: a struct of `bpf/waits.h`, which has nothing but integers and arrays of them.
unsafe impl Plain for pf_wait {}

/// Reads a report. `None` if it is none, which only a mismatch between the compiled BPF object and this program
/// could cause.
pub(super) fn parse(record: &[u8]) -> Option<pf_wait> {
    record_bytes::read(record, size_of::<pf_wait>())
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

fn is_metadata(page: &pf_wait_inode) -> bool {
    page.dev != 0 && page.is_metadata != 0
}

/// Whether the page was in the task's own synchronous write: then nobody has begun to write it before.
fn is_own_write(raw: &pf_wait) -> bool {
    let (page, request) = (&raw.page, &raw.request);
    let pages = u64::from(request.bytes).div_ceil(PAGE_SIZE).max(1);
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
            block: is_metadata(inode).then(|| inode.index * SECTORS_PER_PAGE),
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

/// Names a task, whose own choice of a name may be no text.
fn task(raw: &pf_wait_task) -> WaitTask {
    let name: Vec<u8> = raw.name.iter().map(|&byte| byte as u8).collect();
    let end = name.iter().position(|&byte| byte == 0);
    WaitTask {
        pid: raw.pid,
        tid: raw.tid,
        comm: String::from_utf8_lossy(&name[..end.unwrap_or(name.len())]).into_owned(),
        uid: raw.uid,
    }
}
