//! What follows from a cause is its evidence, not a second cause beside it.

use crate::report::Finding;

/// How a consequence's time relates to its cause's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// It is more of the same: a path that loses data segments loses SYNs too.
    Besides,
    /// The cause has counted it already.
    Within,
}

/// Which finding is folded into which, where one service has both: the
/// consequence, its causes, and whose time the consequence counted.
///
/// A cause takes in only a consequence that it mostly explains; see [`EXPLAINED`].
const FOLLOWS: &[(&str, &[&str], Time)] = &[
    (
        "syn-loss",
        &[
            "path-member-fault",
            "packet-loss",
            "retransmission-timeout",
            "fast-retransmit",
        ],
        Time::Besides,
    ),
    // Requests queue behind the handshakes for the same processors.
    ("server-think", &["tls-slow-handshake"], Time::Besides),
    // Where most parts of requests are held, those whose release the capture
    // shows badly are held too.
    (
        "slow-request-upload",
        &["nagle-delayed-ack-request"],
        Time::Within,
    ),
    // A cork's timer, or a rate that was set, is not the program's own time.
    (
        "server-think",
        &["cork-hold", "compression-cost"],
        Time::Within,
    ),
    (
        "server-pause",
        &["cork-hold", "compression-cost"],
        Time::Within,
    ),
    ("server-pause", &["rate-limit"], Time::Within),
    // A program that waits for room in its buffer goes on with an acknowledgement,
    // which does not always show by what its last part was.
    ("server-pause", &["send-buffer"], Time::Within),
    // Threads that may not run stop wherever they are.
    (
        "server-pause",
        &["cpu-quota", "cpu-idle-wakeup"],
        Time::Besides,
    ),
    // Losses on one member of the path, or of one size of packet, are not
    // losses of the path.
    (
        "packet-loss",
        &["mtu-black-hole", "path-member-fault", "policer"],
        Time::Within,
    ),
    (
        "retransmission-timeout",
        &["mtu-black-hole", "path-member-fault", "policer"],
        Time::Within,
    ),
    (
        "lost-retransmission",
        &[
            "mtu-black-hole",
            "path-member-fault",
            "policer",
            "accept-queue-overflow",
            "stale-keep-alive",
        ],
        Time::Within,
    ),
    ("fast-retransmit", &["policer"], Time::Within),
    // Where the way to the server is late, its answers are.
    (
        "server-think",
        &["radio-power-save", "path-jitter", "qdisc-dwell"],
        Time::Within,
    ),
    // What fills a link or a device queues before it; what is late after pauses
    // only is no queue.
    (
        "path-queueing",
        &["bandwidth-limit", "radio-power-save", "qdisc-dwell"],
        Time::Within,
    ),
    ("path-jitter", &["qdisc-dwell"], Time::Within),
    // What a socket has no room for comes again by a timer, at a window that is
    // closed by then; the request had been seen whole before it.
    ("server-think", &["socket-memory-pressure"], Time::Within),
    ("cork-hold", &["socket-memory-pressure"], Time::Within),
    ("zero-window", &["socket-memory-pressure"], Time::Within),
    ("receive-window", &["socket-memory-pressure"], Time::Within),
    (
        "slow-request-upload",
        &["socket-memory-pressure"],
        Time::Within,
    ),
    ("packet-loss", &["socket-memory-pressure"], Time::Within),
    ("fast-retransmit", &["socket-memory-pressure"], Time::Within),
    ("tail-loss-probe", &["socket-memory-pressure"], Time::Within),
    (
        "lost-retransmission",
        &["socket-memory-pressure"],
        Time::Within,
    ),
    (
        "retransmission-timeout",
        &["socket-memory-pressure"],
        Time::Within,
    ),
    (
        "spurious-retransmission",
        &["socket-memory-pressure"],
        Time::Within,
    ),
    // Connections that are not kept because the server closes them too soon.
    ("connection-not-reused", &["stale-keep-alive"], Time::Within),
    // Connections that wait to be accepted repeat their requests and look like
    // a server that thinks.
    ("server-think", &["accept-queue-overflow"], Time::Within),
    (
        "retransmission-timeout",
        &["accept-queue-overflow", "stale-keep-alive"],
        Time::Within,
    ),
    (
        "packet-loss",
        &["accept-queue-overflow", "stale-keep-alive"],
        Time::Within,
    ),
    (
        "tail-loss-probe",
        &["policer", "accept-queue-overflow", "stale-keep-alive"],
        Time::Within,
    ),
];

/// The part of a consequence's time that its cause must account for, where it
/// has counted the same time.
const EXPLAINED: f64 = 0.5;

/// Folds each consequence into the first of its causes that was found.
pub(super) fn fold(findings: &mut Vec<Finding>) {
    drop_abandoned(findings);
    for &(consequence, causes, time) in FOLLOWS {
        while let Some((at, root)) = pair(findings, consequence, causes, time) {
            let folded = findings.remove(at);
            let root = if root > at { root - 1 } else { root };
            if let Some(root) = findings.get_mut(root) {
                take_in(root, folded, time);
            }
        }
    }
}

/// Where a consequence and its cause stand, for one service.
fn pair(
    findings: &[Finding],
    consequence: &str,
    causes: &[&str],
    time: Time,
) -> Option<(usize, usize)> {
    findings
        .iter()
        .enumerate()
        .filter(|(_, finding)| finding.cause == consequence)
        .find_map(|(at, finding)| {
            let root = causes.iter().find_map(|cause| {
                findings.iter().position(|other| {
                    other.cause == *cause
                        && other.service == finding.service
                        && explains(other, finding, time)
                })
            });
            root.map(|root| (at, root))
        })
}

fn explains(cause: &Finding, consequence: &Finding, time: Time) -> bool {
    time == Time::Besides || cause.cost_ns as f64 >= consequence.cost_ns as f64 * EXPLAINED
}

fn take_in(root: &mut Finding, folded: Finding, time: Time) {
    if time == Time::Besides {
        root.cost_ns = root.cost_ns.saturating_add(folded.cost_ns);
        root.cost_low_ns = root.cost_low_ns.saturating_add(folded.cost_low_ns);
        root.cost_high_ns = root.cost_high_ns.saturating_add(folded.cost_high_ns);
    }
    root.evidence.extend(folded.evidence);
}

/// An IPv6 address that clients turned away from is silent: that is the
/// fallback's evidence, not a second cause.
fn drop_abandoned(findings: &mut Vec<Finding>) {
    let port = |service: &str| service.rsplit_once(':').map(|(_, port)| port.to_owned());
    let is_fallback = |f: &&Finding| f.cause == "ipv6-fallback";
    let ports: Vec<_> = findings
        .iter()
        .filter(is_fallback)
        .map(|f| port(&f.service))
        .collect();
    findings.retain(|f| {
        let is_v6 = f.service.starts_with('[');
        !(f.cause == "firewall-drop" && is_v6 && ports.contains(&port(&f.service)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::by_id;

    #[test]
    fn only_causes_that_exist_are_folded() {
        for (consequence, causes, _) in FOLLOWS {
            for id in causes.iter().chain([consequence]) {
                assert!(by_id(id).is_some(), "{id}");
            }
        }
    }
}
