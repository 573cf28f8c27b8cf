//! Records of other flows, recognized without decoding them.

use super::ip::protocol;
use super::{Record, link};
use crate::observed::flow::FlowKey;

/// Number of words of the set: one bit for each combination of two ports.
const WORDS: usize = (1 << 16) / u64::BITS as usize;
/// The bits that are set only in a fragment, in the bytes of flags and offset.
const FRAGMENT: [u8; 2] = [0x3f, 0xff];

/// A set of flows, by their ports. A reader that needs only these flows passes over the records
/// that it excludes, which takes a few instructions for each.
#[derive(Clone, Debug)]
pub struct Sieve {
    bits: Box<[u64; WORDS]>,
}

impl Sieve {
    /// Creates a sieve that lets these flows pass.
    pub fn of(flows: impl IntoIterator<Item = FlowKey>) -> Self {
        let mut bits = Box::new([0; WORDS]);
        for flow in flows {
            let (one, other) = flow.ends();
            let place = usize::from(one.port ^ other.port);
            bits[place / 64] |= 1 << (place % 64);
        }
        Self { bits }
    }

    /// Returns true if the record certainly contains no packet of the flows: a TCP segment with
    /// other ports, directly in an IP packet. False for fragments, tunnels, extension headers and
    /// whatever else takes decoding.
    #[inline]
    pub fn excludes(&self, record: &Record<'_>) -> bool {
        let ports = link::network(record).and_then(|(bytes, _)| ports(bytes));
        ports.is_some_and(|ports| !self.contains(ports))
    }

    #[inline]
    fn contains(&self, [s0, s1, d0, d1]: [u8; 4]) -> bool {
        // The same for both directions.
        let place = usize::from(u16::from_be_bytes([s0 ^ d0, s1 ^ d1]));
        self.bits[place / 64] >> (place % 64) & 1 != 0
    }
}

/// Returns the ports of the TCP segment in an IP packet of the plainest form.
#[inline]
fn ports(packet: &[u8]) -> Option<[u8; 4]> {
    let place = match packet.first()? {
        0x45 => {
            let (&[high, low], protocol) = (packet.get(6..)?.first_chunk()?, *packet.get(9)?);
            let is_whole = high & FRAGMENT[0] == 0 && low & FRAGMENT[1] == 0;
            (is_whole && protocol == protocol::TCP).then_some(20)?
        }
        first if first >> 4 == 6 => (*packet.get(6)? == protocol::TCP).then_some(40)?,
        _ => return None,
    };
    packet.get(place..)?.first_chunk().copied()
}
