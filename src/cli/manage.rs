//! `enable`, `relearn`, `disable`, `mode` and `pfsetmode`.

use std::ffi::OsStr;
use std::path::Path;

use super::Failure;
use super::profiles::write_out;
use super::service::{absolute_argument, app_argument, failed, service_or_files};
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
pub fn ask(
    state_dir: &Path,
    user: Option<u32>,
    app: &OsStr,
    request: PhaseRequest,
) -> Result<(), Failure> {
    let (app, named) = (app_argument(app)?, absolute_argument(app)?);
    let service = service_or_files(state_dir, Client::start)?;
    let ask = |app: &str| service.ask(user, app, request);
    let id = match ask(&app) {
        // What a menu of the system shows it knows by the entry, wherever the program is.
        Err(ControlError::Unknown(why)) if app != named => {
            ask(&named).map_err(|_| ControlError::Unknown(why))
        }
        answer => answer,
    };
    let name = text_of(id.map_err(failed)?.as_bytes());
    let done = match request {
        PhaseRequest::Learn => "its next launch will be learned",
        PhaseRequest::Prefetch => "prefetched from now on, once it has been learned",
        PhaseRequest::Disable => "left alone from now on",
    };
    write_out(&format!("{name}: {done}\n"))
}
