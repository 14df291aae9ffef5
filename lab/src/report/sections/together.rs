//! Several apps launched at once (FAST, Figure 8).

use super::super::app::App;
use super::super::summary::Device;
use super::Section;
use super::company::against;
use crate::scenarios::{self, Kind};
use crate::tables::Table;
use crate::tables::format::{or_nothing, ratio, seconds};

const COLD: &str = "together-cold";

/// Until the last app is there, by how many are launched.
pub fn together(device: &Device) -> Option<Section> {
    let (mut apps, mut section) = against(
        device,
        Kind::Together,
        "Several apps at once (FAST, Figure 8)",
        "Until the last app is there, normalized to the same apps launched cold at once.",
    )?;
    apps.sort_by_key(|app| count(app));
    let mut names = device.of_kinds(&[Kind::Together]);
    names.retain(|name| apps.iter().any(|app| app.runs.contains_key(*name)));
    section.tables.insert(0, table(&apps, &names));
    Some(section)
}

/// How many apps are launched.
fn count(app: &App) -> usize {
    app.name.split('+').count()
}

fn table(apps: &[&App], names: &[&str]) -> Table {
    let columns = names.iter().flat_map(|name| {
        let label = scenarios::label(name);
        let by_cold = (*name != COLD).then(|| format!("{label} by cold"));
        [Some(format!("{label} s")), by_cold].into_iter().flatten()
    });
    let note = "Medians. Each row has one app more than those above it, or several.";
    let head = ["apps".to_owned()].into_iter().chain(columns);
    let mut table = Table::new(
        "Until the last app is there",
        note,
        head.chain(["last".to_owned()]),
    );
    for app in apps {
        let cells = names.iter().flat_map(|name| {
            let time = or_nothing(app.middle(name).map(seconds));
            let by_cold = app.normalized(name).map(|estimate| ratio(estimate.value));
            let by_cold = (*name != COLD).then(|| or_nothing(by_cold));
            [Some(time), by_cold].into_iter().flatten()
        });
        let last = app.name.rsplit('+').next().unwrap_or_default().to_owned();
        table.push(
            [count(app).to_string()]
                .into_iter()
                .chain(cells)
                .chain([last]),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::samples::{launch, launched};
    use super::*;

    #[test]
    fn rows_are_in_order_of_numbers() {
        let launches = [
            ("a+b+c", "together-cold", 4.0),
            ("a+b+c", "together-infill", 3.0),
            ("a+b", "together-cold", 2.0),
            ("a+b", "together-infill", 1.0),
            ("a+b", "together-fast", 1.5),
        ]
        .map(|(app, scenario, seconds)| launch(app, scenario, 0, seconds));
        let section = together(&launched(launches.into())).unwrap();
        let rows = &section.tables[0].rows;
        assert_eq!(rows[0], ["2", "2.00", "1.50", "0.75", "1.00", "0.50", "b"]);
        assert_eq!(rows[1], ["3", "4.00", "–", "–", "3.00", "0.75", "c"]);
    }
}
