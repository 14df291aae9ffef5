//! Timelines of a small program that reads files from a real ext4 on a loop device.
//!
//! This program is its own harness, since only a process's main thread can start what is recorded.

use std::collections::HashMap;
use std::ffi::{OsString, c_void};
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr::null_mut;
use std::time::SystemTime;

use common::{LoopExt4, harness, privileged};
use lab::methods::LearnedSet;
use lab::timeline::{Facts, Raw, Recorder, Timeline, What, Why, analyse};
use paralfetch::apps::{Rules, identify_command};
use paralfetch::fs::mounts::MountTable;
use paralfetch::kernel::{DRAIN_INTERVAL, TraceMode, Tracer};
use paralfetch::learn::{Earlier, Observed, resolve};
use paralfetch::model::DriveClass;
use paralfetch::model::Hooks;
use paralfetch::model::{Ended, Learned, Profile, Revision};
use paralfetch::model::{Params, Place, SECTORS_PER_PAGE};
use paralfetch::process::{AppStatus, Command, Spawn, Stdio, Supervisor};
use paralfetch::schedule::schedule;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const FILES: usize = 10;
const PAGES_PER_FILE: u64 = 2;
/// One more file, so large that the kernel reads it in several requests and with large folios.
const LARGE_FILE_BYTES: usize = 8 << 20;
/// The prefetcher of these tests reads this many of them.
const PREFETCHED: usize = 4;
/// No launch of cat(1) takes longer: everything that was recorded is shown.
const SECONDS: f64 = 60.0;

fn main() -> ExitCode {
    if harness::is_listing() {
        harness::list(["cold", "warm", "prefetched"]);
        return ExitCode::SUCCESS;
    }
    if !privileged() {
        return ExitCode::SUCCESS;
    }
    // Blocks of a page, as real drives have: mke2fs gives small file systems smaller ones.
    let mut image = LoopExt4::new(64, &["-b", "4096"]);
    for number in 0..FILES {
        let contents = vec![number as u8; PAGES_PER_FILE as usize * 4096];
        fs::write(path(&image, number), contents).unwrap();
    }
    fs::write(path(&image, FILES), vec![7; LARGE_FILE_BYTES]).unwrap();
    image.sync();
    let mut supervisor = Supervisor::new().unwrap();
    // A new mount on a new loop device has nothing cached.
    image.reattach();
    let set = learned_set(&image, &mut supervisor);
    let entries = &set.profile.entries;

    let cold = undisturbed(|| {
        image.reattach();
        record(&image, &mut supervisor, || {})
    });
    check_cold(&analyse(&cold, &set, &[], facts()), &set);
    check_places(&cold, &set);
    println!("test cold ... ok");

    let pinned: Vec<Pinned> = (0..=FILES)
        .map(|file| Pinned::new(&path(&image, file)))
        .collect();
    let warm = record(&image, &mut supervisor, || {});
    drop(pinned);
    check_warm(&analyse(&warm, &set, entries, facts()));
    println!("test warm ... ok");

    image.reattach();
    let prefetched = record(&image, &mut supervisor, || {
        let files: Vec<PathBuf> = (0..PREFETCHED).map(|file| path(&image, file)).collect();
        let pin = move || {
            files
                .iter()
                .map(|file| Pinned::new(file))
                .collect::<Vec<_>>()
        };
        std::thread::spawn(pin).join().unwrap()
    });
    check_prefetched(&analyse(&prefetched, &set, entries, facts()));
    println!("test prefetched ... ok");
    harness::close(3, 0)
}

/// A file that stays cached with its name and inode when another process drops the caches, because it is
/// mapped and open.
struct Pinned {
    _file: File,
    start: *mut c_void,
    length: usize,
}

// SAFETY: the mapping belongs to the process, whichever thread unmaps it.
unsafe impl Send for Pinned {}

impl Pinned {
    fn new(path: &Path) -> Pinned {
        let file = File::open(path).unwrap();
        let length = file.metadata().unwrap().len() as usize;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses; it is never accessed.
        let start = unsafe { mmap(null_mut(), length, ProtFlags::READ, flags, &file, 0) };
        Pinned {
            _file: file,
            start: start.unwrap(),
            length,
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, which is not used after this.
        if let Err(error) = unsafe { munmap(self.start, self.length) } {
            eprintln!("munmap: {error}");
        }
    }
}

/// Records again if another process dropped the system's caches meanwhile.
fn undisturbed(mut recording: impl FnMut() -> Raw) -> Raw {
    for _ in 0..20 {
        let before = cache_drops();
        let raw = recording();
        if cache_drops() == before {
            return raw;
        }
        eprintln!("the caches were emptied meanwhile: once more");
    }
    panic!("another program keeps emptying the caches");
}

/// How often the page cache, and the inodes and names, have been dropped since boot.
fn cache_drops() -> Vec<String> {
    let counters = fs::read_to_string("/proc/vmstat").unwrap();
    let drops = counters.lines().filter(|line| line.starts_with("drop_"));
    let drops: Vec<String> = drops.map(str::to_owned).collect();
    assert!(!drops.is_empty());
    drops
}

fn path(image: &LoopExt4, number: usize) -> PathBuf {
    image.mount_point().join(format!("file-{number}"))
}

/// cat(1) of all files; it comes from the system's own drive, which is not recorded.
fn spawn(image: &LoopExt4) -> Spawn {
    let files = (0..=FILES).map(|number| path(image, number).into_os_string());
    let argv: Vec<OsString> = std::iter::once("cat".into()).chain(files).collect();
    Spawn {
        stdio: Stdio::Null,
        ..Spawn::new(Command::find(&argv, None).unwrap())
    }
}

/// Starts the app and calls `drain` every now and then, until that says that the launch is over.
fn launch(supervisor: &mut Supervisor, spawn: Spawn, mut drain: impl FnMut() -> bool) {
    supervisor.start(spawn).unwrap();
    while !drain() {
        let signals = supervisor.signal_fd();
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        let interval = Timespec::try_from(DRAIN_INTERVAL).unwrap();
        poll(&mut fds, Some(&interval)).unwrap();
    }
    assert_eq!(supervisor.wait().unwrap().status, AppStatus::Code(0));
}

/// What a cold launch teaches. It is made from the product's parts rather than by its learning run,
/// which would empty the whole system's caches.
fn learned_set(image: &LoopExt4, supervisor: &mut Supervisor) -> LearnedSet {
    let started = SystemTime::now();
    let mut tracer = Tracer::attach(TraceMode::Reads).unwrap();
    let mark = tracer.start_mark();
    let mut spawn = spawn(image);
    let app = identify_command(&Rules::builtin(), &spawn.command, 0).app;
    spawn.before_exec = Some(Box::new(move || mark.set()));
    launch(supervisor, spawn, || {
        tracer.drain().unwrap();
        tracer.with_trace(|trace| trace.exit_ns.is_some())
    });
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.lost, 0);
    // What cat itself needs of the system's drive is not of interest here.
    let dev = fs::metadata(image.mount_point()).unwrap().dev();
    let accesses = trace.accesses.into_iter();
    let accesses: Vec<_> = accesses.filter(|access| access.dev == dev).collect();
    let mounts = MountTable::read().unwrap();
    let class = |_| DriveClass::CommandQueuing;
    let seen = Observed {
        accesses: &accesses,
        paths: &[],
        start_ns: trace.start_ns,
        started,
        touches: false,
        namespaces: &trace.namespaces,
        earlier: &Earlier::default(),
        uid: 0,
    };
    let sequence = resolve(&seen, &mounts, &class, &|| false).unwrap();
    let params = Params::for_device(DriveClass::CommandQueuing, false);
    let profile = Profile {
        app,
        created: 0,
        learned: Learned::AsRead,
        ended: Ended::Exit,
        hooks: Hooks::default(),
        history: vec![Revision { time: 0, params }],
        devices: sequence.devices,
        files: sequence.files,
        entries: schedule(&sequence.log, &params),
        fault_around: Vec::new(),
        unused: Vec::new(),
        operations: Vec::new(),
        learned_at: Vec::new(),
        helpers: Vec::new(),
        completion: None,
        log_entries: sequence.log.len() as u32,
        obsolete: 0,
    };
    LearnedSet {
        profile,
        log: sequence.log,
        unread: Vec::new(),
        duration: std::time::Duration::from_secs(1),
        window: None,
    }
}

/// Records one launch; `prefetch` runs when the recorder is attached, before the launch. What it
/// returns is kept until the launch is over.
fn record<T>(image: &LoopExt4, supervisor: &mut Supervisor, prefetch: impl FnOnce() -> T) -> Raw {
    let dev = fs::metadata(image.mount_point()).unwrap().dev();
    let mut storage = MaybeUninit::uninit();
    let mut recorder = Recorder::attach(&mut storage, dev).unwrap();
    let mark = recorder.start_mark().unwrap();
    let mut spawn = spawn(image);
    spawn.before_exec = Some(Box::new(move || mark.set()));
    let kept = prefetch();
    launch(supervisor, spawn, || {
        recorder.drain().unwrap();
        recorder.has_ended()
    });
    drop(kept);
    recorder.finish().unwrap()
}

fn facts() -> Facts {
    Facts {
        device: "loop".to_owned(),
        app: "cat".to_owned(),
        scenario: "test".to_owned(),
        seconds: SECONDS,
        ..Facts::default()
    }
}

/// The reasons of all misses in this file.
fn misses_of(timeline: &Timeline, number: usize) -> Vec<Why> {
    let name = format!("/file-{number}");
    let misses = timeline.misses.iter();
    let of_file = misses.filter(|miss| miss.what == name);
    of_file.map(|miss| miss.why).collect()
}

/// Pages that a position's curve ends with.
fn last(steps: &[[u64; 2]]) -> u64 {
    steps.last().map_or(0, |step| step[1])
}

fn check_cold(timeline: &Timeline, set: &LearnedSet) {
    println!("{}", timeline.summary());
    for number in 0..FILES {
        let reasons = misses_of(timeline, number);
        assert_eq!(reasons, [Why::NobodyPrefetches], "{:?}", timeline.misses);
    }
    let metadata = timeline
        .misses
        .iter()
        .filter(|miss| miss.what == "metadata");
    assert!(metadata.count() > 0, "{:?}", timeline.misses);
    assert!(timeline.misses.iter().any(|miss| miss.wait_us > 0));
    assert!(!timeline.waiting.is_empty() && !timeline.cpu.is_empty());
    assert_eq!(last(&timeline.queue), 0);
    assert!(timeline.prefetch.is_empty());
    let pages: u64 = set.log.iter().map(|entry| entry.span.len).sum();
    assert_eq!(timeline.total_pages, pages);
    let reached = last(&timeline.app_position);
    assert!(reached >= FILES as u64 * PAGES_PER_FILE && reached <= pages);
    assert_eq!(timeline.before.len(), set.log.len());
}

/// What a request is said to read lies where the request reads.
fn check_places(raw: &Raw, set: &LearnedSet) {
    let data = set.log.iter().filter_map(|entry| match entry.span.place {
        Place::Data { file } => Some((file, entry)),
        Place::Metadata { .. } => None,
    });
    let sectors: HashMap<(u64, u64), u64> = data
        .flat_map(|(file, entry)| {
            let ino = set.profile.files[file as usize].ino;
            let pages = 0..entry.span.len;
            pages.map(move |page| {
                (
                    (ino, entry.span.start + page),
                    entry.lba + page * SECTORS_PER_PAGE,
                )
            })
        })
        .collect();
    let mut requests_for_data = 0;
    for event in &raw.events {
        let What::Issue {
            sector,
            place: Some(place),
            write: false,
            ..
        } = event.what
        else {
            continue;
        };
        if place.file.is_metadata() {
            assert_eq!(sector, place.start * SECTORS_PER_PAGE);
        } else {
            assert_eq!(sectors.get(&(place.file.ino, place.start)), Some(&sector));
            requests_for_data += 1;
        }
    }
    assert!(requests_for_data > FILES + 1, "{requests_for_data}");
}

fn check_warm(timeline: &Timeline) {
    println!("{}", timeline.summary());
    assert_eq!(timeline.misses, []);
    assert!(!timeline.cpu.is_empty());
    assert!(last(&timeline.app_position) >= FILES as u64 * PAGES_PER_FILE);
    assert!(!timeline.after.is_empty());
}

fn check_prefetched(timeline: &Timeline) {
    println!("{}", timeline.summary());
    for number in 0..FILES {
        let expected: &[Why] = if number < PREFETCHED {
            &[]
        } else {
            &[Why::NotReachedYet]
        };
        assert_eq!(
            misses_of(timeline, number),
            expected,
            "{:?}",
            timeline.misses
        );
    }
    assert_eq!(last(&timeline.queue), 0);
    assert!(last(&timeline.prefetch) >= PREFETCHED as u64 * PAGES_PER_FILE);
}
