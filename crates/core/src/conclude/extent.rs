//! The extent of a finding: its cost per request, and the time of which its share is a part.

use crate::report::{EvidenceKind, Exchanges, Extent, Finding};

/// A cause counts as affecting all requests if it affects at least this share of them.
const NEARLY_ALL: f64 = 0.99;
/// The cost is printed as a range if its bounds are further apart than this share of the cost.
const WIDE: f64 = 0.05;
/// If a finding's cost, divided by the product of the mean latency and the finding's share, is above
/// this ratio, the share also covers time outside the latency, such as connection setup.
const BESIDES: f64 = 1.05;

/// Returns the extent of a finding; `None` if it costs no time. `exchanges` are the exchanges of
/// the whole report.
pub(super) fn extent(finding: &Finding, exchanges: &Exchanges) -> Option<Extent> {
    let affected = finding.affected;
    if finding.cost_ns == 0 || affected.exchanges == 0 {
        return None;
    }
    let each = |ns: u64| ns / affected.exchanges;
    let spread = finding.cost_high_ns.saturating_sub(finding.cost_low_ns);
    let is_range = spread as f64 > WIDE * finding.cost_ns as f64;
    let concerns_all = affected.exchanges as f64 / affected.of.max(1) as f64 >= NEARLY_ALL;
    let is_of_all = affected.of == exchanges.count && finding.unit.is_requests();
    Some(Extent {
        each_ns: each(finding.cost_ns),
        range_ns: is_range.then(|| [each(finding.cost_low_ns), each(finding.cost_high_ns)]),
        is_timed_by_kernel: is_range && is_timed_by_kernel(finding),
        concerns_all,
        whole_ns: (concerns_all && is_of_all)
            .then(|| whole_request(finding, exchanges.latency_ns.mean)),
    })
}

/// Returns true if the server's kernel timed the waits of the finding as this cause, and if its
/// cost is the upper bound, so that the lower one is only what packets alone can show.
fn is_timed_by_kernel(finding: &Finding) -> bool {
    let mut evidence = finding.evidence.iter();
    finding.cost_ns == finding.cost_high_ns
        && evidence.any(|e| e.kind == EvidenceKind::KernelTrace && e.shows_mechanism)
}

/// Returns the mean time to which the finding's share refers. It is more than the `mean` latency if
/// the cause is in connection setup, which the latency does not include.
fn whole_request(finding: &Finding, mean: u64) -> u64 {
    let cost = finding.cost_ns as f64 / finding.affected.exchanges.max(1) as f64;
    let is_longer = cost > mean as f64 * finding.share * BESIDES;
    if is_longer && finding.share > 0.0 {
        (cost / finding.share) as u64
    } else {
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::conclude::word;
    use crate::exchange::wait::Owner;
    use crate::observed::flow::Endpoint;
    use crate::registry::Id;
    use crate::report::Affected;

    const MS: u64 = 1_000_000;

    /// Returns a finding on `exchanges` of 100 requests, with a cost of 4 ms for each of them.
    fn finding(exchanges: u64, share: f64) -> Finding {
        let cost = 4 * MS * exchanges;
        let at = Endpoint::new([10, 0, 0, 2].into(), 80);
        Finding {
            cost_ns: cost,
            cost_low_ns: cost,
            cost_high_ns: cost,
            share,
            affected: Affected { exchanges, of: 100 },
            ..word::finding(Claim::blank(Id::ServerThink, Owner::Server, at))
        }
    }

    fn of_100_requests(mean: u64) -> Exchanges {
        let mut exchanges = Exchanges {
            count: 100,
            ..Exchanges::default()
        };
        exchanges.latency_ns.mean = mean;
        exchanges
    }

    #[test]
    fn a_share_of_setup_is_of_more_than_the_latency() {
        let whole = |share| {
            let extent = extent(&finding(100, share), &of_100_requests(5 * MS));
            extent.expect("an extent").whole_ns
        };
        assert_eq!(whole(0.8), Some(5 * MS));
        assert_eq!(whole(0.5), Some(8 * MS));
    }

    #[test]
    fn a_cost_is_told_as_a_range_if_its_bounds_are_apart() {
        let mut some = finding(10, 0.8);
        let told = |some: &Finding| extent(some, &of_100_requests(5 * MS)).expect("an extent");
        assert!(!told(&some).concerns_all);
        assert_eq!(told(&some).whole_ns, None);
        assert_eq!(told(&some).range_ns, None);
        some.cost_high_ns = 50 * MS;
        assert_eq!(told(&some).range_ns, Some([4 * MS, 5 * MS]));
        assert_eq!(told(&some).each_ns, 4 * MS);
        some.cost_ns = 0;
        assert_eq!(extent(&some, &of_100_requests(5 * MS)), None);
    }
}
