//! The results of our own load, by target and phase.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::observed::event::{
    GeneratorSample, LoadCluster, LoadStages, LoadTransport, LoadUrl, Phase, PhaseStart,
    RequestFailure, RequestSample, Silence, TargetId,
};
use crate::observed::experiment::Experiment;
use crate::observed::flow::FlowKey;
use crate::observed::load_level::{LevelSample, ProcessorUse, SentRequests};
use crate::observed::time::Timestamp;
use crate::protocol::http::status::is_failure;
use crate::report::{Cluster, StatusCount};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Maximum number of phases kept.
const MAX_PHASES: usize = 1024;
/// Maximum number of clusters kept. Clusters are for comparing two runs.
const MAX_CLUSTERS: usize = 4096;
/// Maximum number of seconds of a phase that are evaluated. The longest load is shorter.
const MAX_SECONDS: u64 = 2 * 24 * 3600;
/// Maximum number of URLs kept.
const MAX_URLS: usize = 1024;
/// Minimum share of all processors' time that is used if they are busy: the rest is measured at the
/// edges of the load.
const BUSY: f64 = 0.9;
/// Minimum share of all processors' time that others use if they are a reason for waits.
const MUCH_BY_OTHERS: f64 = 0.25;
/// Maximum number of levels kept.
const MAX_LEVELS: usize = 64;
/// Maximum number of silences kept.
const MAX_SILENCES: usize = 1024;
/// Maximum number of single requests kept.
const MAX_SAMPLES: usize = 8192;

/// All load runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    /// Phases in the order in which they began.
    pub(crate) phases: Vec<(Timestamp, Phase, PhaseStart)>,
    /// Sums by target, phase and `is_observed` (true if packets were captured during the phase).
    sums: BTreeMap<(TargetId, Phase, bool), LoadSum>,
    /// Clusters of the baseline without packet capture.
    pub(crate) clusters: Vec<(TargetId, Cluster)>,
    /// Single requests of the baseline.
    pub(crate) samples: Vec<RequestSample>,
    /// Periods in which none of our requests was answered, in the baseline without packet capture.
    pub(crate) silences: Vec<Silence>,
    /// Maximum lateness of a generator thread that sends nothing and only measures how late it
    /// runs; `None` if that was not measured.
    pub(crate) standstill: Option<Duration>,
    /// Transports of the baseline's connections, by target. The handshake times of all runs are
    /// added up.
    pub(crate) transports: BTreeMap<TargetId, LoadTransport>,
    /// The generator's resource use in the run in which it was most overloaded.
    pub(crate) generator: Option<GeneratorSample>,
    /// Stages of the subject's requests in the baseline, if they were requested.
    pub(crate) stages: Option<LoadStages>,
    /// The levels of load that show what the subject carries.
    pub(crate) levels: Vec<LevelSample>,
    /// Who used the processors of this host during the baseline.
    pub(crate) processors: Option<ProcessorUse>,
    /// The requests that the investigation sent.
    pub(crate) sent: Option<SentRequests>,
    /// Results of each URL of the baseline, if there are several.
    pub(crate) urls: Vec<LoadUrl>,
    /// Number of requests of other clients to the subject while the load was observed.
    pub(crate) foreign: u64,
    /// The statuses that the user expects of our own requests' responses; if there are none, all but
    /// errors count as successes.
    pub(crate) expected: Vec<u16>,
}

/// The requests to one target in one phase.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct LoadSum {
    pub(crate) latency: Distribution,
    pub(crate) service: Distribution,
    pub(crate) first_byte: Distribution,
    pub(crate) body: Distribution,
    #[merge(entries)]
    pub(crate) failures: BTreeMap<RequestFailure, u64>,
    #[merge(entries)]
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) connects: u64,
    pub(crate) received_bytes: u64,
    /// The sum of the latencies in nanoseconds and the number of requests, by phase run and second.
    /// The spread over the seconds gives the intervals of means. No other sum has seconds of the same
    /// run.
    #[merge(extend)]
    seconds: BTreeMap<(usize, u32), (f64, u64)>,
}

/// The result of an experiment, compared with its control.
#[derive(Clone, Debug)]
pub(crate) struct ExperimentResult<'a> {
    pub(crate) experiment: Experiment,
    pub(crate) control: &'a LoadSum,
    pub(crate) treated: &'a LoadSum,
    /// The mean latency with the intervention minus the mean latency without it, in nanoseconds.
    /// `low` and `high` are the bounds of its 95 % interval.
    pub(crate) difference: i64,
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) alternations: u64,
    /// True if requests without the intervention did not have the delay of the load's requests either,
    /// so that nothing follows from its absence with the intervention.
    pub(crate) is_blind: bool,
}

impl Loads {
    pub(crate) fn begin(&mut self, at: Timestamp, phase: Phase, start: PhaseStart) {
        // A run that ended early is announced a second time, with its actual end.
        let same = |known: &&mut (Timestamp, Phase, PhaseStart)| {
            known.0 == at && known.1 == phase && known.2.target == start.target
        };
        if let Some(known) = self.phases.iter_mut().find(same) {
            known.2 = start;
        } else if self.phases.len() < MAX_PHASES {
            self.phases.push((at, phase, start));
        }
    }

    /// Returns true if a run of `phase` was in progress at `at`, or if no run of `phase` was
    /// announced.
    pub(crate) fn covers(&self, phase: Phase, at: Timestamp) -> bool {
        let mut runs = self
            .phases
            .iter()
            .filter(|(_, p, _)| *p == phase)
            .peekable();
        runs.peek().is_none() || runs.any(|(begin, _, start)| *begin <= at && at <= start.end)
    }

    /// Returns true if a run of `phase` began between `from` and `until`.
    pub(crate) fn begins_within(&self, phase: Phase, from: Timestamp, until: Timestamp) -> bool {
        self.phases
            .iter()
            .any(|(begin, p, _)| *p == phase && from < *begin && *begin < until)
    }

    /// Returns true if any load was running at `at`.
    pub(crate) fn is_running(&self, at: Timestamp) -> bool {
        self.phases
            .iter()
            .any(|(begin, _, start)| *begin <= at && at <= start.end)
    }

    /// Returns true if a load with packet capture was running at `at`.
    pub(crate) fn is_observed(&self, at: Timestamp) -> bool {
        let mut observed = self.phases.iter().filter(|(_, _, start)| start.is_observed);
        observed.any(|(begin, _, start)| *begin <= at && at <= start.end)
    }

    pub(crate) fn cluster(&mut self, phase: Phase, cluster: LoadCluster) {
        let (slice, is_observed) = self.current(cluster.target, phase);
        let target = cluster.target;
        let (second, group) = (cluster.second, cluster.group);
        let sum = self.sums.entry((target, phase, is_observed)).or_default();
        sum.add_cluster(slice, &cluster);
        let is_kept = phase == Phase::Baseline && !is_observed;
        if is_kept && self.clusters.len() < MAX_CLUSTERS {
            let latency = cluster.latency;
            let failures = cluster.failures.iter().map(|&(_, count)| count).sum();
            self.clusters.push((
                target,
                Cluster {
                    second,
                    group,
                    latency,
                    failures,
                },
            ));
        }
    }

    /// Records a level of load.
    pub(crate) fn level(&mut self, level: LevelSample) {
        if self.levels.len() < MAX_LEVELS {
            self.levels.push(level);
        }
    }

    /// Records who used the processors. Of several parts of the baseline, the longest counts.
    pub(crate) fn used(&mut self, phase: Phase, used: ProcessorUse) {
        let known = self.processors.as_ref().map(|known| known.wall);
        if phase == Phase::Baseline && known < Some(used.wall) {
            self.processors = Some(used);
        }
    }

    /// Returns true if all processors of this host were busy during the baseline, with processes that
    /// belong neither to the target nor to lagtrace. Then any program on this host stands still at
    /// times.
    pub(crate) fn lacks_processors(&self) -> bool {
        self.processors
            .as_ref()
            .is_some_and(|used| used.busy_share() >= BUSY && used.foreign_share() >= MUCH_BY_OTHERS)
    }

    /// Records a run's generator sample. The sample of the most overloaded run is kept.
    pub(crate) fn generator(&mut self, phase: Phase, sample: GeneratorSample) {
        if is_level(phase) {
            return;
        }
        self.standstill = self.standstill.max(sample.standstill);
        let lag = |sample: &GeneratorSample| {
            (sample.is_limit(), sample.start_lag_p99.max(sample.turn_p99))
        };
        if self
            .generator
            .as_ref()
            .is_none_or(|known| lag(known) < lag(&sample))
        {
            self.generator = Some(sample);
        }
    }

    /// Records a run's transport. All runs of a target use the same settings, so only the handshake
    /// times are added up.
    pub(crate) fn transport(&mut self, phase: Phase, transport: LoadTransport) {
        if phase != Phase::Baseline {
            return;
        }
        let Some(known) = self.transports.get_mut(&transport.target) else {
            self.transports.insert(transport.target, transport);
            return;
        };
        match (&mut known.tls, transport.tls) {
            (Some(known), Some(more)) => {
                known.full.merge(&more.full);
                known.resumed.merge(&more.resumed);
            }
            (known, more) => *known = known.take().or(more),
        }
    }

    pub(crate) fn stages(&mut self, phase: Phase, stages: LoadStages) {
        if phase == Phase::Baseline && stages.target == TargetId::Subject {
            self.stages = Some(stages);
        }
    }

    pub(crate) fn url(&mut self, phase: Phase, url: LoadUrl) {
        if phase == Phase::Baseline && self.urls.len() < MAX_URLS {
            self.urls.push(url);
        }
    }

    pub(crate) fn silence(&mut self, phase: Phase, silence: Silence) {
        let is_kept = phase == Phase::Baseline && !self.is_observed(silence.begin);
        if is_kept && self.silences.len() < MAX_SILENCES {
            self.silences.push(silence);
        }
    }

    pub(crate) fn sample(&mut self, phase: Phase, sample: RequestSample) {
        if phase == Phase::Baseline && self.samples.len() < MAX_SAMPLES {
            self.samples.push(sample);
        }
    }

    /// Returns the index of the target's latest run of `phase`, and true if packets are captured in
    /// that run.
    fn current(&self, target: TargetId, phase: Phase) -> (usize, bool) {
        self.phases
            .iter()
            .enumerate()
            .rev()
            .find(|(_, (_, p, start))| *p == phase && start.target == target)
            .map_or((0, false), |(index, (_, _, start))| {
                (index, start.is_observed)
            })
    }

    /// Iterates over the target's single requests. The flag is true if the server closed the
    /// connection after the request: our requests ask to keep it open, and it was not used any more
    /// although another one was opened later.
    pub(crate) fn samples_of(
        &self,
        target: TargetId,
    ) -> impl Iterator<Item = (&RequestSample, bool)> {
        let samples = || self.samples.iter().filter(move |s| s.target == target);
        let latest_opened = samples().filter_map(|s| Some(s.sent - s.setup?)).max();
        let mut last: BTreeMap<FlowKey, u32> = BTreeMap::new();
        for (flow, ordinal) in samples().filter_map(|s| Some((s.flow?, s.ordinal))) {
            let known = last.entry(flow).or_default();
            *known = (*known).max(ordinal);
        }
        samples().map(move |sample| {
            let is_last = sample.flow.and_then(|flow| last.get(&flow)) == Some(&sample.ordinal);
            let is_before_another = latest_opened.is_some_and(|at| sample.ended <= at);
            let is_closed = is_last && sample.outcome.is_ok() && is_before_another;
            (sample, is_closed)
        })
    }

    /// Returns the begin and the end of the first run of the target's baseline.
    pub(crate) fn first_baseline(&self, target: TargetId) -> Option<(Timestamp, Timestamp)> {
        let is_baseline = |(_, phase, start): &&(Timestamp, Phase, PhaseStart)| {
            *phase == Phase::Baseline && start.target == target
        };
        let first = self.phases.iter().find(is_baseline);
        first.map(|(begin, _, start)| (*begin, start.end))
    }

    /// Returns true if every complete response of the target's baseline is among the single
    /// requests.
    pub(crate) fn has_all_samples(&self, target: TargetId) -> bool {
        let sums = [false, true].map(|observed| (target, Phase::Baseline, observed));
        let whole: u64 = sums
            .iter()
            .filter_map(|key| self.sums.get(key))
            .map(LoadSum::whole)
            .sum();
        let is_whole = |s: &&RequestSample| s.target == target && s.outcome.is_ok();
        self.samples.iter().filter(is_whole).count() as u64 >= whole
    }

    /// Returns the target's baseline without packet capture or, if there is none, the one with
    /// packet capture.
    pub(crate) fn baseline(&self, target: TargetId) -> Option<&LoadSum> {
        let of = |is_observed| self.sums.get(&(target, Phase::Baseline, is_observed));
        of(false).or_else(|| of(true))
    }

    /// Returns the target's baseline without packet capture.
    pub(crate) fn unobserved_baseline(&self, target: TargetId) -> Option<&LoadSum> {
        self.sums.get(&(target, Phase::Baseline, false))
    }

    /// Returns the target's baseline with packet capture.
    pub(crate) fn observed_baseline(&self, target: TargetId) -> Option<&LoadSum> {
        self.sums.get(&(target, Phase::Baseline, true))
    }

    /// Returns the number of a target's requests that were still in flight when a captured run
    /// ended. It is at most the number of connections.
    pub(crate) fn cut(&self, target: TargetId) -> u64 {
        let observed = self
            .sums
            .iter()
            .filter(|((t, _, observed), _)| *t == target && *observed);
        let cut = observed.map(|((_, phase, _), sum)| {
            let cut = sum
                .failures
                .get(&RequestFailure::Cut)
                .copied()
                .unwrap_or_default();
            let runs = self
                .phases
                .iter()
                .filter(|(_, p, start)| p == phase && start.target == target && start.is_observed);
            cut.min(runs.map(|(_, _, start)| u64::from(start.connections)).sum())
        });
        cut.sum()
    }

    /// Returns the largest number of connections that any phase of the target's load uses, without
    /// the levels that show what the service carries.
    pub(crate) fn connections(&self, target: Option<TargetId>) -> u64 {
        let phases = self.phases.iter().filter(|(_, phase, _)| !is_level(*phase));
        let phases = phases.map(|(_, _, start)| start);
        let own = phases.filter(|start| Some(start.target) == target);
        own.map(|start| u64::from(start.connections))
            .max()
            .unwrap_or_default()
    }

    /// Returns true if a phase of a target's load has a fixed rate.
    pub(crate) fn is_paced(&self, target: Option<TargetId>) -> bool {
        let mut phases = self.phases.iter().map(|(_, _, start)| start);
        phases.any(|start| Some(start.target) == target && start.offered_rate.is_some())
    }

    /// Returns the sum of a target's load over all phases, without the levels that show what the
    /// service carries.
    pub(crate) fn all(&self, target: TargetId) -> LoadSum {
        let mut all = LoadSum::default();
        for ((t, phase, _), sum) in &self.sums {
            if *t == target && !is_level(*phase) {
                all.merge(sum.clone());
            }
        }
        all
    }

    /// Returns the length in seconds of the target's baseline without packet capture or, if there
    /// is none, of the one with packet capture.
    pub(crate) fn baseline_seconds(&self, target: TargetId) -> f64 {
        let length = |observed: bool| -> f64 {
            let mut seconds = 0.0;
            for (_, phase, start) in &self.phases {
                let is_meant = *phase == Phase::Baseline
                    && start.target == target
                    && start.is_observed == observed;
                if is_meant {
                    seconds += start.active.as_secs_f64();
                }
            }
            seconds
        };
        let unobserved = length(false);
        if unobserved > 0.0 {
            unobserved
        } else {
            length(true)
        }
    }

    /// Returns half the width of the 95 % interval of the baseline's requests per second. It
    /// follows from the spread over the whole seconds, including those without any request. `None`
    /// for fewer than three seconds.
    pub(crate) fn rate_margin(&self, target: TargetId) -> Option<f64> {
        let sum = self.baseline(target)?;
        let of = |is_observed| self.sums.get(&(target, Phase::Baseline, is_observed));
        let is_observed = of(false).is_none();
        let mut counts: Vec<f64> = Vec::new();
        for (slice, (begun, phase, start)) in self.phases.iter().enumerate() {
            let is_meant = *phase == Phase::Baseline
                && start.target == target
                && start.is_observed == is_observed;
            let seconds = start.end.since(*begun).as_secs().min(MAX_SECONDS);
            let seconds = if is_meant { seconds } else { 0 };
            counts.extend((0..seconds as u32).map(|second| {
                let requests = sum.seconds.get(&(slice, second));
                requests.map_or(0.0, |&(_, requests)| requests as f64)
            }));
        }
        let n = counts.len() as f64;
        if n < 3.0 {
            return None;
        }
        let mean = counts.iter().sum::<f64>() / n;
        let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        Some(2.0 * (squares / (n - 1.0) / n).sqrt())
    }

    /// Returns the experiments for which both the control and the treated requests were measured,
    /// in the order in which they were run.
    pub(crate) fn outcomes(&self, target: TargetId) -> Vec<ExperimentResult<'_>> {
        let mut outcomes = Vec::new();
        for number in 0..=u8::MAX {
            let Some(experiment) = self.experiment(target, number) else {
                continue;
            };
            let side = |phase| {
                self.sums
                    .get(&(target, phase, false))
                    .or(self.sums.get(&(target, phase, true)))
            };
            let (control, treated) = (
                side(Phase::Control(number)),
                side(Phase::Experiment(number)),
            );
            if let (Some(control), Some(treated)) = (control, treated) {
                let turns = self.turns(target, number);
                let usual = self.baseline(target).and_then(|load| load.latency.mean());
                let outcome = ExperimentResult::of(experiment, control, treated, turns, usual);
                outcomes.extend(outcome);
            }
        }
        outcomes
    }

    fn turns(&self, target: TargetId, number: u8) -> u64 {
        self.phases
            .iter()
            .filter(|(_, phase, start)| {
                *phase == Phase::Experiment(number) && start.target == target
            })
            .map(|(_, _, start)| u64::from(start.turns))
            .sum()
    }

    fn experiment(&self, target: TargetId, number: u8) -> Option<Experiment> {
        self.phases
            .iter()
            .find(|(_, phase, start)| *phase == Phase::Experiment(number) && start.target == target)
            .and_then(|(_, _, start)| start.experiment)
    }
}

impl LoadSum {
    fn add_cluster(&mut self, slice: usize, cluster: &LoadCluster) {
        self.latency.merge(&cluster.latency);
        self.service.merge(&cluster.service);
        self.first_byte.merge(&cluster.first_byte);
        self.body.merge(&cluster.body);
        for &(failure, count) in &cluster.failures {
            *self.failures.entry(failure).or_default() += count;
        }
        for &(status, count) in &cluster.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.connects += cluster.connects;
        self.received_bytes += cluster.received_bytes;
        let second = self.seconds.entry((slice, cluster.second)).or_default();
        second.0 += cluster.latency.sum_ns() as f64;
        second.1 += cluster.latency.count();
    }

    /// Returns the number of failed requests, plus the number of responses with a status of 400 or
    /// more or, if some are `expected`, with another status. Timeouts and requests cut by the end of
    /// the run do not count.
    pub(crate) fn errors(&self, expected: &[u16]) -> u64 {
        let is_error = |failure: RequestFailure| {
            !matches!(failure, RequestFailure::Timeout | RequestFailure::Cut)
        };
        let failed: u64 = self
            .failures
            .iter()
            .filter(|(f, _)| is_error(**f))
            .map(|(_, count)| count)
            .sum();
        failed + self.refused(expected)
    }

    /// Returns the number of responses that are errors or, if some statuses are `expected`, have
    /// another one.
    pub(crate) fn refused(&self, expected: &[u16]) -> u64 {
        let refused = self.statuses.iter();
        let refused = refused.filter(|(status, _)| is_failure(**status, expected));
        refused.map(|(_, count)| count).sum()
    }

    /// Returns the number of requests that timed out.
    pub(crate) fn timeouts(&self) -> u64 {
        self.failures
            .get(&RequestFailure::Timeout)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the number of responses for each status, and of failures for each name.
    pub(crate) fn outcomes(&self) -> Vec<StatusCount> {
        let statuses = self
            .statuses
            .iter()
            .map(|(status, &count)| (status.to_string(), count));
        let failures = self
            .failures
            .iter()
            .map(|(f, &count)| (f.name().to_owned(), count));
        statuses
            .chain(failures)
            .map(|(status, count)| StatusCount { status, count })
            .collect()
    }

    /// Returns the number of complete responses.
    pub(crate) fn whole(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Returns the number of requests without a complete response.
    pub(crate) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Returns the difference of `other`'s mean latency to this one, and twice its standard error, in
    /// nanoseconds: a smaller difference may be the variation from second to second.
    pub(crate) fn change_to(&self, other: &Self) -> Option<(i64, i64)> {
        let difference = signed(other.latency.mean()?) - signed(self.latency.mean()?);
        let margin = 2.0 * (error(self).powi(2) + error(other).powi(2)).sqrt();
        Some((difference, margin as i64))
    }

    /// Returns the mean latency of each second, in nanoseconds.
    fn means(&self) -> Vec<f64> {
        self.seconds
            .values()
            .filter(|(_, n)| *n > 0)
            .map(|(sum, n)| sum / *n as f64)
            .collect()
    }
}

/// Returns true for the phases of the levels that show what the service carries. They are not part
/// of the measurement.
fn is_level(phase: Phase) -> bool {
    matches!(phase, Phase::Level(_))
}

impl<'a> ExperimentResult<'a> {
    /// Returns the difference between the mean latencies, with an interval of twice its standard
    /// error.
    fn of(
        experiment: Experiment,
        control: &'a LoadSum,
        treated: &'a LoadSum,
        alternations: u64,
        usual: Option<Duration>,
    ) -> Option<Self> {
        let without = control.latency.mean()?;
        let (difference, margin) = control.change_to(treated)?;
        let high = difference.saturating_add(margin);
        let is_quick = usual.is_some_and(|usual| without * MUCH_QUICKER < usual);
        Some(Self {
            experiment,
            control,
            treated,
            difference,
            low: difference.saturating_sub(margin),
            high,
            alternations,
            is_blind: is_quick && high >= 0,
        })
    }
}

/// Minimum ratio of the load's mean latency to that of a control that did not have the load's delay.
const MUCH_QUICKER: u32 = 2;

/// Returns the standard error of the mean latency. It follows from the spread of the seconds' means
/// (Welch) or, for fewer than three seconds, from the spread of the single requests.
fn error(sum: &LoadSum) -> f64 {
    let means = sum.means();
    if means.len() >= 3 {
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let variance =
            means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
        return (variance / means.len() as f64).sqrt();
    }
    let count = sum.latency.count().max(1) as f64;
    let mean = sum.latency.sum_ns() as f64 / count;
    let squares: f64 = sum
        .latency
        .buckets()
        .iter()
        .map(|&(value, n)| (value as f64 - mean).powi(2) * n as f64)
        .sum();
    (squares / count / count).sqrt()
}

fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::{Endpoint, Transport};

    #[test]
    fn seconds_without_any_request_widen_the_rates_interval() {
        let margin = |is_silent: fn(u32) -> bool| {
            let mut loads = Loads::default();
            let begun = Timestamp::from_nanos(1_000_000_000_000);
            let start = PhaseStart {
                target: TargetId::Subject,
                end: begun + Duration::from_millis(9_700),
                experiment: None,
                connections: 1,
                offered_rate: None,
                turns: 1,
                active: Duration::from_millis(9_700),
                is_observed: false,
            };
            loads.begin(begun, Phase::Baseline, start);
            for second in (0..10).filter(|second| !is_silent(*second)) {
                let mut latency = Distribution::default();
                // The last second is not complete.
                let requests = if second == 9 { 70 } else { 100 };
                latency.record_many(Duration::from_millis(5), requests);
                let cluster = LoadCluster {
                    second,
                    latency,
                    ..LoadCluster::default()
                };
                loads.cluster(Phase::Baseline, cluster);
            }
            loads.rate_margin(TargetId::Subject)
        };
        assert_eq!(margin(|_| false), Some(0.0));
        let frozen = margin(|second| (3..6).contains(&second));
        // Three of nine seconds have no request; the others have 100 each.
        assert!(
            frozen.is_some_and(|margin| (33.0..34.0).contains(&margin)),
            "{frozen:?}"
        );
        assert_eq!(margin(|second| second == 8), margin(|second| second == 1));
    }

    #[test]
    fn the_sum_over_all_phases_has_the_seconds_of_each() {
        let sum = |slice, millis| {
            let mut latency = Distribution::default();
            latency.record(Duration::from_millis(millis));
            let mut sum = LoadSum::default();
            let cluster = LoadCluster {
                latency,
                ..LoadCluster::default()
            };
            sum.add_cluster(slice, &cluster);
            sum
        };
        let mut all = sum(0, 5);
        let means = [all.means(), sum(1, 9).means()].concat();
        all.merge(sum(1, 9));
        assert_eq!(all.means(), means);
    }

    /// Returns for each request whether the server closed its connection afterwards. A request is
    /// the port of its connection, its number there, and when it begins and ends in milliseconds.
    fn closed(requests: &[(u16, u32, i64, i64)]) -> Vec<bool> {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        let host = |port| Endpoint::new(core::net::Ipv4Addr::LOCALHOST.into(), port);
        let sample = |&(port, ordinal, begin, end): &(u16, u32, i64, i64)| RequestSample {
            target: TargetId::Subject,
            flow: Some(FlowKey::new(Transport::Tcp, host(port), host(80)).0),
            ordinal,
            sent: at(begin),
            first_byte: Some(at(end)),
            ended: at(end),
            longest_gap: Duration::ZERO,
            setup: (ordinal == 0).then_some(Duration::from_millis(1)),
            outcome: Ok(200),
            received_bytes: 1,
        };
        let mut loads = Loads::default();
        let samples = requests.iter().map(sample);
        samples.for_each(|sample| loads.sample(Phase::Baseline, sample));
        let closed = loads.samples_of(TargetId::Subject);
        closed.map(|(_, is_closed)| is_closed).collect()
    }

    #[test]
    fn a_connection_was_closed_if_it_is_not_used_and_another_is_opened() {
        let of_two_each = [(1, 0, 1, 9), (1, 1, 10, 19), (2, 0, 21, 29), (2, 1, 30, 39)];
        assert_eq!(closed(&of_two_each), [false, true, false, false]);
    }

    #[test]
    fn connections_that_were_opened_together_are_kept() {
        let slow = [(1, 0, 1, 2_000), (2, 0, 1, 2_100), (3, 0, 1, 2_200)];
        assert_eq!(closed(&slow), [false; 3]);
    }

    #[test]
    fn an_experiment_whose_control_has_no_delay_shows_nothing_unless_it_helps() {
        let sum = |ms: u64| {
            let mut sum = LoadSum::default();
            sum.latency.record_many(Duration::from_millis(ms), 30);
            sum
        };
        let is_blind = |usual: u64, control: u64, treated: u64| {
            let usual = Some(Duration::from_millis(usual));
            let (control, treated) = (sum(control), sum(treated));
            ExperimentResult::of(Experiment::QuickAck, &control, &treated, 3, usual)
                .expect("requests")
                .is_blind
        };
        assert!(is_blind(44, 1, 1));
        assert!(!is_blind(44, 44, 44), "the delay is there in both");
        assert!(!is_blind(44, 15, 1), "it helps");
    }
}
