use std::fs;
use std::sync::mpsc::channel;

use paralfetch::policy::PhaseRequest;
use paralfetch::service::config::Mode;
use paralfetch::service::control::bus::{Address, BusError, Client, NAME, PATH, serve};
use paralfetch::service::control::{ControlCall, ControlError, ServiceCalls};
use rustix::fs::{CWD, Mode as FileMode, mkfifoat};

use crate::daemon::Daemon;
use crate::fakes::{APP, Fake, OTHER, USER, launch, post, profile, state};
use crate::{Served, as_nobody, as_user};

#[test]
fn a_user_reads_his_own_and_root_reads_all() {
    let Some(served) = Served::start() else {
        return;
    };
    let read = |uid: u32, all: Option<u32>| {
        let client = served.client();
        let status = client.status().unwrap();
        let managed = 2 - u64::from(uid != 0);
        assert_eq!((status.version.as_str(), status.managed), ("9.9", managed));
        assert_eq!(
            status.warnings,
            ["a\u{fffd}b"],
            "NUL would end the connection"
        );
        assert_eq!(client.apps(Some(uid), None).unwrap(), [state(uid)]);
        assert_eq!(
            client.apps(Some(uid), Some("pf-painter")).unwrap(),
            [state(uid)]
        );
        assert_eq!(client.launches(all, None, 2).unwrap(), vec![launch(uid); 2]);
        assert_eq!(client.launches(all, Some(APP), 0).unwrap(), []);
        assert_eq!(client.mode().unwrap(), Mode::Manual);
    };
    as_nobody(|| read(USER, Some(USER)));
    read(0, None);
    let all = served.client().apps(None, Some("pf-painter")).unwrap();
    assert_eq!(all, [state(0), state(USER)]);
    assert!(served.fake.changed().is_empty());
}

#[test]
fn a_profile_is_its_users_and_roots() {
    let Some(served) = Served::start() else {
        return;
    };
    let of = |user| served.client().profile(user, "pf-painter");
    assert_eq!(as_nobody(|| of(Some(USER))), Ok(profile(USER)));
    for user in [Some(0), Some(OTHER), None] {
        let refused = as_nobody(|| of(user));
        assert!(
            matches!(refused, Err(ControlError::Refused(_))),
            "{refused:?}"
        );
    }
    let none = as_user(OTHER, || of(Some(OTHER)));
    assert_eq!(
        none,
        Err(ControlError::Unknown("no app pf-painter".to_owned()))
    );
    assert_eq!(of(None), Ok(profile(0)));
    // Names that he could not list are for the administrator alone.
    let asked = served.fake.changed();
    assert_eq!(
        asked,
        ["show pf-painter of 65534 by owner", "show pf-painter"]
    );
}

#[test]
fn what_belongs_to_others_is_refused_before_it_is_looked_up() {
    let Some(served) = Served::start() else {
        return;
    };
    let refused = |user: Option<u32>, app: &str| {
        let client = served.client();
        [
            client.apps(user, Some(app)).err(),
            client.launches(user, Some(app), 1).err(),
            client.apps(user, None).err(),
            client.launches(user, None, 1).err(),
            client.profile(user, app).err(),
            client.ask(user, app, PhaseRequest::Learn).err(),
            client.forget(user, app).err(),
        ]
    };
    for user in [None, Some(0), Some(USER)] {
        let known = as_user(OTHER, || refused(user, "pf-painter"));
        for error in &known {
            assert!(matches!(error, Some(ControlError::Refused(_))), "{error:?}");
        }
        assert_eq!(as_user(OTHER, || refused(user, "no-such-app")), known);
    }
    // Of his own, he is told the same of an app that others have as of one that nobody has.
    let own = |app: &str| as_user(OTHER, || served.client().apps(Some(OTHER), Some(app)));
    assert_eq!(
        own("pf-painter"),
        Err(ControlError::Unknown("no app pf-painter".to_owned()))
    );
    assert_eq!(
        own("pmig"),
        Err(ControlError::Unknown("no app pmig".to_owned()))
    );
    assert!(served.fake.changed().is_empty());
}

#[test]
fn errors_keep_their_kind() {
    let Some(served) = Served::start() else {
        return;
    };
    let client = served.client();
    let unknown = Err(ControlError::Unknown("no app /b".to_owned()));
    assert_eq!(client.apps(None, Some("/b")), unknown);
    let refused = Err(ControlError::Refused("not\u{fffd}this".to_owned()));
    assert_eq!(client.ask(None, "refused", PhaseRequest::Learn), refused);
    let failed = Err(ControlError::Failed("config.toml, line 3: no".to_owned()));
    assert_eq!(client.reload(), failed);
}

#[test]
fn arguments_and_answers_are_bounded() {
    let Some(served) = Served::start() else {
        return;
    };
    let client = served.client();
    let long = "x".repeat(4097);
    for app in ["", &long] {
        // An empty name stands for all apps.
        assert_eq!(client.apps(None, Some(app)).is_ok(), app.is_empty());
        assert!(matches!(
            client.forget(None, app),
            Err(ControlError::Failed(_))
        ));
        let asked = client.ask(None, app, PhaseRequest::Learn);
        assert!(
            matches!(&asked, Err(ControlError::Failed(why)) if why.contains("4096")),
            "{asked:?}"
        );
    }
    assert!(client.launches(None, Some(&long), 1).is_err());
    // At the bound it is looked up.
    assert!(matches!(
        client.apps(None, Some(&long[1..])),
        Err(ControlError::Unknown(_))
    ));
    assert_eq!(client.launches(None, None, u32::MAX).unwrap().len(), 1000);
    assert!(served.fake.changed().is_empty());
}

#[test]
fn a_user_who_calls_too_often_is_refused_and_others_are_answered() {
    let Some(served) = Served::start() else {
        return;
    };
    type Call = fn(&Client) -> Result<(), ControlError>;
    let calls: [Call; 3] = [
        |service| service.status().map(drop),
        |service| {
            service
                .ask(Some(USER), "pf-painter", PhaseRequest::Learn)
                .map(drop)
        },
        |service| service.forget(Some(USER), "pf-painter"),
    ];
    as_nobody(|| {
        let client = served.client();
        for call in calls {
            let refused = std::iter::repeat_with(|| call(&client)).find_map(Result::err);
            assert!(refused.unwrap().to_string().contains("too often"));
        }
    });
    for call in calls {
        call(&served.client()).unwrap();
    }
}

#[test]
fn only_one_service_and_only_roots_has_the_name() {
    let Some(served) = Served::start() else {
        return;
    };
    let second = serve(post(&served.fake), served.daemon.address());
    assert!(matches!(second, Err(BusError::NameTaken)));
    drop(served.bus);
    let address = served.daemon.address();
    let usurped = as_nobody(|| serve(post(&served.fake), address).err());
    assert!(matches!(usurped, Some(BusError::Bus(_))), "{usurped:?}");
    // The name was given back.
    drop(serve(post(&served.fake), address).unwrap());
}

#[test]
fn without_a_bus_or_a_service_there_is_no_client() {
    let Some(mut daemon) = Daemon::start() else {
        return;
    };
    assert!(Client::connect(daemon.address()).unwrap().is_none());
    assert!(Client::start(daemon.address()).unwrap().is_none());
    daemon.kill();
    // Its socket is still there, and nobody behind it.
    assert!(Client::connect(daemon.address()).unwrap().is_none());
    assert!(matches!(
        serve(post(&Fake::shared()), daemon.address()),
        Err(BusError::NoBus { .. })
    ));
    let nowhere = Address::At("unix:path=/nonexistent/bus".to_owned());
    assert!(Client::connect(&nowhere).unwrap().is_none());
    let nonsense = Address::At("nonsense".to_owned());
    assert!(matches!(Client::connect(&nonsense), Err(BusError::Bus(_))));
}

#[test]
fn a_bus_that_does_not_answer_holds_nobody_up() {
    let Some(served) = Served::start() else {
        return;
    };
    let pid = served.daemon.pid();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let silent = Client::connect(served.daemon.address());
    // Nothing of this waits for the bus, either.
    let dropped = (0..10_000).filter(|_| !served.bus.mode_changed()).count();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert!(
        matches!(silent, Err(BusError::Silent { .. })),
        "it is stopped"
    );
    assert!(dropped > 0, "the queue is bounded");
}

#[test]
fn a_service_that_cannot_be_started_is_said_so() {
    let shipped = include_str!("../../dist/org.paralfetch.Paralfetch1.service");
    // Without systemd.
    let activation: String = shipped
        .lines()
        .filter(|line| !line.starts_with("SystemdService"))
        .map(|line| format!("{line}\n"))
        .collect();
    let Some(daemon) = Daemon::with_service(&activation) else {
        return;
    };
    assert!(Client::connect(daemon.address()).unwrap().is_none());
    let started = Client::start(daemon.address());
    assert!(matches!(started, Err(BusError::NotStarted(_))));
}

/// The bus keeps the call that the service was started for, and passes it on as soon as the service has
/// its name. At that time the service does not answer yet.
#[test]
fn the_call_that_starts_the_service_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let called = directory.path().join("called");
    mkfifoat(CWD, &called, FileMode::RUSR | FileMode::WUSR).unwrap();
    let activation = format!(
        "[D-BUS Service]\nName={NAME}\nUser=root\nExec=/bin/sh -c \"echo called >{}\"\n",
        called.display()
    );
    let Some(daemon) = Daemon::with_service(&activation) else {
        return;
    };
    let (loop_end, calls) = channel::<ControlCall>();
    let answer = std::thread::scope(|scope| {
        let call = scope.spawn(|| get_status(&daemon));
        assert_eq!(fs::read_to_string(&called).unwrap(), "called\n");
        let post = move |call| loop_end.send(call).is_ok();
        let _bus = serve(Box::new(post), daemon.address()).unwrap();
        // The event loop begins only now.
        Fake::shared().answer(calls.recv().unwrap());
        call.join().unwrap()
    });
    assert!(answer.is_ok(), "{answer:?}");
}

/// Calls the service without asking first whether it runs, as any program may.
fn get_status(daemon: &Daemon) -> zbus::Result<zbus::Message> {
    daemon.connected(async |bus| {
        bus.call_method(Some(NAME), PATH, Some(NAME), "GetStatus", &())
            .await
    })
}
