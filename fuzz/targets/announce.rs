//! Any bytes as announcements: what is accepted is harmless and reads the same again, and lines do
//! not depend on how they were cut. The first byte tells where to cut.
use paralfetch::service::announce::{Announcement, Lines, MAX_NAME, MAX_TEXT, parse};

pub fn check(input: &[u8]) {
    let Some((&at, bytes)) = input.split_first() else {
        return;
    };
    check_text(bytes);
    let (first, second) = bytes.split_at(usize::from(at).min(bytes.len()));
    let mut lines = Lines::default();
    let mut whole = Lines::default();
    lines.feed(first);
    lines.feed(second);
    whole.feed(bytes);
    while let Some(line) = whole.pop() {
        assert_eq!(lines.pop(), Some(line.clone()));
        if let Some(line) = line {
            assert!(line.len() <= MAX_TEXT);
            check_text(&line);
        }
    }
    assert_eq!(lines.pop(), None);
}

fn check_text(text: &[u8]) {
    let Some(announcement) = parse(text) else {
        return;
    };
    let Announcement { pid, name } = announcement;
    assert!((1..=MAX_NAME).contains(&name.len()));
    assert!(!name.starts_with(['.', '-']));
    assert!(!name.contains(['/', ':', ' ', '\0', '\n']));
    let pid = pid.map_or(0, |pid| pid.as_raw_nonzero().get());
    assert_eq!(
        parse(format!("{pid} {name}").as_bytes()),
        Some(announcement)
    );
}
