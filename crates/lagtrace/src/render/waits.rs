//! The waits of the requests, by owner and kind.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Exchanges, Finding, Report, WaitShare};

use super::page::{Page, Tone};
use super::table::{Align, Cell, Content, Table, cell, dim, plain};
use super::{quantity, verdict, words};

/// Width of a full bar, in columns.
const BAR: usize = 20;

/// Writes the waits, grouped by owner, the most costly first.
pub(super) fn write(page: &mut Page, report: &Report) {
    let exchanges = &report.exchanges;
    if exchanges.waits.is_empty() {
        return;
    }
    page.heading(&title(report));
    let twin = report.twin.as_ref().filter(|twin| twin.count > 0);
    let mut columns = vec![
        (Align::Left, "owner and wait"),
        (Align::Right, "per request"),
        (Align::Right, "share"),
        (Align::Bar(BAR), ""),
    ];
    if twin.is_some() {
        columns.insert(2, (Align::Right, "twin's"));
    }
    let mut table = Table::new(&columns);
    for (owner, waits) in owners(&exchanges.waits) {
        let whole = |side: &Exchanges| sum(side, |wait| wait.owner == owner);
        let part = waits.iter().map(|wait| wait.share).sum();
        table.row(row(
            cell(Tone::Strong, words::owner(owner)),
            part,
            exchanges,
            twin,
            whole,
        ));
        for wait in waits {
            let one = |side: &Exchanges| sum(side, |w| w.owner == owner && w.kind == wait.kind);
            let name = plain(format!("  {}", words::wait(wait.kind)));
            table.row(row(name, wait.share, exchanges, twin, one));
        }
    }
    page.table(2, &table);
}

/// Writes the table of the owners: a bar for each, and the wait that takes most of its time.
pub(super) fn by_owner(page: &mut Page, report: &Report) {
    let exchanges = &report.exchanges;
    let owners = owners(&exchanges.waits);
    if owners.is_empty() {
        return;
    }
    page.heading(&title(report));
    let mut table = Table::new(&[
        (Align::Name, "owner"),
        (Align::Right, "per request"),
        (Align::Right, "share"),
        (Align::Bar(BAR), ""),
        (Align::Left, "mostly"),
    ]);
    for (owner, waits) in owners {
        let part = waits.iter().map(|wait| wait.share).sum();
        let total = sum(exchanges, |wait| wait.owner == owner);
        table.row(vec![
            cell(Tone::Strong, words::owner(owner)),
            plain(quantity::duration(total / exchanges_of(exchanges))),
            plain(quantity::share(part)),
            (Tone::Plain, Content::Share(part)),
            plain(waits.first().map_or("", |wait| words::wait(wait.kind))),
        ]);
    }
    page.table(2, &table);
}

/// Returns the title of the table, with the time that it covers if that is not all time of all
/// requests.
pub(super) fn title(report: &Report) -> String {
    let exchanges = &report.exchanges;
    let of = exchanges_of(exchanges);
    let told = exchanges.count.saturating_add(exchanges.timeouts);
    // The waits also cover requests that were in flight when their client ended.
    let is_all = (told..=told.saturating_add(exchanges.cut)).contains(&of);
    let seen = (!is_all).then(|| match report.capture {
        Some(_) => format!("{} requests whose packets were seen", quantity::count(of)),
        None => format!("a sample of {} requests", quantity::count(of)),
    });
    let setup = report
        .causes()
        .any(verdict::includes_setup)
        .then(|| "connection setup not included".to_owned());
    let between = report
        .causes()
        .any(verdict::is_between)
        .then(|| "waits between requests not included".to_owned());
    let outside = report
        .causes()
        .any(|finding| is_outside(finding, exchanges))
        .then(|| "delays outside the capture point not included".to_owned());
    let parts = [seen, services(report, of), setup, between, outside];
    let parts = parts.into_iter().flatten();
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        "Where the time went".to_owned()
    } else {
        format!("Where the time went ({})", parts.join("; "))
    }
}

/// Returns true if a request loses more time to the finding than the longest request took: that
/// time passed before the requests reached the capture point, or after their responses had left it.
fn is_outside(finding: &Finding, exchanges: &Exchanges) -> bool {
    let is_elsewhere = verdict::includes_setup(finding) || verdict::is_between(finding);
    let each = finding.extent.map_or(0, |extent| extent.each_ns);
    finding.unit.is_requests() && !is_elsewhere && each > exchanges.latency_ns.max
}

/// Returns words for the services whose requests are counted together, if there are several. A
/// proxied request is one request to the proxy and another one to its upstream.
fn services(report: &Report, of: u64) -> Option<String> {
    let all = report.account.iter();
    let all = all.fold(0_u64, |sum, one| sum.saturating_add(one.requests));
    let services = report.account.len();
    let is_passed_on = |finding: &Finding| {
        matches!(
            finding.cause,
            Id::DownstreamWait
                | Id::ProxyBuffering
                | Id::SplitConnectionProxy
                | Id::UpstreamConnectionChurn
        )
    };
    (services > 1 && all == of).then(|| {
        if report.causes().any(is_passed_on) {
            format!("{services} services, both legs of proxied requests")
        } else {
            format!("{services} services together")
        }
    })
}

/// Returns the owners with their shares, the greatest first, and the longest wait
/// of each: `Time: server 71 % (thinking before the response), path 29 % (network transit)`.
pub(super) fn in_a_line(exchanges: &Exchanges) -> Option<String> {
    let each = owners(&exchanges.waits).into_iter().map(|(owner, waits)| {
        let part = waits.iter().map(|wait| wait.share).sum();
        let most = waits.first().map_or("", |wait| words::wait(wait.kind));
        format!("{} {} ({most})", words::owner(owner), quantity::share(part))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("Time: {}", each.join(", ")))
}

fn row(
    name: Cell,
    part: f64,
    subject: &Exchanges,
    twin: Option<&Exchanges>,
    total: impl Fn(&Exchanges) -> u64,
) -> Vec<Cell> {
    let is_owner = name.0 == Tone::Strong;
    let each = |side: &Exchanges| match total(side) {
        0 => "–".to_owned(),
        total => quantity::duration(total / exchanges_of(side)),
    };
    let mut cells = vec![name, plain(each(subject))];
    cells.extend(twin.map(|twin| dim(each(twin))));
    cells.push(plain(quantity::share(part)));
    cells.push(if is_owner {
        plain("")
    } else {
        (Tone::Plain, Content::Share(part))
    });
    cells
}

/// Returns the number of exchanges that the waits belong to, at least 1.
pub(super) fn exchanges_of(side: &Exchanges) -> u64 {
    match side.waits_of {
        0 => side.count.saturating_add(side.timeouts).max(1),
        of => of,
    }
}

fn sum(side: &Exchanges, is_wanted: impl Fn(&WaitShare) -> bool) -> u64 {
    let wanted = side.waits.iter().filter(|wait| is_wanted(wait));
    wanted.fold(0, |sum: u64, wait| sum.saturating_add(wait.total_ns))
}

/// Groups the waits by owner, both in order of decreasing time.
pub(super) fn owners(waits: &[WaitShare]) -> Vec<(Owner, Vec<&WaitShare>)> {
    let mut owners: Vec<(Owner, Vec<&WaitShare>)> = Vec::new();
    for wait in waits.iter().filter(|wait| wait.total_ns > 0) {
        match owners.iter_mut().find(|(owner, _)| *owner == wait.owner) {
            Some((_, group)) => group.push(wait),
            None => owners.push((wait.owner, vec![wait])),
        }
    }
    for (_, group) in &mut owners {
        group.sort_by_key(|wait| std::cmp::Reverse(wait.total_ns));
    }
    let total = |group: &[&WaitShare]| {
        group
            .iter()
            .fold(0_u64, |s, w| s.saturating_add(w.total_ns))
    };
    owners.sort_by_key(|(_, group)| std::cmp::Reverse(total(group)));
    owners
}

#[cfg(test)]
mod tests {
    use lagtrace_core::exchange::wait::WaitKind;
    use lagtrace_core::report::Capture;

    use super::*;
    use crate::render::{Length, Style};

    /// The load generator counts the requests that it made. The capture may contain the packets of
    /// fewer requests, or those of the experiments as well.
    #[test]
    fn waits_are_divided_among_the_requests_that_they_are_of() {
        let mut report = Report::default();
        report.exchanges.count = 1_500;
        report.exchanges.waits_of = 3_000;
        report.exchanges.waits = vec![WaitShare {
            kind: WaitKind::ResponseHeld,
            owner: Owner::Server,
            total_ns: 3_000 * 43_000_000,
            share: 1.0,
        }];
        let captured = Some(Capture::default());
        for (capture, of) in [
            (captured, "3,000 requests whose packets were seen"),
            (None, "a sample of 3,000 requests"),
        ] {
            report.capture = capture;
            let mut page = Page::new(&Style {
                width: 100,
                color: false,
                ascii: false,
                length: Length::Screen,
            });
            write(&mut page, &report);
            let text = page.finish();
            assert!(text.contains(of), "{text}");
            assert!(text.contains("43.0 ms"), "{text}");
        }
    }
}
