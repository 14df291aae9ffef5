//! Any bytes as a portable profile: an error of one line, or a profile that is written and read back.
use paralfetch::profile::PortableProfile;

pub fn check(bytes: &[u8]) {
    match PortableProfile::parse(bytes) {
        Ok(profile) => {
            assert_eq!(profile.bytes_by_file().len(), profile.files.len());
            let text = profile.to_text().expect("what is read can be written");
            assert_eq!(PortableProfile::parse(text.as_bytes()), Ok(profile));
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}
