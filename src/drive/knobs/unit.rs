//! A resource limit of a systemd unit.
//!
//! systemd keeps a limit that is set at run time in a file beside the unit's own (a drop-in), which outlives the
//! unit's restart and would hide what an administrator writes into the unit's file later. So restoring sets the
//! old value, and removes the drop-in if our change has made it.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::setting::{KnobError, Undone, UnitProperty, cannot};
use super::systemd::{SystemBus, UnitState};

/// Directories in which systemd keeps what was set at run time.
const RUN_TIME: [&str; 2] = ["system.control", "transient"];

/// A limit that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnitChange {
    unit: String,
    property: UnitProperty,
    /// Values in the property's unit.
    to: u64,
    old: u64,
    /// `None` until it was read back.
    ours: Option<u64>,
    /// Which run of the unit it was.
    invocation: String,
    /// Whether this limit had been set at run time before.
    had_drop_in: bool,
}

impl UnitChange {
    /// The change that sets this limit; `None` if it is so.
    pub fn prepare(
        bus: &SystemBus,
        unit: &str,
        property: UnitProperty,
        value: u64,
    ) -> Result<Option<Self>, KnobError> {
        let failed = failed(unit, property);
        if !is_unit_name(unit) {
            return Err(failed(
                "this is no name of a service, scope or slice".to_owned(),
            ));
        }
        let found = bus.look(unit, property).map_err(&failed)?;
        let found = found.ok_or_else(|| failed("there is no such unit".to_owned()))?;
        Ok((found.value != value).then(|| UnitChange {
            unit: unit.to_owned(),
            property,
            to: value,
            old: found.value,
            ours: None,
            had_drop_in: drop_in(&found, unit, property).is_some(),
            invocation: found.invocation,
        }))
    }

    /// Sets the limit and reads it back. Whether that changed anything.
    pub fn make(&mut self, bus: &SystemBus) -> Result<bool, KnobError> {
        let failed = failed(&self.unit, self.property);
        let set = bus.set(&self.unit, self.property, self.to);
        set.map_err(&failed)?;
        let found = bus.look(&self.unit, self.property).map_err(&failed)?;
        let found = found.ok_or_else(|| failed("the unit has ended".to_owned()))?;
        self.ours = Some(found.value);
        Ok(found.value != self.old)
    }

    /// Restores the limit, if it still has our value. A unit that was started anew has limits of its own, unless
    /// systemd has applied our drop-in to it.
    pub fn undo(&self, bus: &SystemBus) -> Result<Undone, KnobError> {
        let failed = failed(&self.unit, self.property);
        let Some(found) = bus.look(&self.unit, self.property).map_err(&failed)? else {
            return Ok(Undone::Gone);
        };
        let drop_in = drop_in(&found, &self.unit, self.property).filter(|_| !self.had_drop_in);
        if found.invocation != self.invocation && drop_in.is_none() {
            return Ok(Undone::Gone);
        }
        if found.value == self.old {
            return Ok(Undone::Restored);
        }
        if self.ours.is_some_and(|ours| ours != found.value) {
            return Ok(Undone::ChangedByOthers);
        }
        bus.set(&self.unit, self.property, self.old)
            .map_err(failed)?;
        drop_in.map_or(Ok(()), remove)?;
        Ok(Undone::Restored)
    }

    /// Whether both concern one limit of one run of a unit.
    pub fn is_same_knob(&self, other: &Self) -> bool {
        let key = |change: &Self| {
            (
                change.unit.clone(),
                change.property,
                change.invocation.clone(),
            )
        };
        key(self) == key(other)
    }

    /// Takes the original of an earlier change of the same limit.
    pub fn take_over(&mut self, earlier: Self) {
        self.old = earlier.old;
        self.had_drop_in = earlier.had_drop_in;
    }
}

fn failed(unit: &str, property: UnitProperty) -> impl Fn(String) -> KnobError {
    let unit = unit.to_owned();
    move |error| KnobError::Unit {
        unit: unit.clone(),
        property,
        error,
    }
}

/// Whether this can be a service, scope or slice: what systemd.unit(5) allows, and not longer.
fn is_unit_name(name: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || ":-_.\\@".contains(char);
    name.len() < 256
        && name.chars().all(is_allowed)
        && [".service", ".scope", ".slice"]
            .iter()
            .any(|kind| name.len() > kind.len() && name.ends_with(kind))
}

/// The file in which systemd keeps this limit, if it was set at run time.
fn drop_in<'a>(found: &'a UnitState, unit: &str, property: UnitProperty) -> Option<&'a Path> {
    let file = format!("50-{}.conf", property.name());
    let directory = format!("{unit}.d");
    let is_wanted = |path: &&Path| {
        let mut names = path.iter().rev();
        names.next() == Some(file.as_ref())
            && names.next() == Some(directory.as_ref())
            && names
                .next()
                .is_some_and(|kept| RUN_TIME.iter().any(|name| kept == *name))
    };
    found
        .drop_ins
        .iter()
        .map(|path| path.as_path())
        .find(is_wanted)
}

/// Removes the drop-in, and its directory if nothing else is in it.
fn remove(drop_in: &Path) -> Result<(), KnobError> {
    match fs::remove_file(drop_in) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(cannot("change", drop_in))?,
    }
    let Some(directory) = drop_in.parent() else {
        return Ok(());
    };
    match fs::remove_dir(directory) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(cannot("change", directory)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_services_scopes_and_slices_have_limits() {
        for name in [
            "backup.service",
            "app-gimp@7.service",
            "session-1.scope",
            "a\\x2db.slice",
        ] {
            assert!(is_unit_name(name), "{name}");
        }
        let long = format!("{}.service", "x".repeat(300));
        for name in [
            "",
            ".service",
            "a.mount",
            "a/b.service",
            "a b.scope",
            "x",
            &long,
        ] {
            assert!(!is_unit_name(name), "{name}");
        }
    }

    #[test]
    fn what_was_set_at_run_time_is_told_from_the_administrators_files() {
        let drop_in_of = |paths: &[&str]| {
            let found = UnitState {
                value: 0,
                invocation: String::new(),
                drop_ins: paths.iter().map(Into::into).collect(),
            };
            drop_in(&found, "a.service", UnitProperty::IoWeight).map(Path::to_owned)
        };
        let ours = "/run/systemd/system.control/a.service.d/50-IOWeight.conf";
        assert_eq!(
            drop_in_of(&["/etc/systemd/system/a.service.d/50-IOWeight.conf", ours]),
            Some(ours.into())
        );
        for other in [
            "/etc/systemd/system/a.service.d/50-IOWeight.conf",
            "/run/systemd/system.control/b.service.d/50-IOWeight.conf",
            "/run/systemd/system.control/a.service.d/50-MemoryHigh.conf",
            "50-IOWeight.conf",
        ] {
            assert_eq!(drop_in_of(&[other]), None, "{other}");
        }
    }
}
