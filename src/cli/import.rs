//! `import`: profiles that were exported elsewhere.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::profiles::{seed_places, write_out};
use super::service::tell_of_profiles;
use super::{Failure, say};
use crate::cli::format::text_of;
use crate::fs::node::O_LOOKUP;
use crate::fs::safe_open;
use crate::profile::{MAX_PORTABLE_BYTES, PortableProfile};

/// Imports each of the files. One that is refused hinders no other.
pub fn main(state_dir: &Path, root: Option<&Path>, files: &[PathBuf]) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::from(
            "importing needs root: an imported profile is everybody's",
        ));
    }
    let root = root.map(std::path::absolute).transpose()?;
    let mut refused = Vec::new();
    for file in files {
        match import(state_dir, root.as_deref(), file) {
            Ok(line) => write_out(&line)?,
            Err(why) => {
                let file = text_of(file.as_os_str().as_encoded_bytes());
                refused.push(format!("{file} is not imported: {why}"));
            }
        }
    }
    if refused.len() < files.len() {
        tell_of_profiles(state_dir);
    }
    // A failed command says its last line itself.
    let last = refused.pop();
    refused.iter().for_each(|line| say(line));
    last.map_or(Ok(()), |line| Err(Failure::from(line)))
}

/// Imports a file. Returns what is said of it.
fn import(state_dir: &Path, root: Option<&Path>, file: &Path) -> Result<String, String> {
    let portable = PortableProfile::parse(&read(file)?).map_err(|why| why.to_string())?;
    let fit = seed_places(state_dir).install(&portable, root)?;
    Ok(format!(
        "{}: imported: {}\n",
        text_of(portable.app.as_bytes()),
        fit.line()
    ))
}

/// What is in a file, of which so much is read that its length can be told from a longer one's.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let found = openat(CWD, path, O_LOOKUP, Mode::empty()).map_err(|error| error.to_string())?;
    let stat = fstat(&found).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err("it is a symbolic link".to_owned());
    }
    let opened = safe_open::regular(&found, OFlags::empty()).map_err(|error| error.to_string())?;
    let (file, _) = opened.ok_or("it is not a regular file")?;
    let mut bytes = Vec::new();
    let most = MAX_PORTABLE_BYTES as u64 + 1;
    let read = File::from(file).take(most).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| error.to_string())
}
