//! Single requests: one on a new connection, and several more on the same connection.

use std::time::Duration;

use lagtrace_core::observed::event::{EventBody, ProbeAnswer, ProbeMethod, ProbeSample};
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::probe::{self, ProbePlan};
use lagtrace_sources::tls::TlsPeer;
use lagtrace_sources::url::Url;

use super::Investigation;
use super::round_trip::answer;
use crate::failure::Result;
use crate::words;

/// The step's name.
const STEP: &str = "request";
/// The number of requests: the one on a new connection and the following ones.
const COUNT: u32 = 8;
/// Maximum time for which further requests are sent to a slow service.
const PATIENCE: Duration = Duration::from_millis(800);

impl Investigation<'_> {
    /// Sends requests to each target, one at a time and without pauses, because pauses can hide
    /// problems of persistent connections.
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
                patience: PATIENCE,
                ..ProbePlan::new(target.id, target.address)
            };
            let bar = self.console.spinner(STEP);
            let mut events = Vec::new();
            let stop = self.interrupt.flag();
            let peer = self.peer(&target.url)?;
            let keep = |event| events.push(event);
            let samples = probe::http(&plan, &target.url, peer.as_ref(), stop, keep);
            bar.finish_and_clear();
            for event in &events {
                if let EventBody::Note(note) = &event.body {
                    self.console.outcome(STEP, &note.text);
                }
            }
            self.feed.observe_idle(events);
            match samples {
                Ok(samples) => {
                    self.say(STEP, target.id, &describe(&samples));
                    // If all TLS handshakes fail, every request of a load would fail as well.
                    let is_failed = |s: &ProbeSample| s.answer.is_tls_failure();
                    self.sites[index].is_open = !samples.iter().all(is_failed);
                }
                Err(error) => self.probe_failed("single requests", error),
            }
        }
        Ok(())
    }
}

impl Investigation<'_> {
    /// Returns the TLS peer of the URL, if the URL requires TLS.
    fn peer(&self, url: &Url) -> Result<Option<TlsPeer>> {
        let client = self.tls.as_ref().filter(|_| url.is_tls());
        let peer = client.map(|client| client.to(url.host()));
        Ok(peer.transpose()?)
    }
}

fn describe(samples: &[ProbeSample]) -> String {
    let mut parts = Vec::new();
    for (method, name) in [
        (ProbeMethod::TlsFull, "TLS handshake"),
        (ProbeMethod::TlsResumed, "resumed"),
        (ProbeMethod::HttpFresh, "fresh"),
        (ProbeMethod::HttpKeptAlive, "kept alive"),
    ] {
        let mut times = Distribution::default();
        let of_method = samples.iter().filter(|sample| sample.method == method);
        let is_answered =
            |s: &&ProbeSample| matches!(s.answer, ProbeAnswer::Status(_) | ProbeAnswer::Secured);
        let answered = of_method.filter(is_answered);
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
    let bad = samples.iter().find(|s| {
        !matches!(
            s.answer,
            ProbeAnswer::Status(200..=299) | ProbeAnswer::Secured
        )
    });
    parts.extend(bad.map(|sample| answer(sample.answer)));
    parts.join(", ")
}
