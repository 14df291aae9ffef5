//! The cgroups of writers and of the foreground: the service or scope that a process belongs to, or else the cgroup
//! that it is in.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::fs::mounts::MountTable;
use crate::policy::WriterMemory;
use crate::process::{Cgroup, UnitManager};

/// Most cgroups that are remembered.
const MOST_KNOWN: usize = 256;

/// The cgroups that were seen.
pub(super) struct Groups {
    mounts: MountTable,
    known: RefCell<BTreeMap<String, KnownGroup>>,
}

struct KnownGroup {
    cgroup: Cgroup,
    /// The unit, where the system's systemd manages it.
    unit: Option<String>,
}

/// How a cgroup's limits are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupLimits {
    /// systemd owns it: by this unit.
    Unit(String),
    /// In the files of this directory.
    Directory(PathBuf),
}

impl Groups {
    /// In the hierarchy that is mounted.
    pub fn new(mounts: MountTable) -> Self {
        Groups {
            mounts,
            known: RefCell::default(),
        }
    }

    /// The cgroup of a process, as its path in the hierarchy. `None` if it has none, or has ended.
    pub fn of(&self, pid: i32) -> Option<String> {
        let cgroup = Cgroup::of(&self.mounts, pid).ok().flatten()?;
        let (cgroup, unit) = match cgroup.unit() {
            Some(unit) => {
                let is_ours = unit.manager == UnitManager::System;
                (unit.cgroup, is_ours.then_some(unit.name))
            }
            None => (cgroup, None),
        };
        let name = cgroup.path().to_str()?.to_owned();
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST_KNOWN && !known.contains_key(&name) {
            known.clear();
        }
        known.insert(name.clone(), KnownGroup { cgroup, unit });
        Some(name)
    }

    /// Forgets what was seen.
    pub fn forget(&self) {
        self.known.borrow_mut().clear();
    }

    /// The user on whose account its processes run.
    pub fn user(&self, group: &str) -> Option<u32> {
        self.known.borrow().get(group)?.cgroup.owner().ok()?
    }

    /// What its memory holds.
    pub fn memory(&self, group: &str) -> Option<WriterMemory> {
        let known = self.known.borrow();
        let memory = known.get(group)?.cgroup.memory().ok().flatten()?;
        let anonymous = memory.anonymous.saturating_add(memory.shared);
        let unwritten = memory.dirty.saturating_add(memory.writeback);
        Some(WriterMemory {
            used: memory.current,
            anonymous,
            clean: memory
                .current
                .saturating_sub(anonymous)
                .saturating_sub(unwritten),
        })
    }

    /// Whether it has a weight.
    pub fn has_weight(&self, group: &str) -> bool {
        let known = self.known.borrow();
        let cgroup = known.get(group).map(|known| &known.cgroup);
        cgroup.is_some_and(|cgroup| cgroup.bfq_weight().or_else(|| cgroup.io_weight()).is_some())
    }

    /// How its limits are set; `None` if it is not known, or its memory is not limited.
    pub fn limits(&self, group: &str) -> Option<GroupLimits> {
        let known = self.known.borrow();
        let KnownGroup { cgroup, unit } = known.get(group)?;
        cgroup.memory_high()?;
        Some(match unit {
            Some(unit) => GroupLimits::Unit(unit.clone()),
            None => GroupLimits::Directory(cgroup.directory().to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_has_no_cgroup() {
        let groups = Groups::new(MountTable::read().unwrap());
        assert_eq!(groups.of(i32::MAX), None);
        assert_eq!((groups.user("/x"), groups.memory("/x")), (None, None));
        assert_eq!(
            (groups.has_weight("/x"), groups.limits("/x")),
            (false, None)
        );
        if let Some(own) = groups.of(rustix::process::getpid().as_raw_pid()) {
            assert!(groups.known.borrow().contains_key(&own));
            groups.forget();
            assert_eq!(groups.user(&own), None);
        }
    }
}
