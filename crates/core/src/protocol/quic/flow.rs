//! Packets of one QUIC flow, read from their headers.

use core::time::Duration;

use super::header::{self, Packet};
use super::spin::Spin;
use crate::observed::datagram::Datagram;
use crate::observed::event::PointId;
use crate::observed::flow::{Direction, Endpoint};
use crate::observed::packet::PacketRange;
use crate::observed::side::{PerSide, Side};
use crate::observed::time::Timestamp;
use crate::stats::sample::Sample;

/// Minimum UDP payload of a client's datagram with an Initial, in bytes (RFC 9000 §14.1).
const LEAST_INITIAL: u16 = 1200;
/// Minimum length in bytes of the destination connection id that the client chooses at first (RFC
/// 9000 §7.2).
const LEAST_ID: usize = 8;
/// The lowest port number from which clients send (RFC 6335 §6).
const SERVERS_PORTS: u16 = 1024;

/// A flow that began with a client's Initial.
#[derive(Debug)]
pub(crate) struct QuicFlow {
    pub(crate) stream: Option<u32>,
    pub(crate) point: PointId,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    toward_server: Direction,
    pub(crate) version: u32,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) packets: PacketRange,
    pub(crate) sent: PerSide<Sent>,
    pub(crate) retries: u32,
    pub(crate) negotiations: u32,
    pub(crate) has_zero_rtt: bool,
    opening: Opening,
    spin: Spin,
}

/// The number and size of what one end sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
}

/// Progress of the handshake.
#[derive(Clone, Copy, Debug, Default)]
struct Opening {
    /// Time of the last Initial that the client sent since the server last sent anything, and the
    /// number of such Initials.
    asked: Option<Timestamp>,
    asks: u32,
    /// Time of the server's first Initial or Handshake packet, the time from the client's Initial
    /// to the server's answer, and the time from that answer to the client's next packet.
    answered: Option<Timestamp>,
    to_server: Option<Duration>,
    to_client: Option<Duration>,
    /// Time of the client's first packet with a short header. The client then has all keys.
    end: Option<Timestamp>,
    /// Number of Initials that the client retransmitted before any answer.
    repeated: u32,
}

impl QuicFlow {
    /// Creates a flow if the datagram can only be a client's first Initial. A server's Initial
    /// differs only in its port and the packets coalesced with it.
    pub(crate) fn begin(datagram: &Datagram, payload: &[u8], stream: Option<u32>) -> Option<Self> {
        if datagram.payload_len < LEAST_INITIAL {
            return None;
        }
        let version = header::version(payload)?;
        if datagram.flow.source(datagram.direction).port < SERVERS_PORTS {
            return None;
        }
        let mut first = None;
        let mut is_answer = false;
        header::packets(payload, |packet| {
            first.get_or_insert(packet);
            is_answer |= packet == Packet::Handshake;
        });
        let id_len = match first {
            Some(Packet::Initial { destination_id }) if !is_answer => destination_id,
            _ => return None,
        };
        if id_len < LEAST_ID {
            return None;
        }
        let mut flow = Self {
            stream,
            point: datagram.point,
            client: datagram.flow.source(datagram.direction),
            server: datagram.flow.destination(datagram.direction),
            toward_server: datagram.direction,
            version,
            first: datagram.at,
            last: datagram.at,
            packets: PacketRange::of_one(datagram.number),
            sent: PerSide::default(),
            retries: 0,
            negotiations: 0,
            has_zero_rtt: false,
            opening: Opening::default(),
            spin: Spin::default(),
        };
        flow.observe_datagram(datagram, payload);
        Some(flow)
    }

    /// Processes a datagram of the flow.
    pub(crate) fn observe_datagram(&mut self, datagram: &Datagram, payload: &[u8]) {
        let by = if datagram.direction == self.toward_server {
            Side::Client
        } else {
            Side::Server
        };
        self.last = self.last.max(datagram.at);
        self.packets.last = datagram.number;
        let sent = self.sent.get_mut(by);
        sent.datagrams += 1;
        sent.bytes += u64::from(datagram.payload_len);
        let version = header::version(payload);
        header::packets(payload, |packet| {
            self.packet(packet, by, datagram.at, version);
        });
    }

    fn packet(&mut self, packet: Packet, by: Side, at: Timestamp, version: Option<u32>) {
        match packet {
            Packet::OneRtt { spin } => {
                self.opening.finish(by, at);
                self.spin.observe(by, spin, at);
            }
            Packet::Initial { .. } if by == Side::Client => {
                // The version changes if it was negotiated.
                self.version = version.unwrap_or(self.version);
                self.opening.ask(at);
            }
            Packet::Initial { .. } | Packet::Handshake => {
                self.opening.advance(by, at);
            }
            Packet::ZeroRtt => self.has_zero_rtt |= by == Side::Client,
            Packet::Retry if by == Side::Server => {
                self.retries = self.retries.saturating_add(1);
                self.opening.turn_back(at);
            }
            Packet::VersionNegotiation if by == Side::Server => {
                self.negotiations = self.negotiations.saturating_add(1);
                self.opening.turn_back(at);
            }
            Packet::Retry | Packet::VersionNegotiation => {}
        }
    }

    /// Returns the time from the first Initial to the client's first packet with a short header.
    pub(crate) fn handshake(&self) -> Option<Duration> {
        Some(self.opening.end?.since(self.first))
    }

    /// Returns the time from a client's Initial to the server's answer.
    pub(crate) fn to_server(&self) -> Option<Duration> {
        self.opening.to_server
    }

    /// Returns the time from the server's answer to the client's next packet.
    pub(crate) fn to_client(&self) -> Option<Duration> {
        self.opening.to_client
    }

    pub(crate) fn repeated_initials(&self) -> u32 {
        self.opening.repeated
    }

    /// Returns true if the spin bit can be used to measure the round trip.
    pub(crate) fn spins(&self) -> bool {
        let whole = self.to_server().zip(self.to_client());
        self.spin
            .is_believable(whole.map(|(one, other)| one + other))
    }

    /// Returns the round trips measured with the spin bit, to the client and to the server.
    pub(crate) fn spin_trips(&self) -> [&Sample; 2] {
        [&self.spin.to_client, &self.spin.to_server]
    }
}

impl Opening {
    /// Processes a client's Initial. It counts as a request until the server has answered.
    fn ask(&mut self, at: Timestamp) {
        if self.answered.is_some() {
            self.advance(Side::Client, at);
            return;
        }
        self.repeated += u32::from(self.asks > 0);
        self.asks = self.asks.saturating_add(1);
        self.asked = Some(at);
    }

    /// Processes a Retry or Version Negotiation packet. It makes the client start over, which costs
    /// a round trip too.
    fn turn_back(&mut self, at: Timestamp) {
        self.time_server(at);
        self.asks = 0;
    }

    fn advance(&mut self, by: Side, at: Timestamp) {
        match (by, self.answered) {
            (Side::Server, None) => {
                self.time_server(at);
                self.answered = Some(at);
            }
            (Side::Client, Some(answered)) => {
                self.to_client.get_or_insert(at.since(answered));
            }
            _ => {}
        }
    }

    /// Measures the time until the server's answer. It is not measured after a retransmitted
    /// Initial, because the answer may be to either copy.
    fn time_server(&mut self, at: Timestamp) {
        let took = self
            .asked
            .filter(|_| self.asks == 1)
            .map(|asked| at.since(asked));
        self.to_server = self.to_server.into_iter().chain(took).min();
    }

    fn finish(&mut self, by: Side, at: Timestamp) {
        if by == Side::Client && self.answered.is_some() {
            self.end.get_or_insert(at);
        }
    }
}
