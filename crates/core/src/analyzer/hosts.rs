//! Properties of hosts, determined from all their connections together.

use core::net::IpAddr;

use super::clock::Clock;
use super::counter::HostNumbering;
use crate::observed::event::PointId;
use crate::observed::flow::Tag;
use crate::observed::segment::Segment;

/// Number of hosts remembered. If two hosts have the same index, the later one is kept.
const PLACES: usize = 512;
/// Number of values of the time to live.
const DISTANCES: usize = 256;

/// The sending hosts of each observation point.
#[derive(Debug)]
pub(super) struct SendingHosts {
    places: Box<[Option<Host>]>,
    /// The counters of the hosts at the same distance, by time to live: a device that answers for
    /// several addresses may number all its packets by one counter.
    distances: Box<[Distance]>,
}

/// The hosts whose packets arrive with the same time to live.
#[derive(Clone, Copy, Debug, Default)]
struct Distance {
    point: PointId,
    counter: HostNumbering,
}

#[derive(Debug)]
struct Host {
    point: PointId,
    address: IpAddr,
    counter: HostNumbering,
    clock: Clock,
}

/// Properties of a segment's sender, determined from all its connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    /// True if one counter numbers all of the host's packets, or those of several hosts.
    pub(super) shares_counter: bool,
    /// The tick of the host's timestamps in nanoseconds, if it is known to be longer than a
    /// millisecond.
    pub(super) tick_ns: Option<u32>,
}

impl Default for SendingHosts {
    fn default() -> Self {
        Self {
            places: core::iter::repeat_with(|| None).take(PLACES).collect(),
            distances: vec![Distance::default(); DISTANCES].into_boxed_slice(),
        }
    }
}

impl SendingHosts {
    /// Processes a segment of the flow `flow`, and returns the properties of its sender.
    #[inline]
    pub(super) fn observe(&mut self, segment: &Segment, flow: Tag) -> Sender {
        let is_one_device = self.continues_numbers(segment, flow);
        let address = segment.flow.sender(segment.direction);
        let Some(place) = self.places.get_mut(place_of(*address)) else {
            return Sender::default();
        };
        let host = match place {
            Some(host) if host.point == segment.point && host.address == *address => host,
            _ => place.insert(Host::new(segment.point, *address)),
        };
        Sender {
            shares_counter: host.counter.observe(segment, flow) || is_one_device,
            tick_ns: host.clock.observe(segment, flow),
        }
    }

    /// Returns true if one counter numbers the packets of all hosts at the sender's distance, and
    /// the segment continues the numbers of another connection.
    fn continues_numbers(&mut self, segment: &Segment, flow: Tag) -> bool {
        let Some(distance) = self.distances.get_mut(usize::from(segment.ip.ttl)) else {
            return false;
        };
        if distance.point != segment.point {
            *distance = Distance {
                point: segment.point,
                counter: HostNumbering::default(),
            };
        }
        distance.counter.observe_shared(segment, flow)
    }
}

impl Host {
    fn new(point: PointId, address: IpAddr) -> Self {
        Self {
            point,
            address,
            counter: HostNumbering::default(),
            clock: Clock::default(),
        }
    }
}

/// Returns the index for an address. It depends only on the address.
#[inline]
fn place_of(address: IpAddr) -> usize {
    let bits = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() as u64,
    };
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::observed::segment::IpFacts;
    use crate::observed::time::Timestamp;

    /// Returns, for each packet, true if it is known by then to have a number from a shared counter.
    /// A packet is given as host, time to live and identification.
    fn shared(packets: &[(u8, u8, u16)]) -> Vec<bool> {
        let mut hosts = SendingHosts::default();
        let take = |&(host, ttl, id): &(u8, u8, u16)| {
            let end = |last| Endpoint::new([10, 0, 0, last].into(), 80);
            let segment = Segment {
                ip: IpFacts {
                    id: Some(id),
                    ttl,
                    ..IpFacts::default()
                },
                ..Segment::sent(end(host), end(200), Timestamp::default())
            };
            hosts.observe(&segment, segment.flow.tag()).shares_counter
        };
        packets.iter().map(take).collect()
    }

    #[test]
    fn addresses_of_one_device_share_its_counter() {
        let packets = [(1, 16, 7), (2, 16, 8), (1, 16, 9), (3, 16, 10), (3, 16, 11)];
        assert_eq!(shared(&packets), [false, false, false, true, false]);
        // The same numbers from different distances.
        let apart = [(1, 16, 7), (2, 17, 8), (1, 16, 9), (3, 18, 10), (2, 17, 11)];
        assert!(!shared(&apart).contains(&true));
    }
}
