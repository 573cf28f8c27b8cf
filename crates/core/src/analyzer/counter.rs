//! The counter with which a host numbers the packets of all its connections.
//!
//! A gap in a connection's IP identifications means a loss only if the connection has its own
//! counter. If all connections of a host share one counter, the numbers continue from one
//! connection to the next, or a little further on if the host also sent other packets. Only a
//! comparison of connections shows this. A device that answers for several addresses may use one
//! counter for all of them.

use crate::observed::flow::Tag;
use crate::observed::segment::Segment;

/// Minimum number of continued numbers, each on another connection than the previous one, that
/// cannot be coincidence. Each has a probability of 1 in 1,000.
const LEAST_STEPS: u32 = 3;
/// Maximum number of other packets of the host, such as ping replies, between two continued
/// numbers.
const MOST_BETWEEN: u16 = 64;
/// Minimum fraction of changes to another connection at which the numbers continue. The other
/// changes are due to losses and to packets to other hosts. Separate counters that advance in
/// parallel would continue at every second change.
const MOST: (u32, u32) = (3, 4);
/// Maximum payload in bytes of a single segment on Ethernet, which most paths use. A longer segment
/// was several packets on the wire, each with its own number.
const USUAL_SEGMENT: u32 = 1460;
/// Minimum and maximum payload in bytes per packet on the wire, for a captured segment that offload
/// joined from several packets.
const PIECES: (u32, u32) = (536, 8948);

/// The numbering of a host's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostNumbering {
    /// The connection of the last numbered packet.
    flow: Option<Tag>,
    /// The number of that packet, and the minimum and maximum difference to the next number.
    last: u16,
    ahead: (u16, u16),
    /// Number of times that the next packet belonged to another connection, whatever number it had.
    changes: u32,
    /// Number of times that the next packet belonged to another connection and continued the
    /// numbers.
    steps: u32,
    /// True if the last packet belonged to another connection than the one before it, and
    /// continued the numbers.
    goes_on: bool,
}

impl HostNumbering {
    /// Processes a segment of the flow `flow`. Returns true if its sender's connections share a
    /// counter.
    #[inline]
    pub(super) fn observe(&mut self, segment: &Segment, flow: Tag) -> bool {
        let Some(id) = segment.ip.id.filter(|&id| id != 0) else {
            return false;
        };
        self.goes_on = self.flow != Some(flow) && self.change(id, flow);
        (self.last, self.ahead) = (id, ahead(segment));
        let (part, of) = MOST;
        self.steps >= LEAST_STEPS
            && self.steps.saturating_mul(of) >= self.changes.saturating_mul(part)
    }

    /// Processes a segment of one of several hosts that may share a counter, as [`Self::observe`]
    /// does. Returns true if they share it and this segment continues the numbers of another
    /// connection.
    #[inline]
    pub(super) fn observe_shared(&mut self, segment: &Segment, flow: Tag) -> bool {
        self.observe(segment, flow) && self.goes_on
    }

    /// Processes the number of a packet that belongs to another connection than the previous
    /// packet. Returns true if it continues the numbers.
    #[inline]
    fn change(&mut self, id: u16, flow: Tag) -> bool {
        if self.flow.replace(flow).is_none() {
            return false;
        }
        let (least, most) = self.ahead;
        let most = most.saturating_add(MOST_BETWEEN);
        let goes_on = (least..=most).contains(&id.wrapping_sub(self.last));
        self.changes = self.changes.saturating_add(1);
        self.steps = self.steps.saturating_add(u32::from(goes_on));
        goes_on
    }
}

/// Returns the minimum and maximum number of identifications that a segment uses.
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

    /// Returns, for each packet, true if its host is known by then to use one counter. A packet is
    /// given as port and identification.
    fn shared(packets: &[(u16, u16)]) -> Vec<bool> {
        let mut counter = HostNumbering::default();
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
    fn packets_of_other_protocols_may_come_between() {
        let packets = [(1, 7), (2, 12), (1, 14), (1, 15), (2, 40)];
        assert_eq!(shared(&packets), [false, false, false, false, true]);
        let apart = [(1, 7), (2, 120), (1, 240), (2, 360), (1, 480)];
        assert!(!shared(&apart).contains(&true));
    }

    #[test]
    fn connections_with_counters_of_their_own_share_none() {
        // Each connection counts separately, so numbers match only by coincidence.
        let own = (0..40_u16).map(|n| (n % 2, 1000 * (n % 2) + n / 2));
        let packets: Vec<_> = [(0, 999)].into_iter().chain(own).collect();
        assert!(shared(&packets).iter().all(|is_shared| !is_shared));
        // A single connection shows nothing.
        let alone: Vec<_> = (0..10).map(|n| (1, n)).collect();
        assert!(shared(&alone).iter().all(|is_shared| !is_shared));
    }
}
