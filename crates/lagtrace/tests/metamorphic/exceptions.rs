//! Where the diagnosis rests on what a change takes away.

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

/// Those that the heads of messages show.
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

/// Whether the first finding, or the recording's truth, can be seen without the rest of
/// the messages, and without their heads too.
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
        changes: &["directions off"],
        of: &[""],
        reason: "a packet that released another within 20 µs is stamped after it: no order of \
                 cause and effect is left at the host that reacted",
    },
];

/// Why this outcome may be another than before; `None` if it may not.
pub(crate) fn reason(outcome: &Outcome) -> Option<&'static str> {
    let is_one = |list: &[&str], name: &str| list.iter().any(|begin| name.starts_with(begin));
    let fits =
        |one: &&Exception| is_one(one.changes, outcome.change) && is_one(one.of, &outcome.subject);
    EXCEPTIONS.iter().find(fits).map(|one| one.reason)
}
