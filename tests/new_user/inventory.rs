//! What there is on the machine, in lists that can be compared: what is stored, and what is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::guest::system::outcome;

/// Lines of each kind.
pub type Inventory = BTreeMap<String, BTreeSet<String>>;

/// Files that change on every machine: logs, caches, what apt and dpkg keep account in, what systemd notes at each boot;
/// and what this test and the machine write themselves.
const LEFT_OUT: [&str; 11] = [
    "/etc/systemd/system/guest.service",
    "/root/new-user",
    "/tmp",
    "/var/backups",
    "/var/cache",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/systemd/random-seed",
    "/var/lib/systemd/timers",
    "/var/log",
    "/var/tmp",
];

/// A line for each file: type, mode, owner, and of regular ones size and time of the last change, of links the text.
const FORMATS: [(&str, &str); 2] = [
    ("f", "f %m %u:%g %s %T@ %p\\n"),
    ("l", "%y %m %u:%g %l %p\\n"),
];
/// Of everything else.
const FORMAT: &str = "%y %m %u:%g %p\\n";

/// Settings of the kernel that the service may change, and those beside them.
const SETTINGS: [&str; 5] = [
    "/proc/sys/vm",
    "/proc/sys/fs/fanotify",
    "/sys/kernel/debug/fault_around_bytes",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/tracing/current_tracer",
];
/// Below each drive in /sys/block.
const DRIVE_SETTINGS: [&str; 2] = ["queue", "bdi"];
/// No settings: what was written there last, by this test, too; and a drive's shares of the memory that is free now.
const NO_SETTINGS: [&str; 3] = ["/drop_caches", "/bdi/max_bytes", "/bdi/min_bytes"];

/// Files, units and users.
pub fn stored() -> Inventory {
    let mut all = Inventory::new();
    add(&mut all, "file", files());
    let units = ["systemctl", "list-unit-files", "--no-legend", "--no-pager"];
    add(&mut all, "unit", lines(&units));
    add(&mut all, "user", lines(&["getent", "passwd"]));
    add(&mut all, "group", lines(&["getent", "group"]));
    all
}

/// Settings, processes of ours, marks on files, BPF programs and names on the bus.
pub fn in_force() -> Inventory {
    let mut all = Inventory::new();
    add(&mut all, "setting", settings());
    add(&mut all, "process", processes());
    add(&mut all, "mark", marks());
    add(&mut all, "BPF program", bpf_programs());
    let names = lines(&["busctl", "--system", "list", "--no-legend", "--no-pager"]);
    let names = names
        .iter()
        .filter_map(|line| line.split_whitespace().next());
    // The others are numbers of connections.
    let names = names.filter(|name| !name.starts_with(':'));
    add(&mut all, "name on the bus", names.map(str::to_owned));
    all
}

/// What is in one of them alone: a line for each, which begins with `-` if it is only in the first.
pub fn differences(before: &Inventory, now: &Inventory) -> Vec<String> {
    let only = |sign: char, one: &Inventory, other: &Inventory| -> Vec<String> {
        let of_kind = one.iter().flat_map(|(kind, lines)| {
            let missing = lines.iter().filter(|line| !other[kind].contains(*line));
            missing.map(move |line| format!("{sign} {kind}: {line}"))
        });
        of_kind.collect()
    };
    [only('-', before, now), only('+', now, before)].concat()
}

/// Files and mounts that the kernel reports uses of to somebody (fanotify(7)).
pub fn marks() -> BTreeSet<String> {
    let Ok(processes) = glob("/proc", "fdinfo") else {
        return BTreeSet::new();
    };
    let infos = processes
        .iter()
        .filter_map(|place| fs::read_dir(place).ok());
    // Who ends meanwhile has none.
    infos
        .flatten()
        .filter_map(|info| fs::read_to_string(info.ok()?.path()).ok())
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.starts_with("fanotify ") && !line.starts_with("fanotify flags"))
        .collect()
}

fn add(to: &mut Inventory, kind: &str, lines: impl IntoIterator<Item = String>) {
    to.insert(kind.to_owned(), lines.into_iter().collect());
}

/// What a program prints, by lines.
fn lines(argv: &[&str]) -> Vec<String> {
    let output = outcome(argv);
    assert!(output.status.success(), "{argv:?}: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::to_owned).collect()
}

/// Those of the machine's own disk.
fn files() -> Vec<String> {
    let mut argv = vec!["find", "/", "-xdev", "("];
    for place in LEFT_OUT {
        argv.extend(["-path", place, "-o"]);
    }
    // What is mounted there is another file system's.
    argv.extend(["-path", "/mnt/*", ")", "-prune"]);
    for (kind, format) in FORMATS {
        argv.extend(["-o", "-type", kind, "-printf", format]);
    }
    argv.extend(["-o", "-printf", FORMAT]);
    // Debian's helper for units keeps notes of each package, and the directories for ever.
    let is_of_helper =
        |line: &String| line.starts_with('d') && line.contains(" /var/lib/systemd/deb-systemd-");
    let mut files = lines(&argv);
    files.retain(|line| !is_of_helper(line));
    files
}

fn settings() -> Vec<String> {
    let mut places: Vec<String> = SETTINGS.map(str::to_owned).to_vec();
    for kind in DRIVE_SETTINGS {
        places.extend(glob("/sys/block", kind).unwrap());
    }
    let files = places.iter().flat_map(|place| match fs::read_dir(place) {
        Ok(entries) => entries
            .map(|entry| entry.unwrap().path().to_string_lossy().into_owned())
            .collect(),
        Err(_) => vec![place.clone()],
    });
    // Some can only be written, and not all kernels have all of them.
    files
        .filter(|file| !NO_SETTINGS.iter().any(|name| file.ends_with(name)))
        .filter_map(|file| Some(format!("{file} {}", fs::read_to_string(&file).ok()?.trim())))
        .collect()
}

/// Those that run the program, whatever they are called.
fn processes() -> Vec<String> {
    let programs = glob("/proc", "exe").unwrap();
    let programs = programs.iter().filter_map(|link| fs::read_link(link).ok());
    programs
        .map(|program| program.to_string_lossy().into_owned())
        .filter(|program| program.contains("paralfetch"))
        .collect()
}

/// Their names, without those of systemd, which come and go with its units. The kernel lists them among its symbols.
fn bpf_programs() -> Vec<String> {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let names = symbols.lines().filter_map(|line| line.split(' ').nth(2));
    let names = names.filter_map(|symbol| symbol.split('\t').next()?.strip_prefix("bpf_prog_"));
    // What precedes a name is a hash of the code.
    let names = names.map(|name| name.split_once('_').map_or("", |(_, name)| name));
    names
        .filter(|name| !name.is_empty() && !name.starts_with("sd_"))
        .map(str::to_owned)
        .collect()
}

/// `DIRECTORY/*/NAME`.
fn glob(directory: &str, name: &str) -> std::io::Result<Vec<String>> {
    fs::read_dir(directory)?
        .map(|entry| Ok(format!("{}/{name}", entry?.path().display())))
        .collect()
}
