//! A socket that systemd made.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use paralfetch::service::announce::Socket;
use rustix::net::sockopt::set_socket_passcred;

use super::server::Dir;
use common::succeed;

/// What the activated process prints when all is well.
const RECEIVED: &str = "received mail from a queued datagram";

/// Started plainly, this makes a socket as systemd does, and executes this program again with it.
#[test]
fn a_passed_socket_is_taken_over_with_what_waits_in_it() {
    if std::env::var_os("LISTEN_PID").is_some() {
        return take_over();
    }
    let dir = Dir::new();
    std::fs::create_dir(dir.run()).unwrap();
    let socket = UnixDatagram::bind(dir.socket()).unwrap();
    // PassCredentials=yes
    set_socket_passcred(socket.as_fd(), true).unwrap();
    dir.send("mail");
    let name = "activation::a_passed_socket_is_taken_over_with_what_waits_in_it";
    let script =
        "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=launch; exec \"$@\" 3<&0 </dev/null";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .stdin(OwnedFd::from(socket));
    let printed = succeed(&mut shell);
    assert!(printed.contains(RECEIVED), "{printed}");
    assert!(dir.socket().exists(), "systemd removes it");
}

fn take_over() {
    let mut socket = Socket::passed().unwrap().unwrap();
    let flags = rustix::io::fcntl_getfd(&socket).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    let announced = socket.receive().unwrap().unwrap();
    assert_eq!(announced.name, "mail");
    assert_ne!(announced.pid, rustix::process::getpid());
    assert!(Socket::passed().unwrap().is_none(), "only once");
    println!("{RECEIVED}");
}
