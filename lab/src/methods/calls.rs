//! FAST's application prefetcher (§4.3): a launch sequence as system calls.

use std::collections::HashSet;

use paralfetch::model::Profile;
use paralfetch::model::{LogEntry, Place, Span};

use super::blocks::{BlockMap, Replay};

/// One step of the prefetcher. Paths are indices in [`Calls::paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Look the path up, which reads its inode.
    Open {
        /// What to open.
        path: u32,
    },
    /// List the directory.
    List {
        /// The directory.
        path: u32,
    },
    /// Open the file, unless it is open, and tell the kernel that these pages will be needed. The
    /// span's file is an index in the plan's file table, which has its path.
    Advise {
        /// The pages.
        span: Span,
    },
}

/// What a generated prefetcher does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Absolute paths below the image's root; arbitrary bytes.
    pub paths: Vec<Vec<u8>>,
    /// In the order of the launch sequence.
    pub calls: Vec<Call>,
    /// Pages of the sequence that no call names: extent blocks, which data bring along, bitmaps, and
    /// what FAST cannot know the path of.
    pub unnamed: u64,
}

/// Generates the prefetcher for a launch sequence; `profile` has the tables that it refers to.
pub fn generate(sequence: &[LogEntry], profile: &Profile, map: &BlockMap) -> Calls {
    let mut calls = Calls {
        paths: map.paths.clone(),
        ..Calls::default()
    };
    // A path that was looked up or listed is cached: a second call would read nothing.
    let mut done = HashSet::new();
    for entry in sequence {
        match entry.span.place {
            Place::Data { file } => {
                let file = &profile.files[file as usize];
                if file.path.is_some() && file.device == map.device {
                    calls.calls.push(Call::Advise { span: entry.span });
                } else {
                    calls.unnamed += entry.span.len;
                }
            }
            Place::Metadata { device } => {
                for page in entry.span.start..entry.span.end() {
                    let blocks = match device == map.device {
                        true => map.in_page(page),
                        false => &[],
                    };
                    calls.unnamed += u64::from(blocks.is_empty());
                    for block in blocks {
                        if done.insert((block.replay, block.path)) {
                            calls.calls.push(match block.replay {
                                Replay::Inode => Call::Open { path: block.path },
                                Replay::Directory => Call::List { path: block.path },
                            });
                        }
                    }
                }
            }
        }
    }
    calls
}
