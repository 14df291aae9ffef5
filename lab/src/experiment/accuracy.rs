//! What a learned set has of what a launch needs.

use std::collections::HashSet;
use std::time::Duration;

use crate::methods::LearnedSet;
use crate::record::{Accuracy, Share};
use paralfetch::model::Place;

/// A page: of a file by inode number and generation, or of the metadata.
type Page = (Option<(u64, u32)>, u64);

/// Compares a set with the exact one. Only pages used before the window count as needed: how many of the
/// later ones belong to the launch depends on the moment at which the drive falls quiet, which differs from
/// launch to launch.
pub fn of(set: &LearnedSet, exact: &LearnedSet) -> Accuracy {
    let learned = pages(set, Duration::MAX);
    let used = pages(exact, Duration::MAX);
    let needed = pages(exact, exact.window.unwrap_or(Duration::MAX));
    let share = |metadata: bool| {
        let is_meant = |page: &&Page| page.0.is_none() == metadata;
        Share {
            needed: needed.iter().filter(is_meant).count() as u64,
            found: needed.intersection(&learned).filter(is_meant).count() as u64,
            excess: learned.difference(&used).filter(is_meant).count() as u64,
        }
    };
    Accuracy {
        metadata: share(true),
        data: share(false),
    }
}

/// The pages that were first used within `time`.
fn pages(set: &LearnedSet, time: Duration) -> HashSet<Page> {
    let of_entry = |span: &paralfetch::model::Span| {
        let file = match span.place {
            Place::Metadata { .. } => None,
            Place::Data { file } => {
                let file = &set.profile.files[file as usize];
                Some((file.ino, file.generation))
            }
        };
        (span.start..span.end()).map(move |page| (file, page))
    };
    set.log
        .iter()
        .filter(|entry| Duration::from_micros(entry.time_us) <= time)
        .flat_map(|entry| of_entry(&entry.span))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::samples::{FILES, learned_set};

    #[test]
    fn what_is_used_after_the_window_is_neither_needed_nor_beside() {
        let mut exact = learned_set(&[(0, 0, 4), (FILES, 1, 1), (1, 0, 2)], false);
        let learned = learned_set(&[(1, 0, 2), (0, 0, 3), (2, 5, 1)], true);
        let share = |needed, found, excess| Share {
            needed,
            found,
            excess,
        };
        exact.window = Some(Duration::from_micros(1));
        let accuracy = of(&learned, &exact);
        assert_eq!(accuracy.data, share(4, 3, 1));
        assert_eq!(accuracy.metadata, share(1, 0, 0));
        exact.window = None;
        assert_eq!(of(&learned, &exact).data, share(6, 5, 1));
    }
}
