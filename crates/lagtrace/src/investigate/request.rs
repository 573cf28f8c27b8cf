//! One request on a fresh connection, several on it kept alive.

use std::time::Duration;

use lagtrace_core::event::{EventBody, ProbeAnswer, ProbeMethod, ProbeSample};
use lagtrace_core::histogram::Distribution;
use lagtrace_sources::probe::{self, ProbePlan};

use super::Investigation;
use super::round_trip::answer;
use crate::failure::Result;
use crate::words;

/// The step's name.
const STEP: &str = "request";
/// One fresh request and some more.
const COUNT: u32 = 8;

impl Investigation<'_> {
    /// Asks each target, one request at a time, without pauses: pauses can
    /// hide what ails kept-alive connections.
    pub(super) fn request(&mut self) -> Result<()> {
        for index in 0..self.sites.len() {
            let site = &self.sites[index];
            if !site.is_open {
                continue;
            }
            let target = site.target.clone();
            let plan = ProbePlan {
                count: COUNT,
                interval: Duration::ZERO,
                timeout: self.options.load.timeout,
                ..ProbePlan::new(target.id, target.address)
            };
            let bar = self.console.spinner(STEP);
            let mut events = Vec::new();
            let stop = self.interrupt.flag();
            let samples = probe::http(&plan, &target.url, stop, |event| events.push(event));
            bar.finish_and_clear();
            for event in &events {
                if let EventBody::Note(note) = &event.body {
                    self.console.outcome(STEP, &note.text);
                }
            }
            self.feed.observe_idle(events);
            match samples {
                Ok(samples) => self.say(STEP, target.id, &describe(&samples)),
                Err(error) => self.probe_failed("single requests", error),
            }
        }
        Ok(())
    }
}

fn describe(samples: &[ProbeSample]) -> String {
    let mut parts = Vec::new();
    for (method, name) in [
        (ProbeMethod::HttpFresh, "fresh"),
        (ProbeMethod::HttpKeptAlive, "kept alive"),
    ] {
        let mut times = Distribution::default();
        let of_method = samples.iter().filter(|sample| sample.method == method);
        let answered = of_method.filter(|s| matches!(s.answer, ProbeAnswer::Status(_)));
        answered
            .filter_map(|sample| sample.rtt)
            .for_each(|rtt| times.record(rtt));
        if let Some(median) = times.quantile(0.5) {
            let count = match times.count() {
                1 => String::new(),
                count => format!(" (median of {count})"),
            };
            parts.push(format!("{} {name}{count}", words::time(median)));
        }
    }
    let bad = samples
        .iter()
        .find(|s| !matches!(s.answer, ProbeAnswer::Status(200..=299)));
    parts.extend(bad.map(|sample| answer(sample.answer)));
    parts.join(", ")
}
