//! Any bytes as the record of changed knobs: an error, or changes that are written and read again as they are.
#![no_main]

use paralfetch::drive::check_record;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = check_record(bytes);
});
