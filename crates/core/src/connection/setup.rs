//! How a connection was made, and what that took.

use core::time::Duration;

use crate::flow::Endpoint;
use crate::handshake::Handshake;
use crate::time::Timestamp;
use crate::wait::{Bound, Owner, Wait, WaitKind};

/// A request this long after the handshake's end bears its cost at most.
const PROMPT: Duration = Duration::from_millis(5);

/// A TCP handshake, tiled like an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// The connecting end; `None` before it concluded.
    pub(crate) ends: Option<(Endpoint, Endpoint)>,
    /// The first SYN.
    pub(crate) begin: Option<Timestamp>,
    /// The last SYN before the answer.
    last_syn: Timestamp,
    /// SYN/ACK or RST.
    answered: Option<Timestamp>,
    /// When it ended: the client's ACK, the RST, or the last SYN seen.
    pub(crate) end: Option<Timestamp>,
    /// SYNs sent again.
    pub(crate) retransmissions: u32,
    /// SYN/ACKs sent again.
    pub(crate) answer_retransmissions: u32,
    /// What became of it.
    pub(crate) outcome: Option<SetupOutcome>,
    /// Its pieces.
    pub(crate) waits: Vec<Wait>,
    /// Number of the first SYN's packet.
    pub(crate) first_packet: u64,
    /// Time to live of the answer.
    pub(crate) answer_ttl: Option<u8>,
    is_concluded: bool,
    /// Whether an exchange has taken over its cost.
    is_charged: bool,
}

/// What became of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SetupOutcome {
    /// Done.
    Established,
    /// Answered by a reset.
    Refused,
    /// Not answered while it was watched.
    Unanswered,
    /// Answered, and not finished while it was watched.
    Cut,
}

impl Setup {
    /// Takes in a SYN.
    pub(crate) fn request(&mut self, at: Timestamp, number: u64) {
        if self.begin.is_none() {
            self.begin = Some(at);
            self.first_packet = number;
        } else if self.answered.is_none() {
            self.retransmissions += 1;
        }
        if self.answered.is_none() {
            self.last_syn = at;
        }
    }

    /// Takes in a SYN/ACK.
    pub(crate) fn answer(&mut self, at: Timestamp, ttl: u8) {
        if self.answered.is_some() {
            self.answer_retransmissions += 1;
            return;
        }
        self.answered = Some(at);
        self.answer_ttl = Some(ttl);
    }

    /// Takes in a reset instead of a SYN/ACK.
    pub(crate) fn refuse(&mut self, at: Timestamp, ttl: u8) {
        if self.answered.is_none() {
            self.answered = Some(at);
            self.answer_ttl = Some(ttl);
            self.end = Some(at);
            self.outcome = Some(SetupOutcome::Refused);
        }
    }

    /// From the SYN to the SYN/ACK, unless a retransmission blurs it.
    pub(crate) fn answered_within(&self) -> Option<Duration> {
        let answered = self.answered.filter(|_| self.retransmissions == 0)?;
        Some(answered.since(self.begin?))
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answered.is_some() && self.outcome.is_none()
    }

    /// Whether it has begun and not been concluded.
    pub(crate) fn is_open(&self) -> bool {
        (self.begin.is_some() || self.answered.is_some()) && !self.is_concluded
    }

    /// The client's ACK: how long after the SYN/ACK, and whether that times
    /// the path (no SYN/ACK was repeated).
    pub(crate) fn establish(&mut self, at: Timestamp) -> (Duration, bool) {
        self.end = Some(at);
        self.outcome = Some(SetupOutcome::Established);
        (
            at.since(self.answered.unwrap_or(at)),
            self.answer_retransmissions == 0,
        )
    }

    /// Closes and tiles it; `None` when its SYN was not seen.
    pub(crate) fn conclude(&mut self, ends: (Endpoint, Endpoint)) -> Option<Self> {
        self.is_concluded = true;
        let begin = self.begin?;
        self.ends = Some(ends);
        let outcome = match (self.outcome, self.answered) {
            (Some(outcome), _) => outcome,
            (None, Some(_)) => SetupOutcome::Cut,
            (None, None) => SetupOutcome::Unanswered,
        };
        self.outcome = Some(outcome);
        let end = self.end.or(self.answered).unwrap_or(self.last_syn);
        self.end = Some(end);
        let mut push = |start: Timestamp, end: Timestamp, kind| {
            if end > start {
                let (owner, bound) = (Owner::Path, Bound::Observed);
                self.waits.push(Wait {
                    start,
                    end,
                    kind,
                    owner,
                    released_by: None,
                    bound,
                });
            }
        };
        push(begin, self.last_syn.min(end), WaitKind::Recovery);
        push(self.last_syn.max(begin), end, WaitKind::Connect);
        Some(self.clone())
    }

    /// What it took, with the TLS handshake behind it, once, if a request at
    /// `begin` has to bear it. Lost SYNs are not in it: they are a cause of
    /// their own.
    pub(crate) fn charge(
        &mut self,
        begin: Timestamp,
        handshake: Option<&Handshake>,
    ) -> Option<Duration> {
        let is_prompt =
            |from: Timestamp, to: Timestamp, trip: Duration| to.since(from) <= PROMPT.max(trip);
        let mut connected = self
            .end
            .filter(|_| !self.is_charged && self.outcome == Some(SetupOutcome::Established));
        self.is_charged |= connected.is_some();
        let trip = connected.map_or(Duration::ZERO, |end| end.since(self.last_syn));
        let Some(handshake) = handshake else {
            return connected
                .filter(|&end| is_prompt(end, begin, trip))
                .map(|_| trip);
        };
        connected = connected.filter(|&end| is_prompt(end, handshake.begin, trip));
        let from = connected.map_or(handshake.begin, |_| self.last_syn);
        // Nagle's algorithm may hold the request for the Finished's ACK.
        let trip = trip.max(handshake.round_trip.unwrap_or_default()) + PROMPT;
        is_prompt(handshake.end, begin, trip).then(|| begin.since(from))
    }

    /// From the first SYN to the end.
    pub(crate) fn duration(&self) -> Duration {
        match (self.begin, self.end) {
            (Some(begin), Some(end)) => end.since(begin),
            _ => Duration::ZERO,
        }
    }
}
