//! A snap, as its desktop entry and its command start it: `/snap/bin/NAME` is a link to a launcher, which gives the app
//! mounts of its own, with a base for its root, in which squashfs images lie where the system has them.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use paralfetch::fs::residency::cached;
use paralfetch::model::{PAGE_SIZE, Place, Profile};
use paralfetch::profile::Store;

use crate::file_systems::AS_SNAPS;
use crate::running::{Image, Running, fill_with_app, prefetched_in_the_end};
use crate::{Turn, set_up};
use common::root::{PAGES, content, write_script};
use common::{LoopFs, Mounted, drop_caches};

/// The snap, and the one that is its base.
const NAME: &str = "paralfetch-test";
const BASE: &str = "paralfetch-test-base";

/// Data files of each revision.
const FILES: usize = 40;

/// What is installed of the snaps; removed when this is dropped.
struct Snaps {
    /// Those of them that were made for this.
    directories: Vec<PathBuf>,
    revisions: Vec<(Mounted, LoopFs)>,
    /// Has the launcher in it.
    launcher: tempfile::TempDir,
}

impl Snaps {
    fn install() -> Snaps {
        let mut snaps = Snaps {
            directories: Vec::new(),
            revisions: Vec::new(),
            launcher: tempfile::tempdir().unwrap(),
        };
        for directory in ["/snap", "/snap/bin"] {
            snaps.make(Path::new(directory));
        }
        for snap in [NAME, BASE] {
            snaps.make(&Path::new("/snap").join(snap));
        }
        let text = format!(
            "exec unshare --mount sh -c 'mount --rbind /snap /snap/{BASE}/current/snap \
             && exec chroot /snap/{BASE}/current /snap/$1/current/launch' sh ${{0##*/}}"
        );
        write_script(snaps.launcher.path(), "snap", &text);
        symlink(snaps.launcher.path().join("snap"), command()).unwrap();
        snaps.put(BASE, 1, |root| {
            fill_with_app(root);
            fs::create_dir(root.join("snap")).unwrap();
        });
        snaps.update(1);
        snaps
    }

    fn make(&mut self, directory: &Path) {
        if fs::create_dir(directory).is_ok() {
            self.directories.push(directory.to_owned());
        }
    }

    /// Mounts a revision beside the others, and has the snap's link lead to it.
    fn put(&mut self, snap: &str, revision: usize, fill: impl FnOnce(&Path)) {
        let image = LoopFs::read_only("squashfs", &AS_SNAPS, |root| {
            fill(root);
            // Two revisions that are made within a second could not be told apart by it.
            let made = UNIX_EPOCH + Duration::from_secs(3600 * revision as u64);
            File::open(root).unwrap().set_modified(made).unwrap();
        });
        let snap = Path::new("/snap").join(snap);
        let place = snap.join(revision.to_string());
        self.make(&place);
        let device = image.device().to_str().unwrap();
        let mounted = Mounted::new("squashfs", device, &place);
        self.revisions.push((mounted, image));
        let current = snap.join("current");
        // There is none before the first revision.
        let _ = fs::remove_file(&current);
        symlink(revision.to_string(), current).unwrap();
    }

    /// Installs a revision of the app.
    fn update(&mut self, revision: usize) {
        self.put(NAME, revision, |root| {
            let text = format!("cat /snap/{NAME}/current/data/*");
            write_script(root, "launch", &text);
            fs::create_dir(root.join("data")).unwrap();
            for file in 0..FILES {
                let content = content(revision * FILES + file, PAGES);
                fs::write(root.join("data").join(file.to_string()), content).unwrap();
            }
        });
    }
}

impl Drop for Snaps {
    fn drop(&mut self) {
        self.revisions.clear();
        let _ = fs::remove_file(command());
        for snap in [NAME, BASE] {
            let _ = fs::remove_file(Path::new("/snap").join(snap).join("current"));
        }
        for directory in self.directories.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
    }
}

fn command() -> PathBuf {
    Path::new("/snap/bin").join(NAME)
}

/// As the desktop entry launches it.
fn by_entry() -> Command {
    let mut launch = Command::new("env");
    launch.arg("BAMF_DESKTOP_FILE_HINT=x").arg(command());
    launch
}

fn id() -> String {
    format!("snap:{NAME}")
}

/// Launches from empty caches; returns what the service says of it.
fn launch(service: &mut Running, mut launch: Command) -> String {
    drop_caches();
    let status = launch.stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{launch:?}: {status}");
    service.launch_of(&id())
}

fn learn(service: &mut Running, command: Command) {
    service.ready_to_learn();
    let line = launch(service, command);
    assert!(line.contains("kind=Learned"), "{line}");
}

fn profile(image: &Image) -> Profile {
    let store = Store::open(image.root.state.path()).unwrap();
    store.find(0, id().as_ref()).unwrap().unwrap()
}

/// Pages that the profile has of the data of the revision that is mounted here, and of its image's file.
fn pages_of(profile: &Profile, (_, image): &(Mounted, LoopFs)) -> (u64, u64) {
    let inside = fs::metadata(image.mount_point()).unwrap().dev();
    let file = fs::metadata(image.file()).unwrap();
    let mut pages = (0, 0);
    for entry in &profile.entries {
        let Place::Data { file: number } = entry.span.place else {
            continue;
        };
        let found = &profile.files[number as usize];
        let dev = profile.devices[usize::from(found.device)].dev;
        let is_data = found
            .path
            .as_deref()
            .is_some_and(|path| path.starts_with(b"/data/"));
        if dev == inside && is_data {
            pages.0 += entry.span.len;
        }
        if (dev, found.ino) == (file.dev(), file.ino()) {
            pages.1 += entry.span.len;
        }
    }
    pages
}

/// Pages of an image's file that are cached.
fn cached_pages(image: &LoopFs) -> u64 {
    let file = File::open(image.file()).unwrap();
    let pages = 0..file.metadata().unwrap().len().div_ceil(PAGE_SIZE);
    let found = cached(file.as_fd(), &pages).unwrap();
    found.iter().map(|range| range.end - range.start).sum()
}

fn set_up_snaps() -> Option<(Image, Snaps, Turn)> {
    let (image, turn) = set_up()?;
    Some((image, Snaps::install(), turn))
}

#[test]
fn a_snap_is_learned_and_prefetched_and_after_an_update_the_new_revision_is() {
    let Some((image, mut snaps, _turn)) = set_up_snaps() else {
        return;
    };
    let enabled = image.paralfetch(&["enable", command().to_str().unwrap()]);
    assert!(enabled.status.success(), "{enabled:?}");
    let mut service = image.start();
    learn(&mut service, by_entry());
    prefetched_in_the_end(|| launch(&mut service, Command::new(command())));
    service.stop();
    let all = (FILES * PAGES) as u64;
    let revision =
        |snaps: &Snaps, number: usize| pages_of(&profile(&image), &snaps.revisions[number]);
    let (data, blocks) = revision(&snaps, 1);
    assert_eq!(data, all);
    assert!(blocks > 0);

    snaps.update(2);
    let mut service = image.start();
    launch(&mut service, by_entry());
    assert_eq!(cached_pages(&snaps.revisions[1].1), 0, "the old image");
    service.line(&["obsolete entries were replaced or removed"]);
    learn(&mut service, by_entry());
    service.stop();
    assert_eq!(revision(&snaps, 1), (0, 0));
    let (data, blocks) = revision(&snaps, 2);
    assert_eq!(data, all);
    assert!(blocks > 0);
}
