//! The assessment of a route's samples: the hops that are silent, the hops that only limit their
//! answers, the hop from which packets are lost, and the answer of the target.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::tally::HopTally;
use super::tally::RouteTally;
use crate::observed::route::{
    AutonomousSystem, HopAnswer, PathMtu, RouteMethod, TraceStart, Translation,
};
use crate::report::{
    Hop, HopAddress, HopLabel, HopState, HopTranslation, ProbeFigures, Route, RouteMtu,
    RouteNarrowing, RoutePath,
};

/// Minimum ratio of the loss after a hop to the hop's own loss for the loss to persist. A hop that
/// loses more than that has only left out answers.
const PERSISTENT: f64 = 0.5;
/// Number of standard errors from which two shares of probes count as different. Equal shares
/// differ by more in one of twenty cases.
const DIFFERENT: f64 = 2.0;
/// Minimum additional answer time of a hop that is slow to answer. It is the time by which its
/// answers take longer than those of the hops behind it.
const SLOW: Duration = Duration::from_micros(500);
/// Minimum additional answer time as a part of the time of the hops behind it. The value is a
/// divisor: 5 is a fifth.
const SLOW_PART: u32 = 5;
/// Minimum number of times that packets must return to the same router to count as a loop.
const RETURNS: u32 = 2;

impl RouteTally {
    /// Returns the route as a whole; `None` before the trace has begun.
    pub fn route(&self) -> Option<Route> {
        route(self)
    }

    /// Returns the hops from the nearest to the target, each with the assessment of its losses and
    /// delays.
    pub fn hops(&self) -> Vec<Hop> {
        hops(self)
    }
}

/// Returns the route as a whole.
fn route(tally: &RouteTally) -> Option<Route> {
    let start = tally.start.as_ref()?;
    let listed = listed(tally);
    let distance = tally.distance();
    let last = distance.and_then(|ttl| tally.hops.get(&ttl));
    let answered_by = last
        .and_then(HopTally::address)
        .filter(|address| *address != start.target);
    let is_user = listed.iter().any(|(_, hop)| hop.is_user_stamped);
    Some(Route {
        target: start.target.to_string(),
        port: start.port,
        source: start.source.map(|source| source.to_string()),
        method: start.method.name().to_owned(),
        is_raw: start.is_raw,
        outcome: outcome(tally, start).to_owned(),
        distance,
        answered_by: answered_by.map(|address| address.to_string()),
        loss_from: loss_from(&listed, start),
        stamp: if is_user { "user" } else { "kernel" }.to_owned(),
        paths: paths(tally, &listed),
        translated_before: translated_before(&listed),
        mtu: tally.mtu.as_ref().map(mtu),
    })
}

/// Returns the hops up to the target, or up to the last probed one.
fn hops(tally: &RouteTally) -> Vec<Hop> {
    let Some(start) = &tally.start else {
        return Vec::new();
    };
    let listed = listed(tally);
    let origin = |hop: &HopTally| tally.origins.get(&hop.address()?);
    (0..listed.len())
        .filter_map(|at| {
            let (ttl, hop) = *listed.get(at)?;
            let behind = listed.get(at + 1..).unwrap_or_default();
            Some(Hop {
                ttl,
                address: hop.address().map(|address| address.to_string()),
                name: hop.address().and_then(|a| tally.names.get(&a).cloned()),
                asn: origin(hop).map(|origin| origin.asn),
                as_name: origin(hop).and_then(AutonomousSystem::told_name),
                addresses: addresses(hop, tally),
                sent: hop.sent,
                received: hop.answered,
                state: state(hop, behind, start),
                answers: hop.answers.keys().map(|a| answer_name(*a)).collect(),
                rtt_ns: ProbeFigures::from(&hop.rtt),
                kept_ns: nanos(kept(hop, behind)),
                slow_ns: slowness(hop, behind).map(nanos),
                history_ns: hop.history.iter().map(|(_, rtt)| rtt.map(nanos)).collect(),
                labels: labels(hop),
                reply_ttl: hop.reply_ttl,
                translation: hop.translation.flatten().as_ref().map(translation),
            })
        })
        .collect()
}

type Listed<'a> = [(u8, &'a HopTally)];

fn listed(tally: &RouteTally) -> Vec<(u8, &HopTally)> {
    let last = tally.distance().unwrap_or(u8::MAX);
    let hops = tally.hops.range(..=last);
    hops.map(|(&ttl, hop)| (ttl, hop)).collect()
}

/// Returns the assessment of a hop's missing answers; `behind` are the hops after it.
fn state(hop: &HopTally, behind: &Listed<'_>, start: &TraceStart) -> HopState {
    if hop.answered == 0 {
        return HopState::Silent;
    }
    if hop.answered >= hop.sent {
        return HopState::Answers;
    }
    let answering = || {
        behind
            .iter()
            .map(|(_, hop)| *hop)
            .filter(|h| h.answered > 0)
    };
    let least = answering().map(HopTally::loss).fold(1.0, f64::min);
    let last = answering().next_back().unwrap_or(hop);
    let is_limited = least < hop.loss() * PERSISTENT && answering().count() > 0;
    if is_limited {
        HopState::Limited
    } else if is_unlimited(last, start) {
        HopState::Lossy
    } else {
        HopState::Undecided
    }
}

/// Returns true if missing answers of a final hop are losses. Unlike ICMP errors, TCP and echo
/// replies are not rate-limited (`net.ipv4.icmp_ratemask`), and neither are the answers of
/// programs.
fn is_unlimited(last: &HopTally, start: &TraceStart) -> bool {
    let is_udp = start.method.is_udp();
    last.answers.keys().any(|answer| match answer {
        HopAnswer::Open => true,
        HopAnswer::Closed => !is_udp,
        _ => false,
    })
}

/// Returns the first of the last hops that all lose as many packets as the final one.
fn loss_from(listed: &Listed<'_>, start: &TraceStart) -> Option<u8> {
    let (_, last) = *listed.iter().rfind(|(_, hop)| hop.answered > 0)?;
    let mut first = None;
    for at in (0..listed.len()).rev() {
        let (ttl, hop) = *listed.get(at)?;
        match state(hop, listed.get(at + 1..).unwrap_or_default(), start) {
            HopState::Lossy if loses_alike(hop, last) => first = Some(ttl),
            HopState::Silent => {}
            _ => break,
        }
    }
    first
}

/// Returns true if a hop's loss may be the same loss as the target's. It is not if a single answer
/// is missing, or if the hop limits its answers.
fn loses_alike(hop: &HopTally, last: &HopTally) -> bool {
    let lost = |hop: &HopTally| (hop.sent.saturating_sub(hop.answered), hop.sent);
    hop.loss() >= last.loss() * PERSISTENT && alike(lost(hop), lost(last))
}

/// Returns true if two losses may be equal; each is a count and a total.
pub(crate) fn alike(one: (u64, u64), other: (u64, u64)) -> bool {
    let part = |(lost, sent): (u64, u64)| lost as f64 / sent.max(1) as f64;
    let both = part((one.0 + other.0, one.1 + other.1));
    let reciprocal = 1.0 / one.1.max(1) as f64 + 1.0 / other.1.max(1) as f64;
    let error = (both * (1.0 - both) * reciprocal).sqrt();
    (part(one) - part(other)).abs() <= DIFFERENT * error
}

/// Returns the hops at which probes have another translation than at the previous hop that shows
/// it. The NAT is that previous hop, or between the two.
fn translated_before(listed: &Listed<'_>) -> Vec<u8> {
    let mut seen = None;
    let mut changes = Vec::new();
    for (ttl, hop) in listed {
        let Some(now) = hop.translation else {
            continue;
        };
        if now != seen {
            changes.push(*ttl);
        }
        seen = now;
    }
    changes
}

fn translation(seen: &Translation) -> HopTranslation {
    HopTranslation {
        source: seen.source.map(|source| source.to_string()),
        source_port: seen.source_port,
        destination: seen.destination.map(|destination| destination.to_string()),
        destination_port: seen.destination_port,
        checksum_shift: seen.checksum_shift,
    }
}

/// Returns the smallest of the minimum round-trip times of a hop and all hops after it. No later
/// hop is nearer, so the excess of the hop's own time is the time that it takes to answer.
fn kept(hop: &HopTally, behind: &Listed<'_>) -> Duration {
    let all = behind.iter().map(|(_, hop)| *hop).chain([hop]);
    let least = all.filter_map(|hop| hop.rtt.min()).min();
    least.unwrap_or_default()
}

/// Returns the time by which a hop's answers take longer than those of the hops after it, if that
/// is material.
fn slowness(hop: &HopTally, behind: &Listed<'_>) -> Option<Duration> {
    let kept = kept(hop, behind);
    let own = hop.rtt.min()?.saturating_sub(kept);
    (own > SLOW.max(kept / SLOW_PART)).then_some(own)
}

fn outcome(tally: &RouteTally, start: &TraceStart) -> &'static str {
    let last = tally.distance().and_then(|ttl| tally.hops.get(&ttl));
    let Some(last) = last else {
        let farthest = tally.hops.get(&start.max_ttl);
        let is_far = farthest.is_some_and(|hop| hop.answered > 0);
        return match (has_loop(tally), is_far) {
            (true, _) => "loop",
            (false, true) => "too-far",
            (false, false) => "silent",
        };
    };
    // The most frequent final answer is used, because a filter may answer only some of the probes.
    let word = last.answers.iter().filter(|(answer, _)| answer.is_final());
    let word = word
        .max_by_key(|(_, count)| **count)
        .map(|(answer, _)| *answer);
    let is_tcp = start.method.is_tcp();
    match word.unwrap_or(HopAnswer::Silence) {
        HopAnswer::Open if start.method == RouteMethod::Icmp => "reached",
        HopAnswer::Open => "open",
        HopAnswer::Closed if is_tcp => "closed",
        HopAnswer::Closed => "reached",
        // A packet filter that rejects sends this answer by default.
        HopAnswer::Unreachable(3, 3) | HopAnswer::Unreachable(1, 4) if is_tcp => "prohibited",
        answer if answer.is_prohibited(start.target.is_ipv4()) => "prohibited",
        _ => "unreachable",
    }
}

/// Returns true if one router answers repeatedly with others in between. A single return is not
/// enough, because parallel paths may have different lengths.
fn has_loop(tally: &RouteTally) -> bool {
    let mut seen: BTreeMap<IpAddr, (u8, u32)> = BTreeMap::new();
    let mut hops = tally.hops.iter();
    hops.any(|(&ttl, hop)| {
        let Some(address) = hop.address() else {
            return false;
        };
        let (last, returns) = seen.entry(address).or_insert((ttl, 0));
        *returns += u32::from(ttl.saturating_sub(*last) > 1);
        *last = ttl;
        *returns >= RETURNS
    })
}

fn addresses(hop: &HopTally, tally: &RouteTally) -> Vec<HopAddress> {
    let mut all: Vec<_> = hop.addresses.iter().collect();
    all.sort_by_key(|&(address, count)| (core::cmp::Reverse(*count), *address));
    let whole = |(address, &count): (&IpAddr, &u64)| HopAddress {
        address: address.to_string(),
        name: tally.names.get(address).cloned(),
        asn: tally.origins.get(address).map(|origin| origin.asn),
        as_name: tally
            .origins
            .get(address)
            .and_then(AutonomousSystem::told_name),
        count,
    };
    all.into_iter().map(whole).collect()
}

impl AutonomousSystem {
    fn told_name(&self) -> Option<String> {
        (!self.name.is_empty()).then(|| self.name.clone())
    }
}

fn labels(hop: &HopTally) -> Vec<HopLabel> {
    let whole = |label: &crate::observed::route::MplsLabel| HopLabel {
        label: label.label,
        class: label.class,
        is_bottom: label.is_bottom,
        ttl: label.ttl,
    };
    hop.labels.iter().map(whole).collect()
}

/// Returns the different paths of the flows, the most frequent first. Empty if only one flow was
/// tried, or if each probe was its own flow.
fn paths(tally: &RouteTally, listed: &Listed<'_>) -> Vec<RoutePath> {
    let has_flows = tally.start.as_ref().is_some_and(|s| s.method.keeps_flow());
    if tally.flows.len() < 2 || !has_flows {
        return Vec::new();
    }
    let range = listed.first().zip(listed.last());
    let Some((first, last)) = range.map(|(first, last)| (first.0, last.0)) else {
        return Vec::new();
    };
    let mut ways: BTreeMap<Vec<Option<String>>, u64> = BTreeMap::new();
    for flow in tally.flows.values() {
        let end = flow.iter().find(|(_, (_, answer))| answer.is_final());
        let end = end.map_or(last, |(&ttl, _)| ttl.min(last));
        let at = |ttl: u8| flow.get(&ttl).map(|(address, _)| address.to_string());
        *ways.entry((first..=end).map(at).collect()).or_default() += 1;
    }
    let mut paths: Vec<RoutePath> = ways
        .into_iter()
        .map(|(hops, flows)| RoutePath { flows, hops })
        .collect();
    paths.sort_by(|a, b| b.flows.cmp(&a.flows).then_with(|| a.hops.cmp(&b.hops)));
    paths
}

fn mtu(mtu: &PathMtu) -> RouteMtu {
    let narrowings = mtu.narrowings.iter().map(|narrowing| RouteNarrowing {
        address: narrowing.from.map(|from| from.to_string()),
        ttl: narrowing.ttl,
        mtu_bytes: narrowing.mtu,
    });
    RouteMtu {
        mtu_bytes: mtu.mtu,
        to_ttl: mtu.to_ttl,
        narrowings: narrowings.collect(),
    }
}

fn answer_name(answer: HopAnswer) -> String {
    match answer {
        HopAnswer::Expired => "expired".to_owned(),
        HopAnswer::Open => "open".to_owned(),
        HopAnswer::Closed => "closed".to_owned(),
        HopAnswer::Unreachable(kind, code) => format!("unreachable {kind}/{code}"),
        HopAnswer::Silence => "silence".to_owned(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl HopTally {
    /// Returns the most frequent address.
    fn address(&self) -> Option<IpAddr> {
        let most = self.addresses.iter().max_by_key(|(_, count)| **count);
        most.map(|(address, _)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::Stamp;
    use crate::observed::route::HopSample;

    fn tally(method: RouteMethod, hops: &[(u8, &str, HopAnswer, f64)]) -> RouteTally {
        let mut tally = RouteTally::default();
        tally.begin(TraceStart {
            target: IpAddr::from([192, 0, 2, 9]),
            port: Some(80),
            source: None,
            method,
            is_raw: true,
            max_ttl: 30,
        });
        for (at, &(ttl, answers, answer, ms)) in hops.iter().enumerate() {
            for mark in answers.chars() {
                let is_lost = mark == '*';
                let last = if answer.is_final() { 9 } else { at as u8 + 100 };
                tally.observe(&HopSample {
                    number: 0,
                    ttl,
                    flow: 0,
                    answer: if is_lost { HopAnswer::Silence } else { answer },
                    from: (!is_lost).then(|| IpAddr::from([192, 0, 2, last])),
                    rtt: (!is_lost).then(|| Duration::from_secs_f64(ms / 1e3)),
                    stamp: Stamp::Kernel,
                    reply_ttl: None,
                    labels: Vec::new(),
                    translation: None,
                    is_quoted: false,
                });
            }
        }
        tally
    }

    fn states(tally: &RouteTally) -> Vec<HopState> {
        tally.hops().iter().map(|hop| hop.state).collect()
    }

    use HopAnswer::{Closed, Expired, Open};
    use HopState::{Answers, Limited, Lossy, Silent, Undecided};

    #[test]
    fn a_loss_counts_against_a_hop_only_if_it_persists_to_the_target() {
        for (method, hops, want, from) in [
            (
                RouteMethod::TcpSyn,
                vec![
                    (1, "!!!", Expired, 1.0),
                    (2, "!*!", Expired, 2.0),
                    (3, "!!!", Open, 3.0),
                ],
                vec![Answers, Limited, Answers],
                None,
            ),
            (
                RouteMethod::TcpSyn,
                vec![
                    (1, "!!!!!!", Expired, 1.0),
                    (2, "!*!*!!", Expired, 2.0),
                    (3, "******", Expired, 0.0),
                    (4, "!!*!*!", Open, 3.0),
                ],
                vec![Answers, Lossy, Silent, Lossy],
                Some(2),
            ),
            // The target's kernel limits port unreachable messages, as routers limit their ICMP
            // errors.
            (
                RouteMethod::Udp,
                vec![(1, "!*!", Expired, 1.0), (2, "!*!", Closed, 2.0)],
                vec![Undecided, Undecided],
                None,
            ),
            // No hop after this one answers.
            (
                RouteMethod::TcpSyn,
                vec![
                    (1, "!!!", Expired, 1.0),
                    (2, "!*!", Expired, 2.0),
                    (3, "***", Expired, 0.0),
                ],
                vec![Answers, Undecided, Silent],
                None,
            ),
        ] {
            let tally = tally(method, &hops);
            assert_eq!(states(&tally), want);
            assert_eq!(tally.route().expect("begun").loss_from, from);
        }
    }

    #[test]
    fn a_loss_begins_only_at_hops_that_lose_as_much_as_the_target() {
        let stray = "!!!!!!!!!!!*!!!!!!!!!!!!";
        let some = "!!*!!*!!!*!!!!*!!!*!!!!!";
        let half = "!*!*!*!*!*!*!*!*!*!*!*!*";
        let most = "!***********!***********";
        for (near, last, from) in [
            (some, some, 2),
            (half, half, 2),
            // One missing answer, before a target that drops many probes.
            (stray, half, 3),
            (stray, some, 3),
            // A router that also limits its answers.
            (most, half, 3),
        ] {
            let hops = [
                (1, "!", Expired, 1.0),
                (2, near, Expired, 2.0),
                (3, last, Open, 3.0),
            ];
            let route = tally(RouteMethod::TcpSyn, &hops).route().expect("begun");
            assert_eq!(route.loss_from, Some(from), "{near} {last}");
        }
    }

    #[test]
    fn probes_that_are_flows_of_their_own_show_no_paths() {
        for (method, count) in [(RouteMethod::Paris, 2), (RouteMethod::Udp, 0)] {
            let mut tally = tally(method, &[(1, "!", Expired, 1.0), (2, "!", Closed, 2.0)]);
            let other = BTreeMap::from([(1, (IpAddr::from([192, 0, 2, 200]), Expired))]);
            tally.flows.insert(1, other);
            assert_eq!(tally.route().expect("begun").paths.len(), count);
        }
    }

    #[test]
    fn a_delay_counts_against_a_hop_only_if_it_persists_to_the_target() {
        let hops = [
            (1, "!", Expired, 1.0),
            (2, "!", Expired, 90.0),
            (3, "!", Open, 3.0),
        ];
        let kept: Vec<u64> = tally(RouteMethod::TcpSyn, &hops)
            .hops()
            .iter()
            // The comparison is as exact as the buckets of the histogram.
            .map(|hop| hop.kept_ns / 10_000)
            .collect();
        assert_eq!(kept, [100, 300, 300]);
    }

    #[test]
    fn what_became_of_the_target_is_told_apart() {
        let prohibited = HopAnswer::Unreachable(3, 13);
        for (method, answer, want) in [
            (RouteMethod::TcpSyn, Open, "open"),
            (RouteMethod::TcpSyn, Closed, "closed"),
            (RouteMethod::Udp, Closed, "reached"),
            (RouteMethod::Icmp, Open, "reached"),
            (RouteMethod::TcpSyn, prohibited, "prohibited"),
            (
                RouteMethod::TcpSyn,
                HopAnswer::Unreachable(3, 1),
                "unreachable",
            ),
        ] {
            let route = tally(method, &[(1, "!", answer, 1.0)])
                .route()
                .expect("begun");
            assert_eq!((route.outcome.as_str(), route.distance), (want, Some(1)));
        }
        let silent = tally(
            RouteMethod::TcpSyn,
            &[(1, "!", Expired, 1.0), (2, "*", Expired, 0.0)],
        );
        assert_eq!(silent.route().expect("begun").outcome, "silent");
        let mut circle = tally(RouteMethod::TcpSyn, &[(1, "!", Expired, 1.0)]);
        // A single return may be due to a longer path parallel to a shorter one.
        for (ttl, outcome) in [(3, "silent"), (5, "loop")] {
            let again = tally(RouteMethod::TcpSyn, &[(ttl, "!", Expired, 1.0)]);
            circle.hops.extend(again.hops);
            assert_eq!(circle.route().expect("begun").outcome, outcome);
        }
        let far = tally(RouteMethod::TcpSyn, &[(30, "!", Expired, 1.0)]);
        assert_eq!(far.route().expect("begun").outcome, "too-far");
    }

    #[test]
    fn a_translation_begins_where_quotes_first_differ_from_the_hop_before() {
        let hops = [1, 2, 3, 4, 5].map(|ttl| (ttl, "!", Expired, f64::from(ttl)));
        let mut tally = tally(RouteMethod::Dublin, &hops);
        let seen = |shift| Translation {
            source: None,
            source_port: 1,
            destination: None,
            destination_port: 2,
            checksum_shift: shift,
        };
        let quotes = [
            Some(None),
            None,
            Some(Some(seen(7))),
            Some(Some(seen(7))),
            Some(None),
        ];
        for (hop, quote) in tally.hops.values_mut().zip(quotes) {
            hop.translation = quote;
        }
        let route = tally.route().expect("begun");
        // No quote shows the translation at the second hop. At the last hop, the addresses are the
        // original ones again.
        assert_eq!(route.translated_before, [3, 5]);
        let shifts = tally.hops().into_iter();
        let shifts: Vec<_> = shifts
            .map(|hop| hop.translation.map(|seen| seen.checksum_shift))
            .collect();
        assert_eq!(shifts, [None, None, Some(7), Some(7), None]);
    }

    #[test]
    fn what_was_sent_beyond_the_target_is_not_listed() {
        let hops = [
            (1, "!", Expired, 1.0),
            (2, "!", Open, 2.0),
            (3, "*", Open, 0.0),
        ];
        assert_eq!(
            states(&tally(RouteMethod::TcpSyn, &hops)),
            [Answers, Answers]
        );
    }

    #[test]
    fn a_hop_is_slow_if_later_hops_are_materially_nearer() {
        let slow = |first, second| {
            let hops = [(1, "!", Expired, first), (2, "!", Open, second)];
            tally(RouteMethod::TcpSyn, &hops).hops()[0].slow_ns
        };
        let own = slow(5.0, 2.0).expect("later hops are 3 ms nearer");
        assert!((2_900_000..3_100_000).contains(&own), "{own}");
        assert_eq!(slow(1.4, 1.0), None, "by less than 0.5 ms");
        assert_eq!(slow(11.0, 10.0), None, "by less than a fifth");
        assert_eq!(slow(2.0, 5.0), None);
    }
}
