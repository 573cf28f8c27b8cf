//! Events that announce the phases of a run.

use core::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase, PhaseStart, TargetId};
use lagtrace_core::observed::time::Timestamp;

use super::Collector;

impl<S: FnMut(Event)> Collector<'_, S> {
    /// Returns the time until which requests could start, for a run that `ended` early. At a fixed
    /// rate, this is one interval after the start of the last request, because no further request
    /// was due before. The duration of the last request does not count.
    pub(super) fn started_until(
        &self,
        ended: Timestamp,
        last_start: Option<Timestamp>,
    ) -> Timestamp {
        let interval = self.plan.pace.rate().map(|rate| 1.0 / rate);
        let Some((last, interval)) = last_start.zip(interval) else {
            return ended;
        };
        let planned = self.plan.duration.as_secs_f64();
        let until = last + Duration::from_secs_f64(interval.min(planned));
        until.max(self.counted_from).min(ended)
    }

    /// Emits the phases with their end time and the time until which requests could start.
    pub(super) fn announce(&mut self, end: Timestamp, started_until: Timestamp) {
        let plan = self.plan;
        let (turns, active) = plan.turns(started_until.since(self.counted_from));
        if self.counted_from > self.start {
            let warm_up = PhaseStart {
                target: TargetId::Subject,
                end: self.counted_from.min(end),
                experiment: None,
                connections: plan.connections(),
                offered_rate: plan.pace.rate(),
                turns: 1,
                active: self.counted_from.min(end).since(self.start),
                is_observed: plan.reporting.is_observed,
            };
            let body = EventBody::PhaseStarted(warm_up);
            (self.sink)(Event::here(self.start, Phase::WarmUp, body));
        }
        for lane in &plan.lanes {
            let phase = PhaseStart {
                target: lane.target.id,
                end,
                experiment: lane.experiment,
                connections: lane.connections,
                offered_rate: plan.pace.rate(),
                turns,
                active,
                is_observed: plan.reporting.is_observed,
            };
            let body = EventBody::PhaseStarted(phase);
            (self.sink)(Event::here(self.counted_from, lane.phase, body));
        }
    }
}
