//! The figures of a load run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, StatusCount};

/// The results of a load run, warm-up excluded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadRun {
    /// Connections kept open in parallel.
    pub connections: u32,
    /// The protocol, TLS and socket settings of the connections.
    pub transport: Option<Transport>,
    /// Requests per second offered; `None` in closed loop, where each connection sends its next
    /// request as soon as the response to the previous one arrived.
    pub offered_rate: Option<f64>,
    /// Seconds in which requests could start.
    pub seconds: f64,
    /// Whole responses.
    pub responses: u64,
    /// Whole responses per second.
    pub rate: f64,
    /// Half the width of the 95 % interval of `rate`, from its variation between seconds; `None`
    /// for fewer than three seconds.
    pub rate_margin: Option<f64>,
    /// True if fewer requests were answered than were due although the generator was on time. The
    /// wait for a free connection then grew throughout the run.
    pub falls_behind: bool,
    /// Responses by status, failures by kind.
    pub outcomes: Vec<StatusCount>,
    /// Requests without a whole response.
    pub failed: u64,
    /// Connections opened.
    pub connects: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Time from when a request was due (at a fixed rate) or sent (in closed loop) to its last
    /// byte. A request that timed out counts with the time until the timeout.
    pub latency_ns: Figures,
    /// Time from when the request was sent to its last byte. Tools that do not count the wait for a
    /// free connection show this figure.
    pub service_ns: Figures,
    /// True if the latency differs from `service_ns` by more than its error, because requests
    /// waited for a free connection.
    #[serde(default)]
    pub waits_for_connections: bool,
    /// Time from when the request was sent to the first byte of its response.
    pub first_byte_ns: Figures,
    /// In closed loop: the latencies that requests due at an even pace would have had. A request
    /// that took longer than a connection's mean interval delayed others. Each of these is added
    /// with the time that it would have waited. This is HdrHistogram's correction for coordinated
    /// omission, which wrk applies to its output. `None` at a fixed rate, where `latency_ns`
    /// includes this wait.
    #[serde(default)]
    pub even_pace_ns: Option<Figures>,
    /// True if `even_pace_ns` differs markedly from the latency: stalls delayed fewer requests than
    /// they would have delayed at an even pace.
    #[serde(default)]
    pub hides_stalls: bool,
    /// The 95 % intervals of the median and the 99th percentile, by resampling whole seconds and
    /// groups of connections; `None` if there are too few seconds or groups.
    #[serde(default)]
    pub intervals: Option<Intervals>,
    /// The time of requests by stage, by the kernel's timestamps; `None` where these timestamps
    /// were not requested.
    #[serde(default)]
    pub stages: Option<Stages>,
    /// The results of each URL, in the order given; empty if there was only one URL.
    #[serde(default)]
    pub urls: Vec<UrlRun>,
    /// The part of the load whose packets were captured; `None` if no packets were, or if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_part: Option<CapturedPart>,
    /// Seconds of warm-up. No figure includes its requests, except those that were in flight for
    /// all of the counted time.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// The processor use and lateness of the generator itself.
    pub generator: Option<Generator>,
}

/// The requests of the part of a load whose packets were captured. The load's own figures are those
/// of the other part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapturedPart {
    /// Whole responses.
    pub responses: u64,
    /// Mean latency, in nanoseconds.
    pub mean_ns: u64,
    /// Longest latency, in nanoseconds.
    pub longest_ns: u64,
    /// Share of the other part's request time, 0 to 1, by which its requests took longer than as
    /// many captured ones.
    pub excess_share: f64,
    /// True if that share is so large that the packets do not explain the load.
    pub differs: bool,
}

impl LoadRun {
    /// Returns true if no request was answered, or one failed or got an error as its status.
    pub fn is_faulty(&self) -> bool {
        let is_error = |outcome: &StatusCount| outcome.is_error_status().unwrap_or(true);
        self.responses == 0 || self.outcomes.iter().any(is_error)
    }
}

/// The time of requests by stage, over the requests sampled for the kernel's timestamps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stages {
    /// Requests with known stages.
    pub requests: u64,
    /// Requests whose timestamps were missing or not plausible.
    pub without: u64,
    /// Requests that were acknowledged before their response arrived. For all others, the stage
    /// `path` is the connection's minimum round-trip time, and the remaining time counts as the
    /// server's.
    pub acknowledged_apart: u64,
    /// The stages of each request, in order; they add up to its latency.
    pub stages: Vec<Stage>,
    /// The stage with the largest total; `None` without any request.
    pub largest: Option<String>,
}

/// A stage of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// The name: `for a connection`, `own queue`, `path`, `unacknowledged`, `server`, `response`,
    /// `own wake-up`.
    pub name: String,
    /// Time of requests in this stage.
    pub time_ns: Figures,
}

/// The results of one of several URLs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UrlRun {
    /// The URL.
    pub url: String,
    /// The relative frequency of this URL among the URLs.
    pub weight: u32,
    /// Whole responses.
    pub responses: u64,
    /// Requests without a whole response.
    pub failed: u64,
    /// Responses by status, failures by kind.
    pub outcomes: Vec<StatusCount>,
    /// Latency, as the run's `latency_ns`.
    pub latency_ns: Figures,
}

/// The 95 % intervals of a run's quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Intervals {
    /// Interval of the median, in nanoseconds.
    pub p50_ns: Interval,
    /// Interval of the 99th percentile, in nanoseconds.
    pub p99_ns: Interval,
}

/// An interval of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The lower end.
    pub low: u64,
    /// The upper end.
    pub high: u64,
}

/// The protocol, TLS and socket settings of a load run's connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transport {
    /// The version of HTTP.
    pub protocol: String,
    /// Maximum number of requests in flight on one connection.
    pub at_once: u32,
    /// The TLS used, if any.
    pub tls: Option<TlsUse>,
    /// The Unix socket connected to instead of an address.
    pub unix_socket: Option<String>,
    /// The options set on our sockets, as `setsockopt(2)` names them.
    pub options: Vec<String>,
    /// The source addresses that connections use in rotation; empty if the kernel chose them.
    pub sources: Vec<String>,
}

/// The TLS parameters and handshakes of a load run, including the handshakes of the warm-up. No
/// request's service time includes a handshake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsUse {
    /// The version, `TLS 1.3`.
    pub version: String,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// Full handshakes, from the ClientHello to when a request could be sent.
    pub full_ns: Figures,
    /// Handshakes that resumed a session, timed as `full_ns`.
    pub resumed_ns: Figures,
}

/// The processor use and lateness of the load generator itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Share of one processor used by the busiest thread, 0 to 1.
    pub busiest_share: f64,
    /// Processor time of all threads of the generator, in nanoseconds.
    pub cpu_ns: u64,
    /// Lateness of requests started while a connection was free, 99th percentile, in nanoseconds;
    /// up to 25 % too high.
    pub start_lag_p99_ns: u64,
    /// Lateness with which a response may have been read, 99th percentile, in nanoseconds; up to 25
    /// % too high.
    pub read_lag_p99_ns: u64,
    /// True if the generator, and not the service, may have determined the figures.
    pub is_limit: bool,
}
