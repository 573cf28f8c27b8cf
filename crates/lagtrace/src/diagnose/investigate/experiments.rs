//! Interventions at the client, interleaved with controls.

use std::time::{Duration, Instant};

use lagtrace_core::observed::event::Phase;
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_sources::load::{Arrangement, Lane, LaneSummary};

use super::Investigation;
use crate::diagnose::DURATION;
use crate::failure::Result;
use crate::words;

/// Approximate time limit for all experiments together.
const BUDGET: Duration = Duration::from_millis(2_500);
/// Maximum time of the whole investigation in addition to the load. An experiment is not started if
/// it would exceed this time, including the analysis after it.
const BESIDE_THE_LOAD: Duration = Duration::from_millis(5_000);
/// Factor by which the last requests of an intervention may end later than those of other runs. An
/// intervention may slow requests down by this factor.
const SLOWED: u32 = 2;
/// The number of analyses after an experiment: one to choose the next experiment, and one for the
/// report.
const ANALYSES: u32 = 2;
/// Minimum number of alternations between control and intervention.
const LEAST_ROUNDS: u32 = 3;
/// The approximate number of requests per connection in a turn.
const REQUESTS_A_TURN: u32 = 3;
/// The minimum and the maximum duration of a turn.
const TURNS: (Duration, Duration) = (Duration::from_millis(60), Duration::from_millis(340));
/// The response time that is assumed if none was measured.
const TYPICAL: Duration = Duration::from_millis(20);

impl Investigation<'_> {
    /// Analyses the observations, and runs experiments that can distinguish the remaining
    /// hypotheses, until no such experiment is left or the time is used up.
    pub(super) fn experiments(&mut self) -> Result<()> {
        let mut left = BUDGET;
        let mut tried = Vec::new();
        loop {
            let begun = Instant::now();
            self.analyze();
            let analysis = begun.elapsed();
            let turn = self.turn();
            let round = turn * 2 * LEAST_ROUNDS;
            let is_in_time = takes(round, self.pace.overrun, analysis) <= self.time_left();
            let wanted = self.feed.next_experiments();
            let next = wanted
                .into_iter()
                .find(|experiment| !tried.contains(experiment) && self.allows(*experiment));
            let (Some(experiment), false) = (next, self.interrupt.is_requested()) else {
                return Ok(());
            };
            if left < round || !is_in_time {
                return Ok(());
            }
            tried.push(experiment);
            self.experiment(tried.len(), experiment, turn, round)?;
            left = left.saturating_sub(round);
        }
    }

    /// Returns the remaining time that the investigation may take in addition to the load.
    fn time_left(&self) -> Duration {
        let load = self.options.load.duration.unwrap_or(DURATION);
        (load + BESIDE_THE_LOAD).saturating_sub(self.begun.elapsed())
    }

    fn experiment(
        &mut self,
        number: usize,
        experiment: Experiment,
        turn: Duration,
        duration: Duration,
    ) -> Result<()> {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        let lane = |phase, experiment| Lane {
            target: self.subject().target.clone(),
            phase,
            experiment,
            connections: self.pace.judged.connections,
        };
        let control = lane(Phase::Control(number), None);
        let treated = lane(Phase::Experiment(number), Some(experiment));
        let mut plan = self.plan(vec![control, treated]);
        plan.arrangement = Arrangement::Interleaved { slice: turn };
        plan.warm_up = Duration::ZERO;
        plan.duration = duration;
        plan.reporting.is_observed = self.recorder.is_some();
        // An intervention that removes a delay must not become more load than before.
        plan.at_most = self.pace.carries.filter(|&rate| rate > 0.0);
        let summary = self.run_load("experiment", &plan)?;
        self.sent.in_experiments += summary.requests;
        if let [control, treated] = summary.lanes.as_slice() {
            let text = format!("{experiment}: mean {} → {}", mean(control), mean(treated));
            self.console.outcome("experiment", &text);
        }
        Ok(())
    }

    /// Returns the duration of a turn of control or intervention. It is long enough for some
    /// requests on each connection, and short enough to alternate often.
    fn turn(&self) -> Duration {
        let typical = self.pace.typical.unwrap_or(TYPICAL);
        (typical * REQUESTS_A_TURN).clamp(TURNS.0, TURNS.1)
    }
}

/// Returns the time that an experiment takes, including all work after it.
fn takes(round: Duration, overrun: Duration, analysis: Duration) -> Duration {
    round + overrun * SLOWED + analysis * ANALYSES
}

fn mean(lane: &LaneSummary) -> String {
    lane.service.mean().map_or("-".to_owned(), words::time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_late_or_is_long_analysed_counts_as_the_experiments_time() {
        let ms = Duration::from_millis;
        assert_eq!(takes(ms(2_040), Duration::ZERO, Duration::ZERO), ms(2_040));
        assert_eq!(takes(ms(2_040), ms(1_000), ms(300)), ms(4_640));
    }
}
