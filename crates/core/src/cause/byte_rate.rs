//! Responses that the server's program limits to a number of bytes per second.
//!
//! The program stops in the middle of a response, when all data is acknowledged. At the end of each
//! pause, the bytes sent so far, few or many, match the same constant rate. If the program worked
//! instead, the pause would depend on the work and not on the bytes.

use core::time::Duration;

use super::evidence::{self, median};
use super::wording::{Values, Wording};
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::delivery::{Delivery, Pause};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Side};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Minimum pause that counts. Shorter pauses are ordinary work.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
/// Minimum number of segments between two pauses. Fewer are a single event rather than part of a
/// bulk transfer.
const LEAST_SEGMENTS: u64 = 2;
/// Maximum relative deviation from the rate. It can be small because nginx wakes with millisecond
/// precision (`ngx_http_limit_rate`).
const OFF_RATE: f64 = 0.03;
/// Minimum ratio of the largest to the smallest number of bytes between pauses. If the numbers were
/// equal, constant pauses would look like a rate.
const DIFFERENT: f64 = 1.1;

/// The lengths of a pause that count as about one round trip, in eighths of a round trip.
const TRIP: core::ops::RangeInclusive<u32> = 7..=9;

const WORDING: Wording = Wording {
    summary: "The server limits each response to {rate}: it stops for {pause} (median), {share} of \
              all request time, although neither the path nor a window requires it.",
    ruled_out: &[(
        Id::BandwidthLimit,
        "the data arrived immediately and was acknowledged before each stop",
    )],
    overturned_by: "a server configuration without a rate limit, or pauses that match the work the \
        server does",
    fix: &[
        (
            "server",
            "set {limit_rate} 0, or use limit_rate_after (nginx); look for bwlim filters (HAProxy)",
        ),
        (
            "server",
            "look for X-Accel-Limit-Rate in the application's responses",
        ),
    ],
};

/// Watches pauses within responses. At the end of each pause, the bytes sent so far match a
/// constant rate.
#[derive(Clone, Debug, Default, Merge)]
pub(super) struct ByteRate {
    pauses: Tally,
    /// Rates in bytes per second. A `Distribution` holds durations, so one nanosecond means one
    /// byte per second.
    rates: Distribution,
    /// Bytes between two pauses. One nanosecond means one byte.
    sent: Distribution,
}

impl ByteRate {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let deliveries = exchange.sending.deliveries.iter();
        for delivery in deliveries.filter(|delivery| delivery.sender == Side::Server) {
            self.observe_pauses(exchange, delivery);
        }
    }

    pub(super) fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let matters =
            evidence::is_material(case, &self.pauses) && self.pauses.affected >= evidence::REPEATS;
        match self.rate().filter(|_| matters) {
            Some(rate) => Conclusion::Claim(Box::new(self.claim(case, rate))),
            None => Conclusion::Nothing,
        }
    }

    fn observe_pauses(&mut self, exchange: &Exchange, delivery: &Delivery) {
        let least = LEAST_SEGMENTS * u64::from(delivery.size.mss);
        let pauses = delivery.pauses.iter();
        let (mut paused, mut before) = (Duration::ZERO, 0);
        for pause in pauses.filter(|pause| pause.took >= LEAST_PAUSE) {
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

    /// Returns the constant rate in bytes per second; `None` if the pauses do not fit one.
    pub(super) fn rate(&self) -> Option<f64> {
        let bytes = |of: &Distribution, part| of.quantile(part).map(|d| d.as_nanos() as f64);
        let rate = bytes(&self.rates, 0.5)?;
        let (low, high) = (bytes(&self.rates, 0.1)?, bytes(&self.rates, 0.9)?);
        let is_constant = low >= rate * (1.0 - OFF_RATE) && high <= rate * (1.0 + OFF_RATE);
        // The lowest and the highest tenth are left out: they may contain the few pauses that do
        // not fit the rate.
        let (least, most) = (bytes(&self.sent, 0.1)?, bytes(&self.sent, 0.9)?);
        (is_constant && most >= least * DIFFERENT).then_some(rate)
    }

    fn claim(&self, case: &Case<'_>, rate: f64) -> Claim {
        let mut claim = evidence::claim(Id::RateLimit, Owner::Server, case, &self.pauses);
        let rate = format!("{:.1} kB/s", rate / 1000.0);
        let text = format!(
            "{} stopped with all data acknowledged. Each resumed when the bytes sent so far were \
             due at {rate}, whatever their number",
            counted(self.pauses.affected, "response", "responses"),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(self.pauses.affected)
                .median(&self.pauses.saved),
        );
        claim.basis = Basis::new(self.pauses.affected, false);
        let values: &Values<'_> = &[("rate", &rate), ("pause", &median(&self.pauses.saved))];
        WORDING.tell(&mut claim, values);
        claim
    }
}

/// Returns true if an ACK ended the pause about a round trip after it began. In this case the
/// sender's kernel may not have been allowed to send before.
fn is_trip(pause: &Pause, round_trip: Duration) -> bool {
    let (least, most) = (*TRIP.start(), *TRIP.end());
    pause.meets_ack && pause.took * 8 >= round_trip * least && pause.took * 8 <= round_trip * most
}
