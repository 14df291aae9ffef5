use std::fs;
use std::path::PathBuf;

use paralfetch::service::control::ServiceCalls;

use crate::Served;
use common::until;

/// Whether a thread sleeps until something happens, and not until some time: in epoll_wait(2) or
/// epoll_pwait(2) with no limit.
fn sleeps_for_good(task: &std::path::Path) -> bool {
    // It says `running`, or the number of the call and its arguments.
    let call = fs::read_to_string(task.join("syscall")).unwrap();
    let mut words = call.split_whitespace();
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    let waits = number == Some(libc::SYS_epoll_pwait) || number == epoll_wait();
    // Of epoll_wait(epfd, events, maxevents, timeout); an int, whatever is above it.
    let timeout = words.nth(3).map(|word| word.trim_start_matches("0x"));
    let timeout = timeout.and_then(|word| u64::from_str_radix(word, 16).ok());
    waits && timeout.map(|timeout| timeout as u32 as i32) == Some(-1)
}

#[cfg(target_arch = "x86_64")]
fn epoll_wait() -> Option<i64> {
    Some(libc::SYS_epoll_wait)
}

#[cfg(not(target_arch = "x86_64"))]
fn epoll_wait() -> Option<i64> {
    None
}

/// Threads of this process that serve a bus.
fn bus_threads() -> Vec<PathBuf> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|task| {
            // It may have ended by now.
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "pf-bus")
        })
        .collect()
}

/// Run in a process of its own, so that there is one service in it.
#[test]
fn an_idle_service_has_one_thread_that_sleeps_without_a_timer() {
    if std::env::var_os("PARALFETCH_TEST_IDLE").is_none() {
        let name = "idle::an_idle_service_has_one_thread_that_sleeps_without_a_timer";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env("PARALFETCH_TEST_IDLE", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        eprint!("{text}");
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let before = resident_kib();
    let threads_before = threads();
    let Some(served) = Served::start() else {
        return;
    };
    // The thread takes its name itself.
    let mut tasks = Vec::new();
    until("the service's thread has its name", || {
        tasks = bus_threads();
        !tasks.is_empty()
    });
    let [task] = &tasks[..] else {
        panic!("{tasks:?}");
    };
    // The thread that connected ends by itself.
    until("there is one thread more", || {
        threads() == threads_before + 1
    });
    until("it sleeps for good", || sleeps_for_good(task));
    let with_service = resident_kib();
    let client = served.client();
    until("the client has connected", || {
        threads() == threads_before + 1
    });
    for _ in 0..200 {
        client.status().unwrap();
        client.launches(None, None, 100).unwrap();
        assert_eq!(threads(), threads_before + 1);
    }
    drop(client);
    until("it sleeps for good again", || sleeps_for_good(task));
    eprintln!(
        "resident: {before} KiB, with the service {with_service} KiB, after 400 calls {} KiB",
        resident_kib()
    );
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
