//! Statements of one report that must not contradict each other, on all captures of the corpus.

use lagtrace_core::exchange::wait::WaitKind;
use lagtrace_core::registry::{Id, LayerId};
use lagtrace_core::report::{Booking, Finding, Layer, LayerState, Prediction, Report};
use serde_json::Value;

use super::screens::CORPUS;

/// Nouns that follow a count in sentences.
const NOUNS: [&str; 16] = [
    "bytes",
    "connections",
    "exchanges",
    "handshakes",
    "losses",
    "lookups",
    "names",
    "others",
    "packets",
    "queries",
    "requests",
    "responses",
    "retransmissions",
    "segments",
    "SYNs",
    "times",
];
/// Minimum mean per request of avoidable time with which a layer must not be cleared, in
/// nanoseconds.
const LONG_NS: u128 = 1_000_000;
/// Below this mean time per request, and below a third of the time, unexplained time is a remark.
const NOTICED_NS: u128 = 10_000_000;
/// Divisor of the total time. A layer must not be cleared if its avoidable time is at least the
/// quotient.
const PARTS: u128 = 20;
/// The layers that are cleared by their time, each with its kinds of waits. Unexplained waits count
/// for each layer as well.
const LAYERS: [(LayerId, &[WaitKind]); 2] = [
    (
        LayerId::Server,
        &[WaitKind::ServerThink, WaitKind::ServerPause],
    ),
    (
        LayerId::Transport,
        &[
            WaitKind::RequestHeld,
            WaitKind::ResponseHeld,
            WaitKind::WindowFull,
            WaitKind::CongestionWindow,
            WaitKind::SendBuffer,
            WaitKind::Paced,
            WaitKind::Recovery,
        ],
    ),
];

/// Returns the prediction if it promises no improvement, or a deterioration.
fn unpromising(prediction: &Prediction) -> Option<String> {
    let then = prediction.latency_ns;
    let now = prediction.measured_ns?;
    let is_worse = then.p50 > now.p50 || then.p99 > now.p99;
    let is_same = then == now;
    let runs_down = prediction
        .closed_loop_rate
        .is_some_and(|(low, high)| low > high);
    (is_worse || is_same || runs_down).then(|| format!("{prediction:?}"))
}

/// Returns the avoidable part of a booking that may belong to `layer`: the unclaimed time, and the
/// time claimed by findings of the layer.
fn avoidable(booking: &Booking, layer: LayerId) -> u128 {
    let claims = booking.claims.iter();
    let own = claims.filter(|claim| claim.cause.cause().layer == layer);
    let own: u128 = own.map(|claim| u128::from(claim.claimed_ns)).sum();
    own + u128::from(booking.unclaimed_ns)
}

/// Returns true if the layer is cleared although most of the avoidable time may belong to it.
fn is_cleared_in_vain(report: &Report, layer: &Layer) -> bool {
    let Some((id, kinds)) = LAYERS.iter().find(|(id, _)| id.as_str() == layer.layer) else {
        return false;
    };
    let all = || {
        let accounts = report.account.iter();
        accounts.flat_map(|account| account.exchanges.iter().chain(&account.setups))
    };
    let whole: u128 = all().map(|booking| u128::from(booking.booked_ns)).sum();
    let inherent: u128 = all().map(|booking| u128::from(booking.inherent_ns)).sum();
    let requests: u64 = report.account.iter().map(|account| account.requests).sum();
    let exchanges = report.account.iter().flat_map(|account| &account.exchanges);
    let own = exchanges.filter(|b| kinds.contains(&b.kind) || b.kind == WaitKind::Unknown);
    let own: u128 = own.map(|booking| avoidable(booking, *id)).sum();
    layer.state == LayerState::Cleared
        && own * 2 > whole - inherent
        && own >= LONG_NS * u128::from(requests)
        && own * PARTS >= whole
        && (own >= NOTICED_NS * u128::from(requests)
            || (*id != LayerId::Server && own * 3 >= whole))
}

/// Returns true if the line of a cleared layer states a share of more than half of the time, and
/// calls it neither unavoidable nor little.
fn is_cleared_beside_a_share(layer: &Layer) -> bool {
    let mut words = layer.line.split(['(', ' ']);
    let share = words.clone().zip(words.by_ref().skip(1));
    let shares = share.filter(|(_, unit)| *unit == "%");
    let most = shares.filter_map(|(share, _)| share.parse::<f64>().ok());
    layer.state == LayerState::Cleared
        && most.fold(0.0, f64::max) > 50.0
        && !layer.line.contains("unavoidable")
        && !layer.line.contains("little time")
}

/// Adds the sentences of a report to `list`.
fn sentences<'a>(value: &'a Value, list: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => list.push(text),
        Value::Array(values) => values.iter().for_each(|value| sentences(value, list)),
        Value::Object(fields) => fields.values().for_each(|value| sentences(value, list)),
        _ => {}
    }
}

/// Returns a wrongly worded count in a sentence: 0, or 1 with a plural noun.
fn miscounted(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split([' ', '(', ')']).collect();
    let mut pairs = words.windows(2);
    pairs.find_map(|pair| match pair {
        [count @ ("0" | "1"), noun] => {
            let noun = noun.trim_end_matches([',', '.', ';', ':']);
            NOUNS.contains(&noun).then(|| format!("{count} {noun}"))
        }
        _ => None,
    })
}

/// Returns true if a sentence still has the name of a value, as `{took}`.
fn is_unfilled(sentence: &str) -> bool {
    let names = sentence.split('{').skip(1);
    let mut names = names.filter_map(|rest| Some(rest.split_once('}')?.0));
    names.any(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Returns true if the account claims less than 90 % of the time for which connections waited for
/// an address that does not answer.
fn is_unbooked(finding: &Finding) -> bool {
    let claimed = finding.location.as_ref().map_or(0, |at| at.claimed_ns);
    finding.cause == Id::Ipv6Fallback && claimed * 10 < finding.cost_ns * 9
}

/// Returns true if the finding on the number of connections claims time of the requests: only
/// connection setup is its cost.
fn claims_requests(report: &Report) -> bool {
    let exchanges = report.account.iter().flat_map(|account| &account.exchanges);
    let mut claims = exchanges.flat_map(|booking| &booking.claims);
    claims.any(|claim| claim.cause == Id::ConnectionNotReused)
}

fn faults(report: &Report) -> Vec<String> {
    let predictions = report.findings.iter().filter_map(|f| f.predicted.as_ref());
    let mut faults: Vec<String> = predictions.filter_map(unpromising).collect();
    let contradictory = report
        .layers
        .iter()
        .filter(|layer| is_cleared_in_vain(report, layer) || is_cleared_beside_a_share(layer));
    faults.extend(contradictory.map(|layer| format!("cleared: {} {}", layer.layer, layer.line)));
    let unbooked = report.findings.iter().filter(|f| is_unbooked(f));
    faults.extend(unbooked.map(|f| format!("not booked: {}", f.summary)));
    if claims_requests(report) {
        faults.push("connection setup claims the time of requests".to_owned());
    }
    let told = serde_json::json!([report.findings, report.layers, report.notes]);
    let mut list = Vec::new();
    sentences(&told, &mut list);
    let unfilled = list.iter().filter(|text| is_unfilled(text));
    faults.extend(unfilled.map(|text| format!("a name without a value: {text}")));
    let wrong = list
        .into_iter()
        .filter_map(|text| Some(format!("{}: {text}", miscounted(text)?)));
    faults.extend(wrong);
    faults
}

#[test]
fn no_report_contradicts_itself() {
    let mut all = Vec::new();
    for (name, report) in CORPUS.iter() {
        let faults = faults(report).into_iter();
        all.extend(faults.map(|fault| format!("{name}: {fault}")));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
