//! Closing of exchanges: tiles them, and sets their known properties.

use core::time::Duration;

use super::around::Around;
use super::{Draft, Mode, Pairing, Scratch, loose};
use crate::attribution::packet::Need;
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::{Pace, PacketRecord};
use crate::attribution::{After, Spare, Tiling, Trace, may_tile, tile, tile_message, untiled};
use crate::connection::setup::Setup;
use crate::connection::{Closed, View};
use crate::exchange::tls_handshake::Handshake;
use crate::exchange::wait::WaitKind;
use crate::exchange::{
    Connecting, Exchange, ExchangeId, ExchangePackets, FaultSigns, FirstRecord, Outcome,
    PairingDoubts, Particulars, PathTimes, PerSide, Positions, ResponseBytes, Side, Signs, Unheard,
};
use crate::observed::packet::PacketTime;
use crate::observed::time::Timestamp;
use crate::protocol::http::RequestLine;
use crate::protocol::redis;

impl Pairing {
    /// Returns true if a finished exchange still has to be handed out.
    #[inline]
    pub(crate) fn has_closed(&self) -> bool {
        self.first_closed(0, 0).is_some() || self.loose.as_ref().is_some_and(|loose| loose.is_due())
    }

    /// Tiles and hands out the exchanges that are closed.
    pub(crate) fn collect(&mut self, view: &View<'_>, setup: &mut Setup, closed: &mut Closed) {
        let (mut from, mut gone) = (0, Vec::new());
        while let Some(at) = self.first_closed(from, gone.len()) {
            self.hand_out(at, view, setup, closed);
            match self.protocol.mode {
                // There may be many, and all move if one is taken from their middle.
                Mode::Http2 => {
                    from = at + 1;
                    gone.push(at);
                }
                // It is dropped where it is, because moving it is expensive.
                _ => drop(self.open.drain(..1)),
            }
        }
        self.drop_handed_out(&gone);
        self.collect_loose(view, closed);
    }

    /// Tiles and hands out the exchange at `at`.
    fn hand_out(&mut self, at: usize, view: &View<'_>, setup: &mut Setup, closed: &mut Closed) {
        let left_by_server = self.left_by_server();
        let next_request = self.next_request(at);
        let Some(draft) = self.open.get_mut(at) else {
            return;
        };
        let around = Around {
            view,
            packets: self.packets.as_slice(),
            torn: &self.torn,
            behind: self.before.ended.filter(|_| draft.beginning.was_behind),
            before: self.before,
            request_acked: self.acked.requests,
            is_unread: self.protocol.is_unread,
            left_by_server,
            next_request,
            effort: &self.next.effort,
        };
        let spare = &mut closed.scratch.spare;
        let handshake = self.tls.handshake.take();
        // The exchange is changed in its final place, because moving it is expensive.
        closed
            .exchanges
            .push(draft.close(&around, setup, handshake, spare));
        let Some(exchange) = closed.exchanges.last_mut() else {
            return;
        };
        exchange.signs.doubts.is_unseen = self.protocol.is_unseen;
        exchange.signs.stream.is_hidden = self.protocol.mode == Mode::Tls(true);
        if self.taken_back > 0 {
            exchange.loss.disorder.taken_back = core::mem::take(&mut self.taken_back).into();
        }
        if exchange.outcome == Outcome::Cut && self.protocol.mode != Mode::Http2 {
            let is_followed = self.loose.is_some();
            closed
                .transfers
                .extend(draft.remains(&around, is_followed, spare));
        }
        if let Some(loose) = &mut self.loose {
            closed.transfers.extend(loose.settle(exchange));
        }
        self.before.ended = Some(exchange.end);
        for delivery in &exchange.sending.deliveries {
            if delivery.sender == Side::Server {
                self.before.flight = self.before.flight.max(delivery.in_flight.most);
                // A window in use doubles each round trip (RFC 5681 §3.1), until it is twice
                // what was in flight (`tcp_is_cwnd_limited()`).
                let grown = self.before.kept.saturating_mul(2);
                let mss = u64::from(delivery.size.mss.max(1));
                let segments = delivery.in_flight.most.div_ceil(mss);
                let under_way = segments.saturating_mul(mss);
                self.before.kept = if delivery.has_losses {
                    grown.max(under_way)
                } else {
                    grown.max(under_way.saturating_mul(2))
                };
            }
        }
    }

    /// Returns the offset before which the client's bytes belong to no request after the exchange
    /// at `index`; 0 if messages are interleaved.
    fn next_request(&self, index: usize) -> u64 {
        if self.protocol.mode != Mode::Http {
            return 0;
        }
        let next = self.open.get(index + 1);
        next.map_or(u64::MAX, |next| next.request.start)
    }

    /// Drops the streams at these places, which are in order.
    fn drop_handed_out(&mut self, gone: &[usize]) {
        match *gone {
            [] => {}
            // Usually it is the only one, so that no other has to move.
            [_] if self.open.len() == 1 => self.open.clear(),
            [at] => drop(self.open.remove(at)),
            _ => {
                let (mut places, mut gone) = (0.., gone.iter().peekable());
                self.open.retain(|_| {
                    places
                        .next()
                        .is_some_and(|at| gone.next_if_eq(&&at).is_none())
                });
            }
        }
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.ended = 0;
        }
    }

    /// Drops the packets that no open exchange needs.
    #[inline]
    pub(crate) fn forget(&mut self, scratch: &mut Scratch) {
        match self.needs_packets_from() {
            Some(begin) => self.packets.forget_before(begin),
            None => {
                self.packets.clear(&mut scratch.packets);
                self.torn.clear();
            }
        }
    }

    /// Returns the earliest time for which an open exchange needs packets.
    #[inline]
    pub(super) fn needs_packets_from(&self) -> Option<Timestamp> {
        let first = self.open.front().map(|front| front.first.at);
        let first = first.or_else(|| self.handshake_begin());
        match &self.loose {
            None => first,
            Some(loose) => first.into_iter().chain(loose.begin()).min(),
        }
    }

    /// Returns the index of the finished exchange: in HTTP/2 any from this index on, otherwise only
    /// the first one. `gone` have been handed out, and are still in their places.
    #[inline]
    fn first_closed(&self, from: usize, gone: usize) -> Option<usize> {
        let is_only = self.open.len() <= gone + 1;
        match self.protocol.mode {
            Mode::Http2 if is_only || self.has_ended_streams() => {
                let mut rest = self.open.iter().skip(from);
                let place = rest.position(|draft| self.is_over(draft, is_only));
                place.map(|place| from + place)
            }
            Mode::Http2 => {
                let is_over = |draft: &Draft| self.is_over(draft, is_only);
                debug_assert!(!self.open.iter().any(is_over), "an end was not counted");
                None
            }
            _ => {
                let first = self.open.front();
                first
                    .filter(|first| self.is_over(first, is_only))
                    .map(|_| 0)
            }
        }
    }

    #[inline]
    fn is_over(&self, draft: &Draft, is_only: bool) -> bool {
        !draft.is_awaited()
            && (draft.is_cut() || self.acked.responses >= draft.response.end || !is_only)
    }
}

impl Draft {
    /// Extends the response to the last transmission of its bytes that was necessary, if the
    /// sender's retransmissions are visible: the previous copy was lost after the observation
    /// point. If the client closed meanwhile and never acknowledged all of it, the client gave up.
    fn extend_by_repeats(&mut self, view: &View<'_>, packets: &[PacketRecord]) {
        if !view.has_repeats(Side::Server) || !self.is_complete() {
            return;
        }
        let is_near_server = matches!(
            (view.to_server().floor(), view.to_client().floor()),
            (Some(server), Some(client)) if server <= client
        );
        if !is_near_server {
            return;
        }
        let mut is_repeated = false;
        for packet in packets.iter().filter(|packet| packet.by == Side::Server) {
            let is_ours = packet.data.is_some_and(|data| {
                data.arrival == Arrival::Repeat
                    && data.need != Need::Spurious
                    && data.span.start < self.response.end
                    && data.span.end > self.response.start
            });
            if is_ours && packet.at > self.last.at {
                self.last = PacketTime::of(packet.at, packet.number);
                is_repeated = true;
            }
        }
        if let Some(left) = self.fin.left_unheard.filter(|_| is_repeated) {
            self.outcome = Some(Outcome::TimedOut);
            self.signs.ended_by = Some(Side::Client);
            self.last.at = left.max(self.first.at);
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Complete(_)))
    }

    /// Closes and tiles the exchange.
    fn close(
        &mut self,
        around: &Around<'_>,
        setup: &mut Setup,
        handshake: Option<Box<Handshake>>,
        spare: &mut Spare,
    ) -> Exchange {
        let view = around.view;
        let packets = around.packets_from(self.first.at);
        self.extend_by_repeats(view, packets);
        let outcome = match (
            self.outcome.unwrap_or(Outcome::Cut),
            self.response_head.error,
        ) {
            // After a fatal error, the server closes instead of ending its response.
            (Outcome::Complete(None) | Outcome::Closed | Outcome::Reset, Some(error)) => {
                Outcome::Failed(error)
            }
            (Outcome::Complete(status), _) => match self.response_head.grpc_status {
                None | Some(0) => Outcome::Complete(status),
                Some(failure) => Outcome::Grpc(failure),
            },
            (outcome, _) => outcome,
        };
        let trace = self.trace(around, packets, setup.repeated_syn());
        let (mut thought, mut tiling) = (None, Tiling::default());
        match outcome {
            Outcome::Cut if self.torn.is_broken_off => {
                let mut begun = Tiling::default();
                tile(&trace, around.effort, spare, &mut begun);
                thought = Some(begun.took(WaitKind::ServerThink));
            }
            Outcome::Cut => {}
            _ => tile(&trace, around.effort, spare, &mut tiling),
        }
        if let Some(multiplexed) = &self.multiplexed {
            tiling.hold_back(&multiplexed.held);
            tiling.owe_nothing(&multiplexed.rests);
        }
        if self.waits_for_others() {
            tiling.owe_no_answer();
        }
        let first_record = self.records.first.map(|span| first_record(&trace, span));
        let beside = Beside {
            line: self.request_head.line.take(),
            connecting: Connecting {
                setup: setup.charge(self.first.at, handshake.as_deref()),
                handshake,
            },
            first_record: first_record.map(Box::new),
            thought,
            is_made: setup.is_made(),
        };
        let ends = (trace.begin, trace.end);
        self.exchange(around, ends, tiling, outcome, beside)
    }

    /// Returns true if the request asks for what others send: an answer is due only then.
    fn waits_for_others(&self) -> bool {
        let line = self.request_head.line.as_ref();
        line.is_some_and(|line| redis::waits_for_others(&line.text))
    }

    /// Closes bytes of one side that belong to no exchange, tiled like a message.
    pub(super) fn close_loose(
        &self,
        around: &Around<'_>,
        sender: Side,
        spare: &mut Spare,
    ) -> Exchange {
        let packets = around.packets_from(self.first.at);
        let trace = self.trace(around, packets, PerSide::default());
        if !may_tile(&trace, around.effort) {
            let ends = (trace.begin, trace.end);
            let mut tiling = Tiling::default();
            untiled(&trace, &mut tiling);
            return self.loose(around, ends, tiling);
        }
        let (begin, end) = loose::bounds(&trace, sender);
        let trace = Trace {
            begin,
            end,
            doubts: PairingDoubts {
                is_unread: true,
                ..trace.doubts
            },
            ..trace
        };
        let (tiling, end) = tile_message(
            trace,
            sender,
            self.beginning.is_shut_out,
            around.effort,
            spare,
        );
        self.loose(around, (begin, end), tiling)
    }

    fn loose(&self, around: &Around<'_>, ends: (Timestamp, Timestamp), tiling: Tiling) -> Exchange {
        let (whole, beside) = (Outcome::Complete(None), Beside::default());
        self.exchange(around, ends, tiling, whole, beside)
    }

    /// Returns the exchange. It is made of all its parts at once, because a part that is changed
    /// afterwards means that the whole is moved.
    fn exchange(
        &self,
        around: &Around<'_>,
        (begin, end): (Timestamp, Timestamp),
        tiling: Tiling,
        outcome: Outcome,
        beside: Beside,
    ) -> Exchange {
        let view = around.view;
        let to_server = view.to_server();
        let line = beside.line.as_ref();
        let (target, origin) = line.map_or((0, 0), |line| (line.fingerprint, line.origin));
        let mut sending = tiling.sending;
        if !sending.is_vacant() {
            // Timestamps may be out of order, so that a segment is later than the end.
            for hold in &mut sending.holds {
                hold.held = hold.held.min(end.since(begin));
            }
        }
        Exchange {
            id: ExchangeId {
                client: view.client(),
                server: view.server(),
                point: view.point,
                ordinal: self.ordinal,
            },
            begin,
            end,
            outcome,
            request: beside.line.map(|line| line.text),
            waits: tiling.waits,
            sending,
            loss: tiling.loss,
            response: ResponseBytes {
                count: self.response.end - self.response.start,
                first_record: beside.first_record,
                packing: tiling.packing,
                positions: self.positions(view).map(Box::new),
            },
            path: PathTimes {
                to_server: to_server.floor(),
                is_told: to_server.is_told(),
                is_measured: to_server.is_measured(),
                ..tiling.path
            },
            packets: ExchangePackets {
                first: self.first.number,
                last: self.last.number,
            },
            connecting: beside.connecting,
            at_host: None,
            signs: Signs {
                idle: around.before.ended.map(|ended| begin.since(ended)),
                is_request_acked: around.request_acked >= self.request.end,
                fault: FaultSigns {
                    unheard: if self.is_complete() {
                        Unheard::Nothing
                    } else {
                        unheard(around, end)
                    },
                    ..self.signs.fault
                },
                thought: beside.thought,
                doubts: self.doubts(around),
                is_made: beside.is_made,
                is_relayed: to_server.is_relayed(),
                ..self.signs
            },
            particulars: Particulars {
                expectation: tiling.expectation,
                close_wait: tiling.close_wait,
                missing_bytes: self.fin.cut_short.map_or(0, |(_, missing)| missing),
                target,
                origin,
                redirect: self
                    .response_head
                    .fields
                    .location
                    .filter(|_| self.is_redirect()),
                is_encoded_on_the_fly: self.response_head.fields.is_encoded_on_the_fly,
                is_stream: self.is_stream(),
                is_revocation: self.response_head.is_revocation,
                closing: self.announced(
                    around
                        .left_by_server
                        .is_some_and(|at| self.closes_at_once(at)),
                ),
            },
        }
    }

    /// Returns the sequence numbers of a stream's messages; `None` without a response.
    fn positions(&self, view: &View<'_>) -> Option<Positions> {
        if self.multiplexed.is_none() || self.response.end <= self.response.start {
            return None;
        }
        let ends = |by, span: Span| -> Option<[u32; 2]> {
            let last = span.end.checked_sub(1)?;
            Some([
                view.sequence_number(by, span.start)?,
                view.sequence_number(by, last)?,
            ])
        };
        Some(Positions {
            request: ends(Side::Client, self.request)?,
            response: ends(Side::Server, self.response)?,
        })
    }

    fn doubts(&self, around: &Around<'_>) -> PairingDoubts {
        PairingDoubts {
            is_unread: around.is_unread,
            ..self.signs.doubts
        }
    }

    fn trace<'a>(
        &self,
        around: &Around<'a>,
        packets: &'a [PacketRecord],
        repeated_syn: PerSide<bool>,
    ) -> Trace<'a> {
        Trace {
            packets,
            begin: self.first.at,
            end: self.last.at.max(self.first.at),
            request: self.request,
            response: self.response,
            torn: around.torn,
            behind: around.behind,
            after: After {
                ends_with_fin: self.fin.is_end,
                next_request: around.next_request,
                lost_of_server: if self.is_complete() {
                    0
                } else {
                    around.view.lost_of_server()
                },
            },
            permission: self.request_head.permission,
            trips: around.view.trips(),
            pipes: around.view.pipes(),
            serialization: PerSide::default(),
            before: around.before,
            repeated_syn,
            doubts: self.doubts(around),
        }
    }
}

/// The parts of an exchange that do not follow from its packets alone.
#[derive(Default)]
struct Beside {
    line: Option<RequestLine>,
    connecting: Connecting,
    first_record: Option<Box<FirstRecord>>,
    /// The server's think time, if the capture ended within the response.
    thought: Option<Duration>,
    is_made: bool,
}

/// Returns what shows whether the server had sent more than what came until `end`. A point at the
/// server sees all that it sends.
fn unheard(around: &Around<'_>, end: Timestamp) -> Unheard {
    let view = around.view;
    let (server, client) = (view.to_server().floor(), view.to_client().floor());
    let is_near = server
        .zip(client)
        .is_some_and(|(server, client)| server <= client);
    let mut packets = around.packets.iter().rev();
    let is_word = |packet: &PacketRecord| packet.by == Side::Server && packet.at >= end;
    if view.lost_of_server() > 0 {
        Unheard::Lost
    } else if is_near || packets.any(is_word) {
        Unheard::Nothing
    } else {
        Unheard::Untold
    }
}

/// Returns size and timing of the response's first record.
fn first_record(trace: &Trace<'_>, span: Span) -> FirstRecord {
    let pace = Pace::of(trace.packets, Side::Server, span, trace.end);
    FirstRecord {
        bytes: span.end - span.start,
        took: pace.took,
        longest_gap: pace.longest_gap,
        round_trip: trace.whole_round_trip(),
    }
}
