//! Results for other programs: JSON and Markdown with what hyperfine's exports have.

use serde::Serialize;
use serde_json::{Value, json};

use super::results::{Results, Scenario, Series};
use crate::model::{median, shown};

/// Launch times of a scenario together, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TimeSummary {
    /// Arithmetic mean.
    mean: f64,
    /// Standard deviation of the sample; `None` of a single launch.
    stddev: Option<f64>,
    /// Median.
    median: f64,
    /// The shortest.
    min: f64,
    /// The longest.
    max: f64,
}

impl TimeSummary {
    fn of(times: &[f64]) -> Option<Self> {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        Some(TimeSummary {
            median: median(times)?,
            mean,
            stddev: (times.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
            min: times.iter().copied().fold(f64::INFINITY, f64::min),
            max: times.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// The results in the order in which scenarios take turns, with the times of those that were launched.
fn rows(results: &Results) -> Vec<(&'static str, &Series, TimeSummary)> {
    let order = [Scenario::Cold, Scenario::Prefetch, Scenario::Warm];
    let row = |scenario: Scenario| {
        let series = results.scenarios.get(scenario.name())?;
        Some((scenario.name(), series, TimeSummary::of(&series.seconds)?))
    };
    order.into_iter().filter_map(row).collect()
}

/// The command as a person would type it.
fn command_text(results: &Results) -> String {
    results.command.join(" ")
}

/// All of the results: `results` as hyperfine's JSON, an item a scenario, with what was read; and what follows from
/// the medians.
pub fn json(results: &Results) -> Value {
    let command = command_text(results);
    let item = |(name, series, times): (&str, &Series, TimeSummary)| {
        let mut item = json!(times);
        // Of a scenario: the command, with the scenario before it.
        item["command"] = json!(format!("{name}: {command}"));
        // `cold`, `prefetch` or `warm`.
        item["scenario"] = json!(name);
        // Launch times in seconds.
        item["times"] = json!(series.seconds);
        // What the app read itself, a number for each launch.
        item["read_bytes"] = json!(series.read_bytes);
        // Its read requests, a number for each launch.
        item["read_requests"] = json!(series.read_requests);
        // What the prefetch thread read, a number for each launch.
        item["prefetch_bytes"] = json!(series.prefetch_bytes);
        // Its read requests, a number for each launch.
        item["prefetch_requests"] = json!(series.prefetch_requests);
        item
    };
    json!({
        // Words of the command.
        "command": results.command,
        // What ended a launch: `exit` or `quiet`.
        "until": results.until,
        // An item for each scenario: a `TimeSummary` and the members above.
        "results": rows(results).into_iter().map(item).collect::<Vec<_>>(),
        // Of medians: (cold - prefetch) / (cold - warm); null if one of them was not launched, or warm launches are
        // not faster.
        "gap_closed": results.gap_closed,
        // Of medians: 1 - prefetch / cold; null if one of them was not launched.
        "reduction": results.reduction,
    })
}

/// A table in Markdown, with the columns of hyperfine's. The last column relates the means to the shortest one.
pub fn markdown(results: &Results) -> String {
    let rows = rows(results);
    let shortest = rows
        .iter()
        .map(|(_, _, times)| times.mean)
        .fold(f64::INFINITY, f64::min);
    let command = markdown_code(&command_text(results));
    let mut text = "| Command | Mean [s] | Median [s] | Min [s] | Max [s] | Relative |\n\
                    |:---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (name, _, times) in &rows {
        let spread = times
            .stddev
            .map_or(String::new(), |stddev| format!(" ± {stddev:.3}"));
        text += &format!(
            "| {name}: {command} | {:.3}{spread} | {:.3} | {:.3} | {:.3} | {:.2} |\n",
            times.mean,
            times.median,
            times.min,
            times.max,
            times.mean / shortest
        );
    }
    text
}

/// A command within a table of Markdown.
fn markdown_code(command: &str) -> String {
    let plain: String = command
        .chars()
        .map(|c| if shown(c) == c { c } else { ' ' })
        .collect();
    // A run of backticks in it ends the code at a run of the same length alone.
    let longest = plain.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", plain.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::super::results::Sample;
    use super::*;

    fn results() -> Results {
        let mut results = Results {
            command: ["a", "x|y"].map(str::to_owned).to_vec(),
            ..Results::default()
        };
        for (scenario, seconds) in [
            (Scenario::Cold, 2.0),
            (Scenario::Cold, 4.0),
            (Scenario::Cold, 3.0),
            (Scenario::Warm, 1.5),
        ] {
            let sample = Sample {
                seconds,
                read_bytes: 4096,
                ..Sample::default()
            };
            results.push(scenario, sample);
        }
        results
    }

    #[test]
    fn json_has_what_hyperfine_has_and_what_was_read() {
        let json = json(&results());
        let cold = &json["results"][0];
        let expected = json!({
            "command": "cold: a x|y", "scenario": "cold", "times": [2.0, 4.0, 3.0],
            "mean": 3.0, "stddev": 1.0, "median": 3.0, "min": 2.0, "max": 4.0,
            "read_bytes": [4096, 4096, 4096], "read_requests": [0, 0, 0],
            "prefetch_bytes": [0, 0, 0], "prefetch_requests": [0, 0, 0],
        });
        assert_eq!(*cold, expected);
        assert!(json["results"][1]["stddev"].is_null(), "{json}");
        assert_eq!(
            (&json["until"], &json["command"][1]),
            (&"exit".into(), &"x|y".into())
        );
        assert_eq!(super::json(&Results::default())["results"], json!([]));
    }

    #[test]
    fn markdown_is_a_table() {
        let text = markdown(&results());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[2],
            "| cold: `a x\\|y` | 3.000 ± 1.000 | 3.000 | 2.000 | 4.000 | 2.00 |"
        );
        assert_eq!(
            lines[3],
            "| warm: `a x\\|y` | 1.500 | 1.500 | 1.500 | 1.500 | 1.00 |"
        );
        assert_eq!(markdown_code("`a`\n"), "`` `a`  ``");
    }
}
