//! Queues in which probes waited only under load, and the places of these queues.
//!
//! The same probes are sent without load and under load, and the difference is queueing. The
//! kernel's timestamps and the phases of a request show where the queue is.

use core::time::Duration;

use crate::facts::{Facts, ProbeGroup, ProbeKey};
use crate::observed::event::{ProbeMethod, Stamp};
use crate::report::Remark;
use crate::stats::histogram::Distribution;

/// Minimum number of answers without load, and also under load, for a remark.
const LEAST_ANSWERS: u64 = 5;
/// Minimum rise of the median under load. It must also rise by the factor [`RISES_TO`]. Jitter and
/// a busy processor cause less. Times by the program's own clock include late wake-ups, which last
/// some milliseconds, so the rise must be larger.
const RISES_BY: Duration = Duration::from_millis(1);
const RISES_BY_OWN_CLOCK: Duration = Duration::from_millis(5);
const RISES_TO: f64 = 1.5;

/// Returns the remarks on rises, at most one for each kind of probe and place.
pub(super) fn remarks(facts: &Facts) -> Vec<Remark> {
    let generator = facts.loads.generator.as_ref();
    let is_limit = generator.is_some_and(|generator| generator.is_limit());
    let loaded = facts.probes.iter().filter(|(key, _)| key.is_loaded);
    loaded
        .flat_map(|(key, loaded)| {
            let idle = facts.probes.get(&ProbeKey {
                is_loaded: false,
                ..*key
            });
            let both = idle.map(|idle| Both { idle, loaded });
            let told = both.map(|both| [beyond(key, &both, is_limit), within(key, &both)]);
            told.into_iter().flatten().flatten()
        })
        .collect()
}

/// One kind of probe, without load and under load.
struct Both<'a> {
    idle: &'a ProbeGroup,
    loaded: &'a ProbeGroup,
}

impl Both<'_> {
    /// Returns the median of the durations that `of` selects, without load and under load; `None`
    /// if the load did not raise it.
    fn rise(
        &self,
        by: Duration,
        of: impl Fn(&ProbeGroup) -> &Distribution,
    ) -> Option<(Duration, Duration)> {
        let (idle, loaded) = (of(self.idle), of(self.loaded));
        if idle.count().min(loaded.count()) < LEAST_ANSWERS {
            return None;
        }
        let (before, after) = (idle.quantile(0.5)?, loaded.quantile(0.5)?);
        let is_rise = after >= before + by
            && after >= before.mul_f64(RISES_TO)
            && after > idle.quantile(0.9)?;
        is_rise.then_some((before, after))
    }
}

/// Returns the remark on queues beyond this host.
fn beyond(key: &ProbeKey, both: &Both<'_>, is_limit: bool) -> Option<Remark> {
    let by = match both.idle.stamp.max(both.loaded.stamp) {
        Some(Stamp::Kernel) => RISES_BY,
        // This host's processors were busy: it may itself have delayed what its own clock shows.
        _ if is_limit => return None,
        _ => RISES_BY_OWN_CLOCK,
    };
    let whole = both.rise(by, |group| &group.rtt);
    let phase = |at: usize| both.rise(by, move |group| &group.phases[at]);
    // The indices follow the order of `ProbePhases::NAMES`.
    let (connect, handshake, first_byte) = (phase(1), phase(2), phase(4));
    let place = match (connect, handshake, first_byte) {
        (Some(rise), ..) => format!(
            "even connections {}: the queue is on the path, or in the target before it accepts \
             connections",
            took(rise)
        ),
        (None, Some(rise), None) => format!(
            "connecting is as fast as before, but TLS handshakes {}: they wait in the target's \
             program, for processors or workers",
            took(rise)
        ),
        (None, _, Some(rise)) => format!(
            "connecting is as fast as before, but the first byte of an answer {}: requests wait in \
             the target's program, for a worker, a lock or its backend",
            took(rise)
        ),
        (None, None, None) => {
            let rise = took(whole?);
            match key.method {
                ProbeMethod::HttpFresh | ProbeMethod::HttpKeptAlive => {
                    format!("whole answers {rise}: their sender, or the path back, cannot keep up")
                }
                _ => format!(
                    "round trips {rise} without this host's own queue: packets wait on the path, \
                     or in the target's devices and kernel, before any program"
                ),
            }
        }
    };
    Some(remark("probe-queueing", key, &place))
}

/// Returns the remark on a queue of this host's own device. The kernel's timestamps show it.
fn within(key: &ProbeKey, both: &Both<'_>) -> Option<Remark> {
    let rise = both.rise(RISES_BY, |group| &group.queued)?;
    let place = format!(
        "probes waited in the queue of this host's own device for {}: the load fills that queue, \
         and causes a part of its own latency there",
        from_to(rise)
    );
    Some(remark("probe-queueing-own", key, &place))
}

fn took(rise: (Duration, Duration)) -> String {
    format!("take {}", from_to(rise))
}

fn from_to((before, after): (Duration, Duration)) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!("{:.2} ms instead of {:.2} ms", ms(after), ms(before))
}

fn remark(id: &str, key: &ProbeKey, text: &str) -> Remark {
    Remark {
        id: id.to_owned(),
        text: format!("Under load, {}: {text} (medians).", key.target_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::{
        Coming, Event, EventBody, Phase, PhaseStart, ProbeAnswer, ProbePhases, ProbeSample,
        TargetId,
    };
    use crate::observed::time::Timestamp;

    fn ms(millis: f64) -> Duration {
        Duration::from_secs_f64(millis / 1e3)
    }

    /// The times of a probe in ms: the whole, in this host's queue, until connected, and until the
    /// first byte.
    type Took = (f64, f64, f64, f64);

    fn said(method: ProbeMethod, idle: &[Took], loaded: &[Took]) -> Vec<String> {
        let mut facts = Facts::default();
        let start = PhaseStart {
            target: TargetId::Subject,
            end: Timestamp::from_parts(100, 0),
            experiment: None,
            connections: 10,
            offered_rate: None,
            turns: 1,
            active: Duration::from_secs(50),
            is_observed: false,
        };
        let begin = Timestamp::from_parts(50, 0);
        let body = EventBody::PhaseStarted(start);
        facts.observe(Event::here(begin, Phase::Baseline, body));
        let is_http = method == ProbeMethod::HttpFresh;
        for (at, all) in [(10, idle), (60, loaded)] {
            for &(whole, queued, connect, first_byte) in all {
                let phases = ProbePhases {
                    connect: Some(ms(connect)),
                    first_byte: Some(ms(first_byte)),
                    ..ProbePhases::default()
                };
                let sample = ProbeSample {
                    target: TargetId::Subject,
                    endpoint: core::net::SocketAddr::from(([192, 0, 2, 7], 80)).into(),
                    method,
                    answer: ProbeAnswer::Open,
                    rtt: Some(ms(whole)),
                    stamp: if is_http { Stamp::User } else { Stamp::Kernel },
                    ttl: None,
                    syn_retransmissions: 0,
                    number: 0,
                    coming: Coming::InTime,
                    noticed: None,
                    queued: Some(ms(queued)),
                    step: None,
                    headers: 0,
                    reply: None,
                    phases: is_http.then(|| Box::new(phases)),
                };
                let body = EventBody::Probe(sample);
                facts.observe(Event::here(
                    Timestamp::from_parts(at, 0),
                    Phase::Baseline,
                    body,
                ));
            }
        }
        remarks(&facts)
            .into_iter()
            .map(|r| format!("{} {}", r.id, r.text))
            .collect()
    }

    #[test]
    fn a_queue_is_placed_by_what_rose() {
        let idle = [(1.0, 0.1, 0.5, 0.9); 6];
        let syn = ProbeMethod::TcpSyn;
        let http = ProbeMethod::HttpFresh;
        for (method, loaded, words) in [
            (
                syn,
                (9.0, 0.1, 0.0, 0.0),
                &["probe-queueing ", "on the path"][..],
            ),
            (
                syn,
                (1.0, 8.0, 0.0, 0.0),
                &["probe-queueing-own", "this host's own device"],
            ),
            (
                http,
                (40.0, 0.1, 0.6, 39.0),
                &["probe-queueing ", "in the target's program", "39.0"],
            ),
            (
                http,
                (40.0, 0.1, 30.0, 9.0),
                &["probe-queueing ", "even connections"],
            ),
            (
                http,
                (40.0, 0.1, 0.6, 1.0),
                &["probe-queueing ", "whole answers"],
            ),
        ] {
            let said = said(method, &idle, &[loaded; 6]);
            assert_eq!(said.len(), 1, "{said:?}");
            for word in words {
                assert!(said[0].contains(word), "{word}: {said:?}");
            }
        }
    }

    #[test]
    fn what_did_not_rise_or_may_be_chance_is_not_said() {
        let none: [&str; 0] = [];
        let (syn, http) = (ProbeMethod::TcpSyn, ProbeMethod::HttpFresh);
        let idle = (20.0, 0.1, 0.5, 19.9);
        for (method, idle, loaded) in [
            (syn, vec![idle; 6], vec![idle; 6]),
            // The rise is too small, in time or as a ratio.
            (
                syn,
                vec![(0.1, 0.0, 0.0, 0.0); 6],
                vec![(0.9, 0.5, 0.0, 0.0); 6],
            ),
            (syn, vec![idle; 6], vec![(28.0, 0.1, 0.5, 0.0); 6]),
            (
                http,
                vec![(1.0, 0.0, 0.2, 0.8); 6],
                vec![(5.0, 0.0, 3.2, 3.8); 6],
            ),
            // There are too few answers, or the idle times have the same tail.
            (syn, vec![idle; 4], vec![(90.0, 9.0, 0.5, 0.0); 6]),
            (
                syn,
                [vec![idle; 4], vec![(99.0, 0.1, 0.0, 0.0); 2]].concat(),
                vec![(90.0, 0.1, 0.5, 0.0); 6],
            ),
        ] {
            assert_eq!(said(method, &idle, &loaded), none, "{idle:?} {loaded:?}");
        }
        assert_eq!(said(syn, &[], &[(90.0, 9.0, 0.5, 0.0); 6]), none);
    }
}
