//! A traced route as comma-separated values (RFC 4180): a header line, then one line
//! per hop, as `mtr --csv` prints it.

use lagtrace_core::report::{Hop, HopState, Report};

use crate::render::escape::is_unsafe;

/// The names of the columns, in order.
const COLUMNS: [&str; 21] = [
    "target",
    "port",
    "method",
    "outcome",
    "hop",
    "address",
    "name",
    "asn",
    "as_name",
    "state",
    "loss_percent",
    "sent",
    "received",
    "last_ms",
    "avg_ms",
    "best_ms",
    "worst_ms",
    "stdev_ms",
    "p50_ms",
    "p99_ms",
    "kept_ms",
];

/// Returns the header line and the lines of the hops.
pub(in crate::render) fn lines(report: &Report) -> String {
    let mut text = line(COLUMNS.map(str::to_owned));
    for hop in &report.hops {
        text.push_str(&line(row(report, hop)));
    }
    text
}

fn row(report: &Report, hop: &Hop) -> [String; COLUMNS.len()] {
    let route = report.route.as_ref();
    let of_route = |text: Option<String>| text.unwrap_or_default();
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let lost = hop.sent.saturating_sub(hop.received);
    let rtt = &hop.rtt_ns;
    let ms = |ns: u64| match hop.received {
        0 => String::new(),
        _ => format!("{:.3}", ns as f64 / 1e6),
    };
    let last = hop.history_ns.iter().rev().find_map(|rtt| *rtt);
    [
        of_route(route.map(|route| route.target.clone())),
        of_route(route.and_then(|route| Some(route.port?.to_string()))),
        of_route(route.map(|route| route.method.clone())),
        of_route(route.map(|route| route.outcome.clone())),
        hop.ttl.to_string(),
        name(&hop.address),
        name(&hop.name),
        hop.asn.map(|asn| asn.to_string()).unwrap_or_default(),
        name(&hop.as_name),
        state(hop.state).to_owned(),
        format!("{:.2}", lost as f64 * 100.0 / hop.sent.max(1) as f64),
        hop.sent.to_string(),
        hop.received.to_string(),
        last.map(ms).unwrap_or_default(),
        ms(rtt.mean),
        ms(rtt.min),
        ms(rtt.max),
        ms(rtt.mdev),
        ms(rtt.p50),
        ms(rtt.p99),
        ms(hop.kept_ns),
    ]
}

/// Returns the name of a state, as in JSON.
fn state(state: HopState) -> &'static str {
    match state {
        HopState::Answers => "answers",
        HopState::Limited => "limited",
        HopState::Lossy => "lossy",
        HopState::Undecided => "undecided",
        HopState::Silent => "silent",
    }
}

fn line(fields: [String; COLUMNS.len()]) -> String {
    let fields = fields.map(|text| field(&text));
    format!("{}\r\n", fields.join(","))
}

/// Returns a field, quoted where necessary. Names come from the network: characters that a terminal
/// would interpret or hide are removed, and text that a spreadsheet would take for a formula gets a
/// leading apostrophe.
fn field(text: &str) -> String {
    let mut plain: String = text.chars().filter(|&c| !is_unsafe(c)).collect();
    if plain.starts_with(['=', '+', '-', '@']) {
        plain.insert(0, '\'');
    }
    if plain.contains([',', '"']) {
        format!("\"{}\"", plain.replace('"', "\"\""))
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::report::{ProbeFigures, Route};

    use super::*;

    #[test]
    fn every_line_has_all_columns_whatever_names_hold() {
        let hop = |ttl, received, as_name: &str| Hop {
            ttl,
            sent: 4,
            received,
            asn: Some(64_500),
            as_name: Some(as_name.to_owned()),
            rtt_ns: ProbeFigures {
                min: 1_250_000,
                ..ProbeFigures::default()
            },
            history_ns: vec![Some(1_500_000), None],
            ..Hop::default()
        };
        let report = Report {
            route: Some(Route {
                target: "192.0.2.1".to_owned(),
                port: Some(80),
                ..Route::default()
            }),
            hops: vec![hop(1, 3, "One, \"Ltd\""), hop(2, 0, "=cmd()\r\n\u{1b}[m")],
            ..Report::default()
        };
        let text = lines(&report);
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], COLUMNS.join(","));
        assert!(lines[1].contains(",64500,\"One, \"\"Ltd\"\"\",answers,25.00,4,3,1.500,"));
        assert!(lines[1].contains(",1.250,"), "{}", lines[1]);
        assert!(lines[2].contains(",'=cmd()[m,"), "{}", lines[2]);
        assert_eq!(lines[2].matches(',').count(), COLUMNS.len() - 1);
    }
}
