//! Links that are full, and the losses where their queues overflow.

use crate::exchange::wait::WaitKind;
use crate::registry::Id;
use crate::report::Finding;

/// Minimum cost of a full link that is ranked before the losses of its service, as a share of the
/// losses' cost.
const FULL_SHARE: f64 = 0.5;

/// Moves each finding on a full link before the losses of its service, unless the link costs less
/// than the share [`FULL_SHARE`] of them: they are those of its queue.
pub(super) fn put_first(findings: &mut Vec<Finding>) {
    // A finding that moves to an earlier place does not change the places of those after it.
    for at in 0..findings.len() {
        let Some(full) = findings.get(at).filter(|f| f.cause == Id::BandwidthLimit) else {
            continue;
        };
        let is_overflow = |f: &Finding| {
            let least = f.cost_ns as f64 * FULL_SHARE;
            is_loss_behind(f, full) && full.cost_ns as f64 >= least
        };
        if let Some(to) = findings.iter().take(at).position(is_overflow) {
            let full = findings.remove(at);
            findings.insert(to, full);
        }
    }
}

/// Drops what the repair of losses predicts where a link is full: without them the link carries no
/// more, so the same load takes the same time.
pub(super) fn doubt_repairs(findings: &mut [Finding]) {
    let is_full = |f: &&Finding| f.cause == Id::BandwidthLimit;
    let full: Vec<Finding> = findings.iter().filter(is_full).cloned().collect();
    for finding in findings {
        if full.iter().any(|full| is_loss_behind(finding, full)) {
            finding.predicted = None;
        }
    }
}

/// Returns true if `finding` is on losses of the service whose link is full.
fn is_loss_behind(finding: &Finding, full: &Finding) -> bool {
    finding.service == full.service && finding.waits == [WaitKind::Recovery]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::evidence;
    use crate::exchange::wait::Owner;
    use crate::report::{PredictedLatency, Prediction};

    /// Returns a finding on `service` that costs `cost_ns`, with a prediction.
    fn finding(id: Id, service: &str, cost_ns: u64) -> Finding {
        let latency = PredictedLatency { p50: 1, p99: 1 };
        let predicted = Prediction {
            at_rate: 1.0,
            latency_ns: latency,
            measured_ns: None,
            closed_loop_rate: None,
            curve: Vec::new(),
            outside_ns: 0,
        };
        Finding {
            cost_ns,
            predicted: Some(predicted),
            ..evidence::blank(id, Owner::Path, service.to_owned())
        }
    }

    #[test]
    fn a_full_link_comes_before_the_losses_of_its_service() {
        let order = |link: u64| {
            let mut findings = vec![
                finding(Id::PacketLoss, "other", 30),
                finding(Id::PacketLoss, "one", 20),
                finding(Id::ServerPause, "one", 15),
                finding(Id::BandwidthLimit, "one", link),
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
            finding(Id::PacketLoss, "other", 30),
            finding(Id::PacketLoss, "one", 20),
            finding(Id::ServerPause, "one", 15),
            finding(Id::BandwidthLimit, "one", 10),
        ];
        doubt_repairs(&mut findings);
        let predicted: Vec<_> = findings.iter().map(|f| f.predicted.is_some()).collect();
        assert_eq!(predicted, [true, false, true, true]);
    }
}
