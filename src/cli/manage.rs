//! `enable`, `relearn`, `disable`, `mode` and `pfsetmode`.

use std::path::Path;

use super::Failure;
use super::args::AppRequest;
use super::notification::Notification;
use super::page::short_name;
use super::profiles::write_out;
use super::service::{absolute_argument, app_argument, failed, service_or_files};
use super::terminal::joined;
use crate::cli::format::text_of;
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::ControlError;
use crate::service::control::bus::Client;

/// Prints or sets the mode.
pub fn mode(state_dir: &Path, mode: Option<Mode>) -> Result<(), Failure> {
    match mode {
        Some(mode) => {
            let service = service_or_files(state_dir, Client::start)?;
            service.set_mode(mode).map_err(failed)
        }
        // Who asks starts nothing.
        None => {
            let service = service_or_files(state_dir, Client::connect)?;
            write_out(&format!("{}\n", service.mode().map_err(failed)?))
        }
    }
}

/// Has an app of one user or of all learned, prefetched or left alone.
pub fn ask(state_dir: &Path, asked: AppRequest, request: PhaseRequest) -> Result<(), Failure> {
    let answer = id_of_asked(state_dir, &asked, request);
    if asked.notify {
        notification(&answer, request).show();
    }
    write_out(&joined(&[format!("{}: {}", answer?, done(request))]))
}

/// The id of the app, once it is done.
fn id_of_asked(
    state_dir: &Path,
    asked: &AppRequest,
    request: PhaseRequest,
) -> Result<String, Failure> {
    let (app, named) = (app_argument(&asked.app)?, absolute_argument(&asked.app)?);
    let service = service_or_files(state_dir, Client::start)?;
    let ask = |app| service.ask(asked.user.uid(), app, request);
    let id = match ask(&app) {
        // What a menu of the system shows it knows by the entry, wherever the program is.
        Err(ControlError::Unknown(why)) if app != named => match ask(&named) {
            Err(ControlError::Unknown(_)) => Err(ControlError::Unknown(why)),
            answer => answer,
        },
        answer => answer,
    };
    Ok(text_of(id.map_err(failed)?.as_bytes()))
}

fn done(request: PhaseRequest) -> &'static str {
    match request {
        PhaseRequest::Learn => "its next launch will be learned",
        PhaseRequest::Prefetch => "prefetched from now on, once it has been learned",
        PhaseRequest::Disable => "left alone from now on",
    }
}

/// The same for people who have clicked, and know no phases.
fn notification(answer: &Result<String, Failure>, request: PhaseRequest) -> Notification {
    let id = match answer {
        Ok(id) => id,
        Err(failure) => {
            return Notification {
                summary: "Paralfetch".to_owned(),
                body: failure.message.clone(),
            };
        }
    };
    let (will, body) = match request {
        PhaseRequest::Prefetch => (
            "will start faster",
            "Its next launch is learned, unless one was learned before; those after it are faster.",
        ),
        PhaseRequest::Learn => ("will be learned again", "Its next launch is learned anew."),
        PhaseRequest::Disable => (
            "will not start faster",
            "It is left alone from its next launch on.",
        ),
    };
    Notification {
        summary: format!("{} {will}", short_name(id)),
        body: body.to_owned(),
    }
}
