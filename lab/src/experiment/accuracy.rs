//! What a learned set has of what a launch needs.

use std::collections::HashSet;

use crate::record::{Accuracy, Share};
use crate::rivals::Lesson;
use paralfetch::schedule::Place;

/// A page: of a file by inode number and generation, or of the metadata.
type Page = (Option<(u64, u32)>, u64);

/// Compares what was learned with what was learned exactly, which is what a cold launch waits for.
pub fn of(lesson: &Lesson, exact: &Lesson) -> Accuracy {
    let (learned, needed) = (pages(lesson), pages(exact));
    let share = |metadata: bool| {
        let is_meant = |page: &&Page| page.0.is_none() == metadata;
        Share {
            needed: needed.iter().filter(is_meant).count() as u64,
            found: needed.intersection(&learned).filter(is_meant).count() as u64,
            excess: learned.difference(&needed).filter(is_meant).count() as u64,
        }
    };
    Accuracy {
        metadata: share(true),
        data: share(false),
    }
}

fn pages(lesson: &Lesson) -> HashSet<Page> {
    let of_entry = |span: &paralfetch::schedule::Span| {
        let file = match span.place {
            Place::Metadata { .. } => None,
            Place::Data { file } => {
                let file = &lesson.profile.files[file as usize];
                Some((file.ino, file.generation))
            }
        };
        (span.start..span.end()).map(move |page| (file, page))
    };
    lesson
        .log
        .iter()
        .flat_map(|entry| of_entry(&entry.span))
        .collect()
}
