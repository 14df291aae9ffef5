//! A resource limit of a systemd unit.
//!
//! systemd keeps a limit that is set at run time in a file beside the unit's own (a drop-in), which outlives the
//! unit's restart and would hide what an administrator writes into the unit's file later. So restoring sets the
//! old value, and removes the drop-in if our change has made it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::setting::{KnobError, Undone, UnitProperty, cannot};
use super::systemd::{SystemBus, UnitState};

/// Directories in which systemd keeps what was set at run time.
const RUN_TIME: [&str; 2] = ["system.control", "transient"];

/// Where systemd keeps what is set at run time for units that have files of their own. It removes what it keeps for
/// the others together with them.
const RUN_TIME_CONTROL: &str = "/run/systemd/system.control";

/// Where it keeps what is set for good.
const FOR_GOOD: &str = "/etc";

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
    /// The file in which systemd keeps it. `None` until it was read back.
    #[serde(default)]
    drop_in: Option<PathBuf>,
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
            drop_in: None,
            invocation: found.invocation,
        }))
    }

    /// Whether the same run of the unit has the limit that it was given. An error if it has ended.
    pub fn has_our_value(&self, bus: &SystemBus) -> Result<bool, KnobError> {
        let failed = failed(&self.unit, self.property);
        let found = bus.look(&self.unit, self.property).map_err(&failed)?;
        let found = found.ok_or_else(|| failed("the unit has ended".to_owned()))?;
        Ok(found.invocation == self.invocation && self.ours.is_none_or(|ours| ours == found.value))
    }

    /// Sets the limit and reads it back. Whether that changed anything.
    pub fn make(&mut self, bus: &SystemBus) -> Result<bool, KnobError> {
        let failed = failed(&self.unit, self.property);
        let set = bus.set(&self.unit, self.property, self.to);
        set.map_err(&failed)?;
        let found = bus.look(&self.unit, self.property).map_err(&failed)?;
        let found = found.ok_or_else(|| failed("the unit has ended".to_owned()))?;
        self.ours = Some(found.value);
        self.drop_in = drop_in(&found, &self.unit, self.property).map(Path::to_owned);
        Ok(found.value != self.old)
    }

    /// Restores the limit, if it still has our value. A unit that was started anew has limits of its own, unless
    /// systemd has applied to it what was set at run time.
    pub fn undo(&self, bus: &SystemBus) -> Result<Undone, KnobError> {
        let failed = failed(&self.unit, self.property);
        let Some(found) = bus.look(&self.unit, self.property).map_err(&failed)? else {
            self.remove_left_over()?;
            return Ok(Undone::Gone);
        };
        match self.became(&found) {
            Some(undone @ (Undone::Gone | Undone::ChangedByOthers)) => return Ok(undone),
            // A process that was killed in between has left the drop-in.
            Some(Undone::Restored) => {}
            None => bus
                .set(&self.unit, self.property, self.old)
                .map_err(failed)?,
        }
        self.own_drop_in(&found).map_or(Ok(()), remove)?;
        Ok(Undone::Restored)
    }

    /// What has become of the limit of a unit that is found like this. `None`: it still has our value.
    fn became(&self, found: &UnitState) -> Option<Undone> {
        let drop_in = drop_in(found, &self.unit, self.property);
        if found.invocation != self.invocation && drop_in.is_none() {
            Some(Undone::Gone)
        } else if found.value == self.old {
            Some(Undone::Restored)
        } else if self.ours.is_some_and(|ours| ours != found.value) {
            Some(Undone::ChangedByOthers)
        } else {
            None
        }
    }

    /// The drop-in, if our change has made it.
    fn own_drop_in<'a>(&self, found: &'a UnitState) -> Option<&'a Path> {
        drop_in(found, &self.unit, self.property).filter(|_| !self.had_drop_in)
    }

    /// Removes the drop-in that our change has made for a unit that systemd no longer knows: it would limit every later
    /// run. What others have written there since is left alone.
    fn remove_left_over(&self) -> Result<(), KnobError> {
        if self.had_drop_in {
            return Ok(());
        }
        let drop_in = self.drop_in.clone().unwrap_or_else(|| {
            Path::new(RUN_TIME_CONTROL)
                .join(directory_name(&self.unit))
                .join(file_name(self.property))
        });
        match fs::read_to_string(&drop_in) {
            Ok(text) if self.is_ours(&text) => remove(&drop_in),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(cannot("change", &drop_in)(error))
            }
            _ => Ok(()),
        }
    }

    /// Whether this text of a drop-in sets the limit to our value.
    fn is_ours(&self, text: &str) -> bool {
        let name = self.property.name();
        let mut values = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        let value: Option<u64> = match values.next_back() {
            Some("infinity") => Some(u64::MAX),
            value => value.and_then(|value| value.parse().ok()),
        };
        value.is_some_and(|value| value == self.to || self.ours == Some(value))
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

/// As systemd calls the directory of a unit's drop-ins.
fn directory_name(unit: &str) -> String {
    format!("{unit}.d")
}

/// As it calls the drop-in of a limit.
fn file_name(property: UnitProperty) -> String {
    format!("50-{}.conf", property.name())
}

/// The file in which systemd keeps this limit, if it was set at run time.
fn drop_in<'a>(found: &'a UnitState, unit: &str, property: UnitProperty) -> Option<&'a Path> {
    let file = file_name(property);
    let directory = directory_name(unit);
    let is_wanted = |path: &&Path| {
        let mut names = path.iter().rev();
        !path.starts_with(FOR_GOOD)
            && names.next() == Some(file.as_ref())
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
            "/etc/systemd/system.control/a.service.d/50-IOWeight.conf",
            "/run/systemd/system.control/b.service.d/50-IOWeight.conf",
            "/run/systemd/system.control/a.service.d/50-MemoryHigh.conf",
            "50-IOWeight.conf",
        ] {
            assert_eq!(drop_in_of(&[other]), None, "{other}");
        }
    }

    /// A change from no limit to 64 MiB, of which systemd has made 60.
    fn change(had_drop_in: bool) -> UnitChange {
        UnitChange {
            unit: "a.service".to_owned(),
            property: UnitProperty::MemoryHigh,
            to: 64 << 20,
            old: u64::MAX,
            ours: Some(60 << 20),
            invocation: "1".to_owned(),
            had_drop_in,
            drop_in: None,
        }
    }

    #[test]
    fn what_became_of_a_limit_is_told_by_the_run_its_value_and_the_drop_in() {
        let drop_in = Path::new("/run/systemd/system.control/a.service.d/50-MemoryHigh.conf");
        let found = |value, invocation: &str, has_drop_in: bool| UnitState {
            value,
            invocation: invocation.to_owned(),
            drop_ins: has_drop_in
                .then(|| drop_in.to_owned())
                .into_iter()
                .collect(),
        };
        let ours = 60 << 20;
        for had_drop_in in [false, true] {
            let change = change(had_drop_in);
            for (value, invocation, has_drop_in, expected) in [
                (ours, "1", true, None),
                (ours, "2", true, None),
                (ours, "2", false, Some(Undone::Gone)),
                (7 << 20, "1", true, Some(Undone::ChangedByOthers)),
                (7 << 20, "2", true, Some(Undone::ChangedByOthers)),
                (u64::MAX, "1", true, Some(Undone::Restored)),
            ] {
                let found = found(value, invocation, has_drop_in);
                assert_eq!(change.became(&found), expected, "{found:?}");
            }
            let own = (!had_drop_in).then_some(drop_in);
            assert_eq!(change.own_drop_in(&found(ours, "1", true)), own);
        }
    }

    #[test]
    fn a_unit_that_has_ended_keeps_no_limit_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let drop_in = dir.path().join("a.service.d/50-MemoryHigh.conf");
        for (text, had_drop_in, is_kept) in [
            ("[Service]\nMemoryHigh=67108864\n", false, false),
            ("# Ours.\n[Service]\nMemoryHigh=62914560\n", false, false),
            ("[Service]\nMemoryHigh=67108864\n", true, true),
            ("[Service]\nMemoryHigh=7340032\n", false, true),
            ("[Service]\nMemoryHigh=infinity\n", false, true),
            ("[Service]\nMemoryHighest=67108864\n", false, true),
        ] {
            fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
            fs::write(&drop_in, text).unwrap();
            let mut change = change(had_drop_in);
            change.drop_in = Some(drop_in.clone());
            change.remove_left_over().unwrap();
            assert_eq!(drop_in.exists(), is_kept, "{text}");
            // What has gone is no error.
            change.remove_left_over().unwrap();
        }
    }
}
