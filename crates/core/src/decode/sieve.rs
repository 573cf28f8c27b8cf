//! Records of other flows, recognized without decoding them.

use super::ip::protocol;
use super::{Record, link};
use crate::observed::flow::FlowKey;

/// The bits that are set only in a fragment, in the bytes of flags and offset.
const FRAGMENT: [u8; 2] = [0x3f, 0xff];

/// A number for the ports of a flow, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports(u16);

/// A set of flows. A reader that needs only these passes over the records that it excludes, which
/// takes a few instructions for each.
#[derive(Clone, Debug)]
pub struct Sieve {
    /// A bit for each number of ports.
    bits: Box<[u64; 1024]>,
    places: Vec<Places>,
}

impl Sieve {
    /// Creates a sieve that lets these flows pass.
    pub fn of(flows: impl IntoIterator<Item = FlowKey>) -> Self {
        let mut sieve = Self {
            bits: Box::new([0; 1024]),
            places: Vec::new(),
        };
        for flow in flows {
            let (one, other) = flow.ends();
            let ports = usize::from(one.port ^ other.port);
            sieve.bits[ports / 64] |= 1 << (ports % 64);
            sieve.places.push(flow.tag().places());
        }
        sieve
    }

    /// Returns true if the record certainly contains no packet of the flows: a TCP segment with
    /// other ports, directly in an IP packet. False for fragments, tunnels, extension headers and
    /// whatever else takes decoding.
    #[inline]
    pub fn excludes(&self, record: &Record<'_>) -> bool {
        let ports = link::network(record).and_then(|(bytes, _)| ports(bytes));
        ports.is_some_and(|Ports(ports)| {
            let ports = usize::from(ports);
            self.bits[ports / 64] >> (ports % 64) & 1 == 0
        })
    }

    /// Returns true if none of the flows of a part of a file is one of the sieve's.
    pub fn excludes_part(&self, seen: &SeenFlows) -> bool {
        !self.places.iter().any(|places| seen.contains(places))
    }
}

/// Number of bits in a set of seen flows.
const SEEN: usize = 1 << 13;

/// The bits of a flow in a set of seen flows.
type Places = [usize; 3];

/// The flows of a part of a file, in 1 KiB: a Bloom filter. With 500 flows, it contains each other
/// flow with a probability of 0.5 %.
#[derive(Clone, Debug)]
pub struct SeenFlows(Box<[u64; SEEN / 64]>);

impl Default for SeenFlows {
    fn default() -> Self {
        Self(Box::new([0; SEEN / 64]))
    }
}

impl SeenFlows {
    /// Adds a flow.
    #[inline]
    pub fn add(&mut self, flow: &FlowKey) {
        for place in flow.tag().places() {
            self.0[place / 64] |= 1 << (place % 64);
        }
    }

    /// Adds the flows of another part.
    pub fn merge(&mut self, other: &Self) {
        let Self(words) = other;
        for (word, other) in self.0.iter_mut().zip(words.iter()) {
            *word |= other;
        }
    }

    fn contains(&self, places: &Places) -> bool {
        places
            .iter()
            .all(|place| self.0[place / 64] >> (place % 64) & 1 != 0)
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
