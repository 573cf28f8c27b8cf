//! The overall result of a report, and the limits of its claims.

use crate::exchange::wait::{Owner, WaitKind};
use crate::report::{
    Caveat, Exchanges, Finding, LayerState, Overall, OverallResult, Report, Shape, Unclaimed,
};

/// Minimum number of requests that show the tail of the latency.
const FEW_REQUESTS: u64 = 1_000;
/// Maximum unexplained share of the time that the report does not mention.
const UNEXPLAINED: f64 = 0.01;
/// Above this unexplained share of the time, the report draws no conclusion about the rest.
const MUCH_UNEXPLAINED: f64 = 0.1;

/// Returns the overall result of a report whose other parts are complete.
pub(super) fn overall(report: &Report) -> Overall {
    let unexplained_share = unexplained(&report.exchanges);
    Overall {
        result: result(report, unexplained_share),
        unexplained_share,
        unclaimed: unclaimed(report),
        caveats: caveats(report, unexplained_share),
    }
}

fn result(report: &Report, unexplained_share: f64) -> OverallResult {
    let exchanges = &report.exchanges;
    let has_failed = exchanges.errors.saturating_add(exchanges.timeouts) > 0;
    if report.causes().next().is_some() {
        return OverallResult::CauseFound;
    }
    match (exchanges.count, has_failed) {
        (0, false) => OverallResult::NoRequest,
        (0, true) => OverallResult::AllFailed,
        (_, true) => OverallResult::SomeFailed,
        _ if unexplained_share > MUCH_UNEXPLAINED || captured_part_differs(report) => {
            OverallResult::Unexplained
        }
        _ if report.places().next().is_none() => {
            let mut layers = report.layers.iter();
            if layers.any(|layer| layer.state == LayerState::Suspected) {
                OverallResult::Suspected
            } else {
                OverallResult::NothingFound
            }
        }
        _ if report.places().all(is_servers_own) => OverallResult::ServersOwnTime,
        _ => OverallResult::Located,
    }
}

/// Returns true if the unexplained time at `place` is the server's, and about the same in each
/// request.
fn is_servers_own(place: &Finding) -> bool {
    let shape = place.location.as_ref().and_then(|location| location.shape);
    place.culprit == Owner::Server && shape == Some(Shape::Constant)
}

/// Returns true if the captured packets do not explain the rest of the load.
fn captured_part_differs(report: &Report) -> bool {
    let part = report.load.as_ref().and_then(|load| load.captured_part);
    part.is_some_and(|part| part.differs)
}

/// Returns the share of the time in waits of unknown kind.
fn unexplained(exchanges: &Exchanges) -> f64 {
    let unknown = exchanges.waits.iter();
    let unknown = unknown.filter(|wait| wait.kind == WaitKind::Unknown);
    // The sum of an empty list is -0.0, which JSON would show.
    unknown.map(|wait| wait.share).sum::<f64>() + 0.0
}

/// Returns the unclaimed time; `None` if no time was booked, or if findings locate the unclaimed
/// time.
fn unclaimed(report: &Report) -> Option<Unclaimed> {
    let bookings = report.account.iter().flat_map(|account| &account.exchanges);
    let (mut unclaimed, mut booked) = (0_u64, 0_u64);
    for booking in bookings {
        unclaimed = unclaimed.saturating_add(booking.unclaimed_ns);
        booked = booked.saturating_add(booking.booked_ns);
    }
    let count = report.exchanges.waits_of;
    let is_located = report.places().next().is_some();
    (booked > 0 && count > 0 && !is_located).then(|| Unclaimed {
        each_ns: unclaimed / count,
        share: unclaimed as f64 / booked as f64,
    })
}

fn caveats(report: &Report, unexplained_share: f64) -> Vec<Caveat> {
    let exchanges = &report.exchanges;
    let dropped = report.capture.as_ref().and_then(|c| c.dropped);
    let all = [
        (
            Caveat::FewRequests,
            (1..FEW_REQUESTS).contains(&exchanges.count),
        ),
        (Caveat::UnexplainedTime, unexplained_share > UNEXPLAINED),
        (Caveat::PacketsDropped, dropped.unwrap_or_default() > 0),
        (Caveat::RequestsCut, exchanges.cut > 0),
        (Caveat::CapturedPartDiffers, captured_part_differs(report)),
    ];
    let due = all.into_iter().filter(|(_, is_due)| *is_due);
    due.map(|(caveat, _)| caveat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::evidence::blank;
    use crate::registry::Id;
    use crate::report::{Capture, Location, Verdict, WaitShare};

    /// Returns a report on `count` requests, in which `share` of the time is unexplained.
    fn report(count: u64, share: f64) -> Report {
        let mut report = Report::default();
        report.exchanges.count = count;
        report.exchanges.waits = vec![WaitShare {
            kind: WaitKind::Unknown,
            owner: Owner::Unknown,
            total_ns: 0,
            share,
        }];
        report
    }

    fn place(culprit: Owner, shape: Shape) -> Finding {
        let mut place = blank(Id::TimeInServer, culprit, "10.0.0.2:80".to_owned());
        place.location = Some(Location {
            certainty: Verdict::Strong,
            because: String::new(),
            claimed_ns: 1,
            share: 0.5,
            shape: Some(shape),
        });
        place
    }

    #[test]
    fn a_claim_is_as_large_as_what_was_measured() {
        let result = |report: &Report| overall(report).result;
        assert_eq!(result(&report(0, 0.0)), OverallResult::NoRequest);
        assert_eq!(result(&report(5, 0.05)), OverallResult::NothingFound);
        assert_eq!(result(&report(5, 0.2)), OverallResult::Unexplained);
        let mut failed = report(5, 0.0);
        failed.exchanges.timeouts = 1;
        assert_eq!(result(&failed), OverallResult::SomeFailed);
        failed.exchanges.count = 0;
        assert_eq!(result(&failed), OverallResult::AllFailed);
    }

    #[test]
    fn located_time_is_no_fault_only_where_it_is_the_servers_own() {
        let mut report = report(5, 0.0);
        report.findings = vec![place(Owner::Server, Shape::Constant)];
        assert_eq!(overall(&report).result, OverallResult::ServersOwnTime);
        report.findings.push(place(Owner::Server, Shape::Rare));
        assert_eq!(overall(&report).result, OverallResult::Located);
    }

    #[test]
    fn the_limits_of_a_claim_are_told() {
        let mut report = report(999, 0.02);
        report.exchanges.cut = 2;
        report.capture = Some(Capture {
            dropped: Some(1),
            ..Capture::default()
        });
        assert_eq!(
            overall(&report).caveats,
            [
                Caveat::FewRequests,
                Caveat::UnexplainedTime,
                Caveat::PacketsDropped,
                Caveat::RequestsCut,
            ]
        );
        assert!(overall(&Report::default()).caveats.is_empty());
    }
}
