//! Concurrent load in two parts: first unobserved, for the latency figures, then under observation,
//! for their explanation.

use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{EventBody, Phase, TargetId};
use lagtrace_sources::load::{self, Arrangement, Ending, Lane, LaneSummary, Pace, Plan, Summary};

use super::kernel::Watching;
use super::loaded_probes::LoadedProbes;
use super::observation::Observation;
use super::{Investigation, Site};
use crate::diagnose::DURATION;
use crate::failure::Result;
use crate::words;

/// The time for which one target is under load before the load changes to the other target.
const TURN: Duration = Duration::from_millis(200);
/// Maximum duration of the observed part, because packets take memory. Long requests extend it.
const LONGEST_OBSERVED: Duration = Duration::from_secs(5);
/// Maximum duration of an observed part that long requests extend.
const LONGEST_FOR_WHOLE: Duration = Duration::from_secs(20);
/// The observed part as a share of the load's duration.
const OBSERVED_SHARE: f64 = 0.4;
/// The warm-up of each part as a share of the load's duration, before it is limited to 100 to 500
/// ms.
const WARM_UP_SHARE: f64 = 0.04;

/// Maximum time that the investigation may take, in addition to the load, until the end of the
/// observed part. This includes the time by which the last requests of a part end late. If it is
/// exceeded, the observed part is shortened, but at most by half.
const BEYOND: Duration = Duration::from_secs(3);

/// The parts of the load's duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    /// The warm-up before each part.
    warm_up: Duration,
    unobserved: Duration,
    observed: Duration,
}

impl Windows {
    /// Splits a duration into the parts. If targets take turns, the warm-up lasts for a whole round
    /// of turns.
    fn within(duration: Duration, targets: usize) -> Self {
        let warm_up = match targets {
            0 | 1 => duration
                .mul_f64(WARM_UP_SHARE)
                .clamp(Duration::from_millis(100), Duration::from_millis(500)),
            several => TURN * u32::try_from(several).unwrap_or(u32::MAX),
        };
        let rest = duration.saturating_sub(warm_up * 2);
        let observed = rest.mul_f64(OBSERVED_SHARE).min(LONGEST_OBSERVED);
        Self {
            warm_up,
            unobserved: rest - observed,
            observed,
        }
    }

    /// Returns the duration of the observed part, given that `beyond` is the time needed in
    /// addition to the load, and `whole` the time in which whole requests can be captured.
    fn observed_after(&self, beyond: Duration, whole: Duration) -> Duration {
        let more = beyond.saturating_sub(BEYOND);
        (self.observed - more.min(self.observed / 2)).max(whole.min(LONGEST_FOR_WHOLE))
    }
}

impl Investigation<'_> {
    /// Puts load on the targets, first unobserved and then observed.
    pub(super) fn load(&mut self) -> Result<()> {
        let duration = self.options.load.duration.unwrap_or(DURATION);
        let begun = Instant::now();
        self.tell_limit();
        self.pace.judged = self.ramp()?;
        if self.interrupt.is_requested() {
            return Ok(());
        }
        let spent = begun.elapsed() + self.pace.unsettled_for;
        let left = duration.saturating_sub(spent).max(duration / 2);
        let lanes = self.baseline_lanes();
        let windows = Windows::within(left, lanes.len());
        let mut plan = self.plan(lanes);
        if plan.requests.is_none() {
            plan.warm_up = windows.warm_up;
        }
        plan.duration = windows.unobserved;
        let before = self.processor_times();
        let unobserved = self.run_load("load", &plan)?;
        if let Some((before, after)) = before.zip(self.processor_times()) {
            let used = self.used(&before, &after);
            self.feed.observe_now(EventBody::Processors(used));
        }
        self.console.detail(&generator(&unobserved));
        for lane in &unobserved.lanes {
            self.say("load", lane.target, &describe(lane, unobserved.ending));
        }
        self.pace.typical = unobserved
            .lanes
            .first()
            .and_then(|lane| lane.service.quantile(0.5));
        self.pace.carries = unobserved.lanes.first().map(LaneSummary::rate);
        if unobserved.ending != Ending::Completed || self.is_local() {
            self.has_measured = unobserved.ending != Ending::Stopped;
            return Ok(());
        }
        self.work_off(unobserved.lanes.iter().map(LaneSummary::cut).sum())?;
        let planned = windows.warm_up + windows.unobserved + (duration - left);
        let beyond = self.begun.elapsed().saturating_sub(planned);
        let lanes = &unobserved.lanes;
        let is_answered = lanes.iter().any(|lane| lane.responses() > 0);
        if !is_answered {
            plan.warm_up = Duration::ZERO;
        }
        let longest = lanes.iter().filter_map(|lane| lane.service.max()).max();
        let longest = longest.unwrap_or_default();
        let whole = time_for_whole_requests(longest, is_answered, plan.grace());
        plan.duration = windows.observed_after(beyond + self.pace.overrun, whole);
        self.observed_load(&mut plan, &unobserved)
    }

    fn observed_load(&mut self, plan: &mut Plan, unobserved: &Summary) -> Result<()> {
        self.find_upstreams();
        self.start_capture();
        let watching = Watching::begin(self);
        plan.reporting.is_observed = self.recorder.is_some() || watching.is_some();
        let observation = Observation::begin(self);
        let probes = LoadedProbes::begin(self.open_sites());
        let observed = self.run_load("observation", plan);
        self.feed.observe_all(probes.end());
        observation.end(self);
        if let Some(watching) = watching {
            watching.end(self);
        }
        let observed = observed?;
        self.has_measured = observed.ending != Ending::Stopped;
        self.work_off(observed.lanes.iter().map(LaneSummary::cut).sum())?;
        let text = match disturbance(unobserved, &observed) {
            Some(text) => text,
            None => "nothing answered".to_owned(),
        };
        self.console.outcome("observation", &text);
        Ok(())
    }

    /// Returns a plan with these lanes that follows the user's options.
    pub(super) fn plan(&self, lanes: Vec<Lane>) -> Plan {
        let wishes = &self.options.load;
        let mut plan = Plan::new(lanes);
        if plan.lanes.len() > 1 {
            plan.arrangement = Arrangement::Interleaved { slice: TURN };
        }
        plan.pace = self.pace.judged.rate.map_or(Pace::ClosedLoop, Pace::Rate);
        plan.timeout = wishes.timeout;
        plan.threads = wishes.threads.into();
        plan.protocol.tls.clone_from(&self.tls);
        self.limit(&mut plan);
        plan
    }

    /// Runs a plan with a progress display and keeps its events.
    pub(super) fn run_load(&mut self, step: &str, plan: &Plan) -> Result<Summary> {
        self.run_load_watched(step, plan, &|_| {})
    }

    /// Does the same, and calls `watch` about ten times per second with the time since the start.
    pub(super) fn run_load_watched(
        &mut self,
        step: &str,
        plan: &Plan,
        watch: &dyn Fn(Duration),
    ) -> Result<Summary> {
        let bar = self.console.timed(step, plan.warm_up + plan.duration);
        let progress = |now: load::Progress| {
            watch(now.elapsed);
            bar.set_position(u64::try_from(now.elapsed.as_millis()).unwrap_or(u64::MAX));
            let failures = match now.failures {
                0 => String::new(),
                failures => format!(", {} failed", words::count(failures)),
            };
            bar.set_message(format!(
                "{}{failures}",
                words::plural(now.requests, "request")
            ));
        };
        let mut events = Vec::new();
        let begun = Instant::now();
        let summary = load::run(plan, &progress, self.interrupt.flag(), |event| {
            events.push(event)
        });
        bar.finish_and_clear();
        let planned = plan.warm_up + plan.duration;
        self.pace.overrun = self
            .pace
            .overrun
            .max(begun.elapsed().saturating_sub(planned));
        self.feed.observe_all(events);
        self.spend(summary.as_ref().ok());
        let summary = summary?;
        self.sent.all += summary.requests;
        Ok(summary)
    }

    fn baseline_lanes(&self) -> Vec<Lane> {
        let lane = |site: &Site| Lane {
            target: site.target.clone(),
            phase: Phase::Baseline,
            experiment: None,
            connections: self.pace.judged.connections,
        };
        self.open_sites().map(lane).collect()
    }
}

/// Returns how long the observed part has to be for whole requests, given how long the longest
/// request before it took, whether any was answered, and how long requests in flight may continue
/// after the end.
///
/// Packets explain a request only if both its ends are captured: a SYN that is retransmitted after
/// a second needs more than a second. Each connection begins its first request in the warm-up, and
/// so needs time for two. If nothing was answered there is no warm-up: all requests begin at once,
/// and end together when they time out.
fn time_for_whole_requests(longest: Duration, is_answered: bool, grace: Duration) -> Duration {
    if is_answered {
        longest * 2
    } else {
        longest.saturating_sub(grace / 2)
    }
}

/// Describes the cost of the load on this host.
fn generator(summary: &Summary) -> String {
    let requests: u64 = summary.lanes.iter().map(LaneSummary::responses).sum();
    let each = summary.generator.cpu.as_secs_f64() / requests.max(1) as f64;
    format!(
        "making the load took {:.2} µs of processor time per request",
        each * 1e6
    )
}

/// Describes the results of a lane in one line.
fn describe(lane: &LaneSummary, ending: Ending) -> String {
    if let Ending::NothingConnected(failure) = ending {
        return format!("no connection succeeded: {}", failure.name());
    }
    let at = |quantile| {
        lane.service
            .quantile(quantile)
            .map_or("-".to_owned(), words::time)
    };
    let mut text = format!(
        "{} requests/s, p50 {}, p99 {}, max {}",
        words::rate(lane.rate()),
        at(0.5),
        at(0.99),
        at(1.0),
    );
    let bad: u64 = lane
        .statuses
        .iter()
        .filter(|(status, _)| *status >= 400)
        .map(|&(_, n)| n)
        .sum();
    let cut = lane.cut();
    for (number, noun) in [(lane.failed() - cut, "failure"), (bad, "error response")] {
        if number > 0 {
            text.push_str(&format!(", {}", words::plural(number, noun)));
        }
    }
    if cut > 0 {
        text.push_str(&format!(
            ", {} in flight at the end",
            words::plural(cut, "request")
        ));
    }
    text
}

/// Describes how long requests took with and without the observation. The report says if that is an
/// effect of it.
fn disturbance(unobserved: &Summary, observed: &Summary) -> Option<String> {
    let mean = |summary: &Summary| {
        let subject = summary
            .lanes
            .iter()
            .find(|lane| lane.target == TargetId::Subject)?;
        subject.service.mean()
    };
    let (without, with) = (mean(unobserved)?, mean(observed)?);
    let ratio = with.as_secs_f64() / without.as_secs_f64().max(1e-9);
    Some(format!(
        "mean {} observed, {} unobserved ({:+.1} %)",
        words::time(with),
        words::time(without),
        (ratio - 1.0) * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_fill_the_duration() {
        for (seconds, targets) in [(1, 1), (2, 1), (2, 2), (10, 1), (10, 2), (60, 1), (3600, 2)] {
            let duration = Duration::from_secs(seconds);
            let windows = Windows::within(duration, targets);
            let sum = windows.warm_up * 2 + windows.unobserved + windows.observed;
            assert_eq!(sum, duration);
            assert!(windows.observed <= LONGEST_OBSERVED);
            assert!(windows.unobserved > windows.observed);
        }
    }

    #[test]
    fn what_takes_long_beyond_the_load_is_taken_off_the_observed_part() {
        let windows = Windows::within(Duration::from_secs(10), 1);
        let after = |ms| windows.observed_after(Duration::from_millis(ms), Duration::ZERO);
        assert_eq!(after(2_900), windows.observed);
        assert_eq!(after(3_500), windows.observed - Duration::from_millis(500));
        assert_eq!(after(20_000), windows.observed / 2);
    }

    #[test]
    fn long_requests_are_captured_as_a_whole() {
        let windows = Windows::within(Duration::from_secs(2), 1);
        let after = |ms| windows.observed_after(Duration::ZERO, Duration::from_millis(ms));
        assert_eq!(after(50), windows.observed);
        assert_eq!(after(2_340), Duration::from_millis(2_340));
        assert_eq!(after(11_300), Duration::from_millis(11_300));
        assert_eq!(after(30_000), LONGEST_FOR_WHOLE);
    }

    #[test]
    fn two_requests_fit_after_each_other_but_one_that_times_out_does_not_repeat() {
        let (grace, longest) = (Duration::from_secs(1), Duration::from_secs(2));
        let answered = time_for_whole_requests(longest, true, grace);
        assert_eq!(answered, longest * 2);
        let unanswered = time_for_whole_requests(longest, false, grace);
        assert!(unanswered < longest, "no second request begins");
        assert!(unanswered + grace > longest, "the first one times out");
    }
}
