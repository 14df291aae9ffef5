//! Launch times that a simulation expected, beside those that were measured.

use super::super::format::{change, percent, seconds};
use super::super::scenarios;
use super::super::stats::median;
use super::super::summary::Device;
use super::super::table::Table;
use super::{Picture, Prediction, Section};

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
    let text = format!(
        "What the simulation expected of a launch by the drive's model, as the product measures it, beside what the launch \
         took. The mean error is {}, without its sign {}.",
        change(mean(Prediction::error)),
        percent(mean(|one| one.error().abs()))
    );
    (!predictions.is_empty()).then(|| Section {
        title: "Predicted and measured launch times".to_owned(),
        text: vec![text],
        picture: Some(Picture::Predictions(predictions)),
        tables: vec![table],
    })
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
    }
}
