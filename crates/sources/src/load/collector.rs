//! Conversion of the workers' records to events and totals.

mod phases;
mod stages;

use std::collections::BTreeMap;

use core::time::Duration;

use lagtrace_core::observed::event::{
    Event, EventBody, LoadCluster, LoadStages, Phase, RequestFailure, RequestSample,
};
use lagtrace_core::observed::time::Timestamp;

use super::by_url::ByUrl;
use super::plan::Plan;
use super::recent::{Recent, RecentRequests};
use super::record::{Batch, Opened, Record};
use super::sample::Sampler;
use super::silence::Silences;
use super::summary::{GeneratorLoad, LaneSummary};
use super::tally::{Key, Tally};
use super::transport;
use crate::tls::TlsFault;
use stages::{add_stages, stages_of};

/// Time between the end of a second and the event for that second. Records that arrive even later
/// cause another event for the same second and group.
const CLUSTER_DELAY: Duration = Duration::from_millis(1_500);
/// Minimum number of failed connection attempts after which a run is abandoned.
const MIN_FAILED_CONNECTS: u64 = 3;

/// A collector that aggregates batches into events.
pub(super) struct Collector<'a, S> {
    plan: &'a Plan,
    start: Timestamp,
    counted_from: Timestamp,
    sink: S,
    tallies: BTreeMap<Key, Tally>,
    sampler: Sampler,
    silences: Silences,
    lanes: Vec<LaneSummary>,
    counts: LoadCounts,
    /// Number of failures during the warm-up, by lane and kind.
    early_failures: BTreeMap<(usize, RequestFailure), u64>,
    tls_fault: Option<TlsFault>,
    by_url: ByUrl,
    stages: Vec<LoadStages>,
    recent: RecentRequests,
    next_flush: Timestamp,
}

/// Numbers of requests and connections, warm-up included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoadCounts {
    /// Requests that ended.
    pub(super) requests: u64,
    /// Requests that failed.
    pub(super) failures: u64,
    /// Requests that failed and were due after the warm-up.
    pub(super) counted_failures: u64,
    /// Connections that opened.
    pub(super) opened: u64,
    /// Connections that could not be opened.
    failed_connects: u64,
    last_failed_connect: Option<RequestFailure>,
}

impl<'a, S: FnMut(Event)> Collector<'a, S> {
    /// Creates a collector for a run of `plan` that begins at `start`, and emits the run's phases.
    pub(super) fn new(plan: &'a Plan, start: Timestamp, sink: S) -> Self {
        let counted_from = start + plan.warm_up_in_rounds();
        let mut collector = Self {
            plan,
            start,
            counted_from,
            sink,
            tallies: BTreeMap::new(),
            sampler: Sampler::new(plan.reporting.samples_per_second),
            silences: Silences::new(plan),
            lanes: plan
                .lanes
                .iter()
                .map(|lane| LaneSummary::new(plan, lane))
                .collect(),
            counts: LoadCounts::default(),
            early_failures: BTreeMap::new(),
            tls_fault: None,
            by_url: ByUrl::new(plan),
            stages: plan
                .lanes
                .iter()
                .map(|lane| stages_of(lane.target.id))
                .collect(),
            recent: RecentRequests::new(start),
            next_flush: counted_from + Duration::from_secs(1),
        };
        let planned = counted_from + plan.duration;
        collector.announce(planned, planned);
        collector
    }

    /// Returns the numbers of requests and connections so far.
    pub(super) fn counts(&self) -> LoadCounts {
        self.counts
    }

    /// Returns the first error in TLS.
    pub(super) fn tls_fault(&self) -> Option<TlsFault> {
        self.tls_fault.clone()
    }

    /// Returns the figures of the last second's requests.
    pub(super) fn recent(&mut self, now: Timestamp) -> Recent {
        self.recent.figures(now)
    }

    /// Returns the failure for which the run should be abandoned, if no connection could be opened;
    /// otherwise `None`.
    pub(super) fn hopeless(&self, now: Timestamp) -> Option<RequestFailure> {
        let failure = self
            .counts
            .last_failed_connect
            .filter(|_| self.counts.opened == 0)?;
        let connections = u64::from(self.plan.connections());
        let is_slow = matches!(
            failure,
            RequestFailure::ConnectTimeout | RequestFailure::TlsTimeout
        );
        let tries = if is_slow {
            connections
        } else {
            connections.max(MIN_FAILED_CONNECTS)
        };
        let has_waited = is_slow || now.since(self.start) >= Duration::from_millis(100);
        (self.counts.failed_connects >= tries && has_waited).then_some(failure)
    }

    /// Processes a batch from a worker.
    pub(super) fn take(&mut self, batch: &Batch) {
        for opened in &batch.opened {
            self.take_opened(opened);
        }
        for record in &batch.records {
            self.take_record(record);
        }
        for (lane, due, times) in &batch.stages {
            let sums = self.stages.get_mut(*lane);
            if let Some(sums) = sums.filter(|_| *due >= self.counted_from) {
                add_stages(sums, times.as_ref());
            }
        }
        if self.tls_fault.is_none() {
            self.tls_fault.clone_from(&batch.tls_fault);
        }
        if let Some((count, failure)) = batch.failed_connects {
            self.counts.failed_connects += count;
            self.counts.last_failed_connect = Some(failure);
        }
    }

    /// Emits the samples and sums that will not change any more.
    pub(super) fn flush(&mut self, now: Timestamp) {
        if now < self.next_flush {
            return;
        }
        self.next_flush = now + Duration::from_secs(1);
        self.emit_samples();
        let ripe = now.since(self.counted_from + CLUSTER_DELAY).as_secs();
        while let Some(entry) = self.tallies.first_entry() {
            if u64::from(entry.key().second) >= ripe {
                break;
            }
            let (key, tally) = entry.remove_entry();
            self.emit_cluster(key, tally);
        }
    }

    /// Emits the remaining events and returns the totals of the lanes. `last_start` is the start
    /// time of the last request.
    pub(super) fn finish(
        mut self,
        ended: Timestamp,
        last_start: Option<Timestamp>,
        generator: &GeneratorLoad,
    ) -> Vec<LaneSummary> {
        self.emit_samples();
        self.count_early_failures();
        for (key, tally) in core::mem::take(&mut self.tallies) {
            self.emit_cluster(key, tally);
        }
        self.emit_silences();
        let planned = self.counted_from + self.plan.duration;
        let started_until = self.started_until(ended, last_start);
        if ended < planned {
            self.announce(ended, started_until);
        }
        let lost = planned.since(started_until).as_secs_f64() / self.plan.duration.as_secs_f64();
        for lane in &mut self.lanes {
            lane.active = lane.active.mul_f64((1.0 - lost).clamp(0.0, 1.0));
        }
        for lane in &self.lanes {
            let body = EventBody::Transport(lane.transport.clone());
            (self.sink)(Event::here(ended, lane.phase, body));
        }
        for (lane, stages) in self
            .plan
            .lanes
            .iter()
            .zip(core::mem::take(&mut self.stages))
        {
            if self.plan.reporting.stamps {
                (self.sink)(Event::here(ended, lane.phase, EventBody::Stages(stages)));
            }
        }
        for (lane, url) in self.by_url.finish(self.plan) {
            let phase = self.plan.lanes.get(lane).map(|lane| lane.phase);
            let body = EventBody::LoadUrl(url);
            (self.sink)(Event::here(ended, phase.unwrap_or_default(), body));
        }
        let body = EventBody::Generator(generator.sample());
        let phase = self.lanes.first().map(|lane| lane.phase);
        (self.sink)(Event::here(ended, phase.unwrap_or_default(), body));
        self.lanes
    }

    fn take_opened(&mut self, opened: &Opened) {
        self.counts.opened += 1;
        let Some(lane) = self.plan.lanes.get(opened.lane) else {
            return;
        };
        if let (Some(tls), Some(summary)) = (&opened.tls, self.lanes.get_mut(opened.lane)) {
            transport::learn(&mut summary.transport, tls);
        }
        if let Some(flow) = opened.flow {
            (self.sink)(Event::here(
                opened.at,
                lane.phase,
                EventBody::FlowPhase(flow),
            ));
        }
        if let Some(tally) = self.tally(opened.at, opened.lane, opened.group) {
            tally.add_connect();
        }
    }

    fn take_record(&mut self, record: &Record) {
        self.counts.requests += record.count;
        self.recent.take(record);
        if let Err(failure) = record.outcome {
            self.counts.failures += record.count;
            if record.due >= self.counted_from {
                self.counts.counted_failures += record.count;
            } else if failure != RequestFailure::Cut {
                let early = (record.lane, failure);
                *self.early_failures.entry(early).or_default() += record.count;
            }
        }
        if record.count == 1 {
            self.sampler.offer(record);
        }
        self.silences.take(record);
        let at = if self.was_in_flight_throughout(record) {
            self.counted_from
        } else {
            record.due
        };
        if let Some(tally) = self.tally(at, record.lane, record.group) {
            tally.add(record);
            self.by_url.add(record);
        }
    }

    /// Returns true if the request was sent during the warm-up and in flight for all of the counted
    /// time. It counts too; otherwise connections that are never served would not show.
    fn was_in_flight_throughout(&self, record: &Record) -> bool {
        let is_left = record.outcome == Err(RequestFailure::Cut)
            || record.ended >= self.counted_from + self.plan.duration;
        record.sent.is_some()
            && record.due < self.counted_from
            && record.ended > self.counted_from
            && is_left
    }

    /// LoadCounts the failures of the warm-up if no connection could be opened. Such a run usually ends
    /// during its warm-up and has no other failures to report.
    fn count_early_failures(&mut self) {
        if self.counts.opened > 0 || !self.tallies.is_empty() {
            return;
        }
        for ((lane, failure), count) in core::mem::take(&mut self.early_failures) {
            if let Some(tally) = self.tally(self.counted_from, lane, 0) {
                tally.add_failures(failure, count);
            }
        }
    }

    /// Returns the sums for an event at `at`; `None` if `at` is during the warm-up.
    fn tally(&mut self, at: Timestamp, lane: usize, group: u16) -> Option<&mut Tally> {
        if at < self.counted_from {
            return None;
        }
        let second = at.since(self.counted_from).as_secs();
        let key = Key {
            second: u32::try_from(second).unwrap_or(u32::MAX),
            lane,
            group,
        };
        Some(self.tallies.entry(key).or_default())
    }

    fn emit_cluster(&mut self, key: Key, tally: Tally) {
        let Some(lane) = self.plan.lanes.get(key.lane) else {
            return;
        };
        let cluster: LoadCluster = tally.into_cluster(lane.target.id, key);
        if let Some(summary) = self.lanes.get_mut(key.lane) {
            summary.add(&cluster);
        }
        // The last second is cut at the end of the run.
        let passed = Duration::from_secs(u64::from(key.second) + 1);
        let at = self.counted_from + passed.min(self.plan.duration);
        (self.sink)(Event::here(at, lane.phase, EventBody::Load(cluster)));
    }

    fn emit_silences(&mut self) {
        let silences = core::mem::replace(&mut self.silences, Silences::new(self.plan));
        for (number, silence) in silences.finish(self.plan) {
            let Some(lane) = self.plan.lanes.get(number) else {
                continue;
            };
            let phase = if silence.begin < self.counted_from {
                Phase::WarmUp
            } else {
                lane.phase
            };
            (self.sink)(Event::here(silence.end, phase, EventBody::Silence(silence)));
        }
    }

    fn emit_samples(&mut self) {
        for record in self.sampler.drain() {
            let Some(lane) = self.plan.lanes.get(record.lane) else {
                continue;
            };
            let is_early = record.due < self.counted_from;
            let phase = if is_early && !self.was_in_flight_throughout(&record) {
                Phase::WarmUp
            } else {
                lane.phase
            };
            let sample = RequestSample {
                target: lane.target.id,
                flow: record.flow,
                ordinal: record.ordinal,
                sent: record.sent.unwrap_or(record.due),
                first_byte: record.first_byte,
                ended: record.ended,
                longest_gap: record.longest_gap,
                setup: record.setup,
                outcome: record.outcome,
                received_bytes: record.received_bytes,
            };
            (self.sink)(Event::here(record.ended, phase, EventBody::Request(sample)));
        }
    }
}
