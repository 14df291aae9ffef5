//! From a recording to a timeline. Plain data in, plain data out.

use std::collections::BTreeMap;

use paralfetch::model::{PAGE_SIZE, PrefetchEntry};

use super::event::{By, Event, FileId, Place, Raw, What};
use super::format::{Facts, Miss, Timeline, Why};
use super::idle::Idle;
use super::pages::{Pages, Tables, schedule, sequence};
use super::requests::{Request, Waited, requests};
use super::steps::{Steps, count, intervals, push};
use super::summary::Totals;
use super::tasks::{Tasks, Wait};
use crate::methods::LearnedSet;

/// No launch is longer, in seconds; what claims to be is cut.
const LONGEST: f64 = 3600.0;

/// What happened in the launch that `raw` recorded.
///
/// `set` has the launch sequence and the tables that its places point into; `entries` (with places
/// of the same tables) is what was prefetched, in order: it may be empty if nothing was, or if a
/// prefetcher without a profile did it. The launch is cut at the longest of the times in `facts`.
pub fn analyse(raw: &Raw, set: &LearnedSet, entries: &[PrefetchEntry], facts: Facts) -> Timeline {
    let end = micros(&facts);
    let clock = Clock {
        start_ns: raw.start_ns,
        end,
    };
    let events = &raw.events;
    let end_ns = raw.start_ns.saturating_add(end.saturating_mul(1000));
    let tasks = Tasks::of(events, raw.start_ns, end_ns);
    let requests = requests(events);
    let tables = Tables::new(&set.profile, raw);
    let sequence_pages = tables.pages(set.log.iter().map(|entry| &entry.span));
    let position =
        |of: &dyn Fn(&Event) -> Option<Place>| position(events, &clock, sequence_pages.clone(), of);

    let waits = tasks.waits.iter().map(|wait| (wait.start_ns, wait.end_ns));
    let in_flight = requests.iter().map(|request| {
        let done = request.done_ns.unwrap_or(u64::MAX);
        (request.issued_ns, done)
    });
    let reads = requests
        .iter()
        .filter(|request| !request.write && request.by != By::Other)
        .filter(|request| clock.is_within(request.issued_ns))
        .map(|request| {
            let done = request.done_ns.unwrap_or(u64::MAX);
            (clock.micros(request.issued_ns), clock.micros(done))
        });
    let idle = Some(Idle::of(reads));
    let mut timeline = Timeline {
        cpu: intervals(&clock.count(tasks.runs.iter().copied()), end),
        waiting: intervals(&clock.count(waits), end),
        idle,
        queue: clock.count(in_flight),
        prefetch: position(&|event| match event.what {
            What::Added(By::Helper, place) => Some(place),
            _ => None,
        }),
        app_position: position(&|event| match event.what {
            What::Added(By::Tree, place) | What::Touched(place) => Some(place),
            _ => None,
        }),
        total_pages: sequence_pages.len(),
        misses: misses(raw, &requests, &tasks.waits, &clock, &tables, entries),
        before: sequence(set),
        after: schedule(set, entries),
        device: facts.device,
        app: facts.app,
        scenario: facts.scenario,
        seconds: facts.seconds,
        window: facts.window,
        completion: facts.completion,
        totals: None,
    };
    timeline.totals = Some(Totals::of(&timeline));
    timeline.downsample();
    timeline
}

/// The length of the launch in microseconds.
fn micros(facts: &Facts) -> u64 {
    let times = [Some(facts.seconds), facts.window, facts.completion];
    let longest = times.into_iter().flatten().fold(0.0, f64::max);
    (longest.min(LONGEST) * 1e6).ceil() as u64
}

/// From the kernel's clock to the timeline's.
struct Clock {
    start_ns: u64,
    /// Microseconds.
    end: u64,
}

impl Clock {
    /// Microseconds since the execve; 0 before it, and no more than the end of the launch.
    fn micros(&self, time_ns: u64) -> u64 {
        (time_ns.saturating_sub(self.start_ns) / 1000).min(self.end)
    }

    fn is_within(&self, time_ns: u64) -> bool {
        time_ns >= self.start_ns && (time_ns - self.start_ns) / 1000 < self.end
    }

    fn count(&self, spans: impl Iterator<Item = (u64, u64)>) -> Steps {
        count(spans.map(|(start, end)| (self.micros(start), self.micros(end))))
    }
}

/// How many pages of the set the accesses that `of` picks have reached, over time.
fn position(
    events: &[Event],
    clock: &Clock,
    mut left: Pages<()>,
    of: &dyn Fn(&Event) -> Option<Place>,
) -> Steps {
    let mut steps = Steps::new();
    let mut reached = 0;
    for event in events {
        let time = clock.micros(event.time_ns);
        if time >= clock.end && event.time_ns > clock.start_ns {
            break;
        }
        if let Some(place) = of(event) {
            reached += left.take(&place);
            push(&mut steps, time, reached);
        }
    }
    steps
}

/// The reads that the tree made itself or waited for, in time order.
fn misses(
    raw: &Raw,
    requests: &[Request],
    waits: &[Wait],
    clock: &Clock,
    tables: &Tables<'_>,
    entries: &[PrefetchEntry],
) -> Vec<Miss> {
    let waited = Waited::new(requests);
    // For each request: when the tree began to wait for it, and for how long in sum, in nanoseconds.
    let mut waits_for: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for wait in waits {
        if let Some(index) = waited.for_what(wait) {
            let sum = waits_for.entry(index).or_insert((wait.start_ns, 0));
            sum.1 += wait.end_ns - wait.start_ns;
        }
    }
    // Names that the kernel had forgotten by the end of the launch may be in the profile.
    let mut names = tables.paths();
    names.extend(raw.names.clone());
    let reasons = Reasons::new(&raw.events, tables, entries);
    let mut misses: Vec<Miss> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let wait = waits_for.get(&index).copied();
        let (time_ns, why) = match (request.by, wait) {
            (By::Tree, _) if !request.write => (request.issued_ns, reasons.of(request)),
            (By::Helper, Some((since, _))) => (since, Why::CameTooLate),
            _ => continue,
        };
        if !clock.is_within(time_ns) {
            continue;
        }
        let (what, offset) = match request.place {
            Some(place) => (name(&names, &place), place.start),
            None => ("direct I/O".to_owned(), request.sector * 512 / PAGE_SIZE),
        };
        misses.push(Miss {
            time_us: clock.micros(time_ns),
            wait_us: wait.map_or(0, |(_, sum)| sum / 1000),
            what,
            offset,
            pages: request.bytes.div_ceil(PAGE_SIZE),
            why,
        });
    }
    misses.sort_by_key(|miss| miss.time_us);
    misses
}

fn name(names: &BTreeMap<FileId, String>, place: &Place) -> String {
    if place.file.is_metadata() {
        return "metadata".to_owned();
    }
    let known = names.get(&place.file).cloned();
    known.unwrap_or_else(|| format!("inode {}", place.file.ino))
}

/// Tells why the tree had to make a request itself.
struct Reasons {
    planned: Pages<()>,
    /// When the prefetcher added pages to the cache, in nanoseconds.
    prefetched: Pages<u64>,
}

impl Reasons {
    fn new(events: &[Event], tables: &Tables<'_>, entries: &[PrefetchEntry]) -> Self {
        let mut prefetched = Pages::new();
        for event in events {
            if let What::Added(By::Helper, place) = event.what {
                prefetched.insert(&place, event.time_ns);
            }
        }
        Reasons {
            planned: tables.pages(entries.iter().map(|entry| &entry.span)),
            prefetched,
        }
    }

    fn of(&self, request: &Request) -> Why {
        if self.planned.is_empty() && self.prefetched.is_empty() {
            return Why::NobodyPrefetches;
        }
        let Some(place) = request.place else {
            return Why::NotInProfile;
        };
        match self.prefetched.values(&place).min() {
            Some(time_ns) if time_ns <= request.issued_ns => Why::ReadAgain,
            Some(_) => Why::NotReachedYet,
            None if self.planned.values(&place).next().is_some() => Why::NotReachedYet,
            None => Why::NotInProfile,
        }
    }
}
