//! Links that users have among their own commands, such as `~/bin/web`, which leads to a browser: names by which they launch
//! apps, in their own launches alone.
//!
//! A home is hostile: it is walked as its user could walk it, nothing in it is opened but these directories, and nothing is
//! looked up that a server or a user-space process would have to answer for.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, OFlags, fstat};

use super::roots::Inode;
use crate::fs::local_path::LocalFile;
use crate::fs::mounts::MountTable;
use crate::fs::safe_open::{SEARCH, directory_beneath, may};

/// Where the accounts are. Others, such as those of a directory server, have no names of their own here: the server might
/// not answer.
const ACCOUNTS: &str = "/etc/passwd";

/// Directories of commands in a home.
const DIRECTORIES: [&str; 2] = ["bin", ".local/bin"];

/// Most files that are looked at in one of them.
const MOST_FILES: usize = 1024;

/// Most links of one of them that count.
const MOST_LINKS: usize = 64;

/// A link of a user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnLink {
    /// Whose it is.
    pub uid: u32,
    /// Name of the link.
    pub name: String,
    /// The file that it leads to.
    pub inode: Inode,
}

/// The links of these users.
pub fn of_users(users: &[u32], mounts: &MountTable) -> Vec<OwnLink> {
    if users.is_empty() {
        return Vec::new();
    }
    let accounts = fs::read(ACCOUNTS).unwrap_or_default();
    let mut links = Vec::new();
    for &uid in users {
        let Some(home) = home_of(uid, &accounts) else {
            continue;
        };
        for directory in DIRECTORIES {
            let found = in_directory(uid, &home.join(directory), mounts);
            links.extend(found.unwrap_or_default());
        }
    }
    links
}

/// The home directory of a user, by the lines of the accounts.
fn home_of(uid: u32, accounts: &[u8]) -> Option<PathBuf> {
    let lines = accounts.split(|&byte| byte == b'\n');
    let homes = lines.filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let id = std::str::from_utf8(fields.nth(2)?).ok()?;
        (id.parse::<u32>() == Ok(uid)).then_some(fields.nth(2)?)
    });
    let mut homes = homes.map(|home| PathBuf::from(OsStr::from_bytes(home)));
    homes.next().filter(|home| home.is_absolute())
}

/// The links in a directory; `None` if it is not his own, or cannot be read.
fn in_directory(uid: u32, directory: &Path, mounts: &MountTable) -> Option<Vec<OwnLink>> {
    let may_search = |fd: &OwnedFd| fstat(fd).is_ok_and(|found| may(fd, &found, uid, SEARCH));
    let find = |path: &Path| LocalFile::find_through(path, mounts, may_search).ok();
    let found = find(directory)?;
    if found.node.kind != FileType::Directory || found.node.uid != uid {
        return None;
    }
    let listed = Dir::new(directory_beneath(&found.fd, ".", OFlags::NOATIME).ok()?).ok()?;
    let files = listed.take(MOST_FILES).filter_map(Result::ok);
    let links = files.filter(|file| file.file_type() == FileType::Symlink);
    let names = links.filter_map(|link| Some(link.file_name().to_str().ok()?.to_owned()));
    let link = |name: String| {
        let file = find(&found.path.join(&name))?;
        let inode = (file.node.dev, file.node.ino);
        (file.node.kind == FileType::RegularFile).then_some(OwnLink { uid, name, inode })
    };
    Some(names.filter_map(link).take(MOST_LINKS).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn homes_are_those_of_the_accounts() {
        let accounts = b"root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbroken\nx:x:7:7::away:\n";
        for (uid, home) in [
            (0, Some("/root")),
            (1000, Some("/home/ada")),
            (7, None),
            (8, None),
        ] {
            assert_eq!(home_of(uid, accounts), home.map(PathBuf::from), "{uid}");
        }
    }

    #[test]
    fn links_in_a_users_own_directory_lead_to_programs_and_those_in_others_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        fs::write(at("browser"), "").unwrap();
        fs::write(at("bin/plain"), "").unwrap();
        symlink("../browser", at("bin/web")).unwrap();
        symlink("..", at("bin/up")).unwrap();
        symlink("none", at("bin/none")).unwrap();
        let file = fs::metadata(at("browser")).unwrap();
        let mounts = MountTable::read().unwrap();
        let expected = OwnLink {
            uid: file.uid(),
            name: "web".to_owned(),
            inode: (file.dev(), file.ino()),
        };
        let bin = at("bin");
        assert_eq!(
            in_directory(file.uid(), &bin, &mounts),
            Some(vec![expected])
        );
        assert_eq!(in_directory(file.uid() + 1, &bin, &mounts), None);
        assert_eq!(in_directory(file.uid(), &at("browser"), &mounts), None);
        for number in 0..2 * MOST_LINKS {
            symlink("../browser", at("bin").join(number.to_string())).unwrap();
        }
        let links = in_directory(file.uid(), &bin, &mounts);
        assert_eq!(links.map(|links| links.len()), Some(MOST_LINKS));
    }
}
