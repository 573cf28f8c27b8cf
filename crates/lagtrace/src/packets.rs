//! Packets kept for a while, one behind the other.

use lagtrace_core::segment::Segment;

/// Segments and their payloads in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    segments: Vec<Segment>,
    /// Where each payload ends in `payloads`.
    ends: Vec<usize>,
    payloads: Vec<u8>,
}

impl Packets {
    /// Keeps a packet.
    pub(crate) fn push(&mut self, segment: &Segment, payload: &[u8]) {
        self.segments.push(*segment);
        self.payloads.extend_from_slice(payload);
        self.ends.push(self.payloads.len());
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// The memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.payloads.len() + self.len() * (size_of::<Segment>() + size_of::<usize>())
    }

    /// Packet `index` and its payload.
    pub(crate) fn at(&self, index: usize) -> Option<(&Segment, &[u8])> {
        let segment = self.segments.get(index)?;
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        Some((segment, self.payloads.get(start..end)?))
    }
}
