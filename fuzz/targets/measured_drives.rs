//! Any bytes as the file of drives that were measured: an error, or drives with numbers that drives can have, which can
//! be written and read again.
use paralfetch::drive::MeasuredDrives;
use paralfetch::schedule::formula;

pub fn check(bytes: &[u8]) {
    if let Ok(drives) = MeasuredDrives::parse(bytes) {
        for drive in drives.drives() {
            assert!(drive.costs.is_sound() && !drive.identities.is_empty());
            assert!(!formula::describe(&drive.costs).is_empty());
        }
        let text = drives.to_json().expect("sound numbers are JSON");
        let again = MeasuredDrives::parse(text.as_bytes()).expect("what was written can be read");
        assert_eq!(again.drives().len(), drives.drives().len());
    }
}
