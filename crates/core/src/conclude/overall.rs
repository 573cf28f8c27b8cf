//! The overall result of a report, and the limits of its claims.

use core::time::Duration;

use super::{OWN_STAMPS, account, lookups};
use crate::cause::evidence::{MATERIAL_SHARE, MATERIAL_TIME};
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::time::nanos;
use crate::protocol::http::status::is_redirect;
use crate::report::{
    Caveat, Exchanges, Finding, LayerState, Overall, OverallResult, Remark, Report, Shape,
    StatusCount, Unclaimed,
};
use crate::service::Ledger;

/// The status of a response after which a connection speaks another protocol (RFC 9110 §15.2.2). It
/// is the status of the exchange only if that protocol is not read.
const SWITCHING: &str = "101";
/// Minimum number of requests that show the tail of the latency.
const FEW_REQUESTS: u64 = 1_000;
/// Maximum unexplained share of the time that the report does not mention.
const UNEXPLAINED: f64 = 0.01;
/// Above this unexplained share of the time, the report draws no conclusion about the rest.
const MUCH_UNEXPLAINED: f64 = 0.1;
/// Unexplained time is no headline below both: a time per request, and a share of all time.
const HEADLINE: (Duration, f64) = (Duration::from_millis(10), 1.0 / 3.0);

/// If more than this share of the time, and at least this mean time, passed while data was
/// transferred, the report does not say that there is no delay: no faster transfer was seen.
const MOSTLY_TRANSFER: f64 = 0.5;
const LONG_TRANSFER: u64 = 10_000_000;

/// Returns the overall result of a report whose other parts are complete. `subject` contains the
/// figures of its exchanges.
pub(super) fn overall(report: &Report, subject: &Ledger) -> Overall {
    let unexplained_share = unexplained(&report.exchanges);
    let caveats = caveats(report, subject, unexplained_share);
    let result = match result(report, unexplained_share) {
        OverallResult::Unexplained if caveats.contains(&Caveat::OwedUnknown) => {
            OverallResult::NotJudged
        }
        OverallResult::NothingFound | OverallResult::ServersOwnTime | OverallResult::Saturated
            if caveats.iter().any(|caveat| caveat.is_open()) =>
        {
            OverallResult::NotJudged
        }
        result => result,
    };
    Overall {
        result,
        is_interrupted: false,
        unexplained_share,
        unclaimed: unclaimed(report),
        caveats,
    }
}

fn result(report: &Report, unexplained_share: f64) -> OverallResult {
    let exchanges = &report.exchanges;
    let has_failed = exchanges.errors.saturating_add(exchanges.timeouts) > 0;
    if report.accusations().next().is_some() {
        return OverallResult::CauseFound;
    }
    match (exchanges.count, has_failed) {
        (0, false) => OverallResult::NoRequest,
        (0, true) => OverallResult::AllFailed,
        (_, true) => OverallResult::SomeFailed,
        _ if are_redirects(exchanges) => OverallResult::OnlyRedirects,
        _ if is_much_unexplained(report, unexplained_share) || captured_part_differs(report) => {
            OverallResult::Unexplained
        }
        _ if headlines(report).next().is_none() => {
            let mut layers = report.layers.iter();
            if layers.any(|layer| layer.state == LayerState::Suspected) {
                OverallResult::Suspected
            } else if is_saturated(report) {
                OverallResult::Saturated
            } else {
                OverallResult::NothingFound
            }
        }
        _ if headlines(report).all(is_servers_own) => OverallResult::ServersOwnTime,
        _ => OverallResult::Located,
    }
}

/// Returns true if our own requests met nothing but redirects.
fn are_redirects(exchanges: &Exchanges) -> bool {
    let mut statuses = exchanges.statuses.iter();
    let is_redirect = |count: &StatusCount| count.status.parse().is_ok_and(is_redirect);
    exchanges.measured_by == OWN_STAMPS && exchanges.count > 0 && statuses.all(is_redirect)
}

/// Returns true if so much of the request time is unknown that it needs a headline.
fn is_much_unexplained(report: &Report, unexplained_share: f64) -> bool {
    let latency = report.exchanges.latency_ns.mean as f64;
    let is_long = latency * unexplained_share >= HEADLINE.0.as_nanos() as f64;
    unexplained_share >= HEADLINE.1 || unexplained_share > MUCH_UNEXPLAINED && is_long
}

/// Returns the findings that need a headline: all but those that locate unexplained time that is
/// short for the requests that it affects, and a small part of all time.
fn headlines(report: &Report) -> impl Iterator<Item = &Finding> {
    let is_large = |finding: &&Finding| {
        let located = finding.location.as_ref();
        located.is_none_or(|location| {
            let each = location.claimed_ns / finding.affected.exchanges.max(1);
            u128::from(each) >= HEADLINE.0.as_nanos() || location.share >= HEADLINE.1
        })
    };
    let findings = report.findings.iter();
    findings.filter(move |finding| !finding.locates || is_large(finding))
}

/// Returns true if the unexplained time at `place` is the server's, and about the same in each
/// request.
fn is_servers_own(place: &Finding) -> bool {
    let shape = place.location.as_ref().and_then(|location| location.shape);
    place.locates && place.culprit == Owner::Server && shape == Some(Shape::Constant)
}

/// Returns true if the asked load makes requests wait for each other.
fn is_saturated(report: &Report) -> bool {
    let capacity = report.capacity.as_ref();
    capacity.is_some_and(|capacity| capacity.is_saturated)
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

/// Returns the unclaimed time; `None` if no time was booked, if findings locate the unclaimed time, or
/// if it is work of the service.
fn unclaimed(report: &Report) -> Option<Unclaimed> {
    let bookings = report.account.iter().flat_map(|account| &account.exchanges);
    let (mut unclaimed, mut booked) = (0_u64, 0_u64);
    for booking in bookings {
        unclaimed = unclaimed.saturating_add(booking.unclaimed_ns);
        booked = booked.saturating_add(booking.booked_ns);
    }
    let count: u64 = report.account.iter().map(|account| account.requests).sum();
    let is_located = report.places().next().is_some();
    let is_work = report.notes.iter().any(|note| note.id == Remark::COMPUTES);
    (booked > 0 && count > 0 && !is_located && !is_work).then(|| Unclaimed {
        each_ns: unclaimed / count,
        share: unclaimed as f64 / booked as f64,
    })
}

/// Returns true if most of the time passed while data was transferred, and no finding claims it.
fn is_mostly_transfer(report: &Report) -> bool {
    let bookings = || report.account.iter().flat_map(|account| &account.exchanges);
    let transfers = bookings().filter(|booking| {
        matches!(
            booking.kind,
            WaitKind::RequestTransfer | WaitKind::ResponseTransfer
        )
    });
    let inherent = account::sum(transfers, |booking| booking.inherent_ns);
    let all = account::sum(bookings(), |booking| booking.booked_ns);
    let requests = report.account.iter().map(|account| account.requests);
    let requests = requests.fold(0, u64::saturating_add);
    inherent as f64 > all as f64 * MOSTLY_TRANSFER && inherent / requests.max(1) >= LONG_TRANSFER
}

/// Returns true if `doubtful`, a sum over all requests in nanoseconds, is a material time of each.
fn is_material(report: &Report, doubtful: u64) -> bool {
    let each = Duration::from_nanos(doubtful / report.exchanges.count.max(1));
    let mean = report.exchanges.latency_ns.mean.max(1);
    each >= MATERIAL_TIME && nanos(each) as f64 >= mean as f64 * MATERIAL_SHARE
}

fn caveats(report: &Report, subject: &Ledger, unexplained_share: f64) -> Vec<Caveat> {
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
        (
            Caveat::LookupsWaited,
            report.notes.iter().any(|note| note.id == lookups::APART),
        ),
        (
            Caveat::UpgradeNotRead,
            exchanges.statuses.iter().any(|one| one.status == SWITCHING),
        ),
        (Caveat::TurnsOverlapped, subject.is_crossed()),
        (
            Caveat::OwedUnknown,
            report
                .notes
                .iter()
                .any(|note| note.id == Remark::OWED_UNKNOWN)
                && is_much_unexplained(report, unexplained_share),
        ),
        (Caveat::TransferAssumed, is_mostly_transfer(report)),
        (
            Caveat::DistanceAssumed,
            is_material(report, subject.doubtful.assumed_trips),
        ),
        (
            Caveat::EndsUnknown,
            is_material(report, subject.doubtful.paused),
        ),
    ];
    let due = all.into_iter().filter(|(_, is_due)| *is_due);
    due.map(|(caveat, _)| caveat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::conclude::word;
    use crate::observed::flow::Endpoint;
    use crate::registry::Id;
    use crate::report::{
        Account, Booking, Capacity, CapacityLimit, Capture, LoadLevel, Location, Remark,
        StatusCount, Verdict, WaitShare,
    };

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

    fn blank(id: Id, culprit: Owner) -> Finding {
        let at = Endpoint::new([10, 0, 0, 2].into(), 80);
        word::finding(Claim::blank(id, culprit, at))
    }

    fn place(culprit: Owner, shape: Shape) -> Finding {
        let mut place = blank(Id::TimeInServer, culprit);
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
        let result = |report: &Report| overall(report, &Ledger::default()).result;
        assert_eq!(result(&report(0, 0.0)), OverallResult::NoRequest);
        assert_eq!(result(&report(5, 0.05)), OverallResult::NothingFound);
        assert_eq!(result(&report(5, 0.4)), OverallResult::Unexplained);
        let mut long = report(5, 0.2);
        assert_eq!(result(&long), OverallResult::NothingFound, "short");
        long.exchanges.latency_ns.mean = 60_000_000;
        assert_eq!(result(&long), OverallResult::Unexplained);
        let mut failed = report(5, 0.0);
        failed.exchanges.timeouts = 1;
        assert_eq!(result(&failed), OverallResult::SomeFailed);
        failed.exchanges.count = 0;
        assert_eq!(result(&failed), OverallResult::AllFailed);
    }

    #[test]
    fn redirects_that_were_not_followed_are_no_result() {
        let mut report = report(5, 0.0);
        report.exchanges.measured_by = OWN_STAMPS.to_owned();
        let result = |statuses: &[&str], mut report: Report| {
            let count = |status: &&str| StatusCount {
                status: (*status).to_owned(),
                count: 1,
            };
            report.exchanges.statuses = statuses.iter().map(count).collect();
            overall(&report, &Ledger::default()).result
        };
        let redirects = OverallResult::OnlyRedirects;
        assert_eq!(result(&["301", "308"], report.clone()), redirects);
        assert_ne!(result(&["301", "200"], report.clone()), redirects);
        assert_ne!(result(&["304"], report.clone()), redirects);
        report.exchanges.measured_by = "packets".to_owned();
        assert_ne!(
            result(&["301"], report),
            redirects,
            "other clients follow them"
        );
    }

    #[test]
    fn located_time_is_no_fault_only_where_it_is_the_servers_own() {
        let mut report = report(5, 0.0);
        report.findings = vec![place(Owner::Server, Shape::Constant)];
        let ledger = Ledger::default();
        let result = |report: &Report| overall(report, &ledger).result;
        assert_eq!(result(&report), OverallResult::ServersOwnTime);
        report.findings.push(place(Owner::Server, Shape::Rare));
        assert_eq!(result(&report), OverallResult::Located);
    }

    #[test]
    fn a_cause_that_only_says_where_is_no_cause_found() {
        let mut report = report(5, 0.0);
        let only_where = blank(Id::ServerThink, Owner::Server);
        assert!(only_where.cause.cause().says_only_where);
        report.findings = vec![only_where];
        let result = |report: &Report| overall(report, &Ledger::default()).result;
        assert_eq!(result(&report), OverallResult::Located);
        let why = blank(Id::NagleDelayedAck, Owner::Server);
        report.findings.push(why);
        assert_eq!(result(&report), OverallResult::CauseFound);
    }

    #[test]
    fn a_little_located_time_is_no_headline() {
        let result = |each: u64, share: f64| {
            let mut report = report(5, 0.0);
            let mut place = place(Owner::Server, Shape::Rare);
            place.affected.exchanges = 4;
            let location = place.location.as_mut().expect("a place");
            (location.claimed_ns, location.share) = (each * 4, share);
            report.findings = vec![place];
            overall(&report, &Ledger::default()).result
        };
        assert_eq!(result(9_000_000, 0.3), OverallResult::NothingFound);
        assert_eq!(result(9_000_000, 0.4), OverallResult::Located);
        assert_eq!(result(11_000_000, 0.01), OverallResult::Located);
    }

    #[test]
    fn a_service_that_carries_less_than_asked_is_healthy_below_it() {
        let mut report = report(5, 0.0);
        report.capacity = Some(Capacity {
            is_saturated: true,
            rate: 32.0,
            limit: Some(CapacityLimit::OneProcessor),
            asked: LoadLevel::default(),
            asked_connections: 100,
            carried: LoadLevel::default(),
            judged_connections: 1,
            judged_rate: None,
            idle_ns: 31_000_000,
            queue_ns: 0,
            served_at_once: 1.0,
            processors: None,
            levels: Vec::new(),
        });
        assert_eq!(
            overall(&report, &Ledger::default()).result,
            OverallResult::Saturated
        );
        report.exchanges.timeouts = 1;
        assert_eq!(
            overall(&report, &Ledger::default()).result,
            OverallResult::SomeFailed
        );
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
            overall(&report, &Ledger::default()).caveats,
            [
                Caveat::FewRequests,
                Caveat::UnexplainedTime,
                Caveat::PacketsDropped,
                Caveat::RequestsCut,
            ]
        );
        let nothing = overall(&Report::default(), &Ledger::default());
        assert!(nothing.caveats.is_empty());
    }

    #[test]
    fn nothing_found_is_not_said_of_what_was_not_judged() {
        let told = |change: &dyn Fn(&mut Report, &mut Ledger)| {
            let (mut report, mut ledger) = (report(50, 0.0), Ledger::default());
            change(&mut report, &mut ledger);
            overall(&report, &ledger).result
        };
        assert_eq!(told(&|_, _| {}), OverallResult::NothingFound);
        let not_judged = OverallResult::NotJudged;
        assert_eq!(
            told(&|report, _| report.notes.push(Remark {
                id: lookups::APART.to_owned(),
                text: String::new(),
            })),
            not_judged
        );
        assert_eq!(
            told(&|report, _| report.exchanges.statuses.push(StatusCount {
                status: SWITCHING.to_owned(),
                count: 1,
            })),
            not_judged
        );
        assert_eq!(told(&|_, ledger| ledger.doubtful.crossed = 50), not_judged);
        let unknown =
            |report: &mut Report| report.exchanges.waits = self::report(50, 0.9).exchanges.waits;
        assert_eq!(
            told(&|report, _| unknown(report)),
            OverallResult::Unexplained
        );
        let silent = |report: &mut Report| {
            unknown(report);
            report.notes.push(Remark {
                id: Remark::OWED_UNKNOWN.to_owned(),
                text: String::new(),
            });
        };
        assert_eq!(told(&|report, _| silent(report)), not_judged);
        let transfer = |inherent_ns| {
            let booking = Booking {
                kind: WaitKind::ResponseTransfer,
                owner: Owner::Path,
                booked_ns: 1_000_000_000,
                inherent_ns,
                claimed_ns: 0,
                unclaimed_ns: 0,
                claims: Vec::new(),
            };
            told(&|report, _| {
                report.account.push(Account {
                    service: String::new(),
                    requests: 50,
                    connections: 1,
                    exchanges: vec![booking.clone()],
                    setups: Vec::new(),
                });
            })
        };
        assert_eq!(transfer(600_000_000), not_judged);
        assert_eq!(transfer(400_000_000), OverallResult::NothingFound);
    }
}
