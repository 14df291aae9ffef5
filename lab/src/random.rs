//! Numbers that look random and are the same again for the same seed.

/// Steele, Lea and Flood's generator (OOPSLA 2014): small, and good enough to draw runs.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number, any of 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product maps evenly onto 0..end, but for 2⁻⁶⁴ of bias.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// As many values as there are, drawn with replacement.
    pub fn redraw(&mut self, values: &[f64]) -> Vec<f64> {
        let mut index = || self.below(values.len() as u64) as usize;
        (0..values.len()).map(|_| values[index()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values of the generator's authors for the seed 1234567.
    #[test]
    fn the_generator_is_splitmix() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_below_an_end_are_all_that_there_are() {
        let mut random = SplitMix64(1);
        let mut seen = [0; 5];
        for _ in 0..100 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
