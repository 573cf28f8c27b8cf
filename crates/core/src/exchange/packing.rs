//! Packing of a response into segments, and their acknowledgements.

use super::Vacant;

/// Oddities of a response's segments that cost no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Small writes that left in fewer segments.
    pub gathered: Option<PackedWrites>,
    /// Median number of segments per acknowledgement; `None` if there were too few.
    pub stride: Option<u32>,
}

impl Vacant for Packing {
    const NOTHING: &'static Self = &Self {
        gathered: None,
        stride: None,
    };
}

/// Small writes, several of which the kernel sent together although none waited for an
/// acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedWrites {
    /// Size of a write in bytes.
    pub write: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of segments in which they left.
    pub segments: u64,
}
