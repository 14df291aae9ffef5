//! `flashsim`, the process that answers for an emulated drive: a FUSE file system of one file.
//!
//! It shares the processors with the launches that are measured, so it must be lean: data go from the
//! content to the kernel without a copy in between, and threads are woken as rarely as possible
//! (see [`Pending`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request as Caller, Session, WriteFlags,
};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::set_current_timer_slack;

use super::content::Content;
use super::control::OK;
use super::model::{Model, Operation, Request};
use super::pending::{Answer, Pending};
use super::profile::DriveProfile;
use crate::clock::monotonic_ns as now;
use crate::namespace::private_namespace;

/// Name of the one file.
pub(super) const FILE: &str = "image";
const FILE_INODE: INodeNo = INodeNo(2);

/// The kernel asks again for what is older; nothing here ever changes.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// The largest read or write request, in bytes; what FUSE does by default, too.
const MAX_REQUEST: u32 = 1 << 20;

/// Requests under way in FUSE at most; above any queue depth of ours.
const MAX_BACKGROUND: u16 = 256;

/// One that waits for completions, one that takes requests. A third gained nothing.
const THREADS: usize = 2;

/// The body of `lab flashsim IMAGE DIRECTORY PROFILE`: serves a copy of the image on the directory, as the
/// profile (JSON) says, until the file system is unmounted or standard input ends.
pub fn serve(args: &[String]) -> Result<()> {
    let [image, directory, profile] = args else {
        bail!("flashsim takes an image, a directory and a profile; it is started by lab itself");
    };
    set_parent_process_death_signal(Some(Signal::KILL)).context("PR_SET_PDEATHSIG")?;
    // For all threads, which inherit it: the default of 50 µs is half of a flash read.
    set_current_timer_slack(NonZeroU64::new(1)).context("PR_SET_TIMERSLACK")?;
    let profile: DriveProfile = serde_json::from_str(profile).context("the drive's profile")?;
    let file = File::open(image).with_context(|| format!("opening {image}"))?;
    let content = Content::load(&file).with_context(|| format!("loading {image}"))?;
    let mut model = Model::new(&profile, content.len())?;
    for extent in content.extents() {
        model.occupy(extent.start, extent.end - extent.start);
    }
    let drive = Arc::new(Drive {
        content,
        pending: Pending::new(model),
    });

    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.mount_options = vec![MountOption::FSName("flashsim".into())];
    let session = Session::new(Server(drive.clone()), Path::new(directory), &config)
        .with_context(|| format!("mounting on {directory}: FUSE needs root and /dev/fuse"))?;
    leave_mounts(Path::new(directory))?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || obey(&drive))
        .context("starting a thread")?;
    match session.run() {
        // The connection has ended while a thread waited for a request: the drive is unmounted, as at the end of a session.
        Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
        ended => ended.context("serving"),
    }
}

/// Moves this process, which must have one thread only, into a mount namespace of its own that does not
/// show the drive. Otherwise the end of a killed session could make it the last to hold the mounts: its
/// exit would then unmount the file system that lies on the drive which it serves, and wait for itself.
fn leave_mounts(directory: &Path) -> Result<()> {
    private_namespace()?;
    unmount(directory, UnmountFlags::DETACH).context("hiding the drive from its emulator")
}

/// Carries out the commands of standard input. Its end or a malformed command ends the process: its
/// parent is gone or broken.
fn obey(drive: &Drive) {
    if let Err(error) = obey_lines(drive) {
        eprintln!("flashsim: {error:#}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

fn obey_lines(drive: &Drive) -> Result<()> {
    let mut answers = std::io::stdout();
    writeln!(answers, "{OK}").context("answering")?;
    for line in std::io::stdin().lines() {
        drive.pending.set_pace(line.context("listening")?.parse()?);
        writeln!(answers, "{OK}").context("answering")?;
    }
    Ok(())
}

struct Drive {
    content: Content,
    pending: Pending<Reply>,
}

/// How the kernel is answered.
enum Reply {
    Read {
        drive: Arc<Drive>,
        offset: u64,
        size: u32,
        reply: ReplyData,
    },
    Write {
        size: u32,
        reply: ReplyWrite,
    },
    /// Of a flush or a discard.
    Done(ReplyEmpty),
}

impl Answer for Reply {
    fn answer(self) {
        match self {
            Reply::Read {
                drive,
                offset,
                size,
                reply,
            } => reply.data(drive.content.slice(offset, size)),
            Reply::Write { size, reply } => reply.written(size),
            Reply::Done(reply) => reply.ok(),
        }
    }
}

struct Server(Arc<Drive>);

impl Server {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let file = inode == FILE_INODE;
        let size = if file { self.0.content.len() } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _caller: &Caller, config: &mut KernelConfig) -> std::io::Result<()> {
        let refused =
            |what: &str| std::io::Error::other(anyhow!("this kernel's FUSE has no {what}"));
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES)
            .map_err(|_| refused("asynchronous direct I/O"))?;
        config
            .set_max_write(MAX_REQUEST)
            .map_err(|_| refused("requests of 1 MiB"))?;
        config
            .set_max_background(MAX_BACKGROUND)
            .map_err(|_| refused("deep queue"))?;
        Ok(())
    }

    fn lookup(&self, _caller: &Caller, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE {
            let attributes = self.attributes(FILE_INODE);
            reply.entry(&FOREVER, &attributes, Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Caller, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn open(&self, _caller: &Caller, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Without the page cache, and several writes at a time: the loop device's requests as they are.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _caller: &Caller,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let request = Request {
            offset,
            length: u64::from(size),
            operation: Operation::Read,
            arrival: now(),
        };
        let answer = Reply::Read {
            drive: self.0.clone(),
            offset,
            size,
            reply,
        };
        self.0.pending.take(request, answer);
    }

    fn write(
        &self,
        _caller: &Caller,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let request = Request {
            offset,
            length: data.len() as u64,
            operation: Operation::Write,
            arrival: now(),
        };
        // Now, while the data are in the request's buffer. Nobody may expect the old content any more.
        if !self.0.content.write(offset, data) {
            return reply.error(Errno::ENOSPC);
        }
        let size = data.len() as u32;
        self.0.pending.take(request, Reply::Write { size, reply });
    }

    /// The loop device discards and writes zeros with this. It waits for the answer before it takes up
    /// other requests, as a drive does with a command that is not queued.
    fn fallocate(
        &self,
        _caller: &Caller,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let arrival = now();
        let kept = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let zeros = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if !kept || mode & zeros == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if let Err(error) = self.0.content.discard(offset, length) {
            eprintln!("flashsim: {error:#}");
            return reply.error(Errno::EIO);
        }
        let request = Request {
            offset,
            length,
            operation: Operation::Discard,
            arrival,
        };
        self.0.pending.take(request, Reply::Done(reply));
    }

    /// A flush of the loop device; answered when the drive's buffer is on the medium. The loop device waits
    /// for it, too.
    fn fsync(&self, _: &Caller, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let request = Request {
            offset: 0,
            length: 0,
            operation: Operation::Flush,
            arrival: now(),
        };
        self.0.pending.take(request, Reply::Done(reply));
    }

    fn flush(&self, _: &Caller, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
