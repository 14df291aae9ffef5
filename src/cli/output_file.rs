//! Files that a command makes where its user says.
//!
//! Root's commands write as root, and in a directory such as /tmp anybody may have put a link, or a file of his own, where
//! the file is to be.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::process::User;

/// Makes a file, or empties the one that is there: a regular file of this command's user, or of the one who called it
/// through sudo, that has no other name.
///
/// # Errors
/// As open(2): `ELOOP` for a symbolic link; and if something else is there.
pub fn create(path: &Path) -> io::Result<File> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        // A FIFO without a reader, or a device, must not be waited for.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let own = rustix::process::geteuid().as_raw();
    let users = [Some(own), User::invoking().map(|user| user.uid)];
    if let Some(why) = objection(&file.metadata()?, &users) {
        return Err(io::Error::other(why));
    }
    file.set_len(0)?;
    Ok(file)
}

fn objection(found: &Metadata, users: &[Option<u32>]) -> Option<&'static str> {
    if !found.is_file() {
        return Some("it is no regular file; name another");
    }
    if !users.contains(&Some(found.uid())) {
        return Some("it belongs to another user; name another");
    }
    (found.nlink() != 1).then_some("it has other names, too (hard links); name another")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_made_or_emptied_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for text in ["long text", "short"] {
            create(&path("file"))
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
            assert_eq!(fs::read_to_string(path("file")).unwrap(), text);
        }
        fs::write(path("target"), "kept").unwrap();
        fs::hard_link(path("target"), path("hard")).unwrap();
        std::os::unix::fs::symlink("target", path("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        for name in ["hard", "link", "fifo", "."] {
            assert!(create(&path(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(path("target")).unwrap(), "kept");
        let found = fs::metadata(path("file")).unwrap();
        assert!(objection(&found, &[Some(found.uid() + 1), None]).is_some());
    }
}
