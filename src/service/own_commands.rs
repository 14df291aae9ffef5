//! Launches that other commands of this program make: `learn`, `run` and `bench` record, prefetch or measure them.

use std::path::Path;

use super::roots::{Inode, executed};
use crate::process::task_state;

/// Tells them apart from launches of users.
pub struct OwnCommands {
    program: Option<Inode>,
}

impl OwnCommands {
    /// Those of the program that this process executes.
    pub fn of_this_program() -> Self {
        OwnCommands {
            program: executed(Path::new("/proc/self")),
        }
    }

    /// Whether one of them has started the process, and is still there. To prefetch such a launch, or learn from it,
    /// would spoil what the command does, and count for its user's app.
    pub fn have_started(&self, pid: u32) -> bool {
        let Ok(Some(process)) = task_state(pid as i32) else {
            return false;
        };
        let parent = format!("/proc/{}", process.parent);
        self.program.is_some() && executed(Path::new(&parent)) == self.program
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_of_the_program_are_told_from_others() {
        // This test is the program here.
        let own = OwnCommands::of_this_program();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(own.have_started(child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!own.have_started(child.id()), "it has ended");
        assert!(!own.have_started(1));
    }
}
