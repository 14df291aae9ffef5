//! `watch`: a line for each launch that begins or ends, and for each app that changes.

use serde_json::{Value, json};

use super::profiles::write_while_read;
use super::service::{failed, running};
use super::tables::{launch_line, user_column};
use super::terminal::{columns, joined};
use super::{Failure, say};
use crate::service::control::bus::BusError;
use crate::service::control::{ServiceSignal, word};

/// Prints a line for each signal until the service stops, the user interrupts or nobody reads any more.
pub fn main(json: bool) -> Result<(), Failure> {
    let shows_users = rustix::process::getuid().is_root();
    let signals = running()?.signals().map_err(failed)?;
    if !json && columns().is_some() {
        say("waiting for launches; Ctrl-C ends");
    }
    for signal in signals {
        let text = match signal {
            Ok(signal) if json => format!("{}\n", json_line(&signal)),
            Ok(signal) => joined(&[line(&signal, shows_users)]),
            Err(error @ BusError::Gone) => return Err(Failure::not_running(error)),
            Err(error) => {
                say(&error.to_string());
                continue;
            }
        };
        if !write_while_read(&text)? {
            break;
        }
    }
    Ok(())
}

fn line(signal: &ServiceSignal, shows_user: bool) -> String {
    match signal {
        ServiceSignal::Begun { app, pid, plan } => {
            let user = user_column(app.uid, shows_user);
            format!("begun {pid:>10} {:<9} {user}{}", word(plan), app.id)
        }
        ServiceSignal::Ended(launch) => format!("ended {}", launch_line(launch, shows_user)),
        ServiceSignal::AppChanged(change) => {
            let user = user_column(change.uid, shows_user);
            let (kind, phase) = (word(change.change), &change.phase);
            format!("app   {kind:>10} {phase:<11} {user}{}", change.app)
        }
    }
}

fn json_line(signal: &ServiceSignal) -> Value {
    match signal {
        ServiceSignal::Begun { app, pid, plan } => json!({
            // `begun`: a managed app is launched; with the members below.
            "type": "begun",
            // As of an `AppState`.
            "app": app.id,
            // As of an `AppState`.
            "uid": app.uid,
            // The process that was executed.
            "pid": pid,
            // What is done with the launch: `learn`, `prefetch`, `withhold` (for comparison) or `leave` (it is
            // counted).
            "plan": word(plan),
        }),
        ServiceSignal::Ended(launch) => {
            let mut value = json!(launch);
            // `ended`: a launch is over; with the members of a `LaunchRecord`. Programs that are not managed yet have
            // no `begun`.
            value["type"] = json!("ended");
            value
        }
        ServiceSignal::AppChanged(change) => {
            let mut value = json!(change);
            // `app-changed`: with the members of an `AppChange`.
            value["type"] = json!("app-changed");
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::control::{AppChange, ChangeKind};

    #[test]
    fn a_change_of_an_app_is_a_line() {
        let signal = ServiceSignal::AppChanged(AppChange {
            change: ChangeKind::Added,
            uid: 7,
            app: "/usr/bin/gimp".to_owned(),
            phase: "learning".to_owned(),
            ..AppChange::default()
        });
        assert_eq!(
            line(&signal, false),
            "app        added learning    /usr/bin/gimp"
        );
        let json = json_line(&signal);
        assert_eq!(
            (&json["type"], &json["change"], &json["uid"]),
            (&json!("app-changed"), &json!("added"), &json!(7))
        );
    }
}
