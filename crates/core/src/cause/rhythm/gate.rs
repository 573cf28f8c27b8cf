//! Responses that come one at a time, at even intervals. The reason is a limit or a single worker.
//!
//! A *turn* is the interval from one response to the next.

use core::time::Duration;
use std::collections::BTreeSet;

use super::{Answers, quantile, sorted, thinks};
use crate::cause::evidence::human;
use crate::claim::Statement;
use crate::report::{EvidenceKind, counted};
use crate::service::timeline::{self, Moment};

/// Minimum number of responses to requests that waited.
const LEAST_TURNS: usize = 10;
/// Minimum share of the exchanges that waited while another was answered.
const WAITING: f64 = 0.6;
/// The deviation if nothing but the intervals shows the reason.
pub(super) const STRAY: Deviation = Deviation {
    share: 0.15,
    least: Duration::ZERO,
};
/// The deviation if other evidence shows the reason.
pub(super) const LOOSE: Deviation = Deviation {
    share: 0.3,
    least: Duration::ZERO,
};
/// The deviation if other evidence shows that a timer is the reason: timers have whole milliseconds,
/// and an interval of 3.5 ms becomes 3 or 4 ms.
pub(super) const TIMED: Deviation = Deviation {
    share: 0.3,
    least: Duration::from_micros(1_200),
};
/// Minimum share of the intervals that are within the maximum deviation.
const EVEN: f64 = 0.8;
/// Minimum interval that is evidence. Timestamps and kernels vary by less.
const LEAST_TURN: Duration = Duration::from_millis(2);
/// Maximum response time, as a part of the interval, that shows a limit: the server could answer
/// sooner.
const QUICK: f64 = 0.5;
/// Maximum relative deviation of a measured rate from a round number.
const ROUND: f64 = 0.015;
/// Minimum number of clients that wait for each other.
const LEAST_CLIENTS: usize = 3;
/// Minimum number of client addresses with the same limit.
const LEAST_LIMITED: usize = 2;
/// Maximum relative deviation of a round, in which each client is answered once, from one interval
/// per client.
const CLOSED: f64 = 0.1;
/// Minimum share of all responses, including quick ones, that are at least an interval apart if a
/// limit is the reason.
const DISTANT: f64 = 0.95;

/// The maximum deviation of an interval from the median.
#[derive(Clone, Copy)]
pub(super) struct Deviation {
    /// As a share of the median.
    share: f64,
    /// If the share is less than that.
    least: Duration,
}

impl Deviation {
    fn allows(self, gap: Duration, median: Duration) -> bool {
        gap.abs_diff(median) <= median.mul_f64(self.share).max(self.least)
    }
}

/// A server that answers one request after the other, at even intervals.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cause) struct Gate {
    /// The interval from one response to the next.
    pub(in crate::cause) turn: Duration,
    /// Number of responses that came one interval after the previous one, and number of responses
    /// to requests that waited.
    pub(in crate::cause) even: (usize, usize),
    /// The shortest think time.
    pub(in crate::cause) quickest: Duration,
    /// True if a request met the server idle. Only such a request distinguishes work from a limit.
    pub(in crate::cause) has_met_idle: bool,
}

impl Gate {
    /// Returns true if the rate is a round number, as in a configuration.
    pub(super) fn is_configured(&self) -> bool {
        is_round(self.turn)
    }

    /// Returns the number of responses per second.
    pub(in crate::cause) fn rate(&self) -> f64 {
        1.0 / self.turn.as_secs_f64()
    }

    /// Returns the even intervals as evidence of the kind `by`. `packets` are the last packets of
    /// some responses.
    pub(in crate::cause) fn evidence(&self, by: EvidenceKind, packets: &[u64]) -> Statement {
        let (even, of) = self.even;
        let text = format!(
            "{even} of {} to requests that waited in parallel came {} after the previous one",
            counted(of as u64, "answer", "answers"),
            human(self.turn),
        );
        Statement::shows(by, text)
            .count(even as u64)
            .packets(packets)
    }
}

/// Returns the even intervals at which waiting requests are answered. The second value is true for
/// a limit, because the server could answer sooner, and false for the server's work. `None` also if
/// no request met the server idle, because only such a request distinguishes the two (see
/// [`open`]).
pub(super) fn gate(all: &Answers, deviation: Deviation) -> Option<(Gate, bool)> {
    let gate = even(all, deviation)?;
    let stray = deviation.share;
    let answers = &all.by_answer;
    let pairs = || answers.iter().zip(answers.iter().skip(1));
    let part = |wait: Duration| wait.as_secs_f64() / gate.turn.as_secs_f64();
    if part(gate.quickest) <= QUICK {
        let distant = pairs().filter(|(a, b)| part(b.answered.since(a.answered)) >= 1.0 - stray);
        let is_limit = distant.count() as f64 >= (answers.len() - 1) as f64 * DISTANT;
        return is_limit.then_some((gate, true));
    }
    let first = answers.first().into_iter();
    let mut alone = first.chain(after_idle(answers)).map(Moment::think);
    let is_seen = alone.any(|think| (1.0 - stray..=1.0 + 2.0 * stray).contains(&part(think)));
    is_seen.then_some((gate, false))
}

/// Returns the intervals at which a limit lets the requests of each client address through, one after
/// the other, and the number of these addresses: at least two, and most of those with enough requests.
/// Together they show no rhythm.
pub(in crate::cause) fn of_each_client(clear: &[Moment]) -> Option<(Gate, usize)> {
    let mut by_host = clear.to_vec();
    by_host.sort_by_key(|moment| moment.client.addr);
    let hosts = by_host.chunk_by(|a, b| a.client.addr == b.client.addr);
    let hosts: Vec<&[Moment]> = hosts.filter(|host| host.len() >= LEAST_TURNS).collect();
    let limit = |host: &&[Moment]| {
        let (gate, is_limit) = gate(&Answers::new(host.to_vec(), thinks(host)), STRAY)?;
        (is_limit && gate.is_configured()).then_some(gate)
    };
    let limits: Vec<Gate> = hosts.iter().filter_map(limit).collect();
    let first = limits.first()?.clone();
    let is_same = |gate: &Gate| (gate.rate() / first.rate() - 1.0).abs() <= ROUND;
    let is_each = limits.len() >= LEAST_LIMITED && limits.len() * 2 > hosts.len();
    (is_each && limits.iter().all(is_same)).then_some((first, limits.len()))
}

/// Returns the even intervals if no request met the server idle, as in a capture that begins during
/// a load. The requests wait for each other; whether for work or for a limit is unknown.
///
/// Requests that arrive at even intervals and take the same time are answered at even intervals
/// too. Two conditions exclude this. Each client must send its next request as soon as it is
/// answered, so that the server sets the pace. And a round of all clients must take one interval
/// per client. Clients that merely started at even intervals keep them, but their round takes only
/// the server's time.
pub(super) fn open(all: &Answers, deviation: Deviation) -> Option<Gate> {
    let gate = even(all, deviation)?;
    let is_always_busy = after_idle(&all.by_answer).next().is_none();
    let is_quick =
        gate.quickest.as_secs_f64() <= gate.turn.as_secs_f64() * (1.0 + 2.0 * deviation.share);
    let is_queue = is_always_busy
        && !is_quick
        && !has_begun_slowly(&all.moments, gate.turn)
        && is_round_of_turns(&all.moments, gate.turn);
    is_queue.then_some(Gate {
        has_met_idle: false,
        ..gate
    })
}

/// Returns true if the capture contains the start of all connections, and the very first request took longer
/// than its turn: it met no other, and still took as long.
fn has_begun_slowly(moments: &[Moment], turn: Duration) -> bool {
    let mut clients = BTreeSet::new();
    let mut first = moments
        .iter()
        .filter(|moment| clients.insert(moment.client));
    let is_long = moments
        .first()
        .is_some_and(|first| first.think() > turn * 2);
    is_long && first.all(|moment| moment.setup.is_some())
}

/// Returns true if clients send immediately after each response, and if a round of all clients
/// takes one interval per client.
pub(super) fn is_round_of_turns(moments: &[Moment], turn: Duration) -> bool {
    let by_client = timeline::by_client(moments);
    let clients = by_client.chunk_by(|a, b| a.client == b.client).count();
    let rounds = by_client.iter().zip(by_client.iter().skip(1));
    let rounds: Vec<(Duration, Duration)> = rounds
        .filter(|(last, next)| last.client == next.client)
        .map(|(last, next)| (next.begin.since(last.end), next.asked.since(last.asked)))
        .collect();
    let at_once = turn.mul_f64(QUICK);
    let eager = rounds.iter().filter(|(idle, _)| *idle <= at_once).count();
    let round = quantile(&sorted(rounds.iter().map(|(_, round)| *round)), 0.5);
    let in_turns = turn.as_secs_f64() * clients as f64;
    clients >= LEAST_CLIENTS
        && rounds.len() >= clients
        && eager as f64 >= rounds.len() as f64 * DISTANT
        && (in_turns / round.as_secs_f64().max(f64::MIN_POSITIVE) - 1.0).abs() <= CLOSED
}

/// Returns the responses to requests that arrived after the previous response.
fn after_idle(answers: &[Moment]) -> impl Iterator<Item = &Moment> {
    let pairs = answers.iter().zip(answers.iter().skip(1));
    pairs
        .filter(|(before, next)| next.asked >= before.answered)
        .map(|(_, next)| next)
}

/// Returns the even intervals at which waiting requests are answered. The reason is a limit or the
/// server's work.
pub(super) fn even(all: &Answers, deviation: Deviation) -> Option<Gate> {
    let (clear, answers) = (&all.moments, &all.by_answer);
    let pairs = || answers.iter().zip(answers.iter().skip(1));
    let is_waiting = |(before, next): &(&Moment, &Moment)| {
        next.asked < before.answered && next.client != before.client
    };
    let gaps = pairs().filter(is_waiting);
    let turns = sorted(gaps.map(|(before, next)| next.answered.since(before.answered)));
    let median = quantile(&turns, 0.5);
    let even = turns.iter().filter(|gap| deviation.allows(**gap, median));
    let (even, sum) = even.fold((0, Duration::ZERO), |(n, sum), gap| (n + 1, sum + *gap));
    // Unlike the median, the mean of whole milliseconds is the interval that a rate demands.
    let turn = sum.checked_div(even).unwrap_or_default();
    let has_waiting = turns.len() >= LEAST_TURNS
        && turns.len() as f64 >= clear.len() as f64 * WAITING
        && turn >= LEAST_TURN;
    let is_even = f64::from(even) >= turns.len() as f64 * EVEN;
    if !has_waiting || !is_even || is_transfer(clear, turn) {
        return None;
    }
    let quickest = *all.thinks.first()?;
    Some(Gate {
        turn,
        even: (even as usize, turns.len()),
        quickest,
        has_met_idle: true,
    })
}

/// Returns true if people would configure this rate: a whole number of requests per second or
/// minute, and a round one if it is large. Other rates match only by chance.
fn is_round(turn: Duration) -> bool {
    let second = 1.0 / turn.as_secs_f64();
    let steps = [
        (second, 10.0, 1.0),
        (second, 50.0, 5.0),
        (second, 100.0, 10.0),
    ];
    let coarse = [(second, f64::INFINITY, 50.0), (second * 60.0, 60.0, 5.0)];
    steps.iter().chain(&coarse).any(|&(rate, up_to, step)| {
        let whole = (rate / step).round() * step;
        whole > 0.0 && whole <= up_to && (rate / whole - 1.0).abs() <= ROUND
    })
}

/// Returns true if the intervals are the transfer times of responses. Then each response only waits
/// until the bytes of the previous one are sent.
fn is_transfer(clear: &[Moment], turn: Duration) -> bool {
    let transfers = clear.iter().map(|moment| moment.end.since(moment.answered));
    let transfers = sorted(transfers);
    // All times include the time on the path, which does not vary.
    let least = quantile(&transfers, 0.0);
    (quantile(&transfers, 0.5) - least) * 2 > turn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::rhythm::clear;
    use crate::observed::flow::Endpoint;
    use crate::observed::time::Timestamp;

    const CLIENTS: u32 = 20;

    /// Returns the answers to clients that each wait for all others, at these times in microseconds.
    fn answers(times: impl Iterator<Item = u32>) -> Answers {
        let at = |micros: u32| Timestamp::from_nanos(1_000 * i64::from(micros));
        let times: Vec<u32> = times.collect();
        let asked = |n: usize| {
            n.checked_sub(CLIENTS as usize)
                .map_or(0, |last| times[last] + 50)
        };
        let moment = |(n, &answered): (usize, &u32)| {
            Moment::between(n as u16 % CLIENTS as u16, at(asked(n)), at(answered))
        };
        let moments = clear(&times.iter().enumerate().map(moment).collect::<Vec<_>>());
        let thinks = thinks(&moments);
        Answers::new(moments, thinks)
    }

    /// Returns requests of this client address, which come in uneven bursts and are answered every
    /// `turn` ms; `offset` ms after those of other addresses.
    fn limited(address: u8, turn: i64, offset: i64) -> impl Iterator<Item = Moment> {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        (0..40).map(move |n| {
            let answered = offset + n * turn;
            // Every eighth request meets no other.
            let waited = if n % 8 == 0 { 1 } else { turn * (n % 8) + 3 };
            let moment = Moment::between(n as u16, at(answered - waited), at(answered));
            Moment {
                client: Endpoint::new([10, 0, 0, address].into(), 40_000 + n as u16),
                ..moment
            }
        })
    }

    #[test]
    fn a_limit_of_each_client_is_seen_in_the_rhythm_of_each() {
        let of = |turns: &[i64]| {
            let each = turns.iter().zip(1_u8..);
            let all = each.flat_map(|(&turn, n)| limited(n, turn, i64::from(n) * 37));
            let mut all: Vec<Moment> = all.collect();
            all.sort_by_key(|moment| moment.begin);
            of_each_client(&all)
        };
        let (gate, clients) = of(&[100; 3]).expect("a limit");
        assert_eq!((gate.turn, clients), (Duration::from_millis(100), 3));
        assert_eq!(of(&[100]), None, "one client: a limit of the service");
        assert_eq!(of(&[100, 50]), None, "not the same");
        assert_eq!(of(&[97; 3]), None, "nobody configures this rate");
    }

    #[test]
    fn a_timer_of_whole_milliseconds_keeps_the_rate_and_not_the_interval() {
        for micros in [2_600_u32, 3_484, 5_450] {
            let ticks = answers((10..400).map(|n| (n * micros).div_ceil(1_000) * 1_000));
            assert!(even(&ticks, STRAY).is_none(), "{micros}");
            let gate = even(&ticks, TIMED).expect("even intervals").turn;
            let off = gate.as_secs_f64() / f64::from(micros) * 1e6;
            assert!((0.99..1.01).contains(&off), "{micros} {gate:?}");
            assert!(is_round_of_turns(&ticks.moments, gate));
        }
    }

    #[test]
    fn uneven_work_has_no_even_intervals() {
        for micros in [3_484, 10_300] {
            let work = |n: u32| n * micros + [0, 41, 73, 28, 55, 97][n as usize % 6] * micros / 75;
            assert!(even(&answers((10..400).map(work)), TIMED).is_none());
        }
    }
}
