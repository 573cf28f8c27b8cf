//! Tests of servers that make requests wait, by the timestamps of our own requests alone.

use core::time::Duration;

use proptest::prelude::*;

use super::starved::{at, ends};
use super::*;
use crate::observed::event::{
    Coming, Event, EventBody, LoadCluster, Phase, PhaseStart, ProbeAnswer, ProbeMethod,
    ProbeSample, RequestSample, Stamp, TargetId,
};
use crate::observed::flow::{FlowKey, Transport};
use crate::observed::time::nanos;
use crate::registry::Id;
use crate::report::{EvidenceKind, Finding, Verdict};
use crate::stats::histogram::Distribution;

/// Length of each of the two loads, and of the time between them.
const LOAD: Duration = Duration::from_secs(2);
const BETWEEN: Duration = Duration::from_millis(400);
const ROUND_TRIP: Duration = Duration::from_micros(80);

/// A server and the clients that send their next request as soon as they are answered.
#[derive(Clone, Copy, Debug)]
struct Server {
    clients: u16,
    /// Number of requests in service at the same time.
    workers: usize,
    /// Time of a request without its wait for a worker.
    work: Duration,
    /// Minimum time between two answers.
    turn: Duration,
    /// Time of a single request to the idle server.
    alone: Duration,
    /// Of this many requests, one is recorded.
    sampled: u32,
    /// True if each request needs a connection.
    is_connected_anew: bool,
    /// Number of requests that a worker serves on a connection before it turns to another one.
    stays: u32,
    /// Some work that takes much longer.
    long: Long,
    /// True if handshakes take as long as requests while the load runs.
    is_path: bool,
}

/// The requests whose work takes at least [`LONGER`] times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Long {
    None,
    /// Any request, one of eight.
    Some,
    /// All requests of so many clients.
    Of(u16),
}

const LONGER: u32 = 40;

/// A request: the client, its number on the connection, and when it was sent and answered.
type Served = (u16, u32, Timestamp, Timestamp);

impl Server {
    /// Returns the requests of a load that begins at `begin`.
    fn serve(self, begin: Timestamp) -> Vec<Served> {
        let mut free = vec![(begin, 0, 0); self.workers];
        let mut waiting: Vec<_> = (0..self.clients).map(|client| (begin, client, 0)).collect();
        let (mut last, mut served) = (begin - self.turn, Vec::new());
        loop {
            free.sort_unstable();
            let (at, of, stayed) = free[0];
            let is_next = |(sent, client, _): &(Timestamp, u16, u32)| {
                stayed > 0 && stayed < self.stays && *client == of && *sent <= at + ROUND_TRIP * 2
            };
            let earliest = (0..waiting.len()).min_by_key(|&at| waiting[at]);
            let next = waiting.iter().position(is_next).or(earliest);
            let (sent, client, ordinal) = waiting[next.expect("clients")];
            if sent.since(begin) > LOAD {
                return served;
            }
            let done = sent.max(at) + self.work_of(client, ordinal);
            // Without a limit, a quick request overtakes a long one.
            let answered = if self.turn.is_zero() {
                done
            } else {
                done.max(last + self.turn)
            };
            let stayed = if client == of { stayed + 1 } else { 1 };
            free[0] = (answered, client, stayed);
            last = answered;
            served.push((client, ordinal, sent, answered + ROUND_TRIP));
            waiting[next.expect("clients")] = (answered + ROUND_TRIP, client, ordinal + 1);
        }
    }

    fn work_of(self, client: u16, ordinal: u32) -> Duration {
        let number = (ordinal + 17 * u32::from(client)).wrapping_mul(0x9e37_79b9) >> 20;
        let is_long = match self.long {
            Long::None => false,
            Long::Some => number.is_multiple_of(8),
            Long::Of(clients) => client < clients,
        };
        // Some work takes a little longer.
        let work = self.work + self.work * (number % 5) / 100;
        let times = LONGER + u32::from(client) * 7 % 32;
        if is_long { work * times } else { work }
    }

    fn events(self) -> Vec<Event> {
        let mut events: Vec<Event> = [
            (ProbeMethod::TcpConnect, ProbeAnswer::Open, ROUND_TRIP),
            (
                if self.is_connected_anew {
                    ProbeMethod::HttpFresh
                } else {
                    ProbeMethod::HttpKeptAlive
                },
                ProbeAnswer::Status(200),
                self.alone + ROUND_TRIP,
            ),
        ]
        .iter()
        .flat_map(|&(method, answer, rtt)| {
            (0..5).map(move |number| {
                here(
                    at(-900),
                    EventBody::Probe(probe(method, answer, rtt, number)),
                )
            })
        })
        .collect();
        // The second load is that which packets would have shown.
        let begins = [at(0), at(0) + LOAD + BETWEEN];
        for (run, begin) in (0..).zip(begins) {
            events.push(here(
                begin,
                EventBody::PhaseStarted(start(begin, self.clients)),
            ));
            let served = self.serve(begin);
            let mut latency = Distribution::default();
            for &(client, ordinal, sent, ended) in &served {
                latency.record(ended.since(sent));
                if ordinal.is_multiple_of(self.sampled) {
                    let sample = self.sample(client + 1_000 * run, ordinal, sent, ended);
                    events.push(here(ended, EventBody::Request(sample)));
                }
            }
            if self.is_path {
                let trip = latency.quantile(0.5).unwrap_or_default();
                let handshake = probe(ProbeMethod::TcpConnect, ProbeAnswer::Open, trip, 5);
                events.push(here(begin + LOAD / 2, EventBody::Probe(handshake)));
            }
            let load = LoadCluster {
                service: latency.clone(),
                statuses: vec![(200, served.len() as u64)],
                latency,
                ..LoadCluster::default()
            };
            events.push(here(begin + LOAD, EventBody::Load(load)));
        }
        events
    }

    fn sample(self, client: u16, ordinal: u32, sent: Timestamp, ended: Timestamp) -> RequestSample {
        let [client, server] = ends(client);
        let is_anew = ordinal == 0 || self.is_connected_anew;
        RequestSample {
            target: TargetId::Subject,
            flow: Some(FlowKey::new(Transport::Tcp, client, server).0),
            ordinal,
            sent,
            first_byte: Some(ended),
            ended,
            longest_gap: Duration::ZERO,
            setup: is_anew.then_some(ROUND_TRIP),
            outcome: Ok(200),
            received_bytes: 100,
        }
    }

    fn report(self) -> Report {
        let [_, server] = ends(0);
        let mut analyzer = Analyzer::new(Options {
            targets: vec![(TargetId::Subject, server)],
            ..Options::default()
        });
        for event in self.events() {
            analyzer.observe(event);
        }
        analyzer.finish()
    }

    fn finding(self, id: Id) -> Option<Finding> {
        let found = self.report().findings;
        found.into_iter().find(|found| found.cause == id)
    }

    fn found(self, id: Id) -> Option<(Verdict, Vec<EvidenceKind>)> {
        let finding = self.finding(id)?;
        let kinds = finding.evidence.iter().map(|evidence| evidence.kind);
        Some((finding.verdict, kinds.collect()))
    }
}

fn here(at: Timestamp, body: EventBody) -> Event {
    Event::here(at, Phase::Baseline, body)
}

fn start(begin: Timestamp, clients: u16) -> PhaseStart {
    PhaseStart {
        target: TargetId::Subject,
        end: begin + LOAD,
        experiment: None,
        connections: clients.into(),
        offered_rate: None,
        turns: 1,
        active: LOAD,
        is_observed: false,
    }
}

fn probe(method: ProbeMethod, answer: ProbeAnswer, rtt: Duration, number: u32) -> ProbeSample {
    ProbeSample {
        target: TargetId::Subject,
        endpoint: ends(0)[1],
        method,
        answer,
        rtt: Some(rtt),
        stamp: Stamp::User,
        ttl: None,
        syn_retransmissions: 0,
        number,
        coming: Coming::default(),
        noticed: None,
        queued: None,
        step: None,
        headers: 0,
        reply: None,
        phases: None,
    }
}

/// A server with fewer workers than clients.
fn busy() -> impl Strategy<Value = Server> {
    (1_usize..5, 4_u16..8, 3_u64..12).prop_map(|(workers, times, millis)| Server {
        clients: workers as u16 * times,
        workers,
        work: Duration::from_millis(millis),
        turn: Duration::ZERO,
        alone: Duration::from_millis(millis),
        sampled: 1,
        is_connected_anew: false,
        stays: 1,
        long: Long::None,
        is_path: false,
    })
}

/// A server whose limit is no round number of requests per second.
fn limiting() -> impl Strategy<Value = Server> {
    (4_u16..20, 1_u32..6).prop_map(|(clients, fifties)| Server {
        clients,
        workers: clients.into(),
        work: Duration::from_micros(200),
        turn: Duration::from_secs(1) / (50 * fifties + 23),
        alone: Duration::from_micros(200),
        sampled: 1,
        is_connected_anew: false,
        stays: 1,
        long: Long::None,
        is_path: false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn without_the_queue_a_request_is_expected_to_take_what_it_takes_alone(
        server in busy(), is_connected_anew in any::<bool>(),
    ) {
        let server = Server { is_connected_anew, ..server };
        let finding = server.finding(Id::WorkerSaturation).expect("the cause");
        let expected = finding.predicted.expect("a prediction").latency_ns.p50;
        let alone = nanos(server.alone + ROUND_TRIP);
        prop_assert!(expected.abs_diff(alone) * 10 <= alone, "{expected} of {alone}");
    }

    #[test]
    fn a_busy_worker_shows_without_packets(server in busy()) {
        let found = server.found(Id::WorkerSaturation);
        let (verdict, kinds) = found.expect("the cause");
        prop_assert_eq!(verdict, Verdict::Strong);
        prop_assert!(kinds.iter().all(|&kind| kind == EvidenceKind::OwnSocket));
        prop_assert!(server.found(Id::RateLimit).is_none());
    }

    #[test]
    fn a_worker_for_each_request_is_not_busy(server in busy()) {
        let server = Server { workers: server.clients.into(), ..server };
        prop_assert!(server.found(Id::WorkerSaturation).is_none());
        prop_assert!(server.found(Id::RateLimit).is_none());
    }

    #[test]
    fn workers_that_stay_with_a_connection_are_busy_too(server in busy(), stays in 5_u32..12) {
        let server = Server { stays, ..server };
        let (verdict, kinds) = server.found(Id::WorkerSaturation).expect("the cause");
        prop_assert_eq!(verdict, Verdict::Strong);
        prop_assert!(kinds.iter().all(|&kind| kind == EvidenceKind::OwnSocket));
    }

    #[test]
    fn requests_that_take_longer_keep_no_worker_busy(server in busy(), is_of_clients: bool) {
        let clients = server.clients;
        let long = if is_of_clients { Long::Of(clients * 3 / 4) } else { Long::Some };
        let server = Server { workers: clients.into(), long, ..server };
        prop_assert!(server.found(Id::WorkerSaturation).is_none());
    }

    #[test]
    fn a_queue_on_the_path_is_no_busy_worker(server in busy()) {
        let server = Server { is_path: true, ..server };
        prop_assert!(server.found(Id::WorkerSaturation).is_none());
        prop_assert!(server.found(Id::ServerThink).is_none());
        prop_assert!(server.found(Id::RateLimit).is_none());
    }

    #[test]
    fn a_sample_has_no_rhythm(server in busy()) {
        let server = Server { sampled: 2, ..server };
        prop_assert!(server.found(Id::WorkerSaturation).is_none());
    }

    #[test]
    fn a_limit_shows_by_the_idle_servers_quick_answer(server in limiting()) {
        let (verdict, kinds) = server.found(Id::RateLimit).expect("the cause");
        prop_assert_eq!(verdict, Verdict::Possible);
        prop_assert!(kinds.iter().all(|&kind| kind == EvidenceKind::OwnSocket));
        prop_assert!(server.found(Id::WorkerSaturation).is_none());
    }

    #[test]
    fn intervals_of_new_connections_are_no_limit(server in limiting()) {
        let server = Server { is_connected_anew: true, ..server };
        prop_assert!(server.found(Id::RateLimit).is_none());
    }
}
