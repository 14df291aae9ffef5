//! Apps on the machine's disk, and their launches.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use paralfetch::drive::drop_caches;
use paralfetch::fs::ext4::Ext4;
use serde_json::Value;

use common::guest::journal::{Entry, Journal};
use common::guest::system::{as_user, outcome, output, until};

/// The machine's disk.
pub const DISK: &str = "/dev/vda";

const DIRECTORIES: usize = 32;
/// In each of them. Many small files: what an app reads before anybody can be faster is then little in
/// comparison, also where everything but the disk is slow.
const FILES: usize = 12;
const FILE_BYTES: usize = 24 << 10;
const DATA_BYTES: u64 = (DIRECTORIES * FILES * FILE_BYTES) as u64;

/// An app: a script, as many are. It reads all of its data, and works with them: it executes a program
/// for each directory.
pub const APP: &str = "/opt/pf/app";
const DATA: &str = "/opt/pf/data";

/// An app in a sandbox of the user's own making, where what is inside lies at another place.
pub const BOXED: &str = "/opt/pf/boxed";
const INSIDE: &str = "/opt/pf/inside";
/// A directory of its that is only looked into.
const LOOKED_INTO: &str = "/opt/pf/inside/deep/er";
/// Where it is in the sandbox. Outside, nothing is there.
const BOX: &str = "/srv/box";
/// The sandboxed app ends when somebody has written to this FIFO.
const STAY: &str = "/opt/pf/inside/stay";

/// An app that takes seconds to read its data, a file at a time.
pub const SLOW: &str = "/opt/pf/slow";
/// A FIFO that nobody writes to: to wait for it is a pause.
const PAUSE: &str = "/opt/pf/pause";

/// Puts all of them on the disk.
pub fn install() {
    for directory in [LOOKED_INTO, BOX] {
        fs::create_dir_all(directory).unwrap();
    }
    for file in data() {
        fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
        fs::write(file, vec![b'x'; FILE_BYTES]).unwrap();
    }
    script(
        APP,
        &format!("for part in {DATA}/*; do cat \"$part\"/*; done"),
    );
    let inside = format!(
        "[ -e {BOX}/deep/er/missing ] && exit 1; read -r line <{BOX}/stay && [ \"$line\" = end ]"
    );
    script(
        BOXED,
        &format!("exec bwrap --dev-bind / / --bind {INSIDE} {BOX} -- /bin/sh -c '{inside}'"),
    );
    // It executes nothing: a program may take an emulated processor as long as quiet does.
    let slow = format!(
        "exec 9<>{PAUSE}; for file in {DATA}/*/*; do read -rN {FILE_BYTES} text <\"$file\"; \
         read -rt 0.03 -u 9 text; done; exit 0"
    );
    fs::write(SLOW, format!("#!/bin/bash\n{slow}\n")).unwrap();
    fs::set_permissions(SLOW, fs::Permissions::from_mode(0o755)).unwrap();
    output(&["mkfifo", "--mode=666", PAUSE]);
    output(&["mkfifo", "--mode=644", STAY]);
    rustix::fs::sync();
}

/// All of the app's files.
pub fn data() -> impl Iterator<Item = String> {
    (0..DIRECTORIES * FILES).map(|n| format!("{DATA}/{:02}/{:02}", n / FILES, n % FILES))
}

pub fn script(path: &str, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts an app as the ordinary user does.
pub fn start(app: &str) -> Child {
    let argv = as_user(&[app]);
    Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Launches an app as the ordinary user does; what the service says of it.
pub fn launch(service: &Journal, app: &str) -> Entry {
    assert!(start(app).wait().unwrap().success());
    let entry = service.launch_of(app);
    println!("        {app}: {}", entry.fields());
    entry
}

/// The same with nothing cached.
pub fn launch_cold(service: &Journal, app: &str) -> Entry {
    drop_caches().unwrap();
    launch(service, app)
}

/// Checks that a launch was prefetched, and that this was worth something.
pub fn assert_prefetched(entry: &Entry) {
    assert_eq!(entry.field("F_KIND"), "Prefetched", "{}", entry.fields());
    // The app reads as fast as it is prefetched: who is first, chance decides.
    assert!(
        entry.number("F_PREFETCHED_BYTES") > DATA_BYTES / 8,
        "{}",
        entry.fields()
    );
    assert!(
        entry.number("F_READ_BYTES") > DATA_BYTES / 8 * 7,
        "{}",
        entry.fields()
    );
}

/// Launches the sandboxed app, and lets it end when the service holds its mount namespace.
pub fn launch_boxed(service: &Journal, service_pid: u32) -> Entry {
    // Whoever opens it for both never waits.
    let mut stay = File::options().read(true).write(true).open(STAY).unwrap();
    let mut app = start(BOXED);
    until("the sandbox's namespace is held", || {
        holds_other_namespace(service_pid)
    });
    stay.write_all(b"end\n").unwrap();
    assert!(app.wait().unwrap().success());
    let entry = service.launch_of(BOXED);
    println!("        {BOXED}: {}", entry.fields());
    entry
}

/// Launches it without anybody looking.
pub fn launch_boxed_alone() {
    let mut stay = File::options().read(true).write(true).open(STAY).unwrap();
    let mut app = start(BOXED);
    stay.write_all(b"end\n").unwrap();
    assert!(app.wait().unwrap().success());
}

fn holds_other_namespace(pid: u32) -> bool {
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    descriptors
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .any(|target| target.to_string_lossy().starts_with("mnt:[") && target != own)
}

/// An app's profile, as the command line prints it. That of a launch which was just learned may not be stored yet.
pub fn profile_of(app: &str) -> Value {
    let show = ["paralfetch", "show", "--json", app];
    until("the profile is stored", || outcome(&show).status.success());
    serde_json::from_str(&output(&show)).unwrap()
}

/// Checks that the profile has the metadata of a directory that can only be found by its name inside
/// the sandbox: everything was cached when the app was learned.
pub fn assert_learned_through_namespace() {
    let profile = profile_of(BOXED);
    let entries = profile["entries"].as_array().unwrap().iter();
    let learned: BTreeSet<u64> = entries
        .filter(|entry| entry["kind"] == "metadata")
        .flat_map(|entry| {
            let start = entry["start"].as_u64().unwrap();
            start..start + entry["pages"].as_u64().unwrap()
        })
        .collect();
    let blocks = output(&["debugfs", "-R", &format!("blocks {LOOKED_INTO}"), DISK]);
    let mut wanted: BTreeSet<u64> = blocks
        .split_whitespace()
        .map(|block| block.parse().unwrap())
        .collect();
    assert!(!wanted.is_empty(), "the directory has a block");
    let ino = fs::metadata(LOOKED_INTO).unwrap().ino();
    let ext4 = Ext4::open(DISK.as_ref()).unwrap();
    wanted.insert(ext4.inode_block(ino).unwrap());
    assert!(
        wanted.is_subset(&learned),
        "{LOOKED_INTO} has {wanted:?}, learned are {learned:?}"
    );
}

/// A fork server, run by the ordinary user: its children are apps without any execve.
pub struct ForkServer {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl ForkServer {
    pub fn start() -> ForkServer {
        let argv = as_user(&["python3", "fork_server.py", "/run/paralfetch/launch.sock"]);
        let mut child = Command::new(argv[0])
            .args(&argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut server = ForkServer {
            child,
            stdin,
            answers,
        };
        assert!(server.answer().starts_with("ready "));
        server
    }

    fn answer(&mut self) -> String {
        self.answers.next().expect("the server answers").unwrap()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    /// Forks a child that announces itself and reads the data, with nothing of that cached. It ends
    /// when the service has seen it. Returns what the service says of its beginning and its end.
    pub fn launch(&mut self, service: &Journal, name: &str, id: &str) -> [Entry; 2] {
        drop_caches().unwrap();
        let files: Vec<String> = data().collect();
        self.say(&format!("launch {name} {}", files.join(" ")));
        let launched = self.answer();
        let pid = launched.split(' ').nth(1).unwrap().to_owned();
        let read = self.answer();
        assert!(read.starts_with("read "), "{launched}, {read}");
        let begun = service.next(&format!("launch of {id} begins"), |entry| {
            entry.message() == "launch begins" && entry.field("F_APP") == id
        });
        self.say(&format!("end {pid}"));
        assert_eq!(self.answer(), format!("ended {pid}"));
        let entry = service.launch_of(id);
        println!("        {id}: {}", entry.fields());
        [begun, entry]
    }
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends at the end of its input.
        let _ = self.child.wait();
    }
}
