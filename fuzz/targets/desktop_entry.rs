//! Hostile .desktop files: each is an entry or an error, and so is its command line.
use paralfetch::apps::desktop::{DesktopEntry, command_line};

pub fn check(data: &[u8]) {
    let exec = DesktopEntry::parse(data).ok().and_then(|entry| entry.exec);
    if let Some(Ok(words)) = exec.as_deref().map(command_line) {
        assert!(!words[0].is_empty());
    }
}
