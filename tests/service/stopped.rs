//! The service is stopped for a while (SIGSTOP), as a whole system is in a suspend, and goes on.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use rustix::process::Signal;

use crate::set_up;
use common::succeed;
use common::until;

#[test]
fn a_stopped_service_goes_on_where_it_was() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.script_that_goes_on("app");
    image.enable("app");
    let mut service = image.start();
    service.ready_to_learn();

    // An app that is to be learned starts and ends while it stands still, and is learned when it goes on.
    service.signal(Signal::STOP);
    let app = image.spawn("app");
    until("the app runs", || {
        let comm = fs::read_to_string(format!("/proc/{}/comm", app.0.id()));
        comm.is_ok_and(|name| name.trim_end() == "app")
    });
    service.signal(Signal::CONT);
    service.line(&["launch begins", "Learn"]);

    // In the middle of learning; the app ends meanwhile.
    service.signal(Signal::STOP);
    image.let_end();
    app.succeed();
    service.signal(Signal::CONT);
    let line = service.launch_of(&image.id("app"));
    if !line.contains("kind=Learned") {
        // More happened than the buffers have room for.
        assert!(line.contains("lost"), "{line}");
        image.learn_in_the_end(&mut service, "app");
    }

    // A launch that is only seen afterwards.
    let status = format!("/proc/{}/status", service.pid());
    service.signal(Signal::STOP);
    until("the service is stopped", || {
        fs::read_to_string(&status).unwrap().contains("State:\tT")
    });
    image.launch("app");
    service.signal(Signal::CONT);
    service.launch_of(&image.id("app"));
    image.prefetch_in_the_end(&mut service, "app");
}

/// Announcements that come while nobody takes them fill the socket; later ones are refused, and nobody waits. Those in
/// it are looked at when the service goes on, and launches are as they were.
#[test]
fn a_full_queue_of_announcements_costs_no_launch() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.enable("app");
    let mut service = image.start();
    image.learn(&mut service, "app");
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    let socket = image.run_dir().join("launch.sock");
    for _ in 0..3 {
        service.signal(Signal::STOP);
        let full = (0..1 << 20).find_map(|_| sender.send_to(b"0 mail", &socket).err());
        assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
        service.signal(Signal::CONT);
        image.prefetch_in_the_end(&mut service, "app");
    }
    service.stop();
}

/// Threads that call execve of the app's name in vain, each of them more often than is reported.
const CALLS: &str = "
import os, threading
def call():
    for _ in range(200):
        try:
            os.execv('/' * 4000 + 'nonexistent/app', ['app'])
        except OSError:
            pass
    called.wait()
called = threading.Barrier(16)
threads = [threading.Thread(target=call) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
";

/// Nothing but the sweep frees the slots of launches whose beginning and end were lost. With all of them taken, no
/// launch would be seen any more.
#[test]
fn slots_of_launches_that_were_not_reported_are_swept() {
    let Some((image, _turn)) = set_up() else {
        return;
    };
    image.configure("[launch]\nquiet_window_ms = 100\n");
    image.enable("app");
    let mut service = image.start();
    image.learn_in_the_end(&mut service, "app");
    image.prefetch_in_the_end(&mut service, "app");
    let status = format!("/proc/{}/status", service.pid());
    service.signal(Signal::STOP);
    until("the service is stopped", || {
        fs::read_to_string(&status).unwrap().contains("State:\tT")
    });
    // A few launches fill the ring. Then there are slots for others and no room to report them.
    for _ in 0..2 {
        succeed(Command::new("python3").args(["-c", CALLS]));
    }
    let calls = "i=0; while [ $i -lt 100 ]; do /nonexistent/app; i=$((i+1)); done; :";
    succeed(Command::new("sh").args(["-c", calls]));
    service.signal(Signal::CONT);
    for _ in 0..32 {
        service.line(&["its beginning was not reported"]);
    }
    image.prefetch_in_the_end(&mut service, "app");
}
