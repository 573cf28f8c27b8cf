//! The counter by which a host numbers the packets of all its connections.
//!
//! A gap in the identifications of a connection is a loss only where the connection has a
//! counter of its own. Where all of a host's share one, a packet of one connection bears
//! the number that follows the last packet of another: that is seen only where connections
//! meet.

use crate::observed::flow::Tag;
use crate::observed::segment::Segment;

/// Minimum numbers in a row, from one connection to another, that are no chance: each has a
/// chance of one in 65,536.
const LEAST_STEPS: u32 = 3;
/// The share of changes of connection that go on, at least: three of four. The rest are losses, and
/// what the host sends to others. Counters of their own that run side by side meet at every second.
const MOST: (u32, u32) = (3, 4);
/// The most payload that one segment carries on Ethernet, which most paths have. A longer one
/// was several on the wire, each of which has a number of its own.
const USUAL_SEGMENT: u32 = 1460;
/// The least and the most payload of each segment on the wire that a longer one stands for.
const PIECES: (u32, u32) = (536, 8948);

/// The numbering of a host's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    /// The connection of the last numbered packet.
    flow: Option<Tag>,
    /// The number of that packet, and by how many the next may differ.
    last: u16,
    ahead: (u16, u16),
    /// The number of times that the next packet was another connection's, whatever its
    /// number.
    changes: u32,
    /// The number of times that the next packet was another connection's and had the next number.
    steps: u32,
}

impl Counter {
    /// Takes in a segment of the flow with this tag, and returns true if its sender's
    /// connections share a counter.
    #[inline]
    pub(super) fn take(&mut self, segment: &Segment, flow: Tag) -> bool {
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

    /// Takes in the number of another connection than the last.
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

/// Returns the least and the most numbers that a segment takes.
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

    /// Returns true for each of these packets (port, identification) whose host is known to have
    /// one counter.
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
            counter.take(&segment, segment.flow.tag())
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
        // Two of many meet by chance.
        let own = (0..40_u16).map(|n| (n % 2, 1000 * (n % 2) + n / 2));
        let packets: Vec<_> = [(0, 999)].into_iter().chain(own).collect();
        assert!(shared(&packets).iter().all(|is_shared| !is_shared));
        // A single connection says nothing.
        let alone: Vec<_> = (0..10).map(|n| (1, n)).collect();
        assert!(shared(&alone).iter().all(|is_shared| !is_shared));
    }
}
