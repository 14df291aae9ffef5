//! The I/O priority of a task.

use std::io;

use serde::{Deserialize, Serialize};

use super::setting::{IoClass, KnobError, Undone};
use crate::process::task_state;

/// From linux/ioprio.h: the class is in the highest 3 bits of 16, and a single task is meant.
const CLASS_SHIFT: u16 = 13;
const WHO_PROCESS: libc::c_int = 1;

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
}

impl TaskChange {
    /// The change that gives the task this priority; `None` if it has it.
    pub fn prepare(tid: i32, class: IoClass, level: u8) -> Result<Option<Self>, KnobError> {
        let failed = |error| KnobError::Task { tid, error };
        let to = encode(class, level).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let task = task_state(tid).map_err(failed)?;
        let task = task.ok_or_else(|| failed(io::Error::from_raw_os_error(libc::ESRCH)))?;
        let old = get(tid).map_err(failed)?;
        Ok((old != to).then_some(TaskChange {
            tid,
            start_time: task.start_time,
            to,
            old,
            ours: None,
        }))
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

    /// Restores the priority, if the task still has ours.
    pub fn undo(&self) -> Result<Undone, KnobError> {
        match self.restore() {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Undone::Gone),
            restored => restored.map_err(|error| KnobError::Task {
                tid: self.tid,
                error,
            }),
        }
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

/// As the kernel has it; `None` if there is no such level.
fn encode(class: IoClass, level: u8) -> Option<u16> {
    let (class, levels): (u16, u8) = match class {
        IoClass::None => (0, 1),
        IoClass::RealTime => (1, 8),
        IoClass::BestEffort => (2, 8),
        IoClass::Idle => (3, 1),
    };
    (level < levels).then_some(class << CLASS_SHIFT | u16::from(level))
}

/// ioprio_get(2).
fn get(tid: i32) -> io::Result<u16> {
    // SAFETY: the call takes numbers only.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, tid) };
    let priority = u16::try_from(priority).map_err(|_| io::Error::last_os_error())?;
    // Kernels before 5.18 tell a level of tasks that have no class, and none let it be set.
    Ok(if priority >> CLASS_SHIFT == 0 {
        0
    } else {
        priority
    })
}

/// ioprio_set(2).
fn set(tid: i32, priority: u16) -> io::Result<()> {
    let priority = libc::c_int::from(priority);
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, tid, priority) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_encoded_as_the_kernel_has_them() {
        assert_eq!(encode(IoClass::None, 0), Some(0));
        assert_eq!(encode(IoClass::RealTime, 4), Some(0x2004));
        assert_eq!(encode(IoClass::BestEffort, 7), Some(0x4007));
        assert_eq!(encode(IoClass::Idle, 0), Some(0x6000));
        for (class, level) in [
            (IoClass::None, 1),
            (IoClass::RealTime, 8),
            (IoClass::Idle, 1),
        ] {
            assert_eq!(encode(class, level), None);
        }
    }

    #[test]
    fn the_priority_of_a_task_is_restored_unless_others_have_set_it() {
        // A thread of its own: other tests' threads keep theirs.
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_pid();
            let before = get(tid).unwrap();
            let prepare = || TaskChange::prepare(tid, IoClass::BestEffort, 6).unwrap();
            let mut change = prepare().unwrap();
            assert!(change.make().unwrap());
            assert_eq!(get(tid).unwrap(), 0x4006);
            assert!(prepare().is_none(), "it has that priority");
            assert!(change.has_our_value().unwrap());
            assert_eq!(change.undo().unwrap(), Undone::Restored);
            assert_eq!(get(tid).unwrap(), before);

            assert!(change.make().unwrap());
            set(tid, 0x4005).unwrap();
            assert!(!change.has_our_value().unwrap());
            assert_eq!(change.undo().unwrap(), Undone::ChangedByOthers);
            assert_eq!(get(tid).unwrap(), 0x4005);

            change.start_time += 1;
            assert_eq!(change.undo().unwrap(), Undone::Gone);
            assert!(change.has_our_value().is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_task_that_has_ended_is_gone() {
        let error = TaskChange::prepare(i32::MAX, IoClass::BestEffort, 0).unwrap_err();
        assert!(
            matches!(&error, KnobError::Task { error, .. } if error.raw_os_error() == Some(libc::ESRCH)),
            "{error}"
        );
    }
}
