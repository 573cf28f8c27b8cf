//! Numbers of a connection, for the list of connections.
//!
//! The input is the segments as [`Connection`](super::Connection) interpreted them, and its
//! exchanges as they close; the output is [`Watched`], from which a record of the report is made.
//! The size is fixed except for samples of at most 64 durations; data on rare events is stored
//! separately and costs nothing if they do not happen.

pub(crate) mod end;
mod flight;
pub(crate) mod spell;
pub(crate) mod system;

use core::time::Duration;

use end::End;

use super::Vantage;
use crate::attribution::packet_record::Data;
use crate::attribution::rtt::RoundTrip;
use crate::exchange::wait::{Owner, Wait, WaitKind};
use crate::exchange::{Exchange, Side};
use crate::observed::event::PointId;
use crate::observed::flow::{Direction, Endpoint, PerDirection};
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// A segment after the handshake, as its connection interpreted it.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) data: Option<Data>,
    /// The sender's bytes in flight once the segment passed; `None` if the other direction was not
    /// seen.
    pub(crate) in_flight: Option<u64>,
    /// The room that the receiver's window has after the segment; `None`: not known.
    pub(crate) room: Option<u64>,
    /// The room that the sender's window now leaves its peer.
    pub(crate) peer_room: Option<u64>,
    /// The window that the segment advertises; `None` if the window scale is not known.
    pub(crate) window: Option<u64>,
    /// The sender's segment size.
    pub(crate) mss: u32,
    /// Number of the peer's bytes that the segment acknowledges for the first time.
    pub(crate) newly_acked: u64,
    /// The time since the segment that this one acknowledges passed the observation point.
    pub(crate) reply: Option<Duration>,
    /// Minimum round trip from the observation point to the segment's sender.
    pub(crate) floor: Option<Duration>,
    /// Minimum round trip between the ends.
    pub(crate) trip: Option<Duration>,
    /// Number of the sender's bytes after this segment in the stream that passed the observation
    /// point before it.
    pub(crate) behind: u64,
    /// True if the segment carries the byte before its sender's next one (RFC 9293 §3.8.4): it
    /// probes whether the peer is alive, or has room.
    pub(crate) is_probe: bool,
    /// True if data of the peer is outstanding beyond what the segment acknowledges.
    pub(crate) is_awaited: bool,
}

/// The facts of a connection that is still followed.
#[derive(Debug)]
pub(crate) struct ConnectionFacts {
    /// Wireshark's index of the connection; `None` if there were too many.
    pub(crate) stream: Option<u32>,
    pub(crate) first: Timestamp,
    pub(crate) first_packet: u64,
    pub(crate) last_packet: u64,
    /// The steps of the handshake.
    pub(crate) opening: Opening,
    pub(crate) exchanges: u32,
    /// Time that the exchanges lost.
    pub(crate) lost: LostTime,
    pub(crate) fin_by: Option<Direction>,
    pub(crate) reset_by: Option<Direction>,
    ends: PerDirection<End>,
}

/// Time that exchanges lost, in nanoseconds, by its owner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LostTime {
    pub(crate) client_ns: u64,
    pub(crate) server_ns: u64,
    pub(crate) path_ns: u64,
    pub(crate) unknown_ns: u64,
}

impl LostTime {
    fn add(&mut self, wait: &Wait) {
        let sum = match wait.owner {
            Owner::Client => &mut self.client_ns,
            Owner::Server => &mut self.server_ns,
            Owner::Path => &mut self.path_ns,
            Owner::Resolver | Owner::Proxy | Owner::Unknown => &mut self.unknown_ns,
        };
        *sum = sum.saturating_add(wait.nanos());
    }

    /// Returns the total, in nanoseconds.
    pub(crate) fn total(&self) -> u64 {
        let ends = self.client_ns.saturating_add(self.server_ns);
        ends.saturating_add(self.path_ns)
            .saturating_add(self.unknown_ns)
    }
}

/// Times of a handshake's steps: first and latest SYN, first SYN/ACK, end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) first_syn: Option<Timestamp>,
    last_syn: Option<Timestamp>,
    pub(crate) syns: u32,
    answer: Option<Timestamp>,
    answers: u32,
    end: Option<Timestamp>,
}

/// The reason why a connection is no longer followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// Nothing came for a long time, or the connection ended long ago.
    Idle,
    /// Too many other connections are followed.
    Crowded,
    /// Another connection took its ports.
    Succeeded,
    /// The capture ended.
    CaptureEnded,
}

/// A connection that is no longer followed, with its facts.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) facts: Box<ConnectionFacts>,
    pub(crate) point: PointId,
    /// The direction in which the client sends, as far as known.
    pub(crate) client: Option<Direction>,
    /// The sending endpoint of each direction.
    pub(crate) ends: PerDirection<Endpoint>,
    /// The position of the observation point.
    pub(crate) vantage: Vantage,
    /// Round trips by direction: from the observation point to the direction's destination.
    pub(crate) trips: PerDirection<RoundTrip>,
    /// Bytes by direction that were acknowledged but never seen.
    pub(crate) unseen: PerDirection<u64>,
    pub(crate) last_seen: Timestamp,
    pub(crate) parting: Parting,
}

impl Watched {
    /// Returns both ends' facts.
    pub(crate) fn both(&self) -> [&End; 2] {
        self.facts.ends.each()
    }

    /// Returns the end that sends in `direction`.
    pub(crate) fn end(&self, direction: Direction) -> Endpoint {
        *self.ends.get(direction)
    }

    /// Returns the round trips from the observation point to the destination of `direction`.
    pub(crate) fn trip(&self, direction: Direction) -> RoundTrip {
        *self.trips.get(direction)
    }

    /// Returns the number of bytes in `direction` that were acknowledged but never seen.
    pub(crate) fn unseen(&self, direction: Direction) -> u64 {
        *self.unseen.get(direction)
    }
}

impl ConnectionFacts {
    pub(crate) fn new(first: &Segment, stream: Option<u32>) -> Self {
        Self {
            stream,
            first: first.at,
            first_packet: first.number,
            last_packet: first.number,
            opening: Opening::default(),
            exchanges: 0,
            lost: LostTime::default(),
            fin_by: None,
            reset_by: None,
            ends: PerDirection::default(),
        }
    }

    /// Records that this segment, though seen after others, is the connection's first.
    pub(crate) fn begins_with(&mut self, first: &Segment) {
        (self.first, self.first_packet) = (first.at, first.number);
    }

    /// Returns the facts of the end that sends in `direction`.
    pub(crate) fn end(&self, direction: Direction) -> &End {
        self.ends.get(direction)
    }

    fn end_mut(&mut self, direction: Direction) -> &mut End {
        self.ends.get_mut(direction)
    }

    /// Counts a segment of any kind.
    #[inline]
    pub(crate) fn count(&mut self, segment: &Segment) {
        self.last_packet = segment.number;
        self.end_mut(segment.direction).count(segment);
    }

    /// Counts a duplicate of a segment that was already seen.
    pub(crate) fn doubled(&mut self, segment: &Segment) {
        self.count(segment);
        self.end_mut(segment.direction).doubled(segment);
    }

    /// Takes in a SYN or SYN/ACK.
    pub(crate) fn open(&mut self, segment: &Segment) {
        self.end_mut(segment.direction).open(segment);
        self.opening.observe_segment(segment);
    }

    /// Takes in a reset.
    pub(crate) fn reset(&mut self, segment: &Segment) {
        self.reset_by.get_or_insert(segment.direction);
    }

    /// Takes in any other segment.
    #[inline]
    pub(crate) fn observe_step(&mut self, step: &Step<'_>) {
        let segment = step.segment;
        let direction = segment.direction;
        if let Some(reply) = step.reply {
            self.end_mut(direction).replies.push(reply);
        }
        self.end_mut(direction).send(step);
        let peer = self.end_mut(direction.reverse());
        if step.data.is_some() {
            peer.flight.answered();
        }
        peer.allowed(step.peer_room, step.mss, segment.at);
        if segment.flags.contains(TcpFlags::FIN) {
            self.fin_by.get_or_insert(direction);
        }
    }

    /// Records that the handshake's last step came at `at`.
    pub(crate) fn establish(&mut self, at: Timestamp) {
        self.opening.end.get_or_insert(at);
    }

    /// Takes in a closed exchange; `client` is the direction of its requests.
    pub(crate) fn exchange(&mut self, exchange: &Exchange, client: Direction) {
        self.exchanges = self.exchanges.saturating_add(1);
        for wait in exchange.waits.iter().filter(|wait| is_lost(wait.kind)) {
            self.lost.add(wait);
        }
        for recovery in &exchange.loss.recoveries {
            let direction = match recovery.sender {
                Side::Client => client,
                Side::Server => client.reverse(),
            };
            self.end_mut(direction).recovered(recovery);
        }
    }

    /// Records that a segment in `direction` was retransmitted although an earlier copy arrived.
    pub(crate) fn was_spurious(&mut self, direction: Direction) {
        self.end_mut(direction).was_spurious();
    }
}

/// Returns true for time beyond propagation and transfer: an end or the path made the request wait.
fn is_lost(kind: WaitKind) -> bool {
    !matches!(
        kind,
        WaitKind::Connect
            | WaitKind::Resolve
            | WaitKind::RoundTrip
            | WaitKind::RequestTransfer
            | WaitKind::ResponseTransfer
    )
}

impl Opening {
    fn observe_segment(&mut self, segment: &Segment) {
        if segment.flags.contains(TcpFlags::ACK) {
            self.answer.get_or_insert(segment.at);
            self.answers = self.answers.saturating_add(1);
        } else if self.answer.is_none() {
            self.first_syn.get_or_insert(segment.at);
            self.last_syn = Some(segment.at);
            self.syns = self.syns.saturating_add(1);
        }
    }

    /// Returns true if any step of the handshake was seen.
    pub(crate) fn was_seen(&self) -> bool {
        self.first_syn.is_some() || self.answer.is_some()
    }

    /// Returns the time from the first SYN to the client's ACK.
    pub(crate) fn whole(&self) -> Option<Duration> {
        Some(self.end?.since(self.first_syn?))
    }

    /// Returns the time from the SYN to its answer; `None` if the SYN or the SYN/ACK was
    /// retransmitted, because it is then unknown which copy was answered.
    pub(crate) fn to_server(&self) -> Option<Duration> {
        let answer = self.answer.filter(|_| self.syns == 1)?;
        Some(answer.since(self.last_syn?))
    }

    /// Returns the time from the SYN/ACK to its answer; `None` if either was retransmitted.
    pub(crate) fn to_client(&self) -> Option<Duration> {
        let end = self.end.filter(|_| self.answers == 1)?;
        Some(end.since(self.answer?))
    }

    /// Returns the number of times that the SYN was retransmitted; `None` if the SYN was not seen.
    pub(crate) fn repeated(&self) -> Option<u32> {
        self.syns.checked_sub(1)
    }
}
