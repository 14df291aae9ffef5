//! The socket and the file in their directory.

use std::fs;
use std::os::unix::net::{UnixDatagram, UnixListener};

use paralfetch::service::announce::{AnnounceError, FetchAppFile, Socket};
use rustix::fs::{CWD, Mode, mkfifoat};

use super::server::Dir;

fn in_use(error: AnnounceError) {
    let error = error.to_string();
    assert!(
        error.starts_with("another service receives announcements at "),
        "{error}"
    );
}

#[test]
fn both_are_removed_at_the_end() {
    let dir = Dir::new();
    let (socket, file) = (
        Socket::bind(&dir.run()).unwrap(),
        FetchAppFile::make(&dir.run()).unwrap(),
    );
    assert!(dir.socket().exists() && dir.file().exists());
    drop((socket, file));
    assert_eq!(fs::read_dir(dir.run()).unwrap().count(), 0);
}

#[test]
fn what_a_crash_left_is_replaced() {
    let dir = Dir::new();
    fs::create_dir(dir.run()).unwrap();
    drop(UnixDatagram::bind(dir.socket()).unwrap());
    mkfifoat(CWD, dir.file(), Mode::RUSR).unwrap();
    let (mut socket, _file) = (
        Socket::bind(&dir.run()).unwrap(),
        FetchAppFile::make(&dir.run()).unwrap(),
    );
    dir.send("mail");
    assert!(socket.receive().unwrap().is_some());
}

#[test]
fn a_second_service_does_not_take_over() {
    let dir = Dir::new();
    let (mut socket, mut file) = (
        Socket::bind(&dir.run()).unwrap(),
        FetchAppFile::make(&dir.run()).unwrap(),
    );
    in_use(Socket::bind(&dir.run()).unwrap_err());
    in_use(FetchAppFile::make(&dir.run()).unwrap_err());
    // Also not when nobody reads what has filled the queue.
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.send_to(b"mail", dir.socket()).is_ok() {}
    in_use(Socket::bind(&dir.run()).unwrap_err());
    assert!(socket.receive().unwrap().is_some());
    assert!(file.receive().unwrap().is_none());
}

#[test]
fn foreign_things_stay_and_are_named() {
    let dir = Dir::new();
    fs::create_dir(dir.run()).unwrap();
    fs::write(dir.socket(), "mine").unwrap();
    std::os::unix::fs::symlink("/dev/null", dir.file()).unwrap();
    let error = Socket::bind(&dir.run()).unwrap_err().to_string();
    let path = dir.socket().display().to_string();
    assert_eq!(
        error,
        format!("{path} is not a socket: remove it and start again")
    );
    let error = FetchAppFile::make(&dir.run()).unwrap_err().to_string();
    let path = dir.file().display().to_string();
    assert_eq!(
        error,
        format!("{path} is not a FIFO: remove it and start again")
    );
    assert_eq!(fs::read(dir.socket()).unwrap(), b"mine");
    assert!(dir.file().is_symlink());
    fs::remove_file(dir.socket()).unwrap();
    let _listener = UnixListener::bind(dir.socket()).unwrap();
    in_use(Socket::bind(&dir.run()).unwrap_err());
}

#[test]
fn what_somebody_else_put_there_later_is_not_removed() {
    let dir = Dir::new();
    let socket = Socket::bind(&dir.run()).unwrap();
    fs::remove_file(dir.socket()).unwrap();
    fs::write(dir.socket(), "mine").unwrap();
    drop(socket);
    assert_eq!(fs::read(dir.socket()).unwrap(), b"mine");
}

#[test]
fn the_directory_must_be_one_of_ours() {
    let dir = Dir::new();
    std::os::unix::fs::symlink("/tmp", dir.run()).unwrap();
    let error = Socket::bind(&dir.run()).unwrap_err().to_string();
    assert!(error.starts_with("cannot use the directory "), "{error}");
    assert!(error.contains("not a directory of this user"), "{error}");
}
