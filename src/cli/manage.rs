//! `enable`, `relearn`, `disable`, `mode` and `pfsetmode`.

use std::path::Path;

use super::Failure;
use super::args::AppRequest;
use super::named;
use super::notification::Notification;
use super::page::short_name;
use super::profiles::write_out;
use super::service::{ServiceAccess, failed, hint_to_start, service_or_files};
use super::terminal::joined;
use crate::cli::format::text_of;
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::AppState;
use crate::service::control::bus::Client;

/// Prints or sets the mode.
pub fn mode(state_dir: &Path, mode: Option<Mode>) -> Result<(), Failure> {
    match mode {
        Some(mode) => {
            let service = service_or_files(state_dir, Client::start)?;
            service.calls.set_mode(mode).map_err(failed)
        }
        // Who asks starts nothing.
        None => {
            let service = service_or_files(state_dir, Client::connect)?;
            write_out(&format!("{}\n", service.calls.mode().map_err(failed)?))
        }
    }
}

/// Has an app of one user or of all learned, prefetched or left alone.
pub fn ask(state_dir: &Path, asked: AppRequest, request: PhaseRequest) -> Result<(), Failure> {
    let answer = service_or_files(state_dir, Client::start).and_then(|service| {
        let user = asked.user.uid();
        let ask = |app: &str| service.calls.ask(user, app, request);
        let id = named::ask(&service, user, &asked.app, ask)?;
        let done = done(&service, user, &id, request);
        Ok((text_of(id.as_bytes()), done))
    });
    if asked.notify {
        let id = answer.as_ref().map(|(id, _)| id.as_str());
        notification(id, request).show();
    }
    let (id, done) = answer?;
    write_out(&joined(&[format!("{id}: {done}")]))
}

/// What was done, and what comes next for an app in its state.
fn done(service: &ServiceAccess, user: Option<u32>, id: &str, request: PhaseRequest) -> String {
    let mut line = match service.calls.apps(user, Some(id)) {
        // Of several users' the one with a reason says most.
        Ok(apps) => what_comes(apps.iter().max_by_key(|app| !app.why.is_empty()), request),
        Err(why) => format!("done; what comes next cannot be told: {why}"),
    };
    if service.is_down {
        line += &format!(", once the service runs ({})", hint_to_start());
    }
    line
}

fn what_comes(app: Option<&AppState>, request: PhaseRequest) -> String {
    let (phase, why) = app.map_or(("", ""), |app| (&app.phase, &app.why));
    let what = match (request, phase) {
        (PhaseRequest::Disable, _) => "left alone from now on",
        // Why it cannot be learned.
        (_, "learning") if !why.is_empty() => why,
        (PhaseRequest::Prefetch, "prefetching") => "prefetched from its next launch on",
        (PhaseRequest::Prefetch, _) => {
            "its next launches are learned, those after them prefetched; it shows at the first launch after a boot"
        }
        (PhaseRequest::Learn, _) => "its next launch will be learned",
    };
    what.to_owned()
}

/// The answer for people who have clicked, and know no phases.
fn notification(answer: Result<&str, &Failure>, request: PhaseRequest) -> Notification {
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
        PhaseRequest::Learn => ("will be learned", "Its next launch is learned anew."),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_said_by_the_state_of_the_app() {
        let said = |phase: &str, why: &str, request| {
            let app = AppState {
                phase: phase.to_owned(),
                why: why.to_owned(),
                ..AppState::default()
            };
            what_comes(Some(&app), request)
        };
        let prefetched = said("prefetching", "", PhaseRequest::Prefetch);
        assert_eq!(prefetched, "prefetched from its next launch on");
        let new = said("learning", "", PhaseRequest::Prefetch);
        assert!(new.starts_with("its next launches are learned"), "{new}");
        assert_eq!(what_comes(None, PhaseRequest::Prefetch), new);
        assert_eq!(
            said("learning", "too long", PhaseRequest::Prefetch),
            "too long"
        );
        let left = said("learning", "too long", PhaseRequest::Disable);
        assert_eq!(left, "left alone from now on");
    }
}
