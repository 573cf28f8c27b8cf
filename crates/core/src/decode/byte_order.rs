//! Integers in either byte order, from slices that may be too short.

/// The byte order of a capture file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Big,
    Little,
}

impl ByteOrder {
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Big => u16::from_be_bytes(raw),
            Self::Little => u16::from_le_bytes(raw),
        })
    }

    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Big => u32::from_be_bytes(raw),
            Self::Little => u32::from_le_bytes(raw),
        })
    }

    #[inline]
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Big => u64::from_be_bytes(raw),
            Self::Little => u64::from_le_bytes(raw),
        })
    }
}
