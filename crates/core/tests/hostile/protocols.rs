//! The protocols that are tested with conversations, and the conversations of recordings.

use std::collections::BTreeMap;

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::flow::{Direction, FlowKey, Transport};
use lagtrace_core::observed::segment::TcpFlags;
use lagtrace_core::observed::time::Timestamp;

use crate::{analyzer, conversation};

/// A protocol.
pub(crate) struct Kind {
    /// Its name, which is also the name of its fuzz target.
    pub(crate) name: &'static str,
    pub(crate) transport: Transport,
    /// The server's port.
    pub(crate) port: u16,
    /// Messages at the beginning, so that the protocol is recognized: 1 for the server's, 0 for the
    /// client's.
    pub(crate) opening: &'static [(u8, &'static [u8])],
    /// Words of which a recording's name contains one if it has the protocol.
    recorded: &'static [&'static str],
    /// The beginnings of a client's or server's first bytes, one of which is in each recording.
    begins: &'static [&'static [u8]],
}

const HTTP: &[&[u8]] = &[b"GET ", b"POST ", b"HEAD "];
const GREETING: &[u8] = b"\x1a\0\0\0\x0a8.0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The protocols, by name.
pub(crate) const KINDS: [Kind; 10] = [
    tcp("http1", 80, &[], &[""], HTTP),
    tcp("http2", 80, &[(0, PREFACE)], &["http2"], &[b"PRI "]),
    tcp("tls", 443, &[], &["tls"], &[b"\x16\x03"]),
    tcp(
        "redis",
        6379,
        &[(0, b"*1\r\n$4\r\nPING\r\n")],
        &["redis"],
        &[b"*", b"PING"],
    ),
    tcp("postgres", 5432, &[(0, STARTUP)], &["postgres"], &[b"\0\0"]),
    tcp("mysql", 3306, &[(1, GREETING)], &["mysql"], &[b""]),
    tcp(
        "memcached",
        11_211,
        &[(0, b"get a\r\n")],
        &["memcached"],
        &[b""],
    ),
    tcp("answered", 445, &[], &["answered"], &[b""]),
    udp("dns", 53, &["dns", "ipv6"]),
    udp("quic", 443, &["quic"]),
];

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0a\0\0";

const fn tcp(
    name: &'static str,
    port: u16,
    opening: &'static [(u8, &'static [u8])],
    recorded: &'static [&'static str],
    begins: &'static [&'static [u8]],
) -> Kind {
    Kind {
        name,
        transport: Transport::Tcp,
        port,
        opening,
        recorded,
        begins,
    }
}

const fn udp(name: &'static str, port: u16, recorded: &'static [&'static str]) -> Kind {
    let transport = Transport::Udp;
    Kind {
        name,
        transport,
        port,
        opening: &[],
        recorded,
        begins: &[b""],
    }
}

impl Kind {
    /// Returns the conversations of this protocol in the beginning of a recording.
    pub(crate) fn conversations(&self, recording: &str, bytes: &[u8]) -> Vec<Vec<u8>> {
        if !self.recorded.iter().any(|word| recording.contains(word)) {
            return Vec::new();
        }
        let mut flows = Flows::new();
        analyzer::for_each_packet(bytes, &mut |packet| self.collect(packet, &mut flows));
        let found = flows.into_values().map(|flow| flow.said);
        found.filter(|said| said.len() > 1).collect()
    }

    fn collect(&self, packet: &Packet<'_>, flows: &mut Flows) {
        let (point, key, at, by_client) = match packet {
            Packet::Tcp(it, _) if self.transport == Transport::Tcp => (
                it.point,
                it.flow,
                it.at,
                opener(it.flow, it.direction, it.flags),
            ),
            Packet::Udp(it, _) if self.transport == Transport::Udp => {
                let is_to = it.flow.destination(it.direction).port == self.port;
                let is_ours = is_to || it.flow.source(it.direction).port == self.port;
                (it.point, it.flow, it.at, is_ours.then_some(is_to))
            }
            _ => return,
        };
        let payload = packet.payload();
        let flow = flows.entry((point.0, key)).or_insert_with(|| Flow {
            // The capture need not have the handshake.
            is_client: by_client.unwrap_or(true),
            first: direction(packet),
            last: at,
            said: vec![0],
        });
        let begins = self.begins.iter().any(|begin| payload.starts_with(begin));
        if payload.is_empty() || (flow.said.len() == 1 && !begins) {
            return;
        }
        let by_server = (direction(packet) == flow.first) != flow.is_client;
        let pause = at.since(flow.last);
        flow.last = at;
        flow.said
            .extend(conversation::written(by_server, pause, payload));
    }
}

/// The conversation of a flow so far.
struct Flow {
    /// True if the client sent the flow's first packet.
    is_client: bool,
    first: Option<Direction>,
    last: Timestamp,
    said: Vec<u8>,
}

type Flows = BTreeMap<(u16, FlowKey), Flow>;

/// Returns true if a segment comes from the client, as far as flags and ports tell.
fn opener(flow: FlowKey, direction: Direction, flags: TcpFlags) -> Option<bool> {
    if flags.contains(TcpFlags::SYN) {
        return Some(!flags.contains(TcpFlags::ACK));
    }
    Some(flow.source(direction).port > flow.destination(direction).port)
}

fn direction(packet: &Packet<'_>) -> Option<Direction> {
    match packet {
        Packet::Tcp(segment, _) => Some(segment.direction),
        Packet::Udp(datagram, _) => Some(datagram.direction),
        _ => None,
    }
}
