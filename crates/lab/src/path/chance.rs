//! Random events, generated from a seed: the same seed gives the same sequence in every run.

/// A pseudorandom number generator: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), which works
/// equally well with every seed.
#[derive(Debug, Clone)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Draws 64 bits, each equally likely to be 0 or 1.
    pub(crate) fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Draws a random event of this probability; returns true if it occurs. With 0 it never occurs,
    /// and with 1 it always does.
    pub(crate) fn strikes(&mut self, share: f64) -> bool {
        // 2⁶⁴ · share; a float to integer cast saturates, so no share can overflow it.
        let threshold = (share * 18_446_744_073_709_551_616.0) as u128;
        u128::from(self.draw()) < threshold
    }

    /// Draws a number above 0 and up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// Distributes the bits of a number over all 64 bits.
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
