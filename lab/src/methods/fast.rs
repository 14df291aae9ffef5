//! FAST's application prefetcher at work (§4.3): system calls by path.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use paralfetch::drive::Sysfs;
use paralfetch::fs::blockdev;
use paralfetch::fs::mounts::MountTable;
use paralfetch::model::{PAGE_SIZE, Place, PrefetchReport, Profile, Skipped, Span};
use rustix::fs::{Advice, Dir, Mode, OFlags, ResolveFlags, fadvise, fstat, openat2};
use rustix::io::Errno;

use super::calls::{Call, Calls};

/// A prefetcher under way.
pub struct Walk<'a> {
    /// The directory that paths begin at.
    pub root: OwnedFd,
    /// Where the paths of files are.
    pub profile: &'a Profile,
    /// Pages that are not to be read.
    pub left_out: Option<Span>,
    /// Set by others to end the walk.
    pub stop: &'a AtomicBool,
}

/// What a walk has made so far.
struct Progress {
    /// Files by index, or why they cannot be opened. As in FAST's own, none is closed.
    files: HashMap<u32, Result<OwnedFd, Errno>>,
    /// The most that one posix_fadvise(2) reads, in 4 KiB pages.
    chunk: u64,
    report: PrefetchReport,
    begun: Instant,
}

impl Walk<'_> {
    /// Makes the calls, in order, until they end or `stop` is set.
    pub fn run(&self, calls: &Calls) -> PrefetchReport {
        let begun = Instant::now();
        let stat = fstat(&self.root).ok().zip(MountTable::read().ok());
        let drive = stat.map(|(stat, mounts)| blockdev::below(stat.st_dev, &mounts));
        // VM_READAHEAD_PAGES, the kernel's default, where sysfs does not say.
        let limit = drive.and_then(|drive| Sysfs::default().readahead_limit(drive));
        let mut progress = Progress {
            files: HashMap::new(),
            chunk: limit.unwrap_or(128 << 10) / PAGE_SIZE,
            report: PrefetchReport {
                scheduled: calls.calls.len() as u64,
                ..PrefetchReport::default()
            },
            begun,
        };
        if progress.chunk == 0 {
            progress.report.refused = Some(Skipped::ReadaheadOff.to_string());
        } else {
            for call in &calls.calls {
                if self.stop.load(Ordering::Relaxed) {
                    progress.report.cut_short = true;
                    break;
                }
                self.call(call, calls, &mut progress);
            }
        }
        let mut report = progress.report;
        report.duration = begun.elapsed();
        report
    }

    fn call(&self, call: &Call, calls: &Calls, progress: &mut Progress) {
        progress
            .report
            .until_first
            .get_or_insert(progress.begun.elapsed());
        let done = match *call {
            Call::Open { path } => self.look_up(&calls.paths[path as usize]),
            Call::List { path } => self.list(&calls.paths[path as usize]),
            Call::Advise { span } => self.advise(span, progress),
        };
        progress.report.calls += 1;
        match done {
            Ok(pages) => {
                progress.report.data.entries += 1;
                progress.report.data.pages += pages;
            }
            Err(error) => {
                let why = match error {
                    // Of the two last, a link has taken its place.
                    Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::LOOP | Errno::XDEV => {
                        Skipped::Gone
                    }
                    _ => Skipped::Refused,
                };
                progress.report.skipped.entry(why).or_default().entries += 1;
            }
        }
    }

    /// Open with O_PATH reads the inode, and is harmless for whatever may be there by now.
    fn look_up(&self, path: &[u8]) -> Result<u64, Errno> {
        open_below(self.root.as_fd(), path, OFlags::PATH | OFlags::NOFOLLOW)?;
        Ok(1)
    }

    fn list(&self, path: &[u8]) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME;
        let directory = open_below(self.root.as_fd(), path, flags)?;
        for entry in Dir::read_from(&directory)? {
            entry?;
        }
        let size = fstat(&directory)?.st_size;
        Ok(size.unsigned_abs().div_ceil(PAGE_SIZE))
    }

    fn advise(&self, span: Span, progress: &mut Progress) -> Result<u64, Errno> {
        let Place::Data { file } = span.place else {
            return Err(Errno::INVAL);
        };
        let fd = self.file(file, &mut progress.files)?;
        let mut pages = 0;
        for part in cut_out(span, self.left_out) {
            let mut start = part.start;
            while start < part.end() {
                let len = progress.chunk.min(part.end() - start);
                let bytes = NonZeroU64::new(len * PAGE_SIZE);
                fadvise(fd, start * PAGE_SIZE, bytes, Advice::WillNeed)?;
                pages += len;
                start += len;
            }
        }
        Ok(pages)
    }

    fn file<'a>(
        &self,
        file: u32,
        files: &'a mut HashMap<u32, Result<OwnedFd, Errno>>,
    ) -> Result<BorrowedFd<'a>, Errno> {
        if !files.contains_key(&file) {
            let path = self.profile.files[file as usize].path.as_deref();
            let path = path.ok_or(Errno::NOENT)?;
            // Nothing but a regular file was learned; NONBLOCK is for a FIFO in its place.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOATIME;
            let mut opened = open_below(self.root.as_fd(), path, flags);
            if opened.as_ref().err() == Some(&Errno::MFILE) {
                files.clear();
                opened = open_below(self.root.as_fd(), path, flags);
            }
            files.insert(file, opened);
        }
        let opened = files[&file].as_ref();
        opened.map(AsFd::as_fd).map_err(|error| *error)
    }
}

/// Opens an absolute path as after chroot(2) into `root`: as the app's own system calls would.
pub fn open_below(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// The directory that an image's paths begin at.
pub fn open_root(root: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty())
}

/// The parts of a span before and after a hole.
fn cut_out(span: Span, hole: Option<Span>) -> impl Iterator<Item = Span> {
    let (from, to) = match hole {
        Some(hole) if hole.place == span.place => (
            hole.start.clamp(span.start, span.end()),
            hole.end().clamp(span.start, span.end()),
        ),
        _ => (span.end(), span.end()),
    };
    [(span.start, from), (to, span.end())]
        .into_iter()
        .filter(|(start, end)| start < end)
        .map(move |(start, end)| Span {
            start,
            len: end - start,
            ..span
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::samples::learned_set;
    use super::*;

    #[test]
    fn what_is_gone_and_what_the_kernel_refuses_are_told_apart_at_each_call() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
        let mut profile = learned_set(&[(0, 0, 1)], false).profile;
        profile.files[0].path = Some(b"/socket".to_vec());
        profile.files[1].path = Some(b"/gone".to_vec());
        let advise = |file, start| Call::Advise {
            span: Span::new(Place::Data { file }, start..start + 1),
        };
        let calls = Calls {
            calls: vec![advise(0, 0), advise(0, 1), advise(1, 0), advise(1, 1)],
            ..Calls::default()
        };
        let walk = Walk {
            root: open_root(dir.path()).unwrap(),
            profile: &profile,
            left_out: None,
            stop: &AtomicBool::new(false),
        };
        let report = walk.run(&calls);
        for why in [Skipped::Gone, Skipped::Refused] {
            let skipped = report.skipped.get(&why);
            assert_eq!(skipped.map(|count| count.entries), Some(2), "{report:?}");
        }
    }

    #[test]
    fn the_left_out_page_is_cut_out_wherever_it_lies() {
        let span = |start, len| Span {
            place: Place::Data { file: 3 },
            start,
            len,
        };
        let parts = |hole| cut_out(span(10, 5), hole).collect::<Vec<_>>();
        assert_eq!(parts(None), [span(10, 5)]);
        assert_eq!(parts(Some(span(10, 1))), [span(11, 4)]);
        assert_eq!(parts(Some(span(12, 1))), [span(10, 2), span(13, 2)]);
        assert_eq!(parts(Some(span(14, 1))), [span(10, 4)]);
        assert_eq!(parts(Some(span(15, 1))), [span(10, 5)]);
        let other = Span {
            place: Place::Data { file: 4 },
            ..span(12, 1)
        };
        assert_eq!(parts(Some(other)), [span(10, 5)]);
    }
}
