//! Hostile .desktop files: each is an entry or an error, and so is its command line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paralfetch::apps::desktop::{DesktopEntry, command_line};

fuzz_target!(|data: &[u8]| {
    let exec = DesktopEntry::parse(data).ok().and_then(|entry| entry.exec);
    if let Some(Ok(words)) = exec.as_deref().map(command_line) {
        assert!(!words[0].is_empty());
    }
});
