//! What profiles are called.

use crate::model::App;

/// What the name of every profile ends with.
pub const SUFFIX: &str = ".pf";

/// What a profile is stored under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppKey<'a> {
    /// See [`App::path`].
    pub path: &'a [u8],
    /// See [`App::root`].
    pub root: Option<&'a [u8]>,
}

impl App {
    /// What the app's profile is stored under.
    pub fn key(&self) -> AppKey<'_> {
        AppKey {
            path: &self.path,
            root: self.root.as_deref(),
        }
    }
}

/// `<last component of the path>-<CRC-32 of root, NUL, path>.pf`: a name to recognise, and different
/// for apps of one name in different directories or root directories.
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

/// What the names of all files begin with whose apps have the last component of `path`.
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

/// The app's path as the system sees it.
pub fn full_path(app: &App) -> Vec<u8> {
    let root = app.root.as_deref().unwrap_or_default();
    let root = root.strip_suffix(b"/").unwrap_or(root);
    [root, &app.path].concat()
}
