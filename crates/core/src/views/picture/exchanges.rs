//! The exchanges that the picture shows in full.

use core::cmp::Reverse;
use core::net::SocketAddr;
use core::ops::Range;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::about::About;
use super::kept::{Chosen, Kept, runs};
use crate::exchange::wait::WaitKind;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::nanos;
use crate::registry::Id;
use crate::report::{Exemplar, PicturedExchange, RecoveryRecord, Report, Unit, WaitSpan, Why};

/// The identity of an exchange in the report's terms: start, client, server and first packet.
type Key = (i64, Endpoint, Endpoint, Option<u64>);

/// Returns the exchanges in the order in which they began.
pub(super) fn exchanges(chosen: Chosen, about: &About, report: &Report) -> Vec<PicturedExchange> {
    let mut shown: BTreeMap<(Key, u64), PicturedExchange> = BTreeMap::new();
    for (is_slow, kept) in chosen.into_kept() {
        let (client, server) = (kept.example.client, kept.example.server);
        let Some(service) = about.services.of_server(server) else {
            continue;
        };
        let first = about.has_numbers.then(|| kept.example.first_packet());
        let key = (
            kept.identity.begin.as_nanos(),
            client,
            server,
            first.flatten(),
        );
        // The slowest come first, and an exchange stays as one of them.
        if let Entry::Vacant(place) = shown.entry((key, kept.identity.ordinal.into())) {
            let why = if is_slow { Why::Slowest } else { Why::Sample };
            let pictured = place.insert(pictured(*kept, service, why, &about.captures));
            if !about.has_numbers {
                pictured.forget_packets();
            }
        }
    }
    for (cause, exemplar) in examples(report) {
        let Some(key) = key(exemplar) else { continue };
        let from = (key, 0);
        let mut found = shown
            .range_mut(from..)
            .take_while(|((at, _), _)| *at == key);
        let is_same = |other: &Exemplar| other.latency_ns == exemplar.latency_ns;
        match found.find(|(_, pictured)| is_same(&pictured.exchange)) {
            Some((_, pictured)) => pictured.mark(cause),
            None => {
                if let Some(mut pictured) = of_report(exemplar, key.2, about) {
                    pictured.mark(cause);
                    shown.insert((key, u64::MAX), pictured);
                }
            }
        }
    }
    let mut list: Vec<PicturedExchange> = shown.into_values().collect();
    list.sort_by_key(|pictured| {
        (
            pictured.exchange.start_ns,
            Reverse(pictured.exchange.latency_ns),
        )
    });
    list
}

fn key(exemplar: &Exemplar) -> Option<Key> {
    let end = |text: &str| text.parse::<SocketAddr>().ok().map(Endpoint::from);
    let (client, server) = (end(&exemplar.client)?, end(&exemplar.server)?);
    Some((exemplar.start_ns, client, server, exemplar.first_packet))
}

/// Iterates over the report's examples, each with its cause if a finding shows it.
fn examples(report: &Report) -> impl Iterator<Item = (Option<Id>, &Exemplar)> {
    let findings = report.findings.iter();
    // Data outside exchanges has no place among them.
    let findings = findings.filter(|finding| finding.unit != Unit::Transfers);
    let of_findings = findings.flat_map(|finding| {
        let examples = finding.exemplars.iter();
        examples.map(|example| (Some(finding.cause), example))
    });
    let modes = report.exchanges.modes.iter();
    let others = modes.flat_map(|mode| &mode.exemplars);
    let others = others.chain(&report.exchanges.slowest);
    of_findings.chain(others.map(|example| (None, example)))
}

/// Returns an exchange in the form of the picture. `captures` are the names of the captures, each
/// with its first observation point, ascending.
pub(super) fn pictured(
    kept: Kept,
    service: u8,
    why: Why,
    captures: &[(PointId, String)],
) -> PicturedExchange {
    PicturedExchange {
        service,
        why,
        shows: Vec::new(),
        joined_waits: kept.joined_waits,
        capture: capture(kept.identity.point, captures),
        ordinal: Some(kept.identity.ordinal),
        status: kept.status,
        cost_ns: kept.cost_ns,
        setup_ns: kept.setup.map(nanos),
        response_bytes: Some(kept.response_bytes),
        recoveries: kept.recoveries.iter().map(RecoveryRecord::from).collect(),
        exchange: kept.example.exemplar(),
    }
}

/// Returns the name of the capture to which a point belongs.
fn capture(point: PointId, captures: &[(PointId, String)]) -> Option<String> {
    let after = captures.partition_point(|(first, _)| *first <= point);
    let own = after.checked_sub(1).and_then(|place| captures.get(place));
    own.map(|(_, name)| name.clone())
}

/// Returns an exchange of which only the report's example is known; `None` if its server has no
/// service in the picture.
fn of_report(exemplar: &Exemplar, server: Endpoint, about: &About) -> Option<PicturedExchange> {
    let held = exemplar.waits.iter().filter(|wait| {
        !matches!(
            wait.kind,
            WaitKind::RoundTrip | WaitKind::RequestTransfer | WaitKind::ResponseTransfer
        )
    });
    let mut exchange = exemplar.clone();
    if exchange.waits.len() > PicturedExchange::MAX_WAITS {
        exchange.waits = joined(&exemplar.waits);
    }
    Some(PicturedExchange {
        service: about.services.of_server(server)?,
        why: Why::Example,
        shows: Vec::new(),
        joined_waits: (exemplar.waits.len() - exchange.waits.len()) as u64,
        capture: match about.captures.as_slice() {
            [(_, only)] => Some(only.clone()),
            _ => None,
        },
        ordinal: None,
        status: exemplar.outcome.parse().ok(),
        cost_ns: held.map(|wait| wait.duration_ns).sum(),
        setup_ns: None,
        response_bytes: None,
        recoveries: Vec::new(),
        exchange,
    })
}

fn joined(waits: &[WaitSpan]) -> Vec<WaitSpan> {
    let durations: Vec<u64> = waits.iter().map(|wait| wait.duration_ns).collect();
    let join = |run: Range<usize>| {
        let run = waits.get(run)?;
        let longest = run.iter().rev().max_by_key(|wait| wait.duration_ns)?;
        let (first, last) = (run.first()?, run.last()?);
        Some(WaitSpan {
            duration_ns: run.iter().map(|wait| wait.duration_ns).sum(),
            error_ns: first.error_ns.max(last.error_ns),
            released_by_packet: last.released_by_packet,
            ..longest.clone()
        })
    };
    runs(&durations).into_iter().filter_map(join).collect()
}

impl PicturedExchange {
    /// Records that the exchange is an example.
    fn mark(&mut self, cause: Option<Id>) {
        self.why = Why::Example;
        if let Some(cause) = cause.filter(|cause| !self.shows.contains(cause)) {
            self.shows.push(cause);
        }
    }

    fn forget_packets(&mut self) {
        self.exchange.forget_packets();
        for recovery in &mut self.recoveries {
            recovery.packet = None;
        }
    }
}
