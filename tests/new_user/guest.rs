//! The part that runs in the virtual machine: what a new user and the administrator do, boot by boot.

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use crate::inventory::{self, Inventory, differences};
use crate::{app, machine};
use common::guest::journal::{Journal, TellJournal};
use common::guest::system::{
    NAME, SOCKET, STATE_DIR, UNIT, USER, as_user, main_pid, nothing_runs, outcome, output,
    property, until,
};
use common::package::{EARLIER, PACKAGE};

/// What is remembered from one boot to the next: how many there were, and what was there before the installation.
const MEMORY: &str = "/root/new-user";
const BOOTS: &str = "/root/new-user/boots";
const STORED: &str = "/root/new-user/stored.json";
const IN_FORCE: &str = "/root/new-user/in-force.json";

/// What belongs to the service, and is no file of its package.
const TRACES: [&str; 4] = [
    STATE_DIR,
    "/etc/paralfetch",
    "/run/paralfetch",
    "/usr/share/paralfetch",
];

/// Prints when a step begins, for a machine that does not come to its end.
struct Steps(Instant);

impl Steps {
    fn begin(&self, what: &str) {
        println!("{:5.1} s: {what}", self.0.elapsed().as_secs_f64());
    }
}

/// Does what is to be done at this boot.
pub fn main() -> ExitCode {
    let _telling = TellJournal;
    let steps = Steps(Instant::now());
    fs::create_dir_all(MEMORY).unwrap();
    let boots = fs::read_to_string(BOOTS).map_or(1, |text| text.parse::<u32>().unwrap() + 1);
    fs::write(BOOTS, boots.to_string()).unwrap();
    let kernel = output(&["uname", "-sr"]);
    steps.begin(&format!("boot {boots}, {}", kernel.trim()));
    no_failed_unit();
    match boots {
        1 => first(&steps),
        2 => second(&steps),
        _ => {
            nothing_is_left();
            steps.begin("done");
            return ExitCode::SUCCESS;
        }
    }
    steps.begin("reboot");
    ExitCode::from(machine::REBOOT)
}

/// An earlier package is installed.
fn first(steps: &Steps) {
    output(&["useradd", "--user-group", USER]);
    app::install();
    steps.begin("what is there before");
    remember(STORED, &inventory::stored());
    remember(IN_FORCE, &inventory::in_force());
    steps.begin("an earlier package is installed");
    apt(&["install", &format!("./{EARLIER}")]);
    runs();
    assert!(version().ends_with("~earlier"), "{}", version());
    no_failed_unit();
}

/// The service is used, upgraded, removed and purged.
fn second(steps: &Steps) {
    steps.begin("the service runs after a reboot");
    runs();
    let service = Journal::follow(&["--unit", UNIT]);
    let running = inventory::in_force();
    for kind in ["process", "BPF program"] {
        assert!(!running[kind].is_empty(), "the service has no {kind}");
    }
    steps.begin("the app is launched");
    app::becomes_faster(&service);
    steps.begin("the user asks");
    saves_time();
    steps.begin("upgrade");
    upgraded(&service);
    app::is_still_fast(&service);
    saves_time();
    drop(service);
    steps.begin("the package is removed");
    apt(&["remove", "paralfetch"]);
    removed();
    steps.begin("the package is purged");
    apt(&["purge", "paralfetch"]);
    nothing_is_left();
}

/// Both units are enabled and run, and somebody answers on the bus.
fn runs() {
    for unit in [UNIT, SOCKET] {
        assert_eq!(property(unit, "UnitFileState"), "enabled", "{unit}");
        assert_eq!(property(unit, "ActiveState"), "active", "{unit}");
    }
    output(&["busctl", "--system", "status", NAME]);
}

fn no_failed_unit() {
    let failed = ["systemctl", "--failed", "--no-legend", "--plain"];
    assert_eq!(output(&failed), "");
}

/// Without questions, as administrators have it who install by a program. There is no network.
fn apt(arguments: &[&str]) {
    let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes"];
    output(&[&apt, arguments].concat());
}

fn version() -> String {
    output(&[
        "dpkg-query",
        "--show",
        "--showformat=${Version}",
        "paralfetch",
    ])
}

/// `paralfetch status` tells the user that time was saved.
fn saves_time() {
    let status = output(&as_user(&["paralfetch", "status"]));
    print!("{status}");
    assert!(!status.contains("warning"));
    let saved = status
        .lines()
        .find_map(|line| line.strip_suffix(" s saved at cold launches so far"))
        .expect("it says what was saved");
    assert!(saved.parse::<f64>().unwrap() > 0.0, "{saved}");
}

/// The current package takes the place of the earlier one; the service goes on with the profile that it had.
fn upgraded(service: &Journal) {
    let pid = main_pid();
    apt(&["install", &format!("./{PACKAGE}")]);
    assert!(!version().ends_with("~earlier"), "{}", version());
    assert_ne!(main_pid(), pid);
    runs();
    let ready = service.start_of(main_pid());
    assert_eq!(ready.field("F_PROFILES"), "1", "{}", ready.fields());
    no_failed_unit();
}

/// Nothing of the service is in force, and only what it has learned and what is configured is stored.
fn removed() {
    nothing_is_in_force();
    // That the units are enabled is noted until the package is purged.
    let kept = [
        "/etc/paralfetch",
        STATE_DIR,
        "/etc/systemd/",
        "/var/lib/systemd/deb-systemd-",
    ];
    let is_kept = |difference: &String| {
        let is_there = |place: &&str| difference.contains(&format!(" {place}"));
        difference.starts_with('+') && kept.iter().any(is_there)
    };
    let mut found = differences(&remembered(STORED), &inventory::stored());
    found.retain(|difference| difference.contains(" file: ") && !is_kept(difference));
    assert!(found.is_empty(), "{found:#?}");
}

/// The machine is as it was before the installation.
fn nothing_is_left() {
    nothing_is_in_force();
    let found = differences(&remembered(STORED), &inventory::stored());
    assert!(found.is_empty(), "{found:#?}");
    for trace in TRACES {
        assert!(!fs::exists(trace).unwrap(), "{trace}");
    }
    let known = outcome(&["dpkg-query", "--show", "paralfetch"]);
    assert!(!known.status.success(), "dpkg knows the package");
    no_failed_unit();
}

/// The bus and the kernel let go a moment after the service has ended.
fn nothing_is_in_force() {
    nothing_runs();
    let before = remembered(IN_FORCE);
    let mut last = Vec::new();
    until("all is in force that was before, and nothing else", || {
        let found = differences(&before, &inventory::in_force());
        if found != last {
            println!("        {found:#?}");
            last = found;
        }
        last.is_empty()
    });
}

fn remember(file: &str, inventory: &Inventory) {
    fs::write(file, serde_json::to_vec(inventory).unwrap()).unwrap();
}

fn remembered(file: &str) -> Inventory {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}
