//! The ends of watched names, as bits: what the programs in the kernel look at first.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use super::shared::{Shared, TAIL_WORDS};

/// What spreads ends over the bits (`PF_TAIL_FACTOR`).
const FACTOR: u32 = 2_654_435_761;

/// The bit of a last component of a path: of its last four bytes, the last one lowest, or of all its
/// bytes and the slash before them.
fn bit(name: &OsStr) -> usize {
    let ending = name.as_bytes().iter().rev().chain(b"/").take(4);
    let tail = ending
        .enumerate()
        .fold(0, |tail, (at, byte)| tail | u32::from(*byte) << (8 * at));
    (tail.wrapping_mul(FACTOR) >> 16) as usize
}

/// The words that say how these names end, by index; all others are 0.
pub(super) struct Tails(Box<[u64; TAIL_WORDS]>);

impl Tails {
    /// Of these names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a OsStr>) -> Self {
        let mut words = Box::new([0; TAIL_WORDS]);
        let bits: HashSet<usize> = names.into_iter().map(bit).collect();
        for bit in bits {
            words[bit / 64] |= 1 << (bit % 64);
        }
        Tails(words)
    }

    /// Has these looked for beside those that are.
    pub fn add(&self, shared: &Shared<'_>) {
        for (index, word) in self.0.iter().enumerate() {
            shared.name_tails(index).fetch_or(*word, Ordering::Relaxed);
        }
    }

    /// Has these looked for and no others.
    pub fn set(&self, shared: &Shared<'_>) {
        for (index, word) in self.0.iter().enumerate() {
            shared.name_tails(index).store(*word, Ordering::Relaxed);
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
        let tail = kept
            .iter()
            .fold(0, |tail, byte| tail << 8 | u32::from(*byte));
        (tail.wrapping_mul(FACTOR) >> 16) as usize
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
        let tails = Tails::of(names.iter().map(OsStr::new));
        let set: u32 = tails.0.iter().map(|word| word.count_ones()).sum();
        assert!((400..=500).contains(&set), "{set}");
    }
}
