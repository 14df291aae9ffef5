//! `watch`: launches as they happen.

use serde_json::{Value, json};

use super::args::WatchArgs;
use super::profiles::write_out;
use super::service::running;
use super::status::{joined, launch_line};
use super::{Failure, say};
use crate::service::bus::{BusError, Event, plan_word};

/// Prints a line for each event until the service stops or we are interrupted.
pub fn main(args: &WatchArgs) -> Result<(), Failure> {
    for event in running()?.events().map_err(Failure::own)? {
        match event {
            Ok(event) if args.json => write_out(&format!("{}\n", json_line(&event)))?,
            Ok(event) => write_out(&joined(&[line(&event)]))?,
            Err(error @ BusError::Gone) => return Err(Failure::own(error)),
            Err(error) => say(&error.to_string()),
        }
    }
    Ok(())
}

fn line(event: &Event) -> String {
    match event {
        Event::Begun { app, pid, plan } => format!("begun {pid:>10} {:<9} {app}", plan_word(*plan)),
        Event::Ended(launch) => format!("ended {}", launch_line(launch)),
    }
}

fn json_line(event: &Event) -> Value {
    match event {
        Event::Begun { app, pid, plan } => json!({
            "type": "begun",
            "app": app,
            "pid": pid,
            "plan": plan_word(*plan),
        }),
        Event::Ended(launch) => {
            let mut value = json!(launch);
            value["type"] = json!("ended");
            value
        }
    }
}
