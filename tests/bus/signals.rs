use std::collections::HashMap;

use paralfetch::model::UserApp;
use paralfetch::policy::Plan;
use paralfetch::service::config::Mode;
use paralfetch::service::control::LaunchSignal;
use paralfetch::service::control::bus::{BusError, NAME, PATH};
use zbus::fdo::{IntrospectableProxy, PropertiesProxy};
use zbus::names::InterfaceName;

use crate::fakes::{APP, launch};
use crate::{Served, as_nobody, until};

fn begun(pid: u32) -> LaunchSignal {
    LaunchSignal::Begun {
        app: UserApp::new(1000, APP),
        pid,
        plan: Plan::Withhold,
    }
}

#[test]
fn launches_are_told_to_everybody_until_the_service_stops() {
    let Some(served) = Served::start() else {
        return;
    };
    let mut events = as_nobody(|| served.client().signals().unwrap());
    let bus = served.bus;
    assert!(bus.emit(begun(7)) && bus.emit(LaunchSignal::Ended(launch())));
    assert_eq!(events.next().unwrap().unwrap(), begun(7));
    let ended = LaunchSignal::Ended(launch());
    assert_eq!(events.next().unwrap().unwrap(), ended);
    // A signal that was emitted before the end arrives.
    bus.emit(begun(8));
    drop(bus);
    assert_eq!(events.next().unwrap().unwrap(), begun(8));
    assert!(matches!(events.next(), Some(Err(BusError::Gone))));
    assert!(events.next().is_none());
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
            let forged = ("/forged", 1_u32, 1_u32, "learn");
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
            "GetStatus ListApps GetApp ListLaunches Ask Forget SetMode Reload",
        ),
        ("signal", "LaunchBegun LaunchEnded"),
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
    assert_eq!(ours.matches("type=\"a{sv}\"").count(), 3, "{ours}");
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
    use zbus::export::ordered_stream::OrderedStreamExt;
    let change = changes.next().await.expect("a change");
    let arguments = change.args().unwrap();
    let mode = arguments.changed_properties().get("Mode").expect("of Mode");
    mode.downcast_ref::<String>().unwrap()
}
