//! What launches that are over read themselves, against the profiles that were prefetched for them. Profiles are unpacked
//! and files are asked for here: on the worker.

use std::time::SystemTime;

use super::history::{FileReads, LaunchRecord};
use super::late_reads::OverLaunch;
use super::own_reads::{by_file, path_for};
use crate::fs::mounts::MountTable;
use crate::fs::present::{Presence, present_devices};
use crate::fs::visible::VisibleNames;
use crate::judge::{KnownFiles, LackedReads, LiveSystem};
use crate::learn::MissedReads;
use crate::model::{By, MissedRequests, OwnRead, PrefetchReport, UserApp};
use crate::policy::LaunchFigures;
use crate::profile::decode;

/// A launch that is over and is not written down yet.
pub struct EndedLaunch {
    pub key: UserApp,
    pub figures: LaunchFigures,
    pub is_judged: bool,
    pub began: SystemTime,
    pub row: LaunchRecord,
}

/// What a prefetched launch read itself because its profile does not hold it.
pub struct Missed {
    /// The launch tree's requests.
    pub requests: MissedRequests,
    /// All that was noted and could be read ahead, of helpers too.
    pub reads: MissedReads,
    /// All that the launch tree read itself until it was complete, by file.
    pub by_file: Vec<FileReads>,
}

impl Missed {
    /// Compares what was noted of a launch with the profile; `None` if the launch has no report.
    pub fn find(packed: &[u8], launch: &EndedLaunch, reads: Vec<OwnRead>) -> Option<Missed> {
        let figures = &launch.figures;
        // This program has packed it.
        let (report, profile) = figures.report.as_ref().zip(decode(packed).ok())?;
        let known = KnownFiles::new(&profile, report);
        // What comes after the completion pages is not waited for, and is not counted either.
        let end_ns = figures.counts.completed_ns;
        let of_tree =
            |read: &OwnRead| read.by == By::Tree && (end_ns == 0 || read.time_ns <= end_ns);
        let own: Vec<&OwnRead> = reads.iter().filter(|read| of_tree(read)).collect();
        let (noted, mounts) = (own.len() as u64, mount_table());
        let mut names = VisibleNames::new(launch.key.uid, &mounts);
        let name = |file| path_for(&mut names, &mounts, file);
        let by_file = by_file(own.into_iter(), |read| known.holds(read), name);
        let mut system = LiveSystem::new(mounts, launch.began);
        let lacked = LackedReads::among(reads, &known, &mut system);
        // The first requests stand for those that found no room.
        let requests = lacked.requests(of_tree);
        Some(Missed {
            requests: requests.in_proportion(figures.own_readaheads(), noted),
            reads: MissedReads {
                reads: lacked.readable(&known),
                start_ns: figures.counts.start_ns,
                began: launch.began,
                are_late: false,
            },
            by_file,
        })
    }
}

/// What an app read after its launch was over, as far as the profile does not hold it. `None` if that cannot be told.
pub fn late_reads(packed: &[u8], over: &OverLaunch, reads: Vec<OwnRead>) -> Option<MissedReads> {
    // This program has packed it.
    let profile = decode(packed).ok()?;
    let mounts = mount_table();
    // Nothing was prefetched meanwhile.
    let report = PrefetchReport {
        devices: present_devices(&profile, &mounts)
            .iter()
            .map(Presence::dev)
            .collect(),
        ..PrefetchReport::default()
    };
    let known = KnownFiles::new(&profile, &report);
    let mut system = LiveSystem::new(mounts, over.began);
    Some(MissedReads {
        reads: LackedReads::among(reads, &known, &mut system).readable(&known),
        start_ns: over.start_ns,
        began: over.began,
        are_late: true,
    })
}

/// The mount table. Without one, no file has a name, and nothing can be learned.
fn mount_table() -> MountTable {
    MountTable::read().unwrap_or_else(|_| MountTable::parse(b""))
}
