//! The part that runs in the virtual machine: launches an app in every way that matters, and prints
//! what came of it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use paralfetch::launch::{self, Limits, Spawn, Supervisor};
use paralfetch::manager::{LearnOptions, Lesson, learn};
use paralfetch::profile::{self, Profile};
use paralfetch::schedule::{Place, Span};

use crate::facts::{Facts, Learned, MARK, Recall};

/// The product's program, which the host sends along.
const PARALFETCH: &str = "./paralfetch";
const APP: [&str; 2] = ["/usr/bin/python3", "/opt/app.py"];
/// A system of the app's own: what this program and the machine's first process have mapped, and so
/// keep in the cache, is no part of it. An idle launch is then read from the drive to the last page.
const ROOT: &str = "/srv/app";
/// What is copied into it.
const SYSTEM: [&str; 7] = [
    "/bin",
    "/lib",
    "/lib64",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/python3.11",
];
/// The file that the app reads parts of, as it is called from outside.
const DATA: &str = "/srv/app/opt/data";
/// Missing pages that are named.
const NAMED: usize = 40;
const DATA_BYTES: usize = 1024 * 4096;

/// Finds everything out and prints it.
pub fn main() {
    install();

    let doctor = output(&["doctor", "--json"]);
    let idle = learned();
    let holder = Holder::start();
    let held = learned();
    drop(holder);
    let all = |place: &Page| !place.is_metadata() && !place.is_data_file();
    let learn_report = paralfetch("learn", &[]);
    let run_report = {
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        paralfetch("run", &["-v"])
    };
    paralfetch(
        "bench",
        &[
            "--runs",
            "1",
            "--scenarios",
            "cold,prefetch",
            "--json",
            "bench.json",
        ],
    );
    let facts = Facts {
        doctor_status: doctor.status.code(),
        doctor: serde_json::from_slice(&doctor.stdout).unwrap_or_default(),
        hooks: serde_json::to_value(held.profile.hooks).unwrap(),
        files: recall(&idle, &held, all),
        data: recall(&idle, &held, Page::is_data_file),
        metadata: recall(&idle, &held, Page::is_metadata),
        idle: size(&idle),
        held: size(&held),
        bench: serde_json::from_slice(&fs::read("bench.json").unwrap()).unwrap(),
        learn_report,
        run_report,
    };
    println!("{MARK}{}", serde_json::to_string(&facts).unwrap());
}

/// Makes the app's system.
fn install() {
    fs::create_dir_all(format!("{ROOT}/opt")).unwrap();
    fs::create_dir_all(format!("{ROOT}/usr/bin")).unwrap();
    let copied = Command::new("cp")
        .args(["-a", "--parents"])
        .args(SYSTEM)
        .args(["/usr/bin/python3", "/usr/bin/python3.11"])
        .arg(ROOT)
        // Where it looks for the parents' owners and modes.
        .current_dir("/")
        .status()
        .unwrap();
    assert!(copied.success());
    fs::write(format!("{ROOT}{}", APP[1]), include_str!("app.py")).unwrap();
    fs::write(DATA, vec![b'x'; DATA_BYTES]).unwrap();
    rustix::fs::sync();
}

/// A page of a launch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Page {
    /// `None` for metadata.
    path: Option<Vec<u8>>,
    page: u64,
}

impl Page {
    fn is_metadata(&self) -> bool {
        self.path.is_none()
    }

    fn name(&self) -> String {
        let path = self.path.as_deref().unwrap_or(b"metadata");
        format!("{} of {}", self.page, String::from_utf8_lossy(path))
    }

    fn is_data_file(&self) -> bool {
        self.path.as_deref() == Some(DATA.as_bytes())
    }
}

/// The pages of some spans of a profile. There is one device.
fn pages<'a>(profile: &Profile, spans: impl IntoIterator<Item = &'a Span>) -> BTreeSet<Page> {
    spans
        .into_iter()
        .flat_map(|span| {
            let path = match span.place {
                Place::Metadata { .. } => None,
                Place::Data { file } => Some(
                    profile.files[file as usize]
                        .path
                        .clone()
                        .expect("a file that exists has a path"),
                ),
            };
            (span.start..span.end()).map(move |page| Page {
                path: path.clone(),
                page,
            })
        })
        .collect()
}

fn log(lesson: &Lesson) -> BTreeSet<Page> {
    pages(&lesson.profile, lesson.log.iter().map(|entry| &entry.span))
}

fn size(lesson: &Lesson) -> Learned {
    let (metadata, files): (Vec<Page>, Vec<Page>) =
        log(lesson).into_iter().partition(Page::is_metadata);
    Learned {
        files: files.len(),
        metadata: metadata.len(),
        unread: pages(&lesson.profile, &lesson.unread)
            .iter()
            .filter(|page| !page.is_metadata())
            .count(),
        seconds: lesson.summary.duration.as_secs_f64(),
    }
}

/// How much of what `idle` has of a kind is in `held` too.
fn recall(idle: &Lesson, held: &Lesson, of_kind: impl Fn(&Page) -> bool) -> Recall {
    let wanted: BTreeSet<Page> = log(idle).into_iter().filter(of_kind).collect();
    let log = log(held);
    let unread = pages(&held.profile, &held.unread);
    Recall {
        wanted: wanted.len(),
        found: wanted.intersection(&log).count(),
        added: wanted
            .iter()
            .filter(|page| log.contains(page) && !unread.contains(page))
            .count(),
        missing: wanted
            .difference(&log)
            .take(NAMED)
            .map(Page::name)
            .collect(),
    }
}

/// One exact learning run, which drops the caches first.
fn learned() -> Lesson {
    let argv: Vec<OsString> = APP.iter().map(OsString::from).collect();
    let command = launch::Command::find(&argv, Some(Path::new(ROOT))).unwrap();
    let mut supervisor = Supervisor::new().unwrap();
    let options = LearnOptions {
        how: profile::Learned::Exact,
        limits: Limits::default(),
        keeper: None,
        earlier: None,
    };
    let learned = learn(Spawn::new(command), options, &mut supervisor).unwrap();
    let exit = match learned.exit {
        Some(exit) => exit,
        None => supervisor.wait().unwrap(),
    };
    assert_eq!(exit.status, launch::Status::Code(0));
    learned.lesson.unwrap()
}

/// The app, running on: its libraries and the whole data file stay mapped, so that they cannot be
/// dropped from the cache.
struct Holder(Child);

impl Holder {
    fn start() -> Holder {
        let mut child = Command::new("chroot")
            .args([ROOT, APP[0], APP[1], "hold"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "holding\n");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// What `paralfetch COMMAND … -- APP` says on standard error; it must succeed.
fn paralfetch(command: &str, options: &[&str]) -> String {
    let args = [&[command], options, &["--root", ROOT, "--"], &APP].concat();
    let output = output(&args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn output(args: &[&str]) -> Output {
    Command::new(PARALFETCH)
        .args(["--state-dir", "state"])
        .args(args)
        .output()
        .unwrap()
}
