use std::process::Command;

use paralfetch::policy::PhaseRequest;
use paralfetch::service::config::Mode;
use paralfetch::service::control::bus::{Action, Client, NAME, PATH};
use paralfetch::service::control::{ControlError, ServiceCalls};

use crate::fakes::{APP, Polkit, PolkitAnswer, USER};
use crate::{Served, as_nobody};

const ALLOW_INTERACTION: u32 = 1;

/// Everything that changes something, and what it asks polkit for.
type Change = (Action, fn(&Client) -> Result<(), ControlError>);

const CHANGES: [Change; 4] = [
    (Action::ManageApps, |service| {
        service
            .ask(None, "pf-painter", PhaseRequest::Disable)
            .map(drop)
    }),
    (Action::ManageApps, |service| {
        service.forget(None, "pf-painter")
    }),
    (Action::Configure, |service| {
        service.set_mode(Mode::Automatic)
    }),
    (Action::Configure, |service| service.reload()),
];

fn change_all(service: &Client) -> Vec<Result<(), ControlError>> {
    CHANGES.iter().map(|(_, change)| change(service)).collect()
}

#[test]
fn root_changes_without_asking() {
    let Some(served) = Served::start() else {
        return;
    };
    let polkit = Polkit::start(&served.daemon, PolkitAnswer(false, false));
    let client = served.client();
    assert_eq!(
        client.ask(None, "pf-painter", PhaseRequest::Learn).unwrap(),
        APP
    );
    change_all(&client);
    let expected = [
        "learn pf-painter",
        "disable pf-painter",
        "forget pf-painter",
        "automatic",
        "reload",
    ];
    assert_eq!(served.fake.changed(), expected);
    assert_eq!(client.mode().unwrap(), Mode::Automatic);
    assert!(polkit.questions.lock().unwrap().is_empty());
}

#[test]
fn a_user_changes_his_own_apps_without_a_question() {
    let Some(served) = Served::start() else {
        return;
    };
    let polkit = Polkit::start(&served.daemon, PolkitAnswer(false, true));
    as_nobody(|| {
        let client = served.client();
        let asked = client.ask(Some(USER), "pf-painter", PhaseRequest::Disable);
        assert_eq!(asked.unwrap(), APP);
        client.forget(Some(USER), "pf-painter").unwrap();
    });
    let expected = [
        "disable pf-painter of 65534 by owner",
        "forget pf-painter of 65534",
    ];
    assert_eq!(served.fake.changed(), expected);
    assert!(polkit.questions.lock().unwrap().is_empty());
}

#[test]
fn others_change_what_polkit_allows() {
    let Some(served) = Served::start() else {
        return;
    };
    let polkit = Polkit::start(&served.daemon, PolkitAnswer(true, false));
    as_nobody(|| change_all(&served.client()));
    let expected = [
        "disable pf-painter",
        "forget pf-painter",
        "automatic",
        "reload",
    ];
    assert_eq!(served.fake.changed(), expected);
    let asked = polkit.questions.lock().unwrap().clone();
    let expected = CHANGES.map(|(action, _)| {
        let kind = "system-bus-name".to_owned();
        (kind, action.id().to_owned(), ALLOW_INTERACTION)
    });
    assert_eq!(asked, expected);
}

#[test]
fn others_change_nothing_that_polkit_denies() {
    let Some(served) = Served::start() else {
        return;
    };
    let _polkit = Polkit::start(&served.daemon, PolkitAnswer(false, false));
    refused(&served, "polkit does not allow");
}

#[test]
fn without_polkit_only_root_changes_anything() {
    let Some(served) = Served::start() else {
        return;
    };
    refused(&served, "only root may");
}

fn refused(served: &Served, why: &str) {
    for outcome in as_nobody(|| change_all(&served.client())) {
        let said = matches!(&outcome, Err(ControlError::Refused(said)) if said.contains(why));
        assert!(said, "{outcome:?}");
    }
    assert!(served.fake.changed().is_empty());
    assert_eq!(served.client().mode().unwrap(), Mode::Manual);
}

/// Other programs than ours, and callers that do not want to be asked.
#[test]
fn nobody_is_asked_who_does_not_want_to_be() {
    let Some(served) = Served::start() else {
        return;
    };
    let polkit = Polkit::start(&served.daemon, PolkitAnswer(false, true));
    let call = as_nobody(|| {
        served.daemon.connected(async |bus| {
            bus.call_method(Some(NAME), PATH, Some(NAME), "Reload", &())
                .await
        })
    });
    let zbus::Error::MethodError(name, ..) = call.unwrap_err() else {
        panic!("no error of the service's");
    };
    let expected = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired";
    assert_eq!(name.as_str(), expected);
    assert_eq!(polkit.questions.lock().unwrap()[0].2, 0);
    assert!(served.fake.changed().is_empty());
}

#[test]
fn the_actions_are_those_of_the_policy_that_is_shipped() {
    let policy = include_str!("../../dist/org.paralfetch.policy");
    for (action, rule) in [
        (Action::ManageApps, "auth_admin_keep"),
        (Action::Configure, "auth_admin"),
    ] {
        let head = format!("<action id=\"{}\">", action.id());
        let (_, body) = policy.split_once(&head).expect(&head);
        let (body, _) = body.split_once("</action>").unwrap();
        let rules = body.matches(&format!(">{rule}<")).count();
        assert_eq!(rules, 3, "{body}");
    }
    // Well-formed.
    let parse = "import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])";
    let mut parser = Command::new("python3");
    parser
        .args(["-c", parse])
        .arg(common::TREE.to_owned() + "/dist/org.paralfetch.policy");
    common::succeed(&mut parser);
}
