//! Exceptions: diagnoses that rest on what a change takes away.

use lagtrace_core::cause::Id;

use crate::corpus::Loaded;
use crate::outcome::Outcome;

/// Causes and places that only whole messages show: frames of HTTP/2, records and flights
/// of TLS, bodies, answers of name servers.
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

/// Causes that the heads of messages show.
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
];

/// Returns true if the first finding and the recording's truth can be seen without the bodies
/// of messages.
pub(crate) fn shows_without_messages(it: &Loaded<'_>) -> bool {
    !is_about(it, IN_MESSAGES)
}

pub(crate) fn shows_without_heads(it: &Loaded<'_>) -> bool {
    shows_without_messages(it) && !is_about(it, IN_HEADS)
}

fn is_about(it: &Loaded<'_>, causes: &[Id]) -> bool {
    let first = it.said.0.map(|first| first.cause);
    let truth = it.label.truth.expected.iter().flat_map(|one| &one.cause);
    first
        .iter()
        .chain(truth)
        .any(|cause| causes.contains(cause))
}

/// Changes after which the first finding of some captures may be another.
struct Exception {
    /// The changes, by the begin of their names.
    changes: &'static [&'static str],
    /// The scenarios, by the begin of their names.
    of: &'static [&'static str],
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        changes: &["identifications", "the other version of IP"],
        of: &[
            "case-on-lossy-path",
            "lost-retransmission",
            "mtu-black-hole",
            "packet-loss",
            "policer",
            "reordering-costly",
            "retransmission-timeout",
            "tail-loss-probe",
        ],
        reason: "that a segment was lost before it came here shows only where each connection \
                 numbers its packets",
    },
    Exception {
        changes: &["other addresses", "all ports"],
        of: &["port-exhaustion"],
        reason: "the fault is that the client's ports are a few neighbours",
    },
    Exception {
        changes: &["snaplen that leaves headers"],
        of: &["client-reset", "early-response", "tls-resumed"],
        reason: "what was asked and what was answered shows in the heads of messages",
    },
    Exception {
        changes: &["snaplen"],
        of: &["cpu-quota", "pipelined"],
        reason: "where an answer ends that is cut shows in its whole head only",
    },
    Exception {
        changes: &["without its begin"],
        of: &[
            "dns-",
            "http2-flow-control",
            "syn-queue-full",
            "upstream-connection-churn",
        ],
        reason: "what is gone is a part of the few lookups, SYNs or connections that show it",
    },
    // What follows is no loss of evidence: the diagnosis is to learn it.
    Exception {
        changes: &["timestamps of a slower clock"],
        of: &[""],
        reason: "open: a clock's rate is learned by each connection alone, too late for short ones",
    },
    Exception {
        changes: &["directions off"],
        of: &[""],
        reason: "open: a packet that released another may be stamped after it",
    },
    Exception {
        changes: &["stamps off"],
        of: &["client-queue-catch-up", "path-queueing", "syn-queue-full"],
        reason: "open: order that rests on less than 20 µs",
    },
    Exception {
        changes: &["snaplen that leaves headers", "in pieces"],
        of: &["stop-the-world"],
        reason: "open: of three standstills, one that is cut counts no more",
    },
    Exception {
        changes: &["segments cut"],
        of: &["mtu-black-hole", "socket-memory-pressure"],
        reason: "open: a repetition in parts is not taken for the same as in one",
    },
    Exception {
        changes: &["a healthy capture beside it"],
        of: &["healthy-"],
        reason: "open: behind another link's head one healthy capture shows losses",
    },
];

/// The reason why this outcome may differ from the one before; `None` if it may not.
pub(crate) fn reason(outcome: &Outcome) -> Option<&'static str> {
    let is_one = |list: &[&str], name: &str| list.iter().any(|begin| name.starts_with(begin));
    let fits =
        |one: &&Exception| is_one(one.changes, outcome.change) && is_one(one.of, &outcome.subject);
    EXCEPTIONS.iter().find(fits).map(|one| one.reason)
}
