//! A private system bus.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use paralfetch::service::control::bus::Address;
use tempfile::TempDir;
use zbus::Connection;

/// dbus-daemon with a configuration of its own; gone with this value.
pub struct Daemon {
    process: Child,
    address: Address,
    _directory: TempDir,
}

impl Daemon {
    /// `None` if this is not root, or there is no dbus-daemon.
    pub fn start() -> Option<Daemon> {
        Self::with_service("")
    }

    /// With a file for D-Bus activation of the service, if it is not empty.
    pub fn with_service(activation: &str) -> Option<Daemon> {
        if !rustix::process::geteuid().is_root() {
            return skip("this test needs root");
        }
        let directory = tempfile::tempdir().unwrap();
        // Others connect, too.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let services = directory.path().join("services");
        fs::create_dir(&services).unwrap();
        if !activation.is_empty() {
            let file = services.join("org.paralfetch.Paralfetch1.service");
            fs::write(file, activation).unwrap();
        }
        let config = directory.path().join("bus.conf");
        fs::write(&config, configuration(directory.path(), &services)).unwrap();
        let started = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--print-address"])
            .stdout(Stdio::piped())
            .spawn();
        let mut process = match started {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return skip("this test needs dbus-daemon");
            }
            started => started.unwrap(),
        };
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        assert!(!address.is_empty(), "dbus-daemon did not start");
        Some(Daemon {
            process,
            address: Address::At(address.trim().to_owned()),
            _directory: directory,
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The address, as DBUS_SYSTEM_BUS_ADDRESS has it.
    pub fn text(&self) -> &str {
        match &self.address {
            Address::At(address) => address,
            Address::System => unreachable!("a private bus"),
        }
    }

    /// Runs this on a connection of another program's kind.
    pub fn connected<T>(&self, work: impl AsyncFnOnce(Connection) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let builder = zbus::connection::Builder::address(self.text()).unwrap();
            work(builder.build().await.unwrap()).await
        })
    }

    /// Ends the bus.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.process)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have been ended by the test; a panic here would hide the test's.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn skip(why: &str) -> Option<Daemon> {
    common::skipped(why);
    None
}

/// The defaults of a system bus, the policy that is shipped, and a place for a polkit. It is the users' session bus, too,
/// with a place for a notification daemon.
fn configuration(directory: &Path, services: &Path) -> String {
    let shipped: PathBuf = Path::new(common::TREE).join("dist/org.paralfetch.Paralfetch1.conf");
    format!(
        r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={directory}/bus</listen>
  <auth>EXTERNAL</auth>
  <servicedir>{services}</servicedir>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
    <allow send_destination="org.freedesktop.Notifications"/>
  </policy>
  <policy user="root">
    <allow own="org.freedesktop.PolicyKit1"/>
    <allow own="org.freedesktop.Notifications"/>
    <allow send_destination="org.freedesktop.PolicyKit1"/>
  </policy>
  <include>{shipped}</include>
</busconfig>
"#,
        directory = directory.display(),
        services = services.display(),
        shipped = shipped.display(),
    )
}
