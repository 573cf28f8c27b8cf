//! Analyzes any bytes as what two programs say to each other. The headers around it are valid, so
//! that the bytes reach the protocol that is tested.
//!
//! The first byte says how the connection opens and ends. Chunks follow: a byte with who sends and
//! how it arrives (the constants below), the payload's length in two bytes (little-endian), the
//! payload.

use std::time::Duration;

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::datagram::Datagram;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::{Direction, Endpoint, FlowKey, Transport};
use lagtrace_core::observed::segment::{IpFacts, Segment, SentBy, TcpFlags, TcpOptions};
use lagtrace_core::observed::time::Timestamp;

use crate::analyzer;
use crate::protocols::Kind;

/// Bits of the first byte.
const NO_HANDSHAKE: u8 = 1;
const NO_OPENING: u8 = 2;
const ENDS_BY_RESET: u8 = 4;
const NO_ACKS: u8 = 8;
const IS_COMPARED: u8 = 16;

/// Bits of a chunk's first byte.
const BY_SERVER: u8 = 1;
const PAUSE: u8 = 6;
const SIZE: u8 = 0x18;
const REVERSED: u8 = 0x20;
const TWICE: u8 = 0x40;
const CUT: u8 = 0x80;

/// The times before a chunk, in microseconds, and the sizes of its segments.
const PAUSES: [u64; 4] = [10, 1_000, 45_000, 400_000];
const SIZES: [usize; 4] = [1400, 100, 7, 1];
/// The maximum number of segments of a chunk. The rest of it is not sent.
const MAX_SEGMENTS: usize = 64;

/// Analyzes what is said in a protocol, and checks the result.
pub(crate) fn check(kind: &Kind, bytes: &[u8]) {
    let is_compared = bytes.first().is_some_and(|first| first & IS_COMPARED > 0);
    analyzer::check_packets(|visit| packets(kind, bytes, visit), is_compared);
}

/// Passes each packet of a conversation on.
pub(crate) fn packets(kind: &Kind, bytes: &[u8], visit: &mut dyn FnMut(&Packet<'_>)) {
    let (&first, mut rest) = bytes.split_first().unwrap_or((&0, &[]));
    let mut wire = Wire::new(kind.port, first, visit);
    if kind.transport == Transport::Tcp {
        wire.open();
    }
    if first & NO_OPENING == 0 {
        kind.opening
            .iter()
            .for_each(|(by, text)| match kind.transport {
                Transport::Tcp => wire.say(*by, text),
                Transport::Udp => wire.datagram(*by, text),
            });
    }
    while let Some((way, payload, after)) = chunk(rest) {
        match kind.transport {
            Transport::Tcp => wire.say(way, payload),
            Transport::Udp => wire.datagram(way, payload),
        }
        rest = after;
    }
    if kind.transport == Transport::Tcp {
        wire.close();
    }
}

/// Splits off the first chunk. Returns its first byte, its payload and the bytes after it.
fn chunk(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[way, low, high], rest) = bytes.split_first_chunk()?;
    let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (payload, rest) = rest.split_at(len);
    Some((way, payload, rest))
}

/// Returns the chunk of a payload that one end sends at once.
pub(crate) fn written(by_server: bool, pause: Duration, payload: &[u8]) -> Vec<u8> {
    let longer = PAUSES.iter().skip(1);
    let index = longer.filter(|least| u128::from(**least) <= pause.as_micros());
    let way = u8::from(by_server) | (index.count() as u8) << 1;
    let payload = &payload[..payload.len().min(usize::from(u16::MAX))];
    let [low, high] = (payload.len() as u16).to_le_bytes();
    [&[way, low, high], payload].concat()
}

/// A connection on the wire.
struct Wire<'v> {
    visit: &'v mut dyn FnMut(&Packet<'_>),
    first: u8,
    port: u16,
    micros: u64,
    number: u64,
    /// The next sequence numbers of client and server.
    next: [u32; 2],
}

impl<'v> Wire<'v> {
    fn new(port: u16, first: u8, visit: &'v mut dyn FnMut(&Packet<'_>)) -> Self {
        Self {
            visit,
            first,
            port,
            micros: 0,
            number: 0,
            // The server's numbers wrap around soon.
            next: [1_000, u32::MAX - 300],
        }
    }

    /// Returns the flow of a packet and its direction. The client's port is 40,000 and `more`.
    fn flow(&self, transport: Transport, way: u8, more: u16) -> (FlowKey, Direction) {
        let client = Endpoint::new([10, 0, 0, 1].into(), 40_000 + more);
        let server = Endpoint::new([10, 0, 0, 2].into(), self.port);
        match way & BY_SERVER {
            0 => FlowKey::new(transport, client, server),
            _ => FlowKey::new(transport, server, client),
        }
    }

    fn tick(&mut self, micros: u64) -> Timestamp {
        self.micros += micros;
        self.number += 1;
        let nanos = (self.micros % 1_000_000) as u32 * 1000;
        Timestamp::from_parts(1_700_000_000 + (self.micros / 1_000_000) as i64, nanos)
    }

    fn segment(&mut self, by: u8, flags: TcpFlags, at: u32, payload: &[u8], captured: usize) {
        let by_server = by & BY_SERVER > 0;
        let (flow, direction) = self.flow(Transport::Tcp, by, 0);
        let segment = Segment {
            at: self.tick(5),
            number: self.number,
            point: PointId(0),
            flow,
            direction,
            seq: at,
            ack: self.next[usize::from(!by_server)],
            flags,
            window: 60_000,
            payload_len: payload.len() as u32,
            options: TcpOptions::default(),
            ip: IpFacts {
                ttl: 64,
                ..IpFacts::default()
            },
        };
        (self.visit)(&Packet::Tcp(
            segment,
            &payload[..captured.min(payload.len())],
        ));
    }

    /// Sends a segment that takes one sequence number.
    fn control(&mut self, by: u8, flags: TcpFlags) {
        let own = usize::from(by & BY_SERVER);
        self.segment(by, flags, self.next[own], &[], 0);
        self.next[own] = self.next[own].wrapping_add(1);
    }

    fn acknowledge(&mut self, by: u8) {
        let at = self.next[usize::from(by & BY_SERVER)];
        self.segment(by, TcpFlags::ACK, at, &[], 0);
    }

    fn open(&mut self) {
        if self.first & NO_HANDSHAKE == 0 {
            self.control(0, TcpFlags::SYN);
            self.control(BY_SERVER, TcpFlags::SYN.with(TcpFlags::ACK));
            self.acknowledge(0);
        }
    }

    fn close(&mut self) {
        let flag = if self.first & ENDS_BY_RESET > 0 {
            TcpFlags::RST
        } else {
            TcpFlags::FIN
        };
        self.control(0, flag.with(TcpFlags::ACK));
        self.control(BY_SERVER, flag.with(TcpFlags::ACK));
        self.acknowledge(0);
    }

    /// Sends a payload in segments, in the way that the byte says.
    fn say(&mut self, way: u8, payload: &[u8]) {
        self.micros += PAUSES[usize::from((way & PAUSE) >> 1)];
        let size = SIZES[usize::from((way & SIZE) >> 3)];
        let payload = &payload[..payload.len().min(size * MAX_SEGMENTS)];
        let own = usize::from(way & BY_SERVER);
        let begin = self.next[own];
        let mut parts: Vec<(u32, &[u8])> = Vec::new();
        for part in payload.chunks(size) {
            parts.push((self.next[own], part));
            self.next[own] = self.next[own].wrapping_add(part.len() as u32);
        }
        if way & REVERSED > 0 {
            parts.reverse();
        }
        let last = parts.len().saturating_sub(1);
        for (index, (at, part)) in parts.iter().enumerate() {
            // Of the last segment, the capture has only a part.
            let is_cut = way & CUT > 0 && index == last;
            let captured = if is_cut { part.len() / 2 } else { part.len() };
            self.segment(way, TcpFlags::ACK.with(TcpFlags::PSH), *at, part, captured);
        }
        if way & TWICE > 0 {
            self.segment(way, TcpFlags::ACK, begin, payload, payload.len());
        }
        if self.first & NO_ACKS == 0 {
            self.acknowledge(way ^ BY_SERVER);
        }
    }

    /// Sends a payload as a datagram. The bits for the size of segments choose the client's port.
    fn datagram(&mut self, way: u8, payload: &[u8]) {
        let more = u16::from((way & SIZE) >> 3);
        let (flow, direction) = self.flow(Transport::Udp, way, more);
        let copies = 1 + u32::from(way & TWICE > 0);
        for _ in 0..copies {
            let datagram = Datagram {
                at: self.tick(PAUSES[usize::from((way & PAUSE) >> 1)]),
                number: self.number,
                point: PointId(0),
                flow,
                direction,
                payload_len: payload.len() as u16,
                sent_by: SentBy::Unknown,
            };
            let captured = if way & CUT > 0 {
                payload.len() / 2
            } else {
                payload.len()
            };
            (self.visit)(&Packet::Udp(datagram, &payload[..captured]));
        }
    }
}
