//! Hosts whose connections number their packets by one counter.
//!
//! A gap in the identifications of a connection is a loss only where the connection has a
//! counter of its own. Where all of a host's share one, a packet of one connection bears
//! the number that follows the last packet of another: that is seen only where connections
//! meet.

use core::net::IpAddr;

use crate::event::PointId;
use crate::flow::FlowKey;
use crate::segment::Segment;

/// The number of hosts remembered; of two that fall on one place, the later one stays.
pub(super) const PLACES: usize = 512;
/// The least numbers in a row, from one connection to another, that are no chance: each has a
/// chance of one in 65,536.
const LEAST_STEPS: u32 = 3;
/// Of four changes of connection three at least go on: the rest are losses, and what the
/// host sends to others. Counters of their own that run side by side meet at every second.
const MOST: (u32, u32) = (3, 4);
/// The most payload that one segment carries on Ethernet, which most paths have. A longer one
/// was several on the wire, each of which has a number of its own.
const USUAL_SEGMENT: u32 = 1460;
/// The least and the most that each of them holds.
const PIECES: (u32, u32) = (536, 8948);

/// The numbering of each host's packets, as far as connections of one point show it.
#[derive(Debug)]
pub(super) struct Counters {
    places: Box<[Option<Host>]>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    point: PointId,
    address: IpAddr,
    /// The connection of its last numbered packet.
    flow: FlowKey,
    /// The number of that packet, and by how many the next may differ.
    last: u16,
    ahead: (u16, u16),
    /// The number of times that the next packet was another connection's, whatever its
    /// number.
    changes: u32,
    /// The number of those times that it also had the next number.
    steps: u32,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            places: vec![None; PLACES].into(),
        }
    }
}

impl Counters {
    /// Takes in a segment, and returns true if its sender's connections share a counter.
    #[inline]
    pub(super) fn take(&mut self, segment: &Segment, sender: Sender<'_>) -> bool {
        let Some(id) = segment.ip.id.filter(|&id| id != 0) else {
            return false;
        };
        let Some(place) = self.places.get_mut(sender.place % PLACES) else {
            return false;
        };
        match place {
            Some(host) if host.point == segment.point && host.address == *sender.address => {
                host.take(segment, id)
            }
            _ => {
                *place = Some(Host::new(segment, id, *sender.address));
                false
            }
        }
    }
}

/// The host that sends a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender<'a> {
    pub(super) address: &'a IpAddr,
    /// Its place among [`PLACES`].
    pub(super) place: usize,
}

impl<'a> Sender<'a> {
    #[inline]
    pub(super) fn of(segment: &'a Segment) -> Self {
        let address = segment.flow.sender(segment.direction);
        Self {
            address,
            place: place_of(*address),
        }
    }
}

/// A place for each address, which nothing but the address decides.
#[inline]
fn place_of(address: IpAddr) -> usize {
    let bits = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() as u64,
    };
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

impl Host {
    fn new(segment: &Segment, id: u16, address: IpAddr) -> Self {
        Self {
            point: segment.point,
            address,
            flow: segment.flow,
            last: id,
            ahead: ahead(segment),
            changes: 0,
            steps: 0,
        }
    }

    #[inline]
    fn take(&mut self, segment: &Segment, id: u16) -> bool {
        if self.flow != segment.flow {
            let (least, most) = self.ahead;
            let goes_on = (least..=most).contains(&id.wrapping_sub(self.last));
            self.changes = self.changes.saturating_add(1);
            self.steps = self.steps.saturating_add(u32::from(goes_on));
            self.flow = segment.flow;
        }
        (self.last, self.ahead) = (id, ahead(segment));
        let (part, of) = MOST;
        self.steps >= LEAST_STEPS
            && self.steps.saturating_mul(of) >= self.changes.saturating_mul(part)
    }
}

/// The least and the most numbers that a segment takes.
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
    use crate::flow::Endpoint;
    use crate::segment::IpFacts;
    use crate::time::Timestamp;

    /// For each of these packets (port, identification), true if its host is known to have
    /// one counter.
    fn shared(packets: &[(u16, u16)]) -> Vec<bool> {
        let mut counters = Counters::default();
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
            counters.take(&segment, Sender::of(&segment))
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
        // One connection alone says nothing.
        let alone: Vec<_> = (0..10).map(|n| (1, n)).collect();
        assert!(shared(&alone).iter().all(|is_shared| !is_shared));
    }
}
