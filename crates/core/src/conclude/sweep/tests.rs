//! Tests of the remarks on sweeps.

use core::time::Duration;

use super::remarks;
use crate::facts::Facts;
use crate::observed::event::{
    Coming, Event, EventBody, Phase, ProbeAnswer, ProbeMethod, ProbeSample, ProbeStep, Stamp,
    TargetId,
};
use crate::observed::segment::TcpFlags;
use crate::observed::time::Timestamp;

type Answer = (ProbeStep, ProbeAnswer, u64);

/// Returns the ids of the remarks on probes with these `answers`. An answer consists of the varied
/// parameter, the kind of answer, and the round trip in µs.
fn said(method: ProbeMethod, answers: impl IntoIterator<Item = Answer>) -> Vec<String> {
    let mut facts = Facts::default();
    for (number, (step, answer, micros)) in (0..).zip(answers) {
        let is_answered = answer != ProbeAnswer::Silence;
        let sample = ProbeSample {
            target: TargetId::Subject,
            endpoint: crate::observed::flow::Endpoint::from(core::net::SocketAddr::from((
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
            headers: 28,
            reply: None,
            phases: None,
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

/// Returns four probes from each of eight source ports.
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
    // The losses are random, or affect most ports, or there are none.
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
    // Each port has too few probes.
    let few = by_port(|port, _| lost(port == 3)).into_iter().take(16);
    assert_eq!(said(syn, few), none);
}

#[test]
fn a_slower_member_shows_by_its_ports() {
    let syn = ProbeMethod::TcpSyn;
    let slow = by_port(|port, _| (OPEN, if port == 5 { 6_000 } else { 1_000 }));
    assert_eq!(said(syn, slow), ["probe-member-slower"]);
    let none: [&str; 0] = [];
    // The delay occurs once, or is small, or grows from port to port.
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
    // The slow port was answered only once, or by a router.
    let lossy = by_port(|port, round| match (port, round) {
        (5, 0) => (OPEN, 6_000),
        (5, _) => (SILENCE, 0),
        _ => (OPEN, 1_000),
    });
    assert_eq!(said(syn, lossy), none);
    let rejected = by_port(|port, _| match port {
        5 => (ProbeAnswer::Unreachable(3, 1), 6_000),
        _ => (OPEN, 1_000),
    });
    assert_eq!(said(syn, rejected), none);
}

/// Returns three echo requests of each size.
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
    // Some of the smaller probes were lost too: the host limits its answers.
    let limited = by_size(|size, round| echo(size <= 1_200 && (size > 900 || round > 0), SILENCE));
    assert_eq!(said(icmp, limited), none);
    let burst = by_size(|size, round| echo(round == 0 && size < 1_400, SILENCE));
    assert_eq!(said(icmp, burst), none);
    let first = by_size(|size, _| echo(size < 1_200, SILENCE)).into_iter();
    assert_eq!(said(icmp, first.take(8)), none);
    // A router sends the errors, not the target.
    let router = |size, _| match size {
        ..1_300 => ProbeAnswer::Unreachable(3, 1),
        _ => SILENCE,
    };
    assert_eq!(said(icmp, by_size(router)), none);
    // First, all SYNs with data are dropped. Then only SYNs above a size are.
    let syn = |least: u16| {
        by_size(move |size, _| if size < least { OPEN } else { SILENCE })
            .into_iter()
            .map(|(step, answer, micros)| match step {
                ProbeStep::Size(size) => (ProbeStep::Size(size - 800), answer, micros),
                step => (step, answer, micros),
            })
    };
    assert_eq!(said(ProbeMethod::TcpSyn, syn(900)), none);
    assert_eq!(
        said(ProbeMethod::TcpSyn, syn(1_300)),
        ["probe-size-black-hole"]
    );
    // Each size was probed only once.
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
