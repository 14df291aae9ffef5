//! What two learning runs have in common.

use std::collections::BTreeSet;

use paralfetch::learn::LearnedProfile;
use paralfetch::model::Profile;
use paralfetch::model::{Place, Span};

use crate::facts::{Learned, Recall};

/// Missing and excess pages that are named.
const NAMED: usize = 40;

/// A page of a launch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Page {
    dev: u64,
    /// `None` for metadata.
    path: Option<Vec<u8>>,
    page: u64,
}

impl Page {
    pub fn is_metadata(&self) -> bool {
        self.path.is_none()
    }

    pub fn is_of(&self, path: &str) -> bool {
        self.path.as_deref() == Some(path.as_bytes())
    }

    fn name(&self) -> String {
        let path = self.path.as_deref().unwrap_or(b"metadata");
        format!("{} of {}", self.page, String::from_utf8_lossy(path))
    }
}

/// The pages of some spans of a profile.
fn pages<'a>(profile: &Profile, spans: impl IntoIterator<Item = &'a Span>) -> BTreeSet<Page> {
    spans
        .into_iter()
        .flat_map(|span| {
            let (device, path) = match span.place {
                Place::Metadata { device } => (device, None),
                Place::Data { file } => {
                    let file = &profile.files[file as usize];
                    let path = file.path.clone();
                    (file.device, Some(path.expect("what exists has a path")))
                }
            };
            let dev = profile.devices[usize::from(device)].dev;
            (span.start..span.end()).map(move |page| Page {
                dev,
                path: path.clone(),
                page,
            })
        })
        .collect()
}

/// The pages of a stored launch sequence.
pub fn log_of(sequence: &Profile) -> BTreeSet<Page> {
    pages(sequence, sequence.entries.iter().map(|entry| &entry.span))
}

/// The pages of the launch sequence.
pub fn log(learned: &LearnedProfile) -> BTreeSet<Page> {
    pages(
        &learned.profile,
        learned.log.iter().map(|entry| &entry.span),
    )
}

fn unread(learned: &LearnedProfile) -> BTreeSet<Page> {
    pages(&learned.profile, &learned.unread)
}

pub fn size(learned: &LearnedProfile) -> Learned {
    let (metadata, files): (Vec<Page>, Vec<Page>) =
        log(learned).into_iter().partition(Page::is_metadata);
    let unread = unread(learned);
    Learned {
        files: files.len(),
        metadata: metadata.len(),
        unread: unread.iter().filter(|page| !page.is_metadata()).count(),
        paths: learned.summary.resolved.paths.used,
        lost_paths: learned.summary.lost_paths,
        exact_faults: learned.summary.exact_faults,
        warnings: learned.summary.resolved.warnings.clone(),
        seconds: learned.summary.duration.as_secs_f64(),
    }
}

/// How much of what `exact` has of a kind is in `other` too, and what is in that alone.
pub fn recall(
    exact: &LearnedProfile,
    other: &LearnedProfile,
    of_kind: impl Fn(&Page) -> bool,
) -> Recall {
    let mut recall = found_in(exact, &log(other), &of_kind);
    let cached = unread(other);
    let added = &(&log(exact) & &log(other)) - &cached;
    recall.added = added.iter().filter(|page| of_kind(page)).count();
    recall
}

/// The same of a set of which it is not known what was added to the cache.
pub fn found_in(
    exact: &LearnedProfile,
    other: &BTreeSet<Page>,
    of_kind: impl Fn(&Page) -> bool,
) -> Recall {
    let of = |set: &BTreeSet<Page>| -> BTreeSet<Page> {
        set.iter().filter(|page| of_kind(page)).cloned().collect()
    };
    let (wanted, learned) = (of(&log(exact)), of(other));
    let read = of(&(&log(exact) - &unread(exact)));
    let named = |pages: BTreeSet<Page>| pages.iter().take(NAMED).map(Page::name).collect();
    Recall {
        wanted: wanted.len(),
        read: read.len(),
        found: (&wanted & &learned).len(),
        added: 0,
        excess: (&learned - &wanted).len(),
        missing: named(&wanted - &learned),
        unwanted: named(&learned - &wanted),
    }
}
