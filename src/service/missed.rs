//! What launches that are over read themselves, against the profiles that were prefetched for them. Profiles are unpacked
//! and files are asked for here: on the worker.

use super::history::LaunchRecord;
use super::late_reads::EndedLaunch;
use super::own_reads::{by_file, path_for};
use crate::fs::mounts::MountTable;
use crate::fs::present::{Presence, present_devices};
use crate::fs::visible::VisibleNames;
use crate::judge::{KnownFiles, LiveSystem, lacked, readable};
use crate::learn::MissedReads;
use crate::model::{By, MissedRequests, OwnRead, PrefetchReport};
use crate::policy::LaunchFigures;
use crate::profile::decode;

/// What became of a launch that is over and is not written down yet.
pub struct LaunchResult {
    pub launch: EndedLaunch,
    pub figures: LaunchFigures,
    pub is_judged: bool,
    pub row: LaunchRecord,
}

impl LaunchResult {
    /// Compares what was noted of the launch's own reads with its profile, and puts down how many requests the profile
    /// lacks, and which files were read most. Returns what could be read ahead of what the profile lacks, for helpers too;
    /// `None` if the launch has no report.
    pub fn compare(&mut self, packed: &[u8], reads: Vec<OwnRead>) -> Option<MissedReads> {
        let (launch, figures) = (&self.launch, &self.figures);
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
        let lacked = lacked(reads, &known, &mut LiveSystem::new(mounts, launch.began));
        let counted = lacked.iter().filter(|(read, _)| of_tree(read));
        let requests = MissedRequests::of(counted.map(|(_, kind)| *kind));
        // The first requests stand for those that found no room.
        let requests = requests.in_proportion(figures.own_readaheads(), noted);
        let missed = missed_reads(launch, readable(lacked, &known), false);
        self.figures.missed = Some(requests);
        self.row.own_reads = Some(by_file);
        Some(missed)
    }
}

/// What an app read after its launch was over, as far as the profile does not hold it. `None` if that cannot be told.
pub fn late_reads(packed: &[u8], over: &EndedLaunch, reads: Vec<OwnRead>) -> Option<MissedReads> {
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
    let lacked = lacked(reads, &known, &mut LiveSystem::new(mounts, over.began));
    Some(missed_reads(over, readable(lacked, &known), true))
}

fn missed_reads(launch: &EndedLaunch, reads: Vec<(u16, OwnRead)>, are_late: bool) -> MissedReads {
    MissedReads {
        reads,
        start_ns: launch.start_ns,
        began: launch.began,
        are_late,
    }
}

/// The mount table. Without one, no file has a name, and nothing can be learned.
fn mount_table() -> MountTable {
    MountTable::read().unwrap_or_else(|_| MountTable::parse(b""))
}
