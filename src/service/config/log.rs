//! How much is logged.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Least weighty messages that are logged; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// What keeps the service from its work.
    Error,
    /// What went wrong for one launch or app.
    Warn,
    /// What the service decides: learned, switched off, learned again; and a line for each launch of a
    /// managed app.
    #[default]
    Info,
    /// Where launches begin, and what was passed over.
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
