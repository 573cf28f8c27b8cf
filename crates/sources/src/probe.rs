//! Round trips to a target: by SYN, `connect`, ICMP echo, UDP, or a request.
//!
//! In: an address and port, how often and how patiently. Out: a `Probe` event
//! for each probe, and notes that are needed to read them. Refusal, an ICMP
//! error and silence are told apart; none of them is an `Err`.

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

pub use http::{Ask, RequestPlan, http, request};
pub use steady::{
    LEAST_INTERVAL, PacketPlan, Sizes, SourcePorts, SteadyMethod, SteadyPlan, Turn, steady,
};

/// Most probes of one series.
const MAX_COUNT: u32 = 100_000;
/// The fewest probes of a series that has used up its patience: one on a new connection and one
/// on that same connection.
const LEAST_COUNT: u32 = 2;
/// How often a stop flag is looked at.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// A series of probes.
#[derive(Clone, Copy, Debug)]
pub struct ProbePlan {
    /// Which target it is.
    pub target: TargetId,
    /// The address and port to probe.
    pub address: SocketAddr,
    /// How many probes, at most 100,000.
    pub count: u32,
    /// From one probe's end to the next probe's start.
    pub interval: Duration,
    /// How long each may take. Three seconds let the kernel repeat a lost SYN
    /// twice (after about 1 and 2 s).
    pub timeout: Duration,
    /// Silent probes after which a target that never answered is given up.
    pub silences: u32,
    /// The time after which no further probe begins, except for the first two: a limit on how
    /// long a slow target is asked.
    pub patience: Duration,
}

impl ProbePlan {
    /// Ten probes in half a second; a silent target is known after three seconds.
    pub fn new(target: TargetId, address: SocketAddr) -> Self {
        Self {
            target,
            address,
            count: 10,
            interval: Duration::from_millis(50),
            timeout: Duration::from_secs(3),
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

/// Why a series could not be made: on our own side.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A privilege is missing.
    #[error("{operation} needs {needs}")]
    NotPermitted {
        /// What was tried.
        operation: &'static str,
        /// The capability that allows it.
        needs: &'static str,
    },
    /// The kernel refused something else.
    #[error("{operation} for probes of {address} failed")]
    Socket {
        /// What was tried.
        operation: &'static str,
        /// The probed address.
        address: SocketAddr,
        /// The kernel's word.
        source: io::Error,
    },
}

/// Sends a SYN as often as `plan` says, each from a port of its own.
///
/// # Errors
/// [`ProbeError::NotPermitted`] without `CAP_NET_RAW`.
pub fn syn(
    plan: &ProbePlan,
    stop: &AtomicBool,
    sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    in_turn(plan, SteadyMethod::Syn, stop, sink)
}

/// Connects as `plan` says, each time from another port, and closes at once.
pub fn connect(
    plan: &ProbePlan,
    stop: &AtomicBool,
    sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    in_turn(plan, SteadyMethod::Connect, stop, sink)
}

/// One probe after the other.
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

/// One probe's sample, and when its answer came or was given up.
type Probed = (ProbeSample, Timestamp);

/// Runs `probe` as often and as patiently as `plan` says. Ends early when the
/// target stays silent, when it cannot be reached, and when `stop` is set.
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
        // A probe that the stop flag cut short says nothing of the target.
        if stop.load(Ordering::Relaxed) && sample.answer == ProbeAnswer::Silence {
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

/// Whether more probes would only cost time.
fn is_hopeless(samples: &[ProbeSample], silences: u32) -> bool {
    !samples.iter().any(is_answered) && samples.len() >= silences.max(1) as usize
}

/// Whether the target itself answered.
fn is_answered(sample: &ProbeSample) -> bool {
    !matches!(
        sample.answer,
        ProbeAnswer::Silence | ProbeAnswer::TlsTimeout | ProbeAnswer::Unreachable(..)
    )
}

/// Sleeps, but not on after `stop` is set.
fn pause(length: Duration, stop: &AtomicBool) {
    let mut left = length;
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        let step = left.min(STOP_INTERVAL);
        std::thread::sleep(step);
        left -= step;
    }
}

/// A remark that belongs to the probes.
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
