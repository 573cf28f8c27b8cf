//! How a connection begins, and who of the two is its client.

use super::Closed;
use super::Connection;
use crate::http;
use crate::segment::{Segment, TcpFlags};

impl Connection {
    /// Who asks: the SYN's sender, else who speaks a request, else the higher port.
    #[inline]
    pub(super) fn learn_client(&mut self, segment: &Segment, payload: &[u8]) {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        if is_syn || (self.client.is_none() && segment.payload_len > 0) {
            self.tell_client(segment, payload);
        }
    }

    pub(super) fn tell_client(&mut self, segment: &Segment, payload: &[u8]) {
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

    pub(super) fn take_syn(&mut self, segment: &Segment) {
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
    pub(super) fn is_challenge(&mut self, segment: &Segment) -> bool {
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
    pub(super) fn finish_handshake(&mut self, segment: &Segment) {
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
    pub(super) fn follow_handshake(&mut self, segment: &Segment, closed: &mut Closed) {
        let is_client = self.client == Some(segment.direction);
        if self.setup.is_followed() && self.setup.follow(segment, is_client) {
            let endpoints = self.endpoints();
            closed.setups.extend(self.setup.conclude(endpoints));
        }
    }
}
