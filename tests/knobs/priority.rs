//! Tasks that inherit an I/O priority: shells that start others whenever they are asked to.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use paralfetch::drive::{ChangeId, IoClass, Knobs, Setting, Undone};

use crate::Test;
use common::{privileged, succeed};

pub const TESTS: &[Test] = &[(
    "what_a_task_has_started_meanwhile_is_set_back_with_it",
    what_a_task_has_started_meanwhile_is_set_back_with_it,
)];

/// Somebody who is not root.
const USER: u32 = 12_345;

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
    /// Of this user; root's without.
    fn new(uid: Option<u32>) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", "while read line; do sleep 1000 & echo $!; done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid);
        }
        let mut process = command.spawn().unwrap();
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

fn real_time(shell: &Shell) -> Setting {
    Setting::IoPriority {
        tid: i32::try_from(shell.id()).unwrap(),
        class: IoClass::RealTime,
        level: 6,
    }
}

fn raise(knobs: &mut Knobs, shell: &Shell) -> ChangeId {
    knobs.change(real_time(shell)).unwrap().unwrap()
}

fn what_a_task_has_started_meanwhile_is_set_back_with_it() {
    if !privileged() {
        return;
    }
    const RAISED: &str = "realtime: prio 6";
    let run = tempfile::tempdir().unwrap();
    let mut knobs = Knobs::acquire(run.path(), None).unwrap();
    let mut ours = Shell::new(None);
    let [mut theirs, mut more] = [(); 2].map(|()| Shell::new(Some(USER)));
    let [administrators, low] = [(); 2].map(|()| Shell::new(None));
    let before = priority(theirs.id());
    let other = administrators.id().to_string();
    succeed(Command::new("ionice").args(["-c1", "-n6", "-p", &other]));
    let ids = [&ours, &theirs, &more].map(|shell| raise(&mut knobs, shell));
    let started = [theirs.start(), more.start()];
    let kept = ours.start();
    for raised in [started[0], started[1], kept] {
        assert_eq!(priority(raised).trim(), RAISED);
    }
    // Another task of the user has it still, and may be who has started what is found.
    assert_eq!(knobs.undo(ids[1]).unwrap(), Undone::Restored);
    assert_eq!(priority(theirs.id()), before);
    assert_eq!(priority(started[0]).trim(), RAISED);
    assert_eq!(knobs.undo(ids[2]).unwrap(), Undone::Restored);
    let restored = [theirs.id(), more.id(), started[0], started[1]];
    assert_eq!(restored.map(priority), [(); 4].map(|()| before.clone()));
    for kept in [ours.id(), kept, administrators.id()] {
        assert_eq!(priority(kept).trim(), RAISED);
    }
    // Somebody has chosen it.
    assert!(knobs.change(real_time(&administrators)).unwrap().is_none());

    // It has ended, and what it has started has not. Another one had a priority of its own.
    let low_id = low.id().to_string();
    succeed(Command::new("ionice").args(["-c2", "-n7", "-p", &low_id]));
    raise(&mut knobs, &low);
    assert_eq!(priority(low.id()).trim(), RAISED);
    let orphan = ours.start();
    ours.end();
    drop(knobs);
    assert_eq!(
        [orphan, kept].map(priority),
        [(); 2].map(|()| before.clone())
    );
    assert_eq!(priority(low.id()).trim(), "best-effort: prio 7");
    assert_eq!(priority(administrators.id()).trim(), RAISED);
}
