//! The header facts of one TCP segment.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::observed::flow::{Direction, FlowKey};
use crate::observed::point::PointId;
use crate::observed::time::Timestamp;

/// A TCP segment as a packet source saw it. Its payload is passed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The time at the observation point, on that point's clock.
    pub at: Timestamp,
    /// The record's number in its source, from 1, as Wireshark shows it.
    pub number: u64,
    /// The observation point that saw the segment.
    pub point: PointId,
    /// The connection's 5-tuple.
    pub flow: FlowKey,
    /// The segment's direction.
    pub direction: Direction,
    /// Sequence number of the first payload byte (in a SYN, of the SYN itself).
    pub seq: u32,
    /// Acknowledgement number; meaningless without [`TcpFlags::ACK`].
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field as sent, unscaled.
    pub window: u16,
    /// Payload bytes on the wire, from the IP length; the borrowed payload is shorter if the
    /// capture cut it.
    pub payload_len: u32,
    /// The options relevant here.
    pub options: TcpOptions,
    /// IP header fields that distinguish copies, retransmissions and middleboxes.
    pub ip: IpFacts,
}

impl Segment {
    /// Returns the sequence space that the segment occupies: payload, SYN and FIN.
    #[inline]
    pub fn sequence_len(&self) -> u32 {
        self.payload_len
            .wrapping_add(u32::from(self.flags.contains(TcpFlags::SYN)))
            .wrapping_add(u32::from(self.flags.contains(TcpFlags::FIN)))
    }
}

/// TCP control bits (RFC 9293 §3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Returns true if all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets of bits.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Writes the names of the bits, as `SYN/ACK`; `none` if no bit is set.
impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(TcpFlags, &str); 8] = [
            (TcpFlags::SYN, "SYN"),
            (TcpFlags::FIN, "FIN"),
            (TcpFlags::RST, "RST"),
            (TcpFlags::PSH, "PSH"),
            (TcpFlags::ACK, "ACK"),
            (TcpFlags::URG, "URG"),
            (TcpFlags::ECE, "ECE"),
            (TcpFlags::CWR, "CWR"),
        ];
        let set = NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        let names: Vec<&str> = set.map(|(_, name)| *name).collect();
        if names.is_empty() {
            f.write_str("none")
        } else {
            f.write_str(&names.join("/"))
        }
    }
}

/// The TCP options that the analysis reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpOptions {
    /// Maximum segment size (RFC 9293 §3.7.1). In a capture, only a SYN has this option. The live
    /// kernel source sets it on every segment for which the kernel reports it.
    pub mss: Option<u16>,
    /// Window scale, at most 14 (RFC 7323 §2). In a capture, only a SYN has this option, which is
    /// the offered value. The live kernel source sets the value in effect on other segments.
    pub window_scale: Option<u8>,
    /// True if SACK is permitted (SYN only; RFC 2018 §2).
    pub sack_permitted: bool,
    /// TSval and TSecr (RFC 7323 §3).
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks `[left, right)`, the first `sack_count` of them (RFC 2018 §3).
    pub sack: [(u32, u32); 4],
    /// Number of valid entries in `sack`.
    pub sack_count: u8,
    /// The kinds of a SYN's first eight options in order, four bits each, from the lowest bits up.
    /// Each is the option's kind plus one, or 15 for a kind that is not read. Kernels differ in
    /// this order.
    pub layout: u32,
}

impl TcpOptions {
    /// Returns the SACK blocks, most recent first.
    #[inline]
    pub fn sack_blocks(&self) -> &[(u32, u32)] {
        let count = usize::from(self.sack_count).min(self.sack.len());
        self.sack.get(..count).unwrap_or_default()
    }
}

/// Facts of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpFacts {
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// The IPv4 identification; `None` for IPv6 without a fragment header.
    pub id: Option<u16>,
    /// True if IPv4's flag "don't fragment" is set; false for IPv6.
    pub dont_fragment: bool,
    /// True if routers marked congestion (ECN field 3, RFC 3168).
    pub congestion_marked: bool,
    /// The sender, as seen from the observation point.
    pub sent_by: SentBy,
}

/// The sender of a packet, as far as the kernel of the capturing host names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SentBy {
    /// The source does not say.
    #[default]
    Unknown,
    /// The host at the observation point.
    ThisHost,
    /// The host at the observation point, or one for which it forwards the packet.
    ThisHostOrBehind,
    /// Another host.
    AnotherHost,
}

impl SentBy {
    /// Returns the sender of a segment of which the source knows only if this host sent it.
    pub fn of_own(is_own: bool) -> Self {
        if is_own {
            Self::ThisHost
        } else {
            Self::Unknown
        }
    }
}

/// Initial TTL of Linux (`ip_default_ttl`), which some other systems share. Others start higher.
pub(crate) const LINUX_TTL: u8 = 64;
/// The initial times to live of systems (Linux and others, Windows, some routers).
pub(crate) const INITIAL_TTLS: [u8; 3] = [64, 128, 255];

/// Returns the number of routers that a packet passed. The initial time to live is assumed to be
/// the nearest common value from `ttl` up.
pub fn hops(ttl: u8) -> u8 {
    let initial = INITIAL_TTLS.into_iter().find(|initial| *initial >= ttl);
    initial.unwrap_or(u8::MAX) - ttl
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::{Endpoint, Transport};

    impl Segment {
        /// A bare ACK from one end to the other.
        pub(crate) fn sent(from: Endpoint, to: Endpoint, at: Timestamp) -> Self {
            let (flow, direction) = FlowKey::new(Transport::Tcp, from, to);
            Self {
                at,
                number: 1,
                point: PointId(0),
                flow,
                direction,
                seq: 0,
                ack: 0,
                flags: TcpFlags::ACK,
                window: 60_000,
                payload_len: 0,
                options: TcpOptions::default(),
                ip: IpFacts::default(),
            }
        }
    }
}
