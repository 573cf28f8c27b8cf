//! Probes at a steady pace, whether answers come or not: as `ping` and
//! `hping3` send them.
//!
//! In: an address, a method, how often, from which ports, with which header
//! fields. Out: a `Probe` event for each answer and for each probe that none
//! came to in time, and notes that are needed to read them. An answer that
//! comes later is told as late, one that comes again as such.

mod connect;
mod icmp;
mod ports;
mod syn;
mod udp;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use lagtrace_core::event::{
    Coming, Event, EventBody, Phase, ProbeAnswer, ProbeMethod, ProbeReply, ProbeSample, Stamp,
    TargetId,
};
use lagtrace_core::flow::Endpoint;
use lagtrace_core::time::Timestamp;
use rustix::io::Errno;
use socket2::Socket;

use super::errors::unreachable_by;
use super::{ProbeError, STOP_INTERVAL, note, pause};
use crate::clock::Clock;
pub use ports::SourcePorts;

/// The least time between two probes: 10,000 a second are no flood.
pub const LEAST_INTERVAL: Duration = Duration::from_micros(100);
/// Probes whose answers can still be told apart; older ones are forgotten.
const MAX_PENDING: usize = 20_000;
/// How long the kernel is given to begin stamping.
const STAMPS_BEGIN: Duration = Duration::from_millis(10);

/// How probes ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyMethod {
    /// By a SYN from a raw socket: needs `CAP_NET_RAW`.
    Syn,
    /// By `connect`.
    Connect,
    /// By ICMP echo, from a datagram socket where the kernel lets this user
    /// (`net.ipv4.ping_group_range`), else from a raw one.
    Icmp,
    /// By UDP datagrams.
    Udp,
}

/// A steady series of probes.
#[derive(Clone, Debug)]
pub struct SteadyPlan {
    /// The address and port to probe; ICMP has no use for the port.
    pub address: SocketAddr,
    /// How to ask.
    pub method: SteadyMethod,
    /// How many probes; `None` until stopped.
    pub count: Option<u32>,
    /// From one probe to the next, whether it was answered or not; at least
    /// [`LEAST_INTERVAL`].
    pub interval: Duration,
    /// How long an answer may take. What comes later is late, not lost.
    pub timeout: Duration,
    /// The ports to send from.
    pub ports: SourcePorts,
    /// What their packets look like.
    pub packet: PacketPlan,
}

/// What the packets of probes look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketPlan {
    /// Time to live, or hop limit; `None` for the system's.
    pub ttl: Option<u8>,
    /// Type of service, or traffic class; `None` for zero.
    pub tos: Option<u8>,
    /// Payload bytes: behind a SYN, in a datagram, in an echo request.
    pub size: u16,
    /// The maximum segment size that a SYN offers; `None` for Ethernet's.
    pub mss: Option<u16>,
    /// The interface to send over; `None` for the kernel's choice.
    pub interface: Option<String>,
}

/// What a method hears.
#[derive(Clone, Debug)]
enum Heard {
    /// The probe of this number left at this instant.
    Sent { number: u32, at: Timestamp },
    /// The probe of this number was answered.
    Answered {
        number: u32,
        answer: ProbeAnswer,
        /// When, by the kernel.
        at: Option<Timestamp>,
        /// The round trip, where the kernel itself measured it.
        rtt: Option<Duration>,
        ttl: Option<u8>,
        syn_retransmissions: u8,
        reply: Option<Box<ProbeReply>>,
    },
}

impl Heard {
    /// An ICMP error about a probe from this port, 0 where there are none.
    fn icmp(
        number: u32,
        answer: ProbeAnswer,
        at: Option<Timestamp>,
        from: Option<IpAddr>,
        source_port: u16,
    ) -> Self {
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
        Self::Answered {
            number,
            answer,
            at,
            rtt: None,
            ttl: None,
            syn_retransmissions: 0,
            reply: from.map(reply),
        }
    }
}

/// A way to ask.
trait Asker {
    /// What its samples are called.
    fn method(&self) -> ProbeMethod;
    /// Sends the probe of this number, greater by one each time.
    fn ask(&mut self, number: u32) -> Result<(), Errno>;
    /// Waits until something may have come, at most so long.
    fn wait(&mut self, timeout: Duration) -> Result<(), Errno>;
    /// Hands out what came.
    fn hear(&mut self, heard: &mut Vec<Heard>);
    /// The probe of this number was given up, or is no longer of interest.
    fn forget(&mut self, number: u32);
}

/// Probes `plan.address` until all probes are sent and answered or given up,
/// or `stop` is set.
///
/// Round trips lie between the kernel's stamps of the probe at the device and
/// of its answer, for [`SteadyMethod::Connect`] they are the kernel's measure
/// of the handshake; where it has none they are this program's time, which errs
/// upward: [`ProbeSample::stamp`] says which.
///
/// # Errors
/// [`ProbeError::NotPermitted`] where the method needs a privilege that this
/// user lacks.
pub fn steady(
    plan: &SteadyPlan,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<(), ProbeError> {
    let clock = Clock::new();
    let mut asker: Box<dyn Asker + '_> = match plan.method {
        SteadyMethod::Syn => Box::new(syn::BySyn::new(plan)?),
        SteadyMethod::Connect => Box::new(connect::ByConnect::new(plan)),
        SteadyMethod::Icmp => Box::new(icmp::ByEcho::new(plan)?),
        SteadyMethod::Udp => Box::new(udp::ByDatagram::new(plan)?),
    };
    // The kernel begins to stamp arrivals on all interfaces a little after the
    // first socket asks for it.
    pause(STAMPS_BEGIN, stop);
    let mut series = Series {
        plan,
        clock,
        method: asker.method(),
        pending: VecDeque::new(),
        awaited: 0,
        opened: 0,
    };
    series.run(asker.as_mut(), stop, &mut sink)?;
    if series.opened > 0 && plan.method == SteadyMethod::Syn {
        sink(note(
            clock.now(),
            "probe-embryonic-resets",
            super::syn::resets_note(series.opened),
        ));
    }
    Ok(())
}

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u32,
    begun: Timestamp,
    sent: Option<Timestamp>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Awaited,
    GivenUp,
    Answered,
}

/// A series under way.
struct Series<'a> {
    plan: &'a SteadyPlan,
    clock: Clock,
    method: ProbeMethod,
    /// By number, the oldest first.
    pending: VecDeque<Pending>,
    /// How many of them are awaited.
    awaited: usize,
    /// SYN/ACKs that this host's kernel answered with RST.
    opened: usize,
}

impl Series<'_> {
    fn run(
        &mut self,
        asker: &mut dyn Asker,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), ProbeError> {
        let address = self.plan.address;
        let failed = |operation| {
            move |error: Errno| ProbeError::Socket {
                operation,
                address,
                source: error.into(),
            }
        };
        let interval = self.plan.interval.max(LEAST_INTERVAL);
        let mut next = self.clock.now();
        let mut number = 0;
        let mut heard = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let is_sending = self.plan.count.is_none_or(|count| number < count);
            if !is_sending && self.awaited == 0 {
                return Ok(());
            }
            let now = self.clock.now();
            if is_sending && now >= next {
                if let Some(answer) = self.ask(asker, number).map_err(failed("sending a probe"))? {
                    self.answered_by_kernel(number, answer, sink);
                }
                number = number.wrapping_add(1);
                // What was missed while this program did not run is not made up for.
                next = (next + interval).max(now);
                continue;
            }
            let until_next = if is_sending {
                next.since(now)
            } else {
                STOP_INTERVAL
            };
            let wait = until_next.min(self.until_timeout(now)).min(STOP_INTERVAL);
            asker.wait(wait).map_err(failed("waiting for answers"))?;
            asker.hear(&mut heard);
            for heard in heard.drain(..) {
                self.take(heard, sink);
            }
            self.give_up(asker, sink);
        }
        Ok(())
    }

    /// Sends a probe; what the kernel itself says of the target, if it does.
    fn ask(&mut self, asker: &mut dyn Asker, number: u32) -> Result<Option<ProbeAnswer>, Errno> {
        if self.pending.len() == MAX_PENDING {
            if let Some(oldest) = self.pending.pop_front() {
                self.awaited -= usize::from(oldest.state == State::Awaited);
                asker.forget(oldest.number);
            }
        }
        self.pending.push_back(Pending {
            number,
            begun: self.clock.now(),
            sent: None,
            state: State::Awaited,
        });
        self.awaited += 1;
        match asker.ask(number) {
            Ok(()) => Ok(None),
            Err(error) => unreachable_by(error, self.plan.address)
                .ok_or(error)
                .map(Some),
        }
    }

    fn until_timeout(&self, now: Timestamp) -> Duration {
        let mut awaited = self.pending.iter().filter(|p| p.state == State::Awaited);
        awaited.next().map_or(STOP_INTERVAL, |oldest| {
            (oldest.begun + self.plan.timeout).since(now)
        })
    }

    fn take(&mut self, heard: Heard, sink: &mut dyn FnMut(Event)) {
        let now = self.clock.now();
        match heard {
            Heard::Sent { number, at } => {
                if let Some(pending) = self.find(number) {
                    pending.sent = Some(at);
                }
            }
            Heard::Answered {
                number,
                answer,
                at,
                rtt,
                ttl,
                syn_retransmissions,
                reply,
            } => {
                let Some(pending) = self.find(number) else {
                    return;
                };
                let Pending {
                    begun, sent, state, ..
                } = *pending;
                pending.state = State::Answered;
                self.awaited -= usize::from(state == State::Awaited);
                self.opened += usize::from(answer == ProbeAnswer::Open);
                let own = now.since(begun);
                let stamped = match (sent, at) {
                    (Some(sent), Some(at)) if at >= sent => Some(at.since(sent)),
                    _ => rtt,
                };
                let sample = ProbeSample {
                    answer,
                    rtt: Some(stamped.unwrap_or(own)),
                    stamp: if stamped.is_some() {
                        Stamp::Kernel
                    } else {
                        Stamp::User
                    },
                    ttl,
                    syn_retransmissions,
                    coming: match state {
                        State::Awaited => Coming::InTime,
                        State::GivenUp => Coming::Late,
                        State::Answered => Coming::Again,
                    },
                    noticed: stamped.map(|_| own),
                    reply,
                    ..self.sample(number)
                };
                emit(at.unwrap_or(now), sample, sink);
            }
        }
    }

    /// The kernel knows no way, or was told so by an ICMP error before.
    fn answered_by_kernel(
        &mut self,
        number: u32,
        answer: ProbeAnswer,
        sink: &mut dyn FnMut(Event),
    ) {
        self.take(
            Heard::Answered {
                number,
                answer,
                at: None,
                rtt: None,
                ttl: None,
                syn_retransmissions: 0,
                reply: None,
            },
            sink,
        );
    }

    /// Gives up what took too long.
    fn give_up(&mut self, asker: &mut dyn Asker, sink: &mut dyn FnMut(Event)) {
        let now = self.clock.now();
        let timeout = self.plan.timeout;
        let mut silent = Vec::new();
        for pending in &mut self.pending {
            if now.since(pending.begun) < timeout {
                break;
            }
            if pending.state == State::Awaited {
                pending.state = State::GivenUp;
                silent.push(pending.number);
            }
        }
        self.awaited -= silent.len();
        for number in silent {
            asker.forget(number);
            emit(now, self.sample(number), sink);
        }
        // Answers that come this late or this often are of no interest.
        while self.pending.len() > 1
            && self.pending.front().is_some_and(|p| {
                p.state != State::Awaited && now.since(p.begun) > timeout * 4 + STOP_INTERVAL
            })
        {
            self.pending.pop_front();
        }
    }

    fn find(&mut self, number: u32) -> Option<&mut Pending> {
        let first = self.pending.front()?.number;
        self.pending.get_mut(number.checked_sub(first)? as usize)
    }

    /// A sample of silence.
    fn sample(&self, number: u32) -> ProbeSample {
        ProbeSample {
            target: TargetId::Subject,
            endpoint: Endpoint::from(self.plan.address),
            method: self.method,
            answer: ProbeAnswer::Silence,
            rtt: None,
            stamp: Stamp::User,
            ttl: None,
            syn_retransmissions: 0,
            number,
            coming: Coming::InTime,
            noticed: None,
            reply: None,
        }
    }
}

fn emit(at: Timestamp, sample: ProbeSample, sink: &mut dyn FnMut(Event)) {
    sink(Event::here(at, Phase::Baseline, EventBody::Probe(sample)));
}

/// Gives a socket what the plan says of its packets.
fn dress(socket: &Socket, address: SocketAddr, packet: &PacketPlan) -> std::io::Result<()> {
    if let Some(interface) = &packet.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    match (address.is_ipv4(), packet.ttl) {
        (true, Some(ttl)) => socket.set_ttl_v4(ttl.into())?,
        (false, Some(ttl)) => socket.set_unicast_hops_v6(ttl.into())?,
        (_, None) => {}
    }
    match (address.is_ipv4(), packet.tos) {
        (true, Some(tos)) => socket.set_tos_v4(tos.into())?,
        (false, Some(tos)) => socket.set_tclass_v6(tos.into())?,
        (_, None) => {}
    }
    Ok(())
}
