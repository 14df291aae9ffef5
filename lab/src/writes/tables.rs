//! What `lab writes` shows: records as tables.

use std::fmt::Write;

use super::benchmark::Benchmark;
use super::measures::Measure;
use super::wait_tables::{by_cause, row_of_causes, waits};
use crate::record::{Operation, Throughput, Written};
use crate::tables::format::ratio;
use crate::tables::stats::median;
use crate::tables::{NOTHING, Table};

/// The name under which runs on a quiet drive are shown.
const QUIET: &str = "quiet";

/// Runs of the same kind, of all turns.
pub(super) struct Group<'a> {
    /// `quiet`, or the measure.
    pub condition: &'a str,
    pub runs: Vec<&'a Written>,
    /// In the same turns, with the writer and nothing done.
    compared: Vec<(&'a Written, &'a Written)>,
}

/// Tables of records, a page for each drive and scheduler, as Markdown.
pub fn pages(records: &[Written]) -> String {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for record in records {
        let kind = (record.device.as_str(), record.scheduler.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let page_of = |(device, scheduler): &(&str, &str)| {
        let mut of_kind = records.to_vec();
        of_kind.retain(|one| one.device == *device && one.scheduler == *scheduler);
        page(&of_kind)
    };
    kinds.iter().map(page_of).collect()
}

/// Tables of records of one drive and scheduler, as Markdown.
pub fn page(records: &[Written]) -> String {
    let Some(first) = records.first() else {
        return "Nothing has been measured yet.\n".to_owned();
    };
    let mut page = format!(
        "# Waiting for background writes: {}, {}\n\n",
        first.device, first.scheduler
    );
    let mut causes = Vec::new();
    for benchmark in Benchmark::ALL {
        for writer in writers(records, benchmark) {
            let groups = groups(records, benchmark, writer);
            section(&mut page, benchmark, writer, &groups);
            causes.extend(row_of_causes(benchmark, &groups));
        }
    }
    if !causes.is_empty() {
        let _ = writeln!(
            page,
            "## What was waited for, by benchmark\n\n{}",
            by_cause(&causes).to_markdown()
        );
    }
    page
}

/// One run in a line.
pub fn line(record: &Written) -> String {
    let beside = record.writer.as_deref().map_or(QUIET.to_owned(), |writer| {
        format!("{writer}, {}", record.measure)
    });
    let all = record.operations.iter().find(|one| one.name == "all");
    let operation = all.or(record.operations.iter().max_by_key(|one| one.count));
    let took = operation.map_or(String::new(), |operation| {
        format!(
            "{} {} of {} ms on average, worst {}",
            operation.count,
            operation.name,
            ms(operation.mean_ms),
            ms(operation.worst_ms)
        )
    });
    let writer = record.throughput.map_or(String::new(), |throughput| {
        format!("; drive {} MB/s", mb(throughput.drive_mb_s))
    });
    format!(
        "{} {} ({beside}): {took}{}{writer}",
        record.device,
        record.benchmark,
        if record.cut { ", cut by the limit" } else { "" }
    )
}

/// The writers beside which a benchmark ran, in the order of the records.
fn writers(records: &[Written], benchmark: Benchmark) -> Vec<&str> {
    let mut found = Vec::new();
    for record in records
        .iter()
        .filter(|one| one.benchmark == benchmark.name())
    {
        if let Some(writer) = record.writer.as_deref()
            && !found.contains(&writer)
        {
            found.push(writer);
        }
    }
    found
}

fn groups<'a>(records: &'a [Written], benchmark: Benchmark, writer: &str) -> Vec<Group<'a>> {
    let of = |name: Option<&str>, measure: &str| -> Vec<&'a Written> {
        let mut found: Vec<&Written> = records
            .iter()
            .filter(|one| {
                one.benchmark == benchmark.name()
                    && one.writer.as_deref() == name
                    && one.measure == measure
            })
            .collect();
        found.sort_by_key(|one| one.turn);
        found
    };
    let none = of(Some(writer), Measure::None.name());
    let group = |condition: &'static str, runs: Vec<&'a Written>| {
        let pair = |run: &&'a Written| {
            let base = none.iter().find(|base| base.turn == run.turn)?;
            Some((*run, *base))
        };
        Group {
            condition,
            compared: runs.iter().filter_map(pair).collect(),
            runs,
        }
    };
    let mut all = vec![group(QUIET, of(None, Measure::None.name()))];
    all.extend(
        Measure::ALL
            .into_iter()
            .map(|measure| group(measure.name(), of(Some(writer), measure.name()))),
    );
    all.retain(|group| !group.runs.is_empty());
    all
}

fn section(page: &mut String, benchmark: Benchmark, writer: &str, groups: &[Group<'_>]) {
    let turns = groups
        .iter()
        .map(|group| group.runs.len())
        .max()
        .unwrap_or(0);
    let _ = writeln!(
        page,
        "## {benchmark}: {}\n\nThe writer: {writer}. Turns: {turns}. Milliseconds; means of all calls, medians of the \
         turns' percentiles, the worst of all; ratios to `none` in the same turn.\n",
        benchmark.title()
    );
    let _ = writeln!(page, "{}", latencies(groups).to_markdown());
    let _ = writeln!(page, "{}", throughputs(groups).to_markdown());
    let waits = waits(groups);
    if !waits.rows.is_empty() {
        let _ = writeln!(page, "{}", waits.to_markdown());
    }
    let done: Vec<String> = groups.iter().flat_map(actions).collect();
    if !done.is_empty() {
        let _ = writeln!(page, "What the shield did:\n\n{}", done.join("\n"));
        page.push('\n');
    }
}

/// Every operation under every condition.
fn latencies(groups: &[Group<'_>]) -> Table {
    let head = [
        "operation",
        "with",
        "calls",
        "mean",
        "50 %",
        "95 %",
        "99 %",
        "worst",
        "mean by none",
        "worst by none",
    ];
    let mut table = Table::new("Latencies", "", head);
    let mut names: Vec<&str> = Vec::new();
    for run in groups.iter().flat_map(|group| &group.runs) {
        for operation in &run.operations {
            if !names.contains(&operation.name.as_str()) {
                names.push(&operation.name);
            }
        }
    }
    for name in names {
        for group in groups {
            table.push(row(name, group));
        }
    }
    table
}

fn row(name: &str, group: &Group<'_>) -> Vec<String> {
    let of = |run: &Written| run.operations.iter().find(|one| one.name == name).cloned();
    let runs: Vec<Operation> = group.runs.iter().filter_map(|run| of(run)).collect();
    let mut cells = vec![name.to_owned(), group.condition.to_owned()];
    let calls: u64 = runs.iter().map(|one| one.count).sum();
    if calls == 0 {
        return cells;
    }
    let cut = group.runs.iter().any(|run| run.cut);
    cells.push(format!("{calls}{}", if cut { " (cut)" } else { "" }));
    let sum: f64 = runs.iter().map(|one| one.mean_ms * one.count as f64).sum();
    cells.push(ms(sum / calls as f64));
    let percentiles: [fn(&Operation) -> f64; 3] =
        [|one| one.p50_ms, |one| one.p95_ms, |one| one.p99_ms];
    cells.extend(percentiles.map(|of| ms(median(&runs.iter().map(of).collect::<Vec<_>>()))));
    cells.push(ms(runs.iter().map(|one| one.worst_ms).fold(0.0, f64::max)));
    let against = |of_operation: fn(&Operation) -> f64| {
        let ratios = group.compared.iter().filter_map(|(run, base)| {
            let (run, base) = (of(run)?, of(base)?);
            Some(of_operation(&run) / of_operation(&base))
        });
        by_none(ratios.collect())
    };
    cells.push(against(|one| one.mean_ms));
    cells.push(against(|one| one.worst_ms));
    cells
}

/// What was written under every condition but on a quiet drive.
fn throughputs(groups: &[Group<'_>]) -> Table {
    let head = ["with", "drive MB/s", "writer MB/s", "drive by none"];
    let mut table = Table::new("The writer", "", head);
    for group in groups {
        let all: Vec<Throughput> = group.runs.iter().filter_map(|run| run.throughput).collect();
        if all.is_empty() {
            continue;
        }
        let middle =
            |of: fn(&Throughput) -> f64| mb(median(&all.iter().map(of).collect::<Vec<_>>()));
        let ratios = group.compared.iter().filter_map(|(run, base)| {
            Some(run.throughput?.drive_mb_s / base.throughput?.drive_mb_s)
        });
        table.push([
            group.condition.to_owned(),
            middle(|one| one.drive_mb_s),
            middle(|one| one.writer_mb_s),
            by_none(ratios.collect()),
        ]);
    }
    table
}

fn actions(group: &Group<'_>) -> Vec<String> {
    let of = |run: &&Written| {
        let (condition, turn) = (group.condition, run.turn + 1);
        let lines = run.done.iter();
        lines
            .map(move |line| format!("- {condition}, turn {turn}: {line}"))
            .collect::<Vec<_>>()
    };
    group.runs.iter().flat_map(of).collect()
}

fn by_none(ratios: Vec<f64>) -> String {
    let usable = !ratios.is_empty() && ratios.iter().all(|ratio| ratio.is_finite());
    if usable {
        small_ratio(median(&ratios))
    } else {
        NOTHING.to_owned()
    }
}

/// Two digits after the point, more where that would say nothing.
fn small_ratio(value: f64) -> String {
    if value < 0.1 {
        format!("{value:.4}")
    } else {
        ratio(value)
    }
}

/// Milliseconds, with more digits the fewer there are.
pub(super) fn ms(value: f64) -> String {
    match value {
        large if large >= 100.0 => format!("{large:.0}"),
        middle if middle >= 1.0 => format!("{middle:.1}"),
        small => format!("{small:.3}"),
    }
}

fn mb(value: f64) -> String {
    format!("{value:.1}")
}
