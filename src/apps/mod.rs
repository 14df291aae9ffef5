//! Which app a launch is: the one place that decides it, for commands, service and laboratory alike.
//!
//! An app is known by its [`Key`](crate::model::Key). For most programs that is the executed file.
//! Launchers such as python, java or flatpak execute the same file for many apps: [`Rules`] say which of
//! their arguments tells those apart, and look through wrappers such as `env`. [`desktop`] finds the
//! applications that the system has in its menus, and the app that a user names.

mod command;
pub mod desktop;
mod identify;
mod launchers;
mod links;
mod lookup;

pub use command::{CommandApp, identify_command};
pub use launchers::{LAUNCHERS_DIR, Rules};
pub use links::CommandLinks;
