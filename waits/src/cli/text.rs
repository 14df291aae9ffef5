//! Waits for a person to read.

use std::time::Duration;

use paralfetch::cli::format::text_of;
use paralfetch::cli::terminal::cut_start;

use crate::{
    DetectorCost, SeenWaits, Tally, Wait, WaitNames, WaitProcess, WaitSum, WaitTotals, WaitedPlace,
};

/// Longest name, in characters; of longer ones the end is shown.
const LONGEST_NAME: usize = 56;

/// Columns of a table before the name, and between the name and for whom tasks waited.
const BEFORE_NAME: usize = 7 + 1 + 10 + 1 + 10 + 2;
const BETWEEN: usize = 2;

/// How many waits there were in how much time, and the worst of them.
pub fn summary(totals: &WaitTotals, names: &WaitNames, watched: Duration) -> String {
    let (all, seconds) = (&totals.all, watched.as_secs_f64());
    let Some(worst) = &totals.worst else {
        return format!("no waits in {seconds:.1} s");
    };
    format!(
        "{} in {seconds:.1} s, {:.3} s in sum, worst {:.1} ms ({})",
        counted(all.count),
        all.total_ns as f64 / 1e9,
        ms(all.worst_ns),
        what(worst, names),
    )
}

/// `1 wait`, `2 waits`.
fn counted(count: u64) -> String {
    match count {
        1 => "1 wait".to_owned(),
        count => format!("{count} waits"),
    }
}

/// How large a table may become.
#[derive(Clone, Copy, Debug)]
pub struct WaitTableSize {
    /// Most rows.
    pub rows: usize,
    /// Columns that names are cut to fit into, if they are bounded.
    pub columns: Option<usize>,
}

/// Tables by cause, by process and by file or device, each of this size at most; none without waits.
pub fn tables(totals: &WaitTotals, names: &WaitNames, size: WaitTableSize) -> Vec<String> {
    if totals.all.count == 0 {
        return Vec::new();
    }
    let causes = table(&totals.by_cause, "cause", size, ToString::to_string);
    let processes = table(&totals.by_process, "process", size, ToString::to_string);
    let files = table(&totals.by_place, "file or device", size, |place| {
        place_name(*place, names)
    });
    [causes, processes, files].concat()
}

fn table<K: Ord>(
    tally: &Tally<K>,
    title: &str,
    size: WaitTableSize,
    name: impl Fn(&K) -> String,
) -> Vec<String> {
    let rows = tally.rows();
    let shown: Vec<_> = rows.iter().take(size.rows).collect();
    let names: Vec<String> = shown.iter().map(|(key, _)| name(key)).collect();
    let whom: Vec<String> = shown.iter().map(|(_, sum)| for_whom(sum)).collect();
    let (room, whom_room) = match size.columns {
        Some(columns) => {
            let both = columns.saturating_sub(BEFORE_NAME + BETWEEN);
            share_columns(both, longest(&names, title), longest(&whom, "for whom"))
        }
        None => (LONGEST_NAME, usize::MAX),
    };
    let names: Vec<String> = names.iter().map(|name| cut_start(name, room)).collect();
    let width = longest(&names, title);
    let mut lines = vec![format!(
        "{:>7} {:>10} {:>10}  {title:<width$}  for whom",
        "waits", "total s", "worst ms"
    )];
    lines.extend(
        shown
            .iter()
            .zip(names)
            .zip(whom)
            .map(|(((_, sum), name), whom)| {
                let line = format!(
                    "{:>7} {:>10.3} {:>10.1}  {name:<width$}  {}",
                    sum.count,
                    sum.total_ns as f64 / 1e9,
                    ms(sum.worst_ns),
                    cut_start(&whom, whom_room),
                );
                line.trim_end().to_owned()
            }),
    );
    let hidden = rows.len() - shown.len();
    let rest = match (hidden, tally.rest.count) {
        (0, 0) => None,
        (hidden, 0) => Some(format!("{:>7} further rows", hidden)),
        (_, more) => Some(format!("{:>7} further rows and {}", hidden, counted(more))),
    };
    lines.extend(rest);
    lines
}

/// Characters of the longest of these, and of the head of their column.
fn longest(texts: &[String], title: &str) -> usize {
    let lengths = texts.iter().map(|text| text.chars().count());
    lengths.chain([title.len()]).max().unwrap_or(0)
}

/// The columns that two texts get of those for both: as many as they are long or, where that is too much, as many as the
/// other leaves, and half at least.
fn share_columns(both: usize, name: usize, whom: usize) -> (usize, usize) {
    let name = name.min(LONGEST_NAME);
    let room = name.min(both.saturating_sub(whom).max(both / 2));
    (room, both - room)
}

/// One wait, with the seconds since watching began.
pub fn line(wait: &Wait, since_ns: u64, names: &WaitNames) -> String {
    let begun = wait.start_ns.saturating_sub(since_ns) as f64 / 1e9;
    let duration = ms(wait.duration_ns);
    format!("{begun:>9.3} s {duration:>9.1} ms  {}", what(wait, names))
}

/// Who waits, what for, where and for whom.
fn what(wait: &Wait, names: &WaitNames) -> String {
    let process = WaitProcess::from(&wait.task);
    let mut text = format!("{process}: {}", wait.cause);
    let place = WaitedPlace::from(wait);
    if place != WaitedPlace::default() {
        text.push_str(" at ");
        text.push_str(&cut_start(&place_name(place, names), LONGEST_NAME));
    }
    if let Some(whom) = &wait.for_whom {
        text.push_str(&format!(", for {}", WaitProcess::from(whom)));
    }
    text
}

/// The path, or the device and the number of the inode, or as much of that as is known.
fn place_name(place: WaitedPlace, names: &WaitNames) -> String {
    if let Some(path) = names.path(place) {
        return text_of(path);
    }
    match (place.device.map(|device| names.device(device)), place.inode) {
        (Some(device), Some(inode)) => format!("{device} inode {inode}"),
        (Some(device), None) => device,
        (None, Some(inode)) => format!("inode {inode}"),
        (None, None) => "(not known)".to_owned(),
    }
}

fn for_whom(sum: &WaitSum) -> String {
    let Some((whom, time)) = sum.mostly_for() else {
        return String::new();
    };
    let share = 100.0 * time as f64 / sum.total_ns.max(1) as f64;
    format!("{whom} {share:.0} %")
}

/// What was lost, and what this kernel cannot tell, a line each.
pub fn caveats(lost: u64, missing: &[String]) -> Vec<String> {
    let lost = (lost > 0).then(|| format!("{lost} waits were lost: there may be more"));
    let missing = missing.iter().map(|what| format!("not known here: {what}"));
    lost.into_iter().chain(missing).collect()
}

/// What the detector took of a processor, and to be started.
pub fn cost(seen: &SeenWaits) -> String {
    let DetectorCost { programs, reader } = seen.cost;
    let share = |time: Duration| 100.0 * share(time, watched(seen));
    let start = seen.start_cost.as_secs_f64();
    match programs {
        Some(programs) => format!(
            "the detector took {:.2} % of a processor, {:.2} % in the kernel and {:.2} % for reading, and \
             {start:.2} s to start",
            share(programs + reader),
            share(programs),
            share(reader),
        ),
        None => format!(
            "the detector took {:.2} % of a processor for reading, and {start:.2} s to start; what its programs \
             took was not measured",
            share(reader),
        ),
    }
}

/// A time as a share of another, 0 if nothing can be said.
pub fn share(time: Duration, of: Duration) -> f64 {
    match of.as_secs_f64() {
        0.0 => 0.0,
        of => time.as_secs_f64() / of,
    }
}

/// For how long was watched.
pub fn watched(seen: &SeenWaits) -> Duration {
    Duration::from_nanos(seen.until_ns.saturating_sub(seen.since_ns))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{WaitCause, WaitTask};

    pub(in crate::cli) fn wait(cause: WaitCause, duration_ns: u64) -> Wait {
        let task = |pid: u32, comm: &str| WaitTask {
            pid,
            tid: pid,
            comm: comm.to_owned(),
            uid: 1000,
        };
        Wait {
            task: task(12, "gimp"),
            cause,
            start_ns: 2_000_000_000,
            duration_ns,
            // No system has it.
            device: Some(4000 << 20 | 77_777),
            inode: Some(9),
            block: None,
            for_whom: Some(task(7, "dd")),
            under_way: false,
        }
    }

    #[test]
    fn tables_have_totals_worst_and_for_whom() {
        let waits = [
            wait(WaitCause::Sync, 1_500_000_000),
            wait(WaitCause::JournalCommit, 20_000_000),
        ];
        let totals: WaitTotals = waits.iter().collect();
        let names = WaitNames::default();
        let expected = [
            "  waits    total s   worst ms  cause           for whom",
            "      1      1.500     1500.0  sync            dd[7] 100 %",
            "      1      0.020       20.0  journal-commit  dd[7] 100 %",
            "  waits    total s   worst ms  process   for whom",
            "      2      1.520     1500.0  gimp[12]  dd[7] 100 %",
            "  waits    total s   worst ms  file or device      for whom",
            "      2      1.520     1500.0  4000:77777 inode 9  dd[7] 100 %",
        ];
        let size = |rows| WaitTableSize {
            rows,
            columns: None,
        };
        assert_eq!(tables(&totals, &names, size(9)), expected);
        let cut = tables(&totals, &names, size(1));
        assert_eq!(cut[2], "      1 further rows");
        assert_eq!(
            summary(&totals, &names, Duration::from_secs(3)),
            "2 waits in 3.0 s, 1.520 s in sum, worst 1500.0 ms (gimp[12]: sync at 4000:77777 inode 9, for dd[7])"
        );
        assert_eq!(
            line(&waits[1], 1_000_000_000, &names),
            "    1.000 s      20.0 ms  gimp[12]: journal-commit at 4000:77777 inode 9, for dd[7]"
        );
    }

    #[test]
    fn without_waits_there_is_one_line() {
        let totals = WaitTotals::default();
        let names = WaitNames::default();
        let size = WaitTableSize {
            rows: 9,
            columns: None,
        };
        assert!(tables(&totals, &names, size).is_empty());
        let text = summary(&totals, &names, Duration::from_millis(1500));
        assert_eq!(text, "no waits in 1.5 s");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let place = WaitedPlace::default();
        assert_eq!(place_name(place, &WaitNames::default()), "(not known)");
        let lines = caveats(3, &["who holds a lock".to_owned()]);
        assert_eq!(
            lines,
            [
                "3 waits were lost: there may be more",
                "not known here: who holds a lock"
            ]
        );
        assert_eq!(caveats(0, &[]), [""; 0]);
    }

    #[test]
    fn costs_are_shares_of_a_processor() {
        let mut seen = SeenWaits {
            until_ns: 10_000_000_000,
            cost: DetectorCost {
                programs: Some(Duration::from_millis(30)),
                reader: Duration::from_millis(10),
            },
            start_cost: Duration::from_millis(150),
            ..SeenWaits::default()
        };
        let text = cost(&seen);
        assert!(text.contains("took 0.40 % of a processor"), "{text}");
        assert!(text.contains("0.15 s to start"), "{text}");
        seen.cost.programs = None;
        let text = cost(&seen);
        assert!(text.contains("took 0.10 %") && text.contains("not measured"));
        assert_eq!(share(seen.start_cost, Duration::ZERO), 0.0);
    }

    #[test]
    fn tables_fit_into_80_columns_whatever_the_names_are() {
        // The longest names and numbers that the kernel has.
        let task = |pid| WaitTask {
            pid,
            tid: pid,
            comm: "fifteen-letters".to_owned(),
            uid: 1000,
        };
        let long = Wait {
            task: task(4_194_304),
            for_whom: Some(task(4_194_303)),
            inode: Some(u64::MAX),
            ..wait(WaitCause::JournalCommit, 99_999_000_000_000)
        };
        let totals: WaitTotals = [&long].into_iter().collect();
        let names = WaitNames::default();
        let size = |columns| WaitTableSize { rows: 9, columns };
        let whole = tables(&totals, &names, size(None));
        let is_long = |line: &String| line.chars().count() > 80;
        assert!(whole.iter().any(is_long), "{whole:?}");
        // On standard error each line begins with the program's name.
        for columns in [80, 80 - super::super::BY.len()] {
            let fitted = tables(&totals, &names, size(Some(columns)));
            let is_long = |line: &&String| line.chars().count() > columns;
            assert_eq!(fitted.iter().find(is_long), None);
        }
        let fitted = tables(&totals, &names, size(Some(80)));
        // The end of a name says most, and nothing is cut where there is room.
        assert!(fitted[5].contains("73709551615  "), "{fitted:?}");
        let whom = "-letters[4194303] 100 %";
        assert!(fitted[5].ends_with(whom), "{fitted:?}");
        assert_eq!(tables(&totals, &names, size(Some(200))), whole);
        // A terminal that is too narrow for any of it.
        let narrow = tables(&totals, &names, size(Some(1)));
        assert_eq!(narrow.len(), fitted.len());
    }
}
