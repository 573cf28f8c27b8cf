//! Links that are full, and the losses where their queues overflow, which they explain.

use crate::claim::Claim;
use crate::exchange::wait::WaitKind;
use crate::registry::Id;

/// Drops what the repair of losses predicts where a link is full: without them the link carries no
/// more, so the same load takes the same time.
pub(super) fn doubt_repairs(claims: &mut [Claim]) {
    let is_full = |f: &&Claim| f.cause == Id::BandwidthLimit;
    let full: Vec<Claim> = claims.iter().filter(is_full).cloned().collect();
    for claim in claims {
        if full.iter().any(|full| is_loss_behind(claim, full)) {
            claim.time.predicted = None;
        }
    }
}

/// Returns true if `claim` is on losses of the service whose link is full.
pub(super) fn is_loss_behind(claim: &Claim, full: &Claim) -> bool {
    claim.at == full.at && claim.time.waits == [WaitKind::Recovery]
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
    fn repairs_gain_nothing_where_a_link_is_full() {
        let mut claims = vec![
            claim(Id::PacketLoss, OTHER, 30),
            claim(Id::PacketLoss, ONE, 20),
            claim(Id::ServerPause, ONE, 15),
            claim(Id::BandwidthLimit, ONE, 10),
        ];
        doubt_repairs(&mut claims);
        let predicted: Vec<_> = claims.iter().map(|f| f.time.predicted.is_some()).collect();
        assert_eq!(predicted, [true, false, true, true]);
    }
}
