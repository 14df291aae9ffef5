//! `[writes]`: whether drives that are being written are shielded.

use serde::{Deserialize, Serialize};

/// `[writes]`: whether drives that are being written are shielded, so that launches do not wait for other programs'
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WritesConfig {
    /// Whether anything is done at all.
    pub shield: bool,
}

impl Default for WritesConfig {
    fn default() -> Self {
        WritesConfig { shield: true }
    }
}
