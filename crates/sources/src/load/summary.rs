//! The totals of a run.

use core::time::Duration;

use lagtrace_core::observed::event::{
    GeneratorSample, LoadCluster, LoadTransport, Phase, RequestFailure, TargetId,
};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::stats::histogram::Distribution;

use super::engine::WorkerReport;
use super::meter::LagMeter;
use super::plan::{Lane, Plan};
use super::transport;
use crate::tls::TlsFault;

/// The totals of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Time at which the first connection attempt began.
    pub started: Timestamp,
    /// Time from which requests are counted.
    pub counted_from: Timestamp,
    /// Time at which the last request ended.
    pub ended: Timestamp,
    /// Reason for the end of the run.
    pub ending: Ending,
    /// First failure in TLS.
    pub tls_fault: Option<TlsFault>,
    /// Number of connections that opened, warm-up included.
    pub opened: u64,
    /// Number of requests that ended, warm-up included.
    pub requests: u64,
    /// The lanes in the order of the plan.
    pub lanes: Vec<LaneSummary>,
    /// Resources used by the generator itself.
    pub generator: GeneratorLoad,
}

/// The reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The run completed as planned.
    Completed,
    /// Ended early by the caller's stop flag.
    Stopped,
    /// Ended early because no connection could be opened. Contains the last failure.
    NothingConnected(RequestFailure),
}

/// The totals of one lane, without the warm-up.
#[derive(Clone, Debug)]
pub struct LaneSummary {
    /// Target of the lane.
    pub target: TargetId,
    /// Phase in which the lane's requests are counted.
    pub phase: Phase,
    /// The experiment that made this lane differ from others, if any.
    pub experiment: Option<Experiment>,
    /// The `latency` distributions of the lane's clusters, added up.
    pub latency: Distribution,
    /// The `service` distributions of the lane's clusters, added up.
    pub service: Distribution,
    /// Number of complete responses by HTTP status, in ascending order.
    pub statuses: Vec<(u16, u64)>,
    /// Number of failures by kind.
    pub failures: Vec<(RequestFailure, u64)>,
    /// Number of connections that were opened.
    pub connects: u64,
    /// Transport figures of the lane's connections, including the handshakes of the warm-up.
    pub transport: LoadTransport,
    /// Bytes received.
    pub received_bytes: u64,
    /// Time in which the lane could start requests.
    pub active: Duration,
}

impl LaneSummary {
    pub(super) fn new(plan: &Plan, lane: &Lane) -> Self {
        Self {
            target: lane.target.id,
            phase: lane.phase,
            experiment: lane.experiment,
            latency: Distribution::default(),
            service: Distribution::default(),
            statuses: Vec::new(),
            failures: Vec::new(),
            connects: 0,
            transport: transport::of(plan, lane),
            received_bytes: 0,
            active: plan.active_time(),
        }
    }

    /// Returns the number of complete responses.
    pub fn responses(&self) -> u64 {
        self.statuses.iter().map(|&(_, count)| count).sum()
    }

    /// Returns the number of requests without a complete response.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|&(_, count)| count).sum()
    }

    /// Returns the number of requests, among the failed ones, that were still in flight when the
    /// run ended.
    pub fn cut(&self) -> u64 {
        let cut = |&&(failure, _): &&(RequestFailure, u64)| failure == RequestFailure::Cut;
        self.failures
            .iter()
            .filter(cut)
            .map(|&(_, count)| count)
            .sum()
    }

    /// Returns the number of complete responses per second of active time.
    pub fn rate(&self) -> f64 {
        let seconds = self.active.as_secs_f64();
        if seconds > 0.0 {
            self.responses() as f64 / seconds
        } else {
            0.0
        }
    }

    pub(super) fn add(&mut self, cluster: &LoadCluster) {
        self.latency.merge(&cluster.latency);
        self.service.merge(&cluster.service);
        add_counts(&mut self.statuses, &cluster.statuses);
        add_counts(&mut self.failures, &cluster.failures);
        self.connects += cluster.connects;
        self.received_bytes = self.received_bytes.saturating_add(cluster.received_bytes);
    }
}

fn add_counts<K: Copy + Ord>(to: &mut Vec<(K, u64)>, from: &[(K, u64)]) {
    for &(key, count) in from {
        match to.binary_search_by_key(&key, |&(key, _)| key) {
            Ok(at) => {
                if let Some(entry) = to.get_mut(at) {
                    entry.1 += count;
                }
            }
            Err(at) => to.insert(at, (key, count)),
        }
    }
}

/// The resources that the generator used, and its delays.
#[derive(Clone, Debug, Default)]
pub struct GeneratorLoad {
    /// Processor time of the busiest worker as a share of one processor, from 0 to 1.
    pub busiest_share: f64,
    /// Processor time of all workers.
    pub cpu: Duration,
    /// 99th percentile of the delay from a request's scheduled start to its sending, among requests
    /// that found a free connection (open loop). Estimated, up to 25 % too high.
    pub start_lag_p99: Duration,
    /// Maximum delay from a request's scheduled start to its sending, among requests that found a
    /// free connection.
    pub start_lag_max: Duration,
    /// 99th percentile of the time that a worker was busy between two waits. A read can be late by
    /// this time. Estimated, up to 25 % too high.
    pub turn_p99: Duration,
    /// Maximum time that a worker was busy between two waits.
    pub turn_max: Duration,
    /// Maximum delay of the calling thread, which only waits for records. Such a delay shows that
    /// this host itself stalled.
    pub standstill: Duration,
    /// Run time of the worker that ran longest.
    pub wall: Duration,
    /// True if there were responses. The generator's delays may distort their times.
    pub has_responses: bool,
}

impl GeneratorLoad {
    pub(super) fn new(workers: &[WorkerReport], has_responses: bool) -> Self {
        let (mut start_lag, mut turn) = (LagMeter::default(), LagMeter::default());
        for worker in workers {
            start_lag.merge(&worker.start_lag);
            turn.merge(&worker.turn);
        }
        let share =
            |worker: &WorkerReport| worker.cpu.as_secs_f64() / worker.wall.as_secs_f64().max(1e-9);
        Self {
            busiest_share: workers.iter().map(share).fold(0.0, f64::max),
            cpu: workers.iter().map(|worker| worker.cpu).sum(),
            start_lag_p99: start_lag.quantile(0.99),
            start_lag_max: start_lag.max(),
            turn_p99: turn.quantile(0.99),
            turn_max: turn.max(),
            standstill: Duration::ZERO,
            wall: workers.iter().map(|w| w.wall).max().unwrap_or_default(),
            has_responses,
        }
    }

    /// Returns these values as an observation for the report.
    pub(super) fn sample(&self) -> GeneratorSample {
        GeneratorSample {
            busiest_share: self.busiest_share,
            cpu: self.cpu,
            start_lag_p99: self.start_lag_p99,
            turn_p99: self.turn_p99,
            wall: Some(self.wall),
            has_responses: self.has_responses,
            standstill: Some(self.standstill),
        }
    }
}
