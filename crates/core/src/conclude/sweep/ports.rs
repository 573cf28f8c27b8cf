//! Members of parallel paths that lose packets or are slower. The source ports that are hashed to
//! such a member show it.

use core::time::Duration;

use super::told;
use crate::facts::{ProbeKey, StepTally, SweptProbes};
use crate::observed::event::ProbeStep;
use crate::report::Remark;

/// A silent port counts only after this many probes from it, and this many answered probes from all
/// other ports together.
const LEAST_PROBES: u64 = 3;
const LEAST_OTHERS: u64 = 12;
/// Minimum difference and minimum ratio of the round trips of a slow port and the median port.
const SLOWER_BY: Duration = Duration::from_millis(1);
const SLOWER_SHARE: f64 = 1.5;
/// At most one in this many ports may be faulty. If there are more, no single member is the reason.
const EXCEPTION: usize = 2;
/// Returns the remark on a faulty member. Routers choose the member by a hash of the ports (RFC
/// 2992), so a fault of one member always affects the same ports.
pub(super) fn remark(key: &ProbeKey, sweep: &SweptProbes) -> Option<Remark> {
    let tallies: Vec<(u16, &StepTally)> = sweep
        .steps
        .iter()
        .filter_map(|(step, tally)| match step {
            ProbeStep::SourcePort(port) if tally.sent >= LEAST_PROBES => Some((*port, tally)),
            _ => None,
        })
        .collect();
    losing_ports(key, &tallies).or_else(|| slower_ports(key, &tallies))
}

fn losing_ports(key: &ProbeKey, tallies: &[(u16, &StepTally)]) -> Option<Remark> {
    let lost: Vec<u16> = tallies
        .iter()
        .filter(|(_, tally)| tally.answered() == 0)
        .map(|(port, _)| *port)
        .collect();
    let (well, others) = tallies
        .iter()
        .filter(|(_, tally)| tally.answered() > 0)
        .fold((true, 0), |(well, count), (_, tally)| {
            (well && tally.answered() == tally.sent, count + tally.sent)
        });
    if lost.is_empty() || !well || others < LEAST_OTHERS || lost.len() * EXCEPTION > tallies.len() {
        return None;
    }
    let text = format!(
        "no probe from source port {} was answered, but every probe from the other {} was: one of \
         several parallel paths (ECMP, a link bundle) loses the flows that hash to it, or a filter \
         drops packets from that port.",
        list(&lost),
        tallies.len() - lost.len()
    );
    Some(told("probe-member-loses", key, &text))
}

fn slower_ports(key: &ProbeKey, tallies: &[(u16, &StepTally)]) -> Option<Remark> {
    let mut least: Vec<(Duration, u16)> = tallies
        .iter()
        .filter(|(_, tally)| tally.answered() >= LEAST_PROBES)
        .filter_map(|(port, tally)| Some((tally.least?, *port)))
        .collect();
    least.sort();
    let usual = least.get(least.len() / 2)?.0;
    let bound = (usual + SLOWER_BY).max(usual.mul_f64(SLOWER_SHARE));
    let slow: Vec<(Duration, u16)> = least.iter().filter(|(t, _)| *t > bound).copied().collect();
    let answered: u64 = tallies.iter().map(|(_, tally)| tally.answered()).sum();
    if slow.is_empty() || slow.len() * EXCEPTION > least.len() || answered < LEAST_OTHERS {
        return None;
    }
    // A gap must separate slow and normal ports. Jitter leaves no gap.
    let quick = least.get(least.len() - slow.len() - 1)?.0;
    if quick > usual + SLOWER_BY / 2 {
        return None;
    }
    let more = slow.first()?.0 - usual;
    let ports: Vec<u16> = slow.iter().map(|(_, port)| *port).collect();
    let text = format!(
        "answers to source port {} always take at least {:.1} ms longer than those to the other \
         {}: one of several parallel paths (ECMP, a link bundle) is slower.",
        list(&ports),
        more.as_secs_f64() * 1e3,
        least.len() - slow.len()
    );
    Some(told("probe-member-slower", key, &text))
}

/// Returns the first few ports as text, and the number of the others.
fn list(ports: &[u16]) -> String {
    const SHOWN: usize = 8;
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    let shown: Vec<String> = ports.iter().take(SHOWN).map(u16::to_string).collect();
    match ports.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
