//! Data that no layer can compress or leave out.

/// So many bytes, the same for each seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    // Marsaglia's xorshift64, which must not begin with zero.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
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
