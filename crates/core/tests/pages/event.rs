//! Events that lines of a script describe: observations other than packets.

use core::time::Duration;

use lagtrace_core::observed::event::{
    Coming, ConfigurationLine, CounterChange, CounterScope, Event, EventBody, ListenerSample,
    LoadCluster, OtherAddress, Phase, PhaseStart, ProbeAnswer, ProbeMethod, ProbeSample,
    RequestFailure, RequestSample, Resolution, SocketOwner, SocketSample, SourceLocation, Stamp,
    TargetId, TcpSample,
};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::kernel_span::{
    Asked, Departure, KernelHold, Program, RequestSpan, ThreadTimes, Throttling, WatchTally,
};
use lagtrace_core::observed::load_level::ProcessorUse;
use lagtrace_core::observed::syscall::{
    Accepted, Argument, CallTally, CalledSocket, Caller, Request, SocketCall, SocketKind,
};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::stats::histogram::Distribution;

use crate::script::number_of;
use crate::sum::{Sum, Values};
use crate::wire::server;

/// Number of seconds of a load run. Each second is reported separately.
const SLICES: u32 = 5;

/// The words of a line, read one after the other.
struct Words<'a> {
    words: core::slice::Iter<'a, String>,
    values: &'a mut Values,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.words.next().map(String::as_str)
    }

    fn operand(&mut self, of: &str) -> Result<&'a str, String> {
        self.next().ok_or(format!("`{of}` lacks its operand"))
    }

    fn count(&mut self, of: &str) -> Result<u32, String> {
        number_of(self.operand(of)?)
    }

    fn duration(&mut self, of: &str) -> Result<Duration, String> {
        let nanos = Sum::parse(self.operand(of)?)?.value(self.values)?;
        u64::try_from(nanos)
            .map(Duration::from_nanos)
            .map_err(|e| e.to_string())
    }
}

/// Returns the events that a line describes.
pub(crate) fn make(
    words: &[String],
    at: Timestamp,
    values: &mut Values,
) -> Result<Vec<Event>, String> {
    let mut words = Words {
        words: words.iter(),
        values,
    };
    match words.operand("an observation")? {
        "probe" => probe(&mut words, at),
        "load" => load(&mut words, at),
        "request" => request(&mut words, at),
        "experiment" => experiment(&mut words, at),
        "socket" => socket(&mut words, at),
        "setting" => setting(&mut words, at),
        "counter" => counter(&mut words, at),
        "listener" => listener(&mut words, at),
        "kernel" => kernel(&mut words, at),
        "processors" => processors(&mut words, at),
        "called" => called(&mut words, at),
        "resolved" => resolved(&mut words, at),
        "address" => address(&mut words, at),
        other => Err(format!("`{other}` is neither a segment nor an observation")),
    }
}

/// Returns who used the two processors of a busy host for a second: `processors others N`, percent.
fn processors(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let wall = Duration::from_secs(1);
    let others = match words.operand("processors")? {
        "others" => f64::from(words.count("others")?) / 100.0,
        other => return Err(format!("processors are not used by `{other}`")),
    };
    let busy = wall * 2;
    let used = ProcessorUse {
        processors: 2,
        wall,
        busy,
        by_others: busy.mul_f64(others),
        service: Some(busy.mul_f64(1.0 - others)),
        ..ProcessorUse::default()
    };
    let body = EventBody::Processors(used);
    Ok(vec![Event::here(at, Phase::Baseline, body)])
}

/// Returns the lookup of a name by this host's own resolver: `resolved NAME SUM`.
fn resolved(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let name = words.operand("resolved")?.to_owned();
    let took = words.duration("resolved")?;
    let body = EventBody::Resolution(Resolution {
        name,
        addresses: vec![server().addr],
        took,
        failure: None,
    });
    Ok(vec![Event::here(at, Phase::Baseline, body)])
}

/// Returns attempts at another address of the server's name: `address ADDRESS silence|refused x N`.
fn address(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let address = words.operand("address")?;
    let address = address
        .parse()
        .map_err(|_| format!("`{address}` is no address"))?;
    let answer = match words.operand("address")? {
        "silence" => ProbeAnswer::Silence,
        "refused" => ProbeAnswer::Refused,
        other => return Err(format!("no address answers with `{other}`")),
    };
    words.operand("address")?;
    let body = EventBody::OtherAddress(OtherAddress {
        target: TargetId::Subject,
        endpoint: Endpoint::new(address, server().port),
        attempts: words.count("address")?,
        answer,
        waited: Duration::from_secs(1),
    });
    Ok(vec![Event::here(at, Phase::Baseline, body)])
}

fn probe(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let method = match words.operand("probe")? {
        "tcp-syn" => ProbeMethod::TcpSyn,
        "tcp-connect" => ProbeMethod::TcpConnect,
        "http-fresh" => ProbeMethod::HttpFresh,
        "tls-full" => ProbeMethod::TlsFull,
        "http-kept-alive" => ProbeMethod::HttpKeptAlive,
        other => return Err(format!("no probe is called `{other}`")),
    };
    let answer = match words.operand("probe")? {
        "open" => ProbeAnswer::Open,
        "refused" => ProbeAnswer::Refused,
        "silence" => ProbeAnswer::Silence,
        "unfinished" => ProbeAnswer::Unfinished,
        "closed" => ProbeAnswer::Closed,
        "not-http" => ProbeAnswer::NotHttp,
        "tls-failed" => ProbeAnswer::TlsFailed,
        "not-trusted" => ProbeAnswer::NotTrusted,
        "not-tls" => ProbeAnswer::NotTls,
        "tls-timeout" => ProbeAnswer::TlsTimeout,
        "secured" => ProbeAnswer::Secured,
        "status" => ProbeAnswer::Status(words.count("status")? as u16),
        "unreachable" => {
            let word = words.operand("unreachable")?;
            let (kind, code) = word.split_once('/').ok_or("an ICMP error is TYPE/CODE")?;
            ProbeAnswer::Unreachable(number_of(kind)? as u8, number_of(code)? as u8)
        }
        other => return Err(format!("no probe is answered by `{other}`")),
    };
    let (mut count, mut rtt, mut at, mut repeated) = (1, None, at - Duration::from_secs(1), 0);
    while let Some(word) = words.next() {
        match word {
            "x" => count = words.count(word)?,
            "rtt" => rtt = Some(words.duration(word)?),
            // The probe is sent one second after the start of the load, instead of one second
            // before.
            "loaded" => at = at + Duration::from_secs(2),
            "repeated" => repeated = words.count(word)? as u8,
            other => return Err(format!("a probe has no `{other}`")),
        }
    }
    let sample = ProbeSample {
        target: TargetId::Subject,
        endpoint: server(),
        method,
        answer,
        rtt,
        stamp: Stamp::Kernel,
        ttl: None,
        syn_retransmissions: repeated,
        number: 0,
        coming: Coming::InTime,
        noticed: None,
        queued: None,
        step: None,
        headers: 0,
        reply: None,
        phases: None,
    };
    let one = |_| Event::here(at, Phase::Baseline, EventBody::Probe(sample.clone()));
    Ok((0..count).map(one).collect())
}

fn start(at: Timestamp, phase: Phase, experiment: Option<Experiment>, is_observed: bool) -> Event {
    let start = PhaseStart {
        target: TargetId::Subject,
        end: at + Duration::from_secs(u64::from(SLICES)),
        experiment,
        connections: 10,
        offered_rate: None,
        is_observed,
        turns: 1,
        active: Duration::from_secs(u64::from(SLICES)),
    };
    Event::here(at, phase, EventBody::PhaseStarted(start))
}

/// Returns `count` requests, distributed over the seconds. Their latencies differ by about 1 %.
fn clusters(
    at: Timestamp,
    phase: Phase,
    count: u32,
    [latency, body]: [Option<Duration>; 2],
    status: u16,
) -> Vec<Event> {
    let slices = SLICES.min(count.max(1));
    (0..slices)
        .map(|second| {
            let in_slice = u64::from(count / slices + u32::from(second < count % slices));
            let all = |value: Option<Duration>| {
                let mut distribution = Distribution::default();
                if let Some(value) = value {
                    distribution.record_many(value * (100 + second % 3) / 100, in_slice);
                }
                distribution
            };
            let cluster = LoadCluster {
                second,
                latency: all(latency),
                service: all(latency),
                first_byte: all(latency.map(|l| l.saturating_sub(body.unwrap_or_default()))),
                body: all(body),
                statuses: vec![(status, in_slice)],
                connects: 1,
                received_bytes: in_slice * 800,
                ..LoadCluster::default()
            };
            Event::here(at, phase, EventBody::Load(cluster))
        })
        .collect()
}

fn load(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let (mut count, mut latency, mut body, mut status) = (0, None, None, 200);
    let mut failures = Vec::new();
    let (mut is_observed, mut is_paced) = (false, false);
    while let Some(word) = words.next() {
        match word {
            "baseline" => {}
            "observed" => is_observed = true,
            "paced" => is_paced = true,
            "x" => count = words.count(word)?,
            "latency" => latency = Some(words.duration(word)?),
            "body" => body = Some(words.duration(word)?),
            "status" => status = words.count(word)? as u16,
            "failed" => {
                let kind = failure(words.operand(word)?)?;
                failures.push((kind, u64::from(words.count(word)?)));
            }
            other => return Err(format!("a load has no `{other}`")),
        }
    }
    let phase = Phase::Baseline;
    let mut begun = start(at, phase, None, is_observed);
    if let EventBody::PhaseStarted(start) = &mut begun.body {
        start.offered_rate = is_paced.then_some(f64::from(count) / f64::from(SLICES));
    }
    let mut events = vec![begun];
    if count > 0 {
        events.extend(clusters(at, phase, count, [latency, body], status));
    }
    if !failures.is_empty() {
        let cluster = LoadCluster {
            failures,
            ..LoadCluster::default()
        };
        events.push(Event::here(at, phase, EventBody::Load(cluster)));
    }
    Ok(events)
}

fn failure(word: &str) -> Result<RequestFailure, String> {
    Ok(match word {
        "refused" => RequestFailure::Refused,
        "connect-timeout" => RequestFailure::ConnectTimeout,
        "unreachable" => RequestFailure::Unreachable,
        "timeout" => RequestFailure::Timeout,
        "reset" => RequestFailure::Reset,
        "closed" => RequestFailure::Closed,
        "not-http" => RequestFailure::NotHttp,
        "certificate" => RequestFailure::Certificate,
        "tls" => RequestFailure::Tls,
        "cut" => RequestFailure::Cut,
        other => return Err(format!("no request fails by `{other}`")),
    })
}

fn request(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let (mut count, mut first, mut gap, mut end) = (1, None, Duration::ZERO, Duration::ZERO);
    let (mut setup, mut outcome) = (None, Ok(200));
    while let Some(word) = words.next() {
        match word {
            "failed" => outcome = Err(failure(words.operand(word)?)?),
            "x" => count = words.count(word)?,
            "first-byte" => first = Some(words.duration(word)?),
            "gap" => gap = words.duration(word)?,
            "end" => end = words.duration(word)?,
            "setup" => setup = Some(words.duration(word)?),
            other => return Err(format!("a request has no `{other}`")),
        }
    }
    // With a setup, each request has a connection of its own.
    let own_flow = |number: u32| {
        let client = Endpoint::new(
            core::net::IpAddr::from([10, 77, 0, 1]),
            50_000 + number as u16,
        );
        FlowKey::new(Transport::Tcp, client, server()).0
    };
    let one = |number: u32| {
        let sent = at + (setup.unwrap_or_default() + end) * number;
        let sample = RequestSample {
            target: TargetId::Subject,
            flow: setup.map(|_| own_flow(number)),
            ordinal: if setup.is_some() { 0 } else { number },
            sent,
            first_byte: first.map(|first| sent + first),
            ended: sent + end,
            longest_gap: gap,
            setup,
            outcome,
            received_bytes: 800,
        };
        Event::here(at, Phase::Baseline, EventBody::Request(sample))
    };
    Ok((0..count).map(one).collect())
}

fn experiment(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let experiment = match words.operand("experiment")? {
        "quickack" => Experiment::QuickAck,
        "connection-close" => Experiment::ConnectionClose,
        other => return Err(format!("no experiment is called `{other}`")),
    };
    let mut count = 500;
    let mut bodies = [None, None];
    while let Some(word) = words.next() {
        let side = match word {
            "x" => {
                count = words.count(word)?;
                continue;
            }
            "control" => 0,
            "treated" => 1,
            other => return Err(format!("an experiment has no `{other}`")),
        };
        match words.operand(word)? {
            "body" => bodies[side] = Some(words.duration("body")?),
            other => return Err(format!("an experiment compares no `{other}`")),
        }
    }
    let phases = [Phase::Control(1), Phase::Experiment(1)];
    let mut events = Vec::new();
    for (phase, body) in phases.into_iter().zip(bodies) {
        let body = body.ok_or("an experiment has both sides")?;
        let latency = body + Duration::from_micros(300);
        events.push(start(at, phase, Some(experiment), false));
        events.extend(clusters(at, phase, count, [Some(latency), Some(body)], 200));
    }
    Ok(events)
}

fn socket(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let (mut count, mut nodelay, mut holding) = (1, None, None);
    while let Some(word) = words.next() {
        match word {
            "server" => {}
            "x" => count = words.count(word)?,
            "nodelay" => nodelay = Some(words.operand(word)? == "on"),
            "holding" => holding = Some(words.count(word)?),
            other => return Err(format!("a socket has no `{other}`")),
        }
    }
    let one = |index: u32| {
        let peer = core::net::IpAddr::from([10, 77, 0, 1]);
        let tcp = holding.map(|holding| TcpSample {
            snd_mss: 1448,
            cwnd: 10,
            unacked: u32::from(index < holding),
            notsent_bytes: if index < holding { 569 } else { 0 },
            snd_wnd: Some(64_128),
            ..TcpSample::default()
        });
        let sample = SocketSample {
            target: TargetId::Subject,
            owner: SocketOwner::Process {
                pid: 700,
                fd: 10 + index,
                name: "server".to_owned(),
            },
            local: server(),
            remote: Endpoint::new(peer, 50_000 + index as u16),
            nodelay,
            cork: None,
            quickack: None,
            tcp,
        };
        Event::here(at, Phase::Baseline, EventBody::Socket(sample))
    };
    Ok((0..count).map(one).collect())
}

/// Returns a system call on each of the server's accepted connections.
fn called(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let (mut count, mut sent) = (10, 0);
    let request = match words.operand("called")? {
        "accept" => Request::Accept(Accepted {
            backlog: 128,
            ..Accepted::default()
        }),
        "set" => {
            let name = words.operand("set")?;
            let value = number_of(words.operand(name)?)?;
            let (level, option) = match name {
                "TCP_NODELAY" => (6, 1),
                "TCP_CORK" => (6, 3),
                "SO_SNDBUF" => (1, 7),
                "SO_RCVBUF" => (1, 8),
                other => return Err(format!("no option is called `{other}`")),
            };
            let value = Argument {
                len: 4,
                bytes: value.to_ne_bytes().to_vec(),
                ..Argument::default()
            };
            Request::SetOption {
                level,
                option,
                value,
            }
        }
        other => return Err(format!("no call is called `{other}`")),
    };
    let mut accepted = None;
    while let Some(word) = words.next() {
        match word {
            "x" => count = words.count(word)?,
            "sent" => sent = u64::from(words.count(word)?),
            "deferred" | "nodelay" | "sndbuf" => accepted = Some(word),
            other => return Err(format!("a call has no `{other}`")),
        }
    }
    let request = match (request, accepted) {
        (Request::Accept(of), Some(word)) => Request::Accept(Accepted {
            is_deferred: word == "deferred",
            nodelay: word == "nodelay",
            send_buffer: word == "sndbuf",
            ..of
        }),
        (request, _) => request,
    };
    let one = |index: u32| {
        let call = call(at, index, request.clone(), sent);
        Event::here(at, Phase::Baseline, EventBody::SocketCall(Box::new(call)))
    };
    let tally = EventBody::Traced(CallTally::default());
    let tally = Event::here(at, Phase::Baseline, tally);
    Ok((0..count).map(one).chain([tally]).collect())
}

fn call(at: Timestamp, index: u32, request: Request, sent: u64) -> SocketCall {
    let peer = core::net::IpAddr::from([10, 77, 0, 1]);
    SocketCall {
        at,
        took: Duration::ZERO,
        caller: Caller {
            pid: 700,
            tid: 700,
            name: "server".to_owned(),
            thread: "server".to_owned(),
        },
        fd: 10,
        request,
        result: 0,
        socket: Some(CalledSocket {
            inode: u64::from(index) + 1,
            cookie: None,
            namespace: None,
            kind: SocketKind::Tcp,
            is_v6: false,
            is_client: false,
            state: "ESTAB".to_owned(),
            local: Some(server()),
            remote: Some(Endpoint::new(peer, 50_000 + index as u16)),
        }),
        before: None,
        after: None,
        sent,
    }
}

fn setting(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let (directive, value) = (words.operand("setting")?, words.operand("setting")?);
    let place = match (words.next(), words.next()) {
        (Some("at"), Some(place)) => place,
        _ => return Err("a setting is `NAME VALUE at FILE:LINE`".to_owned()),
    };
    let (file, line) = place.rsplit_once(':').ok_or("a place is FILE:LINE")?;
    let line = ConfigurationLine {
        target: TargetId::Subject,
        program: "nginx".to_owned(),
        directive: directive.replace('.', " "),
        value: value.to_owned(),
        set_at: Some(SourceLocation {
            file: file.to_owned(),
            line: number_of(line)?,
        }),
        scope: "http > server :8080".to_owned(),
        is_newer_than_process: Some(false),
        doubt: None,
    };
    Ok(vec![Event::here(
        at,
        Phase::Baseline,
        EventBody::Configuration(line),
    )])
}

fn counter(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let name = words.operand("counter")?.to_owned();
    let after = u64::from(words.count("counter")?);
    let scope = match words.next() {
        Some("shared") => CounterScope::Both,
        _ => CounterScope::Client,
    };
    let change = CounterChange {
        name,
        before: 0,
        after,
        scope,
    };
    Ok(vec![Event::here(
        at,
        Phase::Baseline,
        EventBody::Counter(change),
    )])
}

/// Returns the accept queue of the server's listener.
fn listener(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let queued = words.count("listener")?;
    if words.operand("listener")? != "of" {
        return Err("a listener has N of N places".to_owned());
    }
    let sample = ListenerSample {
        local: crate::wire::server(),
        queued,
        limit: words.count("listener")?,
        embryonic: 0,
        syn_backlog: None,
        somaxconn: None,
    };
    Ok(vec![Event::here(
        at,
        Phase::Baseline,
        EventBody::Listener(sample),
    )])
}

/// Returns a request as the server's kernel timed it, with the throttling of its control group by a
/// quota.
fn kernel(words: &mut Words<'_>, at: Timestamp) -> Result<Vec<Event>, String> {
    let (mut thread, mut throttling) = (ThreadTimes::default(), None);
    let (mut asked, mut refused, mut stolen) = (None, None, None);
    let (mut calls, mut connections) = (1, 0);
    let [mut way, mut silent] = [Duration::ZERO; 2];
    let mut reader = None;
    let [mut backlog, mut stack, mut unread, mut program, mut qdisc] = [Duration::ZERO; 5];
    while let Some(word) = words.next() {
        match word {
            "backlog" => backlog = words.duration(word)?,
            "stack" => stack = words.duration(word)?,
            "unread" => unread = words.duration(word)?,
            "wake-up" => {
                thread.waking_unread = words.duration(word)?;
                thread.queued_unread += thread.waking_unread;
            }
            "run-queue" => thread.queued_unread += words.duration(word)?,
            "program" => program = words.duration(word)?,
            "thread" => {
                reader = Some(Program {
                    pid: 1,
                    tid: words.count(word)?,
                    name: "server".to_owned(),
                });
            }
            "refused" => refused = Some(words.duration(word)?),
            "qdisc" => qdisc = words.duration(word)?,
            "slept" => thread.slept = words.duration(word)?,
            "asked" => asked = Some(words.duration(word)?),
            "way" => way = words.duration(word)?,
            "silent" => silent = words.duration(word)?,
            "calls" => calls = words.count(word)?,
            "connected" => connections = words.count(word)?,
            "stolen" => stolen = Some(words.duration(word)?),
            "throttled" => {
                throttling = Some(Throttling {
                    periods: u64::from(words.count(word)?),
                    time: words.duration(word)?,
                });
            }
            other => return Err(format!("a kernel does not show `{other}`")),
        }
    }
    let delivered = at + backlog + stack;
    let read = delivered + refused.unwrap_or_default() + unread + thread.queued_unread;
    let sent = read + program + thread.slept;
    let peer = core::net::IpAddr::from([10, 77, 0, 1]);
    let behind = core::net::IpAddr::from([10, 77, 0, 9]);
    let turn = RequestSpan {
        local: server(),
        remote: Endpoint::new(peer, 40_000),
        program: reader,
        arrived: at,
        entered: Some(at + backlog),
        delivered,
        delivered_last: delivered + refused.unwrap_or_default(),
        read: Some(read),
        written: Some(sent),
        written_last: Some(sent),
        sent,
        sent_last: sent,
        departure: Some(Departure {
            at: sent + qdisc,
            first_queued: qdisc,
            queued: qdisc,
        }),
        refused: refused.map(|_| at),
        writes: 1,
        held: KernelHold::default(),
        thread: Some(thread),
        asked: asked.map(|time| Asked {
            whom: Some(Endpoint::new(behind, 5432)),
            time,
            way,
            silent,
            calls,
            connections,
        }),
    };
    let tally = WatchTally {
        throttling,
        stolen,
        ..WatchTally::default()
    };
    let bodies = [EventBody::Turn(Box::new(turn)), EventBody::Watched(tally)];
    Ok(bodies
        .into_iter()
        .map(|body| Event::here(at, Phase::Baseline, body))
        .collect())
}
