//! Tasks that inherit an I/O priority: shells that start others whenever they are asked to.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use paralfetch::drive::{ChangeId, IoClass, Knobs, Setting, Undone};
use paralfetch::process::parse_stat;

use crate::Test;
use crate::common::{privileged, succeed};

pub const TESTS: &[Test] = &[(
    "what_a_task_has_started_meanwhile_is_set_back_with_it",
    what_a_task_has_started_meanwhile_is_set_back_with_it,
)];

/// As ionice(1) has it.
pub fn priority(tid: u32) -> String {
    succeed(Command::new("ionice").args(["-p", &tid.to_string()]))
}

/// A shell; it and all that it has started end with this value.
struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    children: Vec<u32>,
}

impl Shell {
    fn new() -> Self {
        let mut process = Command::new("sh")
            .args(["-c", "while read line; do sleep 1000 & echo $!; done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Shell {
            process,
            input,
            output,
            children: Vec::new(),
        }
    }

    fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts another one, and returns its id.
    fn start(&mut self) -> u32 {
        writeln!(self.input).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let child = line.trim().parse().unwrap();
        self.children.push(child);
        child
    }

    fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.end();
        for child in &self.children {
            succeed(Command::new("kill").arg(child.to_string()));
        }
    }
}

/// In clock ticks since boot.
fn start_time(pid: u32) -> u64 {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap();
    parse_stat(&stat).unwrap().start_time
}

fn raise(knobs: &mut Knobs, shell: &Shell) -> ChangeId {
    let setting = Setting::IoPriority {
        tid: i32::try_from(shell.id()).unwrap(),
        class: IoClass::RealTime,
        level: 6,
    };
    knobs.change(setting).unwrap().unwrap()
}

fn what_a_task_has_started_meanwhile_is_set_back_with_it() {
    if !privileged() {
        return;
    }
    const RAISED: &str = "realtime: prio 6";
    let run = tempfile::tempdir().unwrap();
    let mut knobs = Knobs::acquire(run.path(), None).unwrap();
    let [mut first, mut second, administrators] = [(); 3].map(|()| Shell::new());
    let before = priority(first.id());
    let other = administrators.id().to_string();
    succeed(Command::new("ionice").args(["-c1", "-n6", "-p", &other]));
    let mut earlier = first.start();
    // Start times are given in clock ticks: what is as old as the change could have been started by it.
    while start_time(earlier) <= start_time(administrators.id()) {
        earlier = first.start();
    }
    let ids = [&first, &second].map(|shell| raise(&mut knobs, shell));
    let started = [first.start(), first.start(), second.start()];
    for raised in started {
        assert_eq!(priority(raised).trim(), RAISED);
    }
    assert_eq!(knobs.undo(ids[0]).unwrap(), Undone::Restored);
    let restored = [first.id(), earlier, started[0], started[1]];
    assert_eq!(restored.map(priority), [(); 4].map(|()| before.clone()));
    for kept in [second.id(), administrators.id()] {
        assert_eq!(priority(kept).trim(), RAISED);
    }

    // It has ended, and what it has started has not.
    let orphan = second.start();
    second.end();
    drop(knobs);
    assert_eq!(priority(orphan), before);
    assert_eq!(priority(administrators.id()).trim(), RAISED);
}
