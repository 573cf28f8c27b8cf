//! A TLS handshake in progress: alternating flights of records.

use core::time::Duration;

use crate::attribution::effort::Effort;
use crate::attribution::packet::Span;
use crate::attribution::packet_record::{Pace, PacketKey, PacketRecord};
use crate::attribution::{After, Before, Permission, Spare, Tiling, Trace, tile};
use crate::connection::View;
use crate::exchange::tls_handshake::{Handshake, Leg, LegPackets};
use crate::exchange::wait::{Bound, Owner, Wait, WaitKind};
use crate::exchange::{PairingDoubts, PerSide, Recovery, Side};
use crate::observed::packet::{PacketNumber, PacketTime};
use crate::observed::time::Timestamp;
use crate::protocol::tls::{
    CERTIFICATE, CLIENT_HELLO, Content, HandshakeMessage, Hello, SERVER_HELLO, TLS_1_3,
};

/// Maximum number of flights remembered per handshake: TLS 1.3 has three with a HelloRetryRequest,
/// TLS 1.2 two.
const MAX_LEGS: usize = 8;
/// Kinds of waits during the sending of a flight.
const SPREAD: [WaitKind; 4] = [
    WaitKind::ResponseTransfer,
    WaitKind::CongestionWindow,
    WaitKind::SendBuffer,
    WaitKind::Paced,
];

/// Flights of a handshake seen so far.
#[derive(Debug, Default)]
pub(super) struct Flights {
    legs: Vec<Flight>,
    client: Option<Box<Hello>>,
    server: Option<Box<Hello>>,
    has_certificate: bool,
    /// For each side, true once its ChangeCipherSpec was seen (up to TLS 1.2).
    changed: PerSide<bool>,
    /// For each side, true once its Finished was seen (up to TLS 1.2).
    finished: PerSide<bool>,
    /// True if the client has sent encrypted records whose length is not that of a Finished.
    is_unfinished: bool,
}

/// A flight of the client and its answer.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// The packet with the client's first byte.
    first: PacketTime,
    request: Span,
    response: Span,
    end: Timestamp,
    /// The packet with the answer's last byte so far.
    last_number: Option<PacketNumber>,
    is_retry: bool,
}

impl Flights {
    pub(super) fn begin(&self) -> Option<Timestamp> {
        self.legs.first().map(|leg| leg.first.at)
    }

    /// Returns the span of the first flight, and the packet in which it began.
    pub(super) fn first(&self) -> Option<(Span, PacketTime)> {
        let leg = self.legs.first()?;
        Some((leg.request, leg.first))
    }

    pub(super) fn server_name(&self) -> Option<&str> {
        self.client.as_ref()?.server_name.as_deref()
    }

    /// Returns true if the server's hello was seen.
    pub(super) fn is_answered(&self) -> bool {
        self.server.is_some()
    }

    pub(super) fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Returns true if both sides have sent their Finished (up to TLS 1.2).
    pub(super) fn is_done(&self) -> bool {
        self.finished.client && self.finished.server
    }

    /// Records that a record began.
    pub(super) fn began(&mut self, by: Side, start: u64, first: PacketTime) {
        let is_new = self
            .legs
            .last()
            .is_none_or(|leg| leg.response.end > leg.response.start);
        if by == Side::Client && is_new && self.legs.len() < MAX_LEGS {
            let empty = Span { start, end: start };
            self.legs.push(Flight {
                first,
                request: empty,
                response: Span { start: 0, end: 0 },
                end: first.at,
                last_number: None,
                is_retry: false,
            });
        }
        let Some(leg) = self.legs.last_mut().filter(|_| by == Side::Server) else {
            return;
        };
        if leg.response.end == leg.response.start {
            // The record's header has already arrived.
            leg.response = Span {
                start,
                end: start + 1,
            };
        }
    }

    /// Records that a record ended.
    pub(super) fn ended(&mut self, by: Side, content: Content, end: u64, packet: &PacketKey) {
        let has_changed = *self.changed.get(by);
        match content {
            Content::ChangeCipherSpec => *self.changed.get_mut(by) = true,
            Content::Handshake if has_changed => *self.finished.get_mut(by) = true,
            Content::ApplicationData if by == Side::Client => self.is_unfinished = true,
            _ => {}
        }
        let Some(leg) = self.legs.last_mut() else {
            return;
        };
        match by {
            Side::Client => {
                leg.request.end = leg.request.end.max(end);
                if leg.last_number.is_none() {
                    leg.end = leg.end.max(packet.at);
                }
            }
            Side::Server => {
                leg.response.end = leg.response.end.max(end);
                leg.end = leg.end.max(packet.at);
                leg.last_number = PacketNumber::new(packet.number);
            }
        }
    }

    pub(super) fn message(&mut self, message: HandshakeMessage) {
        match message.kind {
            CLIENT_HELLO if self.client.is_none() => self.client = message.hello,
            SERVER_HELLO => {
                if let Some(leg) = self.legs.last_mut() {
                    leg.is_retry = message.hello.as_ref().is_some_and(|hello| hello.is_retry);
                }
                self.server = message.hello;
            }
            CERTIFICATE => self.has_certificate = true,
            _ => {}
        }
    }

    /// Tiles the handshake. `None` if the capture missed a part of it.
    pub(super) fn close(
        &self,
        view: &View<'_>,
        packets: &[PacketRecord],
        torn: &[(Side, Span)],
    ) -> Option<Handshake> {
        let begin = self.begin()?;
        let mut whole = Tiled {
            view,
            packets,
            torn,
            cursor: begin,
            waits: Vec::new(),
            recoveries: Vec::new(),
        };
        let legs: Vec<Leg> = self.legs.iter().map(|leg| whole.leg(leg)).collect();
        if legs.last().is_some_and(|leg| leg.answer_bytes > 0) {
            whole.add_propagation();
        }
        let hello = |hello: &Option<Box<Hello>>| hello.as_ref().map(|hello| hello.version);
        let version = hello(&self.server);
        let chose_key = self.server.as_ref().is_some_and(|hello| hello.resumes);
        let is_1_3 = version.is_some_and(|version| version >= TLS_1_3);
        Some(Handshake {
            begin,
            end: whole.cursor,
            version,
            offered: hello(&self.client),
            offers_session: self.client.as_ref().is_some_and(|hello| hello.resumes),
            is_resumed: if is_1_3 {
                chose_key
            } else {
                version.is_some() && !self.has_certificate
            },
            is_retried: legs.iter().any(|leg| leg.is_retry),
            is_server_first: false,
            server_name: self.server_name().map(str::to_owned),
            suites: self.client.as_ref().map_or(0, |hello| hello.suites),
            round_trip: view
                .to_server()
                .floor()
                .and_then(|to_server| Some(to_server + view.to_client().floor()?)),
            legs,
            waits: whole.waits,
            recoveries: whole.recoveries,
        })
    }
}

/// The handshake's waits so far.
struct Tiled<'a> {
    view: &'a View<'a>,
    packets: &'a [PacketRecord],
    torn: &'a [(Side, Span)],
    cursor: Timestamp,
    waits: Vec<Wait>,
    recoveries: Vec<Recovery>,
}

impl Tiled<'_> {
    fn leg(&mut self, leg: &Flight) -> Leg {
        let client_think = self.client(leg.first.at);
        let (begin, end) = (self.cursor, leg.end.max(self.cursor));
        let tiling = if leg.response.end > leg.response.start {
            self.tile(leg, begin, end)
        } else {
            Tiling::default()
        };
        let of_kind = |kind: WaitKind| -> Duration {
            let of_kind = tiling.waits.iter().filter(|wait| wait.kind == kind);
            of_kind.map(Wait::duration).sum()
        };
        let made = Leg {
            begin,
            end,
            client_think,
            server_think: of_kind(WaitKind::ServerThink) + self.paused(&tiling),
            to_client: self.view.to_client().floor().unwrap_or_default(),
            spread: SPREAD.into_iter().map(of_kind).sum(),
            longest_gap: Pace::of(self.packets, Side::Server, leg.response, end).longest_gap,
            answer_bytes: leg.response.end - leg.response.start,
            packets: LegPackets {
                first: leg.first.number,
                last: leg.last_number,
            },
            is_retry: leg.is_retry,
        };
        self.waits.extend(tiling.waits);
        self.recoveries.extend(&tiling.loss.recoveries);
        if made.answer_bytes > 0 {
            self.cursor = end;
        }
        // The client's last flight has no answer.
        self.push(end, WaitKind::RequestTransfer, Owner::Path, Bound::Observed);
        made
    }

    /// Returns the time for which the server's program paused within its answer. A pause of one
    /// round trip is not the program's: the data waited for the client's ACK, because it did not
    /// fit into the initial window.
    fn paused(&self, tiling: &Tiling) -> Duration {
        let floors = [self.view.to_server().floor(), self.view.to_client().floor()];
        let trip: Duration = floors.into_iter().flatten().sum();
        let is_trip = |took: Duration| took >= trip * 7 / 8 && took <= trip * 5 / 4;
        let pauses = tiling
            .waits
            .iter()
            .filter(|w| w.kind == WaitKind::ServerPause);
        let pauses = pauses.map(Wait::duration).filter(|&took| !is_trip(took));
        pauses.sum()
    }

    fn tile(&self, leg: &Flight, begin: Timestamp, end: Timestamp) -> Tiling {
        let first = self.packets.partition_point(|packet| packet.at < begin);
        let packets = self.packets.get(first..).unwrap_or_default();
        let trace = Trace {
            packets,
            begin,
            end,
            request: leg.request,
            response: leg.response,
            torn: self.torn,
            behind: None,
            after: After::default(),
            permission: Permission::default(),
            trips: self.view.trips(),
            pipes: self.view.pipes(),
            serialization: PerSide::default(),
            before: Before::default(),
            repeated_syn: PerSide::default(),
            doubts: PairingDoubts::default(),
        };
        let mut tiling = Tiling::default();
        tile(
            &trace,
            &Effort::default(),
            &mut Spare::default(),
            &mut tiling,
        );
        tiling
    }

    /// Attributes the client's time up to its next flight, propagation excluded, and returns it.
    fn client(&mut self, until: Timestamp) -> Duration {
        let until = until.max(self.cursor);
        let whole = until.since(self.cursor);
        let Some(floor) = self.view.to_client().floor() else {
            self.push(until, WaitKind::Unknown, Owner::Unknown, Bound::Observed);
            return Duration::ZERO;
        };
        let propagation = floor.min(whole);
        let bound = Bound::Inferred(self.view.to_client().split_error());
        let (out, back) = (propagation / 2, propagation - propagation / 2);
        let (from, to) = (self.cursor + out, until - back);
        self.push(from, WaitKind::RoundTrip, Owner::Path, bound);
        self.push(to, WaitKind::RequestPause, Owner::Client, bound);
        self.push(until, WaitKind::RoundTrip, Owner::Path, bound);
        whole - propagation
    }

    /// Attributes the last answer's propagation to the client.
    fn add_propagation(&mut self) {
        let propagation = self.view.to_client().floor().unwrap_or_default();
        let bound = Bound::Inferred(self.view.to_client().split_error());
        self.push(
            self.cursor + propagation,
            WaitKind::RoundTrip,
            Owner::Path,
            bound,
        );
    }

    fn push(&mut self, end: Timestamp, kind: WaitKind, owner: Owner, bound: Bound) {
        if end <= self.cursor {
            return;
        }
        self.waits.push(Wait {
            start: self.cursor,
            end,
            kind,
            owner,
            released_by: None,
            bound,
        });
        self.cursor = end;
    }
}
