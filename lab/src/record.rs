//! What a session leaves behind: `results.jsonl`, a [`Record`] a line. Written by experiments, read by
//! reports; the one thing that they share.

use std::fmt;

use paralfetch::model::DriveCosts;
use serde::{Deserialize, Serialize};

/// One line of `results.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// The lab was started, or resumed.
    Session(Session),
    /// An app was learned.
    Learned(Learned),
    /// An app was launched.
    Launch(Launch),
    /// A launch was judged.
    Missed(Missed),
    /// An app was learned several times in the same way.
    Lessons(Lessons),
    /// A benchmark ran beside a writer, or on a quiet drive.
    Written(Written),
}

/// Under which conditions the records that follow were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Start, in seconds since the epoch.
    pub started: u64,
    /// Name of the drive's profile, such as `qlc-sata`.
    pub device: String,
    /// The drive in words, with its measured latency and throughput.
    pub drive: String,
    /// Kernel release, as uname(2).
    pub kernel: String,
    /// Processors, memory.
    pub machine: String,
    /// Version of Paralfetch.
    pub version: String,
    /// read_ahead_kb of the drive, in KiB.
    pub read_ahead_kb: u32,
    /// What the drive's reads cost as the product has measured it, if a scenario needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<DriveCosts>,
}

/// What a learning run found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Name of the drive's profile.
    pub device: String,
    /// Name of the app.
    pub app: String,
    /// Which learning run: `exact`, `as-read`, `as-read-again`, `as-read-background`, …
    pub how: String,
    /// Log entries in the launch sequence.
    pub log_entries: u64,
    /// Prefetch entries after scheduling.
    pub entries: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
    /// Bytes of file data.
    pub data_bytes: u64,
    /// Files.
    pub files: u64,
    /// From execve to the completion block, in seconds.
    pub seconds: f64,
    /// The columns of the paper's Table 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<Required>,
    /// Against what was learned exactly on an idle system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_exact: Option<Accuracy>,
    /// Stretches without reads of the launch, for `as-read` of an app with a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretches: Option<Stretches>,
    /// What dynamic scheduling did, for `dynamic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Tuned>,
}

/// When a cold launch began no read, from its start to its last read before the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretches {
    /// From one read to the next, in microseconds, those of a millisecond at least, the longest first.
    pub lengths_us: Vec<u64>,
    /// From the start to the last read, in microseconds.
    pub until_us: u64,
    /// The fewest reads that were begun in any second of that time; `None` where it is shorter.
    pub fewest_reads: Option<u64>,
}

/// What several lessons of one app have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lessons {
    /// Name of the drive's profile.
    pub device: String,
    /// Name of the app.
    pub app: String,
    /// Which learning run: `exact` or `as-read`.
    pub how: String,
    /// After the first lesson, the second, ….
    pub steps: Vec<LessonsStep>,
}

/// What some lessons have in common, in 4 KiB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonsStep {
    /// In each of them: FAST's application launch sequence.
    pub in_all: u64,
    /// In two of them at least; of one lesson, in that.
    pub in_two: u64,
    /// In any of them.
    pub in_any: u64,
}

/// What dynamic scheduling did in launches one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// Cold launches that were made.
    pub launches: u32,
    /// Why it ended, as [`paralfetch::policy::TuningEnd`] in kebab case, or `relearn`, where the service wants
    /// to learn the app anew; `None` if it had not by then.
    pub ended: Option<String>,
    /// The schedules that were in force, oldest first; one alone if nothing was changed, none on a drive
    /// without a free parameter.
    pub steps: Vec<TuningStep>,
}

/// A schedule that was in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningStep {
    /// The parameter that is raised.
    pub parameter: Parameter,
    /// Whether this is the way back to one that was in force before.
    pub taken_back: bool,
}

/// The scheduling parameter that dynamic scheduling raises (Paralfetch, Table 2), and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Parameter {
    /// Name of the parameter, and its unit after a space: `shift KiB`, `distance`, `hole pages`.
    pub name: String,
    /// Value of the parameter, in that unit.
    pub value: u64,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.split_once(' ') {
            Some((name, unit)) => write!(f, "{name} {} {unit}", self.value),
            None => write!(f, "{} {}", self.name, self.value),
        }
    }
}

/// What the service did with a launch that it saw by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// `learned`, `prefetched` or `watched`, as the service's history says.
    pub kind: String,
    /// The tuning in force; `None` before anything was learned.
    pub tuning: Option<Parameter>,
    /// Prefetch entries of the schedule.
    pub entries: Option<u64>,
    /// Context switches of the launch tree while it was prefetched.
    pub switches: Option<u64>,
    /// From execve to the first prefetch request, in microseconds.
    pub until_first_us: Option<u64>,
    /// What else the service says of it; usually empty.
    pub note: String,
}

/// What a launch requires, as [`paralfetch::learn::sequence::Requirements`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Required {
    /// Requests for metadata.
    pub metadata_requests: u64,
    /// Size of the requests for metadata, in KiB.
    pub metadata_kib: u64,
    /// Requests for file data.
    pub data_requests: u64,
    /// Size of the requests for file data, in KiB.
    pub data_kib: u64,
    /// Missing metadata found, in 4 KiB blocks: those that data depend on and those of look-ups.
    pub missing_metadata: u64,
    /// Regular files.
    pub files: u64,
    /// Files that were mapped; `None` where the kernel does not tell.
    pub mapped_files: Option<u64>,
}

/// What a learned set has of the exact one, and beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Of metadata.
    pub metadata: Share,
    /// Of file data.
    pub data: Share,
}

/// 4 KiB pages of a set, against another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// In the exact set, until the window came.
    pub needed: u64,
    /// Of these, in this set.
    pub found: u64,
    /// In this set and not in the exact one.
    pub excess: u64,
}

impl Share {
    /// Found by needed; 1 if nothing is needed.
    pub fn recall(&self) -> f64 {
        match self.needed {
            0 => 1.0,
            needed => self.found as f64 / needed as f64,
        }
    }

    /// Excess by needed; 0 if nothing is needed.
    pub fn excess_ratio(&self) -> f64 {
        match self.needed {
            0 => 0.0,
            needed => self.excess as f64 / needed as f64,
        }
    }
}

/// What a prefetched launch still read itself, as [`paralfetch::judge`] tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Name of the drive's profile.
    pub device: String,
    /// Name of the app.
    pub app: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Read requests of the learned launch sequence.
    pub launch_requests: u64,
    /// The kinds of misses, the most frequent first.
    pub kinds: Vec<MissKind>,
    /// Requests of processes outside of the launch tree meanwhile.
    pub others: u64,
}

/// Misses of the same kind and for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissKind {
    /// Why, as [`paralfetch::judge::MissReason`] says it, or `left-out` for the completion block, which is
    /// not prefetched because launches are timed by it.
    pub reason: String,
    /// Of what: `data`, or the kind of metadata.
    pub of: String,
    /// Read requests.
    pub requests: u64,
}

/// One launch, or one prefetch without a launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Name of the drive's profile.
    pub device: String,
    /// Name of the app; several that are launched at once are joined by `+`.
    pub app: String,
    /// Name of the scenario, such as `cold`.
    pub scenario: String,
    /// Number of the turn, from 0; scenarios of one turn are comparable.
    pub turn: u32,
    /// Start, in seconds since the epoch.
    pub started: u64,
    /// From the start to the main window's mapping, in seconds.
    pub window: Option<f64>,
    /// From the start to the arrival of the completion block, in seconds.
    pub completion: Option<f64>,
    /// From the start to the app's exit, in seconds, for apps that exit by themselves; for a prefetch
    /// without a launch, to the end of the last read.
    pub exit: Option<f64>,
    /// Read requests that the app made itself and had to wait for.
    pub app_requests: u64,
    /// Bytes of these.
    pub app_bytes: u64,
    /// Read requests of the prefetcher.
    pub prefetch_requests: u64,
    /// Bytes of these.
    pub prefetch_bytes: u64,
    /// Processor time of the launch tree, in seconds.
    pub cpu: f64,
    /// Processor time and context switches, also of the prefetcher, from the start to the launch's end; `None` where the
    /// kernel does not tell, and in records from before that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Processor time of the drive's emulator, in seconds.
    pub emulator_cpu: f64,
    /// What disturbed the run, in words; such runs are repeated and left out of the reports.
    pub disturbed: Vec<String>,
    /// What the service did, in the scenarios `service-…`, which are numbered by launches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// What was written meanwhile, in the scenarios `writer-…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Throughput>,
    /// What the shield did, a line each, in `writer-shield`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shield: Vec<String>,
}

/// What a launch cost the processors. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Of the launch tree in user mode, helpers over the bus included, by clock ticks of mostly 10 ms.
    pub user: f64,
    /// Of the launch tree in the kernel.
    pub system: f64,
    /// Of the launch tree in both, without these helpers, by the scheduler's clock.
    pub app: f64,
    /// Context switches of the launch tree, without these helpers.
    pub switches: u64,
    /// Processor time of the threads that prefetch in the laboratory's process.
    pub prefetch: f64,
    /// Context switches of these threads.
    pub prefetch_switches: u64,
}

/// What a writer achieved beside a launch or a benchmark, and for some seconds after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The time in question, in seconds.
    pub seconds: f64,
    /// What the drive wrote, whoever asked for it, in MB (10⁶ bytes) a second.
    pub drive_mb_s: f64,
    /// What the writer handed to the kernel, in MB a second.
    pub writer_mb_s: f64,
}

/// One run of a benchmark of `lab writes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// Name of the drive's profile.
    pub device: String,
    /// The drive's I/O scheduler.
    pub scheduler: String,
    /// Name of the benchmark, such as `m1`.
    pub benchmark: String,
    /// Name of the writer, such as `create`; `None` on a quiet drive.
    pub writer: Option<String>,
    /// Name of what was done against waits, such as `none` or `requests`.
    pub measure: String,
    /// Number of the turn, from 0; runs of one turn are comparable.
    pub turn: u32,
    /// Start, in seconds since the epoch.
    pub started: u64,
    /// How long the benchmark took, in seconds.
    pub seconds: f64,
    /// Whether it was ended by its limit before it had done everything.
    pub cut: bool,
    /// Operations of the benchmark; `all` is a whole iteration.
    pub operations: Vec<Operation>,
    /// What was written meanwhile; `None` on a quiet drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// What it waited for, where that was asked for; the longest in total first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Waited>,
    /// Waits that the detector lost.
    #[serde(default)]
    pub lost_waits: u64,
    /// What the shield did, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
}

/// How long the calls of one kind took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Name of the operation, such as `fsync`.
    pub name: String,
    /// Calls.
    pub count: u64,
    /// Mean of the calls, in milliseconds.
    pub mean_ms: f64,
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// 95 of 100 took no longer, in milliseconds.
    pub p95_ms: f64,
    /// 99 of 100 took no longer, in milliseconds.
    pub p99_ms: f64,
    /// The worst, in milliseconds.
    pub worst_ms: f64,
}

/// Waits of one type, as [`paralfetch_waits::WaitWatch`] saw them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// The type, as [`paralfetch_waits::WaitCause::name`].
    pub cause: String,
    /// Waits.
    pub count: u64,
    /// Sum of the waits, in milliseconds.
    pub total_ms: f64,
    /// The longest, in milliseconds.
    pub worst_ms: f64,
    /// Names of the tasks whose writes, handles or locks were waited for, the longest first.
    pub for_whom: Vec<String>,
}
