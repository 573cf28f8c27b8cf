//! Time that connections lost before their first request. The rules on handshakes and lookups use
//! it.

use core::time::Duration;

use super::evidence::{self, MATERIAL_SHARE, MATERIAL_TIME};
use super::{Case, Conclusion, Id};
use crate::claim::{Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::report::{Affected, EvidenceKind, Unit};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Maximum number of packet numbers listed in a claim.
const PACKETS: usize = 6;
/// Minimum share of late connections for a claim, if their median delay is at least [`LONG`]. All
/// delays together may then be a small part of the time.
const SHARE: f64 = 0.01;
/// Minimum median delay at which [`SHARE`] is enough for a claim.
const LONG: Duration = Duration::from_millis(100);

/// Returns the time of the requests including everything before them, in nanoseconds. `cost` is a
/// part of it: a delay may precede the part of a setup that the ledger contains.
pub(crate) fn whole_with_setup(case: &Case<'_>, cost: u64) -> u64 {
    let least = case.ledger.total().saturating_add(cost);
    case.ledger.total_with_setup().max(least)
}

/// The delays of late connections.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
pub(crate) struct Delays {
    pub(crate) lost: Distribution,
    #[merge(extend)]
    packets: Vec<u64>,
}

impl Delays {
    /// Adds the time that a connection lost, and the packets that show it.
    pub(crate) fn add(&mut self, lost: Duration, packets: &[u64]) {
        self.lost.record(lost);
        self.show(packets);
    }

    /// Adds the time that a connection lost in its setup, with the setup's first and last packet.
    pub(crate) fn add_setup(&mut self, lost: Duration, setup: &Setup) {
        self.add(lost, &setup.syns.packets.numbers());
    }

    pub(crate) fn count(&self) -> u64 {
        self.lost.count()
    }

    /// Returns the median delay, formatted for a sentence.
    pub(crate) fn median(&self) -> String {
        evidence::median(&self.lost)
    }

    /// Returns the sum of the delays in nanoseconds.
    pub(crate) fn sum(&self) -> u64 {
        u64::try_from(self.lost.sum_ns()).unwrap_or(u64::MAX)
    }

    /// Returns true if the delays matter, either for all requests on average or severely for some.
    pub(crate) fn is_material(&self, case: &Case<'_>) -> bool {
        let total = case.ledger.total().saturating_add(self.sum()).max(1);
        let mean = self.lost.mean().unwrap_or_default();
        let of = case.ledger.setups.count.max(1);
        let is_long = self.lost.quantile(0.5).unwrap_or_default() >= LONG;
        let is_large = self.sum() as f64 >= total as f64 * MATERIAL_SHARE;
        let is_frequent = self.count() as f64 >= of as f64 * SHARE;
        mean >= MATERIAL_TIME && (is_large || is_long && is_frequent)
    }

    /// Returns the result of `claim` if the delays matter.
    pub(crate) fn conclude(&self, case: &Case<'_>, claim: impl FnOnce() -> Claim) -> Conclusion {
        self.is_material(case).then(claim).into()
    }

    /// Returns a claim whose cost is the sum of the delays.
    pub(crate) fn claim(&self, id: Id, culprit: Owner, case: &Case<'_>) -> Claim {
        let mut claim = evidence::bare_claim(id, culprit, case);
        self.charge(&mut claim, case);
        claim.affected = Affected {
            exchanges: self.count(),
            of: case.ledger.setups.count,
        };
        if claim.affected.of != case.ledger.counts.count {
            claim.unit = Unit::Connections;
        }
        claim
    }

    /// Sets the cost of `claim` to the sum of the delays.
    pub(crate) fn charge(&self, claim: &mut Claim, case: &Case<'_>) {
        let cost = self.sum();
        claim.time.cost_exactly(cost);
        claim.time.wall_ns = cost;
        claim.time.whole_ns = whole_with_setup(case, cost);
    }

    /// Returns evidence from packets, with the number of delays as its count.
    pub(crate) fn evidence(&self, text: String) -> Statement {
        Statement::shows(EvidenceKind::Wire, text)
            .count(self.count())
            .median(&self.lost)
            .packets(&self.packets)
    }

    fn show(&mut self, packets: &[u64]) {
        self.packets
            .extend(packets.iter().filter(|&&number| number > 0));
        self.settle();
    }

    fn settle(&mut self) {
        self.packets.sort_unstable();
        self.packets.dedup();
        self.packets.truncate(PACKETS);
    }
}
