//! A load run in figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, StatusCount};

/// What a load run came to, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRun {
    /// Connections kept open at once.
    pub connections: u32,
    /// How they were made.
    pub transport: Option<Transport>,
    /// Requests a second that were offered; `None` in closed loop, where each
    /// connection asks again as soon as it was answered.
    pub offered_rate: Option<f64>,
    /// Seconds in which requests could start.
    pub seconds: f64,
    /// Whole responses.
    pub responses: u64,
    /// Whole responses a second.
    pub rate: f64,
    /// Half the width of the 95 % interval of `rate`, from its spread over the
    /// seconds; `None` for fewer than three of them.
    pub rate_margin: Option<f64>,
    /// Whether fewer were answered than were due though the generator was in
    /// time: the wait for a connection grew as long as the run went on.
    pub falls_behind: bool,
    /// Responses by status, failures by kind.
    pub outcomes: Vec<StatusCount>,
    /// Requests without a whole response.
    pub failed: u64,
    /// Connections opened.
    pub connects: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// From when a request was due (at a rate) or sent (in closed loop) to its
    /// last byte; a timeout counts with its age.
    pub latency_ns: Figures,
    /// From when it was sent: what a tool reports that does not count the wait
    /// for a free connection.
    pub service_ns: Figures,
    /// From when it was sent to the first byte of its response.
    pub first_byte_ns: Figures,
    /// In closed loop: the latencies that requests due at an even pace would
    /// have met. A request that took longer than a connection's mean interval
    /// held up others: each of those is added with what was left for it
    /// (HdrHistogram's correction for coordinated omission, which wrk applies
    /// to what it prints). `None` at a rate, where the latencies are so.
    #[serde(default)]
    pub even_pace_ns: Option<Figures>,
    /// The 95 % intervals of median and 99th percentile, by drawing whole
    /// seconds and groups of connections again; `None` for too few of them.
    #[serde(default)]
    pub intervals: Option<Intervals>,
    /// Where the time of requests went, by the kernel's stamps; `None` where
    /// they were not asked for.
    #[serde(default)]
    pub stages: Option<Stages>,
    /// What came of each URL, as they were given; empty where there was one.
    #[serde(default)]
    pub urls: Vec<UrlRun>,
    /// Seconds at the beginning that are not counted.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// What the generator itself needed.
    pub generator: Option<Generator>,
}

/// Where the time of requests went, by the kernel's stamps of those chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stages {
    /// Requests whose stages are told.
    pub requests: u64,
    /// Requests of which stamps were missing or not believed.
    pub without: u64,
    /// Requests that were acknowledged before their response came; of others
    /// the path is the connection's least round trip and the rest the server's.
    pub acknowledged_apart: u64,
    /// The stages of each request, in their order; they add up to its latency.
    pub stages: Vec<Stage>,
    /// The stage that took most in all; `None` without any request.
    pub largest: Option<String>,
}

/// One stage of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// What it is: `for a connection`, `own queue`, `path`, `unacknowledged`,
    /// `server`, `response`, `own wake-up`.
    pub name: String,
    /// How long requests were in it.
    pub time_ns: Figures,
}

/// What came of one of several URLs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UrlRun {
    /// What was asked for.
    pub url: String,
    /// How often beside the others.
    pub weight: u32,
    /// Whole responses.
    pub responses: u64,
    /// Requests without a whole response.
    pub failed: u64,
    /// Responses by status, failures by kind.
    pub outcomes: Vec<StatusCount>,
    /// As the run's `latency_ns`.
    pub latency_ns: Figures,
}

/// The 95 % intervals of a run's quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Intervals {
    /// Of the median, in nanoseconds.
    pub p50_ns: Interval,
    /// Of the 99th percentile, in nanoseconds.
    pub p99_ns: Interval,
}

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Its lower end.
    pub low: u64,
    /// Its upper end.
    pub high: u64,
}

/// How a load run's connections were made, and what they carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transport {
    /// The version of HTTP.
    pub protocol: String,
    /// Requests that a connection may have under way at once.
    pub at_once: u32,
    /// The TLS used, if any.
    pub tls: Option<TlsUse>,
    /// The Unix socket connected to instead of an address.
    pub unix_socket: Option<String>,
    /// What was set on our sockets, as `setsockopt(2)` names it.
    pub options: Vec<String>,
    /// The addresses that connections came from in turn; empty: the kernel chose.
    pub sources: Vec<String>,
}

/// The TLS of a load run. Its handshakes are those of the warm-up too: they
/// belong to no request's service time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsUse {
    /// `TLS 1.3`.
    pub version: String,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// Full handshakes, from the ClientHello to when a request could be sent.
    pub full_ns: Figures,
    /// The same of those that resumed a session.
    pub resumed_ns: Figures,
}

/// What the load generator itself needed, and how late it was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Share of one processor that its busiest thread used, 0 to 1.
    pub busiest_share: f64,
    /// Processor time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// How late requests were started though a connection was free, 99th
    /// percentile, in nanoseconds; up to 25 % too high.
    pub start_lag_p99_ns: u64,
    /// How late a response may have been read, 99th percentile, in
    /// nanoseconds; up to 25 % too high.
    pub read_lag_p99_ns: u64,
    /// Whether it, and not the service, may have set the figures.
    pub is_limit: bool,
}
