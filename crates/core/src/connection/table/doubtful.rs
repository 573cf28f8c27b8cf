//! Segments after a silence of their connection that may be a jump of the capture's clock.
//!
//! If the clock of the first one's sender says that hardly any time passed, it is held back with
//! those that follow it until the other end speaks, whose clock decides.

use crate::connection::{Connection, Jump, JumpEvidence, agreed};
use crate::observed::segment::Segment;

/// Maximum number of segments that are held back. The other end acknowledges more often.
const MOST: usize = 16;

/// A segment with the captured part of its payload.
pub(super) type KeptSegment = (Segment, Box<[u8]>);

/// Segments that are held back, the first one first.
#[derive(Debug)]
pub(super) struct Doubtful {
    pub(super) held: Vec<KeptSegment>,
    /// The nanoseconds of the silence that did not pass by the clock of their sender.
    excess_ns: i64,
}

/// The verdict on the time of a segment.
#[derive(Debug)]
pub(super) enum Judgment {
    /// The segment follows these ones, which were held back.
    Passes(Vec<KeptSegment>),
    /// The segment is held back.
    Held,
    /// The clock has jumped. These ones, and then the segment, are the first behind the jump.
    Jumped(Jump, Vec<KeptSegment>),
}

impl Doubtful {
    pub(super) fn held_bytes(&self) -> usize {
        let payloads = self.held.iter().map(|(_, payload)| payload.len());
        self.held.capacity() * size_of::<KeptSegment>() + payloads.sum::<usize>()
    }

    /// Judges a segment by its own time, and by those that were held back.
    #[cold]
    pub(super) fn judge(
        doubtful: &mut Option<Box<Self>>,
        connection: &Connection,
        segment: &Segment,
        payload: &[u8],
    ) -> Judgment {
        let Some(mut before) = doubtful.take() else {
            if let Some(jump) = connection.jump(segment) {
                return Judgment::Jumped(jump, Vec::new());
            }
            let Some(excess_ns) = connection.excess(segment) else {
                return Judgment::Passes(Vec::new());
            };
            let held = vec![(*segment, payload.into())];
            *doubtful = Some(Box::new(Self { held, excess_ns }));
            return Judgment::Held;
        };
        let direction = before.held.first().map(|(first, _)| first.direction);
        if direction == Some(segment.direction) && before.held.len() < MOST {
            before.held.push((*segment, payload.into()));
            *doubtful = Some(before);
            return Judgment::Held;
        }
        match before.jump(connection, segment) {
            Some(jump) => Judgment::Jumped(jump, before.held),
            None => Judgment::Passes(before.held),
        }
    }

    /// Returns the jump on which the clocks of both ends agree.
    fn jump(&self, connection: &Connection, segment: &Segment) -> Option<Jump> {
        let (first, _) = self.held.first()?;
        let is_other = first.direction != segment.direction;
        let excess_ns = connection.excess(segment).filter(|_| is_other)?;
        Some(Jump {
            by_ns: agreed(self.excess_ns, excess_ns)?,
            number: first.number,
            evidence: JumpEvidence::Proof,
        })
    }
}
