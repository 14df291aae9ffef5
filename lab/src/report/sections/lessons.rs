//! What several lessons of one app have in common (FAST, Figure 5).

use paralfetch::model::PAGE_SIZE;

use super::super::summary::Device;
use super::Section;
use crate::record::{Lessons, LessonsStep};
use crate::tables::Table;
use crate::tables::format::{mebibytes, or_nothing, ratio};

/// How the lessons were learned, and what is kept of them.
struct Way {
    how: &'static str,
    title: &'static str,
    text: &'static str,
    kept: fn(&LessonsStep) -> u64,
}

const WAYS: [Way; 2] = [
    Way {
        how: "as-read",
        title: "Size of the common sequence by number of lessons (FAST, Figure 5)",
        text: "FAST keeps what the drive read in every one of its learning runs.",
        kept: |step| step.in_all,
    },
    Way {
        how: "exact",
        title: "Size of the exact set by number of lessons",
        text: "Paralfetch keeps what recurs: what launches touched in two of its lessons.",
        kept: |step| step.in_two,
    },
];

/// A section for each way that an app was learned in several times.
pub fn lessons(device: &Device) -> Vec<Section> {
    WAYS.iter().filter_map(|way| section(device, way)).collect()
}

fn section(device: &Device, way: &Way) -> Option<Section> {
    let all: Vec<&Lessons> = device
        .lessons
        .iter()
        .filter(|lessons| lessons.how == way.how && lessons.steps.len() > 1)
        .collect();
    let most = all.iter().map(|lessons| lessons.steps.len()).max()?;
    let text = format!("{} By the size of the first lesson.", way.text);
    Section::of(way.title, vec![text], vec![table(&all, way, most)])
}

fn table(all: &[&Lessons], way: &Way, most: usize) -> Table {
    let head = ["app".to_owned(), "first, MiB".to_owned()].into_iter();
    let head = head.chain((2..=most).map(|count| count.to_string()));
    let head = head.chain(["in any, MiB".to_owned()]);
    let note = "MiB of the first lesson; of more lessons, by the first; what any of them had.";
    let mut table = Table::new("By number of lessons", note, head);
    for lessons in all {
        let steps = &lessons.steps;
        let first = (way.kept)(&steps[0]);
        let by_first = |step| ratio((way.kept)(step) as f64 / first.max(1) as f64);
        let cells = (1..most).map(|lesson| or_nothing(steps.get(lesson).map(by_first)));
        let any = steps.last().map_or(0, |step| step.in_any);
        table.push(
            [lessons.app.clone(), mebibytes(first * PAGE_SIZE)]
                .into_iter()
                .chain(cells)
                .chain([mebibytes(any * PAGE_SIZE)]),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::super::load::Results;
    use super::super::samples::device;
    use super::*;

    fn of(app: &str, how: &str, steps: &[(u64, u64, u64)]) -> Lessons {
        Lessons {
            device: "d".to_owned(),
            app: app.to_owned(),
            how: how.to_owned(),
            steps: steps
                .iter()
                .map(|&(in_all, in_two, in_any)| LessonsStep {
                    in_all,
                    in_two,
                    in_any,
                })
                .collect(),
        }
    }

    #[test]
    fn each_way_shows_what_it_keeps() {
        let steps = [(1024, 1024, 1024), (768, 768, 1280), (512, 1024, 1536)];
        let results = Results {
            lessons: vec![
                of("vlc", "as-read", &steps[..2]),
                of("vlc", "as-read", &steps),
                of("vlc", "exact", &steps),
                of("gimp", "as-read", &steps[..2]),
                of("okular", "as-read", &steps[..1]),
            ],
            ..Results::default()
        };
        let sections = lessons(&device(results));
        let rows = |index: usize| &sections[index].tables[0].rows;
        assert_eq!(rows(0)[0], ["vlc", "4.0", "0.75", "0.50", "6.0"]);
        assert_eq!(rows(0)[1], ["gimp", "4.0", "0.75", "–", "5.0"]);
        assert_eq!(rows(0).len(), 2, "one lesson shows nothing");
        assert_eq!(rows(1)[0], ["vlc", "4.0", "0.75", "1.00", "6.0"]);
    }

    #[test]
    fn an_app_that_was_learned_once_shows_nothing() {
        let results = Results {
            lessons: vec![of("vlc", "exact", &[(1, 1, 1)])],
            ..Results::default()
        };
        assert!(lessons(&device(results)).is_empty());
    }
}
