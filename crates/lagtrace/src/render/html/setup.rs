//! The time before the requests: a bar for the connection setup of each service, by owner and kind
//! of wait, and a table with the same figures.

use lagtrace_core::report::{Account, Report, WaitShare};

use super::shares::{Length, bar, legend, owner_class};
use super::verdict::folded;
use super::writer::Html;
use crate::render::{quantity, words};

/// Maximum number of services that are drawn.
const MAX_SERVICES: usize = 8;

/// The connection setup of a service.
struct Setup<'a> {
    account: &'a Account,
    /// The bookings, with their shares of the service's setup.
    waits: Vec<WaitShare>,
}

impl<'a> Setup<'a> {
    /// Returns the setup of a service; `None` if it took no time that was seen.
    fn of(account: &'a Account) -> Option<Self> {
        let bookings = account.setups.iter();
        let total: f64 = bookings.clone().map(|it| it.booked_ns as f64).sum();
        let waits = bookings.map(|booking| WaitShare {
            kind: booking.kind,
            owner: booking.owner,
            total_ns: booking.booked_ns,
            share: booking.booked_ns as f64 / total,
        });
        (total > 0.0).then(|| Self {
            account,
            waits: waits.filter(|wait| wait.total_ns > 0).collect(),
        })
    }

    /// Returns a time divided by the number of connections; `None` if none of them was seen.
    fn per_connection(&self, total_ns: u64) -> Option<String> {
        let each = total_ns.checked_div(self.account.connections)?;
        Some(quantity::duration(each))
    }

    /// Returns the mean setup of a connection; `None` if no connection was seen.
    fn mean_ns(&self) -> Option<u64> {
        let times = self.waits.iter().map(|wait| wait.total_ns);
        let total = times.fold(0, u64::saturating_add);
        total.checked_div(self.account.connections)
    }

    fn caption(&self) -> String {
        let Account {
            service,
            connections,
            ..
        } = self.account;
        let Some(mean) = self.mean_ns().map(quantity::duration) else {
            return service.clone();
        };
        let count = quantity::counted(*connections, "connection", "connections");
        format!("{service}: {count}, mean {mean}")
    }
}

/// Returns true if the report knows time before the requests.
pub(super) fn is_seen(report: &Report) -> bool {
    report.account.iter().any(|it| Setup::of(it).is_some())
}

/// Writes the bars and their table; nothing if no setup was seen.
pub(super) fn write(html: &mut Html, report: &Report) {
    let seen = report.account.iter().filter_map(Setup::of);
    let mut setups: Vec<Setup<'_>> = seen.collect();
    let left_out = setups.len().saturating_sub(MAX_SERVICES);
    setups.truncate(MAX_SERVICES);
    if setups.is_empty() {
        return;
    }
    html.leaf("h3", &[], "Before the requests");
    let others = match left_out {
        0 => String::new(),
        count => format!(
            " {} not shown.",
            quantity::counted(count as u64, "more service is", "more services are")
        ),
    };
    html.leaf(
        "p",
        &[],
        &format!("Lookups, TCP and TLS handshakes and failed attempts to connect.{others}"),
    );
    legend(html, setups.iter().flat_map(|setup| &setup.waits));
    let longest_ns = setups.iter().filter_map(Setup::mean_ns).max();
    let longest_ns = longest_ns.unwrap_or_default();
    for setup in &setups {
        html.element("figure", &[("class", "part")], |html| {
            html.leaf("figcaption", &[], &setup.caption());
            let ns = setup.mean_ns();
            bar(html, &setup.waits, Length { ns, longest_ns });
        });
    }
    folded(html, "table", "As a table: connection setup", |html| {
        table(html, &setups);
    });
}

fn table(html: &mut Html, setups: &[Setup<'_>]) {
    let scrolled = [("class", "scroll"), ("tabindex", "0")];
    html.element("div", &scrolled, |html| {
        html.element("table", &[("class", "twin")], |html| {
            html.leaf("caption", &[], "Connection setup by owner and kind of wait");
            html.element("thead", &[], head);
            html.element("tbody", &[], |html| {
                for setup in setups {
                    for wait in &setup.waits {
                        line(html, setup, wait);
                    }
                }
            });
        });
    });
}

fn head(html: &mut Html) {
    html.element("tr", &[], |html| {
        for title in ["service", "owner", "wait"] {
            html.leaf("th", &[("scope", "col")], title);
        }
        for title in ["total", "per connection", "share"] {
            html.leaf("th", &[("scope", "col"), ("class", "number")], title);
        }
    });
}

fn line(html: &mut Html, setup: &Setup<'_>, wait: &WaitShare) {
    html.element("tr", &[("class", owner_class(wait.owner))], |html| {
        html.leaf("th", &[("scope", "row")], &setup.account.service);
        html.leaf("td", &[], words::owner(wait.owner));
        html.leaf("td", &[], words::wait(wait.kind));
        let value = wait.total_ns.to_string();
        let exact = [("class", "number"), ("data-ns", &*value)];
        html.leaf("td", &exact, &quantity::duration(wait.total_ns));
        let each = setup.per_connection(wait.total_ns);
        html.classed("td", "number", &each.unwrap_or_else(|| "–".to_owned()));
        html.classed("td", "number", &quantity::share(wait.share));
    });
}
