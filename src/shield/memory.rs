//! What the kernel says of memory and dirty pages.

use std::fs;
use std::io;
use std::path::Path;

use crate::drive::Memory;
use crate::policy::{DirtyThresholds, MemoryLook};

/// Where the system's dirty limits are set.
pub(super) const VM: &str = "/proc/sys/vm";

/// Looks at memory.
pub(super) fn look() -> MemoryLook {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    MemoryLook {
        limits: limits(Path::new(VM)).ok(),
        pressure: Memory::read().pressure,
        ..parse(&meminfo)
    }
}

/// /proc/meminfo.
fn parse(meminfo: &str) -> MemoryLook {
    let value = |name: &str| {
        let line = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        kib.map_or(0, |kib: u64| kib.saturating_mul(1024))
    };
    MemoryLook {
        total: value("MemTotal"),
        available: value("MemAvailable"),
        // As global_dirtyable_memory() in mm/page-writeback.c, but for the reserve.
        dirtyable: value("MemFree") + value("Active(file)") + value("Inactive(file)"),
        dirty: value("Dirty") + value("Writeback"),
        pressure: None,
        limits: None,
    }
}

/// The limits in the form that is in force: the other one is 0.
fn limits(vm: &Path) -> io::Result<DirtyThresholds> {
    let value = |name: &str| {
        let text = fs::read_to_string(vm.join(name))?;
        text.trim().parse::<u64>().map_err(io::Error::other)
    };
    let (background, dirty) = (value("dirty_background_bytes")?, value("dirty_bytes")?);
    Ok(match (background, dirty) {
        (1.., 1..) => DirtyThresholds::Bytes { background, dirty },
        (0, 0) => DirtyThresholds::Ratios {
            background: value("dirty_background_ratio")?,
            dirty: value("dirty_ratio")?,
        },
        _ => return Err(io::Error::other("one limit is a ratio, the other in bytes")),
    })
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable: 4 kB\nActive(file): 2 kB\n\
                    Inactive(file): 3 kB\nDirty: 5 kB\nWriteback: 6 kB\nWritebackTmp: 9 kB\n";
        let look = parse(text);
        assert_eq!((look.total, look.available), (8192, 4096));
        assert_eq!((look.dirtyable, look.dirty), (6144, 11 << 10));
        assert_eq!(parse(""), MemoryLook::default());
    }

    #[test]
    fn the_form_of_the_limits_that_is_in_force_is_found() {
        let vm = tempdir().unwrap();
        let set = |values: [&str; 4]| {
            let names = [
                "dirty_background_ratio",
                "dirty_ratio",
                "dirty_background_bytes",
                "dirty_bytes",
            ];
            for (name, value) in names.iter().zip(values) {
                fs::write(vm.path().join(name), value).unwrap();
            }
            limits(vm.path()).ok()
        };
        let ratios = DirtyThresholds::Ratios {
            background: 10,
            dirty: 20,
        };
        assert_eq!(set(["10\n", "20\n", "0\n", "0\n"]), Some(ratios));
        let bytes = DirtyThresholds::Bytes {
            background: 7,
            dirty: 9,
        };
        assert_eq!(set(["0", "0", "7", "9"]), Some(bytes));
        assert_eq!(set(["10", "0", "0", "9"]), None);
    }
}
