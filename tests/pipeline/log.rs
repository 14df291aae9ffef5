//! The log that events wait in: no event is lost without being counted.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use paralfetch::kernel::{RecorderPool, Trace, TraceMode, Tracer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use crate::set_up;

/// For each line that it reads, looks up so many paths, which nobody did before, and answers.
const LOOKER: &str = r#"
import os, sys
number = 0
for count in sys.stdin:
    for number in range(number, number + int(count)):
        try:
            os.stat(f"/nowhere/{number:060}")
        except FileNotFoundError:
            pass
    number += 1
    print(flush=True)
"#;

/// A program that looks up as many paths as it is told to.
struct Looker {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Looker {
    fn start() -> Looker {
        let mut child = Command::new("sh")
            .args(["-c", "read go && exec python3 -c \"$0\"", LOOKER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Looker {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Has it executed while it is recorded: what a task did before is not of a launch.
    fn record(&mut self) -> Tracer {
        let pid = Pid::from_child(&self.child);
        let recorder = RecorderPool::load(TraceMode::Touches).unwrap();
        let tracer = recorder.adopt(pid).unwrap();
        let orders = self.orders.as_mut().unwrap();
        orders.write_all(b"\n").unwrap();
        tracer
    }

    /// Returns when that is done.
    fn look_up(&mut self, paths: u64) {
        let orders = self.orders.as_mut().unwrap();
        writeln!(orders, "{paths}").unwrap();
        let mut answer = String::new();
        assert_eq!(self.answers.read_line(&mut answer).unwrap(), 1);
    }

    fn end(mut self) {
        drop(self.orders.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// The looker's paths, each of which must be there once.
fn looked_up(trace: &Trace) -> usize {
    let paths: Vec<_> = trace
        .paths
        .iter()
        .map(|path| path.path.as_slice())
        .filter(|path| path.starts_with(b"/nowhere/"))
        .collect();
    assert_eq!(paths.iter().collect::<HashSet<_>>().len(), paths.len());
    paths.len()
}

fn wakes(tracer: &Tracer) -> bool {
    let fd = tracer.wake_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

/// More than the log holds and fewer paths than are recorded of a launch, emptied whenever it wakes its reader.
#[test]
fn a_log_that_is_emptied_loses_nothing() {
    let Some(_turn) = set_up() else { return };
    const PORTION: u64 = 2000;
    const PORTIONS: u64 = 28;
    let mut looker = Looker::start();
    let mut tracer = looker.record();
    let mut woken = 0;
    for _ in 0..PORTIONS {
        looker.look_up(PORTION);
        if wakes(&tracer) {
            woken += 1;
            tracer.drain().unwrap();
            assert!(!wakes(&tracer), "it was emptied");
        }
    }
    looker.end();
    let trace = tracer.finish().unwrap();
    assert_eq!(trace.lost, 0);
    assert_eq!(looked_up(&trace) as u64, PORTION * PORTIONS);
    assert!(
        woken > 0,
        "the log did not wake its reader when it was half full"
    );
    assert!(trace.exit_ns.is_some());
}

/// What finds no room is counted, and what comes after there is some again is recorded.
#[test]
fn a_log_that_is_full_counts_what_it_loses() {
    let Some(_turn) = set_up() else { return };
    // Fewer than are recorded of a launch: beyond that, nothing more would be.
    const TOO_MANY: u64 = 57_000;
    let mut looker = Looker::start();
    let mut tracer = looker.record();
    looker.look_up(TOO_MANY);
    tracer.drain().unwrap();
    let recorded = tracer.with_trace(looked_up) as u64;
    assert!(recorded > 0);
    looker.look_up(100);
    looker.end();
    let trace = tracer.finish().unwrap();
    assert_eq!(looked_up(&trace) as u64, recorded + 100);
    // Pages that it used may be among what is lost.
    assert!(trace.lost > 0);
    assert!(recorded + trace.lost >= TOO_MANY);
}
