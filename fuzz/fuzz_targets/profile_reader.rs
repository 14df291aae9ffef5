//! Any bytes as a `.pf` file: an error or a profile, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Nearly every input is an error, as it should be; only a panic is a finding.
    drop(paralfetch::profile::decode(bytes));
});
