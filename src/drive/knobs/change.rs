//! One change of one knob, whatever kind of knob that is.

use serde::{Deserialize, Serialize};

use super::file::FileChange;
use super::heirs::Heirs;
use super::setting::{KnobError, Setting, Undone};
use super::systemd::SystemBus;
use super::task::TaskChange;
use super::unit::UnitChange;

/// A change, as it is recorded before it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Change {
    File(FileChange),
    Unit(UnitChange),
    Task(TaskChange),
}

impl Change {
    /// The change that makes the setting; `None` if it is so already. `in_force` are all others.
    pub fn prepare<'a>(
        bus: &SystemBus,
        setting: &Setting,
        mut in_force: impl Iterator<Item = &'a Change>,
    ) -> Result<Option<Self>, KnobError> {
        Ok(match setting {
            Setting::File { path, value } => FileChange::prepare(path, value)?.map(Change::File),
            Setting::UnitProperty {
                unit,
                property,
                value,
            } => UnitChange::prepare(bus, unit, *property, *value)?.map(Change::Unit),
            Setting::IoPriority { tid, class, level } => {
                let heirs = in_force.find_map(Change::raised).map(|(_, heirs)| heirs);
                TaskChange::prepare(*tid, *class, *level, heirs)?.map(Change::Task)
            }
        })
    }

    /// Whether the knob has the value that this change gave it. An error if it has gone.
    pub fn has_our_value(&self, bus: &SystemBus) -> Result<bool, KnobError> {
        match self {
            Change::File(change) => change.has_our_value(),
            Change::Unit(change) => change.has_our_value(bus),
            Change::Task(change) => change.has_our_value(),
        }
    }

    /// Makes it and reads back what became of it. Whether that changed anything.
    pub fn make(&mut self, bus: &SystemBus) -> Result<bool, KnobError> {
        match self {
            Change::File(change) => change.make(),
            Change::Unit(change) => change.make(bus),
            Change::Task(change) => change.make(),
        }
    }

    /// Restores the knob, if it still has our value. A change that was recorded and perhaps not made is undone
    /// unless the knob has its old value: the process was killed in between. `others` stay in force.
    pub fn undo<'a>(
        &self,
        bus: &SystemBus,
        others: impl Iterator<Item = &'a Change>,
    ) -> Result<Undone, KnobError> {
        match self {
            Change::File(change) => change.undo(),
            Change::Unit(change) => change.undo(bus),
            Change::Task(change) => {
                let kept = others.filter_map(Change::raised);
                let kept: Vec<(i32, u32)> = kept.map(|(tid, heirs)| (tid, heirs.uid)).collect();
                change.undo(&kept)
            }
        }
    }

    /// The task that it has raised, and who may inherit that.
    fn raised(&self) -> Option<(i32, &Heirs)> {
        match self {
            Change::Task(change) => change.raised(),
            _ => None,
        }
    }

    /// Whether both concern one knob.
    pub fn is_same_knob(&self, other: &Self) -> bool {
        match (self, other) {
            (Change::File(one), Change::File(other)) => one.is_same_knob(other),
            (Change::Unit(one), Change::Unit(other)) => one.is_same_knob(other),
            (Change::Task(one), Change::Task(other)) => one.is_same_knob(other),
            _ => false,
        }
    }

    /// Takes the original of an earlier change of the same knob, which need not be undone any more.
    pub fn take_over(&mut self, earlier: Self) {
        match (self, earlier) {
            (Change::File(change), Change::File(earlier)) => change.take_over(earlier),
            (Change::Unit(change), Change::Unit(earlier)) => change.take_over(earlier),
            (Change::Task(change), Change::Task(earlier)) => change.take_over(earlier),
            _ => {}
        }
    }
}
