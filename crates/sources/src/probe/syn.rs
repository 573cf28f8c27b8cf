//! Probes by a SYN of our own, stamped by the kernel on its way out and in.
//!
//! Needs `CAP_NET_RAW`. The kernel chooses route and source address, so a
//! host's own address is probed over `lo` as every program would reach it.
//!
//! Nobody here listens on the port that a SYN comes from, so this host's kernel
//! answers the SYN/ACK with RST. That is as it should be: without the RST the
//! target would keep a half-open connection and repeat its SYN/ACK for a
//! minute. It counts each as `EmbryonicRsts`; a note says so.

pub(super) mod raw;
pub(super) mod segment;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use core::net::SocketAddr;
use core::time::Duration;

use lagtrace_core::event::{Event, ProbeAnswer, ProbeMethod, ProbeSample, Stamp};
use lagtrace_core::time::Timestamp;
use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::connect::wait_for;
use super::errors::{Queued, take_queued, unreachable_by};
use super::{ProbeError, ProbePlan, Probed, STOP_INTERVAL, note, pause, series};
use crate::clock::Clock;
use raw::RawSocket;
use segment::{REPLY_LEN, Reply, Syn};

/// How long the kernel is given to begin stamping.
const STAMPS_BEGIN: Duration = Duration::from_millis(10);
/// Probes of a series that are repeated because a stamp was missing.
const UNSTAMPED_TRIES: u32 = 3;
/// Replies of others that are passed over in one go.
const MAX_STRAYS: usize = 1_000;

/// Sends a SYN as often as `plan` says, each from a port of its own.
///
/// The round trip lies between the kernel's stamps of the SYN at the device
/// and of its answer; where one is missing it is this program's time.
///
/// # Errors
/// [`ProbeError::NotPermitted`] without `CAP_NET_RAW`.
pub fn syn(
    plan: &ProbePlan,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    let clock = Clock::new();
    let mut prober = match Prober::new(plan) {
        Ok(prober) => prober,
        Err(error) => return unrouted(plan, &clock, error, &mut sink),
    };
    // The kernel begins to stamp arrivals on all interfaces a little after the
    // first socket asks for it.
    pause(STAMPS_BEGIN, stop);
    let mut tries_left = UNSTAMPED_TRIES;
    let samples = series(plan, stop, &mut sink, || {
        loop {
            let probed = prober
                .probe(&clock, stop)
                .map_err(|error| prober.failure("sending a SYN", error))?;
            let is_unstamped = probed.0.rtt.is_some() && probed.0.stamp == Stamp::User;
            if !is_unstamped || tries_left == 0 {
                return Ok(probed);
            }
            tries_left -= 1;
            pause(STAMPS_BEGIN, stop);
        }
    })?;
    let opened = samples.iter().filter(|s| s.answer == ProbeAnswer::Open);
    let opened = opened.count();
    if opened > 0 {
        let text = resets_note(opened);
        sink(note(clock.now(), "probe-embryonic-resets", text));
    }
    Ok(samples)
}

/// What this host's kernel did to the target with so many SYN/ACKs.
pub(super) fn resets_note(opened: usize) -> String {
    format!(
        "This host's kernel answered {opened} SYN/ACKs to our SYN probes with RST, so that the \
         target keeps no half-open connection: it counts them as EmbryonicRsts (resets \
         received for embryonic SYN_RECV sockets)."
    )
}

/// A target without a route is a fact about it; anything else is an error.
fn unrouted(
    plan: &ProbePlan,
    clock: &Clock,
    error: ProbeError,
    sink: &mut dyn FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    let ProbeError::Socket { source, .. } = &error else {
        return Err(error);
    };
    let code = Errno::from_io_error(source);
    let Some(answer) = code.and_then(|code| unreachable_by(code, plan.address)) else {
        return Err(error);
    };
    let once = ProbePlan { count: 1, ..*plan };
    series(&once, &AtomicBool::new(false), sink, || {
        Ok((plan.sample(ProbeMethod::TcpSyn, answer), clock.now()))
    })
}

/// A raw socket towards one address.
struct Prober<'a> {
    plan: &'a ProbePlan,
    socket: RawSocket,
    /// Sockets that hold the ports used, so that nobody else gets our answers.
    reserved: Vec<Socket>,
    /// SYNs sent; numbers the transmit stamps.
    sent: u32,
    sequence: u32,
}

/// Stamps of a probe that is under way.
#[derive(Clone, Copy, Debug)]
struct Times {
    begun: Timestamp,
    sent: Option<Timestamp>,
}

impl<'a> Prober<'a> {
    fn new(plan: &'a ProbePlan) -> Result<Self, ProbeError> {
        Ok(Self {
            plan,
            socket: RawSocket::open(plan.address)?,
            reserved: Vec::new(),
            sent: 0,
            sequence: std::process::id().wrapping_mul(0x9e37_79b9),
        })
    }

    fn failure(&self, operation: &'static str, error: Errno) -> ProbeError {
        ProbeError::Socket {
            operation,
            address: self.plan.address,
            source: error.into(),
        }
    }

    fn probe(&mut self, clock: &Clock, stop: &AtomicBool) -> Result<Probed, Errno> {
        let port = self.reserve_port()?;
        self.sequence = self.sequence.wrapping_add(0x0101_0001);
        let syn = Syn {
            source: SocketAddr::new(self.socket.source(), port),
            destination: self.plan.address,
            sequence: self.sequence,
            mss: None,
            payload: 0,
        };
        let begun = clock.now();
        if let Err(error) = self.socket.send(&syn.to_bytes()) {
            let answer = unreachable_by(error, self.plan.address).ok_or(error)?;
            return Ok((self.plan.sample(ProbeMethod::TcpSyn, answer), clock.now()));
        }
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        let mut times = Times { begun, sent: None };
        let deadline = begun + self.plan.timeout;
        loop {
            let left = deadline.since(clock.now()).min(STOP_INTERVAL);
            if left.is_zero() || stop.load(Ordering::Relaxed) {
                let silent = self.plan.sample(ProbeMethod::TcpSyn, ProbeAnswer::Silence);
                return Ok((silent, clock.now()));
            }
            wait_for(&self.socket, PollFlags::IN, left)?;
            let icmp = self.read_errors(&syn, number, &mut times);
            if let Some(probed) = self.read_replies(&syn, times, clock)? {
                return Ok(probed);
            }
            if let Some(answer) = icmp {
                let mut sample = self.plan.sample(ProbeMethod::TcpSyn, answer);
                let now = clock.now();
                sample.rtt = Some(now.since(times.begun));
                return Ok((sample, now));
            }
        }
    }

    /// A port of ours that nobody else can use meanwhile.
    fn reserve_port(&mut self) -> Result<u16, Errno> {
        let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let domain = Domain::for_address(self.plan.address);
        let holder = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(errno)?;
        let mut address = SocketAddr::new(self.socket.source(), 0);
        if let (SocketAddr::V6(address), SocketAddr::V6(target)) = (&mut address, self.plan.address)
        {
            address.set_scope_id(target.scope_id());
        }
        holder.bind(&address.into()).map_err(errno)?;
        let port = holder.local_addr().map_err(errno)?;
        let port = port.as_socket().ok_or(Errno::IO)?.port();
        // Late answers reach a held port; the oldest ones are past that.
        if self.reserved.len() >= 100 {
            self.reserved.remove(0);
        }
        self.reserved.push(holder);
        Ok(port)
    }

    /// Empties the error queue: the SYN's transmit stamp, and an ICMP error
    /// about it.
    fn read_errors(&self, syn: &Syn, number: u32, times: &mut Times) -> Option<ProbeAnswer> {
        let mut answer = None;
        while let Some(queued) = take_queued(&self.socket) {
            match queued {
                Queued::Sent { number: n, at } if n == number => times.sent = Some(at),
                Queued::Icmp {
                    kind, code, packet, ..
                } if syn.is_begun_by(&packet) => {
                    answer = Some(ProbeAnswer::Unreachable(kind, code));
                }
                _ => {}
            }
        }
        answer
    }

    fn read_replies(
        &self,
        syn: &Syn,
        times: Times,
        clock: &Clock,
    ) -> Result<Option<Probed>, Errno> {
        for _ in 0..MAX_STRAYS {
            let mut bytes = [0_u8; REPLY_LEN];
            let Some(read) = self.socket.read(&mut bytes)? else {
                return Ok(None);
            };
            let now = clock.now();
            let bytes = bytes.get(..read.len).unwrap_or_default();
            let reply = Reply::read(bytes, self.socket.source(), syn.destination);
            let Some((reply, answer)) = reply.and_then(|reply| Some((reply, reply.answers(syn)?)))
            else {
                continue;
            };
            let mut sample = self.plan.sample(ProbeMethod::TcpSyn, answer);
            sample.ttl = reply.ttl.or(read.ttl);
            sample.reply = Some(Box::new(reply.told()));
            (sample.rtt, sample.stamp) = match (times.sent, read.at) {
                (Some(sent), Some(came)) if came >= sent => (Some(came.since(sent)), Stamp::Kernel),
                _ => (Some(now.since(times.begun)), Stamp::User),
            };
            return Ok(Some((sample, read.at.unwrap_or(now))));
        }
        Ok(None)
    }
}
