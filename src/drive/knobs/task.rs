//! The I/O priority of a task.

use std::io;

use serde::{Deserialize, Serialize};

use super::heirs::Heirs;
use super::io_priority::{encode, get, has_class, set};
use super::setting::{IoClass, KnobError, Undone};
use crate::process::task_state;

/// A task whose I/O priority was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskChange {
    tid: i32,
    /// In clock ticks since boot: another task may get the same id later.
    start_time: u64,
    /// Priorities as the kernel has them.
    to: u16,
    old: u16,
    /// `None` until it was read back.
    ours: Option<u16>,
    /// Who may have inherited it, if they are to be set back.
    #[serde(default)]
    heirs: Option<Heirs>,
}

impl TaskChange {
    /// The change that gives the task this priority; `None` if it has it. A real-time priority is for tasks that have an
    /// ordinary one: somebody has chosen the others. `in_force` are the heirs of a change in force.
    pub fn prepare(
        tid: i32,
        class: IoClass,
        level: u8,
        in_force: Option<&Heirs>,
    ) -> Result<Option<Self>, KnobError> {
        let failed = |error| KnobError::Task { tid, error };
        let to = encode(class, level).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let task = task_state(tid).map_err(failed)?;
        let task = task.ok_or_else(|| failed(io::Error::from_raw_os_error(libc::ESRCH)))?;
        let old = get(tid).map_err(failed)?;
        // Nobody but an administrator has this class otherwise. The others are common, and harm nobody.
        let is_raised = class == IoClass::RealTime && !task.is_kernel_thread();
        let is_chosen = has_class(old, IoClass::RealTime) || has_class(old, IoClass::Idle);
        if old == to || (is_raised && is_chosen) {
            return Ok(None);
        }
        let heirs = is_raised.then(|| Heirs::of(tid, to, in_force));
        Ok(Some(TaskChange {
            tid,
            start_time: task.start_time,
            to,
            old,
            ours: None,
            heirs: heirs.transpose().map_err(failed)?,
        }))
    }

    /// The task, and who may inherit its priority.
    pub fn raised(&self) -> Option<(i32, &Heirs)> {
        Some((self.tid, self.heirs.as_ref()?))
    }

    /// Whether the task has the priority that it was given. ESRCH if it has ended.
    pub fn has_our_value(&self) -> Result<bool, KnobError> {
        let tid = self.tid;
        let failed = |error| KnobError::Task { tid, error };
        let is_same =
            task_state(tid).map(|task| task.is_some_and(|task| task.start_time == self.start_time));
        if !is_same.map_err(failed)? {
            return Err(failed(io::Error::from_raw_os_error(libc::ESRCH)));
        }
        let now = get(tid).map_err(failed)?;
        Ok(self.ours.is_none_or(|ours| ours == now))
    }

    /// Sets the priority and reads it back. Whether that changed anything.
    pub fn make(&mut self) -> Result<bool, KnobError> {
        let tid = self.tid;
        let made = set(tid, self.to).and_then(|()| get(tid));
        let now = made.map_err(|error| KnobError::Task { tid, error })?;
        self.ours = Some(now);
        Ok(now != self.old)
    }

    /// Restores the priority, if the task still has ours, and that of all tasks that have inherited it. `kept` have one
    /// by other changes, for these users.
    pub fn undo(&self, kept: &[(i32, u32)]) -> Result<Undone, KnobError> {
        let undone = match self.restore() {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Undone::Gone),
            restored => restored,
        };
        let heirs = self.heirs.as_ref();
        let set_back = heirs.map_or(Ok(()), |heirs| heirs.set_back(self.to, self.old, kept));
        undone
            .and_then(|undone| set_back.map(|()| undone))
            .map_err(|error| KnobError::Task {
                tid: self.tid,
                error,
            })
    }

    fn restore(&self) -> io::Result<Undone> {
        let is_same = task_state(self.tid)?.is_some_and(|task| task.start_time == self.start_time);
        if !is_same {
            return Ok(Undone::Gone);
        }
        let now = get(self.tid)?;
        if now == self.old {
            return Ok(Undone::Restored);
        }
        if self.ours.is_some_and(|ours| ours != now) {
            return Ok(Undone::ChangedByOthers);
        }
        set(self.tid, self.old)?;
        Ok(Undone::Restored)
    }

    /// Whether both concern one task.
    pub fn is_same_knob(&self, other: &Self) -> bool {
        (self.tid, self.start_time) == (other.tid, other.start_time)
    }

    /// Takes the original of an earlier change of the same task.
    pub fn take_over(&mut self, earlier: Self) {
        self.old = earlier.old;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_of_a_task_is_restored_unless_others_have_set_it() {
        // A thread of its own: other tests' threads keep theirs.
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_pid();
            let before = get(tid).unwrap();
            let prepare = || TaskChange::prepare(tid, IoClass::BestEffort, 6, None).unwrap();
            let mut change = prepare().unwrap();
            assert!(change.make().unwrap());
            assert_eq!(get(tid).unwrap(), 0x4006);
            assert!(prepare().is_none(), "it has that priority");
            assert!(change.has_our_value().unwrap());
            assert_eq!(change.undo(&[]).unwrap(), Undone::Restored);
            assert_eq!(get(tid).unwrap(), before);

            assert!(change.make().unwrap());
            set(tid, 0x4005).unwrap();
            assert!(!change.has_our_value().unwrap());
            assert_eq!(change.undo(&[]).unwrap(), Undone::ChangedByOthers);
            assert_eq!(get(tid).unwrap(), 0x4005);

            change.start_time += 1;
            assert_eq!(change.undo(&[]).unwrap(), Undone::Gone);
            assert!(change.has_our_value().is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_record_without_heirs_is_read() {
        let old = r#"{"tid": 7, "start_time": 1, "to": 8196, "old": 0, "ours": 8196}"#;
        let change: TaskChange = serde_json::from_str(old).unwrap();
        assert_eq!(change.heirs, None);
    }

    #[test]
    fn a_task_that_has_ended_is_gone() {
        let error = TaskChange::prepare(i32::MAX, IoClass::BestEffort, 0, None).unwrap_err();
        assert!(
            matches!(&error, KnobError::Task { error, .. } if error.raw_os_error() == Some(libc::ESRCH)),
            "{error}"
        );
    }
}
