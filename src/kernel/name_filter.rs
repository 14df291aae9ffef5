//! The filter of watched names: a bit for the end of each, which the programs in the kernel look at first.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use super::globals::{Globals, NAME_FILTER_WORDS};

/// Spreads ends over the bits (`PF_NAME_FILTER_FACTOR`).
const FACTOR: u32 = 2_654_435_761;

/// The bit of a last component of a path: of its last four bytes, the last one lowest, or of all its
/// bytes and the slash before them.
fn bit(name: &OsStr) -> usize {
    let ending = name.as_bytes().iter().rev().chain(b"/").take(4);
    let end = ending
        .enumerate()
        .fold(0, |end, (at, byte)| end | u32::from(*byte) << (8 * at));
    (end.wrapping_mul(FACTOR) >> 16) as usize
}

/// The bits of a set of names, in words.
pub(super) struct NameFilter(Box<[u64; NAME_FILTER_WORDS]>);

impl NameFilter {
    /// The filter for these names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a OsStr>) -> Self {
        let mut words = Box::new([0; NAME_FILTER_WORDS]);
        let bits: HashSet<usize> = names.into_iter().map(bit).collect();
        for bit in bits {
            words[bit / 64] |= 1 << (bit % 64);
        }
        NameFilter(words)
    }

    /// Adds these names to the filter.
    pub fn add(&self, globals: &Globals) {
        for (index, word) in self.0.iter().enumerate() {
            globals
                .name_filter(index)
                .fetch_or(*word, Ordering::Relaxed);
        }
    }

    /// Makes the filter pass these names and no others.
    pub fn set(&self, globals: &Globals) {
        for (index, word) in self.0.iter().enumerate() {
            globals.name_filter(index).store(*word, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the programs in the kernel find it, from a whole path.
    fn bit_of_path(path: &[u8]) -> usize {
        let (name, before) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[slash + 1..], &path[slash..]),
            None => (path, path),
        };
        let kept = &before[before.len().saturating_sub(4)..];
        assert!(kept.ends_with(&name[name.len().saturating_sub(4)..]));
        let end = kept.iter().fold(0, |end, byte| end << 8 | u32::from(*byte));
        (end.wrapping_mul(FACTOR) >> 16) as usize
    }

    #[test]
    fn a_name_has_the_bit_of_its_paths() {
        for name in ["a", "vi", "cat", "gimp", "soffice", "libreoffice"] {
            for dir in ["/usr/bin/", "/", "./bin/"] {
                let path = format!("{dir}{name}");
                let path = path.as_bytes();
                assert_eq!(bit_of_path(path), bit(OsStr::new(name)), "{dir}{name}");
            }
        }
    }

    #[test]
    fn many_names_leave_most_bits_free() {
        let names: Vec<String> = (0..500).map(|at| format!("program-{at}")).collect();
        let filter = NameFilter::of(names.iter().map(OsStr::new));
        let set: u32 = filter.0.iter().map(|word| word.count_ones()).sum();
        assert!((400..=500).contains(&set), "{set}");
    }
}
