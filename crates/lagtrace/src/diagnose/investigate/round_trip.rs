//! Round-trip times to the target without ICMP: by `connect` and by SYN.

use std::time::Duration;

use lagtrace_core::observed::event::{Event, Note, ProbeAnswer, ProbeSample, Stamp};
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::probe::{self, ProbeError, ProbePlan};

use super::Investigation;
use crate::failure::{Failure, Result};
use crate::words;

/// The step's name.
const STEP: &str = "round trip";

/// The number of probes of each kind.
const COUNT: u32 = 8;
/// The time from one probe to the next.
const INTERVAL: Duration = Duration::from_millis(10);

impl Investigation<'_> {
    /// Probes each target, which also shows whether it can be reached.
    pub(super) fn round_trip(&mut self) -> Result<()> {
        for index in 0..self.sites.len() {
            let target = &self.sites[index].target;
            let id = target.id;
            let plan = ProbePlan {
                count: COUNT,
                interval: INTERVAL,
                ..ProbePlan::new(id, target.address)
            };
            let bar = self.console.spinner(STEP);
            let mut events = Vec::new();
            let samples = probe::connect(&plan, self.interrupt.flag(), |event| events.push(event));
            bar.finish_and_clear();
            self.feed.observe_idle(events);
            match samples {
                Ok(samples) => {
                    self.sites[index].is_open = is_open(&samples);
                    self.say(STEP, id, &describe(&samples, "connect"));
                }
                Err(error) => self.probe_failed("round trips by connect", error),
            }
            if self.sites[index].is_open && !self.interrupt.is_requested() {
                self.syn(index, &plan);
            }
        }
        Ok(())
    }

    /// Probes with raw SYNs that are timestamped by the kernel, if raw sockets are permitted.
    fn syn(&mut self, index: usize, plan: &ProbePlan) {
        let mut events: Vec<Event> = Vec::new();
        let samples = probe::syn(plan, self.interrupt.flag(), |event| events.push(event));
        self.feed.observe_idle(events);
        match samples {
            Ok(samples) => {
                let id = self.sites[index].target.id;
                self.say(STEP, id, &describe(&samples, "SYN"));
            }
            Err(error) => self.probe_failed("round trips by raw SYN with kernel timestamps", error),
        }
    }

    /// Records that a series was not possible, and how to permit it.
    pub(super) fn probe_failed(&mut self, unseen: &str, error: ProbeError) {
        let remedy = match &error {
            ProbeError::NotPermitted { needs, .. } => allow(needs),
            ProbeError::Socket { .. } => String::new(),
        };
        let text = format!("Not measured: {unseen}: {}.{remedy}", Failure::from(error));
        let id = "not-measured-probe".to_owned();
        self.not_measured(STEP, Note { id, text });
    }
}

/// Returns the command that gives this program a capability.
fn allow(capability: &str) -> String {
    let program =
        std::env::current_exe().map_or("lagtrace".into(), |path| path.display().to_string());
    let name = capability.to_lowercase();
    format!(" Allow it with `sudo setcap {name}+ep {program}`.")
}

fn is_open(samples: &[ProbeSample]) -> bool {
    samples
        .iter()
        .any(|sample| sample.answer == ProbeAnswer::Open)
}

/// Describes a series in one line.
pub(super) fn describe(samples: &[ProbeSample], by: &str) -> String {
    let mut times = Distribution::default();
    let answered = samples.iter().filter(|s| s.answer == ProbeAnswer::Open);
    answered
        .filter_map(|sample| sample.rtt)
        .for_each(|rtt| times.record(rtt));
    let of = samples.len();
    let (Some(min), Some(mean), Some(max)) = (times.min(), times.mean(), times.max()) else {
        return match samples.last() {
            Some(last) => format!("{} ({of} by {by})", answer(last.answer)),
            None => format!("no result by {by}"),
        };
    };
    let is_kernel = samples.iter().all(|sample| sample.stamp == Stamp::Kernel);
    let stamp = if is_kernel {
        ", timestamped by the kernel"
    } else {
        ""
    };
    format!(
        "{} by {by} (min {}, max {}, {} of {of}{stamp})",
        words::time(mean),
        words::time(min),
        words::time(max),
        times.count(),
    )
}

/// Describes the answer to a probe in words.
pub(super) fn answer(answer: ProbeAnswer) -> String {
    match answer {
        ProbeAnswer::Open => "open".to_owned(),
        ProbeAnswer::Refused => {
            "refused: no program listens there, or a firewall rejects it".to_owned()
        }
        ProbeAnswer::Unreachable(kind, code) => {
            format!("unreachable: ICMP type {kind} code {code}")
        }
        ProbeAnswer::Silence => "no answer".to_owned(),
        ProbeAnswer::Status(status) => format!("status {status}"),
        ProbeAnswer::Unfinished => "a response that was not complete in time".to_owned(),
        ProbeAnswer::Closed => "closed before a complete response".to_owned(),
        ProbeAnswer::NotHttp => "an answer that is not HTTP".to_owned(),
        ProbeAnswer::Grpc(_) => answer.name(),
        ProbeAnswer::Secured => "a TLS handshake".to_owned(),
        ProbeAnswer::TlsFailed => "no TLS connection".to_owned(),
        ProbeAnswer::NotTrusted => "a certificate that was rejected".to_owned(),
        ProbeAnswer::NotTls => "an answer that is not TLS".to_owned(),
        ProbeAnswer::TlsTimeout => "no complete TLS handshake in time".to_owned(),
        ProbeAnswer::Echo => "an echo".to_owned(),
        ProbeAnswer::Datagram => "a datagram".to_owned(),
    }
}
