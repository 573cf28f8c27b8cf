//! Links that are full, and the losses where their queues overflow.

use crate::claim::Claim;
use crate::exchange::wait::WaitKind;
use crate::registry::Id;

/// Minimum cost of a full link that is ranked before the losses of its service, as a share of the
/// losses' cost.
const FULL_SHARE: f64 = 0.5;

/// Moves each finding on a full link before the losses of its service, unless the link costs less
/// than the share [`FULL_SHARE`] of them: they are those of its queue.
pub(super) fn put_first(findings: &mut Vec<Claim>) {
    // A finding that moves to an earlier place does not change the places of those after it.
    for at in 0..findings.len() {
        let Some(full) = findings.get(at).filter(|f| f.cause == Id::BandwidthLimit) else {
            continue;
        };
        let is_overflow = |f: &Claim| {
            let least = f.time.cost.likely as f64 * FULL_SHARE;
            is_loss_behind(f, full) && full.time.cost.likely as f64 >= least
        };
        if let Some(to) = findings.iter().take(at).position(is_overflow) {
            let full = findings.remove(at);
            findings.insert(to, full);
        }
    }
}

/// Drops what the repair of losses predicts where a link is full: without them the link carries no
/// more, so the same load takes the same time.
pub(super) fn doubt_repairs(findings: &mut [Claim]) {
    let is_full = |f: &&Claim| f.cause == Id::BandwidthLimit;
    let full: Vec<Claim> = findings.iter().filter(is_full).cloned().collect();
    for finding in findings {
        if full.iter().any(|full| is_loss_behind(finding, full)) {
            finding.time.predicted = None;
        }
    }
}

/// Returns true if `finding` is on losses of the service whose link is full.
fn is_loss_behind(finding: &Claim, full: &Claim) -> bool {
    finding.at == full.at && finding.time.waits == [WaitKind::Recovery]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::wait::Owner;
    use crate::observed::flow::Endpoint;
    use crate::report::{PredictedLatency, Prediction};

    const ONE: u16 = 80;
    const OTHER: u16 = 443;

    /// Returns a claim on the service at `port` that costs `cost_ns`, with a prediction.
    fn claim(id: Id, port: u16, cost_ns: u64) -> Claim {
        let latency = PredictedLatency { p50: 1, p99: 1 };
        let predicted = Prediction {
            at_rate: 1.0,
            latency_ns: latency,
            measured_ns: None,
            closed_loop_rate: None,
            curve: Vec::new(),
            outside_ns: 0,
        };
        let at = Endpoint::new([10, 0, 0, 2].into(), port);
        let mut claim = Claim::blank(id, Owner::Path, at);
        claim.time.cost_exactly(cost_ns);
        claim.time.predicted = Some(predicted);
        claim
    }

    #[test]
    fn a_full_link_comes_before_the_losses_of_its_service() {
        let order = |link: u64| {
            let mut findings = vec![
                claim(Id::PacketLoss, OTHER, 30),
                claim(Id::PacketLoss, ONE, 20),
                claim(Id::ServerPause, ONE, 15),
                claim(Id::BandwidthLimit, ONE, link),
            ];
            put_first(&mut findings);
            findings.iter().position(|f| f.cause == Id::BandwidthLimit)
        };
        assert_eq!(order(10), Some(1));
        assert_eq!(order(9), Some(3), "the losses cost more than twice as much");
    }

    #[test]
    fn repairs_gain_nothing_where_a_link_is_full() {
        let mut findings = vec![
            claim(Id::PacketLoss, OTHER, 30),
            claim(Id::PacketLoss, ONE, 20),
            claim(Id::ServerPause, ONE, 15),
            claim(Id::BandwidthLimit, ONE, 10),
        ];
        doubt_repairs(&mut findings);
        let predicted: Vec<_> = findings
            .iter()
            .map(|f| f.time.predicted.is_some())
            .collect();
        assert_eq!(predicted, [true, false, true, true]);
    }
}
