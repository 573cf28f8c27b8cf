//! Segments in bulk, from the capturing thread to the consumer.

use std::fmt;

use lagtrace_core::segment::Segment;

/// Full with so many segments,
const MAX_SEGMENTS: usize = 4_096;
/// or with so many bytes of payload.
const MAX_PAYLOAD: usize = 2 * 1024 * 1024;

/// Some segments in the order they were captured, with their payloads.
#[derive(Default)]
pub struct Batch {
    segments: Vec<(Segment, usize)>,
    payloads: Vec<u8>,
}

impl Batch {
    /// The segments and what was captured of their payloads.
    pub fn segments(&self) -> impl Iterator<Item = (&Segment, &[u8])> {
        let mut rest = self.payloads.as_slice();
        self.segments.iter().map(move |(segment, len)| {
            let (payload, behind) = rest.split_at_checked(*len).unwrap_or_default();
            rest = behind;
            (segment, payload)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether a segment with so long a payload does not fit any more.
    pub(super) fn is_full_for(&self, payload: &[u8]) -> bool {
        self.segments.len() >= MAX_SEGMENTS
            || !self.is_empty() && self.payloads.len() + payload.len() > MAX_PAYLOAD
    }

    pub(super) fn push(&mut self, segment: Segment, payload: &[u8]) {
        self.segments.push((segment, payload.len()));
        self.payloads.extend_from_slice(payload);
    }

    pub(super) fn clear(&mut self) {
        self.segments.clear();
        self.payloads.clear();
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (segments, bytes) = (self.segments.len(), self.payloads.len());
        write!(f, "Batch of {segments} segments, {bytes} bytes of payload")
    }
}
