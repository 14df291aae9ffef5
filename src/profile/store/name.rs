//! Names of the files in the store.

use crate::model::AppKey;

/// The end of every profile's name.
pub const SUFFIX: &str = ".pf";

/// `<last component of the path>-<CRC-32 of root, NUL, path>.pf`: readable, and different for apps of one
/// name in different directories or root directories.
pub fn file_name(app: AppKey) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(app.root.unwrap_or_default());
    hasher.update(&[0]);
    hasher.update(app.path);
    format!("{}{:08x}{SUFFIX}", file_prefix(app.path), hasher.finalize())
}

/// The same for the launch sequence that is kept beside a profile.
pub fn sequence_name(app: AppKey) -> String {
    let mut name = file_name(app);
    name.truncate(name.len() - SUFFIX.len());
    name + ".seq"
}

/// The start of the names of all files whose apps have the last component of `path`.
pub fn file_prefix(path: &[u8]) -> String {
    /// With the checksum and the suffix well below NAME_MAX, 255 bytes.
    const LONGEST: usize = 64;
    let plain = |&c: &u8| match c {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'+' | b'-' => char::from(c),
        _ => '_',
    };
    let mut prefix: String = base_name(path).iter().take(LONGEST).map(plain).collect();
    if prefix.starts_with('.') {
        prefix.replace_range(..1, "_");
    }
    prefix + "-"
}

/// The last component of a path.
pub fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&c| c == b'/').next().unwrap_or_default()
}
