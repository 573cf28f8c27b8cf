//! Answers one at a time, at even distances: a limit, or a single worker.

use core::time::Duration;

use super::{Answers, quantile, sorted};
use crate::cause::evidence::human;
use crate::report::{Evidence, EvidenceKind};
use crate::timeline::Moment;

/// Answers to waiting requests that must be seen.
const LEAST_TURNS: usize = 10;
/// Share of all exchanges that must have waited while another was answered.
const WAITING: f64 = 0.6;
/// Part of the median by which a distance may differ.
pub(super) const STRAY: f64 = 0.15;
/// The same where other evidence says what it is.
pub(super) const LOOSE: f64 = 0.3;
/// Share of the distances that may not differ by more.
const EVEN: f64 = 0.8;
/// A distance shorter than this is no evidence: stamps and kernels stray.
const LEAST_TURN: Duration = Duration::from_millis(2);
/// An answer so much sooner than a turn came from a server that had only to
/// let it through.
const QUICK: f64 = 0.5;
/// How far a measured rate may be off a round one.
const ROUND: f64 = 0.015;
/// Share of all answers that keep their distance behind a limit, quick ones too.
const DISTANT: f64 = 0.95;

/// A server that answers one request after the other.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cause) struct Gate {
    /// From one answer to the next.
    pub(in crate::cause) turn: Duration,
    /// Answers that came a turn after the one before, of how many that waited.
    pub(in crate::cause) even: (usize, usize),
    /// The shortest wait that was seen.
    pub(in crate::cause) quickest: Duration,
}

impl Gate {
    /// Whether somebody would write its rate into a configuration.
    pub(super) fn is_configured(&self) -> bool {
        is_round(self.turn)
    }

    /// The even turns as evidence, with the packets that end some of the answers.
    pub(in crate::cause) fn evidence(&self, packets: &[u64]) -> Evidence {
        let (even, of) = self.even;
        let text = format!(
            "{even} of {of} answers to requests that waited side by side came {} after the one before",
            human(self.turn)
        );
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(even as u64)
            .packets(packets)
    }
}

/// Whether requests that wait side by side are answered in even turns, and
/// whether the server could answer sooner than in a turn: then it is a limit
/// that makes them wait (`true`), else its work. `None` too where a request
/// that met an idle server was never seen, for that alone tells the two apart.
pub(super) fn gate(all: &Answers, stray: f64) -> Option<(Gate, bool)> {
    let gate = even(all, stray)?;
    let answers = &all.by_answer;
    let pairs = || answers.iter().zip(answers.iter().skip(1));
    let part = |wait: Duration| wait.as_secs_f64() / gate.turn.as_secs_f64();
    if part(gate.quickest) <= QUICK {
        let distant = pairs().filter(|(a, b)| part(b.answered.since(a.answered)) >= 1.0 - stray);
        let is_limit = distant.count() as f64 >= (answers.len() - 1) as f64 * DISTANT;
        return is_limit.then_some((gate, true));
    }
    let met_idle = answers.first().into_iter().chain(
        pairs()
            .filter(|(before, next)| next.asked >= before.answered)
            .map(|(_, next)| next),
    );
    let mut alone = met_idle.map(Moment::think);
    let is_seen = alone.any(|think| (1.0 - stray..=1.0 + 2.0 * stray).contains(&part(think)));
    is_seen.then_some((gate, false))
}

/// The even turns in which requests that wait side by side are answered, for whatever reason.
pub(super) fn even(all: &Answers, stray: f64) -> Option<Gate> {
    let (clear, answers) = (&all.moments, &all.by_answer);
    let pairs = || answers.iter().zip(answers.iter().skip(1));
    let is_waiting = |(before, next): &(&Moment, &Moment)| {
        next.asked < before.answered && next.client != before.client
    };
    let gaps = pairs().filter(is_waiting);
    let turns = sorted(gaps.map(|(before, next)| next.answered.since(before.answered)));
    let turn = quantile(&turns, 0.5);
    let is_even = |gap: &&Duration| gap.abs_diff(turn).as_secs_f64() <= turn.as_secs_f64() * stray;
    let even = turns.iter().filter(is_even).count();
    let has_waiting = turns.len() >= LEAST_TURNS
        && turns.len() as f64 >= clear.len() as f64 * WAITING
        && turn >= LEAST_TURN;
    if !has_waiting || (even as f64) < turns.len() as f64 * EVEN || is_transfer(clear, turn) {
        return None;
    }
    let quickest = *all.thinks.first()?;
    Some(Gate {
        turn,
        even: (even, turns.len()),
        quickest,
    })
}

/// Whether this is a rate that people choose: a whole number of requests a second
/// or a minute, and a round one where it is large. What paces itself for another
/// reason hits one by chance only.
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

/// Whether the turns are the time that responses take on their way: then the
/// next one's first byte queues behind the bytes of this one.
fn is_transfer(clear: &[Moment], turn: Duration) -> bool {
    let transfers = clear.iter().map(|moment| moment.end.since(moment.answered));
    let transfers = sorted(transfers);
    // The travel is in it; it does not vary.
    let least = quantile(&transfers, 0.0);
    (quantile(&transfers, 0.5) - least) * 2 > turn
}
