//! Launches that other commands of this program make: `learn`, `run` and `bench` record, prefetch or measure them.
//!
//! The kernel side does not report them, so that /proc need not be asked at each launch. It knows the program by the numbers of
//! its inode. User space is told others by union file systems, and by btrfs, whose subvolumes the kernel side may not know.

use std::path::Path;

use super::roots::{Inode, executed};
use crate::fs::kind::FsKind;
use crate::fs::mounts::MountTable;
use crate::fs::support::Support;
use crate::process::task_state;

/// Tells launches that other commands make apart from launches of users.
pub struct OwnCommands {
    /// `None`: there are none.
    program: Option<Inode>,
}

impl OwnCommands {
    /// The commands of the program that this process executes, if it has any.
    pub fn of_this_program(has_commands: bool) -> Self {
        let this = || executed(Path::new("/proc/self"));
        OwnCommands {
            program: has_commands.then(this).flatten(),
        }
    }

    /// The program, if the kernel side knows it by these numbers.
    pub fn known_to_kernel(&self, mounts: &MountTable) -> Option<Inode> {
        let tells_the_inodes = |fs: &str| match Support::of(fs) {
            Support::Served(kind) => kind != FsKind::Btrfs,
            support => support == Support::Memory,
        };
        let program = self.program;
        program.filter(|(dev, _)| mounts.fs_type(*dev).is_some_and(tells_the_inodes))
    }

    /// Whether one of them has started the process, and is still there. To prefetch such a launch, or learn from it,
    /// would spoil what the command does, and count for its user's app.
    pub fn have_started(&self, pid: u32) -> bool {
        let Some(program) = self.program else {
            return false;
        };
        let Ok(Some(process)) = task_state(pid as i32) else {
            return false;
        };
        let parent = format!("/proc/{}", process.parent);
        executed(Path::new(&parent)) == Some(program)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_kernel_knows_the_program_where_files_have_its_numbers() {
        let mounts = |fs: &str| {
            let (dev, _) = OwnCommands::of_this_program(true).program.unwrap();
            let [major, minor] = [rustix::fs::major(dev), rustix::fs::minor(dev)];
            let line = format!("1 0 {major}:{minor} / / rw - {fs} none rw\n");
            MountTable::parse(line.as_bytes())
        };
        for (fs, is_known) in [
            ("ext4", true),
            ("tmpfs", true),
            ("btrfs", false),
            ("overlay", false),
            ("nfs4", false),
        ] {
            let own = OwnCommands::of_this_program(true);
            let known = own.known_to_kernel(&mounts(fs));
            assert_eq!(known, own.program.filter(|_| is_known), "{fs}");
        }
        let none = OwnCommands::of_this_program(false);
        assert_eq!(none.known_to_kernel(&mounts("ext4")), None);
    }

    #[test]
    fn children_of_the_program_are_told_from_others() {
        // This test is the program here.
        let own = OwnCommands::of_this_program(true);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(own.have_started(child.id()));
        assert!(!OwnCommands::of_this_program(false).have_started(child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!own.have_started(child.id()), "it has ended");
        assert!(!own.have_started(1));
    }
}
