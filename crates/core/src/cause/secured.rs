//! Times including connection setup, which contains the handshakes; used by the causes on TLS.

use core::time::Duration;

use super::evidence::{self, MATERIAL_SHARE, MATERIAL_TIME};
use super::{Case, Id, evidence::finding};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome};
use crate::observed::event::tls_version_name;
use crate::report::Finding;
use crate::service::tally::{Cost, Tally};
use crate::stats::histogram::Distribution;

/// Whole responses, with the setup times of their connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bearing {
    /// Latencies, including the setup time if the exchange had one.
    pub(super) whole: Distribution,
    /// Number of exchanges that followed a handshake and waited for it.
    pub(super) handshakes: u64,
}

impl Bearing {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        if matches!(exchange.outcome, Outcome::Complete(_)) {
            let setup = exchange.connecting.setup.unwrap_or_default();
            self.whole.record(exchange.latency() + setup);
            let is_secured =
                exchange.connecting.handshake.is_some() && exchange.connecting.setup.is_some();
            self.handshakes += u64::from(is_secured);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.whole.absorb(other.whole);
        self.handshakes += other.handshakes;
    }
}

/// The cost of a cause for exchanges, including their setup time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secured {
    pub(crate) tally: Tally,
    /// Latencies of the affected exchanges, with the setup time.
    before: Distribution,
    /// Latencies of the same exchanges without the cause.
    after: Distribution,
}

impl Secured {
    /// Records an exchange with the cost of the cause for it; zero if it was not affected.
    pub(crate) fn add(&mut self, exchange: &Exchange, cost: Cost) {
        if cost.likely == 0 || !matches!(exchange.outcome, Outcome::Complete(_)) {
            return;
        }
        let setup = exchange.connecting.setup.unwrap_or_default();
        let whole = exchange.latency() + setup;
        let saved = Duration::from_nanos(cost.likely).min(whole);
        self.before.record(whole);
        self.after.record(whole - saved);
        self.tally.add(exchange, cost, setup);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.before.absorb(other.before);
        self.after.absorb(other.after);
    }

    /// Returns true if the mean request would improve: one handshake for many requests is the
    /// normal price of TLS.
    pub(crate) fn is_material(&self, case: &Case<'_>) -> bool {
        if self.tally.affected == 0 {
            return false;
        }
        let whole = &case.gathered.bearing.whole;
        let without = whole.with_replaced(&self.before, &self.after);
        let mean = |of: &Distribution| of.mean().unwrap_or_default();
        let (before, after) = (mean(whole), mean(&without));
        let saved = before.saturating_sub(after);
        saved >= MATERIAL_TIME
            && saved.as_secs_f64() >= before.as_secs_f64() * MATERIAL_SHARE
            && evidence::is_repeated(case, &self.tally)
    }

    /// Returns a finding with its share of the time including the setups.
    pub(crate) fn finding(&self, id: Id, culprit: Owner, case: &Case<'_>) -> Finding {
        let mut finding = finding(id, culprit, case, &self.tally);
        let total = u64::try_from(case.gathered.bearing.whole.sum_ns())
            .unwrap_or(u64::MAX)
            .max(1);
        finding.share = (self.tally.cost.likely as f64 / total as f64).min(1.0);
        finding
    }
}

/// Returns a version's name.
pub(crate) fn version_name(version: Option<u16>) -> &'static str {
    version.map_or("TLS", tls_version_name)
}
