//! Comparison of the part of a load whose packets were captured with the rest of the load.
//!
//! Packets explain the whole load only if requests took about as long in both parts. A listen queue
//! that overflows now and then, or a job that runs once a minute, may not affect the captured part.

use core::time::Duration;

use super::Observations;
use crate::facts::Facts;
use crate::observed::event::TargetId;
use crate::registry::Id;
use crate::report::{CapturedPart, Finding, Layer, LayerState, LoadRun};
use crate::stats::histogram::Distribution;

/// Minimum number of requests in each part for a comparison.
const MIN_REQUESTS: u64 = 30;
/// The two parts differ if the excess of the rest over the captured part is at least this share of
/// the rest's request time.
const MAX_EXCESS_SHARE: f64 = 0.25;
/// Like [`MAX_EXCESS_SHARE`], on a host that is short of processors, where the wait for one varies
/// more.
const MAX_EXCESS_SHARE_BUSY: f64 = 0.5;
/// A smaller mean excess per request does not matter: a server varies by this much from one second
/// to the next.
const SMALL_EXCESS: Duration = Duration::from_micros(200);
/// The layers that packets alone can clear.
const FROM_PACKETS: [&str; 4] = ["connection", "tls", "transport", "server"];

/// Returns the captured part of the subject's baseline; `None` without packets, or if one of the
/// parts has too few requests.
pub(super) fn captured_part(evidence: &Observations, findings: &[Finding]) -> Option<CapturedPart> {
    evidence.capture.as_ref()?;
    let facts = &evidence.facts;
    let rest = &facts.loads.unobserved_baseline(TargetId::Subject)?.latency;
    let captured = &facts.loads.observed_baseline(TargetId::Subject)?.latency;
    if rest.count() < MIN_REQUESTS || captured.count() < MIN_REQUESTS {
        return None;
    }
    let mean = captured.mean()?;
    let excess = excess(rest, captured).saturating_sub(explained(facts, findings).as_nanos());
    let share = excess as f64 / rest.sum_ns().max(1) as f64;
    let most = if facts.loads.lacks_processors() {
        MAX_EXCESS_SHARE_BUSY
    } else {
        MAX_EXCESS_SHARE
    };
    let is_small = excess / u128::from(rest.count()) < SMALL_EXCESS.as_nanos();
    Some(CapturedPart {
        responses: captured.count(),
        mean_ns: nanos(mean),
        longest_ns: nanos(captured.max()?),
        excess_share: share,
        differs: share >= most && !is_small && !is_standstill(facts, rest, captured),
    })
}

/// Returns the time, in nanoseconds, by which the requests of `rest` took longer than as many
/// captured ones.
///
/// Capturing slows down quick requests a little, which would hide long requests in a comparison of
/// all. Therefore only the requests above a limit are compared, for several limits; the largest
/// difference counts.
fn excess(rest: &Distribution, captured: &Distribution) -> u128 {
    let median = captured.quantile(0.5).unwrap_or_default();
    let differences = [0, 4, 16, 64].map(|times| {
        let limit = nanos(median.saturating_mul(times));
        let usual = time_above(captured, limit).saturating_mul(rest.count().into());
        let usual = usual / u128::from(captured.count().max(1));
        time_above(rest, limit).saturating_sub(usual)
    });
    differences.into_iter().max().unwrap_or_default()
}

/// Returns the total time, in nanoseconds, of the requests that took longer than `limit`
/// nanoseconds.
fn time_above(requests: &Distribution, limit: u64) -> u128 {
    let buckets = requests.buckets().into_iter();
    let long = buckets.filter(|&(value, _)| value > limit);
    long.map(|(value, count)| u128::from(value) * u128::from(count))
        .sum()
}

/// Returns the wait time in the rest of the load that a finding explains: the stalls of the whole
/// server.
fn explained(facts: &Facts, findings: &[Finding]) -> Duration {
    if !findings
        .iter()
        .any(|finding| finding.cause == Id::StopTheWorld)
    {
        return Duration::ZERO;
    }
    let silences = facts.loads.silences.iter();
    let waits = silences.map(|silence| silence.end.since(silence.begin) * silence.connections);
    waits.sum()
}

/// Returns true if this host itself stood still for about as long as the longest request of the
/// rest took.
fn is_standstill(facts: &Facts, rest: &Distribution, captured: &Distribution) -> bool {
    let longest = rest.max().unwrap_or_default();
    let more = longest.saturating_sub(captured.max().unwrap_or_default());
    let standstill = facts.loads.standstill.unwrap_or_default();
    !more.is_zero() && standstill >= more / 2
}

/// Sets layers that packets cleared to not measured, if the packets do not explain the whole load.
pub(super) fn doubt(load: Option<&LoadRun>, layers: &mut [Layer]) {
    let part = load.and_then(|load| load.captured_part);
    if !part.is_some_and(|part| part.differs) {
        return;
    }
    let from_packets = |layer: &&mut Layer| FROM_PACKETS.contains(&layer.layer.as_str());
    for layer in layers.iter_mut().filter(from_packets) {
        if layer.state == LayerState::Cleared {
            layer.state = LayerState::NotMeasured;
            layer
                .line
                .push_str(", in the captured part of the load only");
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
