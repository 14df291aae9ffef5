//! Data that no layer can compress or leave out.

use crate::random::SplitMix64;

/// `length` bytes, the same for each seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_repeats_by_seed() {
        assert_eq!(noise(11, 3), noise(11, 3));
        assert_ne!(noise(11, 3), noise(11, 4));
        assert_eq!((noise(0, 1).len(), noise(4097, 1).len()), (0, 4097));
    }
}
