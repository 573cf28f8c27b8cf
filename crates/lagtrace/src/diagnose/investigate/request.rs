//! Single requests: one on a new connection, and several more on the same connection.

use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{
    Event, EventBody, ProbeAnswer, ProbeMethod, ProbeSample, TargetId,
};
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::load::Target;
use lagtrace_sources::probe::{self, Answers, Asked, ProbeError, ProbePlan};
use lagtrace_sources::tls::TlsPeer;
use lagtrace_sources::url::Url;

use super::Investigation;
use super::round_trip::answer;
use crate::failure::Result;
use crate::request::help::{self, is_success};
use crate::words;

/// The step's name.
const STEP: &str = "request";
/// The number of requests: the one on a new connection and the following ones.
const COUNT: u32 = 8;
/// The number of requests, if each may change something.
const COUNT_UNSAFE: u32 = 4;
/// Maximum time for which further requests are sent to a slow service.
const MOST_ASKING: Duration = Duration::from_millis(800);
/// The service is not idle yet if the first request takes at least this many times as long as the
/// last, and at least this long.
const UNSETTLED: (u32, Duration) = (4, Duration::from_millis(100));
/// Time from which on the requests do not begin anew, however busy the service still is.
const SETTLES_FOR: Duration = Duration::from_secs(3);

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
                count: self.singles(),
                interval: Duration::ZERO,
                timeout: self.options.load.timeout,
                patience: MOST_ASKING,
                ..ProbePlan::new(target.id, target.address)
            };
            let (answers, events) = self.settled(&plan, &self.asked(&target)?);
            for event in &events {
                if let EventBody::Note(note) = &event.body {
                    self.console.outcome(STEP, &note.text);
                }
            }
            self.feed.observe_idle(events);
            match answers {
                Ok(Answers { samples, location }) => {
                    self.sent.all += samples.len() as u64;
                    if target.id == TargetId::Subject {
                        self.pace.idle = idle(&samples);
                    }
                    self.say(STEP, target.id, &describe(&samples));
                    self.help(&samples, location.as_deref());
                    // If all TLS handshakes fail, every request of a load would fail as well.
                    let is_failed = |s: &ProbeSample| s.answer.is_tls_failure();
                    let is_silent = self.is_local() && !samples.iter().any(is_answered);
                    self.sites[index].is_open = !samples.iter().all(is_failed) && !is_silent;
                }
                Err(error) => self.probe_failed("single requests", error),
            }
        }
        Ok(())
    }
}

/// The results of single requests, and their events.
type Single = (std::result::Result<Answers, ProbeError>, Vec<Event>);

impl Investigation<'_> {
    /// Sends single requests. If the service is still busy, with requests of others that were given
    /// up or with its start, begins anew until it is not: its queue is not what a request takes.
    fn settled(&mut self, plan: &ProbePlan, asked: &Asked) -> Single {
        let bar = self.console.spinner(STEP);
        let mut plan = *plan;
        let begun = Instant::now();
        let mut tried = begun;
        loop {
            let mut events = Vec::new();
            let stop = self.interrupt.flag();
            let answers = probe::http(&plan, asked, stop, |event| events.push(event));
            let is_settled = answers
                .as_ref()
                .map_or(true, |answers| is_settled(&answers.samples));
            let is_last = begun.elapsed() >= SETTLES_FOR || self.interrupt.is_requested();
            // A request that may change something is not sent again.
            if is_settled || is_last || self.quota.is_some() {
                bar.finish_and_clear();
                let after = tried.duration_since(begun);
                if is_settled && !after.is_zero() {
                    self.tell_settled(after);
                }
                let unsettled = if is_settled { after } else { begun.elapsed() };
                self.pace.unsettled_for = self.pace.unsettled_for.max(unsettled);
                return (answers, events);
            }
            self.sent.all += answers.map_or(0, |answers| answers.samples.len() as u64);
            tried = Instant::now();
            let left = SETTLES_FOR.saturating_sub(begun.elapsed());
            plan.timeout = plan.timeout.min(left.max(UNSETTLED.1));
        }
    }

    /// Tells for how long the service was not idle.
    fn tell_settled(&mut self, after: Duration) {
        let text = format!(
            "For the first {}, single requests were not answered, or took much longer than later \
             ones, as with a service that is still busy with earlier requests or with its start. \
             The figures leave them out.",
            words::time(after)
        );
        self.note("settled-late", text);
    }

    /// Returns the number of single requests: few, if each may change something.
    fn singles(&mut self) -> u32 {
        let Some(left) = &mut self.quota else {
            return COUNT;
        };
        let count = COUNT_UNSAFE.min(u32::try_from(*left).unwrap_or(u32::MAX));
        *left -= u64::from(count);
        count.max(1)
    }

    /// Names the option that helps, if the answers are no success.
    fn help(&mut self, samples: &[ProbeSample], location: Option<&str>) {
        let statuses = samples.iter().filter_map(|sample| match sample.answer {
            ProbeAnswer::Status(status) => Some(status),
            _ => None,
        });
        let expected = &self.options.request.answer.expect_status;
        let odd = statuses
            .into_iter()
            .find(|status| !is_success(*status, expected));
        let Some(status) = odd else { return };
        if let Some(text) = help::with(status, location, &self.options.request) {
            self.console.outcome(STEP, &text);
            self.note("answer-is-no-success", text);
        }
    }

    /// Returns what a single request to a target asks for.
    pub(super) fn asked(&self, target: &Target) -> Result<Asked> {
        Ok(Asked {
            url: target.url.clone(),
            request: target.request.clone(),
            peer: self.peer(&target.url)?,
            is_http2: self.options.request.is_http2(),
            unix: self.options.request.way.unix_socket.clone(),
        })
    }

    /// Returns the TLS peer of the URL, if the URL requires TLS.
    fn peer(&self, url: &Url) -> Result<Option<TlsPeer>> {
        let client = self.tls.as_ref().filter(|_| url.is_tls());
        let peer = client.map(|client| client.to(url.host()));
        Ok(peer.transpose()?)
    }
}

/// Returns true if all requests were answered, the last about as late as the first.
fn is_settled(samples: &[ProbeSample]) -> bool {
    let is_request = |s: &&ProbeSample| {
        matches!(
            s.method,
            ProbeMethod::HttpFresh | ProbeMethod::HttpKeptAlive
        )
    };
    let requests: Vec<&ProbeSample> = samples.iter().filter(is_request).collect();
    let is_silent = |sample: &ProbeSample| {
        matches!(
            sample.answer,
            ProbeAnswer::Silence | ProbeAnswer::Unfinished
        )
    };
    if requests.iter().any(|sample| is_silent(sample)) {
        return false;
    }
    let times = requests.first().zip(requests.last());
    let times = times.and_then(|(first, last)| first.rtt.zip(last.rtt));
    times.is_none_or(|(first, last)| first < UNSETTLED.1.max(last * UNSETTLED.0))
}

pub(super) fn is_answered(sample: &ProbeSample) -> bool {
    matches!(sample.answer, ProbeAnswer::Status(_) | ProbeAnswer::Grpc(_))
}

/// Returns the median time of the requests after the first on a connection, or of all if there are
/// none.
fn idle(samples: &[ProbeSample]) -> Option<Duration> {
    let of = |method| {
        let mut times = Distribution::default();
        let answered = samples
            .iter()
            .filter(|s| s.method == method && is_answered(s));
        answered
            .filter_map(|s| s.rtt)
            .for_each(|rtt| times.record(rtt));
        times.quantile(0.5)
    };
    of(ProbeMethod::HttpKeptAlive).or_else(|| of(ProbeMethod::HttpFresh))
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use lagtrace_core::observed::event::{Coming, Stamp};
    use lagtrace_core::observed::flow::Endpoint;

    use super::*;

    /// Returns true if a service is idle that answers single requests in these times in
    /// milliseconds; `None` for one that is not answered.
    fn is_idle(times: &[Option<u64>]) -> bool {
        let sample = |(number, time): (usize, &Option<u64>)| {
            let method = match number {
                0 => ProbeMethod::HttpFresh,
                _ => ProbeMethod::HttpKeptAlive,
            };
            let answer = match time {
                Some(_) => ProbeAnswer::Status(200),
                None => ProbeAnswer::Silence,
            };
            ProbeSample {
                target: TargetId::Subject,
                endpoint: Endpoint::new(Ipv4Addr::LOCALHOST.into(), 80),
                method,
                answer,
                rtt: time.map(Duration::from_millis),
                stamp: Stamp::User,
                ttl: None,
                syn_retransmissions: 0,
                number: 0,
                coming: Coming::InTime,
                noticed: None,
                queued: None,
                step: None,
                headers: 0,
                reply: None,
                phases: None,
            }
        };
        is_settled(&times.iter().enumerate().map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn a_service_is_idle_when_requests_are_answered_as_late_as_later_ones() {
        assert!(is_idle(&[Some(900), Some(880)]), "always slow");
        assert!(is_idle(&[Some(60), Some(1)]), "a new connection costs more");
        assert!(is_idle(&[Some(1), Some(44)]), "the later ones are slow");
        assert!(!is_idle(&[Some(1_700), Some(30)]), "it has just started");
        assert!(!is_idle(&[None]));
        assert!(!is_idle(&[Some(30), None]));
    }
}
