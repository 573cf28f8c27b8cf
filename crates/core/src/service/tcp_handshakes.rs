//! All handshakes of one service. Together they show why SYNs are retransmitted.

use core::time::Duration;

use crate::connection::{Setup, SetupOutcome};
use crate::exchange::{Exchange, Side};
use crate::observed::segment::LINUX_TTL;
use crate::observed::time::Timestamp;
use crate::service::Ledger;
use crate::stats::Merge;

/// Maximum number of SYNs remembered: the earliest ones.
const MAX_TRIES: usize = 4096;
/// Minimum number of ignored SYNs for determining a threshold.
const IGNORED: usize = 3;
/// Minimum number of abandoned attempts for a flood.
const FLOOD: u64 = 100;
/// Minimum ratio of abandoned attempts to connections established, for a flood.
const FLOOD_RATIO: u64 = 10;
/// Minimum number of abandoned attempts per second, for a flood.
const FLOOD_RATE: f64 = 50.0;
/// Minimum number of connections whose first request was ignored for a cause other than loss.
const UNREAD: u64 = 2;
/// Minimum ratio of the connections whose first request was ignored to the losses elsewhere: losses
/// of the server's data, and losses on connections already in use. With a smaller ratio, loss may be
/// the cause.
const LOSS_RATIO: u64 = 4;
/// Maximum length of a first request that fits through any path (RFC 9293 §3.7.1), so that a path
/// MTU cannot be the reason that it is not acknowledged.
const SMALL: u32 = 1200;

/// Minimum number of copies of a first request that are not lost in a row by chance.
const MANY_REPEATS: u32 = 3;
/// Maximum delay of an acknowledgement.
const LONGEST_DELAYED_ACK: Duration = Duration::from_millis(500);
/// Minimum delay of a first response by which the server counts as stalled.
const STANDS: Duration = Duration::from_millis(50);
/// Minimum ratio of such a delay to the median.
const STANDS_RATIO: u32 = 5;
/// Maximum ratio of the overflows of accept queues to the ignored SYNs that they explain. Our own
/// probes, and retransmitted ACKs of handshakes, overflow a queue too.
const OVERFLOWS: u64 = 2;
/// Maximum probability that all ignored SYNs fall into the server's stalls by chance.
const CHANCE: f64 = 0.001;

/// The handshakes of one service.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::bound)]
pub(crate) struct Handshakes {
    #[merge(extend)]
    tries: Vec<Try>,
    /// Late first exchanges of connections.
    #[merge(extend)]
    late: Vec<(Timestamp, Timestamp)>,
    /// Number of connections whose small first request was retransmitted and not acknowledged.
    unread: u64,
    /// Number of these on which the server also still waited for the handshake's end.
    waited_for: u64,
    /// Times of SYNs that were neither answered nor retransmitted.
    #[merge(extend)]
    silent: Vec<Timestamp>,
    /// Number of attempts that consist of one SYN and, at most, its answer.
    unfinished: u64,
    established: u64,
    #[merge(span)]
    span: Option<(Timestamp, Timestamp)>,
}

/// A SYN, and the time until which its connection was half-open; `None` if the SYN was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Try {
    at: Timestamp,
    until: Option<Timestamp>,
}

/// The reason that SYNs of a service are retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyRepeated {
    /// The SYNs or their answers are lost.
    Loss,
    /// The table of half-open connections is full: SYNs are ignored while this many handshakes are
    /// in progress.
    SynQueue {
        /// Number of handshakes that can be in progress before SYNs are ignored.
        room: usize,
    },
    /// The accept queue is full.
    AcceptQueue,
    /// More SYNs arrive than any server could answer.
    Flood,
}

impl Handshakes {
    pub(crate) fn add_setup(&mut self, setup: &Setup) {
        let Some(begin) = setup.begin else { return };
        match setup.outcome {
            Some(SetupOutcome::Established) => self.established += 1,
            Some(SetupOutcome::Cut | SetupOutcome::Unanswered)
                if setup.syns.retransmissions == 0 =>
            {
                self.unfinished += 1;
                if setup.outcome == Some(SetupOutcome::Unanswered) && self.silent.len() < MAX_TRIES
                {
                    self.silent.push(begin);
                }
                self.span = Some(match self.span {
                    Some((first, last)) => (first.min(begin), last.max(begin)),
                    None => (begin, begin),
                });
            }
            _ => {}
        }
        self.unread += u64::from(is_unread(setup));
        self.waited_for += u64::from(is_waited_for(setup));
        if setup.opening.was_challenged || setup.opening.has_data || setup.is_answer_missed() {
            return;
        }
        let is_taken = setup.outcome == Some(SetupOutcome::Established);
        let syns = setup.syns.as_slice();
        for (index, &at) in syns.iter().enumerate() {
            let is_last = index + 1 == syns.len();
            let until = setup.end.filter(|_| is_last && is_taken);
            self.tries.push(Try { at, until });
        }
        if self.tries.len() >= 2 * MAX_TRIES {
            self.settle();
        }
    }

    /// Records an exchange: the first exchange of a connection shows whether a program accepted the
    /// connection.
    pub(crate) fn add_exchange(&mut self, exchange: &Exchange) {
        if exchange.id.ordinal == 0 && exchange.latency() >= STANDS {
            self.late.push((exchange.begin, exchange.end));
            if self.late.len() >= 2 * MAX_TRIES {
                self.settle();
            }
        }
    }

    /// Returns the number of abandoned attempts, and their rate per second.
    pub(crate) fn unfinished(&self) -> (u64, f64) {
        let seconds = self
            .span
            .map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
        let rate = if seconds > 0.0 {
            self.unfinished as f64 / seconds
        } else {
            0.0
        };
        (self.unfinished, rate)
    }

    /// Returns the number of SYNs, at most [`MAX_TRIES`], that had been waiting for an answer at
    /// `end` for `longest` or more, without being retransmitted.
    pub(crate) fn waiting(&self, end: Timestamp, longest: Duration) -> u64 {
        let waiting = |&&at: &&Timestamp| end.since(at) >= longest;
        self.silent.iter().filter(waiting).count() as u64
    }

    /// Returns the reason that SYNs are retransmitted; `overflows` is the number of connections that
    /// found an accept queue of the server's host full.
    pub(crate) fn why(&self, ledger: &Ledger, overflows: u64) -> WhyRepeated {
        // Sorting many SYNs is only worthwhile if some were ignored.
        let ignored = self
            .tries
            .iter()
            .filter(|each| each.until.is_none())
            .count();
        let tries = if ignored < IGNORED {
            Vec::new()
        } else {
            earliest(&self.tries)
        };
        let (unfinished, rate) = self.unfinished();
        // Losses on an open connection are due to the path, or to a host that responds late.
        let losses = ledger
            .losses
            .repaired
            .of(Side::Server)
            .max(ledger.losses.later);
        if unfinished >= FLOOD && unfinished >= self.established * FLOOD_RATIO && rate >= FLOOD_RATE
        {
            WhyRepeated::Flood
        } else if (self.unread >= UNREAD || self.waited_for > 0)
            && losses * LOSS_RATIO <= self.unread
            || (ignored > 0 && are_overflows(ignored as u64, overflows))
            || self.follows_standstill(&tries, ledger)
        {
            WhyRepeated::AcceptQueue
        } else if let Some(room) = room(&tries) {
            WhyRepeated::SynQueue { room }
        } else {
            WhyRepeated::Loss
        }
    }

    /// Returns true if SYNs are ignored only while the server is stalled, and answered at other
    /// times: the accept queue fills up during a stall.
    fn follows_standstill(&self, tries: &[Try], ledger: &Ledger) -> bool {
        if tries.is_empty() {
            return false;
        }
        let median = ledger.latency.all.quantile(0.5).unwrap_or_default();
        let long = STANDS.max(median * STANDS_RATIO);
        let mut stands = earliest(&self.late);
        stands.retain(|(begin, end)| end.since(*begin) >= long);
        stands.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            kept.1 = if overlaps { kept.1.max(next.1) } else { kept.1 };
            overlaps
        });
        let is_within = |each: &&Try| {
            let after = stands.partition_point(|(begin, _)| *begin <= each.at);
            let last = after.checked_sub(1).and_then(|index| stands.get(index));
            last.is_some_and(|(_, end)| each.at <= *end)
        };
        let of = |is_taken: bool| {
            let tries = || tries.iter().filter(|each| each.until.is_some() == is_taken);
            (tries().count(), tries().filter(is_within).count())
        };
        let ((taken, taken_within), (ignored, ignored_within)) = (of(true), of(false));
        let share = taken_within as f64 / taken.max(1) as f64;
        let chance = share.powi(i32::try_from(ignored).unwrap_or(i32::MAX));
        ignored >= IGNORED && ignored_within == ignored && chance <= CHANCE
    }

    /// Keeps the earliest of each list, which those of several shards may be too long for.
    fn bound(&mut self) {
        if self.tries.len().max(self.late.len()) >= 2 * MAX_TRIES {
            self.settle();
        }
        if self.silent.len() > MAX_TRIES {
            self.silent = earliest(&self.silent);
        }
    }

    fn settle(&mut self) {
        self.tries = earliest(&self.tries);
        self.late = earliest(&self.late);
    }
}

/// Returns true if so many ignored SYNs may be all overflows that the kernel counted. It counts each,
/// for all listeners of the host together, so many more are those of another listener.
fn are_overflows(ignored: u64, overflows: u64) -> bool {
    (ignored..=ignored.saturating_mul(OVERFLOWS)).contains(&overflows)
}

/// Returns the number of handshakes that can be in progress, if SYNs are ignored exactly while that
/// many are.
fn room(tries: &[Try]) -> Option<usize> {
    let mut open: Vec<Timestamp> = Vec::new();
    let (mut taken, mut ignored) = (Vec::new(), Vec::new());
    for each in tries {
        open.retain(|until| *until > each.at);
        match each.until {
            Some(until) => {
                taken.push(open.len());
                open.push(until);
            }
            None => ignored.push(open.len()),
        }
    }
    let (most, least) = (*taken.iter().max()?, *ignored.iter().min()?);
    (ignored.len() >= IGNORED && least > most).then_some(least)
}

/// Returns the earliest items, in order.
fn earliest<T: Ord + Copy>(list: &[T]) -> Vec<T> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.truncate(MAX_TRIES);
    sorted
}

/// Returns true if the client considered the connection open but the server did not: the client's
/// first data was ignored, not even acknowledged.
pub(crate) fn is_unread(setup: &Setup) -> bool {
    let after = &setup.aftermath;
    setup.outcome == Some(SetupOutcome::Established)
        && after.request_repeats > 0
        && after.request_len <= SMALL
        && !is_late_ack(setup)
        && !is_unheard(setup)
        && is_alive(setup)
}

/// Returns true if the server ignored the client's ACK and several copies of its first data, and
/// repeated its SYN/ACK instead. On the path, all of these would have to be lost in a row.
fn is_waited_for(setup: &Setup) -> bool {
    let after = &setup.aftermath;
    is_unread(setup) && after.answer_repeats > 0 && after.request_repeats >= MANY_REPEATS
}

/// Returns true if the first data may have arrived the first time: it was retransmitted once,
/// sooner than a kernel has to acknowledge it (RFC 9293 §3.8.6.3), and then acknowledged
/// immediately, as a duplicate is. Linux acknowledges the first data immediately
/// (`tcp_enter_quickack_mode()`).
fn is_late_ack(setup: &Setup) -> bool {
    let after = &setup.aftermath;
    let waited = after
        .request
        .map_or(Duration::ZERO, |first| after.last_request.since(first));
    let may_delay = setup.answer.ttl.is_none_or(|ttl| ttl > LINUX_TTL);
    let is_once = after.request_repeats == 1 && after.answer_repeats == 0;
    may_delay && is_once && waited < LONGEST_DELAYED_ACK
}

/// Returns true if the server's program had the connection but did not receive the client's data:
/// it closed the accepted connection without acknowledging the data.
fn is_unheard(setup: &Setup) -> bool {
    setup.aftermath.is_left
}

/// Returns true if the server, which had sent nothing but its SYN/ACK, showed later that it still
/// knew the half-open connection: it repeated the SYN/ACK, or took the connection. Otherwise the
/// host or the path may have failed.
fn is_alive(setup: &Setup) -> bool {
    let after = &setup.aftermath;
    !after.spoke_early && (after.answer_repeats > 0 || after.spoke.is_some())
}

/// Returns true if the connection's SYN had to be retransmitted, without a reason in the SYN
/// itself, and not only because answers came late.
pub(crate) fn is_repeated(setup: &Setup) -> bool {
    setup.outcome == Some(SetupOutcome::Established)
        && setup.syns.retransmissions > 0
        && !setup.opening.has_data
        && !setup.opening.was_challenged
        && !setup.is_each_answer_acked()
}

/// Returns the time that a connection lost until its first request was accepted: retransmitted SYNs
/// and retransmitted requests.
pub(crate) fn lost_until_taken(setup: &Setup) -> Duration {
    let after = &setup.aftermath;
    let repeated = after
        .request
        .map_or(Duration::ZERO, |first| after.last_request.since(first));
    setup.repeated_for() + repeated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn silent_from(first: i64) -> Handshakes {
        let times = first..first + MAX_TRIES as i64;
        Handshakes {
            silent: times.map(at).collect(),
            ..Handshakes::default()
        }
    }

    #[test]
    fn the_earliest_of_all_shards_silent_attempts_are_kept() {
        let mut all = silent_from(MAX_TRIES as i64);
        all.merge(silent_from(0));
        // The later half has only begun then.
        let end = at(MAX_TRIES as i64);
        let waiting = all.waiting(end, Duration::from_secs(1));
        assert_eq!(waiting, MAX_TRIES as u64);
    }
}
