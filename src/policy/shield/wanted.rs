//! Which measures the evidence calls for, mildest first.

use super::claim::Claim;
use super::event::Measure;
use super::look::{DirtyThresholds, DriveLook, ShieldLook, WriterMemory, is_related};
use super::measure::MeasureKind;
use super::settings::ShieldSettings;

/// What a writer's cgroup may have besides its anonymous memory, in bytes: enough for requests of full size.
const ABOVE_ANONYMOUS: u64 = 64 << 20;
/// A group measure ends if less than this is left of that, in bytes.
const LEAST_ABOVE: u64 = 32 << 20;
/// A limit of what is dirty is worth while if the backlog can be written down to it in this many seconds.
const SOON_S: u64 = 5;
/// It goes down by no more than this at a time, in bytes: what the kernel reclaims in a tenth of a second or two.
const LARGEST_STEP: u64 = 128 << 20;
/// The weight of a limited writer; 100 is the default.
const WEIGHT: u64 = 10;
/// The I/O scheduler that can take few writes at a time (`async_depth`), and then the drive has few.
const FEW_WRITES: &str = "mq-deadline";
/// What it is told: one request in each part of its map of tags (`dd_limit_depth`), of which there are four.
const ASYNC_DEPTH: u64 = 1;
/// The I/O scheduler that gives each task its share of the drive.
const FAIR: &str = "bfq";
/// Largest request, in KiB, for drives that take many commands at a time, and for those that take one.
const REQUEST_KB: u64 = 128;
const REQUEST_KB_ONE_COMMAND: u64 = 64;

/// What may not be combined with what is in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct InTheWay {
    /// Writeback is held back.
    pub hold: bool,
    /// A hold may not begin now: it has to rest, or it failed.
    pub no_hold: bool,
    /// The drive's requests may not be changed now: that has to rest, or it failed.
    pub no_requests: bool,
    /// The drive has few writes at a time.
    pub few_writes: bool,
}

/// The measures that this claim calls for, from mildest to strongest. Those of a claim that others support are the
/// same.
pub(super) fn wanted(
    claim: &Claim,
    look: &ShieldLook,
    settings: &ShieldSettings,
    in_the_way: InTheWay,
) -> Vec<Measure> {
    let Some(drive) = look
        .drives
        .iter()
        .find(|drive| drive.device == claim.device)
    else {
        return Vec::new();
    };
    if !drive.is_written() {
        return Vec::new();
    }
    let mut measures = priorities(claim, drive, settings);
    // Where the drive has few writes, a launch has no use for a hold; the writer, let go at the speed of memory, would
    // take processor time from it.
    let may_hold = claim.is_launch()
        && settings.allows(MeasureKind::Hold)
        && !in_the_way.no_hold
        && !in_the_way.few_writes;
    let hold = look
        .memory
        .hold(settings)
        .filter(|_| may_hold && !in_the_way.hold);
    if let Some(limits) = hold {
        measures.push(Measure::Hold(limits));
    }
    // While pages are to stay in memory, nothing may press them out. Nor may anything be begun that takes time: a
    // scheduler is changed when the requests under way are done.
    if hold.is_none() && !in_the_way.hold {
        let requests = requests(drive).filter(|_| settings.allows(MeasureKind::Requests));
        // With few writes at a time, a task that waits would wait for nothing but this limit, when it writes itself.
        if requests.is_none() || in_the_way.no_requests {
            measures.extend(limit(drive, look, settings));
        }
        measures.extend(groups(claim, look, settings));
        measures.extend(requests);
    }
    measures
}

fn priorities(claim: &Claim, drive: &DriveLook, settings: &ShieldSettings) -> Vec<Measure> {
    if !settings.allows(MeasureKind::Journal) || !drive.heeds_priority() {
        return Vec::new();
    }
    let priority = |tid, waits| Measure::Priority {
        device: drive.device,
        tid,
        waits,
    };
    let journals = drive.journals.iter().map(|&tid| priority(tid, false));
    let threads = claim.threads().iter().map(|&tid| priority(tid, true));
    journals.chain(threads).collect()
}

/// The limit of what is dirty: the drive's own, or else the system's. `None` where that would take too long to be of
/// use.
fn limit(drive: &DriveLook, look: &ShieldLook, settings: &ShieldSettings) -> Option<Measure> {
    if look.memory.dirty > soon_written(drive, settings) {
        return None;
    }
    if settings.allows(MeasureKind::Backlog) && drive.has_strict_limit {
        return Some(Measure::Backlog {
            device: drive.device,
            bytes: backlog_bytes(look, settings),
        });
    }
    let bytes = backlog_bytes(look, settings);
    let limits = DirtyThresholds::Bytes {
        background: bytes / 2,
        dirty: bytes,
    };
    let is_lower = match look.memory.limits? {
        DirtyThresholds::Bytes { dirty, .. } => bytes < dirty,
        DirtyThresholds::Ratios { dirty, .. } => {
            u128::from(bytes) * 100 < u128::from(look.memory.dirtyable) * u128::from(dirty)
        }
    };
    (settings.allows(MeasureKind::Dirty) && is_lower).then_some(Measure::Dirty(limits))
}

/// The largest backlog, in bytes, that this drive brings down to the limit soon. Beside a larger one, a task that waits
/// finds the drive as busy as ever, and its own writes are slowed down by the limit as the writer's are.
fn soon_written(drive: &DriveLook, settings: &ShieldSettings) -> u64 {
    let written = drive.written.unwrap_or(0).saturating_mul(SOON_S);
    settings.backlog_bytes().saturating_add(written)
}

/// What may be dirty: the limit, but never less than there is. A writer that has to wait until its backlog is written
/// stands still; one at its limit goes at the speed of the drive. The limit follows the backlog down.
fn backlog_bytes(look: &ShieldLook, settings: &ShieldSettings) -> u64 {
    look.memory.dirty.max(settings.backlog_bytes())
}

/// Limits of the cgroups of the account's own user.
fn groups(claim: &Claim, look: &ShieldLook, settings: &ShieldSettings) -> Vec<Measure> {
    if claim.uid.is_none() || !settings.allows(MeasureKind::Group) || look.memory.is_short() {
        return Vec::new();
    }
    let own = look.writers.iter().filter(|writer| {
        writer.uid == claim.uid
            && writer.is_writer()
            && !is_related(&writer.group, &look.foreground)
    });
    own.filter_map(|writer| {
        let memory = writer.memory?;
        Some(Measure::Group {
            group: writer.group.clone(),
            bytes: whole_mib(memory.used.max(group_target(&memory))),
            weight: writer.has_weight.then_some(WEIGHT),
        })
    })
    .collect()
}

/// The memory that a limited cgroup is left in the end, in bytes.
fn group_target(memory: &WriterMemory) -> u64 {
    memory.anonymous.saturating_add(ABOVE_ANONYMOUS)
}

/// The next limit of a cgroup, in bytes. Before Linux 6.16, whoever sets it, which is systemd for its units, has to
/// reclaim what is above it, and waits until that was written (`memory_high_write`). So a limit begins at what the cgroup
/// uses, and goes down by half of what is clean, since the writer takes clean pages meanwhile, or by what the drive writes
/// in a quarter of a second.
fn lower_limit(memory: &WriterMemory, look: &ShieldLook) -> u64 {
    let drives = look.drives.iter().filter(|drive| drive.is_written());
    let written = drives.filter_map(|drive| drive.written);
    let step = memory
        .clean
        .saturating_div(2)
        .min(LARGEST_STEP)
        .max(written.min().unwrap_or(0) / 4);
    whole_mib(memory.used.saturating_sub(step).max(group_target(memory)))
}

/// Whole MiB, as people read them; in bytes.
fn whole_mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20) << 20
}

/// Few and small writes at a time, so that neither the drive nor its scheduler holds many when somebody waits.
fn requests(drive: &DriveLook) -> Option<Measure> {
    let known = [FEW_WRITES, FAIR];
    let has_one = known.contains(&drive.scheduler.as_str());
    let other = known.into_iter().find(|name| drive.can_have(name));
    let scheduler = other.filter(|_| !has_one);
    let largest = match drive.one_command {
        true => REQUEST_KB_ONE_COMMAND,
        false => REQUEST_KB,
    };
    let takes_few = scheduler.unwrap_or(&drive.scheduler) == FEW_WRITES;
    let max_sectors_kb = (drive.max_sectors_kb > largest).then_some(largest);
    let measure = Measure::Requests {
        device: drive.device,
        scheduler: scheduler.map(str::to_owned),
        async_depth: takes_few.then_some(ASYNC_DEPTH),
        max_sectors_kb,
    };
    let changes = scheduler.is_some() || takes_few || max_sectors_kb.is_some();
    changes.then_some(measure)
}

/// How a measure in force is to be changed after this look, if so.
pub(super) fn adjusted(
    measure: &Measure,
    look: &ShieldLook,
    settings: &ShieldSettings,
) -> Option<Measure> {
    let lowered = |bytes: u64| {
        let target = backlog_bytes(look, settings);
        (target < bytes - bytes / 8).then_some(target)
    };
    match measure {
        Measure::Backlog { device, bytes } => Some(Measure::Backlog {
            device: *device,
            bytes: lowered(*bytes)?,
        }),
        Measure::Dirty(DirtyThresholds::Bytes { dirty, .. }) => {
            let dirty = lowered(*dirty)?;
            let background = dirty / 2;
            Some(Measure::Dirty(DirtyThresholds::Bytes { background, dirty }))
        }
        Measure::Group {
            group,
            bytes,
            weight,
        } => {
            let mut writers = look.writers.iter();
            let writer = writers.find(|writer| writer.group == *group)?;
            let lower = lower_limit(&writer.memory?, look);
            (lower < *bytes).then(|| Measure::Group {
                group: group.clone(),
                bytes: lower,
                weight: *weight,
            })
        }
        _ => None,
    }
}

/// Whether the cgroup has become the foreground's, or needs the memory that it was left. What it needs is taken for too
/// much if that cannot be told.
pub(super) fn hurts(measure: &Measure, look: &ShieldLook) -> bool {
    let Measure::Group { group, bytes, .. } = measure else {
        return false;
    };
    let writer = look.writers.iter().find(|writer| writer.group == *group);
    let memory = writer.and_then(|writer| writer.memory);
    is_related(group, &look.foreground)
        || memory.is_none_or(|memory| memory.anonymous.saturating_add(LEAST_ABOVE) > *bytes)
}

/// Whether a measure may not be in force while memory is short.
pub(super) fn needs_memory(measure: &Measure) -> bool {
    matches!(measure, Measure::Hold(_) | Measure::Group { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WriterLook;

    #[test]
    fn a_limit_hurts_when_little_is_left_or_nobody_can_tell() {
        let measure = Measure::Group {
            group: "/copy".into(),
            bytes: 74 << 20,
            weight: None,
        };
        let mut look = ShieldLook::default();
        assert!(hurts(&measure, &look), "it was not seen");
        let with = |anonymous| WriterMemory {
            anonymous,
            ..WriterMemory::default()
        };
        for (memory, expected) in [
            (Some(with(42 << 20)), false),
            (Some(with((42 << 20) + 1)), true),
            (None, true),
        ] {
            look.writers = vec![WriterLook {
                group: "/copy".into(),
                memory,
                ..WriterLook::default()
            }];
            assert_eq!(hurts(&measure, &look), expected, "{memory:?}");
        }
    }

    #[test]
    fn a_limit_goes_down_no_faster_than_it_can_be_reclaimed() {
        const MIB: u64 = 1 << 20;
        let look = |used, clean| ShieldLook {
            drives: vec![DriveLook {
                written: Some(40 * MIB),
                ..DriveLook::default()
            }],
            writers: vec![WriterLook {
                group: "/copy".into(),
                memory: Some(WriterMemory {
                    used: used * MIB,
                    anonymous: 10 * MIB,
                    clean: clean * MIB,
                }),
                ..WriterLook::default()
            }],
            ..ShieldLook::default()
        };
        let limit = |mib| Measure::Group {
            group: "/copy".into(),
            bytes: mib * MIB,
            weight: None,
        };
        let settings = ShieldSettings::default();
        for (used, clean, lower) in [
            (500, 0, Some(490)),
            (500, 200, Some(400)),
            (500, 400, Some(372)),
            // It has given up more by itself.
            (300, 5, Some(290)),
            (80, 40, Some(74)),
            // It is above the limit still: what is above a lower one would have to be waited for.
            (600, 0, None),
        ] {
            let adjusted = adjusted(&limit(500), &look(used, clean), &settings);
            assert_eq!(adjusted, lower.map(limit), "{used} {clean}");
        }
        assert_eq!(adjusted(&limit(74), &look(74, 60), &settings), None, "low");
        assert_eq!(
            adjusted(&limit(500), &ShieldLook::default(), &settings),
            None
        );
    }
}
