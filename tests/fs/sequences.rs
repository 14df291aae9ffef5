//! Launch sequences of synthetic accesses to real files.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, FileTimes};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use paralfetch::fs::ext4::Ext4;
use paralfetch::fs::handle::inode_generation;
use paralfetch::fs::mounts::{MountTable, fs_uuid};
use paralfetch::kernel::Namespaces;
use paralfetch::learn::{Earlier, Observed, ResolveReport, Sequence, resolve};
use paralfetch::model::DriveClass;
use paralfetch::model::Place;
use paralfetch::model::{Access, By, Source};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::debugfs::inspect;
use crate::populate::populate;
use common::{LoopExt4, Mounted, privileged};

/// An access of the launch tree to pages of a file, at a time in microseconds since the launch.
fn access(path: &Path, pages: Range<u64>, source: Source, time_us: u64) -> Access {
    let file = File::open(path).unwrap();
    let metadata = file.metadata().unwrap();
    Access {
        time_ns: time_us * 1000,
        dev: metadata.dev(),
        ino: metadata.ino(),
        generation: inode_generation(&OwnedFd::from(file)).unwrap_or(0),
        start: pages.start,
        len: pages.end - pages.start,
        source,
        by: By::Tree,
    }
}

/// The sequence of a launch that begins after everything that the test did to its files.
fn resolved(accesses: &[Access]) -> Sequence {
    resolved_since(accesses, SystemTime::now() + Duration::from_secs(60))
}

fn resolved_since(accesses: &[Access], started: SystemTime) -> Sequence {
    let mounts = MountTable::read().unwrap();
    let seen = Observed {
        accesses,
        paths: &[],
        namespaces: &Namespaces::default(),
        start_ns: 0,
        started,
        touches: false,
        earlier: &Earlier::default(),
        uid: 0,
    };
    resolve(&seen, &mounts, &|_| DriveClass::CommandQueuing, &|| false).unwrap()
}

#[test]
fn metadata_come_before_the_data_that_depend_on_them() {
    for mke2fs_args in [
        &["-b", "4096"][..],
        &["-b", "1024"],
        &["-b", "1024", "-O", "^extent,^64bit"],
    ] {
        if !privileged() {
            return;
        }
        let image = LoopExt4::new(256, mke2fs_args);
        let samples = populate(&image, 200);
        // Files opened by handle have a path only while their names are cached, and other tests drop caches.
        let open = samples.iter().map(|sample| File::open(&sample.path));
        let _pinned: Vec<File> = open.map(Result::unwrap).collect();
        let inodes: Vec<u64> = samples.iter().map(|sample| sample.ino).collect();
        let layout = inspect(&image, &inodes);
        let ext4 = Ext4::open(image.device()).unwrap();
        let block_size = ext4.block_size();
        let to_page = |block: u64| block * block_size / 4096;

        // Every other file in whole; of the others only pages from the middle on.
        let mut accesses = Vec::new();
        for (index, sample) in samples.iter().enumerate() {
            let pages = fs::metadata(&sample.path).unwrap().len().div_ceil(4096);
            let first = if index % 2 == 0 { 0 } else { pages / 2 };
            accesses.push(access(
                &sample.path,
                first..pages,
                Source::Read,
                index as u64,
            ));
        }
        // Of one inode block, the launch saw itself that it was read.
        let traced = to_page(layout[&inodes[0]].table_block);
        let seen = Access {
            ino: 0,
            generation: 0,
            start: traced,
            len: 1,
            source: Source::Added,
            ..accesses[0]
        };
        accesses.insert(0, seen);
        let sequence = resolved(&accesses);

        assert_eq!(sequence.report.warnings, Vec::<String>::new());
        assert_eq!(
            (sequence.report.gone.files, sequence.report.written.files),
            (0, 0)
        );
        assert_eq!(sequence.files.len(), samples.len());
        let mut present: HashSet<u64> = HashSet::new();
        let mut data: HashSet<(u64, u64)> = HashSet::new();
        for (position, entry) in sequence.log.iter().enumerate() {
            let span = entry.span;
            let Place::Data { file } = span.place else {
                assert_eq!(entry.lba, span.start * 8);
                assert!(
                    (span.start..span.end()).all(|page| present.insert(page)),
                    "a page comes twice"
                );
                // What is inserted stands before data, at their time.
                let next = sequence.log[position + 1..]
                    .iter()
                    .find(|next| !next.span.place.is_metadata());
                assert!(position == 0 || next.is_some_and(|next| next.time_us == entry.time_us));
                continue;
            };
            let file = &sequence.files[file as usize];
            let blocks = &layout[&file.ino];
            assert!(present.contains(&to_page(blocks.table_block)));
            for page in span.start..span.end() {
                assert!(data.insert((file.ino, page)), "a page comes twice");
                let in_page = page * 4096 / block_size..((page + 1) * 4096).div_ceil(block_size);
                let (_, physical) = blocks.data.range(in_page).next().unwrap();
                assert_eq!(
                    entry.lba + (page - span.start) * 8,
                    physical * block_size / 512
                );
            }
            for node in &blocks.nodes {
                if (span.start..span.end()).contains(&(node.first * block_size / 4096)) {
                    assert!(present.contains(&to_page(node.physical)), "{node:?}");
                }
            }
        }
        // No path led to the files: their names were looked up all the same, by which all is known that this reads.
        let mut known = HashSet::from([traced]);
        for sample in &samples {
            let directory = sample.path.parent().unwrap().metadata().unwrap().ino();
            let name = sample.path.file_name().unwrap().as_encoded_bytes();
            let look_up = ext4.look_up(directory, name).unwrap();
            let inodes = [directory, sample.ino].map(|ino| ext4.inode_block(ino).unwrap());
            let blocks = inodes.into_iter().chain(look_up.blocks);
            known.extend(blocks.chain(look_up.perhaps).map(to_page));
        }
        assert!(known.is_subset(&present));
        let missing = present.len() - known.len();
        assert_eq!(sequence.report.missing_metadata, missing as u64);
        assert_eq!(sequence.report.late_metadata, 0);
        // All that the launch asked for and the disk holds is there.
        for access in accesses.iter().filter(|access| access.ino != 0) {
            for logical in layout[&access.ino].data.keys() {
                let page = logical * block_size / 4096;
                assert_eq!(
                    data.contains(&(access.ino, page)),
                    (access.start..access.start + access.len).contains(&page)
                );
            }
        }

        // For the profile.
        assert_eq!(sequence.devices.len(), 1);
        assert_eq!(sequence.devices[0].fs, "ext4");
        let root = File::open(image.mount_point()).unwrap();
        assert_eq!(sequence.devices[0].fs_uuid, fs_uuid(root.as_fd()).unwrap());
        let by_ino: HashMap<u64, _> = sequence.files.iter().map(|file| (file.ino, file)).collect();
        for sample in &samples {
            assert_eq!(by_ino[&sample.ino].path, Some(sample.path_in_fs(&image)));
            assert_eq!(
                by_ino[&sample.ino].size,
                fs::metadata(&sample.path).unwrap().len()
            );
        }
    }
}

#[test]
fn files_that_cannot_be_prefetched_are_left_out_and_counted() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(32, &[]);
    let directory = tempfile::tempdir().unwrap();
    let tmpfs = Mounted::new("tmpfs", "none", directory.path());
    let path = |name| image.mount_point().join(name);
    for name in ["kept", "deleted", "replaced", "rewritten"] {
        fs::write(path(name), vec![1; 8192]).unwrap();
    }
    // Files opened by handle have a path only while their names are cached, and other tests drop caches.
    let _pinned = File::open(path("kept")).unwrap();
    let in_memory = directory.path().join("in-memory");
    fs::write(&in_memory, vec![1; 8192]).unwrap();
    image.sync();
    let mut accesses: Vec<Access> = ["kept", "deleted", "replaced", "rewritten"]
        .iter()
        .map(|name| access(&path(name), 0..2, Source::Added, 0))
        .collect();
    accesses.push(access(&in_memory, 0..2, Source::Added, 0));
    fs::remove_file(path("deleted")).unwrap();
    fs::write(path("new"), vec![1; 8192]).unwrap();
    fs::rename(path("new"), path("replaced")).unwrap();
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    let rewritten = File::options().write(true).open(path("rewritten")).unwrap();
    rewritten
        .set_times(FileTimes::new().set_modified(tomorrow))
        .unwrap();
    image.sync();

    let Sequence { files, report, .. } = resolved(&accesses);
    assert_eq!(
        files
            .iter()
            .map(|file| file.path.clone())
            .collect::<Vec<_>>(),
        [Some(b"/kept".to_vec())]
    );
    let ResolveReport {
        gone,
        written,
        left_out,
        ..
    } = report;
    assert_eq!((gone.files, gone.pages), (2, 4));
    assert_eq!((written.files, written.pages), (1, 2));
    assert_eq!(
        (left_out["tmpfs"].count.files, left_out["tmpfs"].count.pages),
        (1, 2)
    );

    drop(tmpfs);
    // The file system is not mounted any more, wherever the table was read.
    let report = resolved(&accesses[4..]).report;
    assert_eq!(report.unknown_device.files, 1);
}

#[test]
fn files_changed_since_the_launch_began_are_left_out() {
    if !privileged() {
        return;
    }
    let image = LoopExt4::new(32, &[]);
    let path = image.mount_point().join("file");
    fs::write(&path, vec![1; 8192]).unwrap();
    let before = SystemTime::now() - Duration::from_secs(60);
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let set = |time| {
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(FileTimes::new().set_modified(time))
    };
    set(long_ago).unwrap();
    image.sync();
    let accesses = [access(&path, 0..2, Source::Added, 0)];
    // The modification time can be set back, the change time cannot.
    assert_eq!(resolved_since(&accesses, before).report.written.files, 1);
    let sequence = resolved(&accesses);
    assert_eq!(sequence.report.written.files, 0);
    assert_eq!(sequence.files[0].mtime_ns, 1_000_000_000_000_000_000);
}

#[test]
fn windows_give_what_is_cached_and_was_not_added() {
    if !privileged() {
        return;
    }
    let mut image = LoopExt4::new(32, &[]);
    fs::write(image.mount_point().join("file"), vec![1; 40 * 4096]).unwrap();
    image.reattach();
    let path = image.mount_point().join("file");
    let held = Held::new(&path, 40 * 4096, &[3, 4, 9, 20, 39]);
    let mut other = access(&path, 9..10, Source::Added, 1);
    other.by = By::Other;
    let accesses = [
        access(&path, 0..16, Source::Window, 0),
        other,
        access(&path, 16..32, Source::Window, 2),
        access(&path, 21..22, Source::Added, 3),
        // Beyond the end of the file.
        access(&path, 32..48, Source::Window, 4),
    ];
    let sequence = resolved(&accesses);
    let data: Vec<(u64, u64, u64)> = sequence
        .log
        .iter()
        .filter(|entry| !entry.span.place.is_metadata())
        .map(|entry| (entry.span.start, entry.span.len, entry.time_us))
        .collect();
    assert_eq!(data, [(3, 2, 0), (20, 2, 2), (39, 1, 4)]);
    assert_eq!(sequence.report.window_pages, 4);
    drop(held);
}

/// Pages of a file that are mapped, as in a running program: no dropping of caches reaches them.
struct Held {
    address: *mut std::ffi::c_void,
    length: usize,
}

impl Held {
    fn new(path: &Path, length: usize, pages: &[usize]) -> Held {
        let file = File::open(path).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                &file,
                0,
            )
            .unwrap()
        };
        // SAFETY: the mapping just made. Without the advice, a fault would read its neighbours too.
        unsafe { madvise(address, length, Advice::Random).unwrap() };
        for page in pages {
            // SAFETY: the page lies inside of the mapping and of the file.
            let byte = unsafe { address.cast::<u8>().add(page * 4096).read_volatile() };
            assert_eq!(byte, 1);
        }
        Held { address, length }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nothing refers to it.
        if let Err(error) = unsafe { munmap(self.address, self.length) } {
            eprintln!("munmap: {error}");
        }
    }
}
