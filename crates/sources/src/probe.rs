//! Round-trip probes of a target by SYN, `connect`, ICMP echo, UDP or HTTP request.
//!
//! Input: an address and port, the number of probes and time limits. Output: a `Probe` event for
//! each probe, and notes that explain the probes. A refusal, an ICMP error and silence are three
//! different answers, not errors.

mod connect;
mod http;
mod steady;
pub(crate) mod tcp_info;
mod unreachable;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{
    Coming, Event, EventBody, Note, Phase, ProbeAnswer, ProbeMethod, ProbeSample, Stamp, TargetId,
};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::Timestamp;

pub use http::{Answers, Ask, Asked, RequestPlan, http, request};
pub use steady::{
    LEAST_INTERVAL, PacketPlan, Sizes, SourcePorts, SteadyMethod, SteadyPlan, Turn, steady,
};

/// Maximum number of probes in one series.
const MAX_COUNT: u32 = 100_000;
/// Number of probes that are sent even after the time limit of the series: one on a new connection,
/// and one that reuses it.
const LEAST_COUNT: u32 = 2;
/// Interval between checks of a stop flag.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Time after which a target counts as silent, unless a plan says otherwise. If a host is down, this
/// host or the last router asks three times for its hardware address, a second apart, and reports
/// only then, after 3.1 s, that it is unreachable (`mcast_solicit` and `retrans_time_ms`,
/// `net/core/neighbour.c`). In this time, the kernel also repeats a SYN once or twice.
const SILENCE: Duration = Duration::from_millis(3_500);

/// A series of probes.
#[derive(Clone, Copy, Debug)]
pub struct ProbePlan {
    /// Role of the target: the server under investigation or its twin.
    pub target: TargetId,
    /// The address and port to probe.
    pub address: SocketAddr,
    /// Number of probes, at most 100,000.
    pub count: u32,
    /// Time from the end of one probe to the start of the next.
    pub interval: Duration,
    /// Timeout of each probe.
    pub timeout: Duration,
    /// Number of unanswered probes after which the series ends, if the target has never answered.
    pub silences: u32,
    /// Time after which no further probe begins. The first two probes are always sent. This limits
    /// the time spent on a slow target.
    pub patience: Duration,
}

impl ProbePlan {
    /// Creates a plan of ten probes within half a second. If the target does not answer, the series
    /// ends after 3.5 seconds.
    pub fn new(target: TargetId, address: SocketAddr) -> Self {
        Self {
            target,
            address,
            count: 10,
            interval: Duration::from_millis(50),
            timeout: SILENCE,
            silences: 1,
            patience: Duration::MAX,
        }
    }

    fn sample(&self, method: ProbeMethod, answer: ProbeAnswer) -> ProbeSample {
        ProbeSample {
            target: self.target,
            endpoint: Endpoint::from(self.address),
            method,
            answer,
            rtt: None,
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
    }
}

/// A reason on this host why a series could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A capability is missing.
    #[error("{operation} needs {needs}")]
    NotPermitted {
        /// The attempted operation.
        operation: &'static str,
        /// The capability that allows the operation.
        needs: &'static str,
    },
    /// The kernel rejected the operation for another reason.
    #[error("{operation} for probes of {address} failed")]
    Socket {
        /// The attempted operation.
        operation: &'static str,
        /// The probed address.
        address: SocketAddr,
        /// The error from the kernel.
        source: io::Error,
    },
}

/// Sends SYN probes according to `plan`, each from a different port.
///
/// # Errors
/// Returns [`ProbeError::NotPermitted`] if `CAP_NET_RAW` is missing.
pub fn syn(
    plan: &ProbePlan,
    stop: &AtomicBool,
    sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    in_turn(plan, SteadyMethod::Syn, stop, sink)
}

/// Calls `connect` for each probe of `plan`, each time from a different port. The connections are
/// closed immediately.
pub fn connect(
    plan: &ProbePlan,
    stop: &AtomicBool,
    sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    in_turn(plan, SteadyMethod::Connect, stop, sink)
}

/// Runs the probes one after another.
fn in_turn(
    plan: &ProbePlan,
    method: SteadyMethod,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    let plan = SteadyPlan {
        target: plan.target,
        address: plan.address,
        method,
        count: Some(plan.count.min(MAX_COUNT)),
        turn: Turn::AfterTheAnswer {
            silences: plan.silences,
        },
        interval: plan.interval,
        timeout: plan.timeout,
        ports: SourcePorts::Fresh,
        packet: PacketPlan::default(),
    };
    let mut samples = Vec::new();
    steady(&plan, stop, |event| {
        if let EventBody::Probe(sample) = &event.body
            && sample.coming == Coming::InTime
        {
            samples.push(sample.clone());
        }
        sink(event);
    })?;
    Ok(samples)
}

/// A probe's sample, with the time at which its answer arrived or the wait ended.
type Probed = (ProbeSample, Timestamp);

/// Runs `probe` with the number, interval and time limits of `plan`. The series ends early if the
/// target does not answer or cannot be reached, or if `stop` is set.
fn series(
    plan: &ProbePlan,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(Event),
    mut probe: impl FnMut() -> Result<Probed, ProbeError>,
) -> Result<Vec<ProbeSample>, ProbeError> {
    let mut samples = Vec::new();
    let begun = Instant::now();
    for number in 0..plan.count.min(MAX_COUNT) {
        if number >= LEAST_COUNT && begun.elapsed() >= plan.patience {
            break;
        }
        if number > 0 {
            pause(plan.interval, stop);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (mut sample, at) = probe()?;
        sample.number = number;
        // If the stop flag ended the wait, the silence says nothing about the target.
        if stop.load(Ordering::Relaxed) && is_cut(sample.answer) {
            break;
        }
        sink(Event::here(
            at,
            Phase::Baseline,
            EventBody::Probe(sample.clone()),
        ));
        samples.push(sample);
        if is_hopeless(&samples, plan.silences) {
            break;
        }
    }
    Ok(samples)
}

/// Returns true if the end of the time allowed ended the probe.
fn is_cut(answer: ProbeAnswer) -> bool {
    matches!(answer, ProbeAnswer::Silence | ProbeAnswer::Unfinished)
}

/// Returns true if further probes are useless.
fn is_hopeless(samples: &[ProbeSample], silences: u32) -> bool {
    !samples.iter().any(is_answered) && samples.len() >= silences.max(1) as usize
}

/// Returns true if the target itself answered in time.
fn is_answered(sample: &ProbeSample) -> bool {
    !matches!(
        sample.answer,
        ProbeAnswer::Silence
            | ProbeAnswer::Unfinished
            | ProbeAnswer::TlsTimeout
            | ProbeAnswer::Unreachable(..)
    )
}

/// Sleeps for `length`, or until `stop` is set.
fn pause(length: Duration, stop: &AtomicBool) {
    let mut left = length;
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        let step = left.min(STOP_INTERVAL);
        std::thread::sleep(step);
        left -= step;
    }
}

/// Returns a note about the probes.
fn note(at: Timestamp, id: &str, text: String) -> Event {
    let id = id.to_owned();
    Event::here(at, Phase::Baseline, EventBody::Note(Note { id, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(answer: ProbeAnswer) -> ProbeSample {
        let plan = ProbePlan::new(TargetId::Subject, ([127, 0, 0, 1], 1).into());
        plan.sample(ProbeMethod::TcpConnect, answer)
    }

    #[test]
    fn a_series_ends_when_nothing_answers_and_goes_on_when_something_did() {
        let plan = ProbePlan {
            interval: Duration::ZERO,
            silences: 2,
            ..ProbePlan::new(TargetId::Subject, ([127, 0, 0, 1], 1).into())
        };
        for (answers, want) in [
            (&[ProbeAnswer::Silence][..], 2),
            (&[ProbeAnswer::Unreachable(3, 1)], 2),
            (&[ProbeAnswer::Refused], 10),
            (&[ProbeAnswer::Open, ProbeAnswer::Silence], 10),
            (&[ProbeAnswer::Silence, ProbeAnswer::Open], 10),
        ] {
            let mut answers = answers.iter().cycle();
            let stop = AtomicBool::new(false);
            let samples = series(&plan, &stop, &mut |_| {}, || {
                let answer = *answers.next().expect("endless");
                Ok((sample(answer), Timestamp::default()))
            });
            assert_eq!(samples.expect("no error").len(), want);
        }
    }

    #[test]
    fn a_stop_ends_a_series_without_a_false_silence() {
        let plan = ProbePlan::new(TargetId::Subject, ([127, 0, 0, 1], 1).into());
        let stop = AtomicBool::new(false);
        let samples = series(&plan, &stop, &mut |_| panic!("no event"), || {
            stop.store(true, Ordering::Relaxed);
            Ok((sample(ProbeAnswer::Silence), Timestamp::default()))
        });
        assert_eq!(samples.expect("no error"), []);
    }
}
