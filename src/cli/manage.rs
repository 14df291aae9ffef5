//! `enable`, `disable`, `mode` and `pfsetmode`.

use std::ffi::OsStr;
use std::path::Path;

use super::Failure;
use super::args::{self, Disable, Enable, Pfsetmode, SetMode};
use super::profiles::write_out;
use super::service::{app_argument, failed, service_or_files};
use crate::cli::format::text_of;
use crate::policy::PhaseRequest;
use crate::service::config::Mode;
use crate::service::control::bus::Client;

/// Has an app prefetched.
pub fn enable(state_dir: &Path, args: &Enable) -> Result<(), Failure> {
    ask(state_dir, &args.app, PhaseRequest::Prefetch)
}

/// Disables an app.
pub fn disable(state_dir: &Path, args: &Disable) -> Result<(), Failure> {
    ask(state_dir, &args.app, PhaseRequest::Disable)
}

/// Sets the phase of an app.
pub fn pfsetmode(state_dir: &Path, args: &Pfsetmode) -> Result<(), Failure> {
    ask(state_dir, &args.app, args.request)
}

/// Prints or sets the mode.
pub fn mode(state_dir: &Path, args: &SetMode) -> Result<(), Failure> {
    let Some(mode) = args.mode else {
        let mode = service_or_files(state_dir, Client::start)?
            .mode()
            .map_err(failed)?;
        return write_out(&format!("{mode}\n"));
    };
    let mode = match mode {
        args::ModeArg::Manual => Mode::Manual,
        args::ModeArg::Automatic => Mode::Automatic,
    };
    service_or_files(state_dir, Client::start)?
        .set_mode(mode)
        .map_err(failed)
}

fn ask(state_dir: &Path, app: &OsStr, request: PhaseRequest) -> Result<(), Failure> {
    let app = app_argument(app)?;
    let service = service_or_files(state_dir, Client::start)?;
    let name = text_of(service.ask(&app, request).map_err(failed)?.as_bytes());
    let done = match request {
        PhaseRequest::Learn => "its next launch will be learned",
        PhaseRequest::Prefetch => "prefetched from now on, once it has been learned",
        PhaseRequest::Disable => "left alone from now on",
    };
    write_out(&format!("{name}: {done}\n"))
}
