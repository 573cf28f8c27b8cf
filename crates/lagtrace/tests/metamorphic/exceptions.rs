//! Exceptions: diagnoses that may differ after a change, because the change removes their evidence.

use lagtrace_core::registry::Id;

use crate::corpus::Loaded;
use crate::outcome::Outcome;

/// Causes and places that only complete messages show: HTTP/2 frames, TLS records and flights,
/// bodies, and answers of name servers.
const IN_MESSAGES: &[Id] = &[
    Id::CompressionCost,
    Id::DnsTcpFallback,
    Id::Http2FlowControl,
    Id::TimeInSetup,
    Id::TlsLargeCertificate,
    Id::TlsRecordBuffering,
    Id::TlsRevocationFetch,
    Id::TlsRoundTrips,
    Id::TlsSlowHandshake,
];

/// Causes for which the heads of messages are enough.
const IN_HEADS: &[Id] = &[
    Id::CloseDelimitedBody,
    Id::DnsParallelQueryLoss,
    Id::DnsRetry,
    Id::DnsSearchList,
    Id::DnsSlowResolver,
    Id::ExpectContinue,
    Id::HeadOfLineBlocking,
    Id::Ipv6Fallback,
    Id::NotHttp,
    Id::RedirectChain,
    Id::TimeInResolver,
];

/// Causes whose evidence is the IP identifications of segments that were lost before the capture
/// point, or that changed places. A gap in the sender's numbers shows that a segment was lost, even
/// if no copy of it was captured, and whether its retransmission was lost too. The numbers also
/// show which of two reordered segments was sent first. If no number is missing, a late end of a
/// response was held back by the sender, not retransmitted after a timeout.
const IN_NUMBERS: &[Id] = &[
    Id::CorkHold,
    Id::LostRetransmission,
    Id::PacketLoss,
    Id::Policer,
    Id::Reordering,
];

/// Causes whose evidence is that requests for the same target are answered quickly at other times.
const IN_TARGETS: &[Id] = &[Id::StopTheWorld];

/// Changes, by the beginnings of their names, and the causes whose evidence they remove. A change
/// of the identifications, or to IPv6, removes the numbers of segments. A short snaplen removes the
/// targets of requests.
const TAKEN: &[(&str, &[Id])] = &[
    ("identifications", IN_NUMBERS),
    ("the other version of IP", IN_NUMBERS),
    ("snaplen that leaves headers", IN_TARGETS),
];

/// Returns true if the change removes the evidence of the first finding.
pub(crate) fn takes_evidence(outcome: &Outcome) -> bool {
    let first = outcome.before.first.map(|first| first.cause);
    TAKEN.iter().any(|(change, causes)| {
        outcome.change.starts_with(change) && first.is_some_and(|first| causes.contains(&first))
    })
}

/// Returns true if the first finding or the recording's truth is about the clients' ports. Such a
/// capture cannot get other ports, because the ports are the fault.
pub(crate) fn is_of_ports(it: &Loaded<'_>) -> bool {
    is_about(it, &[Id::PortExhaustion])
}

/// Returns true if the path does not deliver full segments. Captured segments that were joined from
/// smaller ones must then not be cut into full ones.
pub(crate) fn takes_no_full_segments(it: &Loaded<'_>) -> bool {
    is_about(it, &[Id::MtuBlackHole])
}

/// Returns true if the first finding and the recording's truth are visible without the bodies of
/// messages.
pub(crate) fn shows_without_messages(it: &Loaded<'_>) -> bool {
    !is_about(it, IN_MESSAGES)
}

pub(crate) fn shows_without_heads(it: &Loaded<'_>) -> bool {
    shows_without_messages(it) && !is_about(it, IN_HEADS)
}

fn is_about(it: &Loaded<'_>, causes: &[Id]) -> bool {
    let first = it.said.first.map(|first| first.cause);
    let truth = it.label.truth.expected.iter().flat_map(|one| &one.cause);
    first
        .iter()
        .chain(truth)
        .any(|cause| causes.contains(cause))
}

/// Changes after which the first finding of some captures may differ.
struct Exception {
    /// The changes, by the beginnings of their names.
    changes: &'static [&'static str],
    /// The scenarios, by the beginnings of their names.
    of: &'static [&'static str],
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        changes: &["identifications", "the other version of IP"],
        of: &["packet-loss-to-server", "tail-loss-probe"],
        reason: "that a segment was lost before it came here shows only where each connection \
                 numbers its packets",
    },
    Exception {
        changes: &["snaplen that leaves headers"],
        of: &["client-reset", "early-response", "tls-resumed"],
        reason: "what was asked and what was answered shows in the heads of messages",
    },
    Exception {
        changes: &["snaplen"],
        of: &["cpu-quota", "pipelined", "tls-resumed"],
        reason: "where an answer ends that is cut shows in its whole head only",
    },
    Exception {
        changes: &["without its begin"],
        of: &[
            "closes-at-once",
            "dns-",
            "http2-flow-control",
            "syn-queue-full",
            "tls-healthy",
            "tls-slow-handshake",
            "traffic-flood",
            "upstream-connection-churn",
        ],
        reason: "what is gone is a part of the few lookups, SYNs or connections that show it",
    },
    Exception {
        changes: &["a healthy capture beside it"],
        of: &["ack-thinning", "packet-filter-cost", "tls-healthy"],
        reason: "time that no cause explains is told by its share of all time, and there is more",
    },
    Exception {
        changes: &["stamps off", "directions off", "segments cut"],
        of: &["socket-memory-pressure"],
        reason: "what is wrong shows at neither end, and which of two guesses is told first hangs \
                 on one repetition of 1,769 packets",
    },
    Exception {
        changes: &["timestamps of a slower clock"],
        of: &[
            "ack-thinning",
            "healthy-postgres",
            "mtu-with-icmp",
            "path-jitter",
            "qdisc-dwell",
            "radio-power-save",
            "reordering",
            "route-change",
        ],
        reason: "a clock of 100 Hz does not show what queued for less than some of its ticks, nor, \
                 before a few of them, that it ticks so",
    },
    Exception {
        changes: &["a moment in which"],
        of: &["connect-then-wait", "slow-first-request"],
        reason: "a server that stands still at its first answers is what a cold start is, and it \
                 is said so as possible",
    },
    Exception {
        changes: &["a moment in which"],
        of: &["pipelined"],
        reason: "what is asked for without waiting does wait behind a response that is late",
    },
    // The following changes remove no evidence. These are known weaknesses of the diagnosis.
    Exception {
        changes: &["timestamps of a slower clock"],
        of: &[
            "autocorking",
            "cold-start",
            "compression-cost",
            "cpu-quota",
            "downstream-wait",
            "proxy-buffering",
            "rate-limit",
            "tls-healthy",
            "tls-slow-handshake",
            "upstream-connection-churn",
            "worker-saturation",
        ],
        reason: "open: the first answers of all connections come before the tick of 100 Hz is told",
    },
    Exception {
        changes: &["directions off", "stamps off"],
        of: &[
            "mtu-with-icmp",
            "pacing-fast",
            "stale-keep-alive-reset",
            "syn-queue-full",
            "time-wait-clash",
        ],
        reason: "open: order that rests on less than 20 µs",
    },
    Exception {
        changes: &["in microseconds"],
        of: &["reordering"],
        reason: "open: segments a microsecond apart come at one time",
    },
    Exception {
        changes: &["segments joined"],
        of: &["qdisc-dwell-at-times"],
        reason: "open: a queue that fills at times is taken for a low rate of the same path",
    },
    Exception {
        changes: &["in pieces"],
        of: &["packet-loss", "receive-window", "stop-the-world"],
        reason: "open: where the stamps of two pieces overlap, what is on their border is read in \
                 the order of the stamps, and an exchange is lost",
    },
];

/// Returns the reason why this outcome may differ from the one before the change; `None` if it must
/// not.
pub(crate) fn reason(outcome: &Outcome) -> Option<&'static str> {
    let is_one = |list: &[&str], name: &str| list.iter().any(|begin| name.starts_with(begin));
    let fits =
        |one: &&Exception| is_one(one.changes, outcome.change) && is_one(one.of, &outcome.subject);
    EXCEPTIONS.iter().find(fits).map(|one| one.reason)
}
