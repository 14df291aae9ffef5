//! Any bytes as the files of /proc/PID that are parsed: users choose the names of processes and of mapped files.
use paralfetch::drive::FileMapping;
use paralfetch::process::parse_stat;
use paralfetch::service::announce::user_and_nesting;

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_stat(bytes);
    let _ = user_and_nesting(&text);
    for mapping in FileMapping::all_in(&text) {
        let _ = mapping.addresses.is_empty();
    }
}
