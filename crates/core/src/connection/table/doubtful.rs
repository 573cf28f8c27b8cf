//! Segments after a silence of their connection that may be a leap of the capture's clock.
//!
//! If the clock of the first one's sender says that hardly any time passed, it is held back with
//! those that follow it until the other end speaks, whose clock decides.

use crate::connection::{Connection, Leap, LeapEvidence, agreed};
use crate::observed::segment::Segment;

/// Maximum number of segments that are held back. The other end acknowledges more often.
const MOST: usize = 16;

/// A segment with the captured part of its payload.
pub(super) type Kept = (Segment, Box<[u8]>);

/// Segments that are held back, the first one first.
#[derive(Debug)]
pub(super) struct Doubtful {
    pub(super) held: Vec<Kept>,
    /// The nanoseconds of the silence that did not pass by the clock of their sender.
    excess_ns: i64,
}

/// What is to be done with a segment.
#[derive(Debug)]
pub(super) enum Judgment {
    /// The segment follows these ones, which were held back.
    Goes(Vec<Kept>),
    /// The segment is held back.
    Held,
    /// The clock has leapt. These ones, and then the segment, are the first behind the leap.
    Leapt(Leap, Vec<Kept>),
}

impl Doubtful {
    pub(super) fn held_bytes(&self) -> usize {
        let payloads = self.held.iter().map(|(_, payload)| payload.len());
        self.held.capacity() * size_of::<Kept>() + payloads.sum::<usize>()
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
            if let Some(leap) = connection.leap(segment) {
                return Judgment::Leapt(leap, Vec::new());
            }
            let Some(excess_ns) = connection.excess(segment) else {
                return Judgment::Goes(Vec::new());
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
        match before.leap(connection, segment) {
            Some(leap) => Judgment::Leapt(leap, before.held),
            None => Judgment::Goes(before.held),
        }
    }

    /// Returns the leap on which the clocks of both ends agree.
    fn leap(&self, connection: &Connection, segment: &Segment) -> Option<Leap> {
        let (first, _) = self.held.first()?;
        let is_other = first.direction != segment.direction;
        let excess_ns = connection.excess(segment).filter(|_| is_other)?;
        Some(Leap {
            by_ns: agreed(self.excess_ns, excess_ns)?,
            number: first.number,
            evidence: LeapEvidence::Proof,
        })
    }
}
