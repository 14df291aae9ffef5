//! Where the executables of apps are, and by which names they are executed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::own_links;
use super::roots::Inode;
use crate::apps::{CommandLinks, Rules};
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;

/// Where commands are looked for: a service has no user's PATH.
pub const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games";

/// Where an app's executable is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedExecutable {
    /// Path of the executable, without symbolic links.
    pub path: PathBuf,
    pub inode: Inode,
    /// The links among the commands that are other names of the app.
    pub links: Vec<PathBuf>,
    /// Whether the file is another app by each of its names: then only the name of the app is the app.
    pub is_many_apps: bool,
    /// Names of links that users have to it among their own commands, by user.
    pub own_names: Vec<(u32, String)>,
}

/// Executables by the ids of their apps.
pub type LocatedExecutables = HashMap<String, LocatedExecutable>;

/// Finds the executables of the apps with these ids, and the links that these users have to them.
///
/// # Errors
/// When the mount table cannot be read.
pub fn locate(ids: Vec<String>, users: &[u32], rules: &Rules) -> io::Result<LocatedExecutables> {
    let mounts = MountTable::read()?;
    // A user may decide where a link of the administrator's ends, at what never answers, too.
    let end = |link: &Path| Some(LocalFile::find_trusted(link, &mounts).ok()?.path);
    let links = CommandLinks::read(OsStr::new(PATH), end);
    let own_links = own_links::of_users(users, &mounts);
    let located = |id: String| {
        let file = executable(&id, &mounts)?;
        let inode = inode_of(&file);
        let own_names = own_links.iter().filter(|link| link.inode == inode);
        let executable = LocatedExecutable {
            inode,
            links: links.names_of(&file.path, rules),
            is_many_apps: links.is_many_apps(&file.path, rules),
            own_names: own_names
                .map(|link| (link.uid, link.name.clone()))
                .collect(),
            path: file.path,
        };
        Some((id, executable))
    };
    Ok(ids.into_iter().filter_map(located).collect())
}

/// An app's executable, if there is one and the kernel alone finds it. Where a user decides what the path leads to, it is a
/// program of his own or none: otherwise his link would be a name of a program of all users, or show whether there is one.
fn executable(id: &str, mounts: &MountTable) -> Option<LocalFile> {
    let file = LocalFile::find(Path::new(id), mounts);
    let file = file.inspect_err(|error| tracing::debug!(app = id, "no executable: {error}"));
    file.ok()
        .filter(|file| file.node.kind == FileType::RegularFile && file.is_its_owners())
}

fn inode_of(file: &LocalFile) -> Inode {
    (file.node.dev, file.node.ino)
}
