//! How long launches waited for background writes, by the launches whose timelines were recorded.

use super::super::format::{percent, seconds};
use super::super::table::Table;
use super::Section;
use crate::scenarios;
use crate::timeline::Timeline;

/// The waits of one drive's timelines; nothing where none was watched.
pub fn waits_for_writes(timelines: &[&Timeline]) -> Option<Section> {
    let mut watched: Vec<(&Timeline, u64)> = timelines
        .iter()
        .filter_map(|timeline| Some((*timeline, timeline.background_us?)))
        .collect();
    watched.sort_by_key(|(timeline, _)| (&timeline.app, scenarios::rank(&timeline.scenario)));
    let mut table = Table::new(
        "Waits for background writes",
        "",
        ["app", "scenario", "seconds", "waited s", "of the launch"],
    );
    for (timeline, us) in watched {
        let waited = us as f64 / 1e6;
        let share = (timeline.seconds > 0.0).then(|| percent(waited / timeline.seconds));
        let cells = [
            timeline.app.clone(),
            scenarios::label(&timeline.scenario).to_owned(),
            seconds(timeline.seconds),
            seconds(waited),
        ];
        table.push(cells.into_iter().chain(share));
    }
    let text = "Time in which a task of the launch waited for a page under writeback, for the journal, for a limit on \
                writes, or behind somebody's write in the scheduler or the drive. Single launches, those of the \
                timelines.";
    Section::of(
        "Waits for background writes",
        vec![text.to_owned()],
        vec![table],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_launches_that_were_watched_are_listed() {
        let watched = Timeline {
            app: "gimp".to_owned(),
            scenario: "writer-cold".to_owned(),
            seconds: 2.0,
            background_us: Some(500_000),
            ..Timeline::default()
        };
        let old = Timeline {
            background_us: None,
            ..watched.clone()
        };
        assert_eq!(waits_for_writes(&[&old]), None);
        let section = waits_for_writes(&[&old, &watched]).unwrap();
        let rows = &section.tables[0].rows;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][3..], [seconds(0.5), percent(0.25)]);
    }
}
