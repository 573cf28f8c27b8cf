//! Numbers drawn from a seed.

/// A random number generator (SplitMix64). Equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// Returns a generator for this name. Generators of different names are independent.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(hash)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Draws a number from `least` to `most`.
    pub(crate) fn from(&mut self, least: i64, most: i64) -> i64 {
        let count = most.abs_diff(least) + 1;
        least + (self.next() % count) as i64
    }

    /// Draws an element of a list.
    pub(crate) fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[(self.next() % list.len() as u64) as usize]
    }

    /// Draws a number from 0 to 1.
    pub(crate) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
