//! The recorder: attaches the BPF programs around one launch and collects what they say.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{OpenObject, RingBuffer, RingBufferBuilder};
use paralfetch::fs::handle::{open_by_ino, path_in_fs};
use paralfetch::fs::mounts::{MountTable, fs_uuid};
use paralfetch::kernel::{StartMark, mark_tree_root};

use super::event::{Event, FileId, Raw, What, parse};
use super::ffi;
use super::skel::{TimelineSkel, TimelineSkelBuilder};

/// What the recorder cannot do without; the newest are of Linux 6.14.
const TRACEPOINTS: [&str; 12] = [
    "sched_switch",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "block_io_start",
    "block_rq_issue",
    "block_rq_complete",
    "block_touch_buffer",
    "mm_filemap_add_to_page_cache",
    "mm_filemap_get_pages",
    "mm_filemap_fault",
    "mm_filemap_map_pages",
];

/// Events fetched from the ring buffer.
#[derive(Default)]
struct Fetched {
    events: Vec<Event>,
    foreign: u64,
    ended: bool,
}

/// A recording, from its making to its end.
pub struct Recorder<'obj> {
    skel: TimelineSkel<'obj>,
    ring: RingBuffer<'static>,
    fetched: Rc<RefCell<Fetched>>,
    drive: u64,
    fs_uuid: [u8; 16],
}

impl<'obj> Recorder<'obj> {
    /// Loads and attaches the programs and makes the calling thread, which must be the process's
    /// main thread, the launcher: its child processes are the launch tree, its threads the helper.
    /// `dev` is the drive (or partition) whose requests are recorded, as `st_dev` of a file on it.
    ///
    /// # Errors
    /// Without root; what the kernel lacks; if no file system of the drive is mounted.
    pub fn attach(storage: &'obj mut MaybeUninit<OpenObject>, dev: u64) -> Result<Self> {
        paralfetch::kernel::check()?;
        let btf = Btf::from_vmlinux().context("cannot read the kernel's type information")?;
        for name in TRACEPOINTS {
            ensure!(
                btf.type_by_name::<BtfType<'_>>(&format!("btf_trace_{name}"))
                    .is_some(),
                "this kernel has no tracepoint {name}: timelines need Linux 6.14 or later"
            );
        }
        let mounted = MountTable::read()?
            .open_root(dev)
            .context("cannot open the file system whose launches are to be recorded: mount it")?;
        let fs_uuid = fs_uuid(mounted.fd.as_fd()).context("cannot ask for its UUID")?;
        drop(mounted);
        let mut open = TimelineSkelBuilder::default()
            .open(storage)
            .context("cannot open the timeline's BPF object")?;
        let page_bytes = rustix::param::page_size() as u64;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let rodata = rodata.context("the timeline's BPF object has no constants")?;
        rodata.drive_dev = rustix::fs::major(dev) << 20 | rustix::fs::minor(dev);
        rodata.page_bytes = page_bytes as u32;

        let bss = open.maps.bss_data.as_deref_mut();
        ffi::begin_launch(bss.context("the timeline's BPF object has no variables")?);

        let mut skel = open
            .load()
            .context("cannot load the timeline's BPF programs")?;
        mark_tree_root(&skel.maps.members, ffi::LAUNCH)?;
        let fetched = Rc::new(RefCell::new(Fetched::default()));
        let sink = Rc::clone(&fetched);
        let mut builder = RingBufferBuilder::new();
        builder.add(&skel.maps.events, move |record| {
            let mut fetched = sink.borrow_mut();
            match parse(record, page_bytes) {
                Some(event) => {
                    fetched.ended |= event.what == What::End;
                    fetched.events.push(event);
                }
                None => fetched.foreign += 1,
            }
            0
        })?;
        let ring = builder.build().context("cannot read the ring buffer")?;
        skel.attach()
            .context("cannot attach the timeline's BPF programs")?;
        Ok(Recorder {
            skel,
            ring,
            fetched,
            drive: dev,
            fs_uuid,
        })
    }

    /// What the child must set as its last act before execve. Not to be used once the recorder is
    /// gone.
    ///
    /// # Errors
    /// If the BPF object has no variables, which it has.
    pub fn start_mark(&mut self) -> Result<StartMark> {
        ffi::start_mark(&mut self.skel).context("the timeline's BPF object has no variables")
    }

    /// Readable once the launch tree has ended. Other events do not wake: [`Recorder::drain`]
    /// fetches them whenever it is called.
    pub fn wake_fd(&self) -> impl AsFd + '_ {
        ffi::WakeFd(&self.ring)
    }

    /// Fetches what has been recorded since the last call. The buffer holds some 800,000 events: call
    /// it every 50 ms or so.
    ///
    /// # Errors
    /// When the ring buffer cannot be read.
    pub fn drain(&mut self) -> Result<()> {
        self.ring.consume().context("cannot read the ring buffer")
    }

    /// Whether the launch tree's last task has exited, as far as has been fetched.
    pub fn has_ended(&self) -> bool {
        self.fetched.borrow().ended
    }

    /// Detaches the programs and returns what was recorded.
    ///
    /// # Errors
    /// When events were lost, or the app was never executed.
    pub fn finish(mut self) -> Result<Raw> {
        // Detach first, so that what is then in the buffer is all there is.
        self.skel.links = Default::default();
        self.drain()?;
        let Fetched {
            mut events,
            foreign,
            ..
        } = self.fetched.take();
        let bss = self.skel.maps.bss_data.as_deref();
        let bss = bss.context("the timeline's BPF object has no variables")?;
        let lost = bss.lost_events + bss.lost_tasks + foreign;
        ensure!(
            lost == 0,
            "{lost} events of the launch were lost: record it again on a quieter system"
        );
        let start_ns = ffi::slot(bss).start_ns;
        if start_ns == 0 {
            bail!("the start mark was never set: the app was not executed");
        }
        // Two cores record at once: order within the buffer is that of reservation, not of time.
        events.sort_by_key(|event| event.time_ns);
        let names = names(&events)?;
        Ok(Raw {
            start_ns,
            drive: self.drive,
            fs_uuid: self.fs_uuid,
            events,
            names,
        })
    }
}

/// The paths of the files that were read or waited for.
fn names(events: &[Event]) -> Result<BTreeMap<FileId, String>> {
    let wanted: BTreeSet<FileId> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Issue { place, .. } | What::Out { place, .. } => Some(place?.file),
            _ => None,
        })
        .filter(|file| !file.is_metadata())
        .collect();
    let table = MountTable::read().context("cannot read the mount table")?;
    let mut mounts = HashMap::new();
    let mut names = BTreeMap::new();
    for file in wanted {
        // What cannot be opened (a file system that is no longer mounted, a file that is gone) has
        // no name any more; the timeline then shows its inode number.
        let mount = mounts
            .entry(file.dev)
            .or_insert_with(|| table.open_root(file.dev).ok());
        let Some(mount) = mount else { continue };
        let Ok(found) = open_by_ino(mount, file.ino, file.generation) else {
            continue;
        };
        if let Some(path) = path_in_fs(found.as_fd(), mount) {
            names.insert(file, String::from_utf8_lossy(&path).into_owned());
        }
    }
    Ok(names)
}
