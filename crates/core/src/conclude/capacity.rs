//! What the service carries, who used the processors, and how many requests were sent.

use core::time::Duration;

use crate::cause::evidence::{human, percent};
use crate::facts::{Facts, LoadSum};
use crate::observed::event::{Phase, PhaseStart, TargetId};
use crate::observed::kernel_span::Stage;
use crate::observed::load_level::{LevelSample, ProcessorUse};
use crate::ramp;
use crate::report::{
    Capacity, LoadLevel, ProcessorShare, ProcessorShares, Remark, RequestsSent, counted,
};
use crate::stats::histogram::Distribution;

/// Minimum share of all processors' time that is used on a host that is short of them.
const MOSTLY_BUSY: f64 = 0.8;
/// Minimum share of the requests' time in the server for which they waited for a processor.
const MUCH_QUEUED: f64 = 0.25;
/// Minimum share of all processors' time that is mentioned.
const MENTIONED: f64 = 0.05;

/// Returns what the subject carries; `None` if no levels of load were measured.
pub(super) fn capacity(facts: &Facts) -> Option<Capacity> {
    let mut phases = facts.loads.phases.iter();
    let is_judged = |(_, phase, start): &&(_, Phase, PhaseStart)| {
        *phase == Phase::Baseline && start.target == TargetId::Subject
    };
    let judged = phases.find(is_judged).map(|(_, _, start)| start);
    let levels = &levels(facts, judged);
    let carried = ramp::carried(levels)?;
    let asked = carried.asked;
    let idle = carried.first.median;
    let travel = facts.round_trip(TargetId::Subject).unwrap_or_default();
    let is_saturated = carried.limit.is_some();
    // Levels are short: a service that has only just started is quicker later.
    let rate = carried.rate.max(rate_of_load(facts).unwrap_or_default());
    Some(Capacity {
        is_saturated,
        rate,
        limit: carried.limit,
        asked: level(asked),
        asked_connections: asked.connections + asked.left_out,
        carried: level(carried.carried),
        judged_connections: judged.map_or(asked.connections, |judged| judged.connections),
        judged_rate: judged.and_then(|judged| judged.offered_rate),
        idle_ns: nanos(idle),
        queue_ns: if is_saturated {
            nanos(time_in_turn(asked, carried.rate).saturating_sub(idle))
        } else {
            0
        },
        // On their way, requests are not served.
        served_at_once: rate * idle.saturating_sub(travel).as_secs_f64(),
        processors: asked.processors.as_ref().map(shares),
        levels: levels.iter().map(level).collect(),
    })
}

/// Returns the measured levels. If delay was judged at the asked load, its figures are those of the
/// load, which lasted longer than its level, unless some of its answers are errors: these carry
/// nothing.
fn levels(facts: &Facts, judged: Option<&PhaseStart>) -> Vec<LevelSample> {
    let mut levels = facts.loads.levels.clone();
    let last = levels.last_mut().filter(|level| level.is_asked);
    if let (Some(last), Some(judged), Some((load, lasted))) = (last, judged, whole_load(facts))
        && last.connections == judged.connections
        && last.offered_rate == judged.offered_rate
    {
        let quantile = |at| load.latency.quantile(at).unwrap_or_default();
        last.lasted = lasted;
        last.responses = load.whole();
        last.mean = load.latency.mean().unwrap_or_default();
        last.median = quantile(0.5);
        last.p99 = quantile(0.99);
    }
    levels
}

/// Returns the load at which delay was judged and its duration; `None` if some of its answers are
/// errors: these carry nothing.
fn whole_load(facts: &Facts) -> Option<(&LoadSum, Duration)> {
    let load = facts.loads.baseline(TargetId::Subject)?;
    let seconds = facts.loads.baseline_seconds(TargetId::Subject);
    let lasted = Duration::try_from_secs_f64(seconds).ok()?;
    let has_errors = load.refused(&facts.loads.expected) > 0;
    (!has_errors && !lasted.is_zero()).then_some((load, lasted))
}

/// Returns the responses per second while delay was judged.
fn rate_of_load(facts: &Facts) -> Option<f64> {
    let (load, lasted) = whole_load(facts)?;
    Some(load.whole() as f64 / lasted.as_secs_f64())
}

/// Returns the mean time of a request: in closed loop by Little's law, which includes those that
/// were given up.
fn time_in_turn(asked: &LevelSample, rate: f64) -> Duration {
    if asked.offered_rate.is_some() {
        return asked.mean;
    }
    Duration::try_from_secs_f64(f64::from(asked.connections) / rate).unwrap_or(asked.mean)
}

/// Returns who used the processors while delay was judged.
pub(super) fn processors(facts: &Facts) -> Option<ProcessorShares> {
    facts.loads.processors.as_ref().map(shares)
}

/// Returns the number of requests that were sent.
pub(super) fn sent(facts: &Facts) -> Option<RequestsSent> {
    facts.loads.sent.map(|sent| RequestsSent {
        all: sent.all,
        in_experiments: sent.in_experiments,
    })
}

/// Returns the remark on a host that is short of processors: who uses them, and how long requests
/// waited for one.
pub(super) fn remarks(facts: &Facts) -> Vec<Remark> {
    let used = facts.loads.processors.as_ref();
    let Some(used) = used.filter(|used| used.busy_share() >= MOSTLY_BUSY) else {
        return Vec::new();
    };
    let queued = queued(facts);
    if !facts.loads.lacks_processors() && queued.is_none() {
        return Vec::new();
    }
    let waited = queued.map(|(queued, all)| {
        format!(
            "; in the server, requests waited {} of {} (means) for a processor",
            human(queued),
            human(all)
        )
    });
    let text = format!(
        "This host is short of processors: its {} are {} busy{}. Of their time, {}.",
        used.processors,
        percent(used.busy_share()),
        waited.unwrap_or_default(),
        users(used),
    );
    vec![Remark {
        id: Remark::SHORT_OF_PROCESSORS.to_owned(),
        text,
    }]
}

/// Returns the remark on requests of other clients.
pub(super) fn foreign(facts: &Facts) -> Option<Remark> {
    let foreign = facts.loads.foreign;
    (foreign > 0).then(|| Remark {
        id: Remark::FOREIGN_REQUESTS.to_owned(),
        text: format!(
            "Other clients sent {} to the service while the load was observed. These share what it \
             carries; the figures leave them out.",
            counted(foreign, "request", "requests")
        ),
    })
}

/// Returns the mean time for which requests waited for a processor in the server, and their mean
/// time there; `None` if it is not a large part, or if the kernel was not watched.
fn queued(facts: &Facts) -> Option<(Duration, Duration)> {
    let services = facts.turns.services.values();
    let turns = services.max_by_key(|turns| turns.staged)?;
    let all: u128 = turns.stages.iter().map(Distribution::sum_ns).sum();
    let queued = turns.stage(Stage::RunQueue).sum_ns();
    let each = |sum: u128| {
        let each = sum / u128::from(turns.staged.max(1));
        Duration::from_nanos(u64::try_from(each).unwrap_or(u64::MAX))
    };
    let is_much = queued as f64 >= all as f64 * MUCH_QUEUED && queued > 0;
    is_much.then(|| (each(queued), each(all)))
}

/// Returns true if requests spent most of their time in the server waiting for a processor, and
/// others used a large part of the processors.
pub(super) fn is_starved(facts: &Facts) -> bool {
    let is_most = |(queued, all): (Duration, Duration)| queued * 2 >= all;
    facts.loads.lacks_processors() && queued(facts).is_some_and(is_most)
}

/// Returns who used the processors, in words.
fn users(used: &ProcessorUse) -> String {
    let service = used.service.map(|time| ("the service".to_owned(), time));
    let own = [("lagtrace itself".to_owned(), used.own)];
    let named = used.others.iter();
    let named = named.map(|user| (format!("{}[{}]", user.name, user.pid), user.time));
    let all = service.into_iter().chain(own).chain(named);
    let told = all.filter(|(_, time)| used.part(*time) >= MENTIONED);
    let told: Vec<String> = told
        .map(|(name, time)| format!("{name} used {}", percent(used.part(time))))
        .collect();
    if told.is_empty() {
        return "no process used much".to_owned();
    }
    told.join(", ")
}

fn level(sample: &LevelSample) -> LoadLevel {
    LoadLevel {
        connections: sample.connections,
        offered_rate: sample.offered_rate,
        responses: sample.responses,
        rate: sample.rate(),
        mean_ns: nanos(sample.mean),
        p50_ns: nanos(sample.median),
        p99_ns: nanos(sample.p99),
        failed: sample.failed + sample.abandoned,
    }
}

fn shares(used: &ProcessorUse) -> ProcessorShares {
    let most = used.others.iter().map(|user| ProcessorShare {
        pid: user.pid,
        name: user.name.clone(),
        share: used.part(user.time),
    });
    let waited = |waited: Duration| {
        (waited.as_secs_f64() / used.wall.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0)
    };
    ProcessorShares {
        processors: used.processors,
        busy: used.busy_share(),
        service: used.service.map(|time| used.part(time)),
        lagtrace: used.part(used.own),
        others: used.part(used.by_others),
        most: most.collect(),
        waited: used.some_waited.map(waited),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::{Event, EventBody, LoadCluster, ProbeMethod};
    use crate::observed::time::Timestamp;
    use crate::route::worth::tests::probe;

    const SECONDS: u64 = 4;

    /// Returns the rate that is told if the level of the asked load had 10 answers per second, and the
    /// load itself answered with these statuses.
    fn rate(statuses: &[(u16, u64)], connections: u32) -> f64 {
        capacity(&facts(statuses, connections))
            .expect("levels")
            .rate
    }

    fn facts(statuses: &[(u16, u64)], connections: u32) -> Facts {
        let at = Timestamp::from_nanos(1_000_000_000);
        let level = |connections, is_asked| LevelSample {
            connections,
            is_asked,
            lasted: Duration::from_secs(1),
            responses: 10,
            median: Duration::from_millis(50),
            mean: Duration::from_millis(50),
            ..LevelSample::default()
        };
        let start = PhaseStart {
            target: TargetId::Subject,
            end: at + Duration::from_secs(SECONDS),
            experiment: None,
            connections,
            offered_rate: None,
            turns: 1,
            active: Duration::from_secs(SECONDS),
            is_observed: false,
        };
        let mut latency = Distribution::default();
        latency.record_many(Duration::from_millis(50), 1_000);
        let load = LoadCluster {
            latency,
            statuses: statuses.to_vec(),
            ..LoadCluster::default()
        };
        let bodies = [
            EventBody::Level(level(1, false)),
            EventBody::Level(level(8, true)),
            EventBody::PhaseStarted(start),
            EventBody::Load(load),
        ];
        let mut facts = Facts::default();
        for body in bodies {
            facts.observe(Event::here(at, Phase::Baseline, body));
        }
        facts
    }

    #[test]
    fn requests_on_their_way_are_not_served() {
        let mut facts = facts(&[(200, 160)], 8);
        let at_once = |facts: &Facts| capacity(facts).expect("levels").served_at_once;
        // 40 answers per second, each of which takes a single request 50 ms.
        assert!((at_once(&facts) - 2.0).abs() < 0.01);
        let event = EventBody::Probe(probe(
            ProbeMethod::TcpSyn,
            Some(Duration::from_millis(25)),
            None,
        ));
        facts.observe(Event::here(
            Timestamp::from_nanos(1),
            Phase::Baseline,
            event,
        ));
        assert!((at_once(&facts) - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_load_at_which_delay_is_judged_tells_more_than_its_short_level() {
        assert_eq!(rate(&[(200, 800)], 8), 200.0);
        // A lower load carried more, or less.
        assert_eq!(rate(&[(200, 800)], 4), 200.0);
        assert_eq!(rate(&[(200, 20)], 4), 10.0);
        // Errors carry nothing, and the level does not count them.
        assert_eq!(rate(&[(200, 400), (503, 400)], 8), 10.0);
    }
}
