//! Packet comments on exchanges, for Wireshark.

use lagtrace_core::exchange::wait::WaitKind;
use lagtrace_core::report::{ExchangeRecord, WaitSpan};

use super::escape::escape;
use super::{quantity, words};

/// Minimum share of the exchange's latency at which a wait gets its own comment.
const WORTH_A_COMMENT: f64 = 0.05;
/// Maximum number of waits named at the end of the exchange.
const NAMED: usize = 3;

/// Returns comments on the exchange's packets, by packet number: on its first packet, on those
/// that end its long waits or repair losses, and on its last.
pub(crate) fn exchange_comments(record: &ExchangeRecord) -> Vec<(u64, String)> {
    let exchange = &record.exchange;
    let latency = quantity::duration(exchange.latency_ns);
    let request = if exchange.request.is_empty() {
        "exchange"
    } else {
        &exchange.request
    };
    let mut comments = Vec::new();
    let mut say = |packet: Option<u64>, text: String| {
        comments.extend(packet.map(|packet| (packet, harmless(&format!("lagtrace: {text}")))));
    };
    let outcome = &exchange.outcome;
    say(
        exchange.first_packet,
        format!("{request} begins; {latency}, {outcome}"),
    );
    for wait in exchange
        .waits
        .iter()
        .filter(|wait| is_worth_it(wait, exchange.latency_ns))
    {
        say(wait.released_by_packet, format!("ends {}", named(wait)));
    }
    for recovery in &record.recoveries {
        let took = quantity::duration(recovery.took_ns);
        let sender = words::owner(recovery.sender);
        say(
            recovery.packet,
            format!("repairs a loss of the {sender}'s data, which cost {took}"),
        );
    }
    let mut longest: Vec<&WaitSpan> = exchange.waits.iter().collect();
    longest.sort_by_key(|wait| std::cmp::Reverse(wait.duration_ns));
    let longest: Vec<String> = longest.into_iter().take(NAMED).map(named).collect();
    say(
        exchange.last_packet,
        format!(
            "{request} ends after {latency}, most of it {}",
            longest.join(", ")
        ),
    );
    comments
}

/// Returns `text` with characters escaped that could deceive a terminal or a reader.
pub(crate) fn harmless(text: &str) -> String {
    escape(text).into_owned()
}

fn is_worth_it(wait: &WaitSpan, latency_ns: u64) -> bool {
    let is_travel = matches!(
        wait.kind,
        WaitKind::RoundTrip | WaitKind::RequestTransfer | WaitKind::ResponseTransfer
    );
    !is_travel && wait.duration_ns as f64 >= WORTH_A_COMMENT * latency_ns as f64
}

/// Describes a wait: `43.1 ms server: response held for an ACK (Nagle)`.
fn named(wait: &WaitSpan) -> String {
    let took = quantity::duration(wait.duration_ns);
    format!(
        "{took} {}: {}",
        words::owner(wait.owner),
        words::wait(wait.kind)
    )
}
