//! The end of a connection, and what closes with it.

use core::time::Duration;

use super::half::Half;
use super::pairing::Ending;
use super::{Closed, Connection, End, Parting, View, Watched};
use crate::attribution::packet_record::Data;
use crate::attribution::rtt::LEAST_ERROR;
use crate::exchange::Side;
use crate::observed::flow::{Endpoint, PerDirection};
use crate::observed::segment::{Segment, TcpFlags, hops};

/// Maximum difference in hop count between packets of one host: paths of equal length may change,
/// and a load balancer may be located before the host for which it answers.
const MOST_APART: u8 = 2;

impl Connection {
    pub(super) fn take_reset(&mut self, segment: &Segment, closed: &mut Closed) {
        let is_client = self.client == Some(segment.direction);
        if is_client && self.setup.is_awaited() && self.setup.opening.was_challenged {
            // The SYN comes again.
            self.setup.reset_challenge();
            return;
        }
        if self.end.is_none() {
            self.note_dead_peer(closed);
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
        if self.is_reset_on_way(segment) {
            self.pairing.was_reset_on_way();
        }
        self.finish(Some((self.side(segment.direction), segment.at, true)));
        self.collect(closed);
    }

    /// Returns true if a reset in the server's name was not sent by the server: its hop count
    /// differs, or it came sooner than any answer of the server could.
    fn is_reset_on_way(&self, reset: &Segment) -> bool {
        if self.client != Some(reset.direction.reverse()) {
            return false;
        }
        let data = Some(self.server_ttl).filter(|&ttl| ttl > 0);
        let known = || self.setup.answer.ttl.into_iter().chain(data);
        let is_far = |ttl: u8| hops(ttl).abs_diff(hops(reset.ip.ttl)) > MOST_APART;
        let is_elsewhere = reset.ip.ttl > 0 && known().any(|_| true) && known().all(is_far);
        is_elsewhere || self.is_too_soon(reset)
    }

    /// Returns true if a reset came sooner than the round trip allows after the first segment that
    /// it can answer. Only resets without ACK answer a segment (RFC 9293 §3.10.7.4).
    fn is_too_soon(&self, reset: &Segment) -> bool {
        let own = self.half(reset.direction);
        let answers =
            !reset.flags.contains(TcpFlags::ACK) && own.sequence.base() == Some(reset.seq);
        let propagation = self.half(reset.direction.reverse()).to_peer.floor();
        let (Some(made), Some(propagation)) = (self.setup.end, propagation) else {
            return false;
        };
        let took = reset.at.since(made) + LEAST_ERROR;
        answers && self.setup.is_made() && took < propagation * 7 / 8
    }

    pub(super) fn take_fin(&mut self, segment: &Segment, by: Side, data: Option<Data>) {
        let half = self.half_mut(segment.direction);
        let end = match data {
            Some(data) => data.span.end,
            None => half.sequence.offset(segment.seq),
        };
        half.finish(end, segment.at);
        self.pairing.fin(by, segment.at, end);
        if self.halves().iter().all(|half| half.sequence.fin.is_some()) {
            self.end = Some(End::Finished);
            self.pairing.end_once_acked((Some(by), segment.at, false));
        }
    }

    /// Finishes the exchanges when both sides have closed and all data is acknowledged. Until then,
    /// lost data may be retransmitted.
    fn settle_fins(&mut self) {
        let is_acked = |half: &&Half| {
            let sequence = &half.sequence;
            sequence.fin.is_some_and(|fin| sequence.acked >= fin)
        };
        if self.pairing.awaits_last_acks() && self.halves().iter().all(is_acked) {
            self.finish(None);
        }
    }

    /// Finishes the connection's exchanges.
    fn finish(&mut self, ending: Option<Ending>) {
        let server = self.client.map(|client| client.reverse());
        let lost = server.map_or(0, |server| self.half(server).sequence.lost());
        self.pairing.finish(ending, lost > 0);
    }

    /// Closes everything open when the capture ends or the connection is dropped.
    pub(crate) fn give_up(&mut self, parting: Parting, closed: &mut Closed) {
        if self.setup.is_open() {
            closed.setups.extend(self.setup.conclude(self.endpoints()));
        }
        if self.end.is_none() {
            self.note_dead_peer(closed);
        }
        closed.connections.push((self.point, self.vantage()));
        closed.fin_trips.extend(self.fin_trip());
        if let (Some(client), true) = (self.client, self.server_ttl > 0) {
            let server = self.flow.destination(client).addr;
            closed.servers.push((server, self.server_ttl));
        }
        if parting == Parting::CaptureEnded {
            self.pairing.capture_ended();
        }
        self.finish(None);
        self.collect(closed);
        closed.watched.extend(self.watched(parting));
    }

    /// Returns the round trip, as the sum of both FINs' reply times, and its server, if no SYN was
    /// seen.
    fn fin_trip(&self) -> Option<(Endpoint, Duration)> {
        let halves = self.halves();
        let [forward, backward] = halves.map(|half| half.to_peer.fin_trip());
        let trip = forward? + backward?;
        let is_told = self.client.is_some() && halves.iter().all(|half| !half.sequence.has_start());
        is_told.then(|| (self.endpoints().1, trip))
    }

    pub(super) fn watched(&mut self, parting: Parting) -> Option<Watched> {
        let facts = self.facts.take()?;
        Some(Watched {
            facts,
            point: self.point,
            client: self.client,
            ends: PerDirection::of(|direction| self.flow.source(direction)),
            vantage: self.vantage(),
            trips: PerDirection::of(|direction| self.half(direction).to_peer),
            unseen: PerDirection::of(|direction| self.half(direction).sequence.unseen_bytes),
            last_seen: self.last_seen,
            parting,
        })
    }

    /// Hands out what closed; usually nothing has.
    #[inline]
    pub(super) fn collect(&mut self, closed: &mut Closed) {
        if self.end.is_some() {
            self.settle_fins();
        }
        if self.pairing.has_closed() {
            self.hand_out(closed);
        }
        self.pairing.forget(&mut closed.scratch);
        if self.end.is_some() && !self.is_retired && self.pairing.is_idle() {
            self.is_retired = true;
            self.halves.forward.retire();
            self.halves.backward.retire();
            self.pairing.retire();
        }
    }

    fn hand_out(&mut self, closed: &mut Closed) {
        let view = View::of(&self.flow, self.point, self.client, &self.halves);
        let before = closed.exchanges.len();
        self.pairing.collect(&view, &mut self.setup, closed);
        if let (Some(facts), Some(client)) = (&mut self.facts, self.client) {
            for exchange in closed.exchanges.iter().skip(before) {
                facts.exchange(exchange, client);
            }
        }
    }
}
