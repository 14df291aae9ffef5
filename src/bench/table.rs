//! Results as a table and as bars, for the terminal.

use super::results::{Results, Scenario, Series, median_count};

/// Width of the longest bar, in characters.
const BAR_WIDTH: f64 = 50.0;

/// The table, the bars and the summary, each line ended.
pub fn render(results: &Results) -> String {
    let order = [Scenario::Cold, Scenario::Prefetch, Scenario::Warm];
    let rows: Vec<(&str, &Series)> = order
        .iter()
        .filter_map(|scenario| Some((scenario.name(), results.scenarios.get(scenario.name())?)))
        .collect();
    let mut lines = vec![format!(
        "{:<9}{:>9}{:>18}{:>5}{:>10}{:>9}{:>11}{:>9}",
        "launch", "median s", "min – max s", "runs", "app reads", "MiB", "prefetched", "MiB"
    )];
    lines.extend(rows.iter().map(|(name, series)| table_row(name, series)));
    lines.push(String::new());
    lines.extend(bars(&rows));
    lines.push(String::new());
    if let Some(reduction) = results.reduction {
        let percent = reduction * 100.0;
        lines.push(format!("reduction against cold  {percent:>6.1} %"));
    }
    if let Some(gap) = results.gap_closed {
        lines.push(format!(
            "gap closed              {gap:>6.2}   (0: as cold, 1: as warm)"
        ));
    }
    lines.join("\n") + "\n"
}

fn table_row(name: &str, series: &Series) -> String {
    let mib = |bytes: &[u64]| median_count(bytes).unwrap_or(0.0) / f64::from(1 << 20);
    let least = series.seconds.iter().copied().fold(f64::NAN, f64::min);
    let most = series.seconds.iter().copied().fold(f64::NAN, f64::max);
    format!(
        "{:<9}{:>9.3}{:>18}{:>5}{:>10.0}{:>9.1}{:>11.0}{:>9.1}",
        name,
        series.median().unwrap_or(f64::NAN),
        format!("{least:.3} – {most:.3}"),
        series.seconds.len(),
        median_count(&series.read_requests).unwrap_or(0.0),
        mib(&series.read_bytes),
        median_count(&series.prefetch_requests).unwrap_or(0.0),
        mib(&series.prefetch_bytes),
    )
}

fn bars(rows: &[(&str, &Series)]) -> Vec<String> {
    let medians = rows.iter().filter_map(|(_, series)| series.median());
    let longest = medians.fold(0.0, f64::max);
    let bar = |(name, series): &(&str, &Series)| {
        let median = series.median().unwrap_or(0.0);
        let share = if longest > 0.0 { median / longest } else { 0.0 };
        let bar = "█".repeat((share * BAR_WIDTH).round() as usize);
        format!("{name:<9}{bar} {median:.3} s ({:.0} %)", share * 100.0)
    };
    rows.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::Sample;
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        let mut results = Results::default();
        for (scenario, seconds) in [
            (Scenario::Cold, 2.0),
            (Scenario::Cold, 1.5),
            (Scenario::Cold, 3.0),
            (Scenario::Prefetch, 1.0),
            (Scenario::Warm, 0.5),
        ] {
            let sample = Sample {
                seconds,
                ..Sample::default()
            };
            results.push(scenario, sample);
        }
        let text = render(&results);
        let bar = |name: &str| {
            text.lines()
                .filter(|line| line.starts_with(name))
                .map(|line| line.matches('█').count())
                .sum::<usize>()
        };
        assert_eq!((bar("cold"), bar("prefetch"), bar("warm")), (50, 25, 13));
        assert!(text.contains("1.500 – 3.000"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.contains("50.0 %"), "{text}");
        assert!(text.contains("0.67"), "{text}");
    }

    #[test]
    fn a_single_scenario_has_no_summary() {
        let mut results = Results::default();
        results.push(Scenario::Warm, Sample::default());
        let text = render(&results);
        assert!(
            !text.contains("gap") && !text.contains("reduction"),
            "{text}"
        );
    }
}
