//! How a response was put into segments, and how those were acknowledged.

/// What is odd about a response's segments and costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Small writes that left in fewer segments.
    pub gathered: Option<Gathered>,
    /// Segments for which one acknowledgement came, at the median; `None`
    /// where there were too few.
    pub stride: Option<u32>,
}

/// Small writes of which the kernel sent several together, though none waited
/// for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// Bytes of a write.
    pub write: u64,
    /// How many writes it took.
    pub writes: u64,
    /// How many segments they left in.
    pub segments: u64,
}
