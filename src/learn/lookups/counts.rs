//! What became of a launch's paths, counted.

use serde::Serialize;

/// What became of a launch's paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paths {
    /// Paths, each counted once for the directory and the mount that it starts from.
    pub used: u64,
    /// Of these, those that start on a file system that is left out, or in a directory that is gone.
    pub elsewhere: u64,
    /// Of these, those that were looked up in another mount namespace, and walked through its mounts.
    pub sandboxed: u64,
    /// Of these, those looked up in another mount namespace through a mount that it had no longer in the
    /// end, as sandboxes do while they are set up. They were walked through our mounts: a namespace
    /// begins with copies of its parent's.
    pub set_up: u64,
    /// Of these, those looked up in another mount namespace that could not be entered, most often because
    /// it had ended before it could be held. They were walked through our mounts.
    pub foreign: u64,
    /// Of these, those that lead to a file system that is mounted in another mount namespace only.
    pub hidden: u64,
    /// Names looked up in directories, each counted once.
    pub look_ups: u64,
}

impl Paths {
    /// What a person should know about them, a line each.
    pub fn lines(&self) -> Vec<String> {
        let said = [
            (
                self.foreign,
                "were looked up in another mount namespace (a sandbox) that ended at once: where its \
                 mounts differed, their directories are not in the profile",
            ),
            (
                self.hidden,
                "lead to file systems that only a sandbox has mounted: mount them where paralfetch can \
                 see them to have them prefetched",
            ),
        ];
        said.into_iter()
            .filter(|&(count, _)| count > 0)
            .map(|(count, what)| format!("{count} of {} paths {what}", self.used))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_told() {
        let mut paths = Paths {
            used: 9,
            sandboxed: 5,
            set_up: 2,
            ..Paths::default()
        };
        assert_eq!(paths.lines(), Vec::<String>::new());
        paths.foreign = 1;
        paths.hidden = 3;
        let lines = paths.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("1 of 9 paths were looked up in another mount namespace"));
        assert!(lines[1].starts_with("3 of 9 paths lead to file systems that only a sandbox"));
    }
}
