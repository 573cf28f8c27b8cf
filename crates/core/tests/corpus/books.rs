//! Checks of the account of time: it adds up, and the report mentions all material unclaimed time.

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Account, Booking, LayerState, Remark, Report};

/// A finding must name the place of unclaimed time that is at least this share of the service's
/// time, and at least this mean per request.
const SHARE: f64 = 0.05;
const MEAN_NS: u64 = 1_000_000;
/// Below this mean time, unexplained time may be a remark.
const NOTICED_NS: u64 = 10_000_000;
/// A finding must name the place of unclaimed time only if the time is at least this share of the
/// time of all services.
const OF_ALL: f64 = 0.01;
/// Minimum time that remains on a path if throughput is predicted.
const LEAST_PATH_NS: u64 = 1_000_000;
/// Maximum number of findings in a report.
const MAX_FINDINGS: usize = 32;

/// Returns the first fault of the account of `report`; `None` if there is none.
pub(crate) fn account_fault(report: &Report) -> Option<String> {
    let unbalanced = report.account.iter().find_map(unbalanced);
    unbalanced
        .or_else(|| overclaimed(report))
        .or_else(|| untold(report))
        .or_else(|| cleared(report))
        .or_else(|| overpromised(report))
}

/// Returns the fault if a higher throughput is predicted although no path takes the rest of the time:
/// how much more the hosts carry was not measured.
fn overpromised(report: &Report) -> Option<String> {
    let promising = report.findings.iter().find(|finding| {
        let prediction = finding.predicted.as_ref();
        prediction.is_some_and(|after| {
            let longest = after.latency_ns.p99.saturating_add(after.outside_ns);
            after.closed_loop_rate.is_some() && longest < LEAST_PATH_NS
        })
    })?;
    Some(format!("{} promises throughput", promising.cause.as_str()))
}

fn bookings(account: &Account) -> impl Iterator<Item = &Booking> {
    account.exchanges.iter().chain(&account.setups)
}

fn sum<'a>(bookings: impl Iterator<Item = &'a Booking>, of: impl Fn(&Booking) -> u64) -> u64 {
    bookings.fold(0, |sum, booking| sum.saturating_add(of(booking)))
}

fn unbalanced(account: &Account) -> Option<String> {
    bookings(account).find_map(|booking| {
        let claims: u128 = booking
            .claims
            .iter()
            .map(|c| u128::from(c.claimed_ns))
            .sum();
        let parts = u128::from(booking.inherent_ns)
            + u128::from(booking.claimed_ns)
            + u128::from(booking.unclaimed_ns);
        let is_wrong =
            parts != u128::from(booking.booked_ns) || claims != u128::from(booking.claimed_ns);
        is_wrong.then(|| format!("{} does not balance: {booking:?}", account.service))
    })
}

/// Returns the fault if a finding claims more than it costs, or if the shares of all findings
/// exceed the whole.
fn overclaimed(report: &Report) -> Option<String> {
    let claimed = |finding: &lagtrace_core::report::Finding| {
        finding.location.as_ref().map_or(0, |at| at.claimed_ns)
    };
    let dear = report
        .causes()
        .find(|finding| finding.cost_ns > 0 && claimed(finding) > finding.cost_ns);
    if let Some(finding) = dear {
        return Some(format!("{} claims more than it costs", finding.cause));
    }
    let shares: f64 = report
        .findings
        .iter()
        .filter_map(|finding| Some(finding.location.as_ref()?.share))
        .sum();
    (shares > 1.0 + 1e-9).then(|| format!("the shares add up to {shares}"))
}

/// Returns the fault if a layer is cleared although unexplained time is in it, or may be.
fn cleared(report: &Report) -> Option<String> {
    report.places().find_map(|place| {
        let own = place.cause.cause().layer.as_str();
        let names: &[&str] = match place.cause {
            Id::TimeUnknown => &["server", "transport"],
            _ => &[own],
        };
        let mut layers = report.layers.iter();
        let layer = layers.find(|layer| {
            names.contains(&layer.layer.as_str()) && layer.state == LayerState::Cleared
        })?;
        Some(format!("{} is cleared beside {}", layer.layer, place.cause))
    })
}

/// Returns an error message if a service has much unclaimed time and no finding says where that
/// time passed.
fn untold(report: &Report) -> Option<String> {
    let all = report.account.iter().flat_map(bookings);
    let whole: u128 = all.map(|booking| u128::from(booking.booked_ns)).sum();
    report.account.iter().find_map(|account| {
        let total = sum(bookings(account), |booking| booking.booked_ns);
        let is_told = report
            .places()
            .any(|place| place.service == account.service);
        let is_full = report.findings.len() >= MAX_FINDINGS;
        let places = [Owner::Server, Owner::Client, Owner::Path, Owner::Unknown].map(|owner| {
            let of_owner = account.exchanges.iter().filter(|booking| {
                booking.owner == owner && booking.kind != WaitKind::CongestionWindow
            });
            let most = sum(of_owner, |booking| booking.unclaimed_ns);
            (most, owner == Owner::Server)
        });
        let (most, is_servers) = places.into_iter().max().unwrap_or_default();
        // Time that is short, and a small part or the server's own work, is a remark.
        let is_short = most / account.requests.max(1) < NOTICED_NS;
        let is_small = is_short && (is_servers || most * 3 < total);
        let overall = report.overall.as_ref();
        let is_remarked = is_small
            && (overall.is_some_and(|overall| overall.unclaimed.is_some())
                || report.places().next().is_some());
        let is_material = most as f64 >= total as f64 * SHARE
            && most as f64 >= whole as f64 * OF_ALL
            && most / account.requests.max(1) >= MEAN_NS
            && most > 0;
        // A wait for a processor is a remark too, which names those who used them.
        let is_starved = is_servers
            && report
                .notes
                .iter()
                .any(|note| note.id == Remark::SHORT_OF_PROCESSORS);
        // So is a silence in which perhaps nobody owed an answer.
        let is_unowed = report
            .notes
            .iter()
            .any(|note| note.id == Remark::OWED_UNKNOWN && note.text.starts_with(&account.service));
        (is_material && !is_told && !is_full && !is_remarked && !is_starved && !is_unowed).then(
            || {
                format!(
                    "{most} ns of {} are nobody's and nobody says so",
                    account.service
                )
            },
        )
    })
}
