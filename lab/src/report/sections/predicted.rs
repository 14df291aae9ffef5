//! Launch times that a simulation expected, beside those that were measured.

use super::super::app::App;
use super::super::format::{change, percent, seconds};
use super::super::scenarios;
use super::super::stats::median;
use super::super::summary::Device;
use super::super::table::Table;
use super::{Picture, Prediction, Section};

/// The schedule that others are chosen in place of.
const USUAL: &str = "infill";

/// Others of the same set, and those of the sweeps that have values behind their names.
const OTHERS: [&str; 2] = ["regions", "regions-held"];
const SWEEPS: [&str; 2] = ["sweep-hole-", "sweep-region-"];

/// Predictions of all apps and scenarios on a drive; nothing where none was made.
pub fn predicted(device: &Device) -> Option<Section> {
    let mut table = Table::new(
        "Predicted and measured",
        "Seconds, medians.",
        ["app", "schedule", "predicted", "measured", "error"],
    );
    let mut predictions = Vec::new();
    for app in &device.apps {
        for scenario in device
            .scenarios
            .iter()
            .filter(|name| app.runs.contains_key(*name))
        {
            let Some(predicted) = app.median_of(scenario, |launch| launch.predicted) else {
                continue;
            };
            let times = app.times(scenario);
            if times.is_empty() || predicted <= 0.0 {
                continue;
            }
            let prediction = Prediction {
                name: format!("{}, {}", app.name, scenarios::label(scenario)),
                predicted,
                measured: median(&times),
            };
            table.push([
                app.name.clone(),
                scenarios::label(scenario).to_owned(),
                seconds(predicted),
                seconds(prediction.measured),
                change(prediction.error()),
            ]);
            predictions.push(prediction);
        }
    }
    let count = predictions.len() as f64;
    let mean = |error: fn(&Prediction) -> f64| predictions.iter().map(error).sum::<f64>() / count;
    let mut text = vec![format!(
        "What the simulation expected of a launch by the drive's model, as the product measures it, beside what the launch \
         took. The mean error is {}, without its sign {}.",
        change(mean(Prediction::error)),
        percent(mean(|one| one.error().abs()))
    )];
    let errors: Vec<f64> = device.apps.iter().flat_map(errors_of_ratios).collect();
    if let Some(worst) = errors.iter().map(|error| error.abs()).reduce(f64::max) {
        let count = errors.len() as f64;
        text.push(format!(
            "What a choice goes by is the ratio of two schedules of the same set: by the launch with `{USUAL}`, launches of the \
             exact set were predicted {} off on average, without the sign {}, and {} at worst.",
            change(errors.iter().sum::<f64>() / count),
            percent(errors.iter().map(|error| error.abs()).sum::<f64>() / count),
            percent(worst)
        ));
    }
    (!predictions.is_empty()).then(|| Section {
        title: "Predicted and measured launch times".to_owned(),
        text,
        picture: Some(Picture::Predictions(predictions)),
        tables: vec![table],
    })
}

/// For each other schedule of the exact set, by which share its predicted ratio to the usual one is above the measured one.
fn errors_of_ratios(app: &App) -> Vec<f64> {
    let times = |scenario: &str| {
        let predicted = app.median_of(scenario, |launch| launch.predicted)?;
        let measured = app.times(scenario);
        (!measured.is_empty()).then(|| (predicted, median(&measured)))
    };
    let Some(usual) = times(USUAL) else {
        return Vec::new();
    };
    let of_the_set = |name: &&String| {
        OTHERS.contains(&name.as_str()) || SWEEPS.iter().any(|sweep| name.starts_with(sweep))
    };
    let others = app.runs.keys().filter(of_the_set);
    others
        .filter_map(|name| times(name))
        .map(|(predicted, measured)| (predicted / usual.0) / (measured / usual.1) - 1.0)
        .collect()
}

impl Prediction {
    /// By which share of the measured time the prediction is above it.
    fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::load::Results;
    use super::super::super::summary::devices;
    use super::*;
    use crate::record::Launch;

    #[test]
    fn errors_are_shares_of_the_measured_medians() {
        let launch = |scenario: &str, turn, window, predicted| Launch {
            device: "d".to_owned(),
            app: "a".to_owned(),
            scenario: scenario.to_owned(),
            turn,
            window: Some(window),
            predicted,
            ..Launch::default()
        };
        let results = |launches| Results {
            launches,
            ..Results::default()
        };
        let unpredicted = results(vec![launch("cold", 0, 8.0, None)]);
        assert_eq!(predicted(&devices(&unpredicted)[0]), None);
        let both = results(vec![
            launch("cold", 0, 8.0, Some(6.0)),
            launch("infill", 0, 2.0, Some(3.0)),
            launch("infill", 1, 2.0, Some(3.0)),
        ]);
        let section = predicted(&devices(&both)[0]).unwrap();
        assert!(
            section.text[0].contains("+13 %, without its sign 38 %"),
            "{:?}",
            section.text
        );
        let rows: Vec<_> = section.tables[0]
            .rows
            .iter()
            .map(|row| row[4].as_str())
            .collect();
        assert_eq!(rows, ["−25 %", "+50 %"]);
        assert_eq!(section.text.len(), 1);
    }

    #[test]
    fn what_a_choice_goes_by_is_told() {
        let launch = |scenario: &str, window, predicted| Launch {
            device: "d".to_owned(),
            app: "a".to_owned(),
            scenario: scenario.to_owned(),
            window: Some(window),
            predicted: Some(predicted),
            ..Launch::default()
        };
        // Half as long as measured, both; and once 1.5 times as long by the ratio.
        let results = Results {
            launches: vec![
                launch("cold", 9.0, 9.0),
                launch("infill", 2.0, 1.0),
                launch("regions", 1.6, 0.8),
                launch("sweep-region-8", 2.0, 1.5),
                launch("sweep-shift-64", 2.0, 5.0),
            ],
            ..Results::default()
        };
        let section = predicted(&devices(&results)[0]).unwrap();
        let said = "+25 % off on average, without the sign 25 %, and 50 % at worst";
        assert!(section.text[1].contains(said), "{:?}", section.text);
    }
}
