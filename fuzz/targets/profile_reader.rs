//! Any bytes as a `.pf` file: an error or a profile, never a panic.
pub fn check(bytes: &[u8]) {
    // Nearly every input is an error, as it should be; only a panic is a finding.
    drop(paralfetch::profile::decode(bytes));
}
