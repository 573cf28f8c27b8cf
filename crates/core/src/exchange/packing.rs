//! Packing of a response into segments, and their acknowledgements.

/// Oddities of a response's segments that cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Small writes that left in fewer segments.
    pub gathered: Option<Gathered>,
    /// Number of segments for which one acknowledgement came, at the median; `None` where there
    /// were too few.
    pub stride: Option<u32>,
}

/// Small writes several of which the kernel sent together, though none waited for an
/// acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// Bytes of a write.
    pub write: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of segments that they left in.
    pub segments: u64,
}
