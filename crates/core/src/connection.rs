//! Connection state of one flow at one observation point.
//!
//! The input is segments in the point's order; the output is closed exchanges and the connection's
//! setup. Facts only: causes are weighed elsewhere.

mod answer;
mod closed;
mod data;
pub(crate) mod dead_peer;
mod ending;
pub(crate) mod facts;
mod flight;
pub(crate) mod half;
mod jump;
mod opening;
pub(crate) mod order;
mod pairing;
pub(crate) mod repeats;
mod sequence;
mod setup;
mod stream;
pub(crate) mod table;
mod timing;
pub(crate) mod transit;
mod vantage;
mod view;

use core::num::NonZeroU64;
use core::time::Duration;

pub(crate) use closed::Closed;
pub(crate) use data::{empty_span, is_progress};
use facts::{ConnectionFacts, Step};
pub(crate) use facts::{Parting, Watched};
use half::{Half, carries_fin};
pub(crate) use jump::{Jump, JumpEvidence, Jumps, agreed};
pub(crate) use opening::serves;
pub(crate) use pairing::EXCHANGE_BYTES;
use pairing::Pairing;
use setup::IcmpRejection;
pub(crate) use setup::{Setup, SetupOutcome};
pub(crate) use vantage::Vantage;
pub(crate) use view::View;

use crate::attribution::packet_record::{Data, PacketKey, PacketRecord};
use crate::exchange::Side;
use crate::observed::event::PointId;
use crate::observed::flow::{Direction, Endpoint, FlowKey, PerDirection};
use crate::observed::icmp::{IcmpError, IcmpKind};
use crate::observed::segment::{Segment, SentBy, TcpFlags};
use crate::observed::time::Timestamp;
use crate::preconnect::Approach;

/// A connection at one observation point.
#[derive(Debug)]
pub(crate) struct Connection {
    flow: FlowKey,
    point: PointId,
    /// The direction in which the client sends; `None` until it can be determined.
    client: Option<Direction>,
    /// True if `client` was only guessed, by the ports.
    is_client_guessed: bool,
    /// The last sender of data, as long as this matters.
    last_spoke: Option<Direction>,
    halves: PerDirection<Half>,
    setup: Setup,
    pairing: Pairing,
    /// True if a segment was seen before.
    has_history: bool,
    /// Time of the last segment.
    pub(crate) last_seen: Timestamp,
    end: Option<End>,
    /// True if the connection is over and nothing was sent since its memory was freed.
    is_retired: bool,
    /// Time to live of the server's last data; 0 before there was any.
    server_ttl: u8,
    /// The bytes that the sender of each direction allows its peer to send.
    windows: PerDirection<WindowEdge>,
    /// The connection's numbers, if they are wanted.
    facts: Option<Box<ConnectionFacts>>,
}

/// The right edge of a window: the furthest byte that it allows; `None` if it is not known. Zero is
/// no edge, which keeps the connection small.
#[derive(Clone, Copy, Debug, Default)]
struct WindowEdge {
    now: Option<NonZeroU64>,
    /// The edge when the peer last sent data.
    when_used: Option<NonZeroU64>,
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Reset,
}

impl Connection {
    /// Begins a connection with this segment. Collects the connection's numbers if `stream`,
    /// Wireshark's index of the connection, is given.
    // The connection is built in its final place, because moving it is expensive.
    #[inline(always)]
    pub(crate) fn begin(first: &Segment, stream: Option<Option<u32>>) -> Self {
        Self {
            flow: first.flow,
            point: first.point,
            client: None,
            is_client_guessed: false,
            last_spoke: None,
            halves: PerDirection::default(),
            setup: Setup::default(),
            pairing: Pairing::default(),
            has_history: false,
            last_seen: first.at,
            end: None,
            is_retired: false,
            server_ttl: 0,
            windows: PerDirection::default(),
            facts: stream.map(|stream| Box::new(ConnectionFacts::new(first, stream))),
        }
    }

    /// Records the steps before the connection's first SYN, if that SYN was seen at `at`.
    pub(crate) fn follows(&mut self, approach: Box<Approach>, at: Timestamp) {
        self.setup.follows(approach, at);
    }

    /// Returns the direction in which the client sends, as far as it is known.
    pub(crate) fn client(&self) -> Option<Direction> {
        self.client
    }

    /// Records the direction in which the client is known to send, unless a SYN says otherwise.
    pub(crate) fn is_asked_by(&mut self, client: Direction) {
        self.client.get_or_insert(client);
    }

    /// Returns the connection's point and flow.
    pub(crate) fn key(&self) -> (PointId, FlowKey) {
        (self.point, self.flow)
    }

    /// Returns true if the connection is that flow, seen at that point.
    #[inline]
    pub(crate) fn is_at(&self, point: PointId, flow: &FlowKey) -> bool {
        self.flow == *flow && self.point == point
    }

    /// Returns the sequence number at which one direction begins, without the SYN.
    pub(crate) fn begin_of(&self, direction: Direction) -> Option<u32> {
        self.half(direction).sequence.base()
    }

    /// Returns true if this SYN opens another connection with the same 5-tuple.
    pub(crate) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        is_syn
            && self.half(segment.direction).sequence.is_other_syn(segment)
            && !self.is_second_answer(segment)
    }

    /// Returns true for another answer to the SYN with which this connection began, if the client
    /// has already accepted an answer. A server behind several load balancers answers each copy of
    /// a SYN separately, with different initial sequence numbers.
    fn is_second_answer(&self, segment: &Segment) -> bool {
        if !segment.flags.contains(TcpFlags::SYN.with(TcpFlags::ACK)) {
            return false;
        }
        let asked = self.half(segment.direction.reverse());
        self.setup.is_made()
            && self.client == Some(segment.direction.reverse())
            && asked.sequence.has_start()
            && asked.sequence.base() == Some(segment.ack)
            && self.half(segment.direction).sequence.is_other_syn(segment)
    }

    /// Counts a duplicate of a segment that was already taken in, and does nothing else.
    pub(crate) fn doubled(&mut self, segment: &Segment) {
        if let Some(facts) = &mut self.facts {
            facts.doubled(segment);
        }
    }

    /// Returns true if a segment answers something that was not seen yet: it acknowledges or echoes
    /// an unseen segment, or answers an unseen SYN.
    #[inline]
    pub(crate) fn is_early(&self, segment: &Segment) -> bool {
        let (own, peer) = (
            self.half(segment.direction),
            self.half(segment.direction.reverse()),
        );
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        if !segment.flags.contains(TcpFlags::ACK) {
            false
        } else if peer.sequence.base().is_none() {
            is_syn || own.sequence.has_start()
        } else {
            // A segment of a direction that was never seen may belong to an earlier connection.
            let is_known = !is_syn && own.sequence.base().is_some();
            is_known && (peer.sequence.is_beyond(segment.ack) || peer.is_echoed_early(segment))
        }
    }

    /// Records that this segment, though seen after others, is the connection's first.
    pub(crate) fn begins_with(&mut self, first: &Segment) {
        if let Some(facts) = &mut self.facts {
            facts.begins_with(first);
        }
    }

    /// Returns the number of open exchanges.
    #[inline(always)]
    pub(crate) fn open_exchanges(&self) -> usize {
        self.pairing.open_exchanges()
    }

    /// Returns the memory that the connection holds besides itself, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pairing.held_bytes() + self.facts_bytes()
    }

    /// Returns the memory of the connection's numbers, in bytes.
    pub(crate) fn facts_bytes(&self) -> usize {
        self.facts.as_deref().map_or(0, size_of_val)
    }

    /// Returns both directions.
    pub(crate) fn halves(&self) -> [&Half; 2] {
        self.halves.each()
    }

    /// Takes in one segment.
    pub(crate) fn observe_segment(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        closed: &mut Closed,
    ) {
        if self.is_second_answer(segment) {
            return;
        }
        let idle = segment.at.since(self.last_seen);
        self.last_seen = self.last_seen.max(segment.at);
        self.is_retired &= segment.sequence_len() == 0;
        if segment.ip.sent_by == SentBy::ThisHost {
            self.half_mut(segment.direction.reverse()).stand_at_peer();
        }
        self.learn_client(segment, payload);
        if let Some(facts) = &mut self.facts {
            facts.count(segment);
        }
        self.half_mut(segment.direction)
            .ecn_marks
            .observe_segment(segment);
        if segment.flags.contains(TcpFlags::SYN) {
            self.take_syn(segment);
            return;
        }
        self.half_mut(segment.direction).learn_terms(segment);
        let is_set_up = !self.setup.is_open();
        if !is_set_up {
            if self.setup.is_awaited() && self.is_challenge(segment) {
                self.setup.challenge();
                return;
            }
            self.finish_handshake(segment);
        }
        if segment.flags.contains(TcpFlags::RST) {
            self.take_reset(segment, closed);
            return;
        }
        let acked_before = self.half(segment.direction.reverse()).sequence.acked;
        if !is_set_up {
            self.follow_handshake(segment, payload, closed);
        }
        let (ack, is_new_ack) = self.take_ack(segment);
        let (own, peer) = self.both_mut(segment.direction);
        let window = own.window(peer, segment);
        let is_closed = segment.window == 0 && segment.flags.contains(TcpFlags::ACK);
        own.zero_window.was_ever |= is_closed;
        own.zero_window.is_now = is_closed;
        let mss = own.mss(peer);
        let reply = if is_new_ack {
            peer.latest_reply()
        } else {
            None
        };
        let (skipped, order) = own.place_in_order(segment, mss);
        let queued = own.transit.queued(segment, reply);
        let reports = self.apply_answer(segment, ack, skipped);
        let data = self.take_data(segment, mss, order, skipped);
        if data.is_none() {
            self.half_mut(segment.direction)
                .sequence
                .reveal(segment.seq);
        }
        let edge = window.map_or(0, |window| ack + window);
        let is_wider =
            NonZeroU64::new(edge).is_some_and(|edge| self.remember_window(segment.direction, edge));
        if self.facts.is_some() {
            self.note(segment, data, acked_before, window);
        }
        let Some(by) = self.side(segment.direction) else {
            return;
        };
        let idle = Some(idle).filter(|_| self.has_history);
        self.has_history = true;
        if data.is_some() || self.pairing.keeps_packets() {
            let packet = PacketRecord {
                at: segment.at,
                number: segment.number,
                by,
                queued,
                ttl: segment.ip.ttl,
                idle,
                data,
                ack,
                edge,
                is_closed,
                is_news: is_new_ack || is_wider,
                reports,
                skipped,
            };
            self.pairing.add_packet(packet, &mut closed.scratch);
        }
        if let Some(data) = data {
            let idle = idle.unwrap_or_default().saturating_sub(queued.known());
            let before = (idle, skipped > 0);
            self.pair((segment, by, ack, before), data, payload, closed);
        }
        if is_new_ack {
            self.pairing.acknowledged(by.peer(), ack);
        }
        if carries_fin(segment) {
            self.take_fin(segment, by, data);
        }
        self.collect(closed);
    }

    /// Hands the segment's payload to the pairing of messages.
    #[inline]
    fn pair(
        &mut self,
        (segment, by, ack, before): (&Segment, Side, u64, (Duration, bool)),
        data: Data,
        payload: &[u8],
        closed: &mut Closed,
    ) {
        if by == Side::Server {
            self.server_ttl = segment.ip.ttl;
        }
        let packet = PacketKey {
            at: segment.at,
            number: segment.number,
            by,
            ack,
            idle: before.0,
            is_after_gap: before.1,
            start: data.span.start,
            is_shut_out: self.half(segment.direction.reverse()).zero_window.is_now,
        };
        let view = View::of(&self.flow, self.point, self.client, &self.halves);
        let scratch = &mut closed.scratch;
        self.pairing.data(&packet, data, payload, &view, scratch);
    }

    /// Records that the host that sends in this direction uses one counter of IP identifications
    /// for all its connections.
    pub(crate) fn shares_counter(&mut self, direction: Direction) {
        self.half_mut(direction).shares_counter();
    }

    /// Records that the timestamp clock of the host that sends in this direction ticks this slowly
    /// on its other connections.
    pub(crate) fn may_tick(&mut self, direction: Direction, tick_ns: u32) {
        self.half_mut(direction).transit.may_tick(tick_ns);
    }

    /// Takes in an ICMP error about one of the connection's packets.
    pub(crate) fn take_icmp(&mut self, error: &IcmpError) {
        if let (IcmpKind::TooBig(_), Some(seq)) = (error.kind, error.seq) {
            self.half_mut(error.direction).told_too_big(seq);
        }
        let is_client = self.client == Some(error.direction);
        if let (IcmpKind::Unreachable(code), true) = (error.kind, is_client) {
            self.setup.turn_down(IcmpRejection {
                code,
                number: error.number,
                is_by_host: error.reporter == error.flow.destination(error.direction).addr,
            });
        }
    }

    /// Passes a segment after the handshake to the facts, as the connection interpreted it.
    fn note(
        &mut self,
        segment: &Segment,
        data: Option<Data>,
        acked_before: u64,
        window: Option<u64>,
    ) {
        let direction = segment.direction;
        let (own, peer) = (self.half(direction), self.half(direction.reverse()));
        let edge = |of| self.windows.get(of).now.map(NonZeroU64::get);
        let newly_acked = peer.sequence.acked - acked_before;
        let trip = own.to_peer.floor().zip(peer.to_peer.floor());
        let step = Step {
            segment,
            data,
            in_flight: Some(own.sequence.next.saturating_sub(own.sequence.acked)),
            room: edge(direction.reverse()).map(|edge| edge.saturating_sub(own.sequence.next)),
            peer_room: edge(direction).map(|edge| edge.saturating_sub(peer.sequence.next)),
            window,
            mss: own.mss(peer),
            newly_acked,
            reply: peer.reply.filter(|_| newly_acked > 0),
            floor: peer.to_peer.floor(),
            trip: trip.map(|(one, other)| one + other),
            behind: data.map_or(0, |data| own.sequence.next.saturating_sub(data.span.end)),
            is_probe: segment.payload_len == 0 && own.sequence.is_before_next(segment.seq),
            is_awaited: peer.sequence.next > peer.sequence.acked,
        };
        if let Some(facts) = &mut self.facts {
            facts.observe_step(&step);
        }
    }

    /// Returns true if nothing more is expected.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the position of the observation point.
    fn vantage(&self) -> Vantage {
        let Some(client) = self.client else {
            return Vantage::Unknown;
        };
        let floor = |direction| self.half(direction).to_peer.floor();
        let (Some(to_server), Some(to_client)) = (floor(client), floor(client.reverse())) else {
            return Vantage::Unknown;
        };
        Vantage::of_trips(to_client, to_server)
    }

    /// Returns the sum of the round trips from the point to both ends.
    fn whole_trip(&self) -> Duration {
        let floor = |half: &Half| half.to_peer.floor().unwrap_or_default();
        floor(&self.halves.forward) + floor(&self.halves.backward)
    }

    fn endpoints(&self) -> (Endpoint, Endpoint) {
        let client = self.client.unwrap_or(Direction::Forward);
        (self.flow.source(client), self.flow.destination(client))
    }

    fn half(&self, direction: Direction) -> &Half {
        self.halves.get(direction)
    }

    fn half_mut(&mut self, direction: Direction) -> &mut Half {
        self.halves.get_mut(direction)
    }

    /// Returns the half that sends in this direction, and the opposite half.
    fn both_mut(&mut self, direction: Direction) -> (&mut Half, &mut Half) {
        self.halves.both_mut(direction)
    }

    fn side(&self, direction: Direction) -> Option<Side> {
        let client = self.client?;
        Some(if direction == client {
            Side::Client
        } else {
            Side::Server
        })
    }
}
