//! Stretches without reads inside cold launches (the choice of T_idle, FAST §5.2), by the launches whose
//! timelines were recorded.

use paralfetch::model::LaunchLimits;

use super::super::format::{or_nothing, percent, seconds};
use super::super::table::Table;
use super::Section;
use crate::timeline::{Idle, Timeline};

/// Bounds of the groups that stretches are counted in, in microseconds.
const BOUNDS: [(u64, u64, &str); 4] = [
    (1_000, 10_000, "1–10 ms"),
    (10_000, 100_000, "10–100 ms"),
    (100_000, 1_000_000, "0.1–1 s"),
    (1_000_000, u64::MAX, "over 1 s"),
];

/// The stretches of one drive's cold launches; nothing where none was recorded.
pub fn idle_stretches(timelines: &[&Timeline]) -> Option<Section> {
    let mut launches: Vec<(&str, &Idle)> = timelines
        .iter()
        .filter(|timeline| timeline.scenario == "cold")
        .filter_map(|timeline| Some((timeline.app.as_str(), timeline.idle.as_ref()?)))
        .collect();
    launches.sort_by_key(|(app, _)| *app);
    let longest = |idle: &Idle| idle.stretches_us.first().copied().unwrap_or(0);
    let (app, worst) = launches.iter().max_by_key(|(_, idle)| longest(idle))?;
    let mut text = vec![format!(
        "Time between a cold launch's start and its last read before the window or the completion block, in which none \
         of its reads was in flight. A launch may be called complete after a longer stretch only. The longest is \
         {:.0} ms, of {app}. Single launches, those of the timelines.",
        longest(worst) as f64 / 1e3
    )];
    text.extend(cut_short(&launches));
    let head = ["app", "until the last read s"]
        .into_iter()
        .chain(BOUNDS.map(|(_, _, name)| name))
        .chain(["longest ms", "without reads", "fewest reads in a second"]);
    let mut table = Table::new("Stretches by length", "", head);
    for (app, idle) in &launches {
        let count = |&(from, to, _): &(u64, u64, &str)| {
            let within = |us: &&u64| (from..to).contains(*us);
            idle.stretches_us.iter().filter(within).count().to_string()
        };
        let share = idle.total_us as f64 / idle.until_us.max(1) as f64;
        let cells = [(*app).to_owned(), seconds(idle.until_us as f64 / 1e6)];
        table.push(cells.into_iter().chain(BOUNDS.iter().map(count)).chain([
            format!("{:.1}", longest(idle) as f64 / 1e3),
            percent(share),
            or_nothing(idle.fewest_reads.map(|reads| reads.to_string())),
        ]));
    }
    Section::of(
        "Stretches without reads (FAST §5.2, T_idle)",
        text,
        vec![table],
    )
}

/// The launches that the product's rule, of too few reads in a second (§4.2), would end too early.
fn cut_short(launches: &[(&str, &Idle)]) -> Option<String> {
    let least = LaunchLimits::default().min_reads;
    let known = launches
        .iter()
        .filter(|(_, idle)| idle.fewest_reads.is_some());
    let (all, cut): (usize, Vec<&str>) = (
        known.clone().count(),
        known
            .filter(|(_, idle)| idle.fewest_reads < Some(least as u64))
            .map(|(app, _)| *app)
            .collect(),
    );
    match (all, cut.as_slice()) {
        (0, _) => None,
        (_, []) => Some(format!(
            "No second of a launch has fewer than {least} reads, by which Paralfetch calls it complete."
        )),
        (_, cut) => Some(format!(
            "A second with fewer than {least} reads, by which Paralfetch calls a launch complete where no task \
             waits for the drive, lies within those of {}.",
            cut.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(app: &str, scenario: &str, idle: Option<Idle>) -> Timeline {
        Timeline {
            app: app.to_owned(),
            scenario: scenario.to_owned(),
            idle,
            ..Timeline::default()
        }
    }

    #[test]
    fn cold_launches_are_listed_by_the_length_of_their_stretches() {
        let idle = Idle {
            stretches_us: vec![1_200_000, 20_000, 10_000, 9_999],
            total_us: 1_250_000,
            until_us: 2_500_000,
            fewest_reads: Some(3),
        };
        let quick = Idle {
            stretches_us: vec![4_000],
            fewest_reads: Some(10),
            until_us: 1_000_000,
            ..Idle::default()
        };
        let own = [
            timeline("vlc", "cold", Some(idle)),
            timeline("gimp", "cold", Some(quick.clone())),
            timeline("gimp", "infill", Some(quick.clone())),
            timeline("old", "cold", None),
        ];
        let section = idle_stretches(&own.iter().collect::<Vec<_>>()).unwrap();
        let rows = &section.tables[0].rows;
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows[1],
            ["vlc", "2.50", "1", "2", "0", "1", "1200.0", "50 %", "3"]
        );
        assert!(
            section.text[0].contains("1200 ms, of vlc"),
            "{:?}",
            section.text
        );
        assert!(
            section.text[1].ends_with("those of vlc."),
            "{:?}",
            section.text
        );
        let section = idle_stretches(&[&timeline("gimp", "cold", Some(quick))]).unwrap();
        assert!(
            section.text[1].starts_with("No second"),
            "{:?}",
            section.text
        );
        assert_eq!(idle_stretches(&[&own[3]]), None);
    }
}
