//! A SCSI drive that is pulled out while it is mounted: the kernel's own model of one (scsi_debug), in memory.

use std::fs::{self, File};
use std::io::Write;
use std::process::Child;

use paralfetch::drive::drop_caches;

use crate::apps::{self, APP};
use common::guest::journal::{Entry, Journal, now_us};
use common::guest::system::{UNIT, as_user, main_pid, outcome, output, property, until};

const MEBIBYTES: &str = "dev_size_mb=64";
const MOUNT_POINT: &str = "/media/drive";
/// Apps on the drive. When it is pulled out, one of them is prefetched, and the other learned.
const PREFETCHED: &str = "/media/drive/prefetched";
const LEARNED: &str = "/media/drive/learned";
const FILES: usize = 64;
const FILE_BYTES: usize = 64 << 10;
/// A FIFO on another drive. In its middle, each app waits for a line from it.
const STAY: &str = "/srv/stay";

const DELAY: &str = "/sys/bus/pseudo/drivers/scsi_debug/ndelay";
/// How long the drive takes for a request, in nanoseconds: when it goes, it is at work.
const REQUEST_NS: &str = "50000000";

/// The apps on the drive end, whatever they make of it. Apps elsewhere are learned and prefetched, what is left of the
/// drive can be unmounted, and the service stopped.
pub fn pulled_out(service: &Journal) {
    let name = plug_in();
    let mut stay = File::options().read(true).write(true).open(STAY).unwrap();
    let mut end = |mut apps: Vec<Child>| -> Vec<bool> {
        // Nobody can tell which of them takes a line.
        stay.write_all("go on\n".repeat(apps.len()).as_bytes())
            .unwrap();
        apps.iter_mut()
            .map(|app| app.wait().unwrap().success())
            .collect()
    };
    let pid = main_pid();
    for app in [PREFETCHED, LEARNED] {
        let enabled_us = now_us();
        output(&["paralfetch", "enable", app]);
        service.ready_to_learn(enabled_us);
        if app == PREFETCHED {
            assert_eq!(end(vec![apps::start(app)]), [true]);
            let learned = service.launch_of(app);
            assert_eq!(learned.field("F_KIND"), "Learned", "{}", learned.fields());
        }
    }
    until("the drive is slow", || fs::write(DELAY, REQUEST_NS).is_ok());
    drop_caches().unwrap();
    let under_way = [LEARNED, PREFETCHED].map(apps::start);
    for begun in of_both(service, "launch begins") {
        println!("        {}", begun.fields());
        let plan = match begun.field("F_APP") {
            LEARNED => "Learn",
            _ => "Prefetch",
        };
        assert_eq!(begun.field("F_PLAN"), plan);
    }
    fs::write(format!("/sys/block/{name}/device/delete"), "1").unwrap();
    let succeeded = end(under_way.into());
    assert!(succeeded.contains(&false), "what was not read yet is gone");
    for ended in of_both(service, "launch") {
        println!("        {}", ended.fields());
    }

    let asked_us = now_us();
    output(&as_user(&["paralfetch", "relearn", APP]));
    service.ready_to_learn(asked_us);
    let elsewhere = apps::launch_cold(service, APP);
    assert_eq!(elsewhere.field("F_KIND"), "Learned");
    apps::assert_prefetched(&apps::launch_cold(service, APP));
    assert_eq!(main_pid(), pid);
    output(&["umount", MOUNT_POINT]);
    for app in [PREFETCHED, LEARNED] {
        output(&["paralfetch", "forget", app]);
    }
    output(&["systemctl", "stop", UNIT]);
    assert_eq!(property(UNIT, "Result"), "success");
    output(&["systemctl", "start", UNIT]);
    service.start_of(main_pid());
}

/// Makes the drive, with the apps on it. Returns its name.
fn plug_in() -> String {
    output(&["modprobe", "scsi_debug", MEBIBYTES]);
    let mut name = None;
    until("the drive is there", || {
        let model = "/sys/bus/pseudo/drivers/scsi_debug/adapter0/";
        let found = outcome(&["find", model, "-path", "*/block/sd?"]);
        name = String::from_utf8_lossy(&found.stdout)
            .lines()
            .find_map(|line| Some(line.rsplit_once('/')?.1.to_owned()));
        name.is_some()
    });
    let name = name.unwrap();
    let node = format!("/dev/{name}");
    output(&["mkfs.ext4", "-q", &node]);
    fs::create_dir_all(MOUNT_POINT).unwrap();
    output(&["mount", &node, MOUNT_POINT]);
    output(&["mkfifo", "--mode=644", STAY]);
    for app in [PREFETCHED, LEARNED] {
        let data = format!("{app}-data");
        fs::create_dir(&data).unwrap();
        for n in 0..FILES {
            fs::write(format!("{data}/{n:02}"), vec![b'x'; FILE_BYTES]).unwrap();
        }
        let text =
            format!("exec 2>/dev/null; cat {data}/[0-3]*; read -r line <{STAY}; cat {data}/[4-6]*");
        apps::script(app, &text);
    }
    rustix::fs::sync();
    name
}

/// The next entry with this message of each app on the drive.
fn of_both(service: &Journal, message: &str) -> Vec<Entry> {
    let mut apps = vec![PREFETCHED, LEARNED];
    (0..apps.len())
        .map(|_| {
            let entry = service.next(message, |entry| {
                entry.message() == message && apps.contains(&entry.field("F_APP"))
            });
            apps.retain(|app| *app != entry.field("F_APP"));
            entry
        })
        .collect()
}
