//! Stretches without reads inside cold launches (the choice of T_idle, FAST §5.2), by the launches that were learned
//! as read.

use paralfetch::model::LaunchLimits;

use super::super::summary::Device;
use super::Section;
use crate::record::Stretches;
use crate::tables::Table;
use crate::tables::format::{or_nothing, seconds};

/// Bounds of the groups that stretches are counted in, in microseconds.
const BOUNDS: [(u64, u64, &str); 4] = [
    (1_000, 10_000, "1–10 ms"),
    (10_000, 100_000, "10–100 ms"),
    (100_000, 1_000_000, "0.1–1 s"),
    (1_000_000, u64::MAX, "over 1 s"),
];

/// The stretches of one drive's learned launches; nothing where none was learned as read.
pub fn stretches(device: &Device) -> Option<Section> {
    let mut launches: Vec<(&str, &Stretches)> = device
        .learned
        .iter()
        .filter_map(|learned| Some((learned.app.as_str(), learned.stretches.as_ref()?)))
        .collect();
    launches.sort_by_key(|(app, _)| *app);
    let longest = |of: &Stretches| of.lengths_us.first().copied().unwrap_or(0);
    let (app, worst) = launches.iter().max_by_key(|(_, of)| longest(of))?;
    let mut text = vec![format!(
        "Time between a cold launch's start and its last read before the window, in which it began no read. A launch \
         may be called complete after a longer stretch only. The longest is {:.0} ms, of {app}. Single launches, those \
         that were learned as read.",
        longest(worst) as f64 / 1e3
    )];
    text.extend(cut_short(&launches));
    let head = ["app", "until the last read s"]
        .into_iter()
        .chain(BOUNDS.map(|(_, _, name)| name))
        .chain(["longest ms", "fewest reads in a second"]);
    let mut table = Table::new("Stretches by length", "", head);
    for (app, of) in &launches {
        let count = |&(from, to, _): &(u64, u64, &str)| {
            let within = |us: &&u64| (from..to).contains(*us);
            of.lengths_us.iter().filter(within).count().to_string()
        };
        let cells = [(*app).to_owned(), seconds(of.until_us as f64 / 1e6)];
        table.push(cells.into_iter().chain(BOUNDS.iter().map(count)).chain([
            format!("{:.1}", longest(of) as f64 / 1e3),
            or_nothing(of.fewest_reads.map(|reads| reads.to_string())),
        ]));
    }
    Section::of(
        "Stretches without reads (FAST §5.2, T_idle)",
        text,
        vec![table],
    )
}

/// The launches that the product's rule, of too few reads in a second (§4.2), would end too early.
fn cut_short(launches: &[(&str, &Stretches)]) -> Option<String> {
    let least = LaunchLimits::default().min_reads;
    let known = launches.iter().filter(|(_, of)| of.fewest_reads.is_some());
    let (all, cut): (usize, Vec<&str>) = (
        known.clone().count(),
        known
            .filter(|(_, of)| of.fewest_reads < Some(least as u64))
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
    use super::super::super::load::Results;
    use super::super::samples::device;
    use super::*;
    use crate::record::Learned;

    fn section(launches: &[(&str, Option<Stretches>)]) -> Option<Section> {
        let learned = |(app, stretches): &(&str, Option<Stretches>)| Learned {
            device: "d".to_owned(),
            app: (*app).to_owned(),
            how: "as-read".to_owned(),
            stretches: stretches.clone(),
            ..Learned::default()
        };
        let results = Results {
            learned: launches.iter().map(learned).collect(),
            ..Results::default()
        };
        stretches(&device(results))
    }

    #[test]
    fn launches_are_listed_by_the_length_of_their_stretches() {
        let paused = Stretches {
            lengths_us: vec![1_200_000, 20_000, 10_000, 9_999],
            until_us: 2_500_000,
            fewest_reads: Some(3),
        };
        let quick = Stretches {
            lengths_us: vec![4_000],
            until_us: 1_000_000,
            fewest_reads: Some(10),
        };
        let found = section(&[
            ("vlc", Some(paused)),
            ("gimp", Some(quick.clone())),
            ("old", None),
        ])
        .unwrap();
        let rows = &found.tables[0].rows;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1], ["vlc", "2.50", "1", "2", "0", "1", "1200.0", "3"]);
        assert!(
            found.text[0].contains("1200 ms, of vlc"),
            "{:?}",
            found.text
        );
        assert!(found.text[1].ends_with("those of vlc."), "{:?}", found.text);
        let found = section(&[("gimp", Some(quick))]).unwrap();
        assert!(found.text[1].starts_with("No second"), "{:?}", found.text);
        assert_eq!(section(&[("old", None)]), None);
    }
}
