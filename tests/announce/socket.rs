//! Who may announce what through the socket.

use std::fs::{File, Permissions};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use paralfetch::service::announce::{Refusal, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::gettid;

use super::server::{Dir, NOBODY, Server, expect, own_pid, refusal};
use common::is_root;

fn is_readable(socket: &Socket) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn a_process_announces_itself() {
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    assert!(socket.receive().unwrap().is_none());
    assert!(!is_readable(&socket));
    let uid = rustix::process::getuid().as_raw();
    for text in ["mail", "0 mail\n", &format!("{} mail", own_pid())] {
        dir.send(text);
        assert!(is_readable(&socket));
        expect(socket.receive().unwrap(), own_pid(), uid, "announced:mail");
    }
}

#[test]
fn root_announces_any_process_and_the_launch_is_of_its_user() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let nobodys = Server::of(NOBODY, &dir.socket());
    dir.send(format!("{} mail", nobodys.pid()));
    expect(
        socket.receive().unwrap(),
        nobodys.pid(),
        NOBODY,
        "announced:mail",
    );
    dir.send("1 init");
    expect(socket.receive().unwrap(), 1, 0, "announced:init");
}

#[test]
fn a_user_announces_itself_and_its_descendants() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let mut server = Server::of(NOBODY, &dir.socket());
    let mail = server.launch("mail");
    let identity = "announced:mail";
    expect(socket.receive().unwrap(), mail, NOBODY, identity);
    server.announce(mail, "mail");
    expect(socket.receive().unwrap(), mail, NOBODY, identity);
    server.announce(0, "mail");
    expect(socket.receive().unwrap(), server.pid(), NOBODY, identity);
}

#[test]
fn a_user_announces_nobody_elses_and_no_strangers() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let mut server = Server::of(NOBODY, &dir.socket());
    let stranger = Server::of(NOBODY, &dir.socket());
    server.announce(stranger.pid(), "mail");
    assert_eq!(refusal(socket.receive()), Refusal::NotDescendant);
    for pid in [1, own_pid()] {
        server.announce(pid, "mail");
        assert_eq!(refusal(socket.receive()), Refusal::NotTheirs);
    }
}

#[test]
fn processes_that_are_gone() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let mut server = Server::of(NOBODY, &dir.socket());
    // It announced itself, and ended before anybody looked.
    let mail = server.launch("mail");
    server.end(mail);
    assert_eq!(refusal(socket.receive()), Refusal::Gone);
    server.announce(mail, "mail");
    assert_eq!(refusal(socket.receive()), Refusal::Gone);
    dir.send(format!("{} mail", i32::MAX));
    assert_eq!(refusal(socket.receive()), Refusal::Gone);
    // A process that nobody has reaped has an id, and nothing to prefetch for.
    let mut zombie = std::process::Command::new("true").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&zombie);
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
    dir.send(format!("{} mail", pid.as_raw_nonzero()));
    assert_eq!(refusal(socket.receive()), Refusal::Gone);
    zombie.wait().unwrap();
    let thread = std::thread::scope(|scope| {
        // Tests run on threads; this one is certainly not the first.
        scope
            .spawn(|| dir.send(format!("{} mail", gettid().as_raw_nonzero())))
            .join()
    });
    thread.unwrap();
    assert_eq!(refusal(socket.receive()), Refusal::Gone);
}

#[test]
fn a_process_id_of_another_namespace_is_refused() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let mut server = Server::nested(&dir.socket());
    assert_eq!(server.own_pid, 1);
    // Here, 1 is init.
    server.announce(1, "mail");
    assert_eq!(refusal(socket.receive()), Refusal::Namespace);
    let nested = server.launch("mail");
    let announced = socket.receive().unwrap().unwrap();
    let pid = announced.pid.as_raw_nonzero().get();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(
        status.contains(&format!("NSpid:\t{pid}\t{nested}\n")),
        "{status}"
    );
    expect(Some(announced), pid, 0, "announced:mail");
}

#[test]
fn a_user_namespace_gives_nobody_other_ids() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let mut server = Server::in_own_namespace(NOBODY, &dir.socket());
    server.launch("mail");
    assert_eq!(refusal(socket.receive()), Refusal::Namespace);
}

#[test]
fn a_flood_is_bounded_for_each_user() {
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let start = Instant::now();
    let mut held = 0;
    for _ in 0..500 {
        dir.send("mail");
        match socket.receive() {
            Ok(announced) => held += u128::from(announced.is_some()),
            received => assert_eq!(refusal(received), Refusal::TooOften),
        }
    }
    let earned = start.elapsed().as_millis() / Duration::from_millis(200).as_millis();
    assert!((20..=20 + earned).contains(&held), "{held}");
    if is_root() {
        let mut server = Server::of(NOBODY, &dir.socket());
        let mail = server.launch("mail");
        expect(socket.receive().unwrap(), mail, NOBODY, "announced:mail");
    }
}

#[test]
fn junk_is_refused_and_does_no_harm() {
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let long = [b'x'; 100_000];
    let junk: [&[u8]; 7] = [b"", b"\n", b"\xff\0", b"1", b"a b", b"1 ../../etc", &long];
    for text in junk {
        dir.send(text);
    }
    for _ in junk {
        assert_eq!(refusal(socket.receive()), Refusal::Malformed);
    }
    dir.send("mail");
    assert!(socket.receive().unwrap().is_some());
}

#[test]
fn descriptors_that_come_along_are_closed() {
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(dir.socket()).unwrap();
    for count in [1, 2, 3, 253] {
        let (end, passed) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let fds: Vec<BorrowedFd<'_>> = vec![passed.as_fd(); count];
        let mut space = vec![MaybeUninit::uninit(); 2048];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let text = [IoSlice::new(b"mail")];
        sendmsg(&sender, &text, &mut control, SendFlags::empty()).unwrap();
        drop(fds);
        drop(passed);
        assert_eq!(refusal(socket.receive()), Refusal::Malformed);
        // It ends only when nobody holds the other end.
        assert_eq!(File::from(end).read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_setuid_program_speaks_for_who_started_it() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut socket = Socket::bind(&dir.run()).unwrap();
    // A user's program with root as its effective user id.
    let script = "import os, socket, sys\n\
        os.setresuid(65534, 0, 0)\n\
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
        s.sendto(b'1 init', sys.argv[1])\n\
        s.sendto(b'mail', sys.argv[1])\n\
        print(flush=True)\n\
        sys.stdin.read()\n";
    let mut program = std::process::Command::new("/usr/bin/python3")
        .args(["-c", script])
        .arg(dir.socket())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    program
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    assert_eq!(refusal(socket.receive()), Refusal::NotTheirs);
    let announced = socket.receive().unwrap();
    let pid = program.id() as i32;
    expect(announced, pid, NOBODY, "announced:mail");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

#[test]
fn everybody_may_write_to_the_socket_and_not_to_its_directory() {
    let dir = Dir::new();
    let socket = Socket::bind(&dir.run()).unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(dir.socket()), 0o666);
    assert_eq!(mode(dir.run()), 0o755);
    drop(socket);
    std::fs::set_permissions(dir.run(), Permissions::from_mode(0o777)).unwrap();
    let _socket = Socket::bind(&dir.run()).unwrap();
    assert_eq!(mode(dir.run()), 0o755);
}

#[test]
fn a_descriptor_of_another_type_is_not_taken() {
    let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let file = File::open("/dev/null").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for fd in [stream.into(), file.into(), udp.into()] {
        let error = Socket::inherited(fd).unwrap_err().to_string();
        assert!(error.contains("not a Unix datagram socket"), "{error}");
    }
}
