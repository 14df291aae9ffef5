//! Settings that a killed run has left changed.

use std::path::Path;

use super::messages::say;
use crate::drive::{ELEVATORS_DIR, restore_leftovers};
use crate::learn::RUN_DIR;
use crate::service::SHIELD_DIR;

/// Restores the settings that a killed run may have left changed.
pub fn restore_after_crash() {
    let run_dir = Path::new(RUN_DIR);
    for (dir, who) in [
        (run_dir.to_owned(), "learning run"),
        (run_dir.join(SHIELD_DIR), "launch beside writes"),
        (run_dir.join(ELEVATORS_DIR), "prefetch"),
    ] {
        match restore_leftovers(&dir) {
            Ok(0) => {}
            Ok(count) => {
                say(&format!(
                    "restored {count} settings that a killed {who} had left changed"
                ));
            }
            Err(error) => say(&error.to_string()),
        }
    }
}
