//! Which app a launch is.
//!
//! An app is known by its [`Key`]. For most programs that is the file executed. Launchers such as
//! python, java or flatpak execute the same file for many apps: [`Rules`] say which of their arguments
//! tells those apart, and see through wrappers such as `env`. [`desktop`] finds the applications that
//! the system has in its menus, and what a user means who names one.

pub mod desktop;
mod identify;
mod key;
mod lookup;
mod read;
mod rules;

pub use identify::Identity;
pub use key::Key;
pub use lookup::executable_in;
pub use read::ReadError;
pub use rules::{LAUNCHERS_DIR, LoadedRules, Rules, RulesError};
