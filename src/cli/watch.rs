//! `watch`: a line for each launch that begins or ends.

use serde_json::{Value, json};

use super::profiles::write_out;
use super::service::{failed, running};
use super::tables::{launch_line, user_column};
use super::terminal::joined;
use super::{Failure, say};
use crate::service::control::bus::BusError;
use crate::service::control::{LaunchSignal, word};

/// Prints a line for each signal until the service stops or the user interrupts.
pub fn main(json: bool) -> Result<(), Failure> {
    let shows_users = rustix::process::getuid().is_root();
    for signal in running()?.signals().map_err(failed)? {
        match signal {
            Ok(signal) if json => write_out(&format!("{}\n", json_line(&signal)))?,
            Ok(signal) => write_out(&joined(&[line(&signal, shows_users)]))?,
            Err(error @ BusError::Gone) => return Err(Failure::not_running(error)),
            Err(error) => say(&error.to_string()),
        }
    }
    Ok(())
}

fn line(signal: &LaunchSignal, shows_user: bool) -> String {
    match signal {
        LaunchSignal::Begun { app, pid, plan } => {
            let user = user_column(app.uid, shows_user);
            format!("begun {pid:>10} {:<9} {user}{}", word(plan), app.id)
        }
        LaunchSignal::Ended(launch) => format!("ended {}", launch_line(launch, shows_user)),
    }
}

fn json_line(signal: &LaunchSignal) -> Value {
    match signal {
        LaunchSignal::Begun { app, pid, plan } => json!({
            "type": "begun",
            "app": app.id,
            "uid": app.uid,
            "pid": pid,
            "plan": word(plan),
        }),
        LaunchSignal::Ended(launch) => {
            let mut value = json!(launch);
            value["type"] = json!("ended");
            value
        }
    }
}
