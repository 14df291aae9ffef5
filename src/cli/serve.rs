//! `service`: the system service, with its log.

use std::error::Error;
use std::io;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::log_thread::LogLines;
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
    let lines = start_log(level)?;
    let ended = run(places, bus);
    if let Some(lines) = lines {
        lines.flush();
    }
    ended
}

/// Logs to the journal, with all fields, if standard error is connected to it; otherwise to standard error, by a thread,
/// which has the lines that it returns.
fn start_log(level: LogLevel) -> Result<Option<LogLines>, Box<dyn Error>> {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let registry = tracing_subscriber::registry().with(level);
    let in_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    match tracing_journald::layer() {
        Ok(journal) if in_journal => {
            registry.with(journal).try_init()?;
            Ok(None)
        }
        _ => {
            let lines = LogLines::start(io::stderr())?;
            let writer = lines.clone();
            let text = tracing_subscriber::fmt::layer()
                .with_writer(move || writer.clone())
                .with_ansi(false)
                .without_time()
                .with_target(false);
            registry.with(text).try_init()?;
            Ok(Some(lines))
        }
    }
}
