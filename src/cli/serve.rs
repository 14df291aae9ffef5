//! `service`: the system service, with its log.

use std::error::Error;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::service::config::{Config, LogLevel};
use crate::service::control::bus::Address;
use crate::service::{Places, run};

/// Runs the service until a signal asks it to stop, and logs.
///
/// # Errors
/// When it cannot start, or cannot go on.
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
