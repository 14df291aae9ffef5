//! Announcements through the file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;

use paralfetch::service::announce::{FetchAppFile, Refusal};

use super::server::{Dir, NOBODY, Server, expect, own_pid, refusal};
use common::is_root;
use common::succeed;

fn writer(dir: &Dir) -> fs::File {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut options = fs::File::options();
    let options = options.write(true).custom_flags(flags);
    options.open(dir.file()).unwrap()
}

#[test]
fn writers_come_and_go() {
    let dir = Dir::new();
    let mut file = FetchAppFile::make(&dir.run()).unwrap();
    for _ in 0..3 {
        assert!(file.receive().unwrap().is_none());
        writeln!(writer(&dir), "{} mail", own_pid()).unwrap();
        expect(file.receive().unwrap(), own_pid(), 0, "announced:mail");
    }
}

#[test]
fn two_writers_with_whole_and_partial_lines() {
    let dir = Dir::new();
    let mut file = FetchAppFile::make(&dir.run()).unwrap();
    let (mut first, mut second) = (writer(&dir), writer(&dir));
    let pid = own_pid();
    first
        .write_all(format!("{pid} a\n{pid} b\n").as_bytes())
        .unwrap();
    second.write_all(format!("{pid} c\n").as_bytes()).unwrap();
    first.write_all(format!("{pid} d").as_bytes()).unwrap();
    for name in ["a", "b", "c"] {
        expect(
            file.receive().unwrap(),
            pid,
            0,
            &format!("announced:{name}"),
        );
    }
    assert!(file.receive().unwrap().is_none());
    first.write_all(b"d\n").unwrap();
    expect(file.receive().unwrap(), pid, 0, "announced:dd");
}

#[test]
fn each_line_of_junk_is_refused() {
    let dir = Dir::new();
    let mut file = FetchAppFile::make(&dir.run()).unwrap();
    let mut writer = writer(&dir);
    let pid = own_pid();
    writer.write_all(b"\n\xff\n1 a/b\n").unwrap();
    // More than the longest line, and than one read.
    writer.write_all(&[b'x'; 10_000]).unwrap();
    let absent = i32::MAX;
    writer
        .write_all(format!("\nmail\n0 mail\n{absent} mail\n{pid} mail\n").as_bytes())
        .unwrap();
    for expected in [
        Refusal::Malformed,
        Refusal::Malformed,
        Refusal::Malformed,
        Refusal::Malformed,
        // A pipe does not know its writer.
        Refusal::Unidentified,
        Refusal::Unidentified,
        Refusal::Gone,
    ] {
        assert_eq!(refusal(file.receive()), expected);
    }
    expect(file.receive().unwrap(), pid, 0, "announced:mail");
    assert!(file.receive().unwrap().is_none());
}

#[test]
fn a_whole_pipe_of_junk_does_not_hide_what_follows() {
    let dir = Dir::new();
    let mut file = FetchAppFile::make(&dir.run()).unwrap();
    let mut writer = writer(&dir);
    let junk = [b'\n'; 4096];
    let mut lines = 0;
    while writer.write(&junk).is_ok() {
        lines += 4096;
    }
    for _ in 0..lines {
        assert_eq!(refusal(file.receive()), Refusal::Malformed);
    }
    writeln!(writer, "{} mail", own_pid()).unwrap();
    expect(file.receive().unwrap(), own_pid(), 0, "announced:mail");
    assert!(file.receive().unwrap().is_none());
}

#[test]
fn root_alone_may_write() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut file = FetchAppFile::make(&dir.run()).unwrap();
    let metadata = fs::metadata(dir.file()).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o200);
    assert_eq!((metadata.uid(), metadata.gid()), (0, 0));
    let mut shell = std::process::Command::new("sh");
    let line = format!(
        "! echo '{} mail' 2>/dev/null >'{}'",
        own_pid(),
        dir.file().display()
    );
    shell.args(["-c", &line]).current_dir("/");
    succeed(shell.uid(NOBODY).gid(NOBODY));
    assert!(file.receive().unwrap().is_none());
}

#[test]
fn a_fork_server_announces_by_the_file() {
    if !is_root() {
        return;
    }
    let dir = Dir::new();
    let mut file = FetchAppFile::make(&dir.run()).unwrap();
    let mut server = Server::of(0, &dir.file());
    let (mail, web) = (server.launch("mail"), server.launch("web"));
    server.announce(web, "web");
    server.end(mail);
    // The first one ended before anybody looked.
    assert_eq!(refusal(file.receive()), Refusal::Gone);
    for _ in 0..2 {
        expect(file.receive().unwrap(), web, 0, "announced:web");
    }
    assert!(file.receive().unwrap().is_none());
}
