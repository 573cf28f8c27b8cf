//! Responses that their program limits to a rate of bytes per second.
//!
//! The program stops in mid-response with everything acknowledged, and goes on when the bytes sent
//! by then are due at a constant rate, however many those were; a pause for work lasts as long as
//! the work.

use core::time::Duration;

use super::evidence::{self, fix, median, percent, ruled_out};
use super::{Case, Conclusion, Id};
use crate::exchange::delivery::{Delivery, Pause};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Side};
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::service::tally::{Cost, Tally};
use crate::stats::histogram::Distribution;

/// Minimum pause that counts: shorter ones are ordinary work.
const NOTABLE: Duration = Duration::from_millis(20);
/// Minimum number of segments before a pause: fewer are an event, not a part of a bulk.
const LEAST_SEGMENTS: u64 = 2;
/// Relative deviation allowed for a constant rate: nginx wakes by the millisecond
/// (`ngx_http_limit_rate`), so a rate is exact.
const OFF_RATE: f64 = 0.03;
/// The factor by which the bytes from one pause to the next must differ: else a constant time looks
/// the same.
const DIFFERENT: f64 = 1.1;

/// The eighths of the round-trip time between which a pause is about that long.
const TRIP: core::ops::RangeInclusive<u32> = 7..=9;

/// Watches pauses that keep to a rate.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteRate {
    pauses: Tally,
    /// Bytes per second, as nanoseconds.
    rates: Distribution,
    /// Bytes from one pause to the next, as nanoseconds.
    sent: Distribution,
}

impl ByteRate {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let deliveries = exchange.deliveries.iter();
        for delivery in deliveries.filter(|delivery| delivery.sender == Side::Server) {
            self.observe_pauses(exchange, delivery);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.pauses.merge(other.pauses);
        self.rates.absorb(other.rates);
        self.sent.absorb(other.sent);
    }

    pub(super) fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let matters =
            evidence::is_material(case, &self.pauses) && self.pauses.affected >= evidence::REPEATS;
        match self.rate().filter(|_| matters) {
            Some(rate) => Conclusion::Finding(Box::new(self.finding(case, rate))),
            None => Conclusion::Nothing,
        }
    }

    fn observe_pauses(&mut self, exchange: &Exchange, delivery: &Delivery) {
        let least = LEAST_SEGMENTS * u64::from(delivery.mss);
        let pauses = delivery.pauses.iter();
        let (mut paused, mut before) = (Duration::ZERO, 0);
        for pause in pauses.filter(|pause| pause.took >= NOTABLE) {
            let part = pause.after.saturating_sub(before);
            before = pause.after;
            if part < least || is_trip(pause, delivery.round_trip) {
                continue;
            }
            let rate = pause.after as f64 / pause.until.as_secs_f64();
            self.rates.record(Duration::from_nanos(rate as u64));
            self.sent.record(Duration::from_nanos(part));
            paused += pause.took;
        }
        if !paused.is_zero() {
            self.pauses
                .add(exchange, Cost::exactly(paused), Duration::ZERO);
        }
    }

    /// Returns the rate in bytes per second, where the pauses keep to one.
    fn rate(&self) -> Option<f64> {
        let bytes = |of: &Distribution, part| of.quantile(part).map(|d| d.as_nanos() as f64);
        let rate = bytes(&self.rates, 0.5)?;
        let (low, high) = (bytes(&self.rates, 0.1)?, bytes(&self.rates, 0.9)?);
        let is_constant = low >= rate * (1.0 - OFF_RATE) && high <= rate * (1.0 + OFF_RATE);
        // As many as keep to the rate: the few that differ may be those that do not.
        let (least, most) = (bytes(&self.sent, 0.1)?, bytes(&self.sent, 0.9)?);
        (is_constant && most >= least * DIFFERENT).then_some(rate)
    }

    fn finding(&self, case: &Case<'_>, rate: f64) -> Finding {
        let mut finding = evidence::finding(Id::RateLimit, Owner::Server, case, &self.pauses);
        let rate = format!("{:.1} kB/s", rate / 1000.0);
        let text = format!(
            "{} responses stopped with everything acknowledged, and each resumed when the bytes \
             sent so far were due at {rate}, however many those were",
            self.pauses.affected
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(self.pauses.affected)
                .median(&self.pauses.saved),
        );
        finding.verdict = evidence::judge(&finding.evidence, self.pauses.affected, false);
        finding.summary = format!(
            "The server holds each response to {rate}: it stops for {} (median), {} of all request \
             time, although neither the path nor a window requires it.",
            median(&self.pauses.saved),
            percent(finding.share)
        );
        finding.ruled_out.push(ruled_out(
            Id::BandwidthLimit,
            "what was sent came through immediately and was acknowledged before each stop",
        ));
        finding.overturned_by =
            "a server configuration without a rate limit, or pauses that match the work the server \
             does"
                .to_owned();
        finding.fix = vec![
            fix(
                "server",
                "nginx: limit_rate 0; or limit_rate_after; HAProxy: bwlim filters",
            ),
            fix(
                "server",
                "look for X-Accel-Limit-Rate in the application's responses",
            ),
        ];
        finding
    }
}

/// Returns true if an acknowledgement ended the pause about a round trip after it began: the data
/// before it may have been all that its sender's kernel let go.
fn is_trip(pause: &Pause, round_trip: Duration) -> bool {
    let (least, most) = (*TRIP.start(), *TRIP.end());
    pause.meets_ack && pause.took * 8 >= round_trip * least && pause.took * 8 <= round_trip * most
}
