//! Types of waits as tables: by condition, and by benchmark (the paper's Table 1).

use super::benchmark::Benchmark;
use super::measures::Measure;
use super::tables::{Group, ms};
use crate::record::Waited;
use crate::tables::{NOTHING, Table};

/// Types of waits under every condition, where a detector looked.
pub(super) fn waits(groups: &[Group<'_>]) -> Table {
    let head = ["with", "waits for", "waits", "total s", "worst ms", "of"];
    let mut table = Table::new("Waits", "", head);
    for group in groups {
        for waited in sum(group.runs.iter().flat_map(|run| &run.waits)) {
            table.push([
                group.condition.to_owned(),
                waited.cause,
                waited.count.to_string(),
                format!("{:.2}", waited.total_ms / 1e3),
                ms(waited.worst_ms),
                waited.for_whom.join(", "),
            ]);
        }
        let lost: u64 = group.runs.iter().map(|run| run.lost_waits).sum();
        if lost > 0 {
            table.push([group.condition, "(lost)", &lost.to_string()]);
        }
    }
    table
}

/// Sums of waits by type, the longest in total first.
fn sum<'a>(waits: impl Iterator<Item = &'a Waited>) -> Vec<Waited> {
    let mut sums: Vec<Waited> = Vec::new();
    for one in waits {
        let Some(sum) = sums.iter_mut().find(|sum| sum.cause == one.cause) else {
            sums.push(one.clone());
            continue;
        };
        sum.count += one.count;
        sum.total_ms += one.total_ms;
        sum.worst_ms = sum.worst_ms.max(one.worst_ms);
        for name in &one.for_whom {
            if !sum.for_whom.contains(name) {
                sum.for_whom.push(name.clone());
            }
        }
    }
    sums.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
    sums
}

/// A benchmark's waits under the writer, with nothing done: the paper's Table 1.
pub(super) fn row_of_causes(
    benchmark: Benchmark,
    groups: &[Group<'_>],
) -> Option<(Benchmark, Vec<Waited>)> {
    let none = groups
        .iter()
        .find(|group| group.condition == Measure::None.name())?;
    let waits = sum(none.runs.iter().flat_map(|run| &run.waits));
    (!waits.is_empty()).then_some((benchmark, waits))
}

/// Every benchmark's waits by type.
pub(super) fn by_cause(rows: &[(Benchmark, Vec<Waited>)]) -> Table {
    let all = sum(rows.iter().flat_map(|(_, waits)| waits));
    let head = std::iter::once("total s (waits)").chain(all.iter().map(|one| one.cause.as_str()));
    let mut table = Table::new("Waits by benchmark", "", head);
    for (benchmark, waits) in rows {
        let cell = |cause: &Waited| {
            let found = waits.iter().find(|one| one.cause == cause.cause);
            found.map_or(NOTHING.to_owned(), |one| {
                format!("{:.2} ({})", one.total_ms / 1e3, one.count)
            })
        };
        table.push(std::iter::once(benchmark.to_string()).chain(all.iter().map(cell)));
    }
    table
}
