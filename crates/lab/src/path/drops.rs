//! Drops of selected packets, such as "the third data segment of each connection".

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::packet::{ACK, FIN, Flow, ICMP, ICMP6, PSH, Packet, RST, SYN, TCP, UDP};
use crate::quantity::{Size, optional_duration};

/// A selection of packets that are dropped: those that match every condition here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DropSpec {
    /// The kind of TCP segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<Flags>,
    /// The protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// The source or destination port, of TCP or UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Minimum size, IP header included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<Size>,
    /// Maximum size, IP header included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Size>,
    /// The period in which packets match, counted from the first packet of the connection (with
    /// `per_flow`) or of the path.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub within: Option<Duration>,
    /// The numbers of the matching packets that are dropped, counted from 1; all matching packets
    /// if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nth: Vec<u64>,
    /// The number of packets after which counting starts again: `nth = [1, 2, 3], of = 4` drops
    /// three of four.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// True to count the packets of each connection separately, without retransmissions.
    pub per_flow: bool,
    /// The number of times that a selected TCP segment is dropped: with 2, its first retransmission
    /// is lost too. Dropped retransmissions are not counted by `nth`. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

/// A kind of TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flags {
    /// A SYN without ACK.
    Syn,
    /// A SYN/ACK.
    SynAck,
    /// A segment with FIN.
    Fin,
    /// A segment with RST.
    Rst,
    /// A pure acknowledgement.
    PureAck,
    /// A segment with data.
    Data,
    /// A segment with data and PSH: the last one of a write.
    Psh,
}

/// A protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP or ICMPv6.
    Icmp,
}

impl DropSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        let numbers = self.of.is_none_or(|of| {
            of > 0 && !self.nth.is_empty() && self.nth.iter().all(|nth| *nth <= of)
        });
        if !numbers || self.nth.contains(&0) {
            return Err("a drop counts from 1 to `of`".to_owned());
        }
        match self.times {
            Some(0) => Err("a drop is to happen 0 times".to_owned()),
            _ => Ok(()),
        }
    }

    fn matches(&self, packet: &Packet<'_>) -> bool {
        let size = packet.size();
        self.min_size.is_none_or(|least| size >= least.bytes())
            && self.max_size.is_none_or(|most| size <= most.bytes())
            && self.protocol.is_none_or(|wanted| wanted.is_of(packet))
            && self.port.is_none_or(|wanted| has_port(packet, wanted))
            && self.flags.is_none_or(|wanted| wanted.is_of(packet))
    }

    fn chooses(&self, number: u64) -> bool {
        let number = self.of.map_or(number, |of| (number - 1) % of + 1);
        self.nth.is_empty() || self.nth.contains(&number)
    }
}

fn has_port(packet: &Packet<'_>, wanted: u16) -> bool {
    packet.headers().is_some_and(|headers| {
        let (from, to) = headers.flow.ports;
        from == wanted || to == wanted
    })
}

impl Protocol {
    fn is_of(self, packet: &Packet<'_>) -> bool {
        let Some(headers) = packet.headers() else {
            return false;
        };
        match self {
            Self::Tcp => headers.flow.protocol == TCP,
            Self::Udp => headers.flow.protocol == UDP,
            Self::Icmp => matches!(headers.flow.protocol, ICMP | ICMP6),
        }
    }
}

impl Flags {
    fn is_of(self, packet: &Packet<'_>) -> bool {
        let Some(tcp) = packet.tcp() else {
            return false;
        };
        match self {
            Self::Syn => tcp.flags & (SYN | ACK) == SYN,
            Self::SynAck => tcp.flags & (SYN | ACK) == SYN | ACK,
            Self::Fin => tcp.flags & FIN != 0,
            Self::Rst => tcp.flags & RST != 0,
            Self::PureAck => packet.is_pure_ack(),
            Self::Data => tcp.payload > 0,
            Self::Psh => tcp.payload > 0 && tcp.flags & PSH != 0,
        }
    }
}

/// Maximum number of flows that are counted separately; further flows lose no packets.
const FLOW_LIMIT: usize = 65_536;

/// Maximum number of segments whose retransmissions are awaited.
const REPEAT_LIMIT: usize = 4_096;

/// The stage that drops selected packets.
#[derive(Debug, Clone)]
pub(super) struct Drops {
    spec: DropSpec,
    whole: Count,
    flows: HashMap<Flow, Count>,
    repeats: HashMap<(Flow, u32), u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    matched: u64,
    begun: Duration,
    /// The sequence number that follows all data so far.
    next: Option<u32>,
}

impl Drops {
    pub(super) fn new(spec: DropSpec) -> Self {
        Self {
            spec,
            whole: Count::default(),
            flows: HashMap::new(),
            repeats: HashMap::new(),
        }
    }

    /// Returns true if this packet is dropped; `now` is counted from the path's first packet.
    pub(super) fn strikes(&mut self, packet: &Packet<'_>, now: Duration) -> bool {
        let begun = if self.spec.per_flow {
            self.note_flow(packet, now)
        } else {
            Some(Duration::ZERO)
        };
        let Some(begun) = begun else {
            return false;
        };
        let is_repetition = self.note_data(packet);
        if !self.spec.matches(packet) {
            return false;
        }
        if self.strikes_again(packet) {
            return true;
        }
        if is_repetition {
            return false;
        }
        let late = |within| now.saturating_sub(begun) > within;
        if self.spec.within.is_some_and(late) {
            return false;
        }
        let number = self.count(packet);
        let chosen = self.spec.chooses(number);
        if chosen {
            self.expect_repeats(packet);
        }
        chosen
    }

    /// Returns the time at which the packet's connection began; a SYN begins a new one. `None` if
    /// the packet is not IP, or if its flow exceeds the maximum number of flows.
    fn note_flow(&mut self, packet: &Packet<'_>, now: Duration) -> Option<Duration> {
        let flow = packet.headers()?.flow;
        let is_full = self.flows.len() >= FLOW_LIMIT;
        let begins = packet.tcp().is_some_and(|tcp| tcp.flags & SYN != 0);
        match self.flows.entry(flow) {
            Entry::Occupied(known) => {
                let count = known.into_mut();
                // A retransmitted SYN does not begin a new connection. It follows the first SYN
                // soon.
                const REPEATED: Duration = Duration::from_secs(10);
                if begins && now.saturating_sub(count.begun) > REPEATED {
                    *count = Count::default();
                    count.begun = now;
                }
                Some(count.begun)
            }
            Entry::Vacant(_) if is_full => None,
            Entry::Vacant(unknown) => {
                unknown.insert(Count {
                    begun: now,
                    ..Count::default()
                });
                Some(now)
            }
        }
    }

    /// Returns true if a connection that is counted separately has carried this data before.
    fn note_data(&mut self, packet: &Packet<'_>) -> bool {
        let Some(tcp) = packet.tcp().filter(|tcp| tcp.payload > 0) else {
            return false;
        };
        let flow = packet.headers().map(|headers| headers.flow);
        let Some(count) = flow.and_then(|flow| self.flows.get_mut(&flow)) else {
            return false;
        };
        // Sequence numbers wrap. A number is later if it is ahead by less than half of the number
        // space (RFC 9293 §3.4).
        let is_old = |next: u32| next.wrapping_sub(tcp.sequence).wrapping_sub(1) < 1 << 31;
        if count.next.is_some_and(is_old) {
            return true;
        }
        count.next = Some(tcp.sequence.wrapping_add(tcp.payload as u32));
        false
    }

    fn count(&mut self, packet: &Packet<'_>) -> u64 {
        let flow = packet.headers().map(|headers| headers.flow);
        let own = if self.spec.per_flow {
            flow.and_then(|flow| self.flows.get_mut(&flow))
        } else {
            None
        };
        let count = own.unwrap_or(&mut self.whole);
        count.matched += 1;
        count.matched
    }

    fn strikes_again(&mut self, packet: &Packet<'_>) -> bool {
        if self.repeats.is_empty() {
            return false;
        }
        let Some(key) = segment(packet) else {
            return false;
        };
        let Entry::Occupied(mut left) = self.repeats.entry(key) else {
            return false;
        };
        *left.get_mut() -= 1;
        if *left.get() == 0 {
            left.remove();
        }
        true
    }

    fn expect_repeats(&mut self, packet: &Packet<'_>) {
        let more = self.spec.times.unwrap_or(1).saturating_sub(1);
        if more == 0 || self.repeats.len() >= REPEAT_LIMIT {
            return;
        }
        if let Some(key) = segment(packet) {
            self.repeats.insert(key, more);
        }
    }
}

/// Returns the flow and sequence number that a TCP segment and its retransmissions share.
fn segment(packet: &Packet<'_>) -> Option<(Flow, u32)> {
    Some((packet.headers()?.flow, packet.tcp()?.sequence))
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{datagram_v6, segment};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn drops(toml: &str) -> Drops {
        let spec: DropSpec = toml::from_str(toml).expect("reads");
        spec.check().expect("makes sense");
        Drops::new(spec)
    }

    /// Returns the indexes of the dropped packets; `packets` are sent a millisecond apart.
    fn struck(drops: &mut Drops, packets: &[Vec<u8>]) -> Vec<usize> {
        let ages = (0..).map(|n| MS * n);
        let fates = packets.iter().zip(ages);
        fates
            .enumerate()
            .filter(|(_, (bytes, age))| drops.strikes(&Packet::new(bytes), *age))
            .map(|(n, _)| n)
            .collect()
    }

    #[test]
    fn each_kind_of_segment_is_known() {
        let packets = [
            segment((1, 2), SYN, 0, 0),
            segment((1, 2), SYN | ACK, 0, 0),
            segment((1, 2), ACK, 1, 0),
            segment((1, 2), ACK, 1, 9),
            segment((1, 2), ACK | PSH, 1, 9),
            segment((1, 2), ACK | FIN, 1, 0),
            segment((1, 2), RST, 1, 0),
            datagram_v6(9),
        ];
        for (toml, wanted) in [
            ("flags = 'syn'", vec![0]),
            ("flags = 'syn-ack'", vec![1]),
            ("flags = 'pure-ack'", vec![2]),
            ("flags = 'data'", vec![3, 4]),
            ("flags = 'psh'", vec![4]),
            ("flags = 'fin'", vec![5]),
            ("flags = 'rst'", vec![6]),
            ("protocol = 'udp'", vec![7]),
            ("protocol = 'icmp'", vec![]),
            ("port = 53", vec![7]),
            ("port = 1", vec![0, 1, 2, 3, 4, 5, 6]),
            ("min_size = '41B'\nmax_size = '49B'", vec![3, 4]),
            ("nth = [1, 8]", vec![0, 7]),
            ("within = '1ms'", vec![0, 1]),
        ] {
            assert_eq!(struck(&mut drops(toml), &packets), wanted, "{toml}");
        }
    }

    #[test]
    fn the_nth_of_each_connection_or_of_all() {
        let packets: Vec<_> = (0..8)
            .map(|n| segment((n % 2, 9), ACK, n.into(), 1))
            .collect();
        assert_eq!(struck(&mut drops("nth = [2]"), &packets), [1]);
        let each = "nth = [2]\nper_flow = true";
        assert_eq!(struck(&mut drops(each), &packets), [2, 3]);
        let three_of_four = "nth = [1, 2, 3]\nof = 4";
        assert_eq!(
            struck(&mut drops(three_of_four), &packets),
            [0, 1, 2, 4, 5, 6]
        );
        let early = "per_flow = true\nwithin = '3ms'";
        assert_eq!(struck(&mut drops(early), &packets), [0, 1, 2, 3]);
    }

    #[test]
    fn a_segment_is_lost_as_often_as_asked_and_its_repetitions_are_not_counted() {
        let (first, second) = (segment((1, 2), ACK, 1, 9), segment((1, 2), ACK, 10, 9));
        let packets = [
            first.clone(),
            second.clone(),
            first.clone(),
            first.clone(),
            second,
            first,
        ];
        let twice = "flags = 'data'\nnth = [1]\ntimes = 3";
        assert_eq!(struck(&mut drops(twice), &packets), [0, 2, 3]);
    }

    #[test]
    fn a_connection_counts_its_data_once_also_where_sequence_numbers_wrap() {
        let at = |sequence: u32| segment((1, 2), ACK, sequence, 10);
        let packets = [
            at(u32::MAX - 9),
            at(0),
            at(u32::MAX - 9),
            at(0),
            at(10),
            at(20),
        ];
        let third = "flags = 'data'\nnth = [3]\nper_flow = true";
        assert_eq!(struck(&mut drops(third), &packets), [4]);
    }

    #[test]
    fn nonsense_is_refused() {
        for toml in ["nth = [0]", "of = 4", "nth = [5]\nof = 4", "times = 0"] {
            let spec: DropSpec = toml::from_str(toml).expect("reads");
            assert!(spec.check().is_err(), "{toml}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut drops = drops("per_flow = true\nnth = [1]\ntimes = 9");
        for n in 0..70_000u32 {
            let ports = ((n >> 8) as u16, (n & 255) as u16);
            let _ = drops.strikes(&Packet::new(&segment(ports, ACK, n, 1)), MS);
        }
        assert_eq!(drops.flows.len(), FLOW_LIMIT);
        assert_eq!(drops.repeats.len(), REPEAT_LIMIT);
    }
}
