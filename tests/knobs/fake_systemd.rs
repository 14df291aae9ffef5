//! A systemd that has one service, on a bus of its own.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use tokio::sync::oneshot;
use zbus::zvariant::{OwnedObjectPath, OwnedValue};
use zbus::{fdo, interface};

pub const UNIT: &str = "backup.service";
const UNIT_PATH: &str = "/org/freedesktop/systemd1/unit/backup_2eservice";

/// What the service has.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    pub memory_high: u64,
    pub io_weight: u64,
    pub invocation: Vec<u8>,
    /// Files that this systemd has made of limits set at run time.
    pub drop_ins: Vec<PathBuf>,
    pub is_running: bool,
    /// Whether it answers no more.
    pub is_silent: bool,
    /// Memory limits are set to multiples of this.
    pub granularity: u64,
}

/// systemd on its bus; both end with this value.
pub struct FakeSystemd {
    bus: Child,
    address: String,
    unit: Arc<Mutex<Unit>>,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
    directory: TempDir,
}

impl FakeSystemd {
    /// `None` if there is no dbus-daemon.
    pub fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("bus.conf");
        fs::write(&config, configuration(directory.path())).unwrap();
        let started = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--print-address"])
            .stdout(Stdio::piped())
            .spawn();
        let mut bus = match started {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                common::skipped("this test needs dbus-daemon");
                return None;
            }
            started => started.unwrap(),
        };
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        let address = address.trim().to_owned();
        let unit = Arc::new(Mutex::new(Unit {
            memory_high: u64::MAX,
            io_weight: 100,
            invocation: vec![1; 16],
            is_running: true,
            granularity: 1,
            ..Unit::default()
        }));
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = sync_channel(1);
        let server = {
            let (address, unit) = (address.clone(), Arc::clone(&unit));
            let control = directory.path().join("system.control");
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime.unwrap().block_on(async {
                    let manager = Manager {
                        unit: Arc::clone(&unit),
                        control,
                    };
                    let builder = zbus::connection::Builder::address(address.as_str()).unwrap();
                    let _connection = builder
                        .name("org.freedesktop.systemd1")
                        .unwrap()
                        .serve_at("/org/freedesktop/systemd1", manager)
                        .unwrap()
                        .serve_at(UNIT_PATH, Names(Arc::clone(&unit)))
                        .unwrap()
                        .serve_at(UNIT_PATH, Limits(unit))
                        .unwrap()
                        .build()
                        .await
                        .unwrap();
                    ready.send(()).unwrap();
                    // An error means that the test has ended, too.
                    let _ = stopped.await;
                });
            })
        };
        is_ready.recv().unwrap();
        Some(FakeSystemd {
            bus,
            address,
            unit,
            stop: Some(stop),
            server: Some(server),
            directory,
        })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn unit(&self) -> MutexGuard<'_, Unit> {
        self.unit.lock().unwrap()
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the service anew. systemd keeps what was set at run time for services of the system, and forgets it
    /// with units that were themselves made at run time.
    pub fn restart_unit(&self, keeps_limits: bool) {
        let mut unit = self.unit();
        unit.invocation[0] += 1;
        if !keeps_limits {
            unit.memory_high = u64::MAX;
            for drop_in in std::mem::take(&mut unit.drop_ins) {
                fs::remove_file(drop_in).unwrap();
            }
        }
    }
}

impl Drop for FakeSystemd {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.server.take().map(JoinHandle::join);
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
}

struct Manager {
    unit: Arc<Mutex<Unit>>,
    /// Where it keeps what is set at run time.
    control: PathBuf,
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Manager {
    async fn get_unit(&self, name: &str) -> Result<OwnedObjectPath, SystemdError> {
        let silent = self.unit.lock().unwrap().is_silent;
        if silent {
            std::future::pending::<()>().await;
        }
        match name == UNIT && self.unit.lock().unwrap().is_running {
            true => Ok(OwnedObjectPath::try_from(UNIT_PATH).unwrap()),
            false => Err(SystemdError::NoSuchUnit(format!("Unit {name} not loaded."))),
        }
    }

    fn set_unit_properties(
        &self,
        name: &str,
        runtime: bool,
        properties: Vec<(String, OwnedValue)>,
    ) -> fdo::Result<()> {
        assert!(name == UNIT && runtime);
        let mut unit = self.unit.lock().unwrap();
        for (property, value) in properties {
            let value = u64::try_from(value).unwrap();
            match property.as_str() {
                "MemoryHigh" if value == u64::MAX => unit.memory_high = value,
                "MemoryHigh" => unit.memory_high = value - value % unit.granularity,
                "IOWeight" => unit.io_weight = value,
                _ => return Err(fdo::Error::InvalidArgs(property)),
            }
            let directory = self.control.join(format!("{UNIT}.d"));
            fs::create_dir_all(&directory).unwrap();
            let drop_in = directory.join(format!("50-{property}.conf"));
            fs::write(&drop_in, format!("[Service]\n{property}={value}\n")).unwrap();
            if !unit.drop_ins.contains(&drop_in) {
                unit.drop_ins.push(drop_in);
            }
        }
        Ok(())
    }
}

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum SystemdError {
    #[zbus(error)]
    ZBus(zbus::Error),
    NoSuchUnit(String),
}

struct Names(Arc<Mutex<Unit>>);

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl Names {
    #[zbus(property, name = "InvocationID")]
    fn invocation_id(&self) -> Vec<u8> {
        self.0.lock().unwrap().invocation.clone()
    }

    #[zbus(property)]
    fn drop_in_paths(&self) -> Vec<String> {
        let unit = self.0.lock().unwrap();
        let paths = unit.drop_ins.iter();
        paths
            .map(|path| path.to_str().unwrap().to_owned())
            .collect()
    }
}

struct Limits(Arc<Mutex<Unit>>);

#[interface(name = "org.freedesktop.systemd1.Service")]
impl Limits {
    #[zbus(property)]
    fn memory_high(&self) -> u64 {
        self.0.lock().unwrap().memory_high
    }

    #[zbus(property, name = "IOWeight")]
    fn io_weight(&self) -> u64 {
        self.0.lock().unwrap().io_weight
    }
}

/// A bus on which this user may do everything.
fn configuration(directory: &Path) -> String {
    format!(
        r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
  "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={}/bus</listen>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"#,
        directory.display()
    )
}
