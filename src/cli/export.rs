//! `export`: profiles for other machines.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;

use super::profiles::{open_store, stored_profile, write_out};
use super::{Failure, output_file, say};
use crate::cli::format::{mib, text_of};
use crate::learn::{ExportedProfile, export};
use crate::model::{Learned, Profile};
use crate::profile::{Store, portable_name};

/// Writes the profile of one app.
pub fn one(
    state_dir: &Path,
    user: Option<u32>,
    app: &OsStr,
    output: Option<&Path>,
) -> Result<(), Failure> {
    check_root()?;
    let profile = stored_profile(state_dir, user, app)?;
    let store = open_store(state_dir)?.ok_or("nothing was learned yet")?;
    let text = text(&store, &profile)?;
    match output {
        Some(file) if file != Path::new("-") => write(file, &text),
        _ => write_out(&text),
    }
}

/// Writes the profiles of all apps, of each the one that was learned last, into a directory.
pub fn all(state_dir: &Path, user: Option<u32>, dir: &Path) -> Result<(), Failure> {
    check_root()?;
    let store = open_store(state_dir)?.ok_or("nothing was learned yet")?;
    let mut latest: BTreeMap<Vec<u8>, Profile> = BTreeMap::new();
    for stored in store.list()? {
        match stored.profile {
            Err(error) => say(&error.to_string()),
            Ok(profile) if user.is_some_and(|uid| uid != profile.app.uid) => {}
            Ok(profile) => {
                let known = latest.get(&profile.app.path);
                if known.is_none_or(|known| known.created < profile.created) {
                    latest.insert(profile.app.path.clone(), profile);
                }
            }
        }
    }
    fs::create_dir_all(dir)
        .map_err(|error| format!("cannot make the directory {}: {error}", dir.display()))?;
    let mut written = 0;
    for profile in latest.values() {
        let app = text_of(&profile.app.path);
        match text(&store, profile) {
            Ok(text) => {
                write(&dir.join(portable_name(&app)), &text)?;
                written += 1;
            }
            Err(failure) => say(&failure.message),
        }
    }
    write_out(&format!(
        "{written} of {} apps: exported into {}\n",
        latest.len(),
        dir.display()
    ))
}

fn check_root() -> Result<(), Failure> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(Failure::from(
            "exporting needs root, who alone reads profiles",
        )),
    }
}

/// The text of a profile, made of the launch sequence beside it. Says what it lacks.
fn text(store: &Store, profile: &Profile) -> Result<String, Failure> {
    let app = text_of(&profile.app.path);
    let refused =
        |why: &dyn std::fmt::Display| Failure::from(format!("{app} is not exported: {why}"));
    if profile.learned == Learned::Imported {
        return Err(refused(&"it was imported itself, and is not learned here"));
    }
    let sequence = store.load_latest_sequence(profile.app.key())?;
    let sequence = sequence.unwrap_or_else(|| profile.clone());
    let ExportedProfile {
        profile,
        left_out: (files, bytes),
        unnamed,
    } = export(&sequence).map_err(|why| refused(&why))?;
    if files > 0 {
        let bytes = mib(bytes);
        say(&format!(
            "{app}: without {files} files, {bytes}, that are not everybody's to read"
        ));
    }
    if unnamed > 0 {
        say(&format!(
            "{app}: without {unnamed} pages of metadata of which no name is known"
        ));
    }
    profile.to_text().map_err(|why| refused(&why))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = output_file::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::from(format!("cannot write {}: {error}", path.display())))
}
