//! Hosts, as all their connections together show them.

use core::net::IpAddr;

use super::clock::Clock;
use super::counter::Counter;
use crate::observed::event::PointId;
use crate::observed::flow::Tag;
use crate::observed::segment::Segment;

/// The number of hosts remembered; of two that fall on one place, the later one stays.
const PLACES: usize = 512;

/// The hosts that send, each as the connections of one point show it.
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

/// The sender of a segment, as all its connections show it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    /// True if the host's packets are numbered by one counter.
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
    /// Takes in a segment of the flow with this tag.
    #[inline]
    pub(super) fn take(&mut self, segment: &Segment, flow: Tag) -> Sender {
        let address = segment.flow.sender(segment.direction);
        let Some(place) = self.places.get_mut(place_of(*address)) else {
            return Sender::default();
        };
        let host = match place {
            Some(host) if host.point == segment.point && host.address == *address => host,
            _ => place.insert(Host::new(segment.point, *address)),
        };
        Sender {
            shares_counter: host.counter.take(segment, flow),
            tick_ns: host.clock.take(segment, flow),
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

/// Returns the place of an address, which depends on nothing but the address.
#[inline]
fn place_of(address: IpAddr) -> usize {
    let bits = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() as u64,
    };
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}
