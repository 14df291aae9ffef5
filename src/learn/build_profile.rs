//! Making a profile of what was traced of a launch.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::completion_pages::{
    UsedPages, choose, completed_at, completion_pages, file_of, in_tables, used_most_after,
};
use crate::drive::{MeasuredDrives, Sysfs, costs_of};
use crate::fs::kind::FsKind;
use crate::fs::mounts::MountTable;
use crate::fs::present::present_devices;
use crate::fs::snap::is_outdated;
use crate::kernel::Trace;
use crate::learn::cold::{LearnSummary, LearnedProfile, NotLearned};
use crate::learn::images::{UsedImages, used_images, with_image_reads};
use crate::learn::sequence::{Earlier, Observed, Requirements, Sequence, resolve};
use crate::model::{
    Access, App, By, DeviceParams, DriveCosts, Ended, GivenParams, Learned, LogEntry, Place,
    Profile, Revision, Span,
};
use crate::process::LaunchOver;
use crate::schedule::{formula, main_device, schedule_for};

/// A traced launch, apart from its trace.
pub(super) struct WatchedLaunch {
    pub app: App,
    pub over: LaunchOver,
    pub started: SystemTime,
    pub how: Learned,
    pub exact_faults: bool,
    /// The launch sequence that the app has already, in the form of a profile.
    pub earlier: Option<Profile>,
    pub sysfs: Sysfs,
    pub given: GivenParams,
    /// Where it is kept what drives were measured to cost. `None`: they have the numbers of their class.
    pub state_dir: Option<PathBuf>,
}

impl WatchedLaunch {
    /// Makes the profile: resolves the trace to a launch sequence and schedules it. Nothing more is asked of the
    /// system once `is_late` says so.
    ///
    /// # Errors
    /// If events were lost or not recorded, it took too long, or nothing of the launch can be prefetched.
    pub fn build_profile(
        self,
        trace: &Trace,
        mounts: &MountTable,
        is_late: &dyn Fn() -> bool,
    ) -> Result<LearnedProfile, NotLearned> {
        if let Some(excess) = trace.excess {
            return Err(excess.into());
        }
        if trace.lost > 0 {
            let what = "events of the launch were lost, try again on a quieter system";
            return Err(NotLearned::failed(format!("{} {what}", trace.lost)));
        }
        // What cannot be read is reported by `doctor` and `probe`.
        let measured = self.state_dir.as_deref().map(MeasuredDrives::load);
        let measured = measured.and_then(Result::ok).unwrap_or_default();
        let costs = |dev| costs_of(dev, &self.sysfs, mounts, &measured);
        let clock = Instant::now();
        let images = used_images(&trace.accesses, mounts);
        let sequence = self.sequence(trace, mounts, &images, &costs, is_late);
        let resolving = clock.elapsed();
        let Some((sequence, earlier)) = sequence else {
            let what = "finding the launch's files and paths on the drive took too long";
            return Err(NotLearned::failed(what));
        };
        if sequence.log.is_empty() {
            let what = "the launch read nothing from a supported file system (ext4, XFS, btrfs, EROFS, \
                        squashfs)";
            let reasons = sequence.report.left_out_lines().join("; ");
            return Err(NotLearned::failed(match reasons.is_empty() {
                true => what.to_owned(),
                false => format!("{what} (left out: {reasons})"),
            }));
        }
        let clock = Instant::now();
        // The parameters of the drive that most is read from are tuned.
        let main = &sequence.devices[main_device(&sequence.log).unwrap_or(0)];
        let created = self.created_s();
        let history = self.history(&costs(main.dev), created);
        let params = history[history.len() - 1].params;
        let params = DeviceParams::new(&sequence.devices, main.class, params);
        let entries = schedule_for(&sequence.log, &params);
        let scheduling = clock.elapsed();
        let end_ns = end_of_launch(trace, self.over);
        let duration = Duration::from_nanos(end_ns.saturating_sub(trace.start_ns));
        let data_until = Duration::from_micros(sequence.data_until_us);
        let used = UsedPages::of(&trace.accesses);
        // A cold run need not see the use of what it reads.
        let shows_use = self.how == Learned::Live && trace.hooks.faults.sees();
        let is_shared = |page: Span| {
            let file = file_of(page, &sequence.devices, &sequence.files);
            file.is_some_and(|file| {
                (!shows_use || used.have(file, page.start)) && earlier.have_used(file, page.start)
            })
        };
        let seen = seen_in_time(&sequence, &trace.accesses, &images);
        // A cold run is timed to its last read, as in the papers.
        let until = match self.how {
            Learned::Live => used_most_after(&seen, duration),
            _ => duration,
        };
        let found = completion_pages(&seen, until, data_until, is_shared);
        let completion = self.pages_to_time_by(trace, &sequence, found, duration, &used);
        let (devices, files) = (&sequence.devices, &sequence.files);
        let completed_ns = completed_at(&trace.accesses, devices, files, &completion);

        let summary = LearnSummary {
            duration,
            completed_ns,
            required: Requirements::of(&sequence, trace.hooks.faults.sees()),
            resolved: sequence.report,
            resolving,
            scheduling,
            exact_faults: self.exact_faults,
            lost_paths: trace.lost_paths,
        };
        let learned_at = self.learned_at(&earlier);
        let log = sequence.log;
        let profile = Profile {
            app: self.app,
            created,
            learned: self.how,
            ended: self.over.ended,
            hooks: trace.hooks,
            history,
            devices: sequence.devices,
            files: sequence.files,
            entries,
            operations: sequence.operations,
            fault_around: sequence.fault_around,
            unused: sequence.unused,
            learned_at,
            helpers: sequence.helpers,
            completion,
            log_entries: log.len() as u32,
            obsolete: 0,
        };
        Ok(LearnedProfile {
            profile,
            log,
            unread: sequence.unread,
            summary,
        })
    }

    /// The scheduling parameters of a drive, or what dynamic scheduling has made of them for the launch sequence that
    /// this launch is combined with. Never empty.
    fn history(&self, costs: &DriveCosts, created: u64) -> Vec<Revision> {
        let params = formula::params(costs, self.how.is_touched());
        let params = self.given.in_place_of(params);
        let tuned = self.earlier.as_ref().filter(|earlier| {
            let first = earlier.history.first().map(|revision| revision.params);
            first == Some(params) && earlier.learned == Learned::Live && self.how == Learned::Live
        });
        let first = Revision {
            time: created,
            params,
        };
        tuned.map_or_else(|| vec![first], |earlier| earlier.history.clone())
    }

    /// The completion pages: those that were `found` in this launch, or those of earlier launches if it `used` them all.
    fn pages_to_time_by(
        &self,
        trace: &Trace,
        sequence: &Sequence,
        found: Vec<Span>,
        duration: Duration,
        used: &UsedPages,
    ) -> Vec<Span> {
        let Sequence {
            devices,
            files,
            log,
            ..
        } = sequence;
        let complete = |pages: &[Span]| {
            let at_ns = completed_at(&trace.accesses, devices, files, pages)?;
            Some(Duration::from_nanos(at_ns.checked_sub(trace.start_ns)?))
        };
        let is_here = |page: &Span| {
            let is_used =
                file_of(*page, devices, files).is_some_and(|file| used.have(file, page.start));
            is_used
                && log.iter().any(|entry| {
                    entry.span.place == page.place && entry.span.pages().contains(&page.start)
                })
        };
        let earlier = self.earlier.as_ref();
        let earlier = earlier.and_then(|earlier| in_tables(earlier, devices, files));
        let earlier = earlier.filter(|pages| pages.iter().all(is_here));
        let earlier = earlier.and_then(|pages| {
            let until = complete(&pages)?;
            Some((pages, until))
        });
        let found = (!found.is_empty()).then_some(found);
        let chosen = choose(
            earlier.filter(|(_, until)| *until <= duration),
            // Where the use is not recorded, it is the end of the launch.
            found.map(|pages| {
                let until = complete(&pages).unwrap_or(duration);
                (pages, until)
            }),
        );
        chosen.unwrap_or_default()
    }

    /// When the launches were that the launch sequence was learned from, combined with what was learned `earlier`.
    fn learned_at(&self, earlier: &Earlier) -> Vec<u64> {
        match self.how {
            Learned::Live => earlier.learned_at(self.created_s()),
            _ => vec![self.created_s()],
        }
    }

    /// The launch sequence, and what was learned earlier of this version of the app. `None` if it took too long.
    fn sequence(
        &self,
        trace: &Trace,
        mounts: &MountTable,
        images: &UsedImages,
        costs: &dyn Fn(u64) -> DriveCosts,
        is_late: &dyn Fn() -> bool,
    ) -> Option<(Sequence, Earlier)> {
        let touches = self.how == Learned::Live;
        // What another executable used says nothing of this one. Its version may lie beside this one's, so that all of its
        // files are still there.
        let of_this_version = |profile: &&Profile| !self.app.has_other_file_than(&profile.app);
        let earlier = self.earlier.as_ref().filter(of_this_version);
        let earlier = earlier.map(|profile| {
            let present = present_devices(profile, mounts);
            // Nothing of an old version is needed any more, although it is still there.
            let is_current = |dev: &u64| !is_outdated(*dev, mounts);
            let devices = present.iter().map(|it| it.dev().filter(is_current));
            let devices = devices.collect();
            Earlier::new(profile, touches, devices)
        });
        let earlier = earlier.unwrap_or_default();
        // An exact launch reads all that it needs.
        let nothing = Earlier::default();
        let of_images = if touches { &earlier } else { &nothing };
        let accesses = with_image_reads(&trace.accesses, images, of_images);
        let observed = Observed {
            accesses: &accesses,
            paths: &trace.paths,
            namespaces: &trace.namespaces,
            start_ns: trace.start_ns,
            started: self.started,
            touches,
            earlier: &earlier,
            uid: self.app.uid,
        };
        let class = |dev| formula::class(&costs(dev));
        let sequence = resolve(&observed, mounts, &class, is_late)?;
        Some((sequence, earlier))
    }

    fn created_s(&self) -> u64 {
        let since = self.started.duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }
}

/// The log without data whose use is not seen as it happens in later launches: blocks of images, and files that are read alone
/// on file systems that hide reads.
fn seen_in_time(sequence: &Sequence, accesses: &[Access], images: &UsedImages) -> Vec<LogEntry> {
    let is_mapping = |access: &&Access| access.by == By::Tree && access.is_fault();
    let mapped = accesses.iter().filter(is_mapping);
    let mapped: HashSet<(u64, u64)> = mapped.map(|access| (access.dev, access.ino)).collect();
    let is_seen = |entry: &&LogEntry| {
        let Place::Data { file } = entry.span.place else {
            return true;
        };
        let file = &sequence.files[file as usize];
        let device = &sequence.devices[usize::from(file.device)];
        let key = (device.dev, file.ino);
        let shows_reads = FsKind::of(&device.fs).is_some_and(FsKind::shows_reads);
        !images.contains_key(&key) && (shows_reads || mapped.contains(&key))
    };
    sequence.log.iter().filter(is_seen).copied().collect()
}

/// When the launch ended, CLOCK_MONOTONIC in nanoseconds: at its completion block, if it fell quiet. Reads in
/// the quiet window after that are learned all the same.
fn end_of_launch(trace: &Trace, over: LaunchOver) -> u64 {
    let end_ns = match over.ended {
        Ended::Exit => trace.exit_ns,
        Ended::Quiet => over.completion_ns,
        Ended::Timeout => None,
    };
    let last = trace.accesses.last();
    end_ns.unwrap_or(last.map_or(trace.start_ns, |access| access.time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Device, DriveClass, File, Source};

    #[test]
    fn launches_are_timed_neither_by_images_nor_by_what_is_read_alone_where_reads_are_hidden() {
        let device = |dev, fs: &str| Device {
            dev,
            name: String::new(),
            fs: fs.to_owned(),
            fs_uuid: [0; 16],
            class: DriveClass::CommandQueuing,
        };
        let file = |device, ino| File {
            device,
            ino,
            generation: 0,
            size: 4096,
            mtime_ns: 0,
            path: None,
        };
        let entry = |file, device| LogEntry {
            span: Span::new(Place::Data { file }, 0..1),
            device,
            lba: 0,
            time_us: 0,
        };
        let sequence = Sequence {
            devices: vec![device(8, "ext4"), device(7, "squashfs")],
            files: vec![file(0, 1), file(0, 2), file(1, 1), file(1, 2)],
            log: vec![entry(0, 0), entry(1, 0), entry(2, 1), entry(3, 1)],
            ..Sequence::default()
        };
        let mapped = Access {
            time_ns: 1,
            dev: 7,
            ino: 2,
            generation: 0,
            start: 0,
            len: 1,
            source: Source::Fault,
            by: By::Tree,
        };
        let read = Access {
            ino: 1,
            source: Source::Read,
            ..mapped
        };
        let images = UsedImages::from([((8, 2), 0)]);
        let seen = seen_in_time(&sequence, &[mapped, read], &images);
        assert_eq!(seen, [entry(0, 0), entry(3, 1)]);
    }
}
