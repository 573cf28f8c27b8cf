//! The kind of filter, determined by the flags that it lets pass.

use super::told;
use crate::facts::{ProbeKey, Sweep};
use crate::observed::event::{ProbeAnswer, ProbeStep};
use crate::observed::segment::TcpFlags;
use crate::report::Remark;

/// Returns the remark on the filter before the port, by the flags that it lets pass (RFC 9293
/// §3.10.7).
pub(super) fn remark(key: &ProbeKey, sweep: &Sweep) -> Option<Remark> {
    let usual = |flags: TcpFlags| sweep.steps.get(&ProbeStep::Flags(flags.0))?.usual();
    let (id, text) = match (usual(TcpFlags::SYN)?, usual(TcpFlags::ACK)?) {
        (ProbeAnswer::Open, ProbeAnswer::Refused) => (
            "probe-filter-none",
            "open, and a stray ACK is reset by it: nothing before it keeps state of connections.",
        ),
        (ProbeAnswer::Open, ProbeAnswer::Silence) => (
            "probe-filter-stateful",
            "open, and a stray ACK vanishes: a filter before it (or its own) keeps state of \
             connections. One that forgets idle ones lets them hang: see keep-alives.",
        ),
        (ProbeAnswer::Refused, ProbeAnswer::Refused) => (
            "probe-filter-none",
            "closed, and it says so to each segment: nothing before it filters.",
        ),
        (ProbeAnswer::Refused, ProbeAnswer::Silence) => (
            "probe-filter-stateful",
            "a SYN is refused and a stray ACK vanishes: a filter keeps state of connections, and \
             the refusal may be its own.",
        ),
        (ProbeAnswer::Silence, ProbeAnswer::Refused) => (
            "probe-filter-syn",
            "a SYN vanishes and a stray ACK is reset: a filter without state drops new connections \
             to this port; the host is up.",
        ),
        (ProbeAnswer::Silence, ProbeAnswer::Silence) => (
            "probe-filter-all",
            "nothing is answered whatever the flags: a filter drops all of it, or there is no such \
             host.",
        ),
        (ProbeAnswer::Unreachable(..), _) => (
            "probe-filter-rejects",
            "a SYN is answered by an ICMP error: a filter or a router rejects it.",
        ),
        _ => return None,
    };
    Some(told(id, key, text))
}
