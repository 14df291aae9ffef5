//! How much is logged.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The least severe messages that are logged; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Failures that keep the service from its work.
    Error,
    /// Failures that concern one launch or app.
    Warn,
    /// Decisions of the service (learned, switched off, learned again), and a line for each launch of a
    /// managed app.
    #[default]
    Info,
    /// Also where launches begin, and which programs were left alone.
    Debug,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        })
    }
}
