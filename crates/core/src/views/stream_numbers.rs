//! Wireshark's numbering of TCP connections (`tcp.stream`).

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::observed::flow;
use crate::observed::flow::{Direction, FlowKey, PerDirection};
use crate::observed::icmp::IcmpError;
use crate::observed::segment::{Segment, TcpFlags};

/// Maximum number of flows whose stream number is remembered. Later flows get none.
const MAX_FLOWS: usize = 1 << 20;

/// Numbers the TCP connections of one capture file from 0 in the order of their first segments, as
/// Wireshark does. Segments quoted in ICMP errors count too. A SYN opens another connection with
/// the same ports if its sequence number is not the one with which its direction began
/// (`packet-tcp.c: dissect_tcp()`).
#[derive(Debug)]
pub struct StreamNumbers {
    flows: HashMap<FlowKey, Numbered, SeedableRandomState>,
    next: u64,
}

/// The latest connection of a flow.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    stream: u64,
    /// The sequence number with which each direction began.
    base: PerDirection<Option<u32>>,
}

/// The facts of a TCP header that distinguish connections with the same ports.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// True if the segment is a SYN.
    opens: bool,
    /// The sequence number with which the segment's direction begins, if this is its first segment.
    base: u32,
    direction: Direction,
}

impl Seen {
    fn new(direction: Direction, seq: u32, flags: TcpFlags) -> Self {
        let is_syn = flags.contains(TcpFlags::SYN);
        Self {
            opens: is_syn && !flags.contains(TcpFlags::ACK),
            base: seq.wrapping_sub(u32::from(!is_syn)),
            direction,
        }
    }
}

impl StreamNumbers {
    /// Creates the numbering of one file; `hash_seed` does not affect the numbers.
    pub fn new(hash_seed: u64) -> Self {
        Self {
            flows: HashMap::with_hasher(flow::hasher(hash_seed)),
            next: 0,
        }
    }

    /// Processes the file's next segment, and returns the stream number of its connection; `None`
    /// if the file has too many flows to number.
    pub fn number_segment(&mut self, segment: &Segment) -> Option<u64> {
        let seen = Seen::new(segment.direction, segment.seq, segment.flags);
        let numbered = self.enter(segment.flow, seen)?;
        numbered
            .base
            .get_mut(seen.direction)
            .get_or_insert(seen.base);
        Some(numbered.stream)
    }

    /// Processes the file's next ICMP error, and returns the stream number of the quoted segment. A
    /// quoted TCP header opens a connection as the segment itself would, but does not determine
    /// where the bytes of its direction begin. `None` if the quote is too short.
    pub fn take_quoted(&mut self, error: &IcmpError) -> Option<u64> {
        let seen = Seen::new(error.direction, error.seq?, error.flags?);
        self.enter(error.flow, seen).map(|numbered| numbered.stream)
    }

    /// Returns the connection of a header, and creates it if necessary.
    fn enter(&mut self, flow: FlowKey, seen: Seen) -> Option<&mut Numbered> {
        let is_full = self.flows.len() >= MAX_FLOWS;
        let next = self.next;
        let fresh = || Numbered {
            stream: next,
            base: PerDirection::default(),
        };
        let numbered = match self.flows.entry(flow) {
            hashbrown::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            hashbrown::hash_map::Entry::Vacant(_) if is_full => return None,
            hashbrown::hash_map::Entry::Vacant(entry) => {
                self.next += 1;
                entry.insert(fresh())
            }
        };
        let began = *numbered.base.get(seen.direction);
        if seen.opens && began.is_some_and(|began| began != seen.base) {
            *numbered = fresh();
            self.next += 1;
        }
        Some(numbered)
    }

    /// Returns the number of the flow's latest connection.
    pub fn of(&self, flow: &FlowKey) -> Option<u64> {
        self.flows.get(flow).map(|numbered| numbered.stream)
    }

    /// Returns the number of connections seen.
    pub fn count(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::observed::event::PointId;
    use crate::observed::flow::{Endpoint, Transport};
    use crate::observed::icmp::IcmpKind;
    use crate::observed::segment::{IpFacts, TcpOptions};
    use crate::observed::time::Timestamp;

    fn segment(port: u16, seq: u32, flags: TcpFlags) -> Segment {
        let end = |last, port| Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let (flow, direction) = FlowKey::new(Transport::Tcp, end(1, port), end(2, 80));
        Segment {
            at: Timestamp::default(),
            number: 1,
            point: PointId(0),
            flow,
            direction,
            seq,
            ack: 0,
            flags,
            window: 0,
            payload_len: 0,
            options: TcpOptions::default(),
            ip: IpFacts::default(),
        }
    }

    #[test]
    fn a_reused_port_is_another_stream_and_a_repeated_syn_is_not() {
        let mut numbers = StreamNumbers::new(7);
        let mut take = |port, seq, flags| numbers.number_segment(&segment(port, seq, flags));
        assert_eq!(take(4000, 100, TcpFlags::SYN), Some(0));
        assert_eq!(take(4001, 100, TcpFlags::SYN), Some(1));
        assert_eq!(take(4000, 100, TcpFlags::SYN), Some(0), "sent again");
        assert_eq!(take(4000, 101, TcpFlags::ACK), Some(0));
        assert_eq!(take(4000, 900, TcpFlags::SYN), Some(2), "opened again");
        assert_eq!(take(4000, 901, TcpFlags::ACK), Some(2));
        assert_eq!(take(4001, 101, TcpFlags::ACK), Some(1));
        assert_eq!(numbers.count(), 3);
    }

    fn quoted(port: u16, seq: u32, flags: Option<TcpFlags>) -> IcmpError {
        let segment = segment(port, seq, TcpFlags::SYN);
        IcmpError {
            at: segment.at,
            number: 1,
            point: segment.point,
            reporter: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)),
            flow: segment.flow,
            direction: segment.direction,
            seq: Some(seq),
            flags,
            kind: IcmpKind::Unreachable(1),
        }
    }

    /// The stream numbers are those of tshark 4.0 for these packets.
    #[test]
    fn a_quoted_header_opens_a_stream_and_says_not_where_it_begins() {
        let mut numbers = StreamNumbers::new(7);
        let syn = Some(TcpFlags::SYN);
        assert_eq!(
            numbers.take_quoted(&quoted(3000, 5, None)),
            None,
            "too short"
        );
        assert_eq!(numbers.take_quoted(&quoted(3000, 5, syn)), Some(0));
        assert_eq!(
            numbers.number_segment(&segment(3000, 6, TcpFlags::SYN)),
            Some(0)
        );
        assert_eq!(numbers.take_quoted(&quoted(3000, 6, syn)), Some(0));
        assert_eq!(numbers.take_quoted(&quoted(3000, 7, syn)), Some(1));
        assert_eq!(
            numbers.number_segment(&segment(3000, 8, TcpFlags::ACK)),
            Some(1)
        );
        assert_eq!(
            numbers.number_segment(&segment(3000, 9, TcpFlags::SYN)),
            Some(2)
        );
        let ack = Some(TcpFlags::ACK);
        assert_eq!(numbers.take_quoted(&quoted(3001, 50, ack)), Some(3));
        assert_eq!(
            numbers.number_segment(&segment(3001, 50, TcpFlags::SYN)),
            Some(3)
        );
        assert_eq!(numbers.count(), 4);
    }
}
