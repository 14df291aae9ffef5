//! `service`: the system service.

use std::error::Error;
use std::path::Path;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::Failure;
use super::args::ServiceArgs;
use crate::drive::Sysfs;
use crate::service::bus::Address;
use crate::service::config::{Config, LogLevel};
use crate::service::{Places, run};

/// Runs until a signal asks to end.
pub fn main(state_dir: &Path, args: ServiceArgs) -> Result<(), Failure> {
    let places = Places {
        state_dir: state_dir.to_owned(),
        config_dir: args.config_dir,
        run_dir: args.run_dir,
        sysfs: Sysfs::default(),
    };
    serve(&places, (!args.no_bus).then(Address::default)).map_err(Failure::own)
}

/// The service with its log, until a signal asks it to end: `paralfetch service` in other places.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub fn serve(places: &Places, bus: Option<Address>) -> Result<(), Box<dyn Error>> {
    // A configuration that is wrong is told by `run`.
    let level =
        Config::load(&places.config_dir).map_or(LogLevel::default(), |config| config.log.level);
    log_to_journal(level)?;
    Ok(run(places, bus)?)
}

/// To the journal with all fields, where we write to it anyway; else to standard error.
fn log_to_journal(level: LogLevel) -> Result<(), TryInitError> {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let registry = tracing_subscriber::registry().with(level);
    let in_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    match tracing_journald::layer() {
        Ok(journal) if in_journal => registry.with(journal).try_init(),
        _ => {
            let text = tracing_subscriber::fmt::layer()
                .with_writer(std::io::stderr)
                .with_ansi(false)
                .without_time()
                .with_target(false);
            registry.with(text).try_init()
        }
    }
}
