//! Connections one by one: their stream numbers, and the few records that rank highest by a key.
//! Nothing is collected unless records were requested.
//!
//! Counts match those of `tshark` (`-z conv,tcp`, `tcp.analysis.*`) and `tcptrace -lr`. The tests
//! of the command check this. These figures are exceptions:
//!
//! | figure | here | in tshark or tcptrace |
//! |---|---|---|
//! | retransmitted, out of order | distinguished by the sender's IP-ID and TSval; undetermined without them | tshark decides by a limit of 3 ms or the first round trip; the sum of both counts is the same |
//! | fast, by timer, by probe | by the event that ended the wait after the loss | tshark: a duplicate ACK within 20 ms; neither knows tail-loss probes |
//! | spurious | D-SACK, or an answer sooner than the path allows | tshark: acknowledged before the retransmission passes the capture point, which is not visible far from the sender |
//! | duplicate ACKs | only while data is outstanding (RFC 5681 §2) | tshark also counts D-SACKs, the answers to spurious retransmissions |
//! | probes | keep-alive and zero-window probes, recognized by their sequence number | tcptrace counts probes without data as bare ACKs |
//! | a retransmitted FIN | counted if its first copy was seen | tshark counts it in any case |
//! | windows | unknown without both SYNs | both print the field unscaled |
//! | maximum in flight | highest byte sent minus bytes acknowledged | tshark uses the latest segment's sequence number, even if other segments overtook it |
//! | initial window | the first flight; a lower bound unless the window ended it | tcptrace: all data before the first ACK |
//! | round trips | from the point to each end; the minimum includes the handshake's | tcptrace has no median; its mean includes delayed ACKs, as ours does |
//! | packets long after the end | not counted if more than 2 s later | all are counted |

use core::cmp::Reverse;
use core::fmt;
use core::hash::BuildHasher as _;
use std::collections::BTreeMap;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::conclude::{connection_record, quic_record};
use crate::connection::Watched;
use crate::observed::datagram::Datagram;
use crate::observed::event::PointId;
use crate::observed::flow::{FlowKey, Transport};
use crate::observed::icmp::IcmpError;
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::side::PerSide;
use crate::observed::time::nanos;
use crate::protocol::quic;
use crate::report::{ConnectionRecord, Connections};

/// Maximum number of flows whose stream number is remembered. Connections of later flows get none.
const MAX_FLOWS: usize = 1 << 20;

/// Receives the record of each connection when the connection ends or is no longer followed.
pub type ConnectionSink = Box<dyn FnMut(&ConnectionRecord) + Send>;

/// The connections that the report lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Maximum number of connections that the report lists; with 0, none are collected.
    pub limit: usize,
    /// The key by which connections are ranked, highest first.
    pub by: Key,
    /// Number of observation points reserved for each capture file. The points of one file are
    /// consecutive, and each file has its own stream numbers. With 0, all points belong to one
    /// file.
    pub points_per_file: u16,
}

/// The key by which connections are sorted, highest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// Time lost by the connection's exchanges.
    #[default]
    Lost,
    /// Packets.
    Packets,
    /// Payload bytes.
    Bytes,
    /// Time from the first to the last packet.
    Duration,
    /// Duration of the handshake.
    Handshake,
    /// Sum of the minimum round trips to both ends.
    RoundTrip,
    /// Packets retransmitted or late.
    Retransmissions,
    /// Time with a zero window.
    ZeroWindow,
    /// Requests.
    Exchanges,
    /// Start time: the earliest first.
    Start,
}

impl Key {
    /// All keys.
    pub const ALL: [Self; 10] = [
        Self::Lost,
        Self::Packets,
        Self::Bytes,
        Self::Duration,
        Self::Handshake,
        Self::RoundTrip,
        Self::Retransmissions,
        Self::ZeroWindow,
        Self::Exchanges,
        Self::Start,
    ];

    /// Returns the key's name, such as `round-trip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Handshake => "handshake",
            Self::RoundTrip => "round-trip",
            Self::Retransmissions => "retransmissions",
            Self::ZeroWindow => "zero-window",
            Self::Exchanges => "exchanges",
            Self::Start => "start",
        }
    }
}

/// The rank of a connection: first by the key, then by start time, point and packet number.
type Rank = Reverse<(u64, Reverse<(i64, u16, u64)>)>;

/// A connection that is no longer followed.
#[derive(Debug)]
enum Ended {
    Tcp(Watched),
    Quic(Box<quic::QuicFlow>),
}

/// The connections collected so far.
pub(crate) struct Collected {
    wanted: Wanted,
    seen: u64,
    kept: BTreeMap<Rank, Ended>,
    /// Stream numbers by file; TCP and UDP are numbered separately.
    files: BTreeMap<u16, [StreamNumbers; 2]>,
    quic: quic::Flows,
    hasher: SeedableRandomState,
    sink: Option<ConnectionSink>,
}

impl Collected {
    pub(crate) fn new(wanted: Wanted, hasher: SeedableRandomState) -> Self {
        Self {
            wanted,
            seen: 0,
            kept: BTreeMap::new(),
            files: BTreeMap::new(),
            quic: quic::Flows::new(hasher.clone()),
            hasher,
            sink: None,
        }
    }

    pub(crate) fn set_sink(&mut self, sink: ConnectionSink) {
        self.sink = Some(sink);
    }

    /// Returns true if records are collected or a sink receives them.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.limit > 0 || self.sink.is_some()
    }

    /// Returns the stream number of the segment's connection.
    pub(crate) fn number(&mut self, segment: &Segment) -> Option<u32> {
        let (flow, seq, ack) = (segment.flow, segment.seq, segment.ack);
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let is_ack = segment.flags.contains(TcpFlags::ACK);
        let [tcp, _] = self.file(segment.point);
        match (is_syn, is_ack) {
            (true, false) => tcp.number(flow, Some(seq)),
            (true, true) => tcp.number_answer(flow, ack.wrapping_sub(1)),
            (false, _) => tcp.number(flow, None),
        }
    }

    /// Numbers the connection that an ICMP error quotes, as Wireshark does.
    pub(crate) fn number_quoted(&mut self, error: &IcmpError) {
        if !self.is_wanted() {
            return;
        }
        let [tcp, udp] = self.file(error.point);
        match (error.flow.transport(), error.seq, error.flags) {
            (Transport::Udp, ..) => {
                udp.number(error.flow, None);
            }
            (Transport::Tcp, Some(seq), Some(flags)) => {
                let bits = flags.0 & (TcpFlags::SYN.0 | TcpFlags::ACK.0);
                let opening = (bits == TcpFlags::SYN.0).then_some(seq);
                tcp.number_quoted(error.flow, opening);
            }
            (Transport::Tcp, ..) => {}
        }
    }

    fn file(&mut self, point: PointId) -> &mut [StreamNumbers; 2] {
        let file = point.0.checked_div(self.wanted.points_per_file);
        let hasher = &self.hasher;
        let fresh = || [0; 2].map(|_| StreamNumbers::new(hasher.clone()));
        self.files
            .entry(file.unwrap_or_default())
            .or_insert_with(fresh)
    }

    /// Records a connection that is no longer followed.
    pub(crate) fn add_connection(&mut self, watched: Watched) {
        self.keep(Ended::Tcp(watched));
    }

    /// Records a QUIC connection that is no longer followed.
    pub(crate) fn take_quic(&mut self, flow: Box<quic::QuicFlow>) {
        self.keep(Ended::Quic(flow));
    }

    /// Processes a datagram if records are wanted. Returns the flows that are no longer followed,
    /// which the caller must pass to `take_quic`.
    pub(crate) fn datagram(
        &mut self,
        datagram: &Datagram,
        payload: &[u8],
    ) -> impl Iterator<Item = Box<quic::QuicFlow>> + use<> {
        let mut closed = Vec::new();
        if self.is_wanted() {
            let [_, udp] = self.file(datagram.point);
            let stream = udp.number(datagram.flow, None);
            self.quic
                .observe_datagram(datagram, payload, stream, &mut closed);
        }
        closed.into_iter()
    }

    fn keep(&mut self, ended: Ended) {
        self.seen += 1;
        if let Some(sink) = &mut self.sink {
            sink(&ended.record());
        }
        let rank = Reverse((ended.value(self.wanted.by), Reverse(ended.place())));
        self.kept.insert(rank, ended);
        if self.kept.len() > self.wanted.limit {
            self.kept.pop_last();
        }
    }

    /// Returns the list; `None` if no list was requested.
    pub(crate) fn finish(&mut self) -> Option<Connections> {
        for flow in self.quic.finish() {
            self.keep(Ended::Quic(flow));
        }
        let kept = core::mem::take(&mut self.kept);
        (self.wanted.limit > 0).then(|| Connections {
            seen: self.seen,
            sorted_by: self.wanted.by.name().to_owned(),
            list: kept.values().map(Ended::record).collect(),
        })
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected")
            .field("wanted", &self.wanted)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl Ended {
    fn record(&self) -> ConnectionRecord {
        match self {
            Self::Tcp(watched) => connection_record(watched),
            Self::Quic(flow) => quic_record(flow),
        }
    }

    /// Returns the time, observation point and packet number at which the connection was first
    /// seen.
    fn place(&self) -> (i64, u16, u64) {
        let (first, point, packet) = match self {
            Self::Tcp(watched) => {
                let facts = &watched.facts;
                (facts.first, watched.point, facts.first_packet)
            }
            Self::Quic(flow) => (flow.first, flow.point, flow.packets.first),
        };
        (first.as_nanos(), point.0, packet)
    }

    /// Returns the value of the sort key; 0 if the value is unknown.
    fn value(&self, key: Key) -> u64 {
        match self {
            _ if key == Key::Start => earliness(self.place().0),
            Self::Tcp(watched) => of_tcp(watched, key),
            Self::Quic(flow) => of_quic(flow, key),
        }
    }
}

/// Returns a number that is larger for an earlier `ns`.
fn earliness(ns: i64) -> u64 {
    u64::try_from(i128::from(i64::MAX) - i128::from(ns)).unwrap_or(u64::MAX)
}

fn of_tcp(watched: &Watched, key: Key) -> u64 {
    let facts = &watched.facts;
    let ends = watched.both();
    match key {
        Key::Lost | Key::Start => facts.lost.total(),
        Key::Packets => ends.iter().map(|end| u64::from(end.sent.segments)).sum(),
        Key::Bytes => ends.iter().map(|end| end.sent.bytes).sum(),
        Key::Duration => nanos(watched.last_seen.since(facts.first)),
        Key::Handshake => facts.opening.whole().map_or(0, nanos),
        Key::RoundTrip => watched
            .trips
            .each()
            .into_iter()
            .filter_map(|trip| trip.floor().map(nanos))
            .fold(0, u64::saturating_add),
        Key::Retransmissions => ends.iter().map(|end| u64::from(end.resent())).sum(),
        Key::ZeroWindow => ends
            .iter()
            .filter_map(|end| end.rare())
            .map(|rare| nanos(rare.zero_window.total(watched.last_seen)))
            .fold(0, u64::saturating_add),
        Key::Exchanges => u64::from(facts.exchanges),
    }
}

fn of_quic(flow: &quic::QuicFlow, key: Key) -> u64 {
    let PerSide { client, server } = flow.sent;
    match key {
        Key::Packets => client.datagrams + server.datagrams,
        Key::Bytes => client.bytes + server.bytes,
        Key::Duration => nanos(flow.last.since(flow.first)),
        Key::Handshake => flow.handshake().map_or(0, nanos),
        Key::RoundTrip => {
            let trip = flow.to_server().zip(flow.to_client());
            trip.map_or(0, |(one, other)| nanos(one).saturating_add(nanos(other)))
        }
        Key::Lost | Key::Retransmissions | Key::ZeroWindow | Key::Exchanges | Key::Start => 0,
    }
}

/// Numbers the connections of one capture file from 0 in the order of their first packets, as
/// Wireshark does (`epan/dissectors/packet-tcp.c`). A SYN with a different sequence number begins a
/// new connection.
#[derive(Debug)]
struct StreamNumbers {
    /// Numbers by a hash of the flow. The hash takes a third of the flow's memory. In captures of a
    /// million flows, two flows share a hash in one of 30 million captures.
    flows: HashMap<u64, Numbered, SeedableRandomState>,
    hasher: SeedableRandomState,
    next: u32,
}

/// The latest connection of a flow.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    number: u32,
    /// Sequence number of the connection's SYN, or one of the values [`MIDWAY`] and [`QUOTED`].
    opening: u32,
}

/// The value of `opening` if no SYN was seen.
const MIDWAY: u32 = 0;
/// The value of `opening` if only headers quoted in ICMP errors were seen.
const QUOTED: u32 = u32::MAX;

impl StreamNumbers {
    fn new(hasher: SeedableRandomState) -> Self {
        Self {
            flows: HashMap::with_hasher(hasher.clone()),
            hasher,
            next: 0,
        }
    }

    /// Returns the number of a flow's connection; `opening` is the sequence number of its SYN.
    fn number(&mut self, flow: FlowKey, opening: Option<u32>) -> Option<u32> {
        let seen = opening.map_or(MIDWAY, place_of);
        self.enter(flow, seen, seen)
    }

    /// Returns the number of a connection whose SYN/ACK was seen, possibly before its SYN;
    /// `opening` is the sequence number of the SYN.
    fn number_answer(&mut self, flow: FlowKey, opening: u32) -> Option<u32> {
        self.enter(flow, MIDWAY, place_of(opening))
    }

    /// Numbers the connection of a quoted segment.
    fn number_quoted(&mut self, flow: FlowKey, opening: Option<u32>) {
        self.enter(flow, opening.map_or(MIDWAY, place_of), QUOTED);
    }

    /// Returns the number of the flow's connection whose SYN is `seen`. A new connection is
    /// remembered with `opening`.
    fn enter(&mut self, flow: FlowKey, seen: u32, opening: u32) -> Option<u32> {
        let flow = self.hasher.hash_one(flow);
        let fresh = Numbered {
            number: self.next,
            opening,
        };
        let is_full = self.flows.len() >= MAX_FLOWS;
        match self.flows.get_mut(&flow) {
            Some(known) if known.opening == QUOTED => {
                known.opening = opening;
                return Some(known.number);
            }
            Some(known) if seen == MIDWAY || seen == known.opening => return Some(known.number),
            Some(known) => *known = fresh,
            None if is_full => return None,
            None => {
                self.flows.insert(flow, fresh);
            }
        }
        self.next = self.next.saturating_add(1);
        Some(fresh.number)
    }
}

/// Returns a SYN's sequence number in the form in which it is stored, which differs from the
/// special values.
fn place_of(seq: u32) -> u32 {
    seq.clamp(MIDWAY + 1, QUOTED - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow;
    use crate::observed::flow::Endpoint;

    #[test]
    fn numbers_go_by_first_packets_and_a_forgotten_flow_keeps_its_own() {
        let mut numbers = StreamNumbers::new(flow::hasher(7));
        let mut number = |port, opening| {
            let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
            let (flow, _) = FlowKey::new(Transport::Tcp, end(1, port), end(2, 80));
            numbers.number(flow, opening)
        };
        assert_eq!(number(77, Some(100)), Some(0));
        assert_eq!(number(5, None), Some(1), "begun before the capture");
        assert_eq!(number(77, None), Some(0), "met again");
        assert_eq!(number(77, Some(100)), Some(0), "at another point");
        assert_eq!(number(77, Some(900)), Some(2), "opened anew");
        assert_eq!(number(77, None), Some(2));
        assert_eq!(number(5, Some(1)), Some(3));
    }

    #[test]
    fn what_an_icmp_error_quotes_is_numbered_too() {
        let mut numbers = StreamNumbers::new(flow::hasher(7));
        let flow = |port| {
            let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
            FlowKey::new(Transport::Tcp, end(1, port), end(2, 80)).0
        };
        numbers.number_quoted(flow(5), Some(100));
        assert_eq!(numbers.number(flow(5), Some(101)), Some(0), "its own begin");
        numbers.number_quoted(flow(5), Some(101));
        assert_eq!(numbers.number(flow(5), None), Some(0), "the same segment");
        numbers.number_quoted(flow(5), Some(102));
        assert_eq!(numbers.number(flow(5), None), Some(1), "opened anew");
        assert_eq!(numbers.number_answer(flow(8), 7), Some(2));
        assert_eq!(numbers.number(flow(8), Some(7)), Some(2), "out of order");
        assert_eq!(numbers.number(flow(8), Some(9)), Some(3), "opened anew");
        numbers.number_quoted(flow(6), None);
        assert_eq!(numbers.number(flow(7), Some(1)), Some(5));
    }
}
