//! Responses that the server's program limits to a number of bytes per second.
//!
//! The program stops in the middle of a response with everything acknowledged, and continues when
//! the bytes sent so far are due at a constant rate, however many bytes that is. A pause for work
//! lasts as long as the work instead.

use core::time::Duration;

use super::evidence::{self, fix, median, percent, ruled_out};
use super::{Case, Conclusion, Id};
use crate::exchange::delivery::{Delivery, Pause};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Side};
use crate::report::{Evidence, EvidenceKind, Finding, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::histogram::Distribution;

/// Minimum pause that counts: shorter ones are ordinary work.
const NOTABLE: Duration = Duration::from_millis(20);
/// Minimum number of segments before a pause: fewer are a single event, not part of a bulk
/// transfer.
const LEAST_SEGMENTS: u64 = 2;
/// Maximum relative deviation from a constant rate. It is small because nginx wakes with
/// millisecond precision (`ngx_http_limit_rate`).
const OFF_RATE: f64 = 0.03;
/// Minimum ratio of the largest to the smallest number of bytes between pauses: with equal numbers,
/// constant pauses look the same as a rate.
const DIFFERENT: f64 = 1.1;

/// The range of a pause's length, in eighths of a round trip, that counts as about a round trip.
const TRIP: core::ops::RangeInclusive<u32> = 7..=9;

/// Watches pauses that keep to a constant rate.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteRate {
    pauses: Tally,
    /// Rates in bytes per second, stored as nanoseconds.
    rates: Distribution,
    /// Bytes from one pause to the next, stored as nanoseconds.
    sent: Distribution,
}

impl ByteRate {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let deliveries = exchange.sending.deliveries.iter();
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
        let least = LEAST_SEGMENTS * u64::from(delivery.size.mss);
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

    /// Returns the rate in bytes per second, if the pauses keep to a constant one.
    pub(super) fn rate(&self) -> Option<f64> {
        let bytes = |of: &Distribution, part| of.quantile(part).map(|d| d.as_nanos() as f64);
        let rate = bytes(&self.rates, 0.5)?;
        let (low, high) = (bytes(&self.rates, 0.1)?, bytes(&self.rates, 0.9)?);
        let is_constant = low >= rate * (1.0 - OFF_RATE) && high <= rate * (1.0 + OFF_RATE);
        // The extreme tenths are left out, because the few pauses that do not keep to the rate may
        // be there.
        let (least, most) = (bytes(&self.sent, 0.1)?, bytes(&self.sent, 0.9)?);
        (is_constant && most >= least * DIFFERENT).then_some(rate)
    }

    fn finding(&self, case: &Case<'_>, rate: f64) -> Finding {
        let mut finding = evidence::finding(Id::RateLimit, Owner::Server, case, &self.pauses);
        let rate = format!("{:.1} kB/s", rate / 1000.0);
        let text = format!(
            "{} stopped with everything acknowledged, and each resumed when the bytes sent so far \
             were due at {rate}, however many those were",
            counted(self.pauses.affected, "response", "responses"),
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(self.pauses.affected)
                .median(&self.pauses.saved),
        );
        finding.verdict = evidence::judge(&finding.evidence, self.pauses.affected, false);
        finding.summary = format!(
            "The server limits each response to {rate}: it stops for {} (median), {} of all \
             request time, although neither the path nor a window requires it.",
            median(&self.pauses.saved),
            percent(finding.share)
        );
        finding.ruled_out.push(ruled_out(
            Id::BandwidthLimit,
            "the data arrived immediately and was acknowledged before each stop",
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

/// Returns true if an acknowledgement ended the pause about a round trip after it began: the
/// sender's kernel may not have been allowed to send more before.
fn is_trip(pause: &Pause, round_trip: Duration) -> bool {
    let (least, most) = (*TRIP.start(), *TRIP.end());
    pause.meets_ack && pause.took * 8 >= round_trip * least && pause.took * 8 <= round_trip * most
}
