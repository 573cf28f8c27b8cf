//! Interventions at the client, interleaved with controls.

use std::time::{Duration, Instant};

use lagtrace_core::observed::event::Phase;
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_sources::load::{Arrangement, Lane, LaneSummary};

use super::Investigation;
use crate::diagnose::DURATION;
use crate::failure::Result;
use crate::words;

/// The longest time of all experiments together, approximately.
const BUDGET: Duration = Duration::from_millis(2_500);
/// The time that the whole investigation may take besides the load: an experiment that would take
/// longer, with the work after it, is not begun.
const BESIDE_THE_LOAD: Duration = Duration::from_millis(4_000);
/// The factor by which the end of an intervention's run may be later than that of other runs: it
/// may slow requests down by as much.
const SLOWED: u32 = 2;
/// The number of analyses after an experiment: to choose the next one, and for the report.
const ANALYSES: u32 = 2;
/// Minimum number of times that control and intervention alternate.
const LEAST_ROUNDS: u32 = 3;
/// The number of requests of a connection in a turn, approximately.
const REQUESTS_A_TURN: u32 = 3;
/// The shortest and the longest turn.
const TURNS: (Duration, Duration) = (Duration::from_millis(60), Duration::from_millis(340));
/// The response time assumed where none was measured.
const TYPICAL: Duration = Duration::from_millis(20);

impl Investigation<'_> {
    /// Analyses the observations, and runs experiments that can tell the remaining hypotheses
    /// apart, until none is left or the time is up.
    pub(super) fn experiments(&mut self) -> Result<()> {
        let mut left = BUDGET;
        let mut tried = Vec::new();
        loop {
            let begun = Instant::now();
            self.analyze();
            let analysis = begun.elapsed();
            let turn = self.turn();
            let round = turn * 2 * LEAST_ROUNDS;
            let is_in_time = takes(round, self.overrun, analysis) <= self.time_left();
            let wanted = self.feed.next_experiments();
            let next = wanted
                .into_iter()
                .find(|experiment| !tried.contains(experiment));
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

    /// Returns the time that is left of the user's wait besides the load.
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
            connections: self.options.load.connections,
        };
        let control = lane(Phase::Control(number), None);
        let treated = lane(Phase::Experiment(number), Some(experiment));
        let mut plan = self.plan(vec![control, treated]);
        plan.arrangement = Arrangement::Interleaved { slice: turn };
        plan.warm_up = Duration::ZERO;
        plan.duration = duration;
        plan.is_observed = self.recorder.is_some();
        let summary = self.run_load("experiment", &plan)?;
        if let [control, treated] = summary.lanes.as_slice() {
            let text = format!("{experiment}: mean {} → {}", mean(control), mean(treated));
            self.console.outcome("experiment", &text);
        }
        Ok(())
    }

    /// Returns the duration of a turn of control or intervention: long enough for some requests of
    /// each connection, short enough to alternate often.
    fn turn(&self) -> Duration {
        let typical = self.typical.unwrap_or(TYPICAL);
        (typical * REQUESTS_A_TURN).clamp(TURNS.0, TURNS.1)
    }
}

/// Returns the time that an experiment takes with all the work after it.
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
