//! Programs that do more than is good: they start thousands of others, call in vain, never end, never fall
//! quiet, or end at once.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::running::{Launched, Running};
use crate::set_up;
use common::until;
use common::{drop_caches, succeed};

/// A shell that starts programs one after the other, as compilers do.
fn storm() -> Launched {
    let script = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done";
    let child = Command::new("/bin/sh")
        .args(["-c", script])
        .stdout(Stdio::null())
        .spawn();
    Launched(child.unwrap())
}

/// Bound of the memory that the service has for itself, in KiB.
const MAX_MEMORY_KIB: u64 = 64 << 10;

/// The service has grown no larger than an hour of calm lets it be; returns what it takes, in words. Pages of its program
/// file do not count: how many the kernel maps at once is its own business.
pub(crate) fn assert_small(service: &Running) -> String {
    let proc = format!("/proc/{}", service.pid());
    let open = fs::read_dir(format!("{proc}/fd")).unwrap().count();
    assert!(open < 200, "{open} descriptors are open");
    let status = fs::read_to_string(format!("{proc}/status")).unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let digits = line.unwrap().trim().trim_end_matches(" kB");
        digits.parse().unwrap()
    };
    let (peak, threads) = (field("VmHWM:"), field("Threads:"));
    let own = peak.saturating_sub(field("RssFile:"));
    let now = ["RssAnon", "RssFile", "RssShmem"].map(|name| {
        let kib = field(&format!("{name}:"));
        format!("{name} {kib} KiB")
    });
    let memory = format!("at most {peak} KiB were resident; now {}", now.join(", "));
    assert!(own < MAX_MEMORY_KIB, "{memory}");
    assert!(threads < 64, "{threads} threads");
    memory
}

#[test]
fn fork_bombs_and_parallel_compiles_are_nobodys_business() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script(
        "bomb",
        "i=0; while [ $i -lt 3000 ]; do (:) & i=$((i+1)); done; wait",
    );
    image.enable("bomb");
    image.enable("app");
    let mut service = image.start();
    image.learn_in_the_end(&mut service, "app");
    let cpus = std::thread::available_parallelism().unwrap().get();
    let storms: Vec<Launched> = (0..2 * cpus).map(|_| storm()).collect();
    // To be learned: tracing sees each of its children.
    let bomb = image.spawn("bomb");
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
    bomb.succeed();
    storms.into_iter().for_each(Launched::succeed);
    assert_small(&service);
    image.prefetch_in_the_end(&mut service, "app");
    assert_small(&service);
}

/// Sends junk to the socket in the first argument as another user, as fast as it can until it is killed. It says when it has
/// sent two thousand times what a user can at once.
const JUNK: &str = "
import os, socket, sys
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect(sys.argv[1])
os.setgroups([])
os.setresgid(54322, 54322, 54322)
os.setresuid(54322, 54322, 54322)
sent = 0
while True:
    to.send(b'no name of an app')
    sent += 1
    if sent == 100000:
        print('junk', flush=True)
";

/// Announces itself through the socket in the first argument as another user, without waiting for room, and goes on until it
/// is killed.
const HONEST: &str = "
import os, signal, socket, sys
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.setblocking(False)
to.connect(sys.argv[1])
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
to.send(b'honest')
signal.pause()
";

/// What a user sends past his bound never reaches the service; what others announce beside it is heard at once.
#[test]
fn a_flood_of_announcements_keeps_nobody_elses_away() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    let socket = image.run_dir().join("launch.sock");
    let python = |program: &str| {
        let child = Command::new("python3")
            .args(["-c", program])
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn();
        Caller(child.unwrap())
    };
    let mut flood = python(JUNK);
    let mut begun = BufReader::new(flood.0.stdout.take().unwrap()).lines();
    assert_eq!(begun.next().unwrap().unwrap(), "junk");
    let _honest = python(HONEST);
    service.line(&["launch begins", "announced:honest", "uid=54321"]);
    image.prefetch_in_the_end(&mut service, "app");
    assert_small(&service);
    // Forty at once and ten a second: a thousand would take a minute and a half.
    let refused = service.heard(&["an announcement was refused"]).len();
    assert!((1..1000).contains(&refused), "{refused} were read");
    drop(flood);
    service.stop();
}

struct Caller(Child);

impl Drop for Caller {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Learned and prefetched: over after the time limit, whatever they go on doing.
#[test]
fn apps_that_never_end_and_apps_that_end_at_once() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.configure("[launch]\ntimeout_s = 1\nquiet_window_ms = 900\nquiet_reads = 1\n");
    image.script(
        "endless",
        "cat /data/*; while :; do dd if=/sparse/big of=/dev/null bs=64k iflag=direct; done",
    );
    image.script("brief", "exit 0");
    image.enable("endless");
    image.enable("brief");
    let mut service = image.start();
    service.ready_to_learn();
    let first = image.spawn("endless");
    let line = service.launch_of(&image.id("endless"));
    assert!(line.contains("kind=Learned"), "{line}");
    let second = image.spawn("endless");
    let line = service.launch_of(&image.id("endless"));
    assert!(line.contains("kind=Prefetched"), "{line}");
    for mut launched in [first, second] {
        assert!(launched.0.try_wait().unwrap().is_none(), "it goes on");
    }
    image.learn_in_the_end(&mut service, "brief");
    let line = image.launch_cold(&mut service, "brief");
    assert!(line.contains("kind=Prefetched"), "{line}");
    assert_small(&service);
}

#[test]
fn an_app_launched_twice_while_it_is_learned_is_one_job() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script_that_goes_on("app");
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    let first = image.spawn("app");
    service.line(&["launch begins", "Learn"]);
    let second = image.spawn("app");
    let third = image.spawn("app");
    image.let_end();
    for launched in [first, second, third] {
        launched.succeed();
    }
    let line = service.launch_of(&image.id("app"));
    assert!(line.contains("kind=Learned"), "{line}");
    let line = image.launch_cold(&mut service, "app");
    assert!(line.contains("kind=Prefetched"), "{line}");
}

/// Executes a program of an app's name in endless loops: in vain, and with success; and sends announcements from several
/// threads, whatever becomes of them. Says so once each loop has gone round a hundred times.
const FLOOD: &str = "
import os, socket, sys, threading
program, announcements = sys.argv[1:]
told = threading.Semaphore(0)
def call():
    for name in ['/nonexistent/app', program + '/nonexistent']:
        try:
            os.execv(name, ['app'])
        except OSError:
            pass
def execute():
    os.waitpid(os.posix_spawn(program, ['true'], {}), 0)
def announce():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        try:
            sender.sendto(b'0 mail', announcements)
        except BlockingIOError:
            pass
def flood(act):
    rounds = 0
    while True:
        act()
        rounds += 1
        if rounds == 100:
            told.release()
acts = [call, execute, announce] * 4
for act in acts:
    threading.Thread(target=flood, args=[act], daemon=True).start()
for _ in acts:
    told.acquire()
print('flooding', flush=True)
sys.stdin.read()
os._exit(0)
";

/// Two users: one floods, and one launches.
const FLOODER: u32 = 54_321;
const LAUNCHER: u32 = 54_322;

#[test]
fn a_flood_of_one_user_takes_no_launch_of_another_its_prefetch() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();
    let mut launch = || {
        let user = format!("--userspec={LAUNCHER}:{LAUNCHER}");
        let root = image.root.path().to_str().unwrap();
        drop_caches();
        let mut app = Command::new("chroot");
        succeed(app.args([&user, root, "/app"]).stdout(Stdio::null()));
        service.launch_of(&image.id("app"))
    };
    until("it is learned", || launch().contains("kind=Learned"));

    // Everybody may reach the socket and this program, as on a system that is installed.
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(image.run_dir().parent().unwrap());
    let dir = tempfile::tempdir().unwrap();
    open(dir.path());
    let program = dir.path().join("app");
    common::copy_program("/bin/true", &program);
    let mut flood = Command::new("python3");
    flood
        .args(["-c", FLOOD])
        .args([&program, &image.run_dir().join("launch.sock")])
        .uid(FLOODER)
        .gid(FLOODER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut flood = Caller(flood.spawn().unwrap());
    until_it_says(&mut flood, "flooding\n");
    for _ in 0..3 {
        until("it is prefetched", || launch().contains("kind=Prefetched"));
    }
    let user = format!("user {FLOODER} executes");
    assert!(!service.heard(&["WARN", &user]).is_empty());
    assert_small(&service);
    assert!(flood.0.try_wait().unwrap().is_none(), "it still floods");
}

fn until_it_says(caller: &mut Caller, expected: &str) {
    let mut said = String::new();
    let mut stdout = BufReader::new(caller.0.stdout.take().unwrap());
    stdout.read_line(&mut said).unwrap();
    assert_eq!(said, expected);
}
