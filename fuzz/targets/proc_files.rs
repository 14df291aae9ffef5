//! Any bytes as the files of /proc/PID, and of cgroups, that are parsed: users choose the names of processes and of mapped
//! files.
use paralfetch::drive::FileMapping;
use paralfetch::process::{limits_reads, parse_stat};
use paralfetch::service::announce::user_and_nesting;

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_stat(bytes);
    let _ = user_and_nesting(&text);
    // Only what names a limit is one.
    assert!(!limits_reads(&text) || text.contains("rbps=") || text.contains("riops="));
    for mapping in FileMapping::all_in(&text) {
        let _ = mapping.addresses.is_empty();
    }
}
