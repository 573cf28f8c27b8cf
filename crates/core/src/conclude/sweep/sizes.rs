//! The packet sizes that reach the target.

use std::collections::BTreeMap;

use super::told;
use crate::facts::{ProbeKey, StepTally, SweptProbes, is_by_target};
use crate::observed::event::{ProbeAnswer, ProbeMethod, ProbeStep};
use crate::report::{Remark, counted};

/// Minimum number of unanswered probes above the size limit.
const LEAST_SILENT: u64 = 3;

/// Returns the remark on the size above which no packets reach the target.
pub(super) fn remark(key: &ProbeKey, sweep: &SweptProbes) -> Option<Remark> {
    let sizes: BTreeMap<u16, &StepTally> = sweep
        .steps
        .iter()
        .filter_map(|(step, tally)| match step {
            ProbeStep::Size(size) => Some((*size, tally)),
            _ => None,
        })
        .collect();
    let passes = |tally: &StepTally| {
        let mut answers = tally.answers.keys();
        answers.any(|answer| *answer != ProbeAnswer::Silence && is_by_target(key.method, *answer))
    };
    let (&largest, _) = sizes.iter().rev().find(|(_, tally)| passes(tally))?;
    let below = sizes.range(..=largest).map(|(_, tally)| tally);
    let above: Vec<&StepTally> = sizes
        .iter()
        .filter(|(size, _)| **size > largest)
        .map(|(_, tally)| *tally)
        .collect();
    // If probes of all sizes are lost, there is no size limit.
    if above.is_empty() || !below.clone().all(|tally| passes(tally)) {
        return None;
    }
    let headers = u32::from(sweep.headers);
    let packet = u32::from(largest) + headers;
    let next = sizes.keys().find(|size| **size > largest);
    let next = next.map_or(packet, |next| u32::from(*next) + headers);
    let refused = above
        .iter()
        .flat_map(|tally| tally.answers.keys())
        .any(|a| is_too_big(*a));
    if refused {
        let text = format!(
            "packets of {} get through, and packets of {} or more are rejected as too big (by \
             ICMP, or by this host's own device): the path's MTU is between these sizes, and TCP \
             finds it.",
            counted(u64::from(packet), "byte", "bytes"),
            counted(u64::from(next), "byte", "bytes"),
        );
        return Some(told("probe-size-limit", key, &text));
    }
    let silent: u64 = above.iter().map(|tally| tally.sent).sum();
    let is_whole =
        below.clone().all(|tally| is_whole(tally)) && above.iter().all(|tally| tally.sent > 1);
    // Many servers and filters drop a SYN with data, so an answered SYN without data shows no size
    // limit.
    let is_told = largest > 0 || matches!(key.method, ProbeMethod::Icmp | ProbeMethod::Udp);
    (silent >= LEAST_SILENT && is_whole && is_told).then(|| {
        let text = format!(
            "packets of {} are answered, but packets of {} or more get neither an answer nor an ICMP \
             error ({silent} of {silent}). This is a black hole for path MTU discovery, where TCP \
             stalls on full segments, or a filter drops large probes: probe with another method to \
             find out. Let ICMP type 3 code 4 (ICMPv6 type 2) pass, or clamp the MSS to {}.",
            counted(u64::from(packet), "byte", "bytes"),
            counted(u64::from(next), "byte", "bytes"),
            packet.saturating_sub(if key.endpoint.addr.is_ipv4() { 40 } else { 60 }),
        );
        told("probe-size-black-hole", key, &text)
    })
}

/// Returns true if the answer is "fragmentation needed" (RFC 1191 §4) or "packet too big" (RFC 4443
/// §3.2).
fn is_too_big(answer: ProbeAnswer) -> bool {
    matches!(
        answer,
        ProbeAnswer::Unreachable(3, 4) | ProbeAnswer::Unreachable(2, 0)
    )
}

/// Returns true if all probes of a size were answered, and there was more than one. A host that
/// limits its answers leaves out some probes of each size, or all probes after the first few.
fn is_whole(tally: &StepTally) -> bool {
    tally.sent > 1 && tally.answered() == tally.sent
}
