//! Whether there is memory to prefetch into.

use crate::fs::virtual_file;

/// How much memory prefetching may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLimits {
    /// Largest share of MemAvailable that a schedule may have, in percent.
    pub available_percent: u64,
    /// Nothing is prefetched if tasks waited for memory more than this share of the last 10 seconds, in
    /// percent. 100 turns the check off.
    pub pressure_percent: f64,
}

impl Default for MemoryLimits {
    /// For a launch that the user asks to prefetch: half of MemAvailable, and 10 %.
    fn default() -> Self {
        MemoryLimits {
            available_percent: 50,
            pressure_percent: 10.0,
        }
    }
}

/// The state of the system's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// MemAvailable, in bytes; `None` where the kernel does not report it.
    pub available: Option<u64>,
    /// Share of the last 10 s in which some task waited for memory, in percent (PSI); `None` where
    /// the kernel does not report it.
    pub pressure: Option<f64>,
}

impl Memory {
    /// Reads /proc/meminfo and /proc/pressure/memory.
    pub fn read() -> Self {
        let text = |path: &str| {
            let text = virtual_file::read(path).unwrap_or_default();
            String::from_utf8(text).unwrap_or_default()
        };
        Memory {
            available: available(&text("/proc/meminfo")),
            pressure: pressure(&text("/proc/pressure/memory")),
        }
    }

    /// Why `bytes` should not be prefetched now, if so: the prefetched pages would push out others,
    /// or each other.
    pub fn refuses(&self, bytes: u64, limits: &MemoryLimits) -> Option<String> {
        let share = limits.available_percent;
        let most = |available: u64| u128::from(available) * u128::from(share) / 100;
        let scarce = |available: &u64| u128::from(bytes) > most(*available);
        if let Some(available) = self.available.filter(scarce) {
            return Some(format!(
                "the schedule of {} MiB is more than {share} % of the {} MiB of memory available",
                bytes >> 20,
                available >> 20
            ));
        }
        match self.pressure {
            Some(share) if share > limits.pressure_percent => Some(format!(
                "memory is short (tasks waited {share:.0} % of the last 10 s)"
            )),
            _ => None,
        }
    }
}

/// The system's memory, in bytes.
pub fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn pressure(psi: &str) -> Option<f64> {
    psi.lines()
        .find(|line| line.starts_with("some "))?
        .split_whitespace()
        .find_map(|field| field.strip_prefix("avg10="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        assert_eq!(
            available("MemTotal:  100 kB\nMemAvailable:   2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(available(""), None);
        let psi = "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 total=0\n";
        assert_eq!(pressure(psi), Some(12.5));
        assert_eq!(pressure(""), None);
    }

    #[test]
    fn refuses_when_memory_is_short() {
        let refuses = |available, pressure, bytes, available_percent, pressure_percent| {
            let limits = MemoryLimits {
                available_percent,
                pressure_percent,
            };
            let refused = Memory {
                available,
                pressure,
            }
            .refuses(bytes, &limits);
            refused.is_some()
        };
        let (plenty, calm) = (Some(1 << 30), Some(0.0));
        assert!(!refuses(plenty, calm, 100 << 20, 50, 10.0));
        assert!(refuses(plenty, calm, 600 << 20, 50, 10.0));
        assert!(refuses(plenty, calm, 100 << 20, 9, 10.0));
        assert!(refuses(plenty, Some(30.0), 1, 50, 10.0));
        assert!(!refuses(plenty, Some(30.0), 1, 50, 100.0), "no check");
        assert!(!refuses(None, None, 1 << 40, 50, 10.0), "nothing is known");
    }
}
