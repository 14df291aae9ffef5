//! `show`, `list` and `forget`.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use super::args::{Forget, List, Show};
use super::{Failure, say, show as print};
use crate::profile::{Profile, Store};

/// Prints a profile.
pub fn show(state_dir: &Path, args: &Show) -> Result<(), Failure> {
    let store = Store::open(state_dir).map_err(Failure::own)?;
    let profile = find(&store, &args.app)?;
    let text = if args.json {
        format!("{:#}\n", print::json(&profile))
    } else {
        print::text(&profile)
    };
    write_out(&text)
}

/// Lists all profiles. Those that cannot be read are named on standard error.
pub fn list(state_dir: &Path, args: &List) -> Result<(), Failure> {
    let store = Store::open(state_dir).map_err(Failure::own)?;
    let mut profiles = Vec::new();
    for stored in store.list().map_err(Failure::own)? {
        match stored.profile {
            Ok(profile) => profiles.push(profile),
            Err(error) => say(&error.to_string()),
        }
    }
    profiles.sort_by(|a, b| (&a.app.path, &a.app.root).cmp(&(&b.app.path, &b.app.root)));
    let text = if args.json {
        let all: Vec<_> = profiles.iter().map(print::list_json).collect();
        format!("{:#}\n", serde_json::Value::from(all))
    } else {
        let lines: Vec<String> = profiles
            .iter()
            .map(|p| print::list_line(p) + "\n")
            .collect();
        lines.concat()
    };
    write_out(&text)
}

/// Removes a profile.
pub fn forget(state_dir: &Path, args: &Forget) -> Result<(), Failure> {
    let store = Store::open(state_dir).map_err(Failure::own)?;
    let profile = find(&store, &args.app)?;
    store.remove(profile.app.key()).map_err(Failure::own)?;
    Ok(())
}

fn find(store: &Store, app: &OsStr) -> Result<Profile, Failure> {
    store
        .find(app)
        .map_err(Failure::own)?
        .ok_or_else(|| no_profile(app))
}

fn no_profile(app: &OsStr) -> Failure {
    Failure::own(format!(
        "there is no profile of {}; `paralfetch list` shows those there are",
        Path::new(app).display()
    ))
}

/// Standard output; a reader that has gone away, such as `head`, is no failure.
pub fn write_out(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::own(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
