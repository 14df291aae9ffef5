//! What several learning runs of one app have in common (FAST §4.1.2 and Figure 5).

use std::collections::{HashMap, HashSet};

use paralfetch::model::{Learned, Place, Profile};

use super::learned::LearnedSet;
use super::pages::read_pages;

/// What some lessons have in common, in 4 KiB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommonPages {
    /// In each of them: FAST's application launch sequence.
    pub in_all: u64,
    /// In two of them at least, as the product keeps them; of one lesson, in that.
    pub in_two: u64,
    /// In any of them.
    pub in_any: u64,
}

/// What is common to the first lesson, the first two, and so on.
pub fn by_lessons(sets: &[LearnedSet]) -> Vec<CommonPages> {
    let mut seen: HashMap<PageName, u32> = HashMap::new();
    let mut steps = Vec::with_capacity(sets.len());
    for (set, lessons) in sets.iter().zip(1u32..) {
        for page in names(set) {
            *seen.entry(page).or_default() += 1;
        }
        let in_at_least =
            |least: u32| seen.values().filter(|count| **count >= least).count() as u64;
        steps.push(CommonPages {
            in_all: in_at_least(lessons),
            in_two: in_at_least(lessons.min(2)),
            in_any: in_at_least(1),
        });
    }
    steps
}

/// A page under a name that holds in every lesson: file system, inode and generation unless it is metadata, page.
type PageName = ([u8; 16], Option<(u64, u32)>, u64);

/// The pages of a set. Of one learned as read, those that the drive read: FAST knows no others.
fn names(set: &LearnedSet) -> HashSet<PageName> {
    let name = |(place, page): (Place, u64)| named(&set.profile, place, page);
    match set.profile.learned {
        Learned::AsRead => read_pages(set).into_iter().filter_map(name).collect(),
        _ => {
            let spans = set.log.iter().map(|entry| entry.span);
            let pages =
                spans.flat_map(|span| (span.start..span.end()).map(move |page| (span.place, page)));
            pages.filter_map(name).collect()
        }
    }
}

fn named(profile: &Profile, place: Place, page: u64) -> Option<PageName> {
    let fs = |device: u16| Some(profile.devices.get(usize::from(device))?.fs_uuid);
    match place {
        Place::Metadata { device } => Some((fs(device)?, None, page)),
        Place::Data { file } => {
            let file = profile.files.get(file as usize)?;
            Some((fs(file.device)?, Some((file.ino, file.generation)), page))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{FILES, learned_set};
    use super::*;

    fn sizes(sets: &[LearnedSet]) -> Vec<(u64, u64, u64)> {
        by_lessons(sets)
            .iter()
            .map(|step| (step.in_all, step.in_two, step.in_any))
            .collect()
    }

    #[test]
    fn pages_are_known_again_whatever_the_order_of_files() {
        let lessons = [
            learned_set(&[(0, 0, 4), (FILES, 2, 1), (1, 5, 2)], false),
            learned_set(&[(1, 5, 1), (0, 1, 4), (FILES, 2, 1)], true),
            learned_set(&[(0, 4, 1), (FILES, 2, 1), (2, 0, 3)], false),
        ];
        assert_eq!(sizes(&lessons), [(7, 7, 7), (5, 5, 8), (1, 6, 11)]);
    }

    #[test]
    fn what_the_drive_did_not_read_counts_in_exact_sets_alone() {
        let mut set = learned_set(&[(0, 0, 4), (1, 0, 1)], false);
        set.unread = vec![set.log[1].span];
        assert_eq!(sizes(&[set.clone()]), [(4, 4, 4)]);
        set.profile.learned = Learned::Exact;
        assert_eq!(sizes(&[set]), [(5, 5, 5)]);
    }
}
