//! What probes that differ in one thing only say of the way: which member of
//! parallel paths is ill, which size no longer passes, which filter is there.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::event::{ProbeAnswer, ProbeMethod, ProbeStep};
use crate::facts::{Facts, ProbeKey, StepTally, Sweep};
use crate::report::{ProbeStepRow, Remark};
use crate::segment::TcpFlags;

use super::tables::answer_name;

/// Probes of one port, and of all others together, from which on silence says
/// something.
const LEAST_PROBES: u64 = 3;
const LEAST_OTHERS: u64 = 12;
/// A member is slower than the others by this much and this share.
const SLOWER_BY: Duration = Duration::from_millis(1);
const SLOWER_SHARE: f64 = 1.5;
/// Largest part of the ports that may be the exception.
const EXCEPTION: usize = 2;
/// Silent probes above the limit of sizes.
const LEAST_SILENT: u64 = 3;

/// The rows of one group's sweep.
pub(super) fn rows(sweep: &Sweep) -> Vec<ProbeStepRow> {
    let row = |(step, tally): (&ProbeStep, &StepTally)| {
        let (by, value) = match step {
            ProbeStep::SourcePort(port) => ("source-port", port.to_string()),
            ProbeStep::Size(size) => ("size", size.to_string()),
            ProbeStep::Flags(flags) => ("flags", TcpFlags(*flags).to_string()),
        };
        ProbeStepRow {
            by: by.to_owned(),
            value,
            sent: tally.sent,
            received: tally.answered(),
            answer: tally.usual().map_or_else(String::new, answer_name),
            least_ns: tally.least.map(|least| least.as_nanos() as u64),
        }
    };
    sweep.steps.iter().map(row).collect()
}

/// What the sweeps say, a sentence each.
pub(super) fn remarks(facts: &Facts) -> Vec<Remark> {
    let groups = facts.probes.iter();
    groups
        .flat_map(|(key, group)| {
            let sweep = &group.sweep;
            [ports(key, sweep), sizes(key, sweep), flags(key, sweep)]
        })
        .flatten()
        .collect()
}

fn remark(id: &str, key: &ProbeKey, text: &str) -> Remark {
    let target = match key.method {
        ProbeMethod::Icmp => key.endpoint.addr.to_string(),
        _ => key.endpoint.to_string(),
    };
    Remark {
        id: id.to_owned(),
        text: format!("{target}: {text}"),
    }
}

/// A path's members are chosen by the ports (RFC 2992): what one member does
/// wrong shows at some ports each time and at the others never.
fn ports(key: &ProbeKey, sweep: &Sweep) -> Option<Remark> {
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
        "nothing sent from source port {} was answered, and everything from the other {} was: one \
         member of parallel paths (ECMP, a bundle of links) loses what is hashed to it, or a \
         filter drops what comes from there.",
        list(&lost),
        tallies.len() - lost.len()
    );
    Some(remark("probe-member-loses", key, &text))
}

fn slower_ports(key: &ProbeKey, tallies: &[(u16, &StepTally)]) -> Option<Remark> {
    let mut least: Vec<(Duration, u16)> = tallies
        .iter()
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
    // Between the slow and the others there must be a gap: jitter has none.
    let quick = least.get(least.len() - slow.len() - 1)?.0;
    if quick > usual + SLOWER_BY / 2 {
        return None;
    }
    let more = slow.first()?.0 - usual;
    let ports: Vec<u16> = slow.iter().map(|(_, port)| *port).collect();
    let text = format!(
        "answers to source port {} take at least {:.1} ms longer each time than those to the other \
         {}: one member of parallel paths (ECMP, a bundle of links) is slower.",
        list(&ports),
        more.as_secs_f64() * 1e3,
        least.len() - slow.len()
    );
    Some(remark("probe-member-slower", key, &text))
}

/// The first few of a list.
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

/// The size above which nothing passes.
fn sizes(key: &ProbeKey, sweep: &Sweep) -> Option<Remark> {
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
        answers.any(|answer| !is_too_big(*answer) && *answer != ProbeAnswer::Silence)
    };
    let (&largest, _) = sizes.iter().rev().find(|(_, tally)| passes(tally))?;
    let below = sizes.range(..=largest).map(|(_, tally)| tally);
    let above: Vec<&StepTally> = sizes
        .iter()
        .filter(|(size, _)| **size > largest)
        .map(|(_, tally)| *tally)
        .collect();
    // Losses at any size are no limit.
    if above.is_empty() || !below.clone().all(|tally| passes(tally)) {
        return None;
    }
    let packet = u32::from(largest) + headers(key);
    let next = sizes.keys().find(|size| **size > largest);
    let next = next.map_or(packet, |next| u32::from(*next) + headers(key));
    let refused = above
        .iter()
        .flat_map(|tally| tally.answers.keys())
        .any(|a| is_too_big(*a));
    if refused {
        let text = format!(
            "packets of {packet} bytes pass, those of {next} and more are refused as too big (by \
             ICMP, or by this host's own device): the path's MTU lies there, and TCP finds it."
        );
        return Some(remark("probe-size-limit", key, &text));
    }
    let silent: u64 = above.iter().map(|tally| tally.sent).sum();
    (silent >= LEAST_SILENT).then(|| {
        let text = format!(
            "packets of {packet} bytes are answered, those of {next} and more vanish without an ICMP \
             error ({silent} of {silent}): a black hole for path MTU discovery, where TCP stalls on full \
             segments - or a filter of large probes; ask by another method to tell. Let ICMP \
             type 3 code 4 (ICMPv6 type 2) pass, or clamp the MSS to {}.",
            packet.saturating_sub(if key.endpoint.addr.is_ipv4() { 40 } else { 60 })
        );
        remark("probe-size-black-hole", key, &text)
    })
}

/// Fragmentation needed (RFC 1191 §4), packet too big (RFC 4443 §3.2).
fn is_too_big(answer: ProbeAnswer) -> bool {
    matches!(
        answer,
        ProbeAnswer::Unreachable(3, 4) | ProbeAnswer::Unreachable(2, 0)
    )
}

/// Bytes of headers before a probe's payload: a SYN has 20 of options.
fn headers(key: &ProbeKey) -> u32 {
    let ip = if key.endpoint.addr.is_ipv4() { 20 } else { 40 };
    match key.method {
        ProbeMethod::Icmp | ProbeMethod::Udp => ip + 8,
        _ => ip + 40,
    }
}

/// What stands before the port, by what it lets pass (RFC 9293 §3.10.7).
fn flags(key: &ProbeKey, sweep: &Sweep) -> Option<Remark> {
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
    Some(remark(id, key, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Coming, Event, EventBody, Phase, ProbeSample, Stamp, TargetId};
    use crate::time::Timestamp;

    type Answer = (ProbeStep, ProbeAnswer, u64);

    /// The ids of what is said of probes answered like this, with round trips in µs.
    fn said(method: ProbeMethod, answers: impl IntoIterator<Item = Answer>) -> Vec<String> {
        let mut facts = Facts::default();
        for (number, (step, answer, micros)) in (0..).zip(answers) {
            let is_answered = answer != ProbeAnswer::Silence;
            let sample = ProbeSample {
                target: TargetId::Subject,
                endpoint: crate::flow::Endpoint::from(core::net::SocketAddr::from((
                    [192, 0, 2, 7],
                    80,
                ))),
                method,
                answer,
                rtt: is_answered.then_some(Duration::from_micros(micros)),
                stamp: Stamp::Kernel,
                ttl: None,
                syn_retransmissions: 0,
                number,
                coming: Coming::InTime,
                noticed: None,
                queued: None,
                step: Some(step),
                reply: None,
            };
            let at = Timestamp::default();
            facts.observe(Event::here(at, Phase::Baseline, EventBody::Probe(sample)));
        }
        remarks(&facts)
            .into_iter()
            .map(|remark| remark.id)
            .collect()
    }

    const OPEN: ProbeAnswer = ProbeAnswer::Open;
    const SILENCE: ProbeAnswer = ProbeAnswer::Silence;
    const REFUSED: ProbeAnswer = ProbeAnswer::Refused;

    /// Four probes from each of eight ports.
    fn by_port(answer: impl Fn(u16, u64) -> (ProbeAnswer, u64)) -> Vec<Answer> {
        let probes = (0..4).flat_map(|round| (0..8).map(move |port| (port, round)));
        probes
            .map(|(port, round)| {
                let (answer, micros) = answer(port, round);
                (ProbeStep::SourcePort(port), answer, micros)
            })
            .collect()
    }

    #[test]
    fn a_member_that_loses_shows_by_its_ports() {
        let syn = ProbeMethod::TcpSyn;
        let lost = |is: bool| (if is { SILENCE } else { OPEN }, 100);
        assert_eq!(
            said(syn, by_port(|port, _| lost(port == 3))),
            ["probe-member-loses"]
        );
        assert_eq!(
            said(syn, by_port(|port, _| lost(port % 2 == 1))),
            ["probe-member-loses"]
        );
        // Loss by chance, most ports lost, nothing lost.
        let none: [&str; 0] = [];
        assert_eq!(
            said(
                syn,
                by_port(|port, round| lost(port == 3 || round + 1 == u64::from(port)))
            ),
            none
        );
        assert_eq!(said(syn, by_port(|port, _| lost(port > 2))), none);
        assert_eq!(said(syn, by_port(|_, _| lost(false))), none);
        // Too few to tell.
        let few = by_port(|port, _| lost(port == 3)).into_iter().take(16);
        assert_eq!(said(syn, few), none);
    }

    #[test]
    fn a_slower_member_shows_by_its_ports() {
        let syn = ProbeMethod::TcpSyn;
        let slow = by_port(|port, _| (OPEN, if port == 5 { 6_000 } else { 1_000 }));
        assert_eq!(said(syn, slow), ["probe-member-slower"]);
        let none: [&str; 0] = [];
        // Now and then, a little, and by degrees.
        let once = by_port(|port, round| {
            (
                OPEN,
                if port == 5 && round == 1 {
                    6_000
                } else {
                    1_000
                },
            )
        });
        assert_eq!(said(syn, once), none);
        let little = by_port(|port, _| (OPEN, if port == 5 { 1_900 } else { 1_000 }));
        assert_eq!(said(syn, little), none);
        let degrees = by_port(|port, _| (OPEN, 1_000 + 600 * u64::from(port)));
        assert_eq!(said(syn, degrees), none);
    }

    /// Three echoes of each size.
    fn by_size(answer: impl Fn(u16, u64) -> ProbeAnswer) -> Vec<Answer> {
        let probes = (0..3).flat_map(|round| (8..16).map(move |size| (size * 100, round)));
        probes
            .map(|(size, round)| (ProbeStep::Size(size), answer(size, round), 100))
            .collect()
    }

    #[test]
    fn a_size_that_does_not_pass_is_told_from_loss() {
        let icmp = ProbeMethod::Icmp;
        let echo = |is: bool, other| if is { ProbeAnswer::Echo } else { other };
        let hole = by_size(|size, _| echo(size <= 1_200, SILENCE));
        assert_eq!(said(icmp, hole), ["probe-size-black-hole"]);
        // Loss below the limit as well does not hide it, while each size passes.
        let lossy =
            by_size(|size, round| echo(size <= 1_200 && (size > 900 || round > 0), SILENCE));
        assert_eq!(said(icmp, lossy), ["probe-size-black-hole"]);
        let told = by_size(|size, _| echo(size <= 1_200, ProbeAnswer::Unreachable(3, 4)));
        assert_eq!(said(icmp, told), ["probe-size-limit"]);
        let none: [&str; 0] = [];
        assert_eq!(said(icmp, by_size(|_, _| ProbeAnswer::Echo)), none);
        assert_eq!(said(icmp, by_size(|_, _| SILENCE)), none);
        assert_eq!(
            said(icmp, by_size(|size, _| echo(size != 1_100, SILENCE))),
            none
        );
        let once = by_size(|size, round| echo(size < 1_500 || round > 0, SILENCE));
        assert_eq!(said(icmp, once), none);
        // One size above was asked once only.
        let few = by_size(|size, _| echo(size < 1_500, SILENCE))
            .into_iter()
            .take(8);
        assert_eq!(said(icmp, few), none);
    }

    #[test]
    fn filters_show_by_the_flags_that_they_let_pass() {
        let matrix = |syn, ack| {
            let flags = |flags: TcpFlags, answer| (ProbeStep::Flags(flags.0), answer, 100);
            said(
                ProbeMethod::TcpFlags,
                [flags(TcpFlags::SYN, syn), flags(TcpFlags::ACK, ack)],
            )
        };
        for (syn, ack, id) in [
            (OPEN, REFUSED, "probe-filter-none"),
            (OPEN, SILENCE, "probe-filter-stateful"),
            (REFUSED, REFUSED, "probe-filter-none"),
            (REFUSED, SILENCE, "probe-filter-stateful"),
            (SILENCE, REFUSED, "probe-filter-syn"),
            (SILENCE, SILENCE, "probe-filter-all"),
            (
                ProbeAnswer::Unreachable(3, 13),
                SILENCE,
                "probe-filter-rejects",
            ),
        ] {
            assert_eq!(matrix(syn, ack), [id], "{syn:?} {ack:?}");
        }
        let alone = (ProbeStep::Flags(TcpFlags::SYN.0), OPEN, 100);
        let none: [&str; 0] = [];
        assert_eq!(said(ProbeMethod::TcpFlags, [alone]), none);
    }
}
