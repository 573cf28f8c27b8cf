//! The counter by which a host numbers the packets of all its connections.
//!
//! A gap in a connection's IP identifications means a loss only if the connection has a counter of
//! its own. If all connections of a host share one counter, a packet of one connection carries the
//! number after that of the last packet of another; this is visible only where connections are
//! compared.

use crate::observed::flow::Tag;
use crate::observed::segment::Segment;

/// Minimum run of consecutive numbers, each on a different connection from the last, that cannot be
/// coincidence: each has a chance of 1 in 65,536.
const LEAST_STEPS: u32 = 3;
/// Minimum share of changes from one connection to another at which the numbers continue, as a
/// fraction. The rest are losses and packets to other hosts. Separate counters that run in parallel
/// would match at every second change.
const MOST: (u32, u32) = (3, 4);
/// Maximum payload of a single segment on Ethernet, which most paths use. A longer segment was
/// several on the wire, each with a number of its own.
const USUAL_SEGMENT: u32 = 1460;
/// The minimum and maximum payload per packet on the wire, for a captured segment longer than one
/// packet (offload).
const PIECES: (u32, u32) = (536, 8948);

/// The numbering of a host's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    /// The connection of the last numbered packet.
    flow: Option<Tag>,
    /// The number of that packet, and the maximum difference to the next number.
    last: u16,
    ahead: (u16, u16),
    /// Number of times that the next packet belonged to a different connection, whatever number it
    /// had.
    changes: u32,
    /// Number of times that the next packet belonged to a different connection and had the next
    /// number.
    steps: u32,
}

impl Counter {
    /// Takes in a segment of the flow with this tag. Returns true if its sender's connections share
    /// a counter.
    #[inline]
    pub(super) fn observe(&mut self, segment: &Segment, flow: Tag) -> bool {
        let Some(id) = segment.ip.id.filter(|&id| id != 0) else {
            return false;
        };
        if self.flow != Some(flow) {
            self.change(id, flow);
        }
        (self.last, self.ahead) = (id, ahead(segment));
        let (part, of) = MOST;
        self.steps >= LEAST_STEPS
            && self.steps.saturating_mul(of) >= self.changes.saturating_mul(part)
    }

    /// Takes in the number of a packet of a different connection from the last.
    #[inline]
    fn change(&mut self, id: u16, flow: Tag) {
        if self.flow.replace(flow).is_some() {
            let (least, most) = self.ahead;
            let goes_on = (least..=most).contains(&id.wrapping_sub(self.last));
            self.changes = self.changes.saturating_add(1);
            self.steps = self.steps.saturating_add(u32::from(goes_on));
        }
    }
}

/// Returns the minimum and maximum count of numbers that a segment uses up.
#[inline]
fn ahead(segment: &Segment) -> (u16, u16) {
    if segment.payload_len <= USUAL_SEGMENT {
        return (1, 1);
    }
    let pieces = |len: u32| u16::try_from(segment.payload_len.div_ceil(len)).unwrap_or(u16::MAX);
    (pieces(PIECES.1), pieces(PIECES.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::observed::segment::IpFacts;
    use crate::observed::time::Timestamp;

    /// Returns for each of these packets (port, identification) whether its host is known by then
    /// to use one counter.
    fn shared(packets: &[(u16, u16)]) -> Vec<bool> {
        let mut counter = Counter::default();
        let take = |&(port, id): &(u16, u16)| {
            let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
            let segment = Segment {
                payload_len: 100,
                ip: IpFacts {
                    id: Some(id),
                    ..IpFacts::default()
                },
                ..Segment::sent(end(1, port), end(2, 80), Timestamp::default())
            };
            counter.observe(&segment, segment.flow.tag())
        };
        packets.iter().map(take).collect()
    }

    #[test]
    fn connections_that_go_on_from_each_other_share_a_counter() {
        let packets = [(1, 7), (2, 8), (2, 9), (1, 10), (3, 11)];
        assert_eq!(shared(&packets), [false, false, false, false, true]);
    }

    #[test]
    fn connections_with_counters_of_their_own_share_none() {
        // Of many, two match by coincidence.
        let own = (0..40_u16).map(|n| (n % 2, 1000 * (n % 2) + n / 2));
        let packets: Vec<_> = [(0, 999)].into_iter().chain(own).collect();
        assert!(shared(&packets).iter().all(|is_shared| !is_shared));
        // A single connection shows nothing.
        let alone: Vec<_> = (0..10).map(|n| (1, n)).collect();
        assert!(shared(&alone).iter().all(|is_shared| !is_shared));
    }
}
