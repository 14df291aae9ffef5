//! The part that runs in the virtual machine: what an administrator and users do, step by step.

use std::fs;
use std::process::Child;
use std::time::Instant;

use crate::apps::{self, APP, BOXED, ForkServer};
use crate::{drive, upheavals, week};
use common::guest::journal::{Journal, TellJournal, now_us};
use common::guest::system::{
    GROUP, NAME, SOCKET, STATE_DIR, UNIT, USER, as_user, files, main_pid, nothing_runs, outcome,
    output, property, refusal, status_of, until,
};
use common::package::PACKAGE;

/// The packed source tree, which the host sends along, with the package that it has built from it.
pub const TREE: &str = "tree.tar";

const OBJECT: &str = "/org/paralfetch/Paralfetch1";
const DROP_INS: &str = "/etc/paralfetch/config.toml.d";
const UNIT_DROP_INS: &str = "/etc/systemd/system/paralfetch.service.d";
const RULES: &str = "/etc/polkit-1/rules.d/50-launchers.rules";

/// Seconds within which the service has to say that it is alive, which it does twice as often; and how
/// often it is heard of while that is watched: for longer than it would live if it were not.
const WATCHDOG_SECONDS: u32 = 12;
const HEARD: usize = 3;

/// Does everything. What it is about to do is printed, for a machine that does not come to its end.
pub fn main() {
    let started = Instant::now();
    let _telling = TellJournal;
    let begin = |what: &str| println!("{:5.1} s: {what}", started.elapsed().as_secs_f64());
    begin(output(&["uname", "-sr"]).trim());
    prepare();
    let before = files();

    begin("dpkg --install");
    log_all();
    let service = Journal::follow(&["--unit", UNIT]);
    output(&["dpkg", "--install", PACKAGE]);
    enabled();
    runs(&service);
    one_version();
    begin("the sandbox");
    sandbox();
    begin("status, for a user");
    status();
    begin("who may change something");
    let enabled_us = permissions();

    begin("a plain launch is learned");
    service.ready_to_learn(enabled_us);
    let launched_us = now_us();
    let first = apps::launch(&service, APP);
    assert_eq!(first.field("F_KIND"), "Learned", "{}", first.fields());
    structured(&first);
    begin("an app in a mount namespace of its own is learned");
    // It is as soon as the first has taken its recorder, or when that is over.
    service.ready_to_learn(launched_us);
    let boxed = apps::launch_boxed(&service, main_pid());
    assert_eq!(boxed.field("F_KIND"), "Learned", "{}", boxed.fields());
    apps::assert_learned_through_namespace();
    begin("the next launch is prefetched");
    apps::assert_prefetched(&apps::launch_cold(&service, APP));
    begin("the service's own package is installed again");
    upgraded(&service);

    begin("a package is updated");
    upheavals::package_updated(&service);
    begin("the clock is set");
    upheavals::clock_set(&service);
    begin("suspended while a launch is learned");
    upheavals::suspended(&service);
    begin("a week without access times");
    week::without_access_times(&service);
    begin("a wrong configuration");
    wrong_configuration(&service);
    begin("stopped, and called on the bus");
    stopped_and_called(&service);
    begin("stopped, and a launch announced");
    stopped_and_announced(&service);
    begin("a drive is pulled out");
    drive::pulled_out(&service);
    begin("killed");
    killed(&service);
    apps::assert_prefetched(&apps::launch_cold(&service, APP));
    begin("the watchdog");
    watchdog();
    begin("hung");
    hung(&service);
    begin("no warnings");
    no_warnings();
    begin("refused BPF");
    cannot_work();
    begin("removed");
    removed(&before);
    begin("purged");
    purged(&before);
    begin("scripts/install.sh");
    installed_by_hand(&service, &before);
    begin("done");
}

/// What is there before anything is installed: users, apps, the tree.
fn prepare() {
    output(&["tar", "-xf", TREE]);
    output(&["groupadd", GROUP]);
    output(&["useradd", "--user-group", "--groups", GROUP, USER]);
    apps::install();
    // All of it is cached when it is learned, and only its name tells what it needs.
    apps::launch_boxed_alone();
}

/// Has the service say all that it does, learn one launch of each app, and prefetch all others: on the machine's drive an app
/// may gain nothing.
fn log_all() {
    let text = "log.level = \"debug\"\nprefetch.max_learned_launches = 1\nprefetch.probe = false\n\
                prefetch.withhold = false\nwarm_up.enabled = false\n";
    fs::create_dir_all(DROP_INS).unwrap();
    fs::write(format!("{DROP_INS}/10-log.toml"), text).unwrap();
}

/// At each boot, and by calls on the bus.
fn enabled() {
    for unit in [UNIT, SOCKET, "dbus-org.paralfetch.Paralfetch1.service"] {
        let state = outcome(&["systemctl", "is-enabled", unit]);
        assert!(state.status.success(), "{unit} is not enabled");
    }
}

/// The program, the package and the service on the bus have one version.
fn one_version() {
    let version = output(&[
        "dpkg-query",
        "--show",
        "--showformat=${Version}",
        "paralfetch",
    ]);
    let program = output(&["paralfetch", "--version"]);
    assert_eq!(program.trim(), format!("paralfetch {version}"));
    let asked = [
        "busctl",
        "--system",
        "get-property",
        NAME,
        OBJECT,
        NAME,
        "Version",
    ];
    assert_eq!(output(&asked).trim(), format!("s \"{version}\""));
    let mode = output(&["paralfetch", "mode"]);
    assert_eq!(mode.trim(), "automatic");
}

/// As at an upgrade: the service is started anew, with the profiles that it had.
fn upgraded(service: &Journal) {
    let pid = main_pid();
    output(&["dpkg", "--install", PACKAGE]);
    assert_ne!(main_pid(), pid);
    let ready = service.start_of(main_pid());
    assert_ne!(ready.field("F_PROFILES"), "0", "{}", ready.fields());
    assert_eq!(property(SOCKET, "SubState"), "running");
    apps::assert_prefetched(&apps::launch_cold(service, APP));
}

fn runs(service: &Journal) {
    // Who started it has waited until it was ready.
    for (name, value) in [("ActiveState", "active"), ("SubState", "running")] {
        assert_eq!(property(UNIT, name), value, "{name}");
    }
    assert_eq!(property(UNIT, "Type"), "notify");
    assert_eq!(property(SOCKET, "SubState"), "running");
    let ready = service.start_of(main_pid());
    assert_eq!(ready.field("F_PROFILES"), "0");
    output(&["busctl", "--system", "introspect", NAME, OBJECT]);
}

/// What systemd says it does to the service, and what the kernel says.
fn sandbox() {
    let names = [
        "NoNewPrivileges",
        "MemoryDenyWriteExecute",
        "LockPersonality",
        "RestrictRealtime",
        "ProtectHostname",
    ];
    for name in names {
        assert_eq!(property(UNIT, name), "yes", "{name}");
    }
    assert_eq!(property(UNIT, "RestrictNamespaces"), "mnt");
    assert_eq!(property(UNIT, "SystemCallArchitectures"), "native");
    let calls = property(UNIT, "SystemCallFilter");
    assert!(
        calls.contains("bpf") && !calls.contains("init_module"),
        "{calls}"
    );
    let capabilities = property(UNIT, "CapabilityBoundingSet");
    println!("        {capabilities}");
    let mask: u64 = capabilities
        .split_whitespace()
        .map(|name| 1 << capability(name))
        .fold(0, |mask, bit| mask | bit);
    let pid = main_pid();
    let in_force = u64::from_str_radix(&status_of(pid, "CapBnd"), 16).unwrap();
    assert_eq!(in_force, mask, "{in_force:x}, not {mask:x}");
    assert_eq!(status_of(pid, "NoNewPrivs"), "1");
    // Filtered.
    assert_eq!(status_of(pid, "Seccomp"), "2");
    let exposure = output(&["systemd-analyze", "--no-pager", "security", UNIT]);
    let exposure = exposure.lines().last().unwrap();
    println!("        {exposure}");
    // `→ Overall exposure level for paralfetch.service: 3.9 OK`
    let level = exposure.split(": ").nth(1).unwrap().split(' ').next();
    assert!(level.unwrap().parse::<f64>().unwrap() <= MOST_EXPOSED);
    // Paths of launches are looked up by the numbers of the system's own mounts.
    let namespace = |pid: u32, kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
    assert_eq!(namespace(pid, "mnt"), namespace(1, "mnt"));
    assert_ne!(namespace(pid, "net"), namespace(1, "net"));
}

/// What is left open, as `systemd-analyze security` sums it up; docs/service.md explains each point.
const MOST_EXPOSED: f64 = 3.9;

/// The number of a capability (linux/capability.h).
fn capability(name: &str) -> u32 {
    match name {
        "cap_dac_override" => 1,
        "cap_dac_read_search" => 2,
        "cap_fowner" => 3,
        "cap_sys_chroot" => 18,
        "cap_sys_ptrace" => 19,
        "cap_sys_admin" => 21,
        _ => panic!("{name} is not known here"),
    }
}

/// Everybody may ask, and everything works.
fn status() {
    let status = output(&as_user(&["paralfetch", "status", "--verbose"]));
    print!("{status}");
    assert!(status.contains("launches are seen when execve is called"));
    assert!(!status.contains("warning"));
}

/// Users choose for themselves. For others, polkit refuses them, unless a rule says otherwise; root is not asked.
/// Returns when the last app was about to be enabled, as [`now_us`] has it.
fn permissions() -> u64 {
    output(&as_user(&["paralfetch", "enable", BOXED]));
    let own = output(&as_user(&["paralfetch", "list"]));
    assert!(own.contains(BOXED), "{own}");
    output(&as_user(&["paralfetch", "forget", BOXED]));
    let enable = as_user(&["paralfetch", "enable", "--user", "root", BOXED]);
    let refused = refusal(&enable);
    print!("        {refused}");
    assert!(refused.contains("org.paralfetch.manage-apps"), "{refused}");
    output(&["paralfetch", "enable", APP]);
    let rule = format!(
        "polkit.addRule(function(action, subject) {{\n\
         if (action.id == \"org.paralfetch.manage-apps\" && subject.isInGroup(\"{GROUP}\")) {{\n\
         return polkit.Result.YES;\n}}\n}});\n"
    );
    fs::write(RULES, rule).unwrap();
    // It would see by itself that there is a rule, but nobody knows when.
    output(&["systemctl", "restart", "polkit.service"]);
    output(&enable);
    let enabled_us = now_us();
    output(&["paralfetch", "enable", BOXED]);
    // The rule is about nothing else.
    let refused = refusal(&as_user(&["paralfetch", "mode", "manual"]));
    assert!(refused.contains("org.paralfetch.configure"), "{refused}");
    let list = output(&["paralfetch", "list"]);
    assert!(list.contains(APP) && list.contains(BOXED), "{list}");
    enabled_us
}

/// Programs read what the service says of a launch in fields.
fn structured(entry: &common::guest::journal::Entry) {
    assert_eq!(entry.field("SYSLOG_IDENTIFIER"), "paralfetch");
    assert_eq!(entry.field("_SYSTEMD_UNIT"), UNIT);
    for name in ["F_WAITING_US", "F_READ_BYTES", "F_OWN_REQUESTS"] {
        entry.number(name);
    }
}

fn wrong_configuration(service: &Journal) {
    let pid = main_pid();
    let wrong = format!("{DROP_INS}/20-wrong.toml");
    fs::write(&wrong, "[launch]\nquiet_reads = \"many\"\n").unwrap();
    output(&["systemctl", "reload", UNIT]);
    let said = service.message_with("the old configuration stays");
    println!("        {}", said.message());
    assert!(said.message().contains("20-wrong.toml, line 2"));
    fs::remove_file(&wrong).unwrap();
    output(&["systemctl", "reload", UNIT]);
    service.message("the configuration was read again");
    assert_eq!(main_pid(), pid);
    apps::assert_prefetched(&apps::launch_cold(service, APP));
}

/// A call starts the service, whoever makes it, unless the administrator has switched that off.
fn stopped_and_called(service: &Journal) {
    let call = [
        "busctl",
        "--system",
        "call",
        NAME,
        OBJECT,
        NAME,
        "GetStatus",
    ];
    let call = as_user(&call);
    output(&["systemctl", "disable", "--now", UNIT]);
    assert_eq!(property(UNIT, "ActiveState"), "inactive");
    assert_eq!(property(UNIT, "Result"), "success");
    let refused = refusal(&call);
    print!("        {refused}");
    assert_eq!(property(UNIT, "ActiveState"), "inactive");
    // The command line goes on without it, and does not speak of what nobody wants.
    let said = outcome(&["paralfetch", "enable", APP]);
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
    assert_eq!(property(UNIT, "ActiveState"), "inactive");

    output(&["systemctl", "enable", UNIT]);
    let answer = output(&call);
    assert!(answer.contains("managed"), "{answer}");
    assert_eq!(property(UNIT, "ActiveState"), "active");
    let ready = service.start_of(main_pid());
    assert_eq!(ready.field("F_PROFILES"), "3");
}

/// The socket is systemd's, and starts the service.
fn stopped_and_announced(service: &Journal) {
    output(&["systemctl", "stop", UNIT]);
    let mut server = ForkServer::start();
    let id = "announced:mail";
    // Nobody knows it yet: nothing is there to learn it with. That may be ready before this launch ends.
    let [begun, _] = server.launch(service, "mail", id);
    assert_eq!(property(UNIT, "ActiveState"), "active");
    service.ready_to_learn(begun.time_us());
    let [_, learned] = server.launch(service, "mail", id);
    assert_eq!(learned.field("F_KIND"), "Learned", "{}", learned.fields());
    // It reads from its first moment on and does nothing else, which leaves no time to be faster.
    let [_, prefetched] = server.launch(service, "mail", id);
    let fields = prefetched.fields();
    assert_eq!(prefetched.field("F_KIND"), "Prefetched", "{fields}");
    assert!(prefetched.number("F_PREFETCHED_BYTES") > 0, "{fields}");
}

/// A killed service holds nobody, and systemd starts it again; from then on with a short watchdog.
fn killed(service: &Journal) {
    fs::create_dir(UNIT_DROP_INS).unwrap();
    let text = format!("[Service]\nWatchdogSec={WATCHDOG_SECONDS}\n");
    fs::write(format!("{UNIT_DROP_INS}/watchdog.conf"), text).unwrap();
    output(&["systemctl", "daemon-reload"]);
    let pid = main_pid();
    let mut launches: Vec<Child> = (0..8).map(|_| apps::start(APP)).collect();
    output(&["systemctl", "kill", "--signal", "KILL", UNIT]);
    for launch in &mut launches {
        assert!(launch.wait().unwrap().success());
    }
    let ready = service.next("ready again", |entry| {
        entry.message() == "ready" && entry.field("_PID") != pid.to_string()
    });
    assert_eq!(ready.field("_PID"), main_pid().to_string());
    assert_eq!(property(UNIT, "NRestarts"), "1");
    fs::remove_dir_all(UNIT_DROP_INS).unwrap();
}

/// systemd hears of it in time, for longer than it would wait.
fn watchdog() {
    let limit = property(UNIT, "WatchdogUSec");
    assert_eq!(limit, format!("{WATCHDOG_SECONDS}s"));
    let pid = main_pid();
    let systemd = Journal::follow(&["_PID=1"]);
    output(&["systemctl", "log-level", "debug"]);
    for _ in 0..HEARD {
        // What is between the two depends on systemd's version.
        let from = format!("notification message from PID {pid}");
        systemd.next(&from, |entry| {
            entry.message().contains(&from) && entry.message().contains("WATCHDOG=1")
        });
    }
    output(&["systemctl", "log-level", "info"]);
    assert_eq!(main_pid(), pid);
    assert_eq!(property(UNIT, "NRestarts"), "1");
}

/// systemd kills a service that hangs, and starts it again. Programs start meanwhile, that are to be learned, too.
fn hung(service: &Journal) {
    let asked_us = now_us();
    output(&as_user(&["paralfetch", "relearn", APP]));
    service.ready_to_learn(asked_us);
    let pid = main_pid();
    let stop = [
        "systemctl",
        "kill",
        "--kill-whom=main",
        "--signal=STOP",
        UNIT,
    ];
    output(&stop);
    until("the service is stopped", || {
        status_of(pid, "State").starts_with('T')
    });
    assert!(apps::start(APP).wait().unwrap().success());
    assert!(status_of(pid, "State").starts_with('T'), "it hangs still");
    service.message_with("Watchdog timeout");
    let ready = service.next("ready again", |entry| {
        entry.message() == "ready" && entry.field("_PID") != pid.to_string()
    });
    assert_eq!(ready.field("_PID"), main_pid().to_string());
    assert_eq!(property(UNIT, "NRestarts"), "2");
    let next = apps::launch_cold(service, APP);
    assert!(next.number("F_PREFETCHED_BYTES") > 0, "{}", next.fields());
}

/// Nothing that the service does was refused to it.
fn no_warnings() {
    let said = output(&[
        "journalctl",
        "--unit",
        UNIT,
        "--priority=warning",
        "--output=cat",
    ]);
    // What was tried above: a wrong configuration, SIGKILL, and the watchdog.
    let tried = [
        "20-wrong.toml",
        "Failed with result 'signal'",
        "code=killed, status=9/KILL",
        "Watchdog timeout",
        "Killing process",
        "code=killed, status=6/ABRT",
        "Failed with result 'watchdog'",
    ];
    let was_tried = |line: &&str| tried.iter().any(|text| line.contains(text));
    let of_ours: Vec<&str> = said.lines().filter(|line| !was_tried(line)).collect();
    assert!(of_ours.is_empty(), "{of_ours:#?}");
}

/// Where BPF is refused to it, the service says so, and systemd does not start it again.
fn cannot_work() {
    fs::create_dir(UNIT_DROP_INS).unwrap();
    let text = "[Service]\nCapabilityBoundingSet=~CAP_SYS_ADMIN CAP_BPF CAP_PERFMON\n";
    fs::write(format!("{UNIT_DROP_INS}/refused.conf"), text).unwrap();
    output(&["systemctl", "daemon-reload"]);
    refusal(&["systemctl", "restart", UNIT]);
    for (name, value) in [
        ("ExecMainStatus", "69"),
        ("SubState", "failed"),
        ("NRestarts", "0"),
    ] {
        assert_eq!(property(UNIT, name), value, "{name}");
    }
    let said = output(&["journalctl", "--unit", UNIT, "--output=cat", "--lines=20"]);
    let reason = "cannot work here: BPF is refused because this process lacks";
    assert!(said.contains(reason), "{said}");
    fs::remove_dir_all(UNIT_DROP_INS).unwrap();
    output(&["systemctl", "daemon-reload"]);
    output(&["systemctl", "start", UNIT]);
}

/// Nothing runs, and profiles and configuration are left. That the units are enabled is noted until the package is
/// purged.
fn removed(before: &[String]) {
    fs::remove_file(RULES).unwrap();
    output(&["dpkg", "--remove", "paralfetch"]);
    let kept = [
        "/etc/paralfetch",
        STATE_DIR,
        "/etc/systemd/system/",
        "/var/lib/systemd/",
    ];
    for file in left(before) {
        assert!(kept.iter().any(|kept| file.starts_with(kept)), "{file}");
    }
    nothing_runs();
}

/// Nothing is left.
fn purged(before: &[String]) {
    output(&["dpkg", "--purge", "paralfetch"]);
    assert_eq!(left(before), [""; 0]);
}

/// What is not Debian's or Ubuntu's is installed, started and removed by a script.
fn installed_by_hand(service: &Journal, before: &[String]) {
    output(&["scripts/install.sh", "--binary", "paralfetch"]);
    output(&["systemctl", "enable", "--now", SOCKET, UNIT]);
    enabled();
    runs(service);
    output(&["scripts/install.sh", "uninstall"]);
    let kept = ["/etc/paralfetch", STATE_DIR, "/run/paralfetch"];
    for file in left(before) {
        assert!(kept.iter().any(|kept| file.starts_with(kept)), "{file}");
    }
    output(&["scripts/install.sh", "uninstall", "--purge"]);
    assert_eq!(left(before), [""; 0]);
    nothing_runs();
}

/// What is there, and was not before.
fn left(before: &[String]) -> Vec<String> {
    let is_new = |file: &String| !before.contains(file);
    files().into_iter().filter(is_new).collect()
}
