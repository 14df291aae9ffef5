use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use zbus::zvariant::serialized::{Context, Data};
use zbus::zvariant::{LE, Value, to_bytes};

use super::*;
use crate::policy::Warmth;
use crate::service::history::{FileReads, Kind};

fn on_the_bus(value: &(impl Serialize + Type)) -> Data<'static, 'static> {
    to_bytes(Context::new_dbus(LE, 0), value).unwrap()
}

fn record() -> LaunchRecord {
    LaunchRecord {
        time_s: 7,
        app: "/usr/bin/gimp".to_owned(),
        kind: Kind::Prefetched,
        switches: Some(0),
        ..LaunchRecord::default()
    }
}

#[test]
fn unknown_numbers_have_no_member() {
    let data = on_the_bus(&record());
    let (members, _): (HashMap<String, Value<'_>>, _) = data.deserialize().unwrap();
    assert_eq!(members["switches"], Value::U64(0));
    assert_eq!(members["background_writes"], Value::Bool(false));
    for unknown in ["entries", "duration_us", "waiting_us", "own_reads"] {
        assert!(!members.contains_key(unknown), "{members:?}");
    }
    assert_eq!(
        json!(record()),
        json!({
            "time_s": 7, "uid": 0, "app": "/usr/bin/gimp", "kind": "prefetched", "warmth": "",
            "read_bytes": 0, "own_readaheads": 0,
            "switches": 0, "background_writes": false, "note": "",
        })
    );
}

#[test]
fn a_launchs_own_reads_are_dictionaries_in_it() {
    let launch = LaunchRecord {
        own_reads: Some(vec![FileReads {
            path: "/usr/lib/a.so".to_owned(),
            reads: 2,
            ..FileReads::default()
        }]),
        ..record()
    };
    let data = on_the_bus(&launch);
    let (members, _): (HashMap<String, Value<'_>>, _) = data.deserialize().unwrap();
    assert_eq!(members["own_reads"].value_signature(), "aa{sv}");
    let (read, _): (LaunchRecord, _) = data.deserialize().unwrap();
    assert_eq!(read, launch);
    assert_eq!(
        json!(launch)["own_reads"],
        json!([{
            "kind": "data", "path": "/usr/lib/a.so", "reads": 2, "bytes": 0, "not_in_profile_bytes": 0,
        }])
    );
    assert_eq!(
        serde_json::from_value::<LaunchRecord>(json!(launch)).unwrap(),
        launch
    );
}

#[test]
fn missing_members_are_the_default_and_unknown_members_are_skipped() {
    let foreign: HashMap<&str, Value<'_>> = [
        ("app", Value::from("/a")),
        ("invented", Value::from(vec!["later"])),
        ("gain_percent", Value::from(-3_i32)),
    ]
    .into();
    let data = on_the_bus(&foreign);
    let (app, _): (AppState, _) = data.deserialize().unwrap();
    let expected = AppState {
        app: "/a".to_owned(),
        gain_percent: Some(-3),
        ..AppState::default()
    };
    assert_eq!(app, expected);
    let foreign: HashMap<&str, Value<'_>> = [("app", Value::from(5_u32))].into();
    let data = on_the_bus(&foreign);
    assert!(data.deserialize::<AppState>().is_err(), "of another type");
}

#[test]
fn each_plan_and_request_has_its_word() {
    use crate::policy::{PhaseRequest, Plan};
    use crate::service::dictionary::{of_word, word};
    for name in ["learn", "prefetch", "withhold", "leave"] {
        assert_eq!(word(of_word::<Plan>(name)), name);
    }
    for name in ["learn", "prefetch", "disable"] {
        assert_eq!(word(of_word::<PhaseRequest>(name)), name);
    }
    assert_eq!(of_word::<PhaseRequest>("Learn"), None);
}

#[test]
fn changes_of_apps_survive_the_bus_and_json_and_later_words_are_changes() {
    let state = AppState {
        app: "/usr/bin/gimp".to_owned(),
        phase: "learning".to_owned(),
        ..AppState::default()
    };
    for kind in [ChangeKind::Added, ChangeKind::Changed, ChangeKind::Removed] {
        let change = AppChange::new(kind, state.clone());
        let data = on_the_bus(&change);
        assert_eq!(data.deserialize::<AppChange>().unwrap().0, change);
        assert_eq!(
            serde_json::from_value::<AppChange>(json!(change)).unwrap(),
            change
        );
    }
    let later: HashMap<&str, Value<'_>> = [("change", Value::from("renamed"))].into();
    let data = on_the_bus(&later);
    let (change, _): (AppChange, _) = data.deserialize().unwrap();
    assert_eq!(change, AppChange::default());
}

proptest! {
    #[test]
    fn launches_survive_the_bus_and_json(
        warmth in prop::option::of(prop_oneof![Just(Warmth::Cold), Just(Warmth::Partly), Just(Warmth::Warm)]),
        note in prop::option::of("[^\0]{1,20}"),
        entries in any::<Option<u64>>(),
        until_first_us in any::<Option<u64>>(),
        background_writes in any::<bool>(),
    ) {
        let launch = LaunchRecord {
            warmth, note, entries, until_first_us, background_writes, ..record()
        };
        let data = on_the_bus(&launch);
        prop_assert_eq!(&data.deserialize::<LaunchRecord>().unwrap().0, &launch);
        prop_assert_eq!(serde_json::from_value::<LaunchRecord>(json!(launch)).unwrap(), launch);
    }

    #[test]
    fn damaged_bytes_cause_no_panic(bytes in vec(any::<u8>(), 0..200)) {
        let data = Data::new(bytes, Context::new_dbus(LE, 0));
        // An error or any value.
        let _ = data.deserialize::<AppState>();
    }
}
