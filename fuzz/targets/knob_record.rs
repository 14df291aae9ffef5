//! Any bytes as the record of changed knobs: an error, or changes that are written and read again as they are.
use paralfetch::drive::check_record;

pub fn check(bytes: &[u8]) {
    let _ = check_record(bytes);
}
