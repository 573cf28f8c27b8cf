//! Channels that send probes and receive their answers.

use std::io;
use std::os::fd::BorrowedFd;

use core::net::IpAddr;
use core::time::Duration;

use lagtrace_core::observed::route::{HopAnswer, MplsLabel, Translation};
use lagtrace_core::observed::time::Timestamp;
use rustix::event::PollFlags;

use crate::stamped::queue::Icmp;

/// The flow of the scout, the probe that determines whether the target answers at all.
pub(super) const SCOUT: u16 = u16::MAX;

/// A probe to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// Number of the probe among all probes of the trace, from 0.
    pub(super) number: u32,
    pub(super) flow: u16,
    pub(super) ttl: u8,
    /// Size in bytes with the IP header; 0: the minimum.
    pub(super) size: usize,
}

/// A message received about probes.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// The kernel passed the probe to the device.
    Sent { number: u32, at: Timestamp },
    /// The probe was answered.
    Answered(Answered),
    /// No conclusion can be drawn if this probe is not answered.
    Doubtful { number: u32 },
}

/// An answer to a probe.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) number: u32,
    pub(super) answer: HopAnswer,
    pub(super) from: Option<IpAddr>,
    /// Time of arrival, as reported by the kernel.
    pub(super) at: Option<Timestamp>,
    /// Round-trip time, if the kernel itself measured it.
    pub(super) rtt: Option<Duration>,
    pub(super) ttl: Option<u8>,
    pub(super) labels: Vec<MplsLabel>,
    /// MTU of the next link, if the answer holds it.
    pub(super) mtu: u32,
    /// Address translation (NAT) of the probe on its path; the outer `None`: unknown.
    pub(super) translation: Option<Option<Translation>>,
}

/// A transport for probes.
pub(super) trait Channel {
    /// Prepares a flow for its probes, which may take a while.
    fn prepare(&mut self, _flow: u16) -> io::Result<()> {
        Ok(())
    }
    /// Sends a probe.
    fn send(&mut self, probe: Outgoing) -> io::Result<()>;
    /// Appends the messages that arrived since the last call.
    fn collect(&mut self, seen: &mut Vec<Seen>);
    /// Returns the sockets to wait on, with the events to wait for.
    fn sockets(&self) -> Vec<(BorrowedFd<'_>, PollFlags)>;
    /// Discards the state of a probe whose answer is no longer awaited.
    fn forget(&mut self, number: u32);
}

/// Converts an ICMP error to the answer to a probe; returns `None` if the error is not relevant.
pub(super) fn answered(
    number: u32,
    icmp: Icmp,
    is_udp: bool,
    translation: Option<Option<Translation>>,
) -> Option<Seen> {
    let from = icmp.from?;
    let answer = match (from.is_ipv4(), icmp.kind, icmp.code) {
        (true, 11, 0) | (false, 3, 0) => HopAnswer::Expired,
        // Fragments that came too late say nothing of the way.
        (true, 11, _) | (false, 3, _) => return None,
        (true, 3, 3) | (false, 1, 4) if is_udp => HopAnswer::Closed,
        (_, kind, code) => HopAnswer::Unreachable(kind, code),
    };
    Some(Seen::Answered(Answered {
        number,
        answer,
        from: Some(from),
        at: icmp.at,
        rtt: None,
        ttl: icmp.ttl,
        labels: icmp.labels,
        mtu: icmp.mtu,
        translation,
    }))
}
