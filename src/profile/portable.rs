//! A profile that travels: what a launch reads, by paths, so that another machine makes a profile of its own of it.
//!
//! It is JSON, versioned and bounded, and holds neither an inode nor a block nor a user. Reading trusts nothing: whoever
//! ships it may be anybody, so that paths are plain and absolute, ranges lie in their files, and everything is counted
//! before it is used.

use serde::{Deserialize, Serialize};

use super::format::limits::{MAX_ENTRIES, MAX_FILES, MAX_PATH, is_app_name};
use crate::model::{Ended, MOST_COMPLETION_PAGES, PAGE_SIZE, shown};

/// Version of the format that this program reads and writes.
const VERSION: u32 = 1;

/// Largest text, in bytes. The largest launch measured takes an eighth.
pub const MAX_PORTABLE_BYTES: usize = 8 << 20;

/// Latest time of an access, in microseconds: no launch is learned for longer than an hour.
const MAX_TIME_US: u64 = 3_600_000_000;

/// Largest file, in bytes: what the kernel's signed file positions can address.
const MAX_SIZE: u64 = 1 << 63;

/// Longest build ID, in hexadecimal digits.
const MAX_BUILD_ID: usize = 128;

/// A profile that travels. Its reads and look-ups are in the order of the launch sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PortableProfile {
    #[serde(rename = "paralfetch-profile")]
    version: u32,
    /// The app: its absolute path, or `LAUNCHER:NAME`.
    pub app: String,
    /// Absolute path of the launcher that is executed for it; `None` if it is executed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// What ended the learned launch.
    pub ended: Ended,
    /// The files that it read.
    pub files: Vec<PortableFile>,
    /// The pages that it read of them.
    pub reads: Vec<PortableRead>,
    /// Paths that it looked up beside those of the files: found or not.
    #[serde(default)]
    pub look_ups: Vec<PortableUse>,
    /// Directories that it listed.
    #[serde(default)]
    pub listings: Vec<PortableUse>,
    /// The completion pages: each a file, by its index, and the page in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completion: Vec<(u32, u64)>,
}

/// A file that everybody may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FileMembers", into = "FileMembers")]
pub struct PortableFile {
    /// Absolute path, without links.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// What tells this content from others of its size.
    pub version: FileVersion,
}

/// What tells a file's content from that of another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVersion {
    /// The build ID of a program or library, in hexadecimal digits.
    BuildId(String),
    /// The time of last modification, in nanoseconds since the epoch: packages keep it.
    ModifiedNs(i64),
}

/// A file as the text has it: with one of the two members that tell its version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileMembers {
    path: String,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    build_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modified_ns: Option<i64>,
}

impl TryFrom<FileMembers> for PortableFile {
    type Error = &'static str;

    fn try_from(members: FileMembers) -> Result<Self, Self::Error> {
        let version = match (members.build_id, members.modified_ns) {
            (Some(id), None) => FileVersion::BuildId(id),
            (None, Some(ns)) => FileVersion::ModifiedNs(ns),
            _ => return Err("a file has either a build-id or a modified-ns"),
        };
        Ok(PortableFile {
            path: members.path,
            size: members.size,
            version,
        })
    }
}

impl From<PortableFile> for FileMembers {
    fn from(file: PortableFile) -> Self {
        let (build_id, modified_ns) = match file.version {
            FileVersion::BuildId(id) => (Some(id), None),
            FileVersion::ModifiedNs(ns) => (None, Some(ns)),
        };
        FileMembers {
            path: file.path,
            size: file.size,
            build_id,
            modified_ns,
        }
    }
}

/// A read of a file's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u32, u64, u64)", into = "(u64, u32, u64, u64)")]
pub struct PortableRead {
    /// Since the launch began, in microseconds.
    pub time_us: u64,
    /// Index of the file.
    pub file: u32,
    /// The first page, of 4 KiB.
    pub start: u64,
    /// How many.
    pub pages: u64,
}

impl From<(u64, u32, u64, u64)> for PortableRead {
    fn from((time_us, file, start, pages): (u64, u32, u64, u64)) -> Self {
        PortableRead {
            time_us,
            file,
            start,
            pages,
        }
    }
}

impl From<PortableRead> for (u64, u32, u64, u64) {
    fn from(read: PortableRead) -> Self {
        (read.time_us, read.file, read.start, read.pages)
    }
}

/// A use of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u64, String)", into = "(u64, String)")]
pub struct PortableUse {
    /// Since the launch began, in microseconds.
    pub time_us: u64,
    /// Absolute.
    pub path: String,
}

impl From<(u64, String)> for PortableUse {
    fn from((time_us, path): (u64, String)) -> Self {
        PortableUse { time_us, path }
    }
}

impl From<PortableUse> for (u64, String) {
    fn from(used: PortableUse) -> Self {
        (used.time_us, used.path)
    }
}

/// Why a text is no portable profile, or a profile cannot be written as one: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortableError {
    /// The text is longer than [`MAX_PORTABLE_BYTES`].
    #[error("it is longer than {} MiB", MAX_PORTABLE_BYTES >> 20)]
    TooLong,
    /// The text is no JSON, or other JSON.
    #[error("it is no portable profile: {0}")]
    Malformed(String),
    /// The text is of another version of the format.
    #[error("its format is {0}, and this program reads format {VERSION}: export it again")]
    Version(u32),
    /// The profile has more of something than the format allows.
    #[error("it has too many {what}; the limit is {limit}")]
    TooMany { what: &'static str, limit: usize },
    /// A part of the profile cannot be right.
    #[error("{0}")]
    Invalid(String),
}

/// The version alone: what else there is depends on it.
#[derive(Deserialize)]
struct VersionField {
    #[serde(rename = "paralfetch-profile")]
    version: u32,
}

impl PortableProfile {
    /// A profile of an app, of which nothing is read yet.
    pub fn new(app: String, program: Option<String>, ended: Ended) -> Self {
        PortableProfile {
            version: VERSION,
            app,
            program,
            ended,
            files: Vec::new(),
            reads: Vec::new(),
            look_ups: Vec::new(),
            listings: Vec::new(),
            completion: Vec::new(),
        }
    }

    /// The profile in a text.
    ///
    /// # Errors
    /// [`PortableError`].
    pub fn parse(text: &[u8]) -> Result<Self, PortableError> {
        if text.len() > MAX_PORTABLE_BYTES {
            return Err(PortableError::TooLong);
        }
        let malformed =
            |error: serde_json::Error| PortableError::Malformed(shortened(&error.to_string()));
        let VersionField { version } = serde_json::from_slice(text).map_err(malformed)?;
        if version != VERSION {
            return Err(PortableError::Version(version));
        }
        let profile: PortableProfile = serde_json::from_slice(text).map_err(malformed)?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile as a text.
    ///
    /// # Errors
    /// If it could not be read back.
    pub fn to_text(&self) -> Result<String, PortableError> {
        self.check()?;
        let text = serde_json::to_string(self)
            .map_err(|error| PortableError::Malformed(error.to_string()))?;
        match text.len() < MAX_PORTABLE_BYTES {
            true => Ok(text + "\n"),
            false => Err(PortableError::TooLong),
        }
    }

    /// Bytes that are read of a file, by its index.
    pub fn bytes_by_file(&self) -> Vec<u64> {
        let mut bytes = vec![0_u64; self.files.len()];
        for read in &self.reads {
            let of_file = &mut bytes[read.file as usize];
            *of_file = of_file.saturating_add(read.pages * PAGE_SIZE);
        }
        bytes
    }

    fn check(&self) -> Result<(), PortableError> {
        for (what, count, limit) in [
            ("files", self.files.len(), MAX_FILES),
            ("reads", self.reads.len(), MAX_ENTRIES),
            ("look-ups", self.look_ups.len(), MAX_FILES),
            ("listings", self.listings.len(), MAX_FILES),
        ] {
            if count > limit {
                return Err(PortableError::TooMany { what, limit });
            }
        }
        let named =
            (is_plain_path(&self.app) && self.app != "/") || is_app_name(self.app.as_bytes());
        require(named, || {
            format!("its app is no path or name: {}", shortened(&self.app))
        })?;
        let uses = self.look_ups.iter().chain(&self.listings);
        let files = self.files.iter().map(|file| &file.path);
        let paths = uses.clone().map(|used| &used.path).chain(files);
        for path in paths.chain(&self.program) {
            require(is_plain_path(path), || {
                let path = shortened(path);
                format!(
                    "{path} is no plain absolute path: empty parts, '.', '..' and control characters are refused"
                )
            })?;
        }
        for file in &self.files {
            let is_version = match &file.version {
                FileVersion::BuildId(id) => {
                    (2..=MAX_BUILD_ID).contains(&id.len())
                        && id.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
                }
                FileVersion::ModifiedNs(_) => true,
            };
            require(is_version && file.size <= MAX_SIZE, || {
                format!("the size or the build ID of {} cannot be right", file.path)
            })?;
        }
        let times = uses.map(|used| used.time_us);
        let times = times.chain(self.reads.iter().map(|read| read.time_us));
        require(
            times.max().is_none_or(|latest| latest <= MAX_TIME_US),
            || "an access is later than an hour after the launch".to_owned(),
        )?;
        require(self.completion.len() <= MOST_COMPLETION_PAGES, || {
            format!("it has more than {MOST_COMPLETION_PAGES} completion pages")
        })?;
        let pages = self
            .reads
            .iter()
            .map(|read| (read.file, read.start, read.pages));
        let completion = self.completion.iter().map(|&(file, page)| (file, page, 1));
        for (file, start, pages) in pages.chain(completion) {
            let size = self.files.get(file as usize).map(|file| file.size);
            let end = start.checked_add(pages).filter(|_| pages > 0);
            let is_inside = size
                .zip(end)
                .is_some_and(|(size, end)| end <= size.div_ceil(PAGE_SIZE));
            require(is_inside, || {
                format!("{pages} pages from page {start} on do not lie in its file {file}")
            })?;
        }
        Ok(())
    }
}

fn require(holds: bool, why: impl FnOnce() -> String) -> Result<(), PortableError> {
    match holds {
        true => Ok(()),
        false => Err(PortableError::Invalid(why())),
    }
}

/// What a hostile text has, in a line that can be shown.
fn shortened(text: &str) -> String {
    text.chars().take(200).map(shown).collect()
}

/// Whether a path is absolute, and each of its parts the name of a file: neither empty, nor `.` or `..`, nor with what may
/// not be shown ([`shown`]). `/` is one.
pub fn is_plain_path(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && name.len() <= 255;
    let Some(below) = path.strip_prefix('/') else {
        return false;
    };
    path.len() <= MAX_PATH
        && path.chars().all(|character| shown(character) == character)
        && (below.is_empty() || below.split('/').all(is_name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn sample() -> PortableProfile {
        PortableProfile {
            files: vec![
                PortableFile {
                    path: "/usr/bin/app".to_owned(),
                    size: 9000,
                    version: FileVersion::BuildId("00ff".to_owned()),
                },
                PortableFile {
                    path: "/usr/share/app/data".to_owned(),
                    size: 4096,
                    version: FileVersion::ModifiedNs(-1),
                },
            ],
            reads: vec![(0, 0, 0, 3).into(), (1200, 1, 0, 1).into()],
            look_ups: vec![(5, "/etc/none".to_owned()).into()],
            listings: vec![(7, "/".to_owned()).into()],
            completion: vec![(1, 0)],
            ..PortableProfile::new("/usr/bin/app".to_owned(), None, Ended::Quiet)
        }
    }

    fn json() -> Value {
        serde_json::from_str(&sample().to_text().unwrap()).unwrap()
    }

    fn refused(value: &Value) -> PortableError {
        PortableProfile::parse(value.to_string().as_bytes()).unwrap_err()
    }

    #[test]
    fn hostile_texts_are_refused_with_one_line_each() {
        let cases: [(&str, Value); 23] = [
            ("/app", json!("usr/bin/app")),
            ("/app", json!("/usr/../bin/app")),
            ("/app", json!("a/b:c")),
            ("/program", json!("python3")),
            ("/files/0/path", json!("/usr//bin/app")),
            ("/files/0/path", json!("/usr/./app")),
            ("/files/0/path", json!("/usr/bin/..")),
            ("/files/0/path", json!("/usr/bin/")),
            ("/files/0/path", json!("/usr/\u{1b}[2J")),
            ("/files/0/path", json!("/usr/\0")),
            ("/files/0/path", json!("/".to_owned() + &"a".repeat(256))),
            ("/files/0/path", json!("/a".repeat(2048))),
            ("/files/0/build-id", json!("../../etc")),
            ("/files/0/build-id", json!("ab".repeat(65))),
            ("/files/0/size", json!(u64::MAX)),
            ("/reads/0", json!([0, 2, 0, 1])),
            ("/reads/0", json!([0, 0, 0, 0])),
            ("/reads/0", json!([0, 0, u64::MAX, 2])),
            ("/reads/0", json!([0, 0, 2, 2])),
            ("/reads/0", json!([MAX_TIME_US + 1, 0, 0, 1])),
            ("/look-ups/0", json!([0, "../x"])),
            ("/completion", json!([[0, 3]])),
            ("/completion", json!(vec![[0, 0]; 9])),
        ];
        for (place, wrong) in cases {
            let mut value = json();
            match value.pointer_mut(place) {
                Some(part) => *part = wrong,
                None => value["program"] = wrong,
            }
            let why = refused(&value);
            assert!(matches!(why, PortableError::Invalid(_)), "{place}: {why:?}");
            let line = why.to_string();
            assert!(
                !line.chars().any(char::is_control) && line.len() < 400,
                "{line:?}"
            );
        }
    }

    #[test]
    fn other_texts_and_versions_are_refused() {
        assert!(matches!(
            PortableProfile::parse(b""),
            Err(PortableError::Malformed(_))
        ));
        let long = vec![b' '; MAX_PORTABLE_BYTES + 1];
        assert_eq!(PortableProfile::parse(&long), Err(PortableError::TooLong));
        let mut value = json();
        value["paralfetch-profile"] = json!(2);
        value["new"] = json!("unknown");
        assert_eq!(refused(&value), PortableError::Version(2));
        for (key, wrong) in [
            ("inode", json!(7)),
            ("reads", json!([[0, 0, -1, 1]])),
            ("reads", json!([[0, 0, 1]])),
            ("files", json!([{"path": "/a", "size": 1}])),
            (
                "files",
                json!([{"path": "/a", "size": 1, "modified-ns": 1, "build-id": "ab"}]),
            ),
        ] {
            let mut value = json();
            value[key] = wrong;
            assert!(
                matches!(refused(&value), PortableError::Malformed(_)),
                "{key}"
            );
        }
        let mut value = json();
        value["look-ups"] = json!(vec![json!([0, "/"]); MAX_FILES + 1]);
        let many = PortableError::TooMany {
            what: "look-ups",
            limit: MAX_FILES,
        };
        assert_eq!(refused(&value), many);
        value["look-ups"] = json!(vec![json!([0, "/"]); MAX_FILES]);
        assert!(PortableProfile::parse(value.to_string().as_bytes()).is_ok());
    }

    /// A text may have [`MAX_PORTABLE_BYTES`] bytes, with the line's end behind it.
    #[test]
    fn a_text_of_the_largest_size_is_written_and_read() {
        let length = |profile: &PortableProfile| serde_json::to_string(profile).unwrap().len();
        let long = format!("/{}", ["a".repeat(255).as_str(); 15].join("/"));
        let sized = |bytes: usize| {
            let mut profile = sample();
            let before = length(&profile);
            profile.look_ups.push((0, long.clone()).into());
            let each = length(&profile) - before;
            let uses = vec![(0, long.clone()).into(); (bytes - before) / each - 2];
            profile.look_ups.extend(uses);
            // What is left is more than one path and less than two.
            for share in [2, 1] {
                profile.look_ups.push((0, "/".to_owned()).into());
                let left = (bytes - length(&profile)) / share;
                profile.look_ups.last_mut().unwrap().path = long[..=left].to_owned();
            }
            profile
        };
        let largest = sized(MAX_PORTABLE_BYTES - 1);
        let text = largest.to_text().unwrap();
        assert_eq!(text.len(), MAX_PORTABLE_BYTES);
        assert_eq!(PortableProfile::parse(text.as_bytes()), Ok(largest));
        assert_eq!(
            sized(MAX_PORTABLE_BYTES).to_text(),
            Err(PortableError::TooLong)
        );
    }

    #[test]
    fn the_bytes_of_a_file_are_those_of_its_reads() {
        let mut profile = sample();
        profile.reads.push((1300, 0, 0, 1).into());
        assert_eq!(profile.bytes_by_file(), [4 * PAGE_SIZE, PAGE_SIZE]);
    }

    #[test]
    fn a_refusal_shows_what_was_refused_and_no_more_than_a_line_of_it() {
        let refusal = |app: &str| {
            let mut value = json();
            value["app"] = json!(app);
            refused(&value).to_string()
        };
        let line = refusal("usr/bin/app");
        assert!(line.ends_with("no path or name: usr/bin/app"), "{line}");
        let line = refusal(&"a/".repeat(200));
        assert!(line.ends_with(&format!(": {}", "a/".repeat(100))), "{line}");
    }

    #[test]
    fn what_could_not_be_read_back_is_not_written() {
        let mut profile = sample();
        profile.reads[0].file = 2;
        assert!(profile.to_text().is_err());
    }

    fn any_path() -> impl Strategy<Value = String> {
        proptest::collection::vec("[^/\\p{Cc}]{1,12}", 0..5)
            .prop_map(|names| format!("/{}", names.join("/")))
            .prop_filter("a plain path", |path| is_plain_path(path))
    }

    fn any_file() -> impl Strategy<Value = PortableFile> {
        let version = prop_oneof![
            "[0-9a-f]{2,40}".prop_map(FileVersion::BuildId),
            any::<i64>().prop_map(FileVersion::ModifiedNs),
        ];
        (any_path(), 1..MAX_SIZE, version).prop_map(|(path, size, version)| PortableFile {
            path,
            size,
            version,
        })
    }

    fn any_profile() -> impl Strategy<Value = PortableProfile> {
        let uses = || proptest::collection::vec((0..=MAX_TIME_US, any_path()), 0..8);
        let files = proptest::collection::vec(any_file(), 1..8);
        let reads = proptest::collection::vec(
            (0..=MAX_TIME_US, any::<u32>(), any::<u64>(), any::<u64>()),
            0..20,
        );
        (
            any_path().prop_filter("no directory", |path| path != "/"),
            proptest::option::of(any_path()),
            files,
            reads,
            uses(),
            uses(),
        )
            .prop_map(|(app, program, files, reads, look_ups, listings)| {
                let inside = |(time_us, file, start, pages): (u64, u32, u64, u64)| {
                    let file = file % files.len() as u32;
                    let end = files[file as usize].size.div_ceil(PAGE_SIZE);
                    let start = start % end;
                    PortableRead::from((time_us, file, start, 1 + pages % (end - start)))
                };
                let reads: Vec<_> = reads.into_iter().map(inside).collect();
                PortableProfile {
                    completion: reads
                        .iter()
                        .take(8)
                        .map(|read| (read.file, read.start))
                        .collect(),
                    reads,
                    files,
                    look_ups: look_ups.into_iter().map(Into::into).collect(),
                    listings: listings.into_iter().map(Into::into).collect(),
                    ..PortableProfile::new(app, program, Ended::Exit)
                }
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(profile in any_profile()) {
            let text = profile.to_text().unwrap();
            prop_assert_eq!(PortableProfile::parse(text.as_bytes()).unwrap(), profile);
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = PortableProfile::parse(&bytes);
        }
    }
}
