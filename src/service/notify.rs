//! What systemd wants to hear (sd_notify(3)): a datagram to the socket that it names.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to systemd; without one, everything is said to nobody.
pub struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// From the environment. The variables are for this process alone, and it starts no others.
    ///
    /// # Errors
    /// When systemd names a socket that cannot be used.
    pub fn from_environment() -> io::Result<Self> {
        let socket = env::var_os("NOTIFY_SOCKET")
            .filter(|path| !path.is_empty())
            .map(connect)
            .transpose()?;
        let own = env::var("WATCHDOG_PID")
            .ok()
            .is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = env::var("WATCHDOG_USEC")
            .ok()
            .and_then(|usec| usec.parse().ok())
            .filter(|&usec: &u64| own && usec > 0)
            .map(Duration::from_micros);
        Ok(Notifier { socket, watchdog })
    }

    /// How often to say that we are alive: half of what systemd allows. `None` if it does not ask.
    pub fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// Says something, such as `READY=1`. Nobody waits for an answer, and there is nothing to do if
    /// systemd does not listen.
    pub fn say(&self, state: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(state.as_bytes());
        }
    }
}

fn connect(path: OsString) -> io::Result<UnixDatagram> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier {
            socket: Some(connect(path.into()).unwrap()),
            watchdog: Some(Duration::from_secs(60)),
        };
        notifier.say("READY=1\nSTATUS=fine");
        let mut text = [0; 64];
        let length = systemd.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1\nSTATUS=fine");
        assert_eq!(notifier.interval(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn abstract_names_are_known() {
        let name = format!("@paralfetch-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        let systemd = UnixDatagram::bind_addr(&address).unwrap();
        let socket = connect(name.into()).unwrap();
        socket.send(b"x").unwrap();
        let mut text = [0; 2];
        assert_eq!(systemd.recv(&mut text).unwrap(), 1);
    }
}
