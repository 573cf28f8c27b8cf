//! Answers to probes, and the samples created from them.

use core::time::Duration;

use lagtrace_core::observed::event::{
    Coming, ProbeAnswer, ProbeMethod, ProbeReply, ProbeSample, Stamp,
};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::Timestamp;

use super::pending::{Pending, State};
use super::{SteadyMethod, SteadyPlan};
use crate::stamped::queue::{Icmp, Stage};

/// A message from a probe method.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    /// A probe reached a stage of its transmission.
    Sent {
        number: u32,
        stage: Stage,
        at: Timestamp,
    },
    /// A probe was answered.
    Answered(Answered),
}

/// An answer to a probe.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) number: u32,
    pub(super) answer: ProbeAnswer,
    /// Time of arrival, from the kernel.
    pub(super) at: Option<Timestamp>,
    /// Round-trip time; `None` unless the kernel measured it.
    pub(super) rtt: Option<Duration>,
    pub(super) ttl: Option<u8>,
    pub(super) syn_retransmissions: u8,
    pub(super) reply: Option<Box<ProbeReply>>,
}

impl Heard {
    /// Creates the answer for an ICMP error about a probe. `source_port` is the probe's port; 0 if
    /// the method has no ports.
    pub(super) fn icmp(number: u32, icmp: &Icmp, source_port: u16) -> Self {
        let reply = |from| {
            Box::new(ProbeReply {
                from,
                source_port,
                len: None,
                id: None,
                dont_fragment: None,
                segment: None,
            })
        };
        Self::Answered(Answered {
            number,
            answer: ProbeAnswer::Unreachable(icmp.kind, icmp.code),
            at: icmp.at,
            rtt: None,
            ttl: None,
            syn_retransmissions: 0,
            reply: icmp.from.map(reply),
        })
    }
}

impl Answered {
    /// Returns the round-trip time from the kernel's timestamps or, without these, from the
    /// kernel's own measurement.
    pub(super) fn stamped(&self, pending: &Pending) -> Option<Duration> {
        match (pending.sent, self.at) {
            (Some(sent), Some(at)) if at >= sent => Some(at.since(sent)),
            _ => self.rtt,
        }
    }

    /// Returns the sample of an answer that was read at `now`. `before` is the previous state of
    /// the probe.
    pub(super) fn sample(
        self,
        plan: &SteadyPlan,
        pending: &Pending,
        before: State,
        now: Timestamp,
    ) -> ProbeSample {
        let own = now.since(pending.begun);
        let stamped = self.stamped(pending);
        let queued = pending.sent.zip(pending.queued);
        ProbeSample {
            answer: self.answer,
            rtt: (self.answer != ProbeAnswer::Silence).then_some(stamped.unwrap_or(own)),
            stamp: match stamped {
                Some(_) => Stamp::Kernel,
                None => Stamp::User,
            },
            ttl: self.ttl,
            syn_retransmissions: self.syn_retransmissions,
            coming: match before {
                State::Awaited => Coming::InTime,
                State::GivenUp => Coming::Late,
                State::Answered => Coming::Again,
            },
            noticed: stamped.map(|_| own),
            queued: queued.map(|(sent, queued)| sent.since(queued)),
            reply: self.reply,
            ..silence(plan, self.number)
        }
    }
}

/// Returns the sample of an unanswered probe.
pub(super) fn silence(plan: &SteadyPlan, number: u32) -> ProbeSample {
    ProbeSample {
        target: plan.target,
        endpoint: Endpoint::from(plan.address),
        method: match plan.method {
            SteadyMethod::Syn if plan.packet.flags.is_empty() => ProbeMethod::TcpSyn,
            SteadyMethod::Syn => ProbeMethod::TcpFlags,
            SteadyMethod::Connect => ProbeMethod::TcpConnect,
            SteadyMethod::Icmp => ProbeMethod::Icmp,
            SteadyMethod::Udp => ProbeMethod::Udp,
        },
        answer: ProbeAnswer::Silence,
        rtt: None,
        stamp: Stamp::User,
        ttl: None,
        syn_retransmissions: 0,
        number,
        coming: Coming::InTime,
        noticed: None,
        queued: None,
        step: plan.step(number),
        headers: plan.headers(number),
        reply: None,
        phases: None,
    }
}
