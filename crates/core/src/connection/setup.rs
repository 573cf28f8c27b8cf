//! The setup of a connection, and its time.

use core::time::Duration;

use crate::exchange::Side;
use crate::exchange::tls_handshake::Handshake;
use crate::exchange::wait::{Bound, Owner, Wait, WaitKind};
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::packet::PacketRange;
use crate::observed::segment::{Segment, SentBy, TcpFlags};
use crate::observed::side::PerSide;
use crate::observed::time::Timestamp;
use crate::preconnect::{Approach, Lookup};
use crate::protocol::greeting::Greeting;

/// Maximum time from the handshake's end to a request that is charged with the handshake's cost.
const PROMPT: Duration = Duration::from_millis(5);
/// Minimum time until a SYN or SYN/ACK is retransmitted: what comes sooner is a copy made by the
/// capture. (`tcp_rto_min_us` allows 200 ms and more.)
const SOONEST_REPEAT: Duration = Duration::from_millis(150);
/// Maximum round trip from the observation point to an end for the point to count as being at that
/// end.
const BESIDE: Duration = Duration::from_millis(1);
/// The observation point counts as being at an end if the round trip to the other end is at least
/// this many times the round trip to this one.
const NEARER: u32 = 8;
/// Maximum number of SYN times kept. Linux 6.5 and later sends up to eleven (`tcp_syn_retries`,
/// `tcp_syn_linear_timeouts`).
const MAX_SYNS: usize = 8;

/// A TCP handshake, whose time is divided into waits like that of an exchange, and the segments
/// right after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) point: PointId,
    /// The two ends, the connecting one first; `None` before the setup is concluded.
    pub(crate) ends: Option<(Endpoint, Endpoint)>,
    /// Time of the first SYN.
    pub(crate) begin: Option<Timestamp>,
    /// Time of the handshake's end: the client's ACK, the RST, or the last SYN seen.
    pub(crate) end: Option<Timestamp>,
    /// Outcome of the handshake.
    pub(crate) outcome: Option<SetupOutcome>,
    /// Waits that tile the handshake.
    pub(crate) waits: Vec<Wait>,
    pub(crate) syns: Syns,
    pub(crate) answer: SynAnswer,
    pub(crate) opening: Opening,
    pub(crate) aftermath: Aftermath,
    pub(crate) icmp_rejection: Option<IcmpRejection>,
    /// The steps before the SYN.
    pub(crate) approach: Option<Box<Approach>>,
    /// True if a SYN was retransmitted after its answer: later segments may answer either SYN.
    is_blurred: bool,
    is_concluded: bool,
    /// True if an exchange has been charged with the setup's cost.
    is_charged: bool,
}

/// The SYNs of a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Syns {
    /// Times of the first SYNs, and of the last one.
    at: [Timestamp; MAX_SYNS],
    /// Number of valid entries in `at`.
    count: u8,
    /// Number of retransmitted SYNs.
    pub(crate) retransmissions: u32,
    /// The first and the last SYN.
    pub(crate) packets: PacketRange,
}

/// The answer to a SYN: a SYN/ACK or a RST.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SynAnswer {
    /// Time of the first answer.
    at: Option<Timestamp>,
    /// Time of the last answer before the client's ACK.
    last: Timestamp,
    /// Number of SYN/ACKs, however soon after each other, up to 255.
    count: u8,
    /// Number of SYN/ACKs retransmitted before the client's ACK.
    retransmissions: u32,
    /// Time to live of the first answer.
    pub(crate) ttl: Option<u8>,
    /// True if the observing host sent it.
    is_own: bool,
}

/// The ICMP error "unreachable" sent in reply to a SYN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IcmpRejection {
    /// The reason, as on the wire.
    pub(crate) code: u8,
    /// The number of its packet.
    pub(crate) number: u64,
    /// True if the server itself sent it, and not a router.
    pub(crate) is_by_host: bool,
}

/// The options of the SYN and of its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    /// True if the first SYN carried data (TCP Fast Open, RFC 7413).
    pub(crate) has_data: bool,
    /// True if the SYN offered SACK and window scaling.
    offers_options: bool,
    /// True if the SYN/ACK accepted neither SACK nor window scaling nor timestamps.
    is_bare_answer: bool,
    /// True if the server answered the SYN with an ACK of other bytes (RFC 9293 §3.10.7.3).
    pub(crate) was_challenged: bool,
    /// True if the client answered that ACK with a reset.
    pub(crate) is_challenge_reset: bool,
}

/// The segments between the client's ACK and the server's first segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aftermath {
    /// Time of the client's first data.
    pub(crate) request: Option<Timestamp>,
    pub(crate) request_len: u32,
    /// Time of the last transmission of that data.
    pub(crate) last_request: Timestamp,
    pub(crate) request_repeats: u32,
    /// Number of SYN/ACKs retransmitted after the client's ACK.
    pub(crate) answer_repeats: u32,
    /// Time of the last retransmitted SYN/ACK, before or after the client's ACK; `None` as long as
    /// there was only one SYN/ACK.
    pub(crate) last_answer: Option<Timestamp>,
    /// Number of the client's ACKs without data, up to 255.
    bare_acks: u8,
    /// Time of the server's first segment, and true if it had data.
    pub(crate) spoke: Option<(Timestamp, bool)>,
    /// True if that segment was a FIN and nothing else.
    pub(crate) is_left: bool,
    /// True if the server sent data or a FIN even before the client's ACK.
    pub(crate) spoke_early: bool,
    /// The server's unsolicited greeting, and its packet.
    pub(crate) greeting: Option<(Greeting, u64)>,
}

/// The outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SetupOutcome {
    /// The handshake is done.
    Established,
    /// The SYN was answered by a reset.
    Refused,
    /// The SYN was not answered while it was watched.
    Unanswered,
    /// The SYN was answered, but the handshake was not finished while it was watched.
    Cut,
}

impl Syns {
    fn push(&mut self, at: Timestamp) {
        if usize::from(self.count) < MAX_SYNS {
            self.count += 1;
        }
        // Only the last one may be answered.
        if let Some(slot) = self.at.get_mut(usize::from(self.count) - 1) {
            *slot = at;
        }
    }

    /// Returns the time of the last SYN before the handshake's end.
    fn last(&self) -> Timestamp {
        self.as_slice().last().copied().unwrap_or_default()
    }

    pub(crate) fn as_slice(&self) -> &[Timestamp] {
        self.at.get(..usize::from(self.count)).unwrap_or_default()
    }
}

impl Opening {
    /// Returns true if the answer is a SYN cookie: without timestamps, a cookie has room for the
    /// MSS only (`cookie_v4_init_sequence()` in `net/ipv4/syncookies.c`).
    pub(crate) fn is_cookie(&self) -> bool {
        self.offers_options && self.is_bare_answer
    }
}

impl Setup {
    /// Returns true if an observation point at the server saw the first SYN and no answer to it. The
    /// point is on the server's host, or next to it: the path between the two is short, so the
    /// handshake's time is that of the path to the client.
    pub(crate) fn was_ignored(&self) -> bool {
        let (Some(answered), Some(end)) = (self.answer.at, self.end) else {
            return false;
        };
        let (near, far) = (answered.since(self.syns.last()), end.since(answered));
        let is_there = self.answer.is_own || is_beside(near, far);
        self.syns.retransmissions > 0 && !self.is_blurred && is_there
    }

    /// Returns true if the client retransmitted its SYN although an answer to it had passed the
    /// observation point.
    pub(crate) fn is_answer_missed(&self) -> bool {
        self.syns.retransmissions > 0 && self.is_blurred && !self.opening.was_challenged
    }

    /// Returns true if an observation point next to the client saw the answer that the client
    /// missed.
    pub(crate) fn is_missed_by_client(&self) -> bool {
        let (Some(answered), Some(end)) = (self.answer.at, self.end) else {
            return false;
        };
        let syns = self.syns.as_slice().iter();
        let asked = syns.copied().filter(|at| *at <= answered).max();
        let far = asked.map_or(Duration::ZERO, |at| answered.since(at));
        self.is_answer_missed() && is_beside(end.since(self.answer.last), far)
    }

    /// Returns true if the client acknowledged as many answers as the server sent: none was lost,
    /// and the SYNs were retransmitted because answers came late.
    pub(crate) fn is_each_answer_acked(&self) -> bool {
        self.is_answer_missed() && self.aftermath.bare_acks >= self.answer.count
    }

    /// Returns the end or the path at which SYNs or their answers stayed.
    fn holder(&self) -> Owner {
        if self.was_ignored() {
            Owner::Server
        } else if self.is_missed_by_client() {
            Owner::Client
        } else {
            Owner::Path
        }
    }

    /// Returns true for a side that sent its SYN or SYN/ACK more than once: its initial congestion
    /// window may then be one segment.
    pub(crate) fn repeated_syn(&self) -> PerSide<bool> {
        PerSide {
            client: self.syns.retransmissions > 0,
            server: self.answer.count > 1,
        }
    }

    /// Returns the lookup before the connection.
    pub(crate) fn lookup(&self) -> Option<&Lookup> {
        self.approach.as_ref()?.lookup.as_ref()
    }

    /// Takes in a SYN.
    pub(crate) fn request(&mut self, syn: &Segment) {
        let at = syn.at;
        if self.begin.is_none() {
            self.begin = Some(at);
            self.point = syn.point;
            self.syns.packets.first = syn.number;
            self.opening.has_data = syn.payload_len > 0;
            self.opening.offers_options =
                syn.options.window_scale.is_some() && syn.options.sack_permitted;
        } else if self.outcome.is_some() || !self.is_repeat(at) {
            return;
        } else if !self.opening.was_challenged {
            self.syns.retransmissions += 1;
        }
        self.is_blurred |= self.answer.at.is_some();
        self.syns.push(at);
        self.syns.packets.last = syn.number;
    }

    /// Records the steps before the first SYN, which was seen at `at`.
    pub(crate) fn follows(&mut self, approach: Box<Approach>, at: Timestamp) {
        if self.begin == Some(at) && self.approach.is_none() {
            self.approach = Some(approach);
        }
    }

    /// Takes in a SYN/ACK.
    pub(crate) fn answer(&mut self, answer: &Segment) {
        self.answer.count = self.answer.count.saturating_add(1);
        if self.outcome.is_none() {
            self.answer.last = answer.at;
        }
        let Some(before) = self.answer.at else {
            self.answer.at = Some(answer.at);
            self.answer.ttl = Some(answer.ip.ttl);
            self.answer.is_own = answer.ip.sent_by == SentBy::ThisHost;
            let options = &answer.options;
            self.opening.is_bare_answer = options.window_scale.is_none()
                && !options.sack_permitted
                && options.timestamps.is_none();
            return;
        };
        let last = self.aftermath.last_answer.unwrap_or(before);
        if answer.at.since(last.max(before)) < SOONEST_REPEAT {
            return;
        }
        self.aftermath.last_answer = Some(answer.at);
        if self.outcome.is_some() {
            self.aftermath.answer_repeats += 1;
        } else {
            self.answer.retransmissions += 1;
        }
    }

    /// Records that the server answers the SYN with an ACK of other bytes.
    pub(crate) fn challenge(&mut self) {
        self.opening.was_challenged = true;
    }

    /// Records that the client resets the connection that the server remembers.
    pub(crate) fn reset_challenge(&mut self) {
        self.opening.is_challenge_reset = true;
    }

    /// Takes in a reset instead of a SYN/ACK.
    pub(crate) fn refuse(&mut self, at: Timestamp, ttl: u8) {
        if self.answer.at.is_none() {
            self.answer.at = Some(at);
            self.answer.ttl = Some(ttl);
            self.end = Some(at);
            self.outcome = Some(SetupOutcome::Refused);
        }
    }

    /// Records that a router, or the host itself, rejected the SYN with an ICMP error.
    pub(crate) fn turn_down(&mut self, rejection: IcmpRejection) {
        if self.answer.at.is_none() && self.begin.is_some() {
            self.icmp_rejection.get_or_insert(rejection);
        }
    }

    /// Returns the time from the SYN to the SYN/ACK, unless a retransmission makes it ambiguous.
    pub(crate) fn answered_within(&self) -> Option<Duration> {
        let is_blurred = self.syns.retransmissions > 0 || self.opening.was_challenged;
        let answered = self.answer.at.filter(|_| !is_blurred)?;
        Some(answered.since(self.begin?))
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answer.at.is_some() && self.outcome.is_none()
    }

    /// Returns true if the SYN is waiting for its answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.begin.is_some() && self.answer.at.is_none() && self.outcome.is_none()
    }

    /// Returns true if the handshake has begun but was not concluded.
    pub(crate) fn is_open(&self) -> bool {
        (self.begin.is_some() || self.answer.at.is_some()) && !self.is_concluded
    }

    /// Returns true if the handshake is done and the server has not sent anything since.
    pub(crate) fn is_followed(&self) -> bool {
        self.outcome == Some(SetupOutcome::Established) && !self.is_concluded
    }

    /// Returns true if both ends were seen to complete the handshake.
    pub(crate) fn is_made(&self) -> bool {
        let is_asked = self.begin.is_some() && self.answer.at.is_some();
        is_asked && self.outcome == Some(SetupOutcome::Established)
    }

    /// Takes in a segment of the server between its SYN/ACK and the client's ACK.
    pub(crate) fn speak(&mut self, segment: &Segment) {
        self.aftermath.spoke_early |= segment.sequence_len() > 0;
    }

    /// Takes in the client's ACK; returns the time since the SYN/ACK, and true if that measures the
    /// path (nothing was retransmitted).
    pub(crate) fn establish(&mut self, at: Timestamp) -> (Duration, bool) {
        self.end = Some(at);
        self.outcome = Some(SetupOutcome::Established);
        let is_clean = self.answer.retransmissions == 0 && !self.is_blurred;
        (at.since(self.answer.at.unwrap_or(at)), is_clean)
    }

    /// Follows the segments right after the handshake; returns true when that phase is over.
    pub(crate) fn follow(&mut self, segment: &Segment, payload: &[u8], by: Side) -> bool {
        let after = &mut self.aftermath;
        if by == Side::Server {
            let greeting = Greeting::of(payload).filter(|_| after.request.is_none());
            after.greeting = greeting.map(|greeting| (greeting, segment.number));
            after.spoke = Some((segment.at, segment.payload_len > 0));
            after.is_left = segment.payload_len == 0 && segment.flags.contains(TcpFlags::FIN);
            return true;
        }
        let is_bare = segment.sequence_len() == 0;
        after.bare_acks = after.bare_acks.saturating_add(u8::from(is_bare));
        if segment.payload_len > 0 {
            match after.request {
                None => {
                    after.request = Some(segment.at);
                    after.request_len = segment.payload_len;
                    after.last_request = segment.at;
                }
                Some(_) if segment.at.since(after.last_request) >= SOONEST_REPEAT => {
                    after.request_repeats += 1;
                    after.last_request = segment.at;
                }
                Some(_) => {}
            }
        }
        false
    }

    /// Closes and tiles the handshake; `None` if its SYN was not seen.
    pub(crate) fn conclude(&mut self, ends: (Endpoint, Endpoint)) -> Option<Self> {
        self.is_concluded = true;
        let begin = self.begin?;
        self.ends = Some(ends);
        let outcome = match (self.outcome, self.answer.at) {
            (Some(outcome), _) => outcome,
            (None, Some(_)) => SetupOutcome::Cut,
            (None, None) => SetupOutcome::Unanswered,
        };
        self.outcome = Some(outcome);
        let end = self.end.or(self.answer.at).unwrap_or(self.syns.last());
        self.end = Some(end);
        let holder = self.holder();
        let mut push = |start: Timestamp, end: Timestamp, kind, owner| {
            if end > start {
                let bound = Bound::Observed;
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
        push(begin, self.syns.last().min(end), WaitKind::Recovery, holder);
        push(
            self.syns.last().max(begin),
            end,
            WaitKind::Connect,
            Owner::Path,
        );
        let waits = core::mem::take(&mut self.waits);
        Some(Self {
            waits,
            ..self.clone()
        })
    }

    /// Returns the setup time, including the TLS handshake or the server's greeting after it, if a request at `begin` has to
    /// be charged with it; does so only once. Lost SYNs and SYN/ACKs are excluded, because they are
    /// a cause of their own.
    pub(crate) fn charge(
        &mut self,
        begin: Timestamp,
        handshake: Option<&Handshake>,
    ) -> Option<Duration> {
        let is_prompt =
            |from: Timestamp, to: Timestamp, trip: Duration| to.since(from) <= PROMPT.max(trip);
        // The duration of a handshake whose SYN was not captured is unknown.
        let is_whole = self.begin.is_some() && self.outcome == Some(SetupOutcome::Established);
        let mut connected = self.end.filter(|_| !self.is_charged && is_whole);
        self.is_charged |= connected.is_some();
        let asked = self.syns.last() + self.answer_repeated_for();
        let trip = connected.map_or(Duration::ZERO, |end| end.since(asked));
        let Some(handshake) = handshake else {
            // A client that waits for a greeting sends its first request after it. If the server takes
            // long for it, that is a cause of its own.
            let spoke = self.aftermath.spoke.map(|(spoke, _)| spoke);
            let spoke = spoke.filter(|_| self.aftermath.greeting.is_some());
            let greeted = |end: Timestamp| spoke.filter(|at| at.since(end) <= trip + PROMPT);
            let ready = connected.map(|end| greeted(end).unwrap_or(end));
            let ready = ready.filter(|&at| is_prompt(at, begin, trip));
            return ready.zip(connected).map(|(at, end)| trip + at.since(end));
        };
        connected = connected.filter(|&end| is_prompt(end, handshake.begin, trip));
        let from = connected.map_or(handshake.begin, |_| asked);
        // Nagle's algorithm may hold the request for the Finished's ACK.
        let trip = trip.max(handshake.round_trip.unwrap_or_default()) + PROMPT;
        is_prompt(handshake.end, begin, trip).then(|| begin.since(from))
    }

    /// Returns the time after the last SYN until its SYN/ACK was sent for the last time.
    fn answer_repeated_for(&self) -> Duration {
        let first = self.answer.at.filter(|&first| first >= self.syns.last());
        first.map_or(Duration::ZERO, |first| self.answer.last.since(first))
    }

    /// Returns the server's greeting, the time beyond the round trip for which the connected client
    /// waited for it, and the number of its packet. `None` if there was no greeting, or if a
    /// segment of the handshake was lost.
    pub(crate) fn greeted(&self) -> Option<(Greeting, Duration, u64)> {
        let (greeting, packet) = self.aftermath.greeting?;
        let (spoke, _) = self.aftermath.spoke?;
        let is_clean = self.aftermath.answer_repeats == 0 && self.answer.retransmissions == 0;
        let propagation = self.answered_within().filter(|_| is_clean)?;
        let waited = spoke.since(self.end?).saturating_sub(propagation);
        Some((greeting, waited, packet))
    }

    /// Returns the time from the first SYN to the end.
    pub(crate) fn duration(&self) -> Duration {
        match (self.begin, self.end) {
            (Some(begin), Some(end)) => end.since(begin),
            _ => Duration::ZERO,
        }
    }

    /// Returns the time from the first SYN to the last.
    pub(crate) fn repeated_for(&self) -> Duration {
        self.begin
            .map_or(Duration::ZERO, |begin| self.syns.last().since(begin))
    }

    /// Returns the time from the first SYN to the last SYN or SYN/ACK, if one of them had to be
    /// retransmitted.
    pub(crate) fn took_again(&self) -> Option<Duration> {
        let is_again = self.syns.retransmissions > 0 || self.aftermath.last_answer.is_some();
        let last = self.aftermath.last_answer.unwrap_or(self.syns.last());
        let begin = self.begin.filter(|_| is_again)?;
        Some(last.max(self.syns.last()).since(begin))
    }

    /// Returns true if a SYN is a retransmission and not a duplicate of the previous one.
    fn is_repeat(&self, at: Timestamp) -> bool {
        self.opening.was_challenged || at.since(self.syns.last()) >= SOONEST_REPEAT
    }
}

/// Returns true if an observation point is next to one end: `near` is its round trip to that end,
/// and `far` the round trip to the other.
fn is_beside(near: Duration, far: Duration) -> bool {
    near <= BESIDE && far >= BESIDE && near.saturating_mul(NEARER) <= far
}
