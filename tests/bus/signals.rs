use std::collections::HashMap;
use std::time::Duration;

use paralfetch::model::UserApp;
use paralfetch::policy::Plan;
use paralfetch::service::config::Mode;
use paralfetch::service::control::bus::{BusError, NAME, PATH};
use paralfetch::service::control::{AppChange, ChangeKind, ServiceSignal};
use tokio::time::timeout;
use zbus::export::ordered_stream::OrderedStreamExt;
use zbus::fdo::{DBusProxy, IntrospectableProxy, PropertiesProxy};
use zbus::names::InterfaceName;
use zbus::{MatchRule, Message, MessageStream};

use crate::fakes::{APP, OTHER, USER, launch, state};
use crate::{Served, as_nobody, as_user};
use common::until;

fn begun(pid: u32) -> ServiceSignal {
    begun_of(USER, pid)
}

fn begun_of(uid: u32, pid: u32) -> ServiceSignal {
    ServiceSignal::Begun {
        app: UserApp::new(uid, APP),
        pid,
        plan: Plan::Withhold,
    }
}

#[test]
fn launches_are_told_to_their_user_and_to_root_alone() {
    let Some(served) = Served::start() else {
        return;
    };
    let listen = || served.client().signals().unwrap();
    let (mut roots, mut users) = (listen(), as_nobody(listen));
    let mut others = as_user(OTHER, listen);
    // One who asks the bus for all signals of the service gets none of them, either.
    as_user(OTHER, || {
        served.daemon.connected(async |connection| {
            let mut messages = MessageStream::from(&connection);
            let bus = DBusProxy::new(&connection).await.unwrap();
            let rule = MatchRule::builder().interface(NAME).unwrap().build();
            bus.add_match_rule(rule).await.unwrap();
            for signal in [
                begun(1),
                ServiceSignal::Ended(launch(0)),
                begun_of(OTHER, 2),
            ] {
                assert!(served.bus.emit(signal));
            }
            // It blocks on a runtime of its own.
            let next = std::thread::scope(|scope| scope.spawn(|| others.next()).join().unwrap());
            assert_eq!(next.unwrap().unwrap(), begun_of(OTHER, 2));
            // Answered after what the bus had to pass on before.
            bus.get_id().await.unwrap();
            let mut received = Vec::new();
            while let Ok(Some(message)) = timeout(Duration::ZERO, messages.next()).await {
                received.push(message.unwrap());
            }
            let of_service =
                |message: &Message| message.header().interface().is_some_and(|of| of == NAME);
            assert!(!received.iter().any(of_service), "{received:?}");
        });
    });
    assert_eq!(users.next().unwrap().unwrap(), begun(1));
    for expected in [
        begun(1),
        ServiceSignal::Ended(launch(0)),
        begun_of(OTHER, 2),
    ] {
        assert_eq!(roots.next().unwrap().unwrap(), expected);
    }
    // Those who have left are no burden, and one user's listeners are bounded.
    drop(users);
    let many: Vec<_> = (0..17)
        .map(|_| as_nobody(|| served.client().signals()))
        .collect();
    assert_eq!(
        many.iter().filter(|listening| listening.is_ok()).count(),
        16
    );
    served.client().signals().unwrap();
}

#[test]
fn launches_are_told_until_the_service_stops() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut events = as_nobody(|| served.client().signals().unwrap());
    let bus = served.bus;
    assert!(bus.emit(begun(7)) && bus.emit(ServiceSignal::Ended(launch(USER))));
    assert_eq!(events.next().unwrap().unwrap(), begun(7));
    let ended = ServiceSignal::Ended(launch(USER));
    assert_eq!(events.next().unwrap().unwrap(), ended);
    // A signal that was emitted before the end arrives.
    bus.emit(begun(8));
    drop(bus);
    assert_eq!(events.next().unwrap().unwrap(), begun(8));
    assert!(matches!(events.next(), Some(Err(BusError::Gone))));
    assert!(events.next().is_none());
}

fn changed(kind: ChangeKind, uid: u32) -> ServiceSignal {
    ServiceSignal::AppChanged(AppChange::new(kind, state(uid)))
}

#[test]
fn changes_of_apps_are_told_to_their_user_and_to_root_alone() {
    let Some(served) = Served::start() else {
        return;
    };
    let listen = || served.client().signals().unwrap();
    let (mut roots, mut users) = (listen(), as_nobody(listen));
    let mut others = as_user(OTHER, listen);
    let changes = [
        changed(ChangeKind::Added, USER),
        changed(ChangeKind::Changed, OTHER),
    ];
    for change in changes.clone() {
        assert!(served.bus.emit(change));
    }
    let mut of_root: Vec<_> = (0..2).map(|_| roots.next().unwrap().unwrap()).collect();
    of_root.sort_by_key(|it| it.uid() != USER);
    assert_eq!(of_root, changes);
    assert_eq!(users.next().unwrap().unwrap(), changes[0]);
    assert_eq!(others.next().unwrap().unwrap(), changes[1]);
    // What was changed before the end is told.
    let removed = changed(ChangeKind::Removed, USER);
    assert!(served.bus.emit(removed.clone()));
    drop(served.bus);
    assert_eq!(users.next().unwrap().unwrap(), removed);
    assert!(matches!(users.next(), Some(Err(BusError::Gone))));
    assert!(matches!(others.next(), Some(Err(BusError::Gone))));
}

#[test]
fn a_flood_of_changes_is_few_signals_and_ends_with_the_last() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut users = as_nobody(|| served.client().signals().unwrap());
    let mut others = as_user(OTHER, || served.client().signals().unwrap());
    let change = |phase: &str| {
        let mut state = state(USER);
        state.phase = phase.to_owned();
        ServiceSignal::AppChanged(AppChange::new(ChangeKind::Changed, state))
    };
    // More than the queue of launches has room for.
    for _ in 0..10_000 {
        assert!(served.bus.emit(change("learning")));
    }
    assert!(served.bus.emit(change("disabled")));
    assert!(served.bus.emit(changed(ChangeKind::Added, OTHER)));
    assert_eq!(
        others.next().unwrap().unwrap(),
        changed(ChangeKind::Added, OTHER)
    );
    let received = users.by_ref().map(Result::unwrap);
    let mut count = 0;
    for signal in received {
        count += 1;
        if signal == change("disabled") {
            break;
        }
    }
    assert!(count < 1000, "{count} signals");
}

/// Anybody may send signals on a bus.
#[test]
fn signals_of_others_are_not_believed() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut events = served.client().signals().unwrap();
    as_nobody(|| {
        served.daemon.connected(async |connection| {
            let forged = ("/forged", 1_u32, "learn");
            connection
                .emit_signal(None::<&str>, PATH, NAME, "LaunchBegun", &forged)
                .await
                .unwrap();
            // Answered once the bus has passed the signal on.
            zbus::fdo::DBusProxy::new(&connection)
                .await
                .unwrap()
                .get_id()
                .await
                .unwrap();
        });
    });
    served.bus.emit(begun(9));
    assert_eq!(events.next().unwrap().unwrap(), begun(9));
}

#[test]
fn the_end_of_the_bus_is_noticed() {
    let Some(mut served) = Served::start() else {
        return;
    };
    let mut events = served.client().signals().unwrap();
    assert!(served.bus.emit(begun(1)));
    assert_eq!(events.next().unwrap().unwrap(), begun(1));
    served.daemon.kill();
    assert!(matches!(events.next(), Some(Err(BusError::Gone))));
    until("the service notices, too", || !served.bus.emit(begun(2)));
}

#[test]
fn introspection_names_every_member() {
    let Some(served) = Served::start() else {
        return;
    };
    let xml = served.daemon.connected(async |connection| {
        let proxy = IntrospectableProxy::builder(&connection)
            .destination(NAME)
            .unwrap()
            .path(PATH)
            .unwrap()
            .build()
            .await
            .unwrap();
        proxy.introspect().await.unwrap()
    });
    let (_, ours) = xml
        .split_once(&format!("<interface name=\"{NAME}\">"))
        .unwrap();
    let (ours, _) = ours.split_once("</interface>").unwrap();
    for (kind, members) in [
        (
            "method",
            "GetStatus ListApps ListLaunches GetProfile Ask Forget Listen SetMode Reload",
        ),
        ("signal", "LaunchBegun LaunchEnded AppChanged"),
        ("property", "Mode Version"),
    ] {
        assert_eq!(
            ours.matches(&format!("<{kind} ")).count(),
            members.split(' ').count(),
            "{ours}"
        );
        for member in members.split(' ') {
            assert!(
                ours.contains(&format!("<{kind} name=\"{member}\"")),
                "{member}: {ours}"
            );
        }
    }
    assert_eq!(ours.matches("type=\"aa{sv}\"").count(), 2, "{ours}");
    assert_eq!(ours.matches("type=\"a{sv}\"").count(), 4, "{ours}");
}

#[test]
fn a_change_of_the_mode_is_a_change_of_the_property() {
    let Some(served) = Served::start() else {
        return;
    };
    served.daemon.connected(async |connection| {
        let properties = PropertiesProxy::new(&connection, NAME, PATH).await.unwrap();
        let all = properties
            .get_all(InterfaceName::try_from(NAME).unwrap())
            .await
            .unwrap();
        let words: HashMap<String, String> = all
            .into_iter()
            .map(|(name, value)| (name, String::try_from(value).unwrap()))
            .collect();
        let expected = [("Mode", "manual"), ("Version", env!("CARGO_PKG_VERSION"))];
        assert_eq!(
            words,
            expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into()
        );
        let mut changes = properties.receive_properties_changed().await.unwrap();
        for mode in [Mode::Automatic, Mode::Manual] {
            *served.fake.mode.lock().unwrap() = mode;
            served.bus.mode_changed();
            assert_eq!(next_mode(&mut changes).await, mode.to_string());
        }
    });
}

async fn next_mode(changes: &mut zbus::fdo::PropertiesChangedStream) -> String {
    let change = changes.next().await.expect("a change");
    let arguments = change.args().unwrap();
    let mode = arguments.changed_properties().get("Mode").expect("of Mode");
    mode.downcast_ref::<String>().unwrap()
}
