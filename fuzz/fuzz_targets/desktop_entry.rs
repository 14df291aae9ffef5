//! A .desktop file that anybody could have written is an entry or an error, and so is its command line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paralfetch::apps::desktop::{Entry, command_line};

fuzz_target!(|data: &[u8]| {
    if let Ok(entry) = Entry::parse(data)
        && let Some(Ok(words)) = entry.exec.as_deref().map(command_line)
    {
        assert!(!words[0].is_empty());
    }
});
