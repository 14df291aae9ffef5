//! The threads of a recorded launch, whose states say whether the launch waits.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use paralfetch::kernel::{RecorderPool, TraceMode};
use rustix::process::Pid;

use crate::set_up;

/// A thread other than the first executes cat(1).
const EXECUTES_IN_THREAD: &str = r#"
import os, threading
threading.Thread(target=os.execvp, args=("cat", ["cat"])).start()
threading.Event().wait()
"#;

#[test]
fn a_thread_that_executes_is_listed_by_the_id_of_its_process() {
    let Some(_turn) = set_up() else { return };
    let mut child = Command::new("sh")
        .args([
            "-c",
            "read go && exec python3 -c \"$0\"",
            EXECUTES_IN_THREAD,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let recorder = RecorderPool::load(TraceMode::Touches).unwrap();
    let pid = Pid::from_child(&child);
    let tracer = recorder.adopt(pid).unwrap();
    let mut orders = child.stdin.take().unwrap();
    orders.write_all(b"go\nanswer\n").unwrap();
    // cat answers once it was executed.
    let mut answer = String::new();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    answers.read_line(&mut answer).unwrap();
    assert_eq!(answer, "answer\n");
    let threads: Vec<i32> = tracer.threads().collect();
    assert_eq!(threads, [pid.as_raw_nonzero().get()]);
    drop(orders);
    assert!(child.wait().unwrap().success());
}
