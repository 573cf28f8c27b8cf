//! Endpoints, flows and directions.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use foldhash::fast::SeedableRandomState;
use serde::{Deserialize, Serialize};

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "SocketAddr", into = "SocketAddr")]
pub struct Endpoint {
    /// The address; IPv4-mapped IPv6 addresses are stored as IPv4.
    pub addr: IpAddr,
    /// The TCP or UDP port.
    pub port: u16,
}

impl Endpoint {
    /// Creates an endpoint with its address in canonical form.
    #[inline]
    pub fn new(addr: IpAddr, port: u16) -> Self {
        Self {
            addr: addr.to_canonical(),
            port,
        }
    }

    /// Returns true if this endpoint sorts before `other` or is equal to it. Takes one comparison
    /// if both are IPv4.
    #[inline]
    fn is_at_most(&self, other: &Self) -> bool {
        match (self.addr, other.addr) {
            (IpAddr::V4(one), IpAddr::V4(two)) => rank(one, self.port) <= rank(two, other.port),
            _ => self <= other,
        }
    }
}

impl Endpoint {
    /// Returns an IPv4 endpoint as a 48-bit number that sorts in the same order.
    #[inline]
    pub(crate) fn number(&self) -> Option<u64> {
        match self.addr {
            IpAddr::V4(address) => Some(rank(address, self.port)),
            IpAddr::V6(_) => None,
        }
    }

    /// Returns the address as a number (IPv4 mapped into IPv6), and the port: unique for each
    /// endpoint, and quicker to compare.
    #[inline]
    pub(crate) fn place(&self) -> (u128, u16) {
        // The prefix of mapped addresses, `::ffff:0:0/96` (RFC 4291 §2.5.5.2).
        const MAPPED: u128 = 0xffff << u32::BITS;
        let address = match self.addr {
            IpAddr::V4(address) => MAPPED | u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        (address, self.port)
    }
}

/// Orders endpoints by address, then by port.
impl Ord for Endpoint {
    // Inlined, because a call for each comparison takes half of the time when many endpoints are
    // sorted.
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.addr, other.addr) {
            (IpAddr::V4(one), IpAddr::V4(two)) => rank(one, self.port).cmp(&rank(two, other.port)),
            _ => (self.addr, self.port).cmp(&(other.addr, other.port)),
        }
    }
}

impl PartialOrd for Endpoint {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns an IPv4 endpoint as a number that sorts in the same order.
#[inline]
fn rank(address: Ipv4Addr, port: u16) -> u64 {
    u64::from(u32::from(address)) << 16 | u64::from(port)
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip(), address.port())
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(endpoint: Endpoint) -> Self {
        Self::new(endpoint.addr, endpoint.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

/// The transport protocols that distinguish flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The Transmission Control Protocol (RFC 9293).
    Tcp,
    /// The User Datagram Protocol (RFC 768).
    Udp,
}

/// A flow's 5-tuple with its ends in fixed order: the same key in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Parts", into = "Parts")]
pub struct FlowKey {
    low: Endpoint,
    high: Endpoint,
    transport: Transport,
}

/// A flow in JSON: its protocol and both ends.
type Parts = (Transport, Endpoint, Endpoint);

impl From<Parts> for FlowKey {
    fn from((transport, one, other): Parts) -> Self {
        Self::new(transport, one, other).0
    }
}

impl From<FlowKey> for Parts {
    fn from(flow: FlowKey) -> Self {
        (flow.transport, flow.low, flow.high)
    }
}

impl FlowKey {
    /// Returns the key of a packet from `source` to `destination`, and its direction.
    #[inline]
    pub fn new(transport: Transport, source: Endpoint, destination: Endpoint) -> (Self, Direction) {
        if source.is_at_most(&destination) {
            (
                Self {
                    low: source,
                    high: destination,
                    transport,
                },
                Direction::Forward,
            )
        } else {
            (
                Self {
                    low: destination,
                    high: source,
                    transport,
                },
                Direction::Backward,
            )
        }
    }

    /// Returns the key and direction as [`new`](Self::new) does, for IPv4.
    #[inline]
    pub(crate) fn new_v4(
        transport: Transport,
        source: (Ipv4Addr, u16),
        destination: (Ipv4Addr, u16),
    ) -> (Self, Direction) {
        let rank = |(address, port)| u64::from(u32::from(address)) << 16 | u64::from(port);
        let end = |(address, port)| Endpoint {
            addr: IpAddr::V4(address),
            port,
        };
        let key = |low, high| Self {
            low: end(low),
            high: end(high),
            transport,
        };
        if rank(source) <= rank(destination) {
            (key(source, destination), Direction::Forward)
        } else {
            (key(destination, source), Direction::Backward)
        }
    }

    /// Returns a number for the flow. Two flows have the same number only by coincidence.
    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        let end = |end: &Endpoint| {
            let address = match end.addr {
                IpAddr::V4(address) => u64::from(u32::from(address)),
                IpAddr::V6(address) => {
                    let bits = u128::from(address);
                    bits as u64 ^ (bits >> 64) as u64
                }
            };
            address << 16 ^ u64::from(end.port)
        };
        // Multiplicative hashing with the golden ratio (Knuth): the high bits.
        let ends = end(&self.low) ^ end(&self.high).rotate_left(29);
        Tag(ends.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the index of the shard for the flow, less than `shares`. The index of a flow never
    /// changes.
    #[inline]
    pub(crate) fn share(&self, shares: usize) -> usize {
        self.tag().share(shares)
    }

    /// Returns both ends, the lower one first.
    pub fn ends(&self) -> (Endpoint, Endpoint) {
        (self.low, self.high)
    }

    /// Returns true if the addresses show that both ends are on one host.
    pub(crate) fn is_within_host(&self) -> bool {
        let [one, other] =
            [Direction::Forward, Direction::Backward].map(|way| self.source(way).addr);
        one == other || (one.is_loopback() && other.is_loopback())
    }

    /// Returns the end that sends in `direction`.
    pub fn source(&self, direction: Direction) -> Endpoint {
        match direction {
            Direction::Forward => self.low,
            Direction::Backward => self.high,
        }
    }

    /// Returns the address of the end that sends in `direction`.
    #[inline]
    pub(crate) fn sender(&self, direction: Direction) -> &IpAddr {
        match direction {
            Direction::Forward => &self.low.addr,
            Direction::Backward => &self.high.addr,
        }
    }

    /// Returns the end that receives in `direction`.
    pub fn destination(&self, direction: Direction) -> Endpoint {
        self.source(direction.reverse())
    }

    /// Returns the flow's transport protocol.
    pub fn transport(&self) -> Transport {
        self.transport
    }
}

/// A short substitute for a flow's key. It is cheaper to compare, and suits uses in which a
/// collision does little harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

impl Tag {
    /// Returns the index of the shard for the flow, less than `shares`.
    #[inline]
    pub(crate) fn share(self, shares: usize) -> usize {
        ((self.0 >> 32) as usize * shares) >> 32
    }

    /// Returns three numbers less than 2^13, from the bits that are mixed best.
    #[inline]
    pub(crate) fn places(self) -> [usize; 3] {
        [51, 38, 25].map(|shift| (self.0 >> shift) as usize % (1 << 13))
    }
}

impl FlowKey {
    /// Hashes the flow and `number` as few integers, because this runs for each packet.
    #[inline(always)]
    pub(crate) fn hash_with<H: Hasher>(&self, number: u16, state: &mut H) {
        match (self.low.addr, self.high.addr) {
            (IpAddr::V4(low), IpAddr::V4(high)) => {
                state.write_u64(u64::from(u32::from(low)) << 32 | u64::from(u32::from(high)));
            }
            (low, high) => (low, high).hash(state),
        }
        let ports = u64::from(self.low.port) << 16 | u64::from(self.high.port);
        let transport = u64::from(self.transport == Transport::Udp);
        state.write_u64(ports << 17 | transport << 16 | u64::from(number));
    }
}

impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_with(0, state);
    }
}

/// A direction of a flow, whose ends are sorted by address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The direction from the lower endpoint to the higher one.
    Forward,
    /// The direction from the higher endpoint to the lower one.
    Backward,
}

impl Direction {
    /// Returns the other direction.
    pub const fn reverse(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// An item for each direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerDirection<T> {
    pub(crate) forward: T,
    pub(crate) backward: T,
}

impl<T> PerDirection<T> {
    /// Returns the items that `of` makes for each direction.
    pub(crate) fn of(mut of: impl FnMut(Direction) -> T) -> Self {
        Self {
            forward: of(Direction::Forward),
            backward: of(Direction::Backward),
        }
    }

    /// Returns the item of a direction.
    #[inline]
    pub(crate) const fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Returns the item of a direction.
    #[inline]
    pub(crate) const fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        }
    }

    /// Returns the item of a direction and that of the opposite direction.
    #[inline]
    pub(crate) const fn both_mut(&mut self, direction: Direction) -> (&mut T, &mut T) {
        match direction {
            Direction::Forward => (&mut self.forward, &mut self.backward),
            Direction::Backward => (&mut self.backward, &mut self.forward),
        }
    }

    /// Returns both items.
    #[inline]
    pub(crate) const fn each(&self) -> [&T; 2] {
        [&self.forward, &self.backward]
    }
}

/// Returns the hasher for flows. It is seeded, because its keys come from the network.
pub(crate) fn hasher(seed: u64) -> SeedableRandomState {
    SeedableRandomState::with_seed(seed, foldhash::SharedSeed::global_fixed())
}
