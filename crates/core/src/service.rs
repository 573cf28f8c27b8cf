//! Figures of all exchanges with one server.

mod counts;
pub(crate) mod example;
pub(crate) mod far_names;
pub(crate) mod kernel_join;
pub(crate) mod latency_modes;
mod left;
mod places;
mod stretches;
pub(crate) mod tally;
pub(crate) mod tcp_handshakes;
pub(crate) mod timeline;
mod uploads;

use core::time::Duration;

use crate::attribution::rtt::LONGEST_PATH;
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::delivery::Limit;
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Outcome, Side, StreamSigns};
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::Unit;
use crate::service::example::Worst;
use crate::service::latency_modes::Bands;
use crate::service::tcp_handshakes::Handshakes;
use crate::stats::Merge;
use crate::stats::bounded::Least;
use crate::stats::histogram::Distribution;
pub(crate) use counts::{Counts, Shares};
pub(crate) use left::{LEAST_PATIENCE, Left};
pub(crate) use places::{Places, TimePlace};
pub(crate) use stretches::Stretches;
pub(crate) use uploads::Uploads;

/// Minimum number of messages that cross another one for both sides to count as sending at any
/// time: a single crossing message is the end of a connection, or chance.
const CROSSED: u64 = 2;
/// Minimum share of the exchanges, as one in this many, that must have crossing messages: a smaller
/// share is chance.
const CROSSED_PART: u64 = 10;

/// Maximum number of attempts kept that were not answered at once.
const MAX_LATE: usize = 256;

/// Figures of a service.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Ledger {
    /// The unit in which exchanges are counted.
    #[merge(max)]
    pub(crate) unit: Unit,
    pub(crate) counts: ExchangeCounts,
    /// Exchanges whose requests and responses may be paired wrongly, or whose server may be farther
    /// away than it seems.
    pub(crate) doubtful: DoubtfulCounts,
    /// Think times of the server before responses that the capture cuts off.
    pub(crate) broken_off: Distribution,
    pub(crate) latency: LatencyFigures,
    pub(crate) trips: LeastTrips,
    pub(crate) shares: WaitShares,
    pub(crate) places: Places,
    /// The time for which slow start stalls messages, whatever their senders do.
    pub(crate) slow_start: Duration,
    #[merge(span)]
    pub(crate) span: Option<(Timestamp, Timestamp)>,
    pub(crate) setups: SetupLedger,
    pub(crate) losses: LossCounts,
    /// Delays of ACKs that delayed nothing else.
    pub(crate) harmless_delays: Distribution,
    /// Fetches that a certificate's validity depends on.
    pub(crate) fetches: Stretches,
    /// Requests that filled a queue on the path to the server.
    pub(crate) uploads: Uploads,
}

/// Numbers of exchanges by their outcome.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct ExchangeCounts {
    /// Number of exchanges with a whole response.
    pub(crate) count: u64,
    pub(crate) errors: u64,
    /// Number of exchanges that their client left before the response was whole.
    pub(crate) timeouts: u64,
    left: Left,
    pub(crate) cut: u64,
    /// Number of requests on idle connections that turned out to be dead.
    pub(crate) stale: u64,
    /// Outcomes of exchanges, except of those cut by the capture.
    pub(crate) outcomes: Counts<Outcome>,
    pub(crate) streams: StreamCounts,
}

/// Numbers of exchanges that may be misread.
#[derive(Clone, Copy, Debug, Default, Merge)]
pub(crate) struct DoubtfulCounts {
    /// Number of exchanges of a protocol that cannot be parsed.
    pub(crate) unread: u64,
    /// Number of exchanges on connections of which too few bytes were captured to identify the
    /// protocol.
    pub(crate) unseen: u64,
    /// Number of exchanges whose server sent before it had received the request, or at any time.
    pub(crate) crossed: u64,
    /// Number of exchanges whose server is behind a device that acknowledges on its behalf.
    pub(crate) relayed: u64,
    /// Number of exchanges on TLS connections that use HTTP/2.
    pub(crate) hidden_streams: u64,
    /// Time of round trips to servers whose kernels were not heard, in nanoseconds. It may be time of
    /// their programs.
    pub(crate) assumed_trips: u64,
    /// Time of pauses after responses of which more may have followed, in nanoseconds.
    pub(crate) paused: u64,
}

/// Numbers of HTTP/2 streams.
#[derive(Clone, Copy, Debug, Default, Merge)]
pub(crate) struct StreamCounts {
    /// Number of requests on streams.
    pub(crate) read: u64,
    /// Number of requests that could not be read, because the capture lacks parts of frames.
    pub(crate) unread: u64,
    /// Number of requests that left right after another stream had ended, with as many streams open
    /// as the server allows; and the least such limit.
    pub(crate) at_limit: u64,
    #[merge(least)]
    pub(crate) limit: Option<u32>,
}

impl StreamCounts {
    fn add(&mut self, signs: &StreamSigns) {
        self.read += u64::from(signs.is_read);
        self.unread += u64::from(signs.unread_before);
        self.at_limit += u64::from(signs.waited_at_limit.is_some());
        self.limit = self.limit.into_iter().chain(signs.waited_at_limit).min();
    }
}

/// Figures of the exchanges' latency.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct LatencyFigures {
    pub(crate) all: Distribution,
    pub(crate) slowest: Worst,
    pub(crate) bands: Bands,
}

/// Minimum round trips between the ends.
#[derive(Clone, Copy, Debug, Default, Merge)]
pub(crate) struct LeastTrips {
    /// The minimum of handshakes without retransmissions.
    #[merge(least)]
    pub(crate) handshake: Option<Duration>,
    /// The minimum of the FINs of connections whose handshake was not seen.
    #[merge(least)]
    pub(crate) fin: Option<Duration>,
}

/// Time by wait and owner.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct WaitShares {
    /// The waits of exchanges.
    pub(crate) exchanges: Shares,
    /// The waits of TLS handshakes.
    pub(crate) secured: Shares,
    /// Waits for lookups that connections followed.
    pub(crate) resolving: Shares,
}

/// Numbers of losses.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct LossCounts {
    /// Number of losses repaired, by the side whose data was lost.
    pub(crate) repaired: Counts<Side>,
    /// Number of losses on connections that had carried an exchange before, whichever side's data
    /// was lost.
    pub(crate) later: u64,
}

/// Figures of connection setups.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct SetupLedger {
    pub(crate) count: u64,
    /// Number of attempts whose SYN was retransmitted and never answered.
    pub(crate) unheard: u64,
    /// The times for which established connections repeated their SYN or its answer.
    pub(crate) repeated: Distribution,
    pub(crate) outcomes: Counts<SetupOutcome>,
    pub(crate) latency: Distribution,
    pub(crate) waits: Shares,
    pub(crate) handshakes: Handshakes,
    /// The earliest attempts that were not answered at once.
    pub(crate) late: Least<LateAttempt, MAX_LATE>,
}

/// An attempt to connect that was not answered, or only after its SYN was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LateAttempt {
    pub(crate) begin: Timestamp,
    /// Time of the end of the handshake, or of its refusal; `None` if the attempt was given up.
    pub(crate) end: Option<Timestamp>,
    pub(crate) client: Endpoint,
    pub(crate) point: PointId,
}

impl LateAttempt {
    fn of(setup: &Setup) -> Option<Self> {
        let is_unanswered = setup.outcome == Some(SetupOutcome::Unanswered);
        let is_late = is_unanswered || setup.syns.retransmissions > 0;
        let (client, _) = setup.ends.filter(|_| is_late)?;
        Some(Self {
            begin: setup.begin?,
            end: setup.end.filter(|_| !is_unanswered),
            client,
            point: setup.point,
        })
    }
}

impl Ledger {
    pub(crate) fn add_exchange(&mut self, exchange: &Exchange) {
        let outcome = exchange.outcome;
        self.setups.handshakes.add_exchange(exchange);
        if let Some(handshake) = &exchange.connecting.handshake {
            self.shares.secured.add(&handshake.waits);
        }
        self.counts.stale += u64::from(exchange.is_stale());
        self.counts.streams.add(&exchange.signs.stream);
        if outcome == Outcome::Cut {
            self.counts.cut += 1;
            if let Some(thought) = exchange.signs.thought {
                self.broken_off.record(thought);
            }
            return;
        }
        self.counts.outcomes.add(outcome, 1);
        self.doubtful.unread += u64::from(exchange.signs.doubts.is_unread);
        self.doubtful.unseen += u64::from(exchange.signs.doubts.is_unseen);
        self.doubtful.crossed += u64::from(exchange.signs.doubts.is_crossed);
        self.doubtful.relayed += u64::from(exchange.signs.is_relayed);
        self.doubtful.paused += u64::from(exchange.signs.doubts.paused_us) * 1_000;
        self.doubtful.hidden_streams += u64::from(exchange.signs.stream.is_hidden);
        if !exchange.path.is_measured {
            let trips = nanos(exchange.waited(WaitKind::RoundTrip));
            self.doubtful.assumed_trips = self.doubtful.assumed_trips.saturating_add(trips);
        }
        self.extend_span(exchange.begin, exchange.end);
        self.counts.left.begin(exchange.begin);
        match outcome {
            Outcome::Complete(status) => {
                self.counts.count += 1;
                self.counts.errors += u64::from(status.is_some_and(|status| status >= 500));
            }
            // The connection was refused before any request, which therefore took no time.
            Outcome::Failed(_) if exchange.latency().is_zero() => {
                self.counts.errors += 1;
                return;
            }
            Outcome::Failed(_) | Outcome::Grpc(_) => {
                self.counts.count += 1;
                self.counts.errors += 1;
            }
            Outcome::TimedOut => {
                self.counts.timeouts += 1;
                self.counts.left.add(exchange.end, exchange.latency());
            }
            _ => {
                self.counts.errors += 1;
                return;
            }
        }
        let latency = exchange.latency();
        self.latency.all.record(latency);
        self.latency.bands.add_exchange(exchange);
        self.shares.exchanges.add(&exchange.waits);
        self.places.add_exchange(exchange);
        for delivery in &exchange.sending.deliveries {
            self.slow_start = self.slow_start.saturating_add(delivery.stalled.spared);
            if delivery.sender == Side::Client && delivery.limit == Limit::Bottleneck {
                self.uploads.add(exchange, delivery.stalled.drain);
            }
        }
        self.latency.slowest.offer(nanos(latency), exchange);
        for recovery in &exchange.loss.recoveries {
            self.losses.repaired.add(recovery.sender, 1);
            self.losses.later += u64::from(exchange.id.ordinal > 0);
        }
        if let Some(delay) = exchange.sending.harmless_delay {
            self.harmless_delays.record(delay);
        }
        if exchange.particulars.is_revocation {
            // The fetch's connection was made for this fetch.
            let before = exchange.connecting.setup.unwrap_or_default();
            let begin = exchange.begin - before;
            self.fetches
                .add(exchange.id.client.addr, begin, exchange.end);
        }
    }

    pub(crate) fn add_setup(&mut self, setup: &Setup) {
        self.setups.count += 1;
        let is_unheard =
            setup.outcome == Some(SetupOutcome::Unanswered) && setup.syns.retransmissions > 0;
        self.setups.unheard += u64::from(is_unheard);
        if let Some(outcome) = setup.outcome {
            self.setups.outcomes.add(outcome, 1);
        }
        if setup.outcome == Some(SetupOutcome::Established) {
            self.setups.latency.record(setup.duration());
            if let Some(took) = setup.took_again() {
                self.setups.repeated.record(took);
            }
            let clean = (setup.syns.retransmissions == 0).then(|| setup.duration());
            self.trips.handshake = self.trips.handshake.into_iter().chain(clean).min();
        }
        self.setups.waits.add(&setup.waits);
        if let Some(lookup) = setup.lookup() {
            let key = (WaitKind::Resolve, Owner::Resolver);
            self.shares.resolving.count(key, nanos(lookup.took));
        }
        self.setups.handshakes.add_setup(setup);
        if let Some(late) = LateAttempt::of(setup) {
            self.setups.late.add(late);
        }
    }

    /// Records the round trip shown by the end of a connection.
    pub(crate) fn add_fin_trip(&mut self, trip: Duration) {
        self.trips.fin = self.trips.fin.into_iter().chain([trip]).min();
    }

    fn extend_span(&mut self, begin: Timestamp, end: Timestamp) {
        self.span = Some(match self.span {
            Some((first, last)) => (first.min(begin), last.max(end)),
            None => (begin, end),
        });
    }

    /// Returns true if it cannot be determined which side owes a response: the protocol is not
    /// known, or both sides send at any time, so that apparent turns may not be responses.
    pub(crate) fn is_unowed(&self) -> bool {
        self.is_unread() || self.is_crossed()
    }

    /// Returns true if the protocol of most requests is not known.
    pub(crate) fn is_unread(&self) -> bool {
        self.doubtful.unread * 2 > self.uncut()
    }

    /// Returns true if both sides send at any time, so that turns overlap.
    pub(crate) fn is_crossed(&self) -> bool {
        self.doubtful.crossed >= CROSSED && self.doubtful.crossed * CROSSED_PART >= self.uncut()
    }

    /// Returns true if it cannot be determined which bytes form a message: no side owes a response,
    /// or too few bytes were captured.
    pub(crate) fn is_untold(&self) -> bool {
        self.is_unowed() || (self.doubtful.unread + self.doubtful.unseen) * 2 > self.uncut()
    }

    /// Returns true if a part of the path that is not visible may be behind the host that
    /// acknowledges: what looks like the server's time may be time on that part.
    pub(crate) fn is_relayed(&self) -> bool {
        self.doubtful.relayed * 2 > self.uncut()
    }

    /// Returns true if `wait` may be `trips` round trips on the part of the path behind a host that
    /// acknowledges in the server's name: handshakes, which go all the way, take as long. Without a
    /// handshake, any round trip of a path is possible.
    pub(crate) fn is_behind_relay(&self, wait: Duration, trips: u32) -> bool {
        let trip = self.trips.handshake.unwrap_or(LONGEST_PATH);
        self.is_relayed() && wait <= trip * trips + trip / 2
    }

    /// Returns the number of requests that failed because their client gave up.
    pub(crate) fn given_up(&self) -> u64 {
        self.counts.left.given_up(&self.latency.all)
    }

    /// Returns the number of exchanges that the capture did not cut.
    pub(crate) fn uncut(&self) -> u64 {
        self.counts.outcomes.sum()
    }

    /// Returns the number of exchanges that had a whole response.
    pub(crate) fn whole(&self) -> u64 {
        let outcomes = self.counts.outcomes.iter();
        let whole = outcomes.filter(|(outcome, _)| matches!(outcome, Outcome::Complete(_)));
        whole.map(|(_, count)| count).sum()
    }

    /// Returns true if any exchange was seen, whole or not.
    pub(crate) fn has_exchanges(&self) -> bool {
        self.counts.count + self.counts.errors + self.counts.timeouts > 0
    }

    /// Returns the sum of all exchanges' durations, in nanoseconds.
    pub(crate) fn total(&self) -> u64 {
        self.shares.exchanges.total()
    }

    /// Returns the time of all exchanges and of everything before them, in nanoseconds: lookups,
    /// handshakes and TLS handshakes.
    pub(crate) fn total_with_setup(&self) -> u64 {
        let before = [
            &self.setups.waits,
            &self.shares.secured,
            &self.shares.resolving,
        ];
        let before = before.into_iter().map(|shares| shares.total());
        before.fold(self.total(), u64::saturating_add)
    }

    /// Returns the whole exchanges per second while they ran; 0 for fewer than two.
    pub(crate) fn rate(&self) -> f64 {
        let Some((begin, end)) = self.span else {
            return 0.0;
        };
        let seconds = end.since(begin).as_secs_f64();
        if seconds > 0.0 && self.counts.count > 1 {
            self.counts.count as f64 / seconds
        } else {
            0.0
        }
    }
}
