//! The shape of unexplained time: how it is distributed over the requests.

use core::time::Duration;

use crate::cause::Case;
use crate::report::Shape;
use crate::service::timeline::Moment;
use crate::service::{Ledger, TimePlace};
use crate::stats::histogram::Distribution;

/// Minimum number of requests for a shape.
const LEAST: usize = 8;
/// Minimum ratio of the 10th to the 90th percentile of times that count as constant.
const CONSTANT: f64 = 0.6;
/// Maximum ratio of the mean to the median of times that count as constant. Above it, the slowest
/// tenth of the requests takes most of the time.
const EVEN_MEAN: f64 = 2.0;
/// The slowest [`FEW`] of the requests must take at least this share of the time for the shapes
/// `Rare`, `ByRequest` and `ByConnection`.
const MOST: f64 = 0.8;
/// Maximum share of the requests that count as few.
const FEW: f64 = 0.2;
/// Minimum factor by which the median grows from the first third of the requests to the last third.
const GROWTH: f64 = 2.0;
/// Maximum deviation of even intervals from their median, as a share of the median.
const EVEN: f64 = 0.15;
/// Minimum number of intervals for the shape `Periodic`.
const PERIODS: usize = 4;

/// Returns the shape of the unexplained time at `place`; `None` for fewer than [`LEAST`] requests.
pub(super) fn shape(case: &Case<'_>, ledger: &Ledger, place: TimePlace) -> Option<Shape> {
    let count = ledger.latency.all.count();
    if count < LEAST as u64 {
        return None;
    }
    let times = ledger.places.of(place);
    if is_constant(times, count) {
        return Some(Shape::Constant);
    }
    let seen: Vec<(&Moment, Duration)> = case
        .rhythm
        .moments
        .iter()
        .map(|moment| (moment, time_of(moment, place)))
        .collect();
    let of_moments = if seen.len() >= LEAST {
        special(&seen)
    } else {
        None
    };
    of_moments.or_else(|| Some(rare_or_spread(times, count)))
}

/// Returns the description of a shape, for the end of a clause.
pub(super) fn words(shape: Shape) -> &'static str {
    match shape {
        Shape::Constant => ", about the same in each",
        Shape::Spread => ", but the amount varies widely from request to request",
        Shape::Rare => ", but nearly all of it in a few requests",
        Shape::Growing => ", more and more as time went on",
        Shape::Periodic => ", at even intervals",
        Shape::ByRequest => ", mostly in requests for a few of the targets",
        Shape::ByConnection => ", mostly on a few of the connections",
    }
}

/// Returns the time that a request spent at `place`: the server's think time, or the rest of the
/// latency.
fn time_of(moment: &Moment, place: TimePlace) -> Duration {
    match place {
        TimePlace::Server => moment.think(),
        _ => moment.latency().saturating_sub(moment.think()),
    }
}

fn is_constant(times: &Distribution, count: u64) -> bool {
    let at = |share| times.quantile(share).unwrap_or_default().as_secs_f64();
    let mean = times.mean().unwrap_or_default().as_secs_f64();
    times.count() * 10 >= count * 9 && at(0.1) >= at(0.9) * CONSTANT && mean <= at(0.5) * EVEN_MEAN
}

fn rare_or_spread(times: &Distribution, count: u64) -> Shape {
    let few = (count as f64 * FEW) as u64;
    let all = times.sum_ns() as f64;
    let (mut taken, mut sum) = (0_u64, 0.0);
    for (time, of) in times.buckets().into_iter().rev() {
        let of = of.min(few.saturating_sub(taken));
        taken += of;
        sum += time as f64 * of as f64;
    }
    if sum >= all * MOST {
        Shape::Rare
    } else {
        Shape::Spread
    }
}

/// Returns a shape over time, or the shape by a property that requests have in common.
fn special(seen: &[(&Moment, Duration)]) -> Option<Shape> {
    if is_growing(seen) {
        return Some(Shape::Growing);
    }
    if is_periodic(seen) {
        return Some(Shape::Periodic);
    }
    if is_of_few(seen, |moment| moment.fingerprints.target) {
        return Some(Shape::ByRequest);
    }
    // If each connection carries a single request, a shape by connection means nothing.
    let has_more = seen.iter().any(|(moment, _)| moment.ordinal > 0);
    (has_more && is_of_few(seen, |moment| moment.client)).then_some(Shape::ByConnection)
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    if times.is_empty() {
        return Duration::ZERO;
    }
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    *median
}

fn is_growing(seen: &[(&Moment, Duration)]) -> bool {
    let third = seen.len() / 3;
    let part = |from: usize| {
        let part = seen.get(from..from + third).unwrap_or_default();
        median(part.iter().map(|(_, time)| *time)).as_secs_f64()
    };
    let [first, middle, last] = [part(0), part(third), part(seen.len() - third)];
    first > 0.0 && middle >= first && last >= middle && last >= first * GROWTH
}

/// Returns true if the long times begin at even intervals, and if only few requests have them.
fn is_periodic(seen: &[(&Moment, Duration)]) -> bool {
    let longest = seen.iter().map(|(_, time)| *time).max().unwrap_or_default();
    let late: Vec<&Moment> = seen
        .iter()
        .filter(|(_, time)| *time >= longest / 2)
        .map(|(moment, _)| *moment)
        .collect();
    if late.len() <= PERIODS || late.len() as f64 > seen.len() as f64 * FEW {
        return false;
    }
    let gaps = late.windows(2).filter_map(|pair| match pair {
        [a, b] => Some(b.begin.since(a.begin)),
        _ => None,
    });
    // Requests that met the same stall begin close together, and count once.
    let gaps: Vec<Duration> = gaps.filter(|gap| *gap > longest).collect();
    let typical = median(gaps.iter().copied()).as_secs_f64();
    let is_near = |gap: &&Duration| (gap.as_secs_f64() - typical).abs() <= typical * EVEN;
    gaps.len() >= PERIODS && gaps.iter().filter(is_near).count() * 10 >= gaps.len() * 9
}

/// Returns true if most of the time belongs to few values of `key`. A value that only one request
/// has does not count.
fn is_of_few<K: Ord + Copy>(seen: &[(&Moment, Duration)], key: impl Fn(&Moment) -> K) -> bool {
    let all: f64 = seen.iter().map(|(_, time)| time.as_secs_f64()).sum();
    let mut keyed: Vec<(K, Duration)> = seen
        .iter()
        .map(|(moment, time)| (key(moment), *time))
        .collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    let mut kinds = 0;
    let mut each: Vec<(usize, f64)> = Vec::new();
    for kind in keyed.chunk_by(|a, b| a.0 == b.0) {
        kinds += 1;
        if kind.len() > 1 {
            let time = kind.iter().map(|(_, time)| time.as_secs_f64()).sum();
            each.push((kind.len(), time));
        }
    }
    let rate = |(count, time): &(usize, f64)| time / (*count).max(1) as f64;
    each.sort_unstable_by(|a, b| rate(b).total_cmp(&rate(a)));
    let (mut count, mut time) = (0, 0.0);
    for of in &each {
        if count + of.0 > (seen.len() as f64 * FEW) as usize {
            break;
        }
        count += of.0;
        time += of.1;
    }
    kinds >= 3 && time >= all * MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether times are constant, if `late` of a hundred take a hundred times as long.
    fn is_alike(late: u64) -> bool {
        let mut times = Distribution::default();
        times.record_many(Duration::from_millis(2), 100 - late);
        times.record_many(Duration::from_millis(200), late);
        is_constant(&times, 100)
    }

    #[test]
    fn a_few_requests_that_take_most_of_the_time_are_not_alike() {
        assert!(is_alike(0));
        assert!(!is_alike(2));
        assert!(!is_alike(12));
    }
}
