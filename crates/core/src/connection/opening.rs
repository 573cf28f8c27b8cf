//! The beginning of a connection, and which of the two ends is its client.

use super::pairing::Pairing;
use super::{Closed, Connection};
use crate::exchange::Side;
use crate::observed::flow::Direction;
use crate::observed::segment::{Segment, TcpFlags};
use crate::protocol::http;

impl Connection {
    /// Determines which end is the client: the sender of the SYN, or else of a request, or else the
    /// end with the higher port.
    #[inline]
    pub(super) fn learn_client(&mut self, segment: &Segment, payload: &[u8]) {
        if segment.flags.contains(TcpFlags::SYN) {
            let is_reply = segment.flags.contains(TcpFlags::ACK);
            self.client = Some(if is_reply {
                segment.direction.reverse()
            } else {
                segment.direction
            });
            self.is_client_guessed = false;
        } else if (self.client.is_none() || self.is_client_guessed) && segment.payload_len > 0 {
            self.hear_client(segment, payload);
        }
    }

    /// Determines the client from data. A guess by ports is dropped when one side begins its turn
    /// with a line that only the other role can send.
    fn hear_client(&mut self, segment: &Segment, payload: &[u8]) {
        let begins_turn = self.last_spoke.replace(segment.direction) != Some(segment.direction);
        let is_first = self.client.is_none();
        let told = spoken(payload).filter(|_| is_first || begins_turn && is_sure(payload));
        let client = match told {
            Some(http::Role::Request) => segment.direction,
            Some(http::Role::Response) => segment.direction.reverse(),
            None if !is_first => return,
            None => self.guess_by_ports(segment),
        };
        self.set_client(client);
        self.is_client_guessed = told.is_none();
    }

    /// Sets the client. If it was taken for the server, the exchanges paired until then took
    /// responses for requests, and are dropped.
    fn set_client(&mut self, client: Direction) {
        if self.client == Some(client.reverse()) {
            self.pairing = Pairing::default();
            self.server_ttl = 0;
        }
        self.client = Some(client);
    }

    /// Takes `client` as the client where the ports would be the only evidence: the other end has
    /// several peers, and this one has none but it.
    #[cold]
    pub(crate) fn is_likely_asked_by(&mut self, client: Direction) {
        if self.client.is_none() || self.is_client_guessed {
            self.set_client(client);
            self.is_client_guessed = true;
        }
    }

    /// Guesses the client by ports: the server has a common service's port, or else the lower port.
    fn guess_by_ports(&self, segment: &Segment) -> Direction {
        let source = self.flow.source(segment.direction).port;
        let destination = self.flow.destination(segment.direction).port;
        let is_from_client = if serves(source) == serves(destination) {
            source >= destination
        } else {
            serves(destination)
        };
        if is_from_client {
            segment.direction
        } else {
            segment.direction.reverse()
        }
    }

    pub(super) fn take_syn(&mut self, segment: &Segment) {
        let is_reply = segment.flags.contains(TcpFlags::ACK);
        self.has_history = true;
        let half = self.half_mut(segment.direction);
        half.open(segment);
        half.transit.queued(segment, None);
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

    /// Returns true if the segment answers a SYN with an ACK of other bytes. A server sends such an
    /// ACK if it still has an earlier connection with these ports (RFC 9293 §3.10.7.3).
    pub(super) fn is_challenge(&mut self, segment: &Segment) -> bool {
        let is_bare =
            segment.payload_len == 0 && segment.flags.0 & !TcpFlags::PSH.0 == TcpFlags::ACK.0;
        let is_server = self.client == Some(segment.direction.reverse());
        is_bare
            && is_server
            && self
                .half(segment.direction.reverse())
                .sequence
                .is_alien_ack(segment.ack)
    }

    /// Ends the handshake with the client's first segment after the SYN/ACK.
    pub(super) fn finish_handshake(&mut self, segment: &Segment) {
        let is_client = self.client == Some(segment.direction);
        if !self.setup.is_answered() || segment.flags.contains(TcpFlags::RST) {
            return;
        }
        if !is_client {
            self.setup.speak(segment);
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

    /// Follows the handshake until the server has sent something after it, and then reports it:
    /// some servers only seem to accept a connection.
    pub(super) fn follow_handshake(
        &mut self,
        segment: &Segment,
        payload: &[u8],
        closed: &mut Closed,
    ) {
        let by = if self.client == Some(segment.direction) {
            Side::Client
        } else {
            Side::Server
        };
        if self.setup.is_followed() && self.setup.follow(segment, payload, by) {
            let endpoints = self.endpoints();
            closed.setups.extend(self.setup.conclude(endpoints));
        }
    }
}

/// Returns the role (client or server) whose line a payload seems to begin with.
fn spoken(payload: &[u8]) -> Option<http::Role> {
    let mut roles = [http::Role::Request, http::Role::Response].into_iter();
    roles.find(|&role| payload.len() > 8 && http::begins_message(role, payload))
}

/// Returns true if a line is complete and contains HTTP's version.
fn is_sure(payload: &[u8]) -> bool {
    let mut lines = payload.splitn(2, |&byte| byte == b'\n');
    let (line, rest) = (lines.next().unwrap_or_default(), lines.next());
    rest.is_none() || line.windows(7).any(|part| part == b"HTTP/1.")
}

/// Returns true for ports on which servers listen and from which clients rarely connect. Some
/// clients use low ports (NFS, rsh), and many services have high ones.
pub(crate) fn serves(port: u16) -> bool {
    SERVING.binary_search(&port).is_ok()
}

/// Ports of common services (IANA's registry and their documentation), in order.
const SERVING: [u16; 86] = [
    20, 21, 22, 23, 25, 43, 49, 53, 70, 79, 80, 88, 102, 110, 111, 113, 119, 135, 139, 143, 179,
    389, 443, 445, 465, 502, 515, 548, 554, 587, 593, 631, 636, 646, 853, 873, 902, 989, 990, 993,
    995, 1080, 1194, 1352, 1433, 1521, 1723, 1883, 2049, 2181, 2375, 2379, 2404, 3128, 3260, 3268,
    3306, 3389, 3690, 4369, 5060, 5061, 5222, 5432, 5671, 5672, 5900, 5984, 5985, 6379, 6443, 6633,
    6653, 8000, 8080, 8081, 8443, 8883, 9000, 9042, 9092, 9200, 9300, 11211, 20000, 27017,
];
