//! Levels of load before the measurement: from one request at a time to the load that the user
//! asked for. They show what the service carries, and at which load delay is judged.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{Event, EventBody, Phase, TargetId};
use lagtrace_core::observed::load_level::{LevelSample, ProcessorUse};
use lagtrace_core::ramp::{self, Load};
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::load::{Ending, Lane, Pace, Summary};
use lagtrace_sources::probe::{self, ProbePlan};
use lagtrace_sources::processors::{ProcessorTimes, UsualUse};
use lagtrace_sources::socket::cgroup;

use super::Investigation;
use super::quota::FEW_CONNECTIONS;
use super::request::is_answered;
use crate::clock;
use crate::diagnose::DURATION;
use crate::failure::Result;
use crate::words;

/// The step's name.
const STEP: &str = "capacity";
/// The time of the first level as a share of the load's duration, and its bounds; that of the last
/// level, whose rate is told, and which begins with connections to open; and that of the others.
const FIRST: (f64, Duration, Duration) = (
    0.06,
    Duration::from_millis(200),
    Duration::from_millis(1_000),
);
const LAST: (f64, Duration, Duration) = (
    0.1,
    Duration::from_millis(200),
    Duration::from_millis(1_500),
);
const SHORT: (f64, Duration, Duration) =
    (0.01, Duration::from_millis(50), Duration::from_millis(100));
/// Minimum length of a level as a multiple of the time of a single request.
const REQUESTS: u32 = 3;
/// Maximum length of a level as a share of the load's duration. A service that needs levels of more
/// time is measured at the asked load alone.
const LONGEST: f64 = 0.15;
/// Share of the load's duration after which only the asked load is measured.
const CLIMBS_FOR: f64 = 0.15;
/// Time for which requests in flight may continue after a level, as a multiple of the time of a
/// single request.
const GRACE: u32 = 8;
/// Minimum wait of a request that counts as not served, as a share of the level's time.
const UNSERVED: f64 = 0.9;
/// The service has worked off what was abandoned if a single request takes at most this many times
/// as long as before the load, or is later by at most this time.
const IDLE: (u32, Duration) = (2, Duration::from_millis(2));
/// Maximum number of such requests.
const MOST_TRIES: u32 = 200;
/// Maximum time until then.
const MOST_TIME: Duration = Duration::from_secs(3);
/// The first status code of an error (RFC 9110 §15).
const LEAST_ERROR: u16 = 400;

/// The lengths of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lengths {
    first: Duration,
    last: Duration,
    /// The other levels.
    short: Duration,
}

impl Lengths {
    /// Returns the lengths within a load of `duration` if a single request takes `idle`; `None` if
    /// the levels would take too much of it.
    fn within(duration: Duration, idle: Duration) -> Option<Self> {
        let length = |(share, least, most): (f64, Duration, Duration)| {
            let length = duration.mul_f64(share).clamp(least, most);
            length.max(idle * REQUESTS)
        };
        let lengths = Self {
            first: length(FIRST),
            last: length(LAST),
            short: length(SHORT),
        };
        let is_short = idle * REQUESTS <= duration.mul_f64(LONGEST);
        is_short.then_some(lengths)
    }
}

impl Investigation<'_> {
    /// Measures the levels, and returns the load at which delay is judged.
    pub(super) fn ramp(&mut self) -> Result<Load> {
        let wishes = &self.options.load;
        let asked = Load {
            connections: wishes.connections(),
            rate: wishes.rate,
        };
        let (timeout, duration) = (wishes.timeout, wishes.duration.unwrap_or(DURATION));
        if self.pace.idle.is_none() && asked.rate.is_none() {
            return Ok(self.without_answers(asked));
        }
        let lengths = self
            .pace
            .idle
            .and_then(|idle| Lengths::within(duration, idle));
        let is_one = |lengths: &Lengths| ramp::next(&[], asked, lengths.short) == Some(asked);
        // A few requests that may change something are not spent on levels.
        let is_free = self.quota.is_none();
        let Some(lengths) = lengths.filter(|lengths| is_free && !is_one(lengths)) else {
            return Ok(self.as_before(asked).unwrap_or(asked));
        };
        let before = self.pace.at_first.take().zip(self.processor_times());
        self.pace.usual = before.map(|(from, to)| UsualUse::between(from, to));
        let levels = self.levels(asked, lengths, duration)?;
        let Some(carried) = ramp::carried(&levels) else {
            return Ok(self.as_before(asked).unwrap_or(asked));
        };
        let is_chosen = wishes.sets_connections() || wishes.rate.is_some();
        let judged = carried.judged(timeout, duration, is_chosen);
        let judged = self.as_before(asked).unwrap_or(judged);
        if carried.limit.is_some() && self.subject().server.is_some() && !cgroup::is_mounted() {
            self.note(
                "not-measured-cgroup",
                "Not measured: limits of the server's control group, because no file system of \
                 control groups is mounted here (`mount -t cgroup2 none /sys/fs/cgroup`).",
            );
        }
        let text = describe(&levels, judged, asked);
        self.console.outcome(STEP, &text);
        let abandoned: u64 = levels.iter().map(|level| level.abandoned).sum();
        self.work_off(abandoned)?;
        Ok(judged)
    }

    /// Returns the load on a service that answered no single request: more connections would only
    /// wait longer.
    fn without_answers(&mut self, asked: Load) -> Load {
        let few = asked.connections.min(FEW_CONNECTIONS);
        if few < asked.connections {
            let text = format!(
                "No single request was answered before the load, so it had {} instead of {}.",
                words::plural(few.into(), "connection"),
                asked.connections,
            );
            self.note("few-connections", text);
        }
        Load {
            connections: few,
            ..asked
        }
    }

    /// Returns the load at which delay was judged in the run that this one verifies, if the same was
    /// asked for.
    fn as_before(&self, asked: Load) -> Option<Load> {
        let (wanted, judged) = self.pace.before?;
        (wanted == asked).then_some(judged)
    }

    fn levels(
        &mut self,
        asked: Load,
        lengths: Lengths,
        duration: Duration,
    ) -> Result<Vec<LevelSample>> {
        let begun = Instant::now();
        let mut levels = Vec::new();
        while let Some(next) = ramp::next(&levels, asked, lengths.short) {
            let is_late = begun.elapsed() > duration.mul_f64(CLIMBS_FOR);
            let last = ramp::last(&levels, asked);
            let next = if is_late { last } else { next };
            let is_last = next == last;
            let length = match levels.len() {
                _ if is_last => lengths.last,
                0 => lengths.first,
                _ => lengths.short,
            };
            let number = u8::try_from(levels.len()).unwrap_or(u8::MAX);
            let (summary, processors) = self.level(next, length, number)?;
            if summary.ending != Ending::Completed {
                break;
            }
            let expected = &self.options.request.answer.expect_status;
            let level = LevelSample {
                is_asked: is_last,
                left_out: if is_last {
                    asked.connections - next.connections
                } else {
                    0
                },
                processors,
                ..sample(&summary, next, expected)
            };
            let body = EventBody::Level(level.clone());
            self.feed
                .observe(Event::here(clock::now(), Phase::Level(number), body));
            levels.push(level);
        }
        Ok(levels)
    }

    /// Runs one level, and measures who uses the processors until no more requests begin.
    fn level(
        &mut self,
        load: Load,
        length: Duration,
        number: u8,
    ) -> Result<(Summary, Option<ProcessorUse>)> {
        let lane = Lane {
            target: self.subject().target.clone(),
            phase: Phase::Level(number),
            experiment: None,
            connections: load.connections,
        };
        let mut plan = self.plan(vec![lane]);
        plan.pace = load.rate.map_or(Pace::ClosedLoop, Pace::Rate);
        plan.warm_up = Duration::ZERO;
        plan.duration = length;
        if load.connections < self.options.load.connections() {
            let idle = self.pace.idle.unwrap_or_default();
            plan.longest_grace = (idle * GRACE).max(length).min(plan.longest_grace);
        }
        let service = self.service();
        let read = || ProcessorTimes::read(service.as_deref());
        let before = read();
        let after = RefCell::new(None);
        let summary = self.run_load_watched(STEP, &plan, &|elapsed| {
            let mut after = after.borrow_mut();
            if after.is_none() && elapsed >= length.mul_f64(0.9) {
                *after = read();
            }
        })?;
        let after = after.into_inner().or_else(read);
        let times = before.zip(after);
        if let (Some((before, after)), Some(usual)) = (&times, &mut self.pace.usual)
            && load.rate.is_none()
            && load.connections == 1
        {
            usual.note_single_requests(before, after);
        }
        let used = times.map(|(before, after)| self.used(&before, &after));
        Ok((summary, used))
    }

    /// Returns the processes of the subject; `None` if they are not known.
    fn service(&self) -> Option<Vec<u32>> {
        let processes = self.subject().server.as_ref()?.processes();
        let pids = processes.iter().map(|process| process.pid).collect();
        Some(pids).filter(|_| !processes.is_empty())
    }

    /// Reads the processor times of all processes.
    pub(super) fn processor_times(&self) -> Option<ProcessorTimes> {
        ProcessorTimes::read(self.service().as_deref())
    }

    /// Returns who used the processors between two instants.
    pub(super) fn used(&self, before: &ProcessorTimes, after: &ProcessorTimes) -> ProcessorUse {
        before.until(after, self.pace.usual.as_ref())
    }

    /// Waits until the service has worked off the requests that were abandoned: until a single
    /// request is as quick as before the load.
    pub(super) fn work_off(&mut self, abandoned: u64) -> Result<()> {
        let Some(idle) = self
            .pace
            .idle
            .filter(|_| abandoned > 0 && self.quota.is_none())
        else {
            return Ok(());
        };
        let begun = Instant::now();
        let site = self.subject();
        let (address, asked) = (site.target.address, self.asked(&site.target)?);
        let enough = (idle * IDLE.0).max(idle + IDLE.1);
        for _ in 0..MOST_TRIES {
            let Some(left) = MOST_TIME.checked_sub(begun.elapsed()) else {
                break;
            };
            let plan = ProbePlan {
                count: 1,
                timeout: left.max(Duration::from_millis(1)),
                ..ProbePlan::new(TargetId::Subject, address)
            };
            let stop = self.interrupt.flag();
            let answers = probe::http(&plan, &asked, stop, |_| {});
            self.sent.all += 1;
            let mut samples = answers.into_iter().flat_map(|answers| answers.samples);
            let is_quick = samples
                .any(|sample| is_answered(&sample) && sample.rtt.is_some_and(|rtt| rtt <= enough));
            if is_quick || self.interrupt.is_requested() {
                return Ok(());
            }
        }
        let text = format!(
            "{} were given up when their part of the load ended, and {} later a single request still took \
             longer than before the load: the service may still have worked on them when the next part began.",
            words::plural(abandoned, "request"),
            words::time(begun.elapsed()),
        );
        self.note("not-worked-off", text);
        Ok(())
    }
}

/// Returns the figures of a level. Error statuses that nobody `expected` count as failures: a service
/// that only refuses carries nothing.
fn sample(summary: &Summary, load: Load, expected: &[u16]) -> LevelSample {
    let mut level = LevelSample {
        connections: load.connections,
        offered_rate: load.rate,
        lasted: summary.ended.since(summary.counted_from),
        generator_share: summary.generator.busiest_share,
        ..LevelSample::default()
    };
    if let Some(lane) = summary.lanes.first() {
        let quantile = |at| lane.latency.quantile(at).unwrap_or_default();
        let opened = u32::try_from(lane.connects).unwrap_or(u32::MAX);
        let is_error = |status: u16| status >= LEAST_ERROR && !expected.contains(&status);
        let errors = lane.statuses.iter().filter(|(status, _)| is_error(*status));
        let errors: u64 = errors.map(|(_, count)| count).sum();
        level.responses = lane.responses() - errors;
        level.mean = lane.latency.mean().unwrap_or_default();
        level.median = quantile(0.5);
        level.abandoned = lane.cut();
        (level.p99, level.unserved) = waits(&lane.latency, level.abandoned, level.lasted);
        level.failed = lane.failed() - lane.cut() + errors;
        level.unopened = load.connections.saturating_sub(opened);
    }
    level
}

/// Returns the 99th percentile of the requests that were not `abandoned`, and the number of those
/// that waited for nearly the whole level.
fn waits(latency: &Distribution, abandoned: u64, lasted: Duration) -> (Duration, u64) {
    // Abandoned requests are nearly all longer than the others.
    let all = latency.count().max(1);
    let share = all.saturating_sub(abandoned) as f64 / all as f64;
    let p99 = latency.quantile(0.99 * share).unwrap_or_default();
    let long = lasted.as_nanos() as f64 * UNSERVED;
    let buckets = latency.buckets().into_iter();
    let unserved = buckets.filter(|&(time, _)| time as f64 >= long);
    (p99, unserved.map(|(_, count)| count).sum())
}

/// Describes the levels in one line.
fn describe(levels: &[LevelSample], judged: Load, asked: Load) -> String {
    let each = levels.iter().map(|level| {
        let load = load(Load {
            connections: level.connections,
            rate: level.offered_rate,
        });
        format!("{load}: {}/s", words::rate(level.rate()))
    });
    let each: Vec<String> = each.collect();
    let judged = if judged == asked {
        String::new()
    } else {
        format!("; delay is judged with {}", load(judged))
    };
    format!("{}{judged}", each.join(", "))
}

fn load(load: Load) -> String {
    match load.rate {
        Some(rate) => format!("{}/s offered", words::rate(rate)),
        None => words::plural(load.connections.into(), "connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_take_a_small_part_of_the_load() {
        let ms = Duration::from_millis;
        for (seconds, idle) in [(2, 1), (2, 90), (4, 1), (10, 30), (10, 400), (60, 1)] {
            let duration = Duration::from_secs(seconds);
            let lengths = Lengths::within(duration, ms(idle)).expect("a quick service");
            assert!(lengths.short <= lengths.first, "{lengths:?}");
            assert!(lengths.first <= lengths.last, "{lengths:?}");
            assert!(lengths.last <= duration.mul_f64(LONGEST), "{lengths:?}");
            assert!(lengths.short >= ms(idle) * REQUESTS, "{lengths:?}");
        }
        assert_eq!(Lengths::within(Duration::from_secs(2), ms(200)), None);
    }

    #[test]
    fn connections_that_get_their_turn_late_are_told_from_those_that_never_do() {
        let ms = Duration::from_millis;
        let waits = |given_up: u64| {
            let mut latency = Distribution::default();
            latency.record_many(ms(1), 4_000);
            latency.record_many(ms(200), 100);
            latency.record_many(ms(given_up), 80);
            waits(&latency, 80, ms(1_000))
        };
        let (p99, unserved) = waits(700);
        assert_eq!(unserved, 0, "they were waiting when the level ended");
        assert!(p99.abs_diff(ms(200)) < ms(3), "{p99:?}");
        assert_eq!(waits(980).1, 80, "nobody served them");
    }
}
