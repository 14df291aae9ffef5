//! The I/O priority of a task: two calls of the kernel, which have no wrapper in a library that we use.

use std::io;

use super::setting::IoClass;

/// From linux/ioprio.h: the class is in the highest 3 bits of 16, and a single task is meant.
const CLASS_SHIFT: u16 = 13;
const WHO_PROCESS: libc::c_int = 1;

/// As the kernel has it; `None` if there is no such level.
pub(super) fn encode(class: IoClass, level: u8) -> Option<u16> {
    let (class, levels): (u16, u8) = match class {
        IoClass::None => (0, 1),
        IoClass::RealTime => (1, 8),
        IoClass::BestEffort => (2, 8),
        IoClass::Idle => (3, 1),
    };
    (level < levels).then_some(class << CLASS_SHIFT | u16::from(level))
}

/// Whether the priority is of this class.
pub(super) fn has_class(priority: u16, class: IoClass) -> bool {
    encode(class, 0).is_some_and(|of_class| of_class >> CLASS_SHIFT == priority >> CLASS_SHIFT)
}

/// ioprio_get(2).
pub(super) fn get(tid: i32) -> io::Result<u16> {
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
pub(super) fn set(tid: i32, priority: u16) -> io::Result<()> {
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
        assert!(has_class(0x2006, IoClass::RealTime) && !has_class(0x2006, IoClass::Idle));
        assert!(has_class(0, IoClass::None));
        for (class, level) in [
            (IoClass::None, 1),
            (IoClass::RealTime, 8),
            (IoClass::Idle, 1),
        ] {
            assert_eq!(encode(class, level), None);
        }
    }
}
