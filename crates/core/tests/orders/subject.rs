//! The parts of the core that are fed, and the packets that feed them.

use core::net::{IpAddr, Ipv4Addr};

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::decode::{Decoder, LinkType, Packet, Record};
use lagtrace_core::observed::event::{Event, EventBody, Phase, PointId};
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::segment::{IpFacts, Segment, TcpFlags, TcpOptions};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::views::connections::Wanted;
use lagtrace_core::views::picture::Keeps;

/// The time between two packets, in nanoseconds.
const STEP: i64 = 10_000;
/// The time of the first packet, in nanoseconds since 1970.
pub(crate) const START: i64 = 1_700_000_000_000_000_000;

pub(crate) const SYN: TcpFlags = TcpFlags::SYN;
pub(crate) const ACK: TcpFlags = TcpFlags::ACK;
pub(crate) const DATA: TcpFlags = TcpFlags::ACK.with(TcpFlags::PSH);

/// Something that is fed by keys, one after the other, and then concludes.
pub(crate) trait Subject {
    /// Feeds what belongs to a key.
    fn take(&mut self, key: u32);
    /// Ends the input, and concludes.
    fn end(self: Box<Self>);
}

/// An analysis or a view that concludes at the end of its input.
pub(crate) trait Concludes {
    /// Concludes from all that was fed.
    fn conclude(self);
}

/// A subject, with a function that feeds it what belongs to a key.
pub(crate) struct Fed<Of, Feed> {
    of: Of,
    feed: Feed,
}

impl<Of: Concludes + 'static, Feed: FnMut(&mut Of, u32) + 'static> Fed<Of, Feed> {
    pub(crate) fn by(of: Of, feed: Feed) -> Box<dyn Subject> {
        Box::new(Self { of, feed })
    }
}

impl<Of: Concludes, Feed: FnMut(&mut Of, u32)> Subject for Fed<Of, Feed> {
    fn take(&mut self, key: u32) {
        (self.feed)(&mut self.of, key);
    }

    fn end(self: Box<Self>) {
        self.of.conclude();
    }
}

/// Returns an endpoint in 10.0.0.0/8.
pub(crate) fn end(host: u32, port: u16) -> Endpoint {
    Endpoint::new(address(host), port)
}

/// Returns an address in 10.0.0.0/8.
pub(crate) fn address(host: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + host))
}

/// A TCP segment of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Tcp {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    /// The length of a payload of which nothing was captured.
    pub(crate) unseen: u32,
    pub(crate) options: TcpOptions,
    pub(crate) id: Option<u16>,
    pub(crate) point: u16,
}

/// The ends of a connection. Both sides' data begin at sequence number 1.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
}

impl Ends {
    pub(crate) fn new(client: Endpoint, server: Endpoint) -> Self {
        Self { client, server }
    }

    /// Returns the connection of most drivers.
    pub(crate) fn usual() -> Self {
        Self::new(end(1, 40_000), end(2, 80))
    }

    /// Returns a segment of the client without a payload.
    pub(crate) fn up(&self, seq: u32, ack: u32) -> Tcp {
        Tcp {
            from: self.client,
            to: self.server,
            seq,
            ack,
            flags: DATA,
            window: 60_000,
            unseen: 0,
            options: TcpOptions::default(),
            id: None,
            point: 0,
        }
    }

    /// Returns a segment of the server without a payload.
    pub(crate) fn down(&self, seq: u32, ack: u32) -> Tcp {
        let (from, to) = (self.server, self.client);
        let up = self.up(seq, ack);
        Tcp { from, to, ..up }
    }
}

impl Tcp {
    pub(crate) fn flags(self, flags: TcpFlags) -> Self {
        Self { flags, ..self }
    }

    pub(crate) fn segment(&self, nanos: i64, number: u64, payload: &[u8]) -> Segment {
        let (flow, direction) = FlowKey::new(Transport::Tcp, self.from, self.to);
        Segment {
            at: Timestamp::from_nanos(nanos),
            number,
            point: PointId(self.point),
            flow,
            direction,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            payload_len: self.unseen + payload.len() as u32,
            options: self.options,
            ip: IpFacts {
                ttl: 60,
                id: self.id,
                ..IpFacts::default()
            },
        }
    }
}

/// The analysis of packets and other observations, to the picture.
pub(crate) struct Analysis {
    analyzer: Analyzer,
    decoder: Decoder,
    number: u64,
    /// The time of the latest packet, in nanoseconds since 1970.
    pub(crate) nanos: i64,
}

impl Concludes for Analysis {
    fn conclude(self) {
        let (report, picture) = self.analyzer.finish_with_picture();
        assert!(picture.is_some() && report.findings.len() < 1_000);
    }
}

impl Analysis {
    pub(crate) fn new() -> Self {
        let options = Options {
            hash_seed: 1,
            connections: Wanted {
                limit: 8,
                ..Wanted::default()
            },
            ..Options::default()
        };
        let analyzer = Analyzer::new(options).with_picture();
        Self {
            analyzer: analyzer
                .with_sink(Box::new(|_| ()))
                .with_packets(Keeps::Latest),
            decoder: Decoder::new(),
            number: 0,
            nanos: START,
        }
    }

    /// Returns the number of the next packet, which comes a little after the one before.
    pub(crate) fn next(&mut self) -> u64 {
        self.nanos += STEP;
        self.number += 1;
        self.number
    }

    pub(crate) fn tcp(&mut self, tcp: &Tcp, payload: &[u8]) {
        let number = self.next();
        let segment = tcp.segment(self.nanos, number, payload);
        self.analyzer.packet(&Packet::Tcp(segment, payload));
    }

    pub(crate) fn packet(&mut self, packet: &Packet<'_>) {
        self.analyzer.packet(packet);
    }

    /// Adds an IPv4 packet that has to be decoded.
    pub(crate) fn record(&mut self, bytes: &[u8]) {
        let number = self.next();
        let record = Record {
            number,
            at: Some(Timestamp::from_nanos(self.nanos)),
            link: LinkType::RAW,
            interface: 0,
            original_len: bytes.len() as u32,
            bytes,
        };
        let packet = self.decoder.packet(&record, PointId(0));
        self.analyzer.packet(&packet);
    }

    pub(crate) fn event(&mut self, body: EventBody) {
        let at = Timestamp::from_nanos(self.nanos);
        self.analyzer
            .observe(Event::here(at, Phase::Baseline, body));
    }

    /// Opens a connection by its handshake.
    pub(crate) fn open(&mut self, ends: &Ends) {
        self.tcp(&ends.up(0, 0).flags(SYN), b"");
        self.tcp(&ends.down(0, 1).flags(SYN.with(ACK)), b"");
        self.tcp(&ends.up(1, 1).flags(ACK), b"");
    }
}

/// Returns an IPv4 packet.
pub(crate) fn ipv4(
    protocol: u8,
    [from, to]: [u32; 2],
    id: u16,
    part: u16,
    content: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + content.len() as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(part.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend((0x0a00_0000 + from).to_be_bytes());
    packet.extend((0x0a00_0000 + to).to_be_bytes());
    packet.extend(content);
    packet
}
