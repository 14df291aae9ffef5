//! `service`: the system service.

use std::error::Error;
use std::path::Path;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::Failure;
use super::args::ServiceArgs;
use crate::drive::Sysfs;
use crate::service::config::{Config, LogLevel};
use crate::service::control::bus::Address;
use crate::service::{Places, run};

/// Runs the service until a signal asks it to stop.
pub fn main(state_dir: &Path, args: ServiceArgs) -> Result<(), Failure> {
    let places = Places {
        state_dir: state_dir.to_owned(),
        config_dir: args.config_dir,
        run_dir: args.run_dir,
        sysfs: Sysfs::default(),
    };
    serve(&places, (!args.no_bus).then(Address::default)).map_err(Failure::own)
}

/// Runs the service with its log until a signal asks it to stop, on other files than the system's.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub fn serve(places: &Places, bus: Option<Address>) -> Result<(), Box<dyn Error>> {
    // `run` reports a configuration that is wrong.
    let level =
        Config::load(&places.config_dir).map_or(LogLevel::default(), |config| config.log.level);
    log_to_journal(level)?;
    run(places, bus)
}

/// Logs to the journal, with all fields, if standard error is connected to it; otherwise to standard error.
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
