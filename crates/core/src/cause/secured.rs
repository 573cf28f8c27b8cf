//! The time of requests including connection setup. TLS handshakes take place during setup. The
//! rules on TLS share this file.

use core::time::Duration;

use super::delays::whole_with_setup;
use super::evidence::{self, MATERIAL_SHARE, MATERIAL_TIME};
use super::{Case, Id, evidence::claim};
use crate::claim::Claim;
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome};
use crate::observed::event::tls_version_name;
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Maximum number of round trips of a full handshake: two up to TLS 1.2 (RFC 5246 §7.3), and one
/// more for a certificate that does not fit into the initial window.
pub(crate) const ROUND_TRIPS: u32 = 3;
/// Minimum stall of a handshake's flight that counts.
pub(super) const LEAST_FLIGHT_STALL: Duration = Duration::from_millis(2);

/// The latencies of exchanges including connection setup.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct LatencyWithSetup {
    /// Latencies of complete exchanges, plus the setup time if the exchange had one.
    pub(super) whole: Distribution,
    /// Number of exchanges that waited for a TLS handshake.
    pub(super) handshakes: u64,
}

impl LatencyWithSetup {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        if matches!(exchange.outcome, Outcome::Complete(_)) {
            let setup = exchange.connecting.setup.unwrap_or_default();
            self.whole.record(exchange.latency() + setup);
            let is_secured =
                exchange.connecting.handshake.is_some() && exchange.connecting.setup.is_some();
            self.handshakes += u64::from(is_secured);
        }
    }
}

/// The cost of a cause in exchanges, including connection setup.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Secured {
    pub(crate) tally: Tally,
    /// Latencies of the affected exchanges, including the setup time.
    before: Distribution,
    /// Latencies that the affected exchanges would have without the cause, including the setup
    /// time.
    after: Distribution,
}

impl Secured {
    /// Records an exchange with the time that the cause cost it. Exchanges without a cost are
    /// ignored.
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

    /// Returns true if the mean over all requests would improve. The 99th percentile does not
    /// count: one handshake for many requests is normal.
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

    /// Returns a claim whose share refers to the time including connection setup.
    pub(crate) fn claim(&self, id: Id, culprit: Owner, case: &Case<'_>) -> Claim {
        let mut claim = claim(id, culprit, case, &self.tally);
        claim.time.whole_ns = case.weigh(whole_with_setup(case, self.tally.cost.likely));
        claim
    }
}

/// Returns the name of a TLS version; "TLS" if the version is not known.
pub(crate) fn version_name(version: Option<u16>) -> &'static str {
    version.map_or("TLS", tls_version_name)
}
