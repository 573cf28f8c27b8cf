//! Construction of claims, their materiality, and what their removal would save.

use core::time::Duration;

use super::{Case, Cause, Id};
use crate::claim::Claim;
pub(crate) use crate::claim::REPEATS;
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::event::{ProbeAnswer, ProbeMethod, TargetId};
use crate::observed::time::nanos;
pub(crate) use crate::report::share as percent;
use crate::report::{Affected, Exemplar, Figures, PredictedLatency, Prediction, RuledOut};
use crate::service::tally::{Cost, Tally};
use crate::stats::curve::curve_between;
use crate::stats::histogram::Distribution;

/// Minimum share of requests, calls or streams that fail for a claim on them.
pub(super) const FAILING_SHARE: f64 = 0.01;
/// The time that a program's ordinary work takes between two steps. A wait for a program counts from
/// this length on.
pub(crate) const ORDINARY_WORK: Duration = Duration::from_millis(5);
/// Minimum share of the mean or the p99 that removing a cause must save for a claim.
pub(crate) const MATERIAL_SHARE: f64 = 0.05;
/// Minimum time that removing a cause must save of the mean or the p99, in addition to
/// [`MATERIAL_SHARE`].
pub(crate) const MATERIAL_TIME: Duration = Duration::from_millis(1);
/// Minimum share by which a predicted percentile must be below the measured one. Reports print
/// three digits, which do not show a smaller change.
const VISIBLE: f64 = 0.01;
/// Minimum round trip for which a higher throughput is predicted. On a shorter one, the time is mostly
/// the hosts' work, and a higher rate makes more of it.
const LEAST_PATH: Duration = Duration::from_millis(1);
/// Minimum ratio of the time that fewer than half of the requests lose to the median of all, if they
/// are a class of their own.
const OUTSTANDING: u32 = 3;
/// Minimum number of distinct times at which a delay must occur. Otherwise a host that stalled once
/// may be the reason.
pub(crate) const OCCASIONS: u64 = 3;

/// Returns true if removing the time in `tally` would improve the latency by a material share and
/// time.
pub(crate) fn is_material(case: &Case<'_>, tally: &Tally) -> bool {
    let without = || tally.without(&case.ledger.latency.all);
    tally.affected > 0 && case.latency.is_bettered_by(Measures::of(&without()))
}

/// Returns true if `tally` has enough exchanges to exclude chance. In a small sample, a single
/// outlier is the p99.
pub(crate) fn is_repeated(case: &Case<'_>, tally: &Tally) -> bool {
    tally.affected >= REPEATS || is_common(case, tally)
}

/// Returns true if `tally` has enough exchanges at enough distinct times. A host that stalls once
/// delays all of its open exchanges.
pub(crate) fn recurs(case: &Case<'_>, tally: &Tally) -> bool {
    let has_occasions = || tally.occasions() >= OCCASIONS;
    is_common(case, tally) || (is_repeated(case, tally) && has_occasions())
}

/// Returns true if the delays fall on so few occasions that the path may only have stalled a few
/// times. Packets that are under way at one time are not independent of each other.
pub(super) fn is_stall(late: &Tally) -> bool {
    late.occasions() < OCCASIONS
}

/// Returns true if most requests lose the time in `tally`, or if those that do stand out. The slowest
/// of requests that all take about the same time are no class of their own.
pub(super) fn stands_out(case: &Case<'_>, tally: &Tally) -> bool {
    let lost = tally.saved.quantile(0.5).unwrap_or_default();
    is_common(case, tally) || lost >= case.rhythm.ordinary * OUTSTANDING
}

fn is_common(case: &Case<'_>, tally: &Tally) -> bool {
    tally.affected * 2 >= case.ledger.counts.count
}

/// Returns true if `after` is shorter than `before` by a material share and time.
pub(crate) fn betters(before: &Distribution, after: &Distribution) -> bool {
    Measures::of(before).is_bettered_by(Measures::of(after))
}

/// The figures by which an improvement is judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measures {
    mean: Duration,
    p99: Duration,
}

impl Measures {
    pub(crate) fn of(latencies: &Distribution) -> Self {
        Self {
            mean: latencies.mean().unwrap_or_default(),
            p99: latencies.quantile(0.99).unwrap_or_default(),
        }
    }

    fn is_bettered_by(self, after: Self) -> bool {
        let is_material = |before: Duration, after: Duration| {
            let saved = before.saturating_sub(after);
            saved >= MATERIAL_TIME && saved.as_secs_f64() >= before.as_secs_f64() * MATERIAL_SHARE
        };
        is_material(self.mean, after.mean) || is_material(self.p99, after.p99)
    }
}

/// Returns a claim with the cost and the exchanges of `tally`. It has no evidence yet.
pub(crate) fn claim(id: Id, culprit: Owner, case: &Case<'_>, tally: &Tally) -> Claim {
    let after = tally.without(&case.ledger.latency.all);
    let mut claim = Claim::blank(id, culprit, case.endpoint);
    claim.time.cost = Cost {
        low: case.weigh(tally.cost.low),
        likely: case.weigh(tally.cost.likely),
        high: case.weigh(tally.cost.high),
    };
    claim.time.wall_ns = tally.wall();
    claim.time.whole_ns = case.weigh(case.ledger.total());
    let all = (&case.ledger.latency.all, &after);
    claim.time.predicted = prediction(case, id, all, spared(case, tally));
    claim.affected = Affected {
        exchanges: case.weigh(tally.affected),
        of: case.weigh(case.ledger.counts.count.max(tally.affected)),
    };
    claim.unit = case.ledger.unit;
    claim.exemplars = tally.exemplars();
    claim
}

/// Returns a claim on requests or connections that did not become exchanges.
pub(crate) fn bare_claim(id: Id, culprit: Owner, case: &Case<'_>) -> Claim {
    let mut claim = claim(id, culprit, case, &Tally::default());
    claim.time.predicted = None;
    claim
}

/// Returns the latency that is expected at the measured rate if the requests take `after` instead
/// of `before`. `spared` is the quickest request that the cause did not delay. `None` if the time may be
/// necessary work, or if no percentile improves visibly.
pub(crate) fn prediction(
    case: &Case<'_>,
    id: Id,
    (before, after): (&Distribution, &Distribution),
    spared: Option<Duration>,
) -> Option<Prediction> {
    let cause = id.cause();
    // If the time was lost in connection setup, the request's latency does not include it and
    // cannot improve.
    if cause.may_be_work || after.sum_ns() >= before.sum_ns() {
        return None;
    }
    let (was, then) = (Figures::from(before), Figures::from(after));
    let transit = Transit::of(case);
    let halfway = Duration::from_nanos(was.mean.midpoint(then.mean));
    let floor = nanos(floor(case, cause, transit, (halfway, spared)));
    // A request that was already quicker than the floor keeps its time.
    let bounded = |then: u64, was: u64| then.max(floor).min(was);
    let measured = PredictedLatency {
        p50: was.p50,
        p99: was.p99,
    };
    let latency = PredictedLatency {
        p50: bounded(then.p50, was.p50),
        p99: bounded(then.p99, was.p99),
    };
    let is_better = |then: u64, was: u64| then < was && (was - then) as f64 >= was as f64 * VISIBLE;
    if !is_better(latency.p50, was.p50) && !is_better(latency.p99, was.p99) {
        return None;
    }
    // The rate from our own timestamps already includes all requests.
    let each_for = if case.has_packets { case.weight } else { 1.0 };
    let rate = case.ledger.rate() * each_for;
    // Little's law: the same number of requests is in flight, and each takes less time. The path lets
    // more requests pass as quickly. How many more the hosts carry was not measured, so nothing is
    // promised if what remains is mostly their time.
    let outside = nanos(transit.outside);
    let turn = |mean: u64| mean.saturating_add(outside);
    let rest = turn(bounded(then.mean, was.mean));
    let on_path = transit.within + transit.outside;
    let is_bounded = on_path >= LEAST_PATH && nanos(on_path).saturating_mul(2) >= rest;
    let closed_loop = (is_bounded && rate > 0.0).then(|| {
        let faster = turn(was.mean) as f64 / rest.max(1) as f64;
        (rate, rate * faster)
    });
    Some(Prediction {
        at_rate: rate,
        latency_ns: latency,
        measured_ns: Some(measured),
        closed_loop_rate: closed_loop,
        curve: curve_between(floor, after, before),
        outside_ns: outside,
    })
}

/// Returns the minimum time of a request. It is the request's time on the path or, for causes on
/// the server, the latency of a single request to the idle server; without such a request, that of
/// the quickest one of our own load, or of the quickest one that the cause did not meet (`spared`). A
/// request that took longer than `halfway` from what is measured to what is predicted has met the
/// cause itself, and shows no minimum.
fn floor(
    case: &Case<'_>,
    cause: &Cause,
    transit: Transit,
    (halfway, spared): (Duration, Option<Duration>),
) -> Duration {
    if !cause.waits.contains(&WaitKind::ServerThink) {
        return transit.within;
    }
    let alone = case.target.and_then(|_| idle_latency(case));
    let quickest = || case.target.and(case.ledger.latency.all.min());
    let least = alone.or_else(quickest).or(spared);
    let is_free = |least: &Duration| *least <= halfway;
    transit
        .within
        .max(least.filter(is_free).unwrap_or_default())
}

/// Returns the latency of the quickest request, if the cause delayed neither it nor the next ones.
fn spared(case: &Case<'_>, tally: &Tally) -> Option<Duration> {
    let all = &case.ledger.latency.all;
    let several = all.quantile(REPEATS as f64 / all.count().max(1) as f64)?;
    let delayed = tally.before.min();
    let are_spared = delayed.is_none_or(|delayed| several < delayed);
    all.min().filter(|_| are_spared)
}

/// Returns the median time of our own requests to the idle server.
pub(crate) fn idle_latency(case: &Case<'_>) -> Option<Duration> {
    // If the server closes each connection, there is no probe on a kept-alive one.
    let kept_alive = alone(case, ProbeMethod::HttpKeptAlive);
    let alone = kept_alive.or_else(|| alone(case, ProbeMethod::HttpFresh))?;
    alone.quantile(0.5)
}

/// Returns the times of our own requests to the idle server; `None` if some had no response.
pub(crate) fn alone<'a>(case: &Case<'a>, method: ProbeMethod) -> Option<&'a Distribution> {
    let probes = case
        .facts
        .probes_of(case.target.unwrap_or(TargetId::Subject), method, false)?;
    let mut answers = probes.answers.keys();
    let is_whole = answers.all(|answer| matches!(answer, ProbeAnswer::Status(_)));
    is_whole.then_some(&probes.rtt)
}

/// The minimum round trip between the ends, split into its parts within and outside the exchanges.
/// A capture at the server begins when the request arrives, so nearly all of the round trip is
/// outside.
#[derive(Clone, Copy)]
struct Transit {
    within: Duration,
    outside: Duration,
}

impl Transit {
    fn of(case: &Case<'_>) -> Self {
        // A path with a sleeping radio or with losses delays handshakes too, so an exchange may
        // show a shorter round trip.
        let trips = case.round_trip().into_iter();
        let least = trips.chain(case.gathered.trips.least()).min();
        let least = least.unwrap_or_default();
        let ledger = case.ledger;
        let mean =
            ledger.shares.exchanges.of(WaitKind::RoundTrip) / ledger.latency.all.count().max(1);
        let within = least.min(Duration::from_nanos(mean));
        Self {
            within,
            outside: least - within,
        }
    }
}

/// Returns each example's last packet, with which its response ended.
pub(crate) fn answers(exemplars: &[Exemplar]) -> Vec<u64> {
    exemplars
        .iter()
        .filter_map(|exemplar| exemplar.last_packet)
        .collect()
}

pub(crate) fn ruled_out(cause: Id, because: impl Into<String>) -> RuledOut {
    RuledOut {
        cause,
        because: because.into(),
    }
}

/// Formats a duration for a sentence, with three significant digits.
pub(crate) fn human(duration: Duration) -> String {
    if duration.is_zero() {
        return "0 µs".to_owned();
    }
    let seconds = duration.as_secs_f64();
    let (value, unit) = if seconds >= 1.0 {
        (seconds, "s")
    } else if seconds >= 1e-3 {
        (seconds * 1e3, "ms")
    } else {
        (seconds * 1e6, "µs")
    };
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}

/// Formats the median of a distribution for a sentence.
pub(crate) fn median(of: &Distribution) -> String {
    human(of.quantile(0.5).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_must_be_material_in_share_and_in_time() {
        let all_at = |micros: u64| {
            let mut latencies = Distribution::default();
            latencies.record_many(Duration::from_micros(micros), 100);
            latencies
        };
        assert!(betters(&all_at(44_000), &all_at(1_000)));
        assert!(!betters(&all_at(900), &all_at(10)), "too little time");
        assert!(
            !betters(&all_at(100_000), &all_at(97_000)),
            "too small a share"
        );
    }

    #[test]
    fn durations_read_well() {
        let cases = [
            (43_620_000, "43.6 ms"),
            (212_000, "212 µs"),
            (1_204_000_000, "1.20 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(human(Duration::from_nanos(nanos)), text);
        }
    }
}
