//! What one flow's segments amount to at one observation point.
//!
//! In come segments in the point's order; out come closed exchanges and the
//! connection's setup. Facts only: causes are weighed elsewhere.

pub(crate) mod facts;
mod flight;
pub(crate) mod half;
pub(crate) mod order;
mod pairing;
pub(crate) mod repeats;
pub(crate) mod rtt;
mod setup;
mod stream;
pub(crate) mod transit;

use core::cmp::Ordering;
use core::net::IpAddr;
use core::time::Duration;

use facts::{Facts, Step};
pub(crate) use facts::{Parting, Watched};
use half::{Arrival, Half, Span, carries_fin};
use order::Order;
use pairing::{Pairing, Scratch};
use repeats::{Answer, Need};
pub(crate) use setup::{Setup, SetupOutcome};

use crate::approach::Approach;
use crate::event::PointId;
use crate::exchange::{Exchange, Side};
use crate::flow::{Direction, Endpoint, FlowKey};
use crate::http;
use crate::icmp::{IcmpError, IcmpKind};
use crate::mark::{Data, Mark};
use crate::segment::{Segment, TcpFlags};
use crate::time::Timestamp;

/// What closed while a segment was taken in.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) setups: Vec<Setup>,
    /// Connections that ended or were given up: their point, and where it
    /// stands: 0 at the client, 1 at the server, 2 between, 3 untold.
    pub(crate) connections: Vec<(PointId, usize)>,
    /// The same ones with their facts, if those are wanted.
    pub(crate) watched: Vec<Watched>,
    /// Servers whose data was seen, and its time to live.
    pub(crate) servers: Vec<(IpAddr, u8)>,
    /// Memory that the next segment uses again.
    scratch: Scratch,
}

impl Closed {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.exchanges.is_empty() && self.setups.is_empty() && self.connections.is_empty()
    }

    /// Uses the memory of an exchange that is done with.
    pub(crate) fn take_back(&mut self, exchange: &mut Exchange) {
        self.scratch.take_back(exchange);
    }

    /// Forgets all and keeps the memory.
    pub(crate) fn clear(&mut self) {
        // Named one by one, so that none is forgotten: what stays is folded
        // again with everything that closes later.
        let Self {
            exchanges,
            setups,
            connections,
            watched,
            servers,
            scratch: _,
        } = self;
        exchanges.clear();
        setups.clear();
        connections.clear();
        watched.clear();
        servers.clear();
    }
}

/// A connection at one observation point.
#[derive(Debug)]
pub(crate) struct Connection {
    flow: FlowKey,
    point: PointId,
    /// Which direction the client sends in; `None` until something tells.
    client: Option<Direction>,
    forward: Half,
    backward: Half,
    setup: Setup,
    pairing: Pairing,
    /// Whether a segment was seen before.
    has_history: bool,
    /// Last segment's time.
    pub(crate) last_seen: Timestamp,
    end: Option<End>,
    /// Time to live of the server's last data; 0 before there was any.
    server_ttl: u8,
    /// The furthest byte that each side allows its peer to send.
    windows: [Option<u64>; 2],
    /// The same as it was when the peer last sent.
    windows_before: [Option<u64>; 2],
    /// Its numbers, if they are wanted.
    facts: Option<Box<Facts>>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Reset,
}

impl Connection {
    pub(crate) fn new(first: &Segment) -> Self {
        Self {
            flow: first.flow,
            point: first.point,
            client: None,
            forward: Half::default(),
            backward: Half::default(),
            setup: Setup::default(),
            pairing: Pairing::default(),
            has_history: false,
            last_seen: first.at,
            end: None,
            server_ttl: 0,
            windows: [None, None],
            windows_before: [None, None],
            facts: None,
        }
    }

    /// The same, with its numbers collected if `stream`, Wireshark's number
    /// of it, is wanted.
    pub(crate) fn begin(first: &Segment, stream: Option<Option<u32>>) -> Self {
        Self {
            facts: stream.map(|stream| Box::new(Facts::new(first, stream))),
            ..Self::new(first)
        }
    }

    /// What came before its first SYN, if that was seen at `at`.
    pub(crate) fn follows(&mut self, approach: Box<Approach>, at: Timestamp) {
        self.setup.follows(approach, at);
    }

    /// Where it was seen, and between whom.
    pub(crate) fn key(&self) -> (PointId, FlowKey) {
        (self.point, self.flow)
    }

    /// Whether it is that flow, seen there.
    #[inline]
    pub(crate) fn is_at(&self, point: PointId, flow: &FlowKey) -> bool {
        self.flow == *flow && self.point == point
    }

    /// Where one direction's sequence numbers begin, the SYN not counted.
    pub(crate) fn begin_of(&self, direction: Direction) -> Option<u32> {
        self.half(direction).base()
    }

    /// Whether this SYN opens another connection with the same 5-tuple.
    pub(crate) fn is_succeeded_by(&self, segment: &Segment) -> bool {
        segment.flags.contains(TcpFlags::SYN) && self.half(segment.direction).is_other_syn(segment)
    }

    /// A copy of a segment that was taken in already: counted, nothing else.
    pub(crate) fn doubled(&mut self, segment: &Segment) {
        if let Some(facts) = &mut self.facts {
            facts.doubled(segment);
        }
    }

    /// Takes in one segment.
    pub(crate) fn take(&mut self, segment: &Segment, payload: &[u8], closed: &mut Closed) {
        let idle = segment.at.since(self.last_seen);
        self.last_seen = self.last_seen.max(segment.at);
        self.learn_client(segment, payload);
        if let Some(facts) = &mut self.facts {
            facts.count(segment);
        }
        if segment.flags.contains(TcpFlags::SYN) {
            self.take_syn(segment);
            return;
        }
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
        let acked_before = self.half(segment.direction.reverse()).acked;
        if !is_set_up {
            self.follow_handshake(segment, closed);
        }
        let (ack, is_new_ack) = self.take_ack(segment);
        let window = self.window(segment);
        let mss = self
            .half(segment.direction)
            .mss(self.half(segment.direction.reverse()));
        let own = self.half_mut(segment.direction);
        let (skipped, order) = own.place_in_order(segment, mss);
        let queued = own.transit.queued(segment);
        let sacks = self.hear(segment, ack, skipped);
        let data = self.take_data(segment, mss, order, skipped);
        if data.is_none() {
            self.half_mut(segment.direction).reveal(segment.seq);
        }
        let edge = window.map_or(0, |window| ack + window);
        let is_wider = edge > 0 && self.remember_window(segment.direction, edge);
        if self.facts.is_some() {
            self.note(segment, data, acked_before, window);
        }
        let Some(by) = self.side(segment.direction) else {
            return;
        };
        let idle = Some(idle).filter(|_| self.has_history);
        self.has_history = true;
        if data.is_some() || self.pairing.is_marking() {
            let mark = Mark {
                at: segment.at,
                number: segment.number,
                by,
                queued,
                ttl: segment.ip.ttl,
                idle,
                data,
                ack,
                edge,
                is_news: is_new_ack || is_wider,
                reports_hole: sacks,
                skipped,
            };
            self.pairing.mark(mark, &mut closed.scratch);
            self.pair(&mark, payload, closed);
        }
        if is_new_ack {
            self.pairing.acknowledged(by.peer(), ack);
        }
        if carries_fin(segment) {
            self.take_fin(segment, by, data);
        }
        self.collect(closed);
    }

    /// Hands the segment's payload, if it has any, to what pairs messages.
    #[inline]
    fn pair(&mut self, mark: &Mark, payload: &[u8], closed: &mut Closed) {
        let Some(data) = mark.data else { return };
        if mark.by == Side::Server {
            self.server_ttl = mark.ttl;
        }
        let halves = [&self.forward, &self.backward];
        let view = View::of(&self.flow, self.point, self.client, halves);
        let scratch = &mut closed.scratch;
        self.pairing.data(mark, data, payload, &view, scratch);
    }

    /// Takes in what a router says about one of its packets.
    pub(crate) fn take_icmp(&mut self, error: &IcmpError) {
        if let (IcmpKind::TooBig(_), Some(seq)) = (error.kind, error.seq) {
            self.half_mut(error.direction).told_too_big(seq);
        }
        if let (IcmpKind::Unreachable(_), true) = (error.kind, self.client == Some(error.direction))
        {
            self.setup.turn_down(error.kind, error.number);
        }
    }

    /// The capture ends, or the connection is given up: closes what is open.
    pub(crate) fn give_up(&mut self, parting: Parting, closed: &mut Closed) {
        if self.setup.is_open() {
            closed.setups.extend(self.setup.conclude(self.endpoints()));
        }
        closed.connections.push((self.point, self.vantage()));
        if let (Some(client), true) = (self.client, self.server_ttl > 0) {
            let server = self.flow.destination(client).addr;
            closed.servers.push((server, self.server_ttl));
        }
        self.pairing.finish(None);
        self.collect(closed);
        closed.watched.extend(self.watched(parting));
    }

    fn watched(&mut self, parting: Parting) -> Option<Watched> {
        let facts = self.facts.take()?;
        let by_direction = [&self.forward, &self.backward];
        Some(Watched {
            facts,
            point: self.point,
            client: self.client,
            ends: [
                self.flow.source(Direction::Forward),
                self.flow.source(Direction::Backward),
            ],
            vantage: self.vantage(),
            trips: by_direction.map(|half| half.to_peer),
            unseen: by_direction.map(|half| half.unseen_bytes),
            last_seen: self.last_seen,
            parting,
        })
    }

    /// Hands a segment after the handshake to the facts, as it was understood.
    fn note(
        &mut self,
        segment: &Segment,
        data: Option<Data>,
        acked_before: u64,
        window: Option<u64>,
    ) {
        let direction = segment.direction;
        let (own, peer) = (self.half(direction), self.half(direction.reverse()));
        let edge = |of| facts::of(self.windows, of);
        let newly_acked = peer.acked - acked_before;
        let trip = own.to_peer.floor().zip(peer.to_peer.floor());
        let step = Step {
            segment,
            data,
            in_flight: Some(own.next.saturating_sub(own.acked)),
            room: edge(direction.reverse()).map(|edge| edge.saturating_sub(own.next)),
            peer_room: edge(direction).map(|edge| edge.saturating_sub(peer.next)),
            window,
            mss: own.mss(peer),
            newly_acked,
            reply: peer.reply.filter(|_| newly_acked > 0),
            floor: peer.to_peer.floor(),
            trip: trip.map(|(one, other)| one + other),
            behind: data.map_or(0, |data| own.next.saturating_sub(data.span.end)),
            is_probe: segment.payload_len == 0 && own.is_before_next(segment.seq),
            is_awaited: peer.next > peer.acked,
        };
        if let Some(facts) = &mut self.facts {
            facts.take(&step);
        }
    }

    /// Whether nothing more is expected.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Where the point stands: 0 at the client, 1 at the server, 2 between
    /// the two, 3 untold. An end's own kernel answers within a tenth of the
    /// whole round trip.
    fn vantage(&self) -> usize {
        let Some(client) = self.client else { return 3 };
        let floor = |direction| self.half(direction).to_peer.floor();
        let (Some(to_server), Some(to_client)) = (floor(client), floor(client.reverse())) else {
            return 3;
        };
        let whole: Duration = to_server + to_client;
        match (to_client * 10 <= whole, to_server * 10 <= whole) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        }
    }

    /// From the point to one end and back, and to the other.
    fn whole_trip(&self) -> Duration {
        let floor = |half: &Half| half.to_peer.floor().unwrap_or_default();
        floor(&self.forward) + floor(&self.backward)
    }

    /// Follows how much the segment's sender sends at a time.
    fn after_cut(
        &mut self,
        segment: &Segment,
        arrival: Arrival,
        trip: Duration,
        idle: bool,
        skipped: u16,
    ) -> bool {
        let flight = &mut self.half_mut(segment.direction).flight;
        let bytes = u64::from(segment.payload_len);
        let is_repair = match arrival {
            Arrival::Repeat | Arrival::Fill | Arrival::PastHole => true,
            Arrival::InOrder => skipped > 0 && !flight.is_too_soon(segment.at, trip),
            Arrival::Copy | Arrival::KeepAlive => false,
        };
        let after_cut = match arrival {
            Arrival::InOrder | Arrival::PastHole => flight.take(segment.at, bytes, trip, idle),
            _ => false,
        };
        if is_repair {
            flight.cut(segment.at);
        }
        after_cut
    }

    fn collect(&mut self, closed: &mut Closed) {
        if self.pairing.has_closed() {
            let halves = [&self.forward, &self.backward];
            let view = View::of(&self.flow, self.point, self.client, halves);
            let before = closed.exchanges.len();
            self.pairing.collect(&view, &mut self.setup, closed);
            if let (Some(facts), Some(client)) = (&mut self.facts, self.client) {
                for exchange in closed.exchanges.iter().skip(before) {
                    facts.exchange(exchange, client);
                }
            }
        }
        self.pairing.forget(&mut closed.scratch);
        if self.end.is_some() && self.pairing.is_idle() {
            self.forward.retire();
            self.backward.retire();
            self.pairing.retire();
        }
    }

    fn endpoints(&self) -> (Endpoint, Endpoint) {
        let client = self.client.unwrap_or(Direction::Forward);
        (self.flow.source(client), self.flow.destination(client))
    }

    fn half(&self, direction: Direction) -> &Half {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    fn half_mut(&mut self, direction: Direction) -> &mut Half {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        }
    }

    fn side(&self, direction: Direction) -> Option<Side> {
        let client = self.client?;
        Some(if direction == client {
            Side::Client
        } else {
            Side::Server
        })
    }

    /// Who asks: the SYN's sender, else who speaks a request, else the higher port.
    #[inline]
    fn learn_client(&mut self, segment: &Segment, payload: &[u8]) {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        if is_syn || (self.client.is_none() && !payload.is_empty()) {
            self.tell_client(segment, payload);
        }
    }

    fn tell_client(&mut self, segment: &Segment, payload: &[u8]) {
        if segment.flags.contains(TcpFlags::SYN) {
            let is_reply = segment.flags.contains(TcpFlags::ACK);
            let client = if is_reply {
                segment.direction.reverse()
            } else {
                segment.direction
            };
            self.client = Some(client);
            return;
        }
        let (source, destination) = (
            self.flow.source(segment.direction),
            self.flow.destination(segment.direction),
        );
        let is_client = if http::begins_message(http::Role::Request, payload) && payload.len() > 8 {
            true
        } else if http::begins_message(http::Role::Response, payload) && payload.len() > 8 {
            false
        } else {
            source.port >= destination.port
        };
        self.client = Some(if is_client {
            segment.direction
        } else {
            segment.direction.reverse()
        });
    }

    fn take_syn(&mut self, segment: &Segment) {
        let is_reply = segment.flags.contains(TcpFlags::ACK);
        self.has_history = true;
        let half = self.half_mut(segment.direction);
        half.open(segment);
        half.transit.queued(segment);
        if let Some(facts) = &mut self.facts {
            facts.open(segment);
        }
        if is_reply {
            self.setup.answer(segment);
        } else {
            self.setup.request(segment);
        }
        if let Some(took) = self.setup.answered_within().filter(|_| is_reply) {
            self.half_mut(segment.direction.reverse())
                .measure_handshake(took);
        }
    }

    /// Whether this answers a SYN by an ACK of something else, as a server does
    /// that still remembers an earlier connection (RFC 9293 §3.10.7.3).
    fn is_challenge(&mut self, segment: &Segment) -> bool {
        let is_bare =
            segment.payload_len == 0 && segment.flags.0 & !TcpFlags::PSH.0 == TcpFlags::ACK.0;
        let is_server = self.client == Some(segment.direction.reverse());
        is_bare
            && is_server
            && self
                .half(segment.direction.reverse())
                .is_alien_ack(segment.ack)
    }

    /// The client's first segment after the SYN/ACK ends the handshake.
    fn finish_handshake(&mut self, segment: &Segment) {
        let is_client = self.client == Some(segment.direction);
        if !is_client || !self.setup.is_answered() || segment.flags.contains(TcpFlags::RST) {
            return;
        }
        let (took, is_clean) = self.setup.establish(segment.at);
        if let Some(facts) = &mut self.facts {
            facts.establish(segment.at);
        }
        if is_clean {
            self.half_mut(segment.direction.reverse())
                .measure_handshake(took);
        }
    }

    /// A handshake is told of when the server has said something after it:
    /// some servers only seem to take a connection.
    fn follow_handshake(&mut self, segment: &Segment, closed: &mut Closed) {
        let is_client = self.client == Some(segment.direction);
        if self.setup.is_followed() && self.setup.follow(segment, is_client) {
            let endpoints = self.endpoints();
            closed.setups.extend(self.setup.conclude(endpoints));
        }
    }

    fn take_reset(&mut self, segment: &Segment, closed: &mut Closed) {
        let is_client = self.client == Some(segment.direction);
        if is_client && self.setup.is_awaited() && self.setup.opening.was_challenged {
            // It resets what the server remembers; its SYN comes again.
            return;
        }
        self.end = Some(End::Reset);
        if let Some(facts) = &mut self.facts {
            facts.reset(segment);
        }
        if self.setup.is_open() {
            if self.client != Some(segment.direction) {
                self.setup.refuse(segment.at, segment.ip.ttl);
            }
            let endpoints = self.endpoints();
            closed.setups.extend(self.setup.conclude(endpoints));
        }
        self.pairing
            .finish(Some((self.side(segment.direction), segment.at, true)));
        self.collect(closed);
    }

    fn take_fin(&mut self, segment: &Segment, by: Side, data: Option<Data>) {
        let half = self.half_mut(segment.direction);
        let end = match data {
            Some(data) => data.span.end,
            None => half.offset(segment.seq),
        };
        half.finish(end);
        self.pairing.fin(by, segment.at, end);
        if self.forward.fin.is_some() && self.backward.fin.is_some() {
            self.end = Some(End::Finished);
            self.pairing.finish(Some((Some(by), segment.at, false)));
        }
    }

    fn take_ack(&mut self, segment: &Segment) -> (u64, bool) {
        let peer = segment.direction.reverse();
        if !segment.flags.contains(TcpFlags::ACK) {
            return (0, false);
        }
        let before = self.half(peer).acked;
        if let Some(unseen) = self.half_mut(peer).acknowledge(segment.ack, segment.at) {
            if let Some(side) = self.side(peer) {
                self.pairing.torn(side, unseen, segment.at);
            }
        }
        let after = self.half(peer).acked;
        (after, after > before)
    }

    /// The window that the segment advertises, in bytes; `None` where the
    /// scaling was not seen (RFC 7323 §2.2: it holds only if both SYNs offer it).
    fn window(&self, segment: &Segment) -> Option<u64> {
        let (own, peer) = (
            self.half(segment.direction),
            self.half(segment.direction.reverse()),
        );
        if !own.has_start || !peer.has_start {
            return None;
        }
        let shift = match (own.window_scale, peer.window_scale) {
            (Some(shift), Some(_)) => shift.min(14),
            _ => 0,
        };
        Some(u64::from(segment.window) << shift)
    }

    /// The sender of `direction` allows its peer to send up to `edge`; whether
    /// that is further than before.
    fn remember_window(&mut self, direction: Direction, edge: u64) -> bool {
        let slot = usize::from(direction == Direction::Backward);
        let before = self
            .windows
            .get_mut(slot)
            .and_then(|slot| slot.replace(edge));
        before.is_some_and(|before| edge > before)
    }

    /// What the segment says of the other side's bytes beyond its
    /// acknowledgement; whether some are missing at its sender's.
    #[inline]
    fn hear(&mut self, segment: &Segment, ack: u64, skipped: u16) -> bool {
        let blocks = segment.options.sack_blocks();
        let has_repeats = !self.half(segment.direction.reverse()).repeats.is_empty();
        if blocks.is_empty() && (!has_repeats || ack == 0) {
            return false;
        }
        self.weigh_answer(segment, blocks, ack, skipped)
    }

    fn weigh_answer(
        &mut self,
        segment: &Segment,
        blocks: &[(u32, u32)],
        ack: u64,
        skipped: u16,
    ) -> bool {
        let half = self.half_mut(segment.direction.reverse());
        let mut spans = [empty_span(0); 4];
        for (slot, &(left, right)) in spans.iter_mut().zip(blocks) {
            *slot = Span {
                start: half.offset(left),
                end: half.offset(right),
            };
        }
        let spans = spans.get(..blocks.len().min(4)).unwrap_or_default();
        let (duplicate, sacked) = split_duplicate(spans, ack);
        let answer = Answer {
            at: segment.at,
            ack,
            sacked,
            duplicate,
            tsecr: segment.options.timestamps.map(|(_, tsecr)| tsecr),
            floor: half.to_peer.floor(),
            is_after_gap: skipped > 0,
        };
        let pairing = &mut self.pairing;
        let half = match segment.direction {
            Direction::Forward => &mut self.backward,
            Direction::Backward => &mut self.forward,
        };
        let facts = &mut self.facts;
        half.repeats.hear(&answer, |number, need| {
            pairing.resolve(number, need);
            if let (Some(facts), Need::Spurious) = (facts.as_mut(), need) {
                facts.was_spurious(segment.direction.reverse());
            }
        });
        !sacked.is_empty()
    }

    fn take_data(
        &mut self,
        segment: &Segment,
        mss: u32,
        order: Order,
        skipped: u16,
    ) -> Option<Data> {
        if segment.payload_len == 0 {
            return None;
        }
        let peer_slot = usize::from(segment.direction == Direction::Forward);
        let allowed = self.windows_before.get(peer_slot).copied().flatten();
        let allowed_now = self.windows.get(peer_slot).copied().flatten();
        if let Some(before) = self.windows_before.get_mut(peer_slot) {
            *before = allowed_now;
        }
        let trip = self.whole_trip();
        let half = self.half_mut(segment.direction);
        let acked = half.acked;
        let in_flight = half.next.saturating_sub(acked);
        let (span, arrival) = half.take(segment, order);
        let after_cut = self.after_cut(segment, arrival, trip, in_flight == 0, skipped);
        let half = self.half(segment.direction);
        let was_too_big = arrival == Arrival::Repeat && half.was_too_big(span);
        let filled_window = allowed.is_some_and(|edge| span.end + u64::from(mss) > edge);
        Some(Data {
            span,
            arrival,
            is_small: is_partial(segment.payload_len, mss),
            has_fin: carries_fin(segment),
            was_too_big,
            acked,
            edge: allowed_now.unwrap_or_default(),
            order,
            need: match arrival {
                Arrival::Repeat => Need::Pending,
                _ => Need::Needed,
            },
            after_cut,
            in_flight,
            filled_window,
        })
    }
}

/// The bytes that arrived twice, if `spans` (SACK blocks) begin with a report
/// of that, and what arrived beyond missing data: RFC 2883 §4 puts a D-SACK
/// first, at or below the acknowledgement or inside the second block.
fn split_duplicate(spans: &[Span], ack: u64) -> (Option<Span>, &[Span]) {
    let Some((first, rest)) = spans.split_first() else {
        return (None, spans);
    };
    let is_inside = |outer: &Span| outer.start <= first.start && outer.end >= first.end;
    match first.end <= ack || rest.first().is_some_and(is_inside) {
        true => (Some(*first), rest),
        false => (None, spans),
    }
}

/// What pairing needs to know of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    flow: &'a FlowKey,
    pub(crate) point: PointId,
    client: Direction,
    request: &'a Half,
    response: &'a Half,
}

impl<'a> View<'a> {
    /// Of a connection with these directions, forward and backward.
    fn of(
        flow: &'a FlowKey,
        point: PointId,
        client: Option<Direction>,
        halves: [&'a Half; 2],
    ) -> Self {
        let [forward, backward] = halves;
        let client = client.unwrap_or(Direction::Forward);
        let (request, response) = match client {
            Direction::Forward => (forward, backward),
            Direction::Backward => (backward, forward),
        };
        Self {
            flow,
            point,
            client,
            request,
            response,
        }
    }

    pub(crate) fn client(&self) -> Endpoint {
        self.flow.source(self.client)
    }

    pub(crate) fn server(&self) -> Endpoint {
        self.flow.destination(self.client)
    }

    /// From the point to the server and back.
    pub(crate) fn to_server(self) -> rtt::RoundTrip {
        self.request.to_peer
    }

    /// From the point to the client and back.
    pub(crate) fn to_client(self) -> rtt::RoundTrip {
        self.response.to_peer
    }

    /// Whether the server's FIN was seen and no FIN of the client's.
    pub(crate) fn is_left_by_server(&self) -> bool {
        self.response.fin.is_some() && self.request.fin.is_none()
    }

    /// Whether any of one side's data was sent again so far.
    pub(crate) fn has_repeats(&self, sender: Side) -> bool {
        match sender {
            Side::Client => self.request.has_repeats,
            Side::Server => self.response.has_repeats,
        }
    }

    /// How the client sends, and how the server does.
    pub(crate) fn pipes(&self) -> [half::Pipe; 2] {
        [
            self.request.pipe(self.response),
            self.response.pipe(self.request),
        ]
    }
}

/// Whether the segment brought bytes not seen before.
pub(crate) fn is_progress(arrival: Arrival) -> bool {
    matches!(
        arrival,
        Arrival::InOrder | Arrival::PastHole | Arrival::Fill
    )
}

/// Whether so long a payload is no multiple of the MSS. Most are told without
/// a division.
#[inline]
fn is_partial(payload_len: u32, mss: u32) -> bool {
    match payload_len.cmp(&mss) {
        Ordering::Less => payload_len > 0,
        Ordering::Equal => false,
        Ordering::Greater => payload_len % mss != 0,
    }
}

/// An empty stretch at `offset`.
pub(crate) fn empty_span(offset: u64) -> Span {
    Span {
        start: offset,
        end: offset,
    }
}
