//! The kind of packet filter, by the TCP flags that it lets pass.

use super::told;
use crate::facts::{ProbeKey, SweptProbes};
use crate::observed::event::{ProbeAnswer, ProbeStep};
use crate::observed::segment::TcpFlags;
use crate::report::Remark;

/// Returns the remark on the filter in front of the port, by the flags that it lets pass (RFC 9293
/// §3.10.7).
pub(super) fn remark(key: &ProbeKey, sweep: &SweptProbes) -> Option<Remark> {
    let usual = |flags: TcpFlags| sweep.steps.get(&ProbeStep::Flags(flags.0))?.usual();
    let (id, text) = match (usual(TcpFlags::SYN)?, usual(TcpFlags::ACK)?) {
        (ProbeAnswer::Open, ProbeAnswer::Refused) => (
            "probe-filter-none",
            "open, and a stray ACK gets a RST: no stateful filter is before the port.",
        ),
        (ProbeAnswer::Open, ProbeAnswer::Silence) => (
            "probe-filter-stateful",
            "open, but a stray ACK gets no answer: a stateful filter is before the port or on the \
             host. If it drops the state of idle connections, they hang: use keep-alives.",
        ),
        (ProbeAnswer::Refused, ProbeAnswer::Refused) => (
            "probe-filter-none",
            "closed, and every segment gets a RST: no filter is before the port.",
        ),
        (ProbeAnswer::Refused, ProbeAnswer::Silence) => (
            "probe-filter-stateful",
            "a SYN is refused, but a stray ACK gets no answer: a stateful filter is before the \
             port, and the refusal may come from it.",
        ),
        (ProbeAnswer::Silence, ProbeAnswer::Refused) => (
            "probe-filter-syn",
            "a SYN gets no answer, but a stray ACK gets a RST: a stateless filter drops new \
             connections to this port; the host is up.",
        ),
        (ProbeAnswer::Silence, ProbeAnswer::Silence) => (
            "probe-filter-all",
            "no segment is answered, whatever its flags: a filter drops all of them, or the host \
             does not exist.",
        ),
        (ProbeAnswer::Unreachable(..), _) => (
            "probe-filter-rejects",
            "a SYN gets an ICMP error: a filter or a router rejects it.",
        ),
        _ => return None,
    };
    Some(told(id, key, text))
}
