//! Responses that leave on the grid of a server's own timer.

use core::time::Duration;

use super::{Answers, quantile, sorted};
use crate::observed::time::Timestamp;
use crate::service::timeline::Moment;

/// Maximum gap between two responses that leave at the same tick.
const TICK: Duration = Duration::from_millis(2);
/// Minimum period. It must be far longer than the variation of a tick; otherwise any times would
/// fit.
const LEAST_PERIOD: Duration = Duration::from_millis(10);
/// Minimum number of ticks.
const LEAST_TICKS: usize = 8;
/// Maximum deviation of a gap from a whole number of periods, as a share of the period. By chance,
/// a fifth of all gaps are within a tenth in either direction.
const STRAY: f64 = 0.1;
/// Minimum share of the gaps that are whole periods.
const ON_GRID: f64 = 0.9;

/// A timer that the responses show.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cause) struct Ticks {
    pub(in crate::cause) period: Duration,
    pub(in crate::cause) count: usize,
    /// Number of gaps between ticks that are whole periods, and number of all gaps.
    pub(in crate::cause) fitting: (usize, usize),
    /// The 10th, 50th and 90th percentile of the waits.
    pub(in crate::cause) spread: [Duration; 3],
}

/// Returns the server's timer. Responses must leave on a grid while requests arrive at any time, so
/// that the waits are spread evenly from zero to one period. A client's timer also causes a grid,
/// but its waits are equal, like those for a delayed ACK or for a server's own time.
pub(super) fn ticks(answers: &Answers) -> Option<Ticks> {
    let gaps = gaps(&answers.by_answer);
    if gaps.len() + 1 < LEAST_TICKS {
        return None;
    }
    let sorted = sorted(gaps.iter().copied());
    let guess = quantile(&sorted, 0.1);
    let alike: Vec<Duration> = sorted
        .iter()
        .filter(|gap| is_near(**gap, guess, STRAY))
        .copied()
        .collect();
    let period = alike.iter().sum::<Duration>() / u32::try_from(alike.len()).ok()?.max(1);
    if period < LEAST_PERIOD {
        return None;
    }
    let fitting = gaps.iter().filter(|gap| is_multiple(**gap, period)).count();
    let waits = &answers.thinks;
    let spread = [0.1, 0.5, 0.9].map(|share| quantile(waits, share));
    let is_grid = fitting as f64 >= gaps.len() as f64 * ON_GRID;
    let is_even = is_even(waits, period);
    (is_grid && is_even).then_some(Ticks {
        period,
        count: gaps.len() + 1,
        fitting: (fitting, gaps.len()),
        spread,
    })
}

/// Returns true if the waits are spread evenly from zero to one period, and none is longer.
fn is_even(waits: &[Duration], period: Duration) -> bool {
    let part = |share| quantile(waits, share).as_secs_f64() / period.as_secs_f64();
    part(0.1) <= 0.3
        && (0.25..=0.75).contains(&part(0.5))
        && part(0.9) >= 0.65
        && part(0.98) <= 1.0 + STRAY
}

/// Returns the gaps between successive ticks.
fn gaps(by_answer: &[Moment]) -> Vec<Duration> {
    let mut ticks: Vec<Timestamp> = Vec::new();
    for moment in by_answer {
        let is_same = ticks
            .last()
            .is_some_and(|&tick| moment.answered.since(tick) <= TICK);
        if !is_same {
            ticks.push(moment.answered);
        }
    }
    ticks
        .windows(2)
        .filter_map(|pair| Some(pair.get(1)?.since(*pair.first()?)))
        .collect()
}

fn is_near(value: Duration, to: Duration, share: f64) -> bool {
    value.abs_diff(to).as_secs_f64() <= to.as_secs_f64() * share
}

fn is_multiple(gap: Duration, period: Duration) -> bool {
    let turns = gap.as_secs_f64() / period.as_secs_f64();
    let whole = turns.round();
    whole >= 1.0 && (turns - whole).abs() <= STRAY
}
