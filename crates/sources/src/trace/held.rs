//! Probes within lagtrace's own connections. Stateful filters let these probes pass, even if they
//! block the SYNs of the other probe methods.
//!
//! The kernel opens and closes the connections. For each of them, a raw socket captures the
//! handshake and sends keep-alives as in RFC 9293 §3.8.4: their single byte precedes the first byte
//! of data, and the target has already acknowledged its sequence number with the SYN. Neither end
//! accepts data, so the state of the connection does not change.

mod segment;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use lagtrace_core::observed::route::HopAnswer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use super::channel::{Answered, Channel, Outgoing, SCOUT, Seen, answered};
use super::socket::{Kind, failure, open, set_ttl};
use super::{Dress, TraceError};
use crate::headers::Ends;
use crate::stamped::queue::{Reply, Stage};
use crate::stamped::{Came, StampedSocket};

use segment::{Handshake, Said};

/// Maximum time for opening a connection.
const OPENING: Duration = Duration::from_secs(3);
/// Minimum duration of a handshake with a retransmitted SYN (`TCP_TIMEOUT_INIT`, minus a margin).
const REPEATED: Duration = Duration::from_millis(900);
/// Maximum time for the target to close its end.
const CLOSING: Duration = Duration::from_millis(100);
/// Maximum number of a connection's probes that can still be answered.
const MAX_PENDING_PROBES: usize = 1_024;
/// Maximum number of connections that are kept after the target closed them, to receive late
/// answers.
const CLOSED: usize = 16;
/// Maximum number of reads of data that the target sends without being asked.
const DRAINS: usize = 64;

/// A channel that uses one connection for each flow.
#[derive(Debug)]
pub(super) struct Held {
    target: SocketAddr,
    dress: Dress,
    lanes: BTreeMap<u16, Lane>,
    /// Connections that the target has closed.
    closed: VecDeque<Lane>,
    /// Probes in closed connections that can reach the target, which may not answer them any more.
    doubtful: Vec<u32>,
}

/// A connection and its raw socket.
#[derive(Debug)]
struct Lane {
    connection: Socket,
    raw: StampedSocket,
    ends: Ends,
    handshake: Handshake,
    /// Time that corresponds to this end's timestamp value in the handshake.
    begun: Instant,
    under_way: BTreeMap<u32, Waiting>,
    last: u32,
    /// Time at which this end was closed.
    shut: Option<Instant>,
}

/// A probe that may still be answered.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    ttl: u8,
    /// Timestamp value (TSval) of the probe, which the target echoes (RFC 7323 §3).
    stamp: u32,
}

impl Held {
    /// Creates a channel and opens its first connection.
    pub(super) fn new(target: SocketAddr, dress: Dress) -> Result<Self, TraceError> {
        let lane = Lane::open(target, &dress)?;
        Ok(Self {
            target,
            dress,
            lanes: BTreeMap::from([(0, lane)]),
            closed: VecDeque::new(),
            doubtful: Vec::new(),
        })
    }

    /// Returns the connection of a flow. Opens it if necessary.
    fn lane(&mut self, flow: u16) -> io::Result<&mut Lane> {
        let flow = if flow == SCOUT { 0 } else { flow };
        if !self.lanes.contains_key(&flow) {
            let lane = Lane::open(self.target, &self.dress).map_err(io::Error::other)?;
            self.lanes.insert(flow, lane);
        }
        self.lanes
            .get_mut(&flow)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Held {
    /// Sets aside a connection that the target has closed. Routers may still answer its probes.
    fn retire(&mut self, flow: u16) {
        self.closed.retain(|lane| !lane.under_way.is_empty());
        let Some(lane) = self.lanes.remove(&flow) else {
            return;
        };
        // Routers still answer, but the target may not.
        let hops = lane.handshake.hops;
        let lost = lane.under_way.iter().filter(|(_, w)| w.ttl >= hops);
        self.doubtful.extend(lost.map(|(&number, _)| number));
        self.closed.push_back(lane);
        if self.closed.len() > CLOSED {
            self.closed.pop_front();
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.values_mut().chain(&mut self.closed)
    }
}

impl Channel for Held {
    fn prepare(&mut self, flow: u16) -> io::Result<()> {
        self.lane(flow).map(|_| ())
    }

    fn send(&mut self, probe: Outgoing) -> io::Result<()> {
        let tos = self.dress.tos.unwrap_or(0);
        self.lane(probe.flow)?.send(probe, tos)
    }

    fn collect(&mut self, seen: &mut Vec<Seen>) {
        let lanes = self.lanes.iter();
        let ended: Vec<u16> = lanes
            .filter(|(_, lane)| !lane.is_open())
            .map(|(&flow, _)| flow)
            .collect();
        ended.into_iter().for_each(|flow| self.retire(flow));
        let target = self.target;
        self.all().for_each(|lane| lane.collect(target, seen));
        let doubtful = self.doubtful.drain(..);
        seen.extend(doubtful.map(|number| Seen::Doubtful { number }));
    }

    fn sockets(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let lanes = self.lanes.values().chain(&self.closed);
        lanes
            .map(|lane| (lane.raw.as_fd(), PollFlags::IN))
            .collect()
    }

    fn forget(&mut self, number: u32) {
        for lane in self.all() {
            lane.under_way.remove(&number);
        }
    }
}

impl Lane {
    fn open(target: SocketAddr, dress: &Dress) -> Result<Self, TraceError> {
        let failed = |operation| failure(operation, target);
        let raw = open(Kind::RawTcp, target, dress)?;
        let prepared = |raw: &Socket| -> io::Result<()> {
            if target.is_ipv4() {
                raw.set_header_included_v4(true)?;
            }
            raw.connect(&SocketAddr::new(target.ip(), 0).into())
        };
        prepared(&raw).map_err(failed("preparing a socket"))?;
        let raw = StampedSocket::new(raw, target, 0).map_err(failed("preparing a socket"))?;
        let connection = open(Kind::Tcp, target, dress)?;
        connected(connection, raw, target)
            .map_err(|source| TraceError::NotConnected { target, source })
    }

    /// Returns true if the target keeps the connection open. Discards received data.
    fn is_open(&self) -> bool {
        !matches!(drain(&self.connection), Drained::Ended)
    }

    /// Closes this end for writing.
    fn shut(&mut self) {
        if self.shut.is_none() {
            let _ = self.connection.shutdown(std::net::Shutdown::Write);
            self.shut = Some(Instant::now());
        }
    }

    fn send(&mut self, probe: Outgoing, tos: u8) -> io::Result<()> {
        let stamp = self.handshake.own_stamp(self.begun.elapsed());
        let bytes = segment::keep_alive(&self.ends, &self.handshake, stamp, probe.number);
        let is_v4 = self.ends.destination.is_ipv4();
        let bytes = if is_v4 {
            segment::header(probe.number, probe.ttl, tos).before(&self.ends, &bytes)
        } else {
            bytes
        };
        set_ttl(self.raw.socket(), is_v4, probe.ttl)?;
        self.last = probe.number;
        let waiting = Waiting {
            ttl: probe.ttl,
            stamp,
        };
        self.under_way.insert(probe.number, waiting);
        if self.under_way.len() > MAX_PENDING_PROBES {
            self.under_way.pop_first();
        }
        self.raw.send(probe.number, &bytes, None)
    }

    fn collect(&mut self, target: SocketAddr, seen: &mut Vec<Seen>) {
        let (ends, last) = (self.ends, self.last);
        let (raw, under_way) = (&self.raw, &mut self.under_way);
        let mut said = Vec::new();
        raw.collect(|came| match came {
            Came::Sent { number, stage, at } => {
                if stage == Stage::Device {
                    seen.push(Seen::Sent { number, at });
                }
            }
            Came::Icmp(icmp) => {
                let number = segment::quoted(&ends, &icmp.quoted, last);
                seen.extend(number.and_then(|number| {
                    let answer = answered(number, icmp, false, None)?;
                    // The router's answer shows that the probe did not reach the target.
                    under_way.remove(&number);
                    Some(answer)
                }));
            }
            Came::Reply(reply) => said.push(reply),
        });
        for reply in said {
            seen.extend(self.replied(target, &reply));
        }
    }

    /// Returns the answer that a segment from the target contains; `None` if the target sent the
    /// segment for another reason.
    fn replied(&mut self, target: SocketAddr, reply: &Reply) -> Option<Seen> {
        let said = segment::read(&self.ends, &reply.bytes)?;
        let answer = if said.is_reset {
            HopAnswer::Closed
        } else if said.is_pure {
            HopAnswer::Open
        } else {
            return None;
        };
        let number = self.which(&said)?;
        self.under_way.remove(&number);
        Some(Seen::Answered(Answered {
            number,
            answer,
            from: Some(target.ip()),
            at: reply.at,
            rtt: None,
            ttl: reply.ttl,
            labels: Vec::new(),
            mtu: 0,
            translation: None,
        }))
    }

    fn which(&self, said: &Said) -> Option<u32> {
        let echoed = said.echo.filter(|_| !said.is_reset);
        which(&self.under_way, echoed, self.handshake.hops)
    }
}

/// Returns the probe that was answered. The timestamp `echoed` identifies it. If several probes
/// have this timestamp, returns the one with the largest TTL, because the others may not have
/// reached the target. Without an echo, returns the first probe whose TTL is at least `hops`.
fn which(under_way: &BTreeMap<u32, Waiting>, echoed: Option<u32>, hops: u8) -> Option<u32> {
    let mut all = under_way.iter();
    let found = match echoed {
        Some(echo) => all
            .filter(|(_, waiting)| waiting.stamp == echo)
            .max_by_key(|(_, waiting)| waiting.ttl),
        None => all.find(|(_, waiting)| waiting.ttl >= hops),
    };
    found.map(|(&number, _)| number)
}

impl Drop for Held {
    /// Closes all connections first, so that they end at the same time and not one after another.
    fn drop(&mut self) {
        self.all().for_each(Lane::shut);
    }
}

impl Drop for Lane {
    /// Closes the connection after reading all data. With unread data, the kernel would send an
    /// RST.
    fn drop(&mut self) {
        self.shut();
        let end = self.shut.unwrap_or_else(Instant::now) + CLOSING;
        while let Drained::All = drain(&self.connection) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !is_ready(&self.connection, PollFlags::IN, left) {
                break;
            }
        }
    }
}

/// The result of reading all available data.
enum Drained {
    All,
    Ended,
}

fn drain(connection: &Socket) -> Drained {
    let mut room = [std::mem::MaybeUninit::<u8>::uninit(); 4_096];
    for _ in 0..DRAINS {
        match connection.recv(&mut room) {
            Ok(0) => return Drained::Ended,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Drained::All,
            Err(_) => return Drained::Ended,
        }
    }
    Drained::All
}

/// Opens a connection, and captures its handshake through the raw socket.
fn connected(connection: Socket, raw: StampedSocket, target: SocketAddr) -> io::Result<Lane> {
    connection.set_nonblocking(true)?;
    let asked = Instant::now();
    match connection.connect(&target.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let sent = Instant::now();
    if !is_ready(&connection, PollFlags::OUT, OPENING) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    if let Some(error) = connection.take_error()? {
        return Err(error);
    }
    let took = asked.elapsed();
    let address = |socket: &Socket| -> io::Result<SocketAddr> {
        let local = socket.local_addr()?.as_socket();
        local.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    };
    let local = address(&connection)?;
    let ends = Ends::between(local, target);
    let handshake = handshake(&raw, &ends)?;
    let begun = if took < REPEATED {
        sent
    } else {
        // The captured timestamp belongs to a later SYN. Its time is unknown, and this is the
        // latest possible one.
        Instant::now()
    };
    // The probes' timestamps must not be older than that of the handshake's last segment.
    std::thread::sleep(if took < REPEATED {
        Duration::from_millis(2)
    } else {
        OPENING.min(took)
    });
    Ok(Lane {
        connection,
        raw,
        ends,
        handshake,
        begun,
        under_way: BTreeMap::new(),
        last: 0,
        shut: None,
    })
}

/// Returns the target's SYN/ACK, from the raw socket's copy.
fn handshake(raw: &StampedSocket, ends: &Ends) -> io::Result<Handshake> {
    let end = Instant::now() + CLOSING;
    loop {
        let mut found = None;
        raw.collect(|came| {
            if let Came::Reply(reply) = came {
                found = found.or_else(|| Handshake::read(ends, &reply.bytes, reply.ttl));
            }
        });
        if let Some(found) = found {
            return Ok(found);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let text = "its SYN/ACK was not seen";
            return Err(io::Error::other(text));
        }
        is_ready(raw, PollFlags::IN, left);
    }
}

fn is_ready(socket: &impl AsFd, flags: PollFlags, patience: Duration) -> bool {
    let mut fds = [PollFd::new(socket, flags)];
    let length = Timespec::try_from(patience).unwrap_or_default();
    poll(&mut fds, Some(&length)).is_ok_and(|ready| ready > 0)
}

/// Returns the offset of the TCP header in the bytes that a raw socket returned.
fn shown(ends: &Ends, bytes: &[u8]) -> Option<usize> {
    match ends.destination {
        IpAddr::V4(_) => Some(usize::from(bytes.first()? & 0xf) * 4),
        IpAddr::V6(_) => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_probes_with_one_stamp_the_farthest_was_answered() {
        let waiting = |(number, ttl, stamp)| (number, Waiting { ttl, stamp });
        let probes = [(7, 2, 50), (8, 9, 50), (9, 3, 51), (10, 4, 52)];
        let mut under_way: BTreeMap<u32, Waiting> = probes.map(waiting).into();
        assert_eq!(which(&under_way, Some(50), 4), Some(8));
        under_way.remove(&8);
        assert_eq!(which(&under_way, Some(53), 4), None);
        // Without timestamps, only probes that can reach the target count.
        assert_eq!(which(&under_way, None, 4), Some(10));
        assert_eq!(which(&under_way, None, 5), None);
    }
}
