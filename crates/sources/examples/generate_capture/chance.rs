//! Random numbers, determined by a seed.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `limit`, exclusive.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns true once in `many` times on average.
    pub(crate) fn once_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Returns a random number, mostly near `middle`, and sometimes many times larger.
    pub(crate) fn skewed(&mut self, middle: u64) -> u64 {
        let doublings = self.below(4) + self.below(4);
        (middle << doublings) / 8 + self.below(middle.max(2) / 2)
    }
}
