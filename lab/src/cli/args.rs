//! What can be asked on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::drive::Scheduler;
use crate::writes::writer::Kind;

/// Default directory of images.
const IMAGE_DIR: &str = "/var/tmp/paralfetch-lab";

/// Paralfetch's laboratory: launches real applications on real and emulated drives, cold, warm, and
/// with one prefetcher or another, and reports what each gains.
#[derive(Debug, Parser)]
#[command(name = "lab", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures launches. Interrupted, it goes on where it was when it is run again.
    Run(Run),
    /// Measures single operations while the drive is being written, and what helps (QASIO, FAST '15).
    Writes(Writes),
    /// Says how often the next launch is among the likeliest apps: Paralfetch's prediction, parts of it, and other methods.
    Predict {
        /// The history of a service, such as /var/lib/paralfetch/history.sqlite, instead of made-up ones.
        #[arg(long, value_name = "FILE")]
        history: Option<PathBuf>,
    },
    /// Writes report.md from the results in a directory.
    Report {
        /// The results directory.
        dir: PathBuf,
    },
    /// Says what changed from one set of results to another, and whether it is more than noise.
    Compare {
        /// The results before.
        a: PathBuf,
        /// The results after.
        b: PathBuf,
    },
    /// Checks a drive against the figures that its profile claims, with fio(1).
    CheckDrive {
        /// Name of the drive's profile, or `all`.
        #[arg(long, default_value = "all")]
        device: String,
        #[command(flatten)]
        data: Data,
    },
    /// Has Paralfetch probe a drive, and holds what it finds against fio(1).
    Probe {
        /// Name of the drive's profile, or `all`.
        #[arg(long, default_value = "all")]
        device: String,
        #[command(flatten)]
        data: Data,
    },
    /// Builds the image with the apps, if it is not there, and has each app configure itself.
    Image {
        #[command(flatten)]
        image: Image,
        #[command(flatten)]
        data: Data,
    },
    /// Lists the apps and the drives that are known.
    List {
        #[command(flatten)]
        data: Data,
    },
    /// Starts each app once and shows the windows that it opens: for those who add one.
    TryApps {
        /// How long each app goes on after its window has come, in seconds.
        #[arg(long, default_value_t = 2, value_name = "S")]
        linger: u64,
        #[command(flatten)]
        image: Image,
        #[command(flatten)]
        data: Data,
    },
    /// One start of an app, in a process of its own.
    #[command(hide = true)]
    StartApp {
        /// The start, in JSON.
        start: String,
    },
    /// One job of a session, in a process of its own.
    #[command(hide = true)]
    Job {
        /// The job, in JSON.
        job: String,
    },
    /// The product's service, in a process of its own.
    #[command(hide = true)]
    Service {
        /// Its job, in JSON.
        serve: String,
    },
    /// Restores knobs when the process that changed them is gone: the product starts this program so, too.
    #[command(hide = true)]
    KeepKnobs {
        /// Longest wait, in seconds.
        limit: u64,
        /// Directory of the record.
        #[arg(long, value_name = "DIR")]
        run_dir: PathBuf,
    },
    /// The product's shield, in a process of its own.
    #[command(hide = true)]
    Shield {
        /// Its job, in JSON.
        job: String,
    },
    /// A benchmark of `writes`, in a process of its own.
    #[command(hide = true)]
    Benchmark {
        /// Its job, in JSON.
        job: String,
    },
    /// A writer, in a process of its own.
    #[command(hide = true)]
    BackgroundWriter {
        /// Its job, in JSON.
        job: String,
    },
    /// The emulator of a drive, in a process of its own.
    #[command(hide = true, disable_help_flag = true)]
    Flashsim {
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// What a measurement consists of.
#[derive(Args, Debug)]
#[group(id = "run-options")]
pub struct Run {
    /// Name of the drive's profile.
    #[arg(long)]
    pub device: String,
    /// The I/O scheduler of the drive: none, mq-deadline or bfq.
    #[arg(long, default_value_t, value_name = "NAME")]
    pub drive_scheduler: Scheduler,
    /// Scenarios, or groups of them: standard, short, formula, wrong, one-core, background, live,
    /// service, writer (with the quiet ones), sweep-shift, sweep-distance, sweep-hole, none.
    #[arg(long, default_value = "standard", value_name = "LIST")]
    pub scenarios: String,
    /// Launch so many apps at once, from the first on; several numbers are several experiments.
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub together: Vec<usize>,
    /// Learn each app so many times as read and exactly, to see what lessons have in common.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub lessons: u32,
    /// Turns: launches of each app in each scenario.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Launches one after the other with the service on, in the scenario `service`.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9))]
    pub launches: u32,
    /// Where results go; what is there already is not measured again.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The app that runs in the background where a scenario wants one, and the other app of `wrong-app`.
    #[arg(long, default_value = "writer", value_name = "APP")]
    pub background: String,
    /// Longest launch, in seconds; the wait for an app's window and its quiet second included. One that is learned exactly
    /// may take 900.
    #[arg(long, default_value_t = 120, value_name = "S", value_parser = clap::value_parser!(u64).range(5..=3600))]
    pub timeout: u64,
    /// Do not judge misses, for which each app is launched once more.
    #[arg(long, alias = "no-timelines")]
    pub no_misses: bool,
    /// Do not check the drive against its claims first.
    #[arg(long)]
    pub no_check: bool,
    #[command(flatten)]
    pub image: Image,
    #[command(flatten)]
    pub data: Data,
}

/// What is measured while the drive is being written.
#[derive(Args, Debug)]
#[group(id = "writes-options")]
pub struct Writes {
    /// Name of the drive's profile.
    #[arg(long, default_value = "nvme")]
    pub device: String,
    /// The I/O scheduler of the drive: none, mq-deadline or bfq.
    #[arg(long, default_value_t, value_name = "NAME")]
    pub drive_scheduler: Scheduler,
    /// Benchmarks: m1 to m5, photos, dpkg, sqlite, all.
    #[arg(long, default_value = "all", value_name = "LIST")]
    pub benchmarks: String,
    /// The writer beside them: create, rewrite, truncate or fsyncs; m5 has one of its own.
    #[arg(long, default_value = "create", value_name = "KIND")]
    pub writer: Kind,
    /// Size of the writer's file, in MiB; without, by memory and dirty limits.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=65536))]
    pub writer_mib: Option<u64>,
    /// What is done against waits: none (always), detector, requests (the shield), all.
    #[arg(long, default_value = "none,requests", value_name = "LIST")]
    pub measures: String,
    /// Turns: runs of each benchmark on the quiet drive, and beside the writer with each measure.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// End a benchmark after so many seconds, with the call under way.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub limit: u64,
    /// Watch the writer's backlog for so long until it has settled before a benchmark, and the writer for so long after it.
    #[arg(long, default_value_t = 10_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub settle_ms: u64,
    /// See who waits for what in every run, with the product's detector.
    #[arg(long)]
    pub waits: bool,
    /// Add the results to this directory; what is there already is not measured again.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print results as they come, in JSON, a line each, instead of tables at the end.
    #[arg(long)]
    pub json: bool,
    /// Directory of the session's own files.
    #[arg(long, default_value = IMAGE_DIR, value_name = "DIR")]
    pub image_dir: PathBuf,
    #[command(flatten)]
    pub data: Data,
}

/// The image with the apps.
#[derive(Args, Debug)]
#[group(id = "image-options")]
pub struct Image {
    /// Apps, by name, separated by commas; `all` but the tiny ones.
    #[arg(long, default_value = "all", value_name = "LIST")]
    pub apps: String,
    /// Directory where images are kept.
    #[arg(long, default_value = IMAGE_DIR, value_name = "DIR")]
    pub image_dir: PathBuf,
}

/// Where apps and drives are described.
#[derive(Args, Debug)]
#[group(id = "data-options")]
pub struct Data {
    /// Another file of apps than the one that is built in.
    #[arg(long, value_name = "FILE")]
    pub apps_file: Option<PathBuf>,
    /// Another file of drives than the one that is built in.
    #[arg(long, value_name = "FILE")]
    pub drives_file: Option<PathBuf>,
}
