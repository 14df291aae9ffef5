//! The applications that are launched, from a data file (`apps.toml`).

mod bus;
mod start;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::data_file::parse_toml;
use crate::display::WindowRule;

pub use bus::SessionBus;
pub use start::{Start, Started};

/// The apps that are known without being told.
const BUILT_IN: &str = include_str!("../../apps.toml");

/// An application and how its launch is recognised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Short name: letters, digits and hyphens.
    pub name: String,
    /// Name in reports.
    pub title: String,
    /// Debian packages that it needs in the image.
    pub packages: Vec<String>,
    /// Program and arguments, in the image, as root.
    pub command: Vec<String>,
    /// The program that is the app, where the command begins with another that executes it.
    #[serde(default)]
    pub program: Option<String>,
    /// The user as whom that program executes the app: the service keeps its profile for this user.
    #[serde(default)]
    pub uid: u32,
    /// The app's main window; without one, the launch ends when the program exits.
    pub window: Option<WindowRule>,
    /// Whether it starts in a session with a bus, over which it starts helpers.
    #[serde(default)]
    pub bus: bool,
    /// Environment beside that which all apps have.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files below the image's root that get it past its first-run dialogs: path and content.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Shell commands in the image before its first run.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Not part of "all apps".
    #[serde(default)]
    pub extra: bool,
}

/// Environment of every app. Apps without a session bus do without what needs one, as quickly as they can: a
/// bus that they started themselves would be part of the launch.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games",
    ),
    ("DBUS_SESSION_BUS_ADDRESS", "disabled:"),
    ("NO_AT_BRIDGE", "1"),
    ("GIO_USE_VFS", "local"),
];

/// The environment of apps that are started together on a display.
pub fn environment(apps: &[App], display: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = ENVIRONMENT
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    all.insert("DISPLAY".to_owned(), display.to_owned());
    if apps.iter().any(|app| app.bus) {
        all.insert(
            "DBUS_SESSION_BUS_ADDRESS".to_owned(),
            bus::ADDRESS.to_owned(),
        );
        for unneeded in ["NO_AT_BRIDGE", "GIO_USE_VFS"] {
            all.remove(unneeded);
        }
    }
    for app in apps {
        all.extend(app.environment.clone());
    }
    all
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    app: Vec<App>,
}

/// The apps of a data file.
///
/// # Errors
/// Names the app that is wrong, or the line of what is no TOML, and says what to do.
pub fn parse(text: &str) -> Result<Vec<App>> {
    let File { app: apps } =
        parse_toml(text).context("this is no list of apps as lab/apps.toml describes it")?;
    for (index, app) in apps.iter().enumerate() {
        judge(app, &apps[..index])?;
    }
    Ok(apps)
}

fn judge(app: &App, before: &[App]) -> Result<()> {
    let name = &app.name;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    ensure!(
        !name.is_empty() && name.chars().all(is_word),
        "'{name}' is no name for an app: use letters, digits and hyphens"
    );
    ensure!(
        before.iter().all(|other| other.name != *name),
        "there are two apps called '{name}': give one another name"
    );
    ensure!(
        !app.command.is_empty(),
        "the app '{name}' has no command: name the program and its arguments"
    );
    if let Some(path) = app.files.keys().find(|path| !path.starts_with('/')) {
        bail!("the app '{name}' has a file without absolute path: begin '{path}' with a slash");
    }
    Ok(())
}

/// The apps that come with the laboratory.
///
/// # Errors
/// Never, unless the built-in file is wrong, which a test would tell.
pub fn built_in() -> Result<Vec<App>> {
    parse(BUILT_IN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "
        [[app]]
        name = 'clock'
        title = 'Clock'
        packages = ['x11-apps']
        command = ['xclock']
        window = { class = 'XClock' }
    ";

    #[test]
    fn the_built_in_apps_are_right() {
        let apps = built_in().unwrap();
        assert_eq!(apps.iter().filter(|app| !app.extra).count(), 10);
    }

    #[test]
    fn a_few_lines_make_an_app() {
        let apps = parse(ONE).unwrap();
        assert_eq!(
            apps[0].window.as_ref().unwrap().class.as_deref(),
            Some("XClock")
        );
        assert!(!apps[0].extra && !apps[0].bus && apps[0].environment.is_empty());
    }

    #[test]
    fn only_apps_in_a_session_with_a_bus_have_its_address() {
        let address = |text: &str| {
            let apps = parse(text).unwrap();
            environment(&apps, ":9")["DBUS_SESSION_BUS_ADDRESS"].clone()
        };
        assert_eq!(address(ONE), "disabled:");
        assert_eq!(address(&format!("{ONE} bus = true")), bus::ADDRESS);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fails = |from: &str, to: &str| {
            let text = ONE.replace(from, to);
            format!("{:#}", parse(&text).unwrap_err())
        };
        let unknown = fails("title", "titel");
        assert!(
            unknown.contains("line 4: ") && unknown.contains("titel"),
            "{unknown}"
        );
        let name = fails("'clock'", "'a clock'");
        assert!(name.starts_with("'a clock' is no name"), "{name}");
        let command = fails("['xclock']", "[]");
        assert!(
            command.starts_with("the app 'clock' has no command"),
            "{command}"
        );
        let file = fails("window =", "files = { 'etc/clock' = '' }\n        window =");
        assert!(file.contains("'etc/clock'"), "{file}");
        let two = parse(&format!("{ONE}{ONE}")).unwrap_err().to_string();
        assert!(
            two.starts_with("there are two apps called 'clock'"),
            "{two}"
        );
    }
}
