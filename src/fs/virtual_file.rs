//! Files that the kernel makes when they are read, and whose size it gives as 0: those of /proc and of control groups.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Room for what most of them hold, in bytes: the kernel makes a page at a time.
const USUAL: usize = 4096;

/// The content of such a file. Without a size, std::fs::read begins with pieces of 32 bytes: ten system calls in place of
/// four, on the way from a launch to its first requests.
///
/// # Errors
/// When the file cannot be opened or read.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_at_most(path, u64::MAX)
}

/// At most `most` bytes from the beginning of such a file.
///
/// # Errors
/// When the file cannot be opened or read.
pub(crate) fn read_at_most(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(USUAL);
    // `take` hides that it is a file, whose size would be asked for.
    File::open(path)?.take(most).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_content_is_read_also_where_it_is_longer_than_usual() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for length in [0, 1, USUAL, USUAL + 1, 10 * USUAL] {
            let content: Vec<u8> = (0..length).map(|i| i as u8).collect();
            std::fs::write(&path, &content).unwrap();
            assert_eq!(read(&path).unwrap(), content, "{length}");
            let beginning = &content[..length.min(7)];
            assert_eq!(read_at_most(&path, 7).unwrap(), beginning, "{length}");
        }
        let long = read("/proc/self/smaps").unwrap();
        assert!(long.len() > USUAL && long.ends_with(b"\n"));
        assert!(read(dir.path().join("none")).is_err());
    }
}
