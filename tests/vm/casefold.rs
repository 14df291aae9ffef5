//! An app on an ext4 with directories that ignore case, which asks for its files by names in another
//! case than they have on the drive.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use paralfetch::model::Learned;

use crate::compare::{Page, recall, size};
use crate::facts::Casefold;
use crate::guest::learned;

const IMAGE: &str = "casefold.img";
const IMAGE_BYTES: u64 = 64 << 20;
const MOUNT_POINT: &str = "/srv/folded";
/// Names in the large directory: enough for an index.
const FILES: usize = 1000;
/// Reads some of the files, and looks for one that is not there.
const APP: &str = "\
#!/bin/sh
cd /srv/folded/Anwendung/dATEN || exit 1
for number in 0001 0400 0999; do
    read -r line <dATEI-äöü-$number && [ \"$line\" = ÄÖÜ-$number ] || exit 2
done
[ -e DATEI-ÄÖÜ-fehlt ] && exit 3
read -r line </srv/folded/Anwendung/einzeln && [ \"$line\" = einzeln ] || exit 4
exit 0
";

/// Learns the app exactly, and live once everything is cached.
pub fn casefold() -> Casefold {
    drop(Mounted::populated());
    // Anew, so that hardly anything of it is cached: dropping the caches leaves the last few blocks of
    // metadata that each CPU used (struct bh_lru), and these are most of so few.
    let mounted = Mounted::new();
    let dev = fs::metadata(MOUNT_POINT).unwrap().dev();
    let app = [format!("{MOUNT_POINT}/Anwendung/START")];
    let exact = learned(&app, None, Learned::Exact);
    // The first only makes sure that all of it is cached.
    drop(learned(&app, None, Learned::Live));
    let live = learned(&app, None, Learned::Live);
    drop(mounted);
    Casefold {
        files: recall(&exact, &live, |page: &Page| !page.is_metadata()),
        metadata: recall(&exact, &live, |page| page.is_on(dev) && page.is_metadata()),
        exact: size(&exact),
        live: size(&live),
    }
}

/// The file system, mounted.
struct Mounted;

impl Mounted {
    fn new() -> Mounted {
        succeed(Command::new("mount").args(["-o", "loop", IMAGE, MOUNT_POINT]));
        Mounted
    }

    /// Makes it, with the app in it.
    fn populated() -> Mounted {
        File::create(IMAGE).unwrap().set_len(IMAGE_BYTES).unwrap();
        succeed(
            Command::new("mke2fs")
                // Blocks as large as pages: smaller ones share pages with those that ext4 keeps for itself,
                // which dropping the caches leaves.
                .args(["-q", "-t", "ext4", "-b", "4096", "-O", "casefold"])
                .args([
                    "-E",
                    "encoding=utf8,lazy_itable_init=0,lazy_journal_init=0",
                    IMAGE,
                ]),
        );
        fs::create_dir_all(MOUNT_POINT).unwrap();
        // Nothing in the machine makes the control node by which mount(8) would have it loaded.
        succeed(Command::new("modprobe").arg("loop"));
        let mounted = Mounted::new();
        let app = Path::new(MOUNT_POINT).join("Anwendung");
        fs::create_dir(&app).unwrap();
        // What is made below inherits it.
        succeed(Command::new("chattr").arg("+F").arg(&app));
        fs::write(app.join("Start"), APP).unwrap();
        fs::set_permissions(app.join("Start"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(app.join("Einzeln"), "einzeln\n").unwrap();
        fs::create_dir(app.join("Daten")).unwrap();
        for number in 0..FILES {
            let file = app.join(format!("Daten/Datei-ÄÖÜ-{number:04}"));
            fs::write(file, format!("ÄÖÜ-{number:04}\n")).unwrap();
        }
        mounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeed(Command::new("umount").arg(MOUNT_POINT));
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
