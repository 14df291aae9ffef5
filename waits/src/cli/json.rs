//! Waits as JSON lines: one for each wait, and a last one with the totals. Times are in nanoseconds.

use paralfetch::cli::format::text_of;
use serde_json::{Value, json};

use super::text::{share, watched};
use crate::{SeenWaits, Tally, Wait, WaitNames, WaitSum, WaitTotals, WaitedPlace};

/// A wait, with the names of what it was about.
pub fn wait(wait: &Wait, names: &WaitNames) -> Value {
    let mut value = json!(wait);
    value["type"] = json!("wait");
    add_names(&mut value, wait.into(), names);
    value
}

/// Everything of a time of watching but the single waits. `listed` of them are lines of their own.
pub fn totals(seen: &SeenWaits, listed: u64) -> Value {
    let mut value = sums(&seen.totals, &seen.names);
    let watched = watched(seen);
    value["type"] = json!("totals");
    value["since_ns"] = json!(seen.since_ns);
    value["until_ns"] = json!(seen.until_ns);
    value["unlisted"] = json!(seen.totals.all.count.saturating_sub(listed));
    value["lost"] = json!(seen.lost);
    value["missing"] = json!(seen.missing);
    let programs = seen.cost.programs;
    value["cost"] = json!({
        "programs_ns": programs.map(|time| time.as_nanos() as u64),
        "reader_ns": seen.cost.reader.as_nanos() as u64,
        "start_ns": seen.start_cost.as_nanos() as u64,
        "share": share(programs.unwrap_or_default() + seen.cost.reader, watched),
    });
    value
}

/// The sums by cause, process and file.
fn sums(totals: &WaitTotals, names: &WaitNames) -> Value {
    let mut value = sum(&totals.all);
    value["by_cause"] = rows(&totals.by_cause, |cause, row| {
        row["cause"] = json!(cause);
    });
    value["by_process"] = rows(&totals.by_process, |process, row| {
        row["pid"] = json!(process.pid);
        row["name"] = json!(process.name);
    });
    value["by_file"] = rows(&totals.by_place, |place, row| {
        row["device"] = json!(place.device);
        row["inode"] = json!(place.inode);
        add_names(row, *place, names);
    });
    value
}

fn rows<K: Ord>(tally: &Tally<K>, name: impl Fn(&K, &mut Value)) -> Value {
    let rows = tally.rows().into_iter().map(|(key, of_key)| {
        let mut row = sum(of_key);
        name(key, &mut row);
        row
    });
    // What had no row any more.
    let rest = (tally.rest.count > 0).then(|| sum(&tally.rest));
    rows.chain(rest).collect()
}

fn sum(sum: &WaitSum) -> Value {
    let for_whom = sum
        .for_whom
        .iter()
        .map(|(whom, time)| json!({ "pid": whom.pid, "name": whom.name, "total_ns": time }));
    json!({
        "waits": sum.count,
        "under_way": sum.under_way,
        "total_ns": sum.total_ns,
        "worst_ns": sum.worst_ns,
        "for_whom": for_whom.collect::<Vec<_>>(),
    })
}

fn add_names(value: &mut Value, place: WaitedPlace, names: &WaitNames) {
    value["device_name"] = json!(place.device.map(|device| names.device(device)));
    value["path"] = json!(names.path(place).map(text_of));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::text::tests::wait as example;
    use super::*;
    use crate::WaitCause;

    #[test]
    fn a_line_is_a_wait_with_names() {
        let line = wait(&example(WaitCause::JournalHandle, 5), &WaitNames::default());
        assert_eq!(line["type"], "wait");
        assert_eq!(line["cause"], "journal-handle");
        assert_eq!(line["task"]["comm"], "gimp");
        assert_eq!(line["for_whom"]["pid"], 7);
        assert_eq!(line["device_name"], "4000:77777");
        assert_eq!(line["path"], Value::Null);
        // The wait itself can be read from it.
        let read: Wait = serde_json::from_value(line).unwrap();
        assert_eq!(read, example(WaitCause::JournalHandle, 5));
    }

    #[test]
    fn totals_have_every_sum() {
        let waits = [example(WaitCause::Sync, 7), example(WaitCause::Lock, 5)];
        let mut seen = SeenWaits {
            since_ns: 1,
            until_ns: 1_000_000_001,
            totals: waits.iter().collect(),
            ..SeenWaits::default()
        };
        seen.cost.reader = Duration::from_millis(1);
        let line = totals(&seen, 1);
        assert_eq!(line["type"], "totals");
        assert_eq!((&line["waits"], &line["unlisted"]), (&json!(2), &json!(1)));
        assert_eq!(line["by_cause"][0]["cause"], "sync");
        assert_eq!(line["by_cause"][1]["worst_ns"], 5);
        assert_eq!(line["by_process"][0]["name"], "gimp");
        assert_eq!(line["by_file"][0]["inode"], 9);
        assert_eq!(line["for_whom"][0]["total_ns"], 12);
        assert_eq!(line["cost"]["programs_ns"], Value::Null);
        assert_eq!(line["cost"]["share"], 0.001);
    }
}
