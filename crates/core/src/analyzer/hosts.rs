//! Properties of hosts, determined from all their connections together.

use core::net::IpAddr;

use super::clock::Clock;
use super::counter::Counter;
use crate::observed::event::PointId;
use crate::observed::flow::Tag;
use crate::observed::segment::Segment;

/// Number of hosts remembered. If two hosts have the same index, the later one is kept.
const PLACES: usize = 512;

/// The sending hosts of each observation point.
#[derive(Debug)]
pub(super) struct Hosts {
    places: Box<[Option<Host>]>,
}

#[derive(Debug)]
struct Host {
    point: PointId,
    address: IpAddr,
    counter: Counter,
    clock: Clock,
}

/// Properties of a segment's sender, determined from all its connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    /// True if one counter numbers all of the host's packets.
    pub(super) shares_counter: bool,
    /// The tick of the host's timestamps in nanoseconds, if it is known to be longer than a
    /// millisecond.
    pub(super) tick_ns: Option<u32>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            places: core::iter::repeat_with(|| None).take(PLACES).collect(),
        }
    }
}

impl Hosts {
    /// Processes a segment of the flow `flow`, and returns the properties of its sender.
    #[inline]
    pub(super) fn observe(&mut self, segment: &Segment, flow: Tag) -> Sender {
        let address = segment.flow.sender(segment.direction);
        let Some(place) = self.places.get_mut(place_of(*address)) else {
            return Sender::default();
        };
        let host = match place {
            Some(host) if host.point == segment.point && host.address == *address => host,
            _ => place.insert(Host::new(segment.point, *address)),
        };
        Sender {
            shares_counter: host.counter.observe(segment, flow),
            tick_ns: host.clock.observe(segment, flow),
        }
    }
}

impl Host {
    fn new(point: PointId, address: IpAddr) -> Self {
        Self {
            point,
            address,
            counter: Counter::default(),
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
