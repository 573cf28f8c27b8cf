//! Hostile texts through all renderers.

use std::sync::Arc;

use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::report::{ExchangeRecord, Exemplar, Hop, Report, Route};
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_core::views::compare::compare;

use super::hostile::{self, ILL, UNSEEN};
use super::{FULL, PLAIN};
use crate::render::{self, Browsed, Length, Style, Watching};

fn record() -> ExchangeRecord {
    let ill = ILL.to_owned();
    ExchangeRecord {
        r#type: "exchange".to_owned(),
        capture: ill.clone(),
        stream: None,
        ordinal: 0,
        status: None,
        cost_ns: 5_000_000,
        setup_ns: None,
        response_bytes: 0,
        exchange: Exemplar {
            client: ill.clone(),
            server: ill.clone(),
            request: ill.clone(),
            outcome: ill,
            start_ns: 0,
            latency_ns: 5_000_000,
            first_packet: None,
            last_packet: None,
            waits: Vec::new(),
            at_host: Vec::new(),
        },
        recoveries: Vec::new(),
    }
}

/// Adds a route to a report.
fn with_route(mut report: Report) -> Report {
    let ill = || ILL.to_owned();
    report.route = Some(Route {
        target: ill(),
        method: ill(),
        outcome: ill(),
        ..Route::default()
    });
    report.hops = vec![Hop {
        ttl: 1,
        sent: 3,
        received: 3,
        address: Some(ill()),
        name: Some(ill()),
        as_name: Some(ill()),
        ..Hop::default()
    }];
    report
}

/// Returns what the user can see of single exchanges: the list, and one of them with a message.
fn browsed(style: &Style) -> String {
    let list = [Arc::new(record())];
    let shown = |is_opened| {
        let browsed = Browsed {
            list: &list,
            selected: 0,
            is_opened,
            of: 1,
            condition: Some(ILL),
            typed: Some(ILL),
            message: ILL,
        };
        render::browsed(&browsed, 30, style)
    };
    shown(false) + &shown(true)
}

fn watching(report: &Report, style: &Style) -> String {
    let watching = Watching {
        rate: 1.0,
        latest: &Distribution::from_buckets([(5_000_000, 1)]),
        tally: &WatchTally::default(),
        report: Some(report),
        has_keys: true,
    };
    render::watching(&watching, style)
}

#[test]
fn no_renderer_passes_on_what_a_terminal_would_obey() {
    let report = with_route(hostile::report());
    let traced = Report {
        command: "route".to_owned(),
        ..report.clone()
    };
    let comparison = compare(&report, &report);
    let brief = Style {
        length: Length::Brief,
        ..PLAIN
    };
    for style in [&PLAIN, &FULL, &brief] {
        for (name, shown) in [
            ("report", render::text(&report, style)),
            ("route", render::text(&traced, style)),
            ("load", render::load(&report, style)),
            ("probes", render::probes(&report, style)),
            ("live", render::live(&report, style)),
            ("hops", render::hops(&report.hops, style)),
            ("watching", watching(&report, style)),
            ("browsed", browsed(style)),
            ("exchanges", render::exchanges(&[&record()], 1, 1, style)),
            ("comparison", render::comparison(&comparison, style)),
            ("csv", render::route_csv(&report).replace("\r\n", "\n")),
        ] {
            let is_bad = |&c: &char| c != '\n' && (c.is_control() || UNSEEN.contains(&c));
            assert_eq!(shown.chars().find(is_bad), None, "{name}: {shown}");
            assert!(!shown.lines().any(|line| line.starts_with("evil")));
        }
    }
}
