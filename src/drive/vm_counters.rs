//! What the kernel counts of memory and of reads, for the whole system.

use crate::fs::virtual_file;

/// Some of /proc/vmstat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmCounters {
    /// Memory that holds nothing, in bytes.
    pub free_bytes: u64,
    /// Pages that were looked at so far to be given up: it grows before anything is evicted.
    pub scanned_pages: u64,
    /// Bytes that block devices were asked to read so far, by anybody.
    pub read_bytes: u64,
}

impl VmCounters {
    /// As they are now; `None` where the kernel does not tell.
    pub fn read() -> Option<Self> {
        let text = virtual_file::read("/proc/vmstat").ok()?;
        Self::parse(std::str::from_utf8(&text).ok()?)
    }

    fn parse(vmstat: &str) -> Option<Self> {
        let (mut free_bytes, mut read_bytes, mut scanned_pages) = (None, None, 0_u64);
        let page_bytes = rustix::param::page_size() as u64;
        for line in vmstat.lines() {
            let (name, value) = line.split_once(' ')?;
            let Ok(value) = value.trim().parse::<u64>() else {
                continue;
            };
            match name {
                "nr_free_pages" => free_bytes = Some(value.saturating_mul(page_bytes)),
                // In KiB, whatever a page has.
                "pgpgin" => read_bytes = Some(value.saturating_mul(1024)),
                // By kswapd, by who needs memory, and by khugepaged; older kernels have further zones' names.
                "pgscan_anon" | "pgscan_file" => {}
                name if name.starts_with("pgscan_") => {
                    scanned_pages = scanned_pages.saturating_add(value);
                }
                _ => {}
            }
        }
        Some(VmCounters {
            free_bytes: free_bytes?,
            scanned_pages,
            read_bytes: read_bytes?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read() {
        let text = "nr_free_pages 100\npgpgin 7\npgscan_kswapd 5\npgscan_direct 3\npgscan_anon 1\npgscan_file 7\n\
                    nr_other 9\n";
        let page_bytes = rustix::param::page_size() as u64;
        let expected = VmCounters {
            free_bytes: 100 * page_bytes,
            scanned_pages: 8,
            read_bytes: 7 << 10,
        };
        assert_eq!(VmCounters::parse(text), Some(expected));
        assert_eq!(VmCounters::parse("nr_free_pages 100\n"), None);
        assert!(VmCounters::read().is_some());
    }
}
