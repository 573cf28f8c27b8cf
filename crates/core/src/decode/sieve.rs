//! Records of other flows, recognized without decoding them.

use super::ip::protocol;
use super::{Record, link};
use crate::observed::flow::FlowKey;

/// The bits that are set only in a fragment, in the bytes of flags and offset.
const FRAGMENT: [u8; 2] = [0x3f, 0xff];

/// A number for the ports of a flow, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports(u16);

impl Ports {
    #[inline]
    fn of(flow: &FlowKey) -> Self {
        let (one, other) = flow.ends();
        Self(one.port ^ other.port)
    }
}

/// A set of ports with `64 * WORDS` bits. It may contain others than those that were added.
#[derive(Clone, Debug)]
struct PortSet<const WORDS: usize>(Box<[u64; WORDS]>);

impl<const WORDS: usize> Default for PortSet<WORDS> {
    fn default() -> Self {
        Self(Box::new([0; WORDS]))
    }
}

impl<const WORDS: usize> PortSet<WORDS> {
    #[inline]
    fn place(Ports(number): Ports) -> (usize, u64) {
        let bits = u64::BITS as usize;
        let place = usize::from(number) % (WORDS * bits);
        (place / bits, 1 << (place % bits))
    }

    #[inline]
    fn insert(&mut self, ports: Ports) {
        let (word, bit) = Self::place(ports);
        self.0[word] |= bit;
    }

    #[inline]
    fn contains(&self, ports: Ports) -> bool {
        let (word, bit) = Self::place(ports);
        self.0[word] & bit != 0
    }
}

/// A set of flows, by their ports. A reader that needs only these flows passes over the records
/// that it excludes, which takes a few instructions for each.
#[derive(Clone, Debug)]
pub struct Sieve {
    /// A bit for each number of ports.
    set: PortSet<1024>,
    list: Vec<Ports>,
}

impl Sieve {
    /// Creates a sieve that lets these flows pass.
    pub fn of(flows: impl IntoIterator<Item = FlowKey>) -> Self {
        let list: Vec<Ports> = flows.into_iter().map(|flow| Ports::of(&flow)).collect();
        let mut set = PortSet::default();
        list.iter().for_each(|&ports| set.insert(ports));
        Self { set, list }
    }

    /// Returns true if the record certainly contains no packet of the flows: a TCP segment with
    /// other ports, directly in an IP packet. False for fragments, tunnels, extension headers and
    /// whatever else takes decoding.
    #[inline]
    pub fn excludes(&self, record: &Record<'_>) -> bool {
        let ports = link::network(record).and_then(|(bytes, _)| ports(bytes));
        ports.is_some_and(|ports| !self.set.contains(ports))
    }

    /// Returns true if none of the flows of a part of a file is one of the sieve's.
    pub fn excludes_part(&self, seen: &SeenFlows) -> bool {
        !self.list.iter().any(|&ports| seen.0.contains(ports))
    }
}

/// The flows of a part of a file, by their ports, in 1 KiB.
#[derive(Clone, Debug, Default)]
pub struct SeenFlows(PortSet<128>);

impl SeenFlows {
    /// Adds a flow.
    #[inline]
    pub fn add(&mut self, flow: &FlowKey) {
        self.0.insert(Ports::of(flow));
    }

    /// Adds the flows of another part.
    pub fn merge(&mut self, other: &Self) {
        for (word, other) in self.0.0.iter_mut().zip(other.0.0.iter()) {
            *word |= other;
        }
    }
}

/// Returns the ports of the TCP segment in an IP packet of the plainest form.
#[inline]
fn ports(packet: &[u8]) -> Option<Ports> {
    let place = match packet.first()? {
        0x45 => {
            let (&[high, low], protocol) = (packet.get(6..)?.first_chunk()?, *packet.get(9)?);
            let is_whole = high & FRAGMENT[0] == 0 && low & FRAGMENT[1] == 0;
            (is_whole && protocol == protocol::TCP).then_some(20)?
        }
        first if first >> 4 == 6 => (*packet.get(6)? == protocol::TCP).then_some(40)?,
        _ => return None,
    };
    let [s0, s1, d0, d1] = *packet.get(place..)?.first_chunk()?;
    Some(Ports(u16::from_be_bytes([s0 ^ d0, s1 ^ d1])))
}
