//! Homes that are locked or unmounted when their users log out, while the service runs.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::running::{Image, Running, prefetched_in_the_end};
use crate::set_up;
use common::root::content;
use common::{LoopExt4, drop_caches, skipped, succeed, until};

/// `FS_IOC_SET_ENCRYPTION_POLICY`, `FS_IOC_ADD_ENCRYPTION_KEY` and `FS_IOC_REMOVE_ENCRYPTION_KEY` (linux/fscrypt.h).
const SET_POLICY: u32 = 0x800c_6613;
const ADD_KEY: u32 = 0xc050_6617;
const REMOVE_KEY: u32 = 0xc040_6618;

/// The kernel still has files of it in memory (`FSCRYPT_KEY_REMOVAL_STATUS_FLAG_FILES_BUSY`).
const FILES_BUSY: u32 = 1;

/// `struct fscrypt_key_specifier`, of a key that is known by an identifier made of it.
#[repr(C)]
#[derive(Clone, Copy)]
struct KeySpecifier {
    kind: u32,
    reserved: u32,
    identifier: [u8; 16],
    rest: [u8; 16],
}

impl KeySpecifier {
    const IDENTIFIER: u32 = 2;

    fn new(identifier: [u8; 16]) -> Self {
        KeySpecifier {
            kind: KeySpecifier::IDENTIFIER,
            reserved: 0,
            identifier,
            rest: [0; 16],
        }
    }
}

/// `struct fscrypt_add_key_arg`, with the key.
#[repr(C)]
struct AddKey {
    key: KeySpecifier,
    raw_size: u32,
    key_id: u32,
    reserved: [u32; 8],
    raw: [u8; 64],
}

/// `struct fscrypt_remove_key_arg`.
#[repr(C)]
struct RemoveKey {
    key: KeySpecifier,
    status: u32,
    reserved: [u32; 5],
}

/// `struct fscrypt_policy_v2`.
#[repr(C)]
struct Policy {
    version: u8,
    contents_mode: u8,
    names_mode: u8,
    flags: u8,
    reserved: [u8; 4],
    identifier: [u8; 16],
}

fn ioctl<T>(path: &Path, request: u32, argument: &mut T) -> io::Result<()> {
    let directory = File::open(path)?;
    // SAFETY: each request is made with the struct that linux/fscrypt.h says, which is as large as it.
    let done = unsafe { libc::ioctl(directory.as_raw_fd(), request as _, &raw mut *argument) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A file system with a user's home in it, which the kernel encrypts.
struct Home {
    image: LoopExt4,
    place: PathBuf,
    identifier: [u8; 16],
}

impl Home {
    /// Unlocked. `None` where the kernel encrypts no files, which fails where CI forbids that.
    fn new() -> Option<Home> {
        let image = LoopExt4::new(64, &["-b", "4096", "-O", "encrypt"]);
        let place = image.mount_point().join("user");
        fs::create_dir(&place).unwrap();
        let mut home = Home {
            image,
            place,
            identifier: [0; 16],
        };
        let encrypted = home.unlock().and_then(|()| home.encrypt());
        match encrypted.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) => Some(home),
            // Built without that, or without the ciphers.
            Err(Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOPKG)) => {
                skipped("this kernel encrypts no files");
                None
            }
            Err(_) => panic!("the home is not encrypted: {encrypted:?}"),
        }
    }

    /// Has what is put into it from now on encrypted, and puts a file there: the kernel looks for its ciphers then.
    fn encrypt(&self) -> io::Result<()> {
        let mut policy = Policy {
            version: 2,
            // AES-256-XTS, AES-256-CTS, names filled up to 32 bytes.
            contents_mode: 1,
            names_mode: 4,
            flags: 3,
            reserved: [0; 4],
            identifier: self.identifier,
        };
        ioctl(&self.place, SET_POLICY, &mut policy)?;
        fs::write(self.place.join("file"), "")
    }

    /// As at a login.
    fn unlock(&mut self) -> io::Result<()> {
        let mut add = AddKey {
            key: KeySpecifier::new([0; 16]),
            raw_size: 64,
            key_id: 0,
            reserved: [0; 8],
            raw: std::array::from_fn(|index| index as u8),
        };
        ioctl(self.image.mount_point(), ADD_KEY, &mut add)?;
        self.identifier = add.key.identifier;
        Ok(())
    }

    /// As at a logout. Whether all of it is locked.
    fn lock(&self) -> bool {
        let mut remove = RemoveKey {
            key: KeySpecifier::new(self.identifier),
            status: 0,
            reserved: [0; 5],
        };
        ioctl(self.image.mount_point(), REMOVE_KEY, &mut remove).unwrap();
        remove.status & FILES_BUSY == 0
    }

    /// Puts an app into the home that reads all of what is there.
    fn fill(&self) {
        fs::create_dir(self.place.join("data")).unwrap();
        for file in 0..40 {
            fs::write(self.place.join(format!("data/{file}")), content(file, 16)).unwrap();
        }
        for name in ["game", "other"] {
            let text = format!("#!/bin/sh\ncat {}/data/*\n", self.place.display());
            fs::write(self.place.join(name), text).unwrap();
            let permissions = fs::Permissions::from_mode(0o755);
            fs::set_permissions(self.place.join(name), permissions).unwrap();
        }
    }

    fn id(&self, name: &str) -> String {
        self.place.join(name).to_str().unwrap().to_owned()
    }

    fn launch(&self, service: &mut Running) -> String {
        drop_caches();
        succeed(&mut Command::new(self.place.join("game")));
        service.launch_of(&self.id("game"))
    }

    /// What the service has open, or watches, on its file system: descriptors as links of /proc have them, and lines of
    /// inotify(7) and fanotify(7) descriptors in proc(5).
    fn held_by(&self, service: &Running) -> Vec<String> {
        let dev = fs::metadata(self.image.mount_point()).unwrap().dev();
        let proc = PathBuf::from(format!("/proc/{}", service.pid()));
        let listed = |name: &str| {
            let entries = fs::read_dir(proc.join(name)).unwrap().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        // What is closed meanwhile is held no more.
        let open = listed("fd").into_iter().filter(|link| {
            let found = fs::metadata(link);
            found.is_ok_and(|found| found.dev() == dev || found.rdev() == dev)
        });
        let mut held: Vec<String> = open
            .map(|link| format!("{:?}", fs::read_link(link)))
            .collect();
        // As the kernel numbers devices itself.
        let number = u64::from(rustix::fs::major(dev)) << 20 | u64::from(rustix::fs::minor(dev));
        let watched = format!(" sdev:{number:x} ");
        for info in listed("fdinfo") {
            let text = fs::read_to_string(info).unwrap_or_default();
            let lines = text.lines().filter(|line| line.contains(&watched));
            held.extend(lines.map(str::to_owned));
        }
        held
    }
}

/// Enables both apps of the home, and has one learned; the other one is to be learned from then on.
fn learn(image: &Image, home: &Home) -> Running {
    home.fill();
    for name in ["game", "other"] {
        let enabled = image.paralfetch(&["enable", &home.id(name)]);
        assert!(enabled.status.success(), "{enabled:?}");
    }
    let mut service = image.start();
    service.ready_to_learn();
    let line = home.launch(&mut service);
    assert!(line.contains("kind=Learned"), "{line}");
    image.until_stored("game");
    service
}

#[test]
fn an_encrypted_home_is_locked_completely_though_its_apps_are_managed_and_to_be_learned() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let Some(mut home) = Home::new() else {
        return;
    };
    let mut service = learn(&image, &home);
    prefetched_in_the_end(|| home.launch(&mut service));
    // A thread may be about to close a file of the launch that was just over.
    until("nothing of the home is held", || {
        home.held_by(&service).is_empty()
    });
    until("no file of the home is busy", || home.lock());
    let file = home.place.join("data/0");
    assert!(!file.exists(), "its names cannot be read");
    // Whatever looks at all apps again does not find it, and keeps nothing of it.
    service.signal(Signal::HUP);
    service.line(&["the configuration was read again"]);
    service.line(&["executables were located"]);
    assert_eq!(home.held_by(&service), Vec::<String>::new());
    home.unlock().unwrap();
    assert!(file.exists());
    prefetched_in_the_end(|| home.launch(&mut service));
    service.stop();
}

#[test]
fn a_home_of_its_own_file_system_can_be_unmounted_between_launches() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    let image_of_home = LoopExt4::new(64, &["-b", "4096"]);
    let place = image_of_home.mount_point().join("user");
    fs::create_dir(&place).unwrap();
    let mut home = Home {
        image: image_of_home,
        place,
        identifier: [0; 16],
    };
    let mut service = learn(&image, &home);
    until("nothing of the home is held", || {
        home.held_by(&service).is_empty()
    });
    home.image.unmount();
    service.signal(Signal::HUP);
    service.line(&["the configuration was read again"]);
    home.image.reattach();
    prefetched_in_the_end(|| home.launch(&mut service));
    service.stop();
}
