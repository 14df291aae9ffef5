//! Launches that other commands of this program make: `learn`, `run` and `bench` record, prefetch or measure them.

use std::path::Path;

use super::roots::{Inode, executed};
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
