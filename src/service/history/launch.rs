//! What became of a launch.

use std::fmt;

use serde::{Deserialize, Serialize};
use zbus::zvariant::Type;

use crate::policy::Warmth;
use crate::service::dictionary::{member, optional, optional_word};

/// Longest path of a file that a launch read itself, in bytes; of longer ones the end is kept.
pub const MAX_READ_PATH: usize = 256;

/// What was done with a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "kebab-case")]
#[zvariant(signature = "s")]
pub enum Kind {
    /// It was learned.
    Learned,
    /// It was prefetched.
    Prefetched,
    /// What it needed was read before it began.
    Anticipated,
    /// It could have been prefetched, and was not, for comparison.
    Withheld,
    /// It was only observed.
    #[default]
    Watched,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What the pages that a launch read itself belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[serde(rename_all = "kebab-case")]
#[zvariant(signature = "s")]
pub enum ReadKind {
    /// A regular file.
    #[default]
    Data,
    /// File systems: their inode tables, directories and extent blocks.
    Metadata,
}

/// What a prefetched launch read itself of a file, or of the file systems' metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct FileReads {
    /// What was read.
    #[serde(with = "member")]
    pub kind: ReadKind,
    /// The file's path; empty for metadata, where it is not known, and where the launch's user could not list it. The
    /// beginning of one that is longer than 256 bytes is replaced by `…`.
    #[serde(with = "member")]
    pub path: String,
    /// How many reads there were.
    #[serde(with = "member")]
    pub reads: u64,
    /// The reads' size in bytes.
    #[serde(with = "member")]
    pub bytes: u64,
    /// Bytes of those that the profile does not hold at all; for the others the app was faster than the prefetch, or
    /// they were skipped.
    #[serde(with = "member")]
    pub not_in_profile_bytes: u64,
}

impl FileReads {
    /// Keeps the end of a path that is too long.
    pub fn cut(&mut self) {
        if self.path.len() <= MAX_READ_PATH {
            return;
        }
        let mark = "\u{2026}";
        let mut start = self.path.len() - (MAX_READ_PATH - mark.len());
        while !self.path.is_char_boundary(start) {
            start += 1;
        }
        self.path.replace_range(..start, mark);
    }
}

/// A launch that is over, as the service records it in the history and sends it over the bus: a
/// dictionary there, in which a number that was not measured has no member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Type)]
#[zvariant(signature = "a{sv}")]
#[serde(default)]
pub struct LaunchRecord {
    /// When it began, in seconds since the epoch, by the system's clock of that moment.
    #[serde(with = "member")]
    pub time_s: u64,
    /// Real user id of whom launched it.
    #[serde(with = "member")]
    pub uid: u32,
    /// The id of the app: an absolute path, or `launcher:name`. At most [`super::MAX_APP_BYTES`].
    #[serde(with = "member")]
    pub app: String,
    /// What was done with it.
    #[serde(with = "member")]
    pub kind: Kind,
    /// How much of the bytes of its app's schedule the drive read for it. `None`, an empty text on the bus, where
    /// that is not known, and for a launch that learning slowed down: it must not be compared with others.
    #[serde(with = "optional_word")]
    pub warmth: Option<Warmth>,
    /// How long it took, in microseconds: from execve to the use of the app's completion pages, or for an app without
    /// one to the exit of its last task; `None` where the launch did not come to that, or the app had no profile.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// Time that the tasks of the launch tree waited for the drive, in microseconds, summed up; missing if that was not
    /// counted from the launch's beginning on.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub waiting_us: Option<u64>,
    /// Bytes that the drive read for the launch tree and the prefetch thread.
    #[serde(with = "member")]
    pub read_bytes: u64,
    /// Read requests that its own tasks had to make until it was complete: synchronous readaheads (paper §4.3).
    #[serde(with = "member")]
    pub own_readaheads: u64,
    /// Context switches of its tasks into a wait for the drive while it was prefetched (paper §3.3); missing if it was not,
    /// or if that was cut off.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub switches: Option<u64>,
    /// Prefetch entries of the schedule; missing like `switches`.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// From execve to the first prefetch request, in microseconds; missing if there was none.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub until_first_us: Option<u64>,
    /// What an anticipated launch has saved, in microseconds: what cold launches of its app without prefetching typically
    /// take, less what it took; missing for others, and where that is not known.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub saved_us: Option<u64>,
    /// Whether its drive, which other programs wrote to, was shielded meanwhile; false without a shield.
    #[serde(with = "member")]
    pub background_writes: bool,
    /// The files from which a prefetched launch read most itself until it was complete, at most
    /// [`super::MOST_READ_FILES`], the most first; `None` if that is not known.
    #[serde(with = "optional", skip_serializing_if = "Option::is_none")]
    pub own_reads: Option<Vec<FileReads>>,
    /// What was decided after the launch, or what went wrong, as text. The history cuts it off after
    /// [`super::MAX_NOTE`] characters.
    #[serde(with = "optional_word")]
    pub note: Option<String>,
}

impl LaunchRecord {
    /// What was done with it, for people: a launch that was learned is prefetched, too, where there is a profile already,
    /// and then shows nothing of a launch without.
    pub fn done(&self) -> &'static str {
        let is_prefetched = self.entries.is_some_and(|entries| entries > 0);
        match self.kind {
            Kind::Learned if is_prefetched => "learned + prefetched",
            Kind::Learned => "learned",
            Kind::Prefetched => "prefetched",
            Kind::Anticipated => "anticipated",
            // Neither: what a cold launch takes without us.
            Kind::Withheld | Kind::Watched if self.warmth == Some(Warmth::Cold) => "cold",
            Kind::Withheld => "withheld",
            Kind::Watched => "watched",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_learned_prefetched_and_both_are_four_things() {
        let done = |kind, warmth, entries| {
            let launch = LaunchRecord {
                kind,
                warmth,
                entries,
                ..LaunchRecord::default()
            };
            launch.done()
        };
        let cold = Some(Warmth::Cold);
        for (kind, warmth, entries, label) in [
            (Kind::Learned, None, None, "learned"),
            (Kind::Learned, cold, Some(0), "learned"),
            (Kind::Learned, cold, Some(9), "learned + prefetched"),
            (Kind::Prefetched, cold, Some(9), "prefetched"),
            (
                Kind::Anticipated,
                Some(Warmth::Warm),
                Some(9),
                "anticipated",
            ),
            (Kind::Withheld, cold, None, "cold"),
            (Kind::Watched, cold, None, "cold"),
            (Kind::Withheld, Some(Warmth::Warm), None, "withheld"),
            (Kind::Watched, None, None, "watched"),
        ] {
            assert_eq!(done(kind, warmth, entries), label, "{kind} {entries:?}");
        }
    }
}
