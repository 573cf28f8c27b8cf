//! Tests of a proxy whose listener and upstream connections have different addresses, with both
//! sides in one capture.

use core::time::Duration;

use super::*;
use crate::observed::event::{PhaseStart, PointId, Upstream};
use crate::observed::segment::SentBy;
use crate::registry::Id;
use crate::report::Report;
use crate::views::two_point::Joining;

const SYN: TcpFlags = TcpFlags::SYN;
const ROUNDS: i64 = 20;
/// The time from one request to the next, in µs.
const APART: i64 = 100_000;
/// The time that the proxy takes before its upstream request, and before it passes on a response,
/// in µs.
const OWN: i64 = 200;
const CLIENT: [u8; 4] = [10, 1, 0, 1];
/// Another host on the clients' side.
const OTHER: [u8; 4] = [10, 1, 0, 9];
const PROXY: [u8; 4] = [10, 1, 0, 2];
const INNER: [u8; 4] = [10, 2, 0, 1];
const UPSTREAM: [u8; 4] = [10, 2, 0, 2];

/// A connection between two hosts, with its requests. Each is given by the times in µs at which it
/// begins and is answered.
fn connection(
    from: [u8; 4],
    to: [u8; 4],
    asked: impl IntoIterator<Item = (i64, i64)>,
) -> Vec<(Segment, &'static [u8])> {
    connection_to(from, Endpoint::new(to.into(), 80), asked)
}

fn connection_to(
    from: [u8; 4],
    to: Endpoint,
    asked: impl IntoIterator<Item = (i64, i64)>,
) -> Vec<(Segment, &'static [u8])> {
    connection_of(Endpoint::new(from.into(), 40_000), to, asked)
}

fn connection_of(
    from: Endpoint,
    to: Endpoint,
    asked: impl IntoIterator<Item = (i64, i64)>,
) -> Vec<(Segment, &'static [u8])> {
    let ends = [from, to];
    let mut next = [0_u32; 2];
    let mut made = Vec::new();
    let mut add = |micros: i64, by_client: bool, flags, payload: &'static [u8]| {
        let [own, other] = [usize::from(!by_client), usize::from(by_client)];
        let at = Timestamp::from_nanos(1_700_000_000_000_000_000 + micros * 1000);
        let segment = Segment {
            seq: next[own],
            ack: next[other],
            flags,
            payload_len: payload.len() as u32,
            ..Segment::sent(ends[own], ends[other], at)
        };
        let is_syn = flags == SYN || flags == SYN.with(ACK);
        next[own] += payload.len() as u32 + u32::from(is_syn);
        made.push((segment, payload));
    };
    add(0, true, SYN, b"");
    add(10, false, SYN.with(ACK), b"");
    add(20, true, ACK, b"");
    for (begin, answered) in asked {
        add(begin, true, ACK, REQUEST);
        add(begin + 10, false, ACK, b"");
        add(answered, false, ACK, RESPONSE);
        add(answered + 10, true, ACK, b"");
    }
    made
}

/// Returns a pseudo-random number less than `range` for request number `n`; `salt` selects another
/// series.
fn drawn(n: i64, salt: u64, range: u64) -> i64 {
    let mixed = (n as u64 ^ salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ mixed >> 32) % range) as i64
}

/// The server's time for its request number `n`, in µs: 30 to 60 ms.
fn takes(n: i64, salt: u64) -> i64 {
    30_000 + drawn(n, salt, 30_000)
}

/// Requests of a client. Each takes the upstream's time plus the proxy's own time.
fn in_front(behind: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    let each = |n| (n * APART, n * APART + behind(n) + 2 * OWN);
    (1..=ROUNDS).map(each).collect()
}

/// Requests that follow each client request immediately, sent by the proxy or by another host.
fn behind(takes: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    let each = |n| (n * APART + OWN, n * APART + OWN + takes(n));
    (1..=ROUNDS).map(each).collect()
}

/// Returns the services that are reported as waiting for another service.
fn waiting(all: Vec<Vec<(Segment, &'static [u8])>>) -> Vec<String> {
    let report = report(Analyzer::new(Options::default()), all);
    waiting_in(report)
}

fn report(mut analyzer: Analyzer, all: Vec<Vec<(Segment, &'static [u8])>>) -> Report {
    let mut all = all.concat();
    all.sort_by_key(|(segment, _)| segment.at);
    for (number, (mut segment, payload)) in (1..).zip(all) {
        segment.number = number;
        analyzer.segment(&segment, payload);
    }
    analyzer.finish()
}

fn waiting_in(report: Report) -> Vec<String> {
    let findings = report.findings.into_iter();
    let waiting = findings.filter(|finding| finding.cause == Id::DownstreamWait);
    waiting.map(|finding| finding.service).collect()
}

#[test]
fn what_fills_each_request_and_varies_with_it_is_what_it_waits_for() {
    let front = connection(CLIENT, PROXY, in_front(|n| takes(n, 0)));
    let back = connection(INNER, UPSTREAM, behind(|n| takes(n, 0)));
    assert_eq!(waiting(vec![front, back]), ["10.1.0.2:80"]);
}

/// Another client asks over loopback, at the same times. At another port, that is a call.
#[test]
fn a_program_that_also_listens_on_loopback_does_not_wait_for_itself() {
    let inside = |port| {
        let front = connection(CLIENT, PROXY, in_front(|n| takes(n, 0)));
        let at = Endpoint::new([127, 0, 0, 1].into(), port);
        let back = connection_to([127, 0, 0, 1], at, behind(|n| takes(n, 0)));
        waiting(vec![front, back])
    };
    assert_eq!(inside(81), ["10.1.0.2:80"]);
    assert_eq!(inside(80), [""; 0]);
}

/// Returns the report of an investigation of the proxy that observes the load for `lasting` µs, and
/// has been told that `caller` calls the upstream. The upstream's packets are those of another
/// interface.
fn investigated(lasting: i64, caller: [u8; 4]) -> Report {
    let [proxy, upstream] = [PROXY, UPSTREAM].map(|host| Endpoint::new(host.into(), 80));
    let mut analyzer = Analyzer::new(Options {
        targets: vec![(TargetId::Subject, proxy)],
        ..Options::default()
    });
    let begin = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let observed = PhaseStart {
        target: TargetId::Subject,
        end: begin + Duration::from_micros(lasting as u64),
        experiment: None,
        connections: 1,
        offered_rate: None,
        turns: 1,
        active: Duration::from_micros(lasting as u64),
        is_observed: true,
    };
    let told = Upstream {
        caller: caller.into(),
        endpoint: upstream,
    };
    let events = [EventBody::PhaseStarted(observed), EventBody::Upstream(told)];
    events
        .into_iter()
        .for_each(|body| analyzer.observe(Event::here(begin, Phase::Baseline, body)));
    let front = connection(CLIENT, PROXY, in_front(|_| 40_000));
    let mut back = connection(INNER, UPSTREAM, behind(|_| 40_000));
    for (segment, _) in &mut back {
        segment.point = PointId(1);
    }
    report(analyzer, vec![front, back])
}

#[test]
fn an_investigation_follows_the_upstreams_that_it_is_told_of() {
    let whole = investigated(ROUNDS * APART * 2, INNER);
    let services: Vec<_> = whole
        .account
        .iter()
        .map(|one| one.service.clone())
        .collect();
    assert_eq!(services, ["10.1.0.2:80"]);
    assert!(
        whole
            .findings
            .iter()
            .all(|one| one.service == "10.1.0.2:80")
    );
    assert_eq!(waiting_in(whole), ["10.1.0.2:80"]);
}

#[test]
fn an_investigation_counts_no_other_requests_to_upstreams() {
    let of_others = investigated(ROUNDS * APART * 2, OTHER);
    assert_eq!(waiting_in(of_others), [] as [&str; 0]);
    let beyond = investigated(APART / 2, INNER);
    assert_eq!(waiting_in(beyond), [] as [&str; 0]);
}

#[test]
fn of_a_line_of_proxies_each_waits_for_the_next() {
    let inner = |n: i64| takes(n, 0);
    let front = connection(CLIENT, PROXY, in_front(|n| inner(n) + 2 * OWN));
    let middle = connection(INNER, UPSTREAM, behind(|n| inner(n) + 2 * OWN));
    let last = behind(inner).into_iter();
    let last = last
        .map(|(from, until)| (from + OWN, until + OWN))
        .collect::<Vec<_>>();
    let last = connection([10, 3, 0, 1], [10, 3, 0, 2], last);
    let waiting = waiting(vec![front, middle, last]);
    assert_eq!(waiting, ["10.1.0.2:80", "10.2.0.2:80"]);
}

#[test]
fn who_asks_two_at_the_same_time_makes_neither_wait_for_the_other() {
    for salt in 1..100 {
        let one = connection(CLIENT, PROXY, in_front(|n| 60_000 + drawn(n, 0, 8_000)));
        // The other server is slightly faster, for all requests or for most of them.
        for (least, range) in [(54_000, 5_000), (54_000, 10_000), (50_000, 20_000)] {
            let quicker = behind(|n| least + drawn(n, salt, range));
            let other = connection(OTHER, UPSTREAM, quicker);
            assert_eq!(waiting(vec![one.clone(), other]), [] as [&str; 0], "{salt}");
        }
    }
    let steady = connection(CLIENT, PROXY, in_front(|_| 40_000));
    let shorter = connection(OTHER, UPSTREAM, behind(|n| 38_000 + drawn(n, 1, 1_000)));
    assert_eq!(waiting(vec![steady, shorter]), [] as [&str; 0]);
}

/// A near miss: two servers wait for the same third server, one of them longer than the other, and
/// receive few requests.
#[test]
fn servers_that_wait_for_the_same_do_not_wait_for_each_other() {
    let seldom = |late: i64, took: &dyn Fn(i64) -> i64| {
        let each = |n| (n * 10 * APART + late, n * 10 * APART + late + took(n));
        (1..=ROUNDS).map(each).collect::<Vec<_>>()
    };
    for salt in 0..20 {
        let front = connection(CLIENT, PROXY, seldom(0, &|n| takes(n, salt) * 8 / 5));
        let back = connection(OTHER, UPSTREAM, seldom(OWN, &|n| takes(n, salt)));
        assert_eq!(waiting(vec![front, back]), [] as [&str; 0], "{salt}");
    }
}

#[test]
fn the_client_s_own_request_is_not_its_server_s() {
    let front = connection(CLIENT, PROXY, in_front(|n| takes(n, 0)));
    let back = connection(CLIENT, UPSTREAM, behind(|n| takes(n, 0)));
    assert_eq!(waiting(vec![front, back]), [] as [&str; 0]);
}

#[test]
fn what_is_asked_more_often_than_the_proxy_is_somebody_else_s() {
    let front = connection(CLIENT, PROXY, in_front(|n| takes(n, 0)));
    let between = |n| (n * APART + 70_000, n * APART + 90_000);
    let both = behind(|n| takes(n, 0))
        .into_iter()
        .zip((1..=ROUNDS).map(between));
    let both: Vec<_> = both.flat_map(|(one, other)| [one, other]).collect();
    let back = connection(INNER, UPSTREAM, both);
    assert_eq!(waiting(vec![front, back]), [] as [&str; 0]);
}

#[test]
fn where_many_are_asked_at_a_time_one_fits_by_chance() {
    // Each of two servers with equal times has forty connections in parallel.
    let many = |from: [u8; 4], to, late: i64| {
        let one = move |n: i64| (n * 2_500 + late, n * 2_500 + late + takes(n / 7, 0));
        (0..40_u8).map(move |lane| {
            let [a, b, c, d] = from;
            let host = [a, b, c, d + 10 + lane];
            let asked = (1..=ROUNDS).map(move |n| one(n * 40 + i64::from(lane)));
            connection(host, to, asked.collect::<Vec<_>>())
        })
    };
    let all: Vec<_> = many(CLIENT, PROXY, 0)
        .chain(many(INNER, UPSTREAM, 1_000))
        .collect();
    assert_eq!(waiting(all), [] as [&str; 0]);
}

/// The server calls another one from another address of its host, twelve times for each request. The
/// capture shows that they are one host only if the kernel says that their packets left.
#[test]
fn calls_from_another_address_of_the_capturing_host_are_the_server_s() {
    let calls = |sent_by| {
        let front = connection(CLIENT, PROXY, in_front(|_| 12 * 4_100));
        let each = |n| (0..12).map(move |k| (n * APART + OWN + k * 4_100, k));
        let back = (1..=ROUNDS).flat_map(each).map(|(at, _)| (at, at + 4_000));
        let mut all = vec![front, connection(INNER, UPSTREAM, back)];
        for (segment, _) in all.iter_mut().flatten() {
            let source = segment.flow.source(segment.direction).addr;
            let is_here = [PROXY, INNER]
                .map(core::net::IpAddr::from)
                .contains(&source);
            segment.ip.sent_by = if is_here {
                sent_by
            } else {
                SentBy::AnotherHost
            };
        }
        let report = report(Analyzer::new(Options::default()), all);
        let mut findings = report.findings.into_iter();
        findings.find(|finding| finding.cause == Id::UpstreamCalls)
    };
    let found = calls(SentBy::ThisHostOrBehind).expect("calls fill each wait");
    assert_eq!(found.service, "10.1.0.2:80");
    assert_eq!(found.affected.exchanges, ROUNDS as u64);
    assert!(calls(SentBy::AnotherHost).is_none());
    assert!(calls(SentBy::Unknown).is_none());
}

/// With the client's capture beside it, the server's shows as much as alone.
#[test]
fn a_capture_of_the_client_beside_it_takes_nothing_from_that_of_the_server() {
    let seen_at = |point, mut made: Vec<(Segment, &'static [u8])>| {
        for (segment, _) in &mut made {
            segment.point = PointId(point);
        }
        made
    };
    let front = || connection(CLIENT, PROXY, in_front(|n| takes(n, 0)));
    let back = connection(PROXY, UPSTREAM, behind(|n| takes(n, 0)));
    let all = vec![seen_at(0, front()), seen_at(1, front()), seen_at(1, back)];
    let report = report(Analyzer::new(Options::default()), all);
    let found = &report.findings[0];
    assert_eq!(found.cause, Id::DownstreamWait, "{found:?}");
    assert_eq!(found.affected.exchanges, 2 * ROUNDS as u64);
    assert!(found.share > 0.9, "{}", found.share);
}

/// The server's capture has another clock and another name for the server, and nobody asks it for
/// findings of its own.
#[test]
fn what_the_server_s_own_capture_shows_of_calls_explains_the_clients_waits() {
    const INSIDE: [u8; 4] = [172, 17, 0, 2];
    const SET_OFF: Duration = Duration::from_secs(5 * 365 * 86_400);
    let near = connection(CLIENT, PROXY, in_front(|n| takes(n, 0)));
    let mut far = connection(CLIENT, INSIDE, in_front(|n| takes(n, 0)));
    for (segment, _) in &mut far {
        let is_request =
            segment.flow.source(segment.direction).addr == core::net::IpAddr::from(CLIENT);
        let on_the_way = Duration::from_micros(3);
        segment.at = if is_request {
            segment.at + on_the_way
        } else {
            segment.at - on_the_way
        };
    }
    let mut calls = connection(INSIDE, UPSTREAM, behind(|n| takes(n, 0)));
    for (segment, _) in &mut calls {
        segment.seq += 1_000_000;
        segment.ack += 1_000_000;
    }
    let mut far = [far, calls].concat();
    far.sort_by_key(|(segment, _)| segment.at);
    for (number, (segment, _)) in (1..).zip(&mut far) {
        segment.at = segment.at - SET_OFF;
        segment.point = PointId(1);
        segment.number = number;
    }

    let mut joining = Joining::new(0);
    for (segment, _) in &near {
        joining.observe_segment(0, segment);
    }
    for (segment, _) in &far {
        joining.observe_segment(1, segment);
    }
    let recognised = joining.recognise().expect("one connection is in both");
    let mut server = Analyzer::new(Options::default());
    for (segment, payload) in &far {
        server.segment(segment, payload);
    }
    let far_side = server.finish_far_side(&recognised.far_names());

    let alone = report(Analyzer::new(Options::default()), vec![near.clone()]);
    assert_eq!(waiting_in(alone), [""; 0]);
    let client = Analyzer::new(Options::default()).with_far_side(far_side);
    let report = report(client, vec![near]);
    let found = &report.findings[0];
    assert_eq!(found.cause, Id::DownstreamWait, "{found:?}");
    assert_eq!(found.service, "10.1.0.2:80");
    assert_eq!(found.affected.exchanges, ROUNDS as u64);
    assert!(found.share > 0.9, "{}", found.share);
    let services: Vec<_> = report.account.iter().map(|one| &one.service).collect();
    assert_eq!(services, ["10.1.0.2:80"]);
}

/// Eight clients side by side, whose requests make six short calls and wait for something else between
/// them. What others call meanwhile fills some of these waits.
#[test]
fn calls_for_other_requests_do_not_fill_a_wait() {
    let behind = Endpoint::new(UPSTREAM.into(), 5432);
    let findings = |idle: i64| {
        let one = |lane: i64| {
            let port = 40_000 + lane as u16;
            let begin = move |n: i64| n * 60_000 + lane * 7_300 + drawn(n, lane as u64, 9_000);
            let took = 6 * 1_300 + idle;
            let front = (1..=30).map(move |n| (begin(n), begin(n) + took + 200));
            let call = move |n: i64, k: i64| {
                let at = begin(n) + 100 + k * 1_300 + if k < 3 { 0 } else { idle };
                (at, at + 1_250)
            };
            let calls = (1..=30).flat_map(move |n| (0..6).map(move |k| call(n, k)));
            let (client, server) = (Endpoint::new(CLIENT.into(), port), PROXY.into());
            [
                connection_of(client, Endpoint::new(server, 80), front),
                connection_of(Endpoint::new(server, port), behind, calls),
            ]
        };
        let report = report(
            Analyzer::new(Options::default()),
            (0..8).flat_map(one).collect(),
        );
        let causes = report.findings.into_iter().map(|finding| finding.cause);
        causes.collect::<Vec<_>>()
    };
    let of_calls = [Id::UpstreamCalls, Id::DownstreamWait];
    let busy = findings(30_000);
    assert!(
        !busy.iter().any(|cause| of_calls.contains(cause)),
        "{busy:?}"
    );
    assert_eq!(findings(0)[0], Id::UpstreamCalls);
}
