//! What is seen of drives, memory and writers: the evidence that measures rest on.

use std::collections::BTreeSet;

use super::settings::ShieldSettings;

/// A drive writes if it has written this much, in bytes per second.
const WRITES: u64 = 1 << 20;
/// A cgroup is a writer's if it makes this much dirty, in bytes per second.
const WRITER: u64 = 4 << 20;
/// MemAvailable below which memory is short, as a share of all memory: one in so many.
const SHORT: u64 = 10;
/// The same by PSI: share of the last 10 s in which some task waited for memory, in percent.
const PRESSED: f64 = 10.0;
/// A hold that leaves less room than this, in bytes, is not worth while.
const LEAST_ROOM: u64 = 64 << 20;
/// Limits in percent that a hold does not go beyond: the rest is for pages that are not dirty.
const MOST_BACKGROUND: u64 = 80;
const MOST_DIRTY: u64 = 90;

/// One look at everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShieldLook {
    /// Memory, and what of it is dirty.
    pub memory: MemoryLook,
    /// The drives of launches and waiting tasks.
    pub drives: Vec<DriveLook>,
    /// Who makes pages dirty, largest first.
    pub writers: Vec<WriterLook>,
    /// The cgroups of launches and waiting tasks, and our own.
    pub foreground: BTreeSet<String>,
}

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryLook {
    /// MemTotal.
    pub total: u64,
    /// MemAvailable.
    pub available: u64,
    /// Free memory and the pages of files: what the kernel takes ratios of (`global_dirtyable_memory`).
    pub dirtyable: u64,
    /// Dirty pages and pages under writeback.
    pub dirty: u64,
    /// Share of the last 10 s in which some task waited for memory, in percent (PSI); `None` where the kernel does
    /// not report it.
    pub pressure: Option<f64>,
    /// The system's dirty limits.
    pub limits: Option<DirtyThresholds>,
}

/// The system's dirty limits: where writeback begins, and where writers are slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyThresholds {
    /// `dirty_background_ratio` and `dirty_ratio`, in percent.
    Ratios { background: u64, dirty: u64 },
    /// `dirty_background_bytes` and `dirty_bytes`.
    Bytes { background: u64, dirty: u64 },
}

/// One drive: a whole disk, with everything that lies on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveLook {
    /// Its number, the kernel's dev_t.
    pub device: u32,
    /// Write requests under way.
    pub writes_in_flight: u64,
    /// Written since the last look, in bytes per second; `None` at the first.
    pub written: Option<u64>,
    /// Whether what is dirty of it can be limited (`strict_limit`, Linux 6.2 and later).
    pub has_strict_limit: bool,
    /// Its I/O scheduler, and the others that it can have.
    pub scheduler: String,
    /// Those that are loaded, the present one included.
    pub schedulers: Vec<String>,
    /// Largest request, in KiB.
    pub max_sectors_kb: u64,
    /// Whether it takes one command at a time.
    pub one_command: bool,
    /// The threads that write the journals of its file systems.
    pub journals: Vec<i32>,
}

/// A cgroup whose processes make pages dirty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterLook {
    /// Its path in the unified hierarchy, as in /proc/PID/cgroup.
    pub group: String,
    /// The user of all of its processes; `None` if there are several.
    pub uid: Option<u32>,
    /// Made dirty, in bytes per second.
    pub written: u64,
    /// What its memory holds; `None` if that cannot be told.
    pub memory: Option<WriterMemory>,
    /// Whether a weight changes its share of the drive (bfq, iocost).
    pub has_weight: bool,
}

/// What the memory of a cgroup holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterMemory {
    /// All of it.
    pub used: u64,
    /// What it can give up only to swap: anonymous and shared memory.
    pub anonymous: u64,
    /// Pages of files that need not be written before they are given up.
    pub clean: u64,
}

impl MemoryLook {
    /// Whether memory is short: nothing may hold pages back then, and no cgroup may be pressed.
    pub fn is_short(&self) -> bool {
        self.available < self.total / SHORT || self.pressure.is_some_and(|share| share > PRESSED)
    }

    /// The limits that hold writeback back; `None` if there is no room for it.
    pub fn hold(&self, settings: &ShieldSettings) -> Option<DirtyThresholds> {
        let room = percent(self.available, settings.hold_percent);
        if self.is_short() || room < LEAST_ROOM {
            return None;
        }
        let most = self.dirty.saturating_add(room);
        match self.limits? {
            DirtyThresholds::Ratios { background, dirty } => {
                let share = u128::from(most) * 100 / u128::from(self.dirtyable.max(1));
                let raised = u64::try_from(share)
                    .unwrap_or(u64::MAX)
                    .min(MOST_BACKGROUND);
                let limits = DirtyThresholds::Ratios {
                    background: raised,
                    dirty: (raised + raised / 8)
                        .clamp(dirty.max(raised + 1), MOST_DIRTY.max(dirty)),
                };
                (raised > background).then_some(limits)
            }
            DirtyThresholds::Bytes { background, dirty } => {
                let limits = DirtyThresholds::Bytes {
                    background: most,
                    dirty: most.saturating_add(most / 8).max(dirty),
                };
                (most > background).then_some(limits)
            }
        }
    }
}

/// `share` percent of `bytes`.
fn percent(bytes: u64, share: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(share) / 100).unwrap_or(u64::MAX)
}

impl DriveLook {
    /// Whether it is being written.
    pub fn is_written(&self) -> bool {
        self.writes_in_flight > 0 || self.written.is_some_and(|bytes| bytes >= WRITES)
    }

    /// Whether it can have this I/O scheduler now.
    pub fn can_have(&self, scheduler: &str) -> bool {
        self.schedulers.iter().any(|known| known == scheduler)
    }

    /// Whether the I/O scheduler heeds the class of an I/O priority.
    pub fn heeds_priority(&self) -> bool {
        matches!(self.scheduler.as_str(), "bfq" | "mq-deadline")
    }
}

impl WriterLook {
    /// Whether it writes enough to matter.
    pub fn is_writer(&self) -> bool {
        self.written >= WRITER
    }
}

/// Whether a limit of this cgroup is one of these cgroups, too: the same, above or below. The root is above all.
pub(super) fn is_related(group: &str, others: &BTreeSet<String>) -> bool {
    let mut others = others.iter();
    others.any(|other| is_within(other, group) || is_within(group, other))
}

/// Whether the cgroup is `outer`, or below it.
fn is_within(inner: &str, outer: &str) -> bool {
    let outer = outer.trim_end_matches('/');
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn memory(limits: DirtyThresholds) -> MemoryLook {
        MemoryLook {
            total: 16 * GIB,
            available: 10 * GIB,
            dirtyable: 10 * GIB,
            dirty: 2 * GIB,
            pressure: Some(0.0),
            limits: Some(limits),
        }
    }

    #[test]
    fn a_hold_raises_the_limits_by_what_memory_allows() {
        let settings = ShieldSettings::default();
        let ratios = |background, dirty| DirtyThresholds::Ratios { background, dirty };
        let bytes = |background, dirty| DirtyThresholds::Bytes { background, dirty };
        let stock = memory(ratios(10, 20));
        assert_eq!(stock.hold(&settings), Some(ratios(40, 45)));
        let full = MemoryLook {
            dirty: 9 * GIB,
            ..stock
        };
        assert_eq!(full.hold(&settings), Some(ratios(80, 90)));
        assert_eq!(
            memory(ratios(40, 60)).hold(&settings),
            None,
            "raised already"
        );
        assert_eq!(memory(ratios(30, 95)).hold(&settings), Some(ratios(40, 95)));
        let by_bytes = memory(bytes(GIB, 2 * GIB)).hold(&settings);
        assert_eq!(by_bytes, Some(bytes(4 * GIB, 4 * GIB + GIB / 2)));
        for short in [
            MemoryLook {
                available: GIB,
                ..stock
            },
            MemoryLook {
                pressure: Some(11.0),
                ..stock
            },
            MemoryLook {
                total: GIB,
                available: GIB / 4,
                ..stock
            },
            MemoryLook {
                limits: None,
                ..stock
            },
        ] {
            assert_eq!(short.hold(&settings), None, "{short:?}");
        }
    }

    #[test]
    fn cgroups_are_related_along_one_path() {
        for (other, expected) in [
            ("/user/a", true),
            ("/user/a/b", true),
            ("/user", true),
            ("/", true),
            ("/user/ab", false),
            ("/system", false),
        ] {
            let others = BTreeSet::from([other.into()]);
            assert_eq!(is_related("/user/a", &others), expected, "{other}");
        }
        assert!(is_related("/", &BTreeSet::from(["/user".into()])));
    }
}
