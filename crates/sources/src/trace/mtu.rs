//! The path MTU, and the hops at which it decreases.
//!
//! The probes are UDP datagrams with DF set, as in tracepath. If routers report an MTU, their value
//! is used. If large packets are lost without an ICMP error (a black hole, RFC 4459 §3.1), a search
//! finds the maximum size, and then the hop.

use std::sync::atomic::{AtomicBool, Ordering};

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::route::{HopAnswer, Narrowing, PathMtu};
use lagtrace_core::observed::time::Timestamp;
use rustix::event::{PollFd, Timespec, poll};

use super::channel::{Answered, Channel, Outgoing, Seen};
use super::engine::Known;
use super::form::Form;
use super::pace::RECOVERY;
use super::single_packets::Packets;
use super::socket::failure;
use super::{TraceError, TracePlan, UDP_PORT};
use crate::clock::Clock;
use crate::netlink::{NetlinkProtocol, NetlinkSocket};
use crate::route::RouteSocket;

/// First size to try if the kernel does not report the device's MTU, in bytes.
const ETHERNET: u16 = 1_500;
/// MTUs that every link supports, in bytes (RFC 791, RFC 8200 §5).
const LEAST_V4: u16 = 68;
const LEAST_V6: u16 = 1_280;
/// Size of small probes in bytes, similar to the probes of the trace.
const SMALL: u16 = 64;
/// Maximum number of times that the size is reduced.
const MAX_NARROWINGS: usize = 12;
/// Number of unanswered packets of one size that count as a loss.
const TRIES: u32 = 3;
/// Timeout of a probe.
const PATIENCE: Duration = Duration::from_millis(1_000);
/// MTUs of common links, for routers that are too old to report one (RFC 1191 §7.1).
const PLATEAUS: [u16; 7] = [8_166, 4_352, 2_002, 1_492, 1_006, 508, 296];

/// The result of a probe of a certain size.
enum Outcome {
    /// The probe reached the target or the hop it was sent to.
    Passed,
    /// A router or this host reported an MTU.
    TooBig(Option<IpAddr>, u16),
    /// No answer was received.
    Vanished,
}

/// Finds the path MTU up to the last hop that answered, and reports it.
pub(super) fn discover(
    plan: &TracePlan,
    known: &Known,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(Event),
) -> Result<(), TraceError> {
    let mut search = Search::new(plan, stop)?;
    let mut found = PathMtu {
        mtu: None,
        to_ttl: known.highest,
        narrowings: Vec::new(),
    };
    if known.highest > 0 {
        search.descend(&mut found, known)?;
    }
    if !search.is_stopped() {
        sink(Event::here(
            search.clock.now(),
            Phase::Baseline,
            EventBody::PathMtu(found),
        ));
    }
    Ok(())
}

struct Search<'a> {
    channel: Packets,
    target: SocketAddr,
    clock: Clock,
    stop: &'a AtomicBool,
    number: u32,
    /// Time from which on a silent hop may be probed again.
    due: Timestamp,
    device: u16,
}

impl<'a> Search<'a> {
    fn new(plan: &TracePlan, stop: &'a AtomicBool) -> Result<Self, TraceError> {
        let target = SocketAddr::new(plan.target.ip(), UDP_PORT);
        let device = NetlinkSocket::open(NetlinkProtocol::Route).map(RouteSocket::from);
        let device = device
            .ok()
            .and_then(|mut routes| routes.device_mtu(target.ip()));
        // The loopback interface's MTU can be larger than any packet.
        let device = device.map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX));
        let mut dress = plan.dress.clone();
        dress.size = None;
        dress.source_port = None;
        Ok(Self {
            channel: Packets::new(target, Form::Ports, &dress)?.whole()?,
            target,
            clock: Clock::new(),
            stop,
            number: 0,
            due: Timestamp::MIN,
            device: device.unwrap_or(ETHERNET),
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Begins with the device's MTU, and reduces the size until a packet arrives.
    fn descend(&mut self, found: &mut PathMtu, known: &Known) -> Result<(), TraceError> {
        let mut size = self.device;
        for _ in 0..MAX_NARROWINGS {
            match self.probe(found.to_ttl, size)? {
                Outcome::Passed => {
                    found.mtu = Some(size);
                    return Ok(());
                }
                Outcome::TooBig(from, told) => {
                    let mtu = believable(told, size, self.target.is_ipv4());
                    found.narrowings.push(Narrowing {
                        from,
                        ttl: from.and_then(|from| known.addresses.get(&from).copied()),
                        mtu,
                    });
                    if mtu >= size {
                        return Ok(());
                    }
                    size = mtu;
                }
                Outcome::Vanished => return self.black_hole(found, size),
            }
            if self.is_stopped() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Finds the largest packet size that arrives, and the hop at which packets of `size` are lost.
    fn black_hole(&mut self, found: &mut PathMtu, size: u16) -> Result<(), TraceError> {
        let is_passed = |outcome| matches!(outcome, Outcome::Passed);
        if self.is_stopped() || !is_passed(self.probe(found.to_ttl, SMALL)?) {
            return Ok(());
        }
        let (mut passes, mut vanishes) = (SMALL, size);
        while vanishes - passes > 1 && !self.is_stopped() {
            let middle = passes + (vanishes - passes) / 2;
            if is_passed(self.probe(found.to_ttl, middle)?) {
                passes = middle
            } else {
                vanishes = middle
            }
        }
        let (mut near, mut far) = (0, found.to_ttl);
        while far - near > 1 && !self.is_stopped() {
            let middle = near + (far - near) / 2;
            if is_passed(self.probe(middle, vanishes)?) {
                near = middle
            } else {
                far = middle
            }
        }
        found.mtu = Some(passes);
        found.narrowings.push(Narrowing {
            from: None,
            ttl: Some(far),
            mtu: passes,
        });
        Ok(())
    }

    /// Sends packets of `size` with the TTL `ttl` until one of them is answered.
    fn probe(&mut self, ttl: u8, size: u16) -> Result<Outcome, TraceError> {
        for _ in 0..TRIES {
            self.rest();
            let number = self.number;
            self.number = self.number.wrapping_add(1);
            let probe = Outgoing {
                number,
                flow: 0,
                ttl,
                size: size.into(),
            };
            let begun = self.clock.now();
            match self.channel.send(probe) {
                Ok(()) => {}
                // The size exceeds the device's MTU.
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    return Ok(Outcome::TooBig(None, size.min(ETHERNET + 1) - 1));
                }
                Err(error) => return Err(failure("sending a probe", self.target)(error)),
            }
            if let Some(answer) = self.answer(number, begun + PATIENCE)? {
                return Ok(outcome(&answer));
            }
            // The hop may limit its answers. With one probe per second, it can answer each.
            self.due = begun + RECOVERY;
            if self.is_stopped() {
                break;
            }
        }
        Ok(Outcome::Vanished)
    }

    fn rest(&self) {
        let left = self.due.since(self.clock.now()).min(RECOVERY);
        std::thread::sleep(left);
    }

    fn answer(&mut self, number: u32, end: Timestamp) -> Result<Option<Answered>, TraceError> {
        loop {
            let mut seen = Vec::new();
            self.channel.collect(&mut seen);
            let answer = seen.into_iter().find_map(|seen| match seen {
                Seen::Answered(answer) if answer.number == number => Some(answer),
                _ => None,
            });
            let left = end.since(self.clock.now()).min(Duration::from_millis(50));
            if answer.is_some() || left.is_zero() || self.is_stopped() {
                return Ok(answer);
            }
            let sockets = self.channel.sockets();
            let mut fds: Vec<_> = sockets
                .iter()
                .map(|(socket, events)| PollFd::new(socket, *events))
                .collect();
            let length = Timespec::try_from(left).unwrap_or_default();
            match poll(&mut fds, Some(&length)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    return Err(failure("waiting for answers", self.target)(error.into()));
                }
            }
        }
    }
}

fn outcome(answer: &Answered) -> Outcome {
    match answer.answer {
        HopAnswer::Unreachable(3, 4) | HopAnswer::Unreachable(2, 0) => {
            Outcome::TooBig(answer.from, u16::try_from(answer.mtu).unwrap_or(u16::MAX))
        }
        _ => Outcome::Passed,
    }
}

/// Returns a plausible MTU for the value `told` by a router. It is smaller than the size that did
/// not fit, and at least the minimum of every link. Very old routers report 0.
fn believable(told: u16, size: u16, is_v4: bool) -> u16 {
    let least = if is_v4 { LEAST_V4 } else { LEAST_V6 };
    if told != 0 && told < size {
        return told.max(least);
    }
    let plateau = PLATEAUS.into_iter().find(|&plateau| plateau < size);
    plateau.unwrap_or(least).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_believed_within_reason() {
        for (told, size, is_v4, mtu) in [
            (1_400, 1_500, true, 1_400),
            (0, 1_500, true, 1_492),
            (1_500, 1_500, true, 1_492),
            (9_000, 1_492, true, 1_006),
            (1, 1_500, true, 68),
            (1, 1_500, false, 1_280),
            (0, 1_300, false, 1_280),
            (0, 68, true, 68),
        ] {
            assert_eq!(believable(told, size, is_v4), mtu, "{told} of {size}");
        }
    }
}
