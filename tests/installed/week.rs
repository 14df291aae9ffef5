//! A week on a file system that is mounted `noatime`: a launch a day, with updates between. Each day the service
//! looks through the files of the profile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use paralfetch::fs::ext4::{BlockUse, Ext4};
use paralfetch::model::{Place, Profile};
use paralfetch::profile::Store;
use serde_json::Value;

use crate::apps::{self, APP, DISK, profile_of};
use crate::upheavals::{install_package, obsolete_entries_found, set_clock};
use common::guest::journal::{Journal, now_us};
use common::guest::system::{STATE_DIR, as_user, output, until};

const DAYS: i64 = 7;
const DAY_S: i64 = 24 * 60 * 60;

/// From which of the app's files on some are replaced. A host that is busy may let a launch begin before it is seen: its
/// first files are not learned then.
const FIRST_FILE: usize = 100;

/// Holds when the profiles were looked through last, in [`STATE_DIR`].
const REGISTRY: &str = "managed.json";

/// The pages of a schedule or launch sequence.
#[derive(Clone)]
struct Pages {
    /// Inodes of the files' pages, by path and number of the page.
    data: BTreeMap<(String, u64), u64>,
    /// Blocks of the file system.
    metadata: BTreeSet<u64>,
}

/// The profile stays whole, and each launch is prefetched.
pub fn without_access_times(service: &Journal) {
    output(&["mount", "-o", "remount,noatime", "/"]);
    // A profile that is new: no launch of this week is due to be learned, or to go without prefetching.
    let created = || profile_of(APP)["created"].as_u64().unwrap();
    let (old, asked_us) = (created(), now_us());
    output(&as_user(&["paralfetch", "relearn", APP]));
    service.ready_to_learn(asked_us);
    let learned = apps::launch_cold(service, APP);
    assert_eq!(learned.field("F_KIND"), "Learned", "{}", learned.fields());
    until("the profile is stored", || created() != old);
    let mut needed = Pages::needed();
    let mut files = apps::data().skip(FIRST_FILE);
    let not_replaced = files.next().unwrap();
    let accessed = || fs::metadata(&not_replaced).unwrap().accessed().unwrap();
    let before = accessed();
    for day in 1..=DAYS {
        let replaced = match day {
            2 | 6 => {
                install_package("pf-other", "/srv/other", format!("day {day}").as_bytes());
                None
            }
            3 => files.next().inspect(|file| {
                install_package("pf-part", file, &fs::read(file).unwrap());
            }),
            // By hand: nothing tells the service of it before the daily check.
            5 => files.next().inspect(|file| {
                let new = format!("{file}.new");
                fs::copy(file, &new).unwrap();
                fs::rename(&new, file).unwrap();
            }),
            _ => None,
        };
        day_goes_by(service, replaced.is_some());
        needed.assert_scheduled(replaced.as_deref());
        needed = Pages::needed();
        apps::assert_prefetched(&apps::launch_cold(service, APP));
        needed.assert_scheduled(None);
        needed = Pages::needed();
    }
    assert_eq!(
        accessed(),
        before,
        "the app's launches leave no access times"
    );
    set_clock(-DAYS * DAY_S);
    output(&["mount", "-o", "remount,relatime", "/"]);
}

/// Sets the clock a day forward and waits until the service has looked through its profiles, and whether it found a
/// file replaced.
fn day_goes_by(service: &Journal, is_replaced: bool) {
    let now_s = set_clock(DAY_S);
    until("the profiles were looked through", || {
        // A question wakes the service, which sees then that a day has gone by. Systemd's watchdog does so, too.
        output(&["paralfetch", "status"]);
        let registry = fs::read(Path::new(STATE_DIR).join(REGISTRY)).unwrap();
        let registry: Value = serde_json::from_slice(&registry).unwrap();
        registry["checked_s"].as_u64() >= Some(now_s)
    });
    if is_replaced {
        obsolete_entries_found(service);
    }
}

impl Pages {
    /// What the app's launches need: its launch sequence. The schedule has holes between these pages, too, and others
    /// whenever something joins.
    fn needed() -> Pages {
        let (store, app) = stored();
        Pages::of(&store.load_sequence(app.app.key()).unwrap().unwrap())
    }

    fn of(profile: &Profile) -> Pages {
        let (mut data, mut metadata) = (BTreeMap::new(), BTreeSet::new());
        for span in profile.entries.iter().map(|entry| entry.span) {
            match span.place {
                Place::Metadata { .. } => metadata.extend(span.pages()),
                Place::Data { file } => {
                    let file = &profile.files[file as usize];
                    let path = file.path.as_ref().expect("nothing has renamed it");
                    let path = String::from_utf8(path.clone()).unwrap();
                    data.extend(span.pages().map(|page| ((path.clone(), page), file.ino)));
                }
            }
        }
        Pages { data, metadata }
    }

    /// Checks that all of this is scheduled now, with the file that took the place of a replaced one. There may be more:
    /// what two prefetched launches have missed joins the profile.
    fn assert_scheduled(&self, replaced: Option<&str>) {
        let scheduled = Pages::of(&stored().1);
        let mut expected = self.clone();
        if let Some(replaced) = replaced {
            let inode = fs::metadata(replaced).unwrap().ino();
            let pages = expected.data.iter_mut();
            let of_file: Vec<_> = pages.filter(|((path, _), _)| path == replaced).collect();
            assert!(!of_file.is_empty() && *of_file[0].1 != inode, "{replaced}");
            of_file.into_iter().for_each(|(_, old)| *old = inode);
            // The block of the old inode has those of its neighbours, too, which the app reads.
            let block = Ext4::open(DISK.as_ref()).unwrap().inode_block(inode);
            expected.metadata.insert(block.unwrap());
        }
        let data = expected.data.iter();
        let lost: Vec<_> = data
            .filter(|(page, inode)| scheduled.data.get(page) != Some(inode))
            .collect();
        let ext4 = Ext4::open(DISK.as_ref()).unwrap();
        // The kernel reads inode tables ahead: blocks of them that hold no inode may have joined the profile, and go.
        let is_used = |block: &&u64| ext4.block_use(**block) != BlockUse::Unused;
        let metadata = expected.metadata.difference(&scheduled.metadata);
        let metadata: Vec<_> = metadata.filter(is_used).collect();
        assert!(
            lost.is_empty() && metadata.is_empty(),
            "lost: {lost:?}, metadata {metadata:?}"
        );
    }
}

/// The service's profiles, and the app's.
fn stored() -> (Store, Profile) {
    let store = Store::open(STATE_DIR.as_ref()).unwrap();
    let app = store.find(rustix::process::getuid().as_raw(), APP.as_ref());
    let app = app.unwrap().expect("the app has a profile");
    (store, app)
}
