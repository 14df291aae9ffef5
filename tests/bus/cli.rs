use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use paralfetch::model::UserApp;
use paralfetch::policy::Plan;
use paralfetch::service::control::ServiceSignal;
use serde_json::Value;
use tokio::time::timeout;
use zbus::export::ordered_stream::OrderedStreamExt;
use zbus::fdo::MonitoringProxy;
use zbus::message::Type;
use zbus::{MatchRule, MessageStream};

use crate::Served;
use crate::fakes::{APP, OTHER, USER, launch};
use common::{PATIENCE, program};

pub fn paralfetch(address: &str, program: &str, arguments: &[&str]) -> Output {
    paralfetch_of(0, address, program, arguments)
}

fn paralfetch_of(uid: u32, address: &str, program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("DBUS_SYSTEM_BUS_ADDRESS", address)
        .uid(uid)
        .output()
        .unwrap()
}

impl Served {
    fn run(&self, arguments: &[&str]) -> String {
        self.run_as(program(), arguments)
    }

    fn run_as(&self, program: &str, arguments: &[&str]) -> String {
        let output = paralfetch(self.daemon.text(), program, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn commands_reach_the_service() {
    let Some(served) = Served::start() else {
        return;
    };
    assert!(served.run(&["enable", "pf-painter"]).starts_with(APP));
    served.run(&["disable", "pf-painter"]);
    assert_eq!(served.run(&["mode"]), "manual\n");
    served.run(&["mode", "automatic"]);
    assert_eq!(served.run(&["mode"]), "automatic\n");
    let expected = ["prefetch pf-painter", "disable pf-painter", "automatic"];
    assert_eq!(served.fake.changed(), expected);
    assert!(served.run(&["status"]).contains("2 apps managed"));
    let status: Value = serde_json::from_str(&served.run(&["status", "--json"])).unwrap();
    assert_eq!(status["mode"], "automatic");
    let of_app = served.run(&["status", "pf-painter"]);
    // It is named once for each user who has it, above its launches.
    assert_eq!(of_app.matches(APP).count(), 2, "{of_app}");
    assert_eq!(of_app.matches(" 1.234 s").count(), 20, "{of_app}");
    assert_eq!(of_app.matches("/usr/lib/libgimp.so").count(), 1, "{of_app}");
    assert_eq!(of_app, served.run(&["stats", "pf-painter"]));
    let page = served.run(&["plot", "-o", "-", "pf-painter"]);
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains(APP),
        "{page}"
    );
    assert!(page.contains("The newest 60 of 1000 launches"), "{page}");
    assert!(page.contains("/usr/lib/libgimp.so"), "{page}");
    let of_app = served.run(&["status", "--json", "--user", "nobody", "pf-painter"]);
    let of_app: Value = serde_json::from_str(&of_app).unwrap();
    assert_eq!(of_app["apps"].as_array().unwrap().len(), 1);
    assert_eq!(of_app["launches"][0]["uid"], 65534);
    let stats: Value = serde_json::from_str(&served.run(&["stats", "--json"])).unwrap();
    assert_eq!(stats["apps"][0]["gain_percent"], -12);
    assert_eq!(stats["launches"][999]["duration_us"], 1_234_000);
    let output = paralfetch(served.daemon.text(), program(), &["enable", "/no\nsuch"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
}

#[test]
fn commands_of_an_ordinary_user_are_about_his_own_apps() {
    let Some(served) = Served::start() else {
        return;
    };
    // Where everybody may execute it.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.path().join("paralfetch");
    common::copy_program(program(), &copy);
    let program = copy.to_str().unwrap();
    let of_user = |uid, arguments: &[&str]| {
        let output = paralfetch_of(uid, served.daemon.text(), program, arguments);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.success(), said.concat())
    };
    for command in ["enable", "relearn", "disable", "forget"] {
        let (succeeded, said) = of_user(USER, &[command, "pf-painter"]);
        assert!(succeeded, "{said}");
        // What another has does not exist for him.
        let (succeeded, said) = of_user(OTHER, &[command, "pf-painter"]);
        assert!(!succeeded && said.contains("no app pf-painter"), "{said}");
    }
    let changed =
        ["prefetch", "learn", "disable"].map(|word| format!("{word} pf-painter of 65534 by owner"));
    let changed = changed
        .into_iter()
        .chain(["forget pf-painter of 65534".to_owned()]);
    assert!(served.fake.changed().into_iter().eq(changed));
    for arguments in [
        &["list"][..],
        &["stats"],
        &["list", "--json"],
        &["status"],
        &["status", "pf-painter"],
    ] {
        let (succeeded, said) = of_user(USER, arguments);
        assert!(succeeded && !said.contains("root"), "{said}");
        assert!(said.contains(APP) || arguments == ["status"], "{said}");
    }
    let (succeeded, said) = of_user(USER, &["show", "pf-painter"]);
    assert!(
        succeeded && said.starts_with("app ") && said.contains("covered"),
        "{said}"
    );
    let (succeeded, said) = of_user(USER, &["show", "--json", "pf-painter"]);
    let shown: Value = serde_json::from_str(&said).unwrap();
    assert!(succeeded && shown["entries"].is_array(), "{said}");
    for other in [
        &["list", "--user", "root"][..],
        &["show", "--user", "root", "pf-painter"],
    ] {
        let (succeeded, said) = of_user(USER, other);
        assert!(!succeeded && said.contains("only root may"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
    let (succeeded, said) = of_user(OTHER, &["show", "pf-painter"]);
    assert!(!succeeded && said.contains("no app pf-painter"), "{said}");
    let nobody_answers = paralfetch_of(
        USER,
        "unix:path=/nonexistent/bus",
        program,
        &["show", "pf-painter"],
    );
    assert_eq!(nobody_answers.status.code(), Some(3));
    let said = String::from_utf8(nobody_answers.stderr).unwrap();
    assert!(
        said.contains("not running") && said.lines().count() == 1,
        "{said}"
    );
    // Root sees whose they are.
    let all = served.run(&["stats"]);
    assert!(
        all.contains("root       /usr/bin/pf-painter") && all.contains("nobody     /usr"),
        "{all}"
    );
    let one = served.run(&["stats", "--user", "nobody"]);
    assert!(!one.contains("root"), "{one}");
}

#[test]
fn pfsetmode_is_the_same_program_by_its_name() {
    let Some(served) = Served::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let pfsetmode = directory.path().join("pfsetmode");
    symlink(program(), &pfsetmode).unwrap();
    for phase in ["3", "1", "9"] {
        served.run_as(pfsetmode.to_str().unwrap(), &[phase, APP]);
        served.run(&["pfsetmode", phase, APP]);
    }
    let changed = served.fake.changed();
    let words: Vec<&str> = changed
        .iter()
        .map(|c| c.split_once(' ').unwrap().0)
        .collect();
    let expected = [
        "learn", "learn", "prefetch", "prefetch", "disable", "disable",
    ];
    assert_eq!(words, expected);
}

pub struct Watching(pub Child);

impl Drop for Watching {
    fn drop(&mut self) {
        // It ends with the service; this is for tests that fail.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn watch_prints_launches_until_the_service_stops() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut watching = None;
    served.daemon.connected(async |connection| {
        let mut messages = MessageStream::from(&connection);
        let monitor = MonitoringProxy::new(&connection).await.unwrap();
        let call = MatchRule::builder().member("Listen").unwrap().build();
        let reply = MatchRule::builder().msg_type(Type::MethodReturn).build();
        monitor.become_monitor(&[call, reply], 0).await.unwrap();
        let child = Command::new(program())
            .args(["watch", "--json"])
            .env("DBUS_SYSTEM_BUS_ADDRESS", served.daemon.text())
            .stdout(Stdio::piped())
            .spawn();
        watching = Some(Watching(child.unwrap()));
        let asked = async {
            let (mut listens, mut is_listening) = (None, false);
            while !is_listening {
                let message = messages.next().await.expect("the bus goes on").unwrap();
                let header = message.header();
                if header.member().is_some_and(|member| member == "Listen") {
                    listens = header.sender().map(ToString::to_string);
                }
                let receiver = header.destination().map(ToString::to_string);
                is_listening = message.message_type() == Type::MethodReturn
                    && listens.is_some()
                    && receiver == listens;
            }
        };
        timeout(PATIENCE, asked).await.expect("watch listens");
    });
    let mut watching = watching.unwrap();
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let bus = served.bus;
    bus.emit(ServiceSignal::Begun {
        app: UserApp::new(0, APP),
        pid: 7,
        plan: Plan::Learn,
    });
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let expected =
        serde_json::json!({ "type": "begun", "app": APP, "uid": 0, "pid": 7, "plan": "learn" });
    assert_eq!(first, expected);
    bus.emit(ServiceSignal::Ended(launch(0)));
    drop(bus);
    let last: Value = serde_json::from_str(&lines.last().unwrap().unwrap()).unwrap();
    assert_eq!(
        (&last["type"], &last["warmth"]),
        (&"ended".into(), &"cold".into())
    );
    assert_eq!(watching.0.wait().unwrap().code(), Some(3));
}

#[test]
fn without_a_service_that_is_said() {
    let nowhere = "unix:path=/nonexistent/bus";
    // What is asked of the service itself; the rest is done without it.
    for arguments in [&["status"], &["watch"]] {
        let output = paralfetch(nowhere, program(), arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        // As sd_booted(3).
        let hint = match Path::new("/run/systemd/system").is_dir() {
            true => "sudo systemctl start paralfetch",
            false => "sudo paralfetch service",
        };
        let expected = format!("paralfetch: the service is not running ({hint})\n");
        assert_eq!(text, expected);
    }
}
