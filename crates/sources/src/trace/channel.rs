//! Channels: they send probes and receive the answers.

use std::io;
use std::os::fd::BorrowedFd;

use core::net::IpAddr;
use core::time::Duration;

use lagtrace_core::observed::route::{HopAnswer, MplsLabel, Translation};
use lagtrace_core::observed::time::Timestamp;
use rustix::event::PollFlags;

use crate::stamped::queue::Icmp;

/// The flow of the scout, the first probe, which shows whether the target answers.
pub(super) const SCOUT: u16 = u16::MAX;

/// A probe to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// Number of the probe within the trace, from 0.
    pub(super) number: u32,
    pub(super) flow: u16,
    pub(super) ttl: u8,
    /// Size in bytes, including the IP header; 0: the minimum.
    pub(super) size: usize,
}

/// A message about a probe.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// The kernel passed the probe to the device.
    Sent { number: u32, at: Timestamp },
    /// The probe was answered.
    Answered(Answered),
    /// If this probe stays unanswered, the missing answer is not a loss.
    Doubtful { number: u32 },
}

/// An answer to a probe.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) number: u32,
    pub(super) answer: HopAnswer,
    pub(super) from: Option<IpAddr>,
    /// Time of arrival, from the kernel.
    pub(super) at: Option<Timestamp>,
    /// Round-trip time; `None` unless the kernel measured it.
    pub(super) rtt: Option<Duration>,
    pub(super) ttl: Option<u8>,
    pub(super) labels: Vec<MplsLabel>,
    /// MTU of the next link in bytes; 0 if the answer does not contain it.
    pub(super) mtu: u32,
    /// Address translation (NAT) of the probe on its path. `None`: unknown; `Some(None)`: no
    /// translation.
    pub(super) translation: Option<Option<Translation>>,
}

/// A way of sending probes and receiving their answers.
pub(super) trait Channel {
    /// Prepares a flow for its probes. This can take a while.
    fn prepare(&mut self, _flow: u16) -> io::Result<()> {
        Ok(())
    }
    /// Sends a probe.
    fn send(&mut self, probe: Outgoing) -> io::Result<()>;
    /// Appends the messages that have arrived since the last call.
    fn collect(&mut self, seen: &mut Vec<Seen>);
    /// Returns the sockets to wait for, with their events.
    fn sockets(&self) -> Vec<(BorrowedFd<'_>, PollFlags)>;
    /// Discards the state of a probe that does not wait for an answer any more.
    fn forget(&mut self, number: u32);
}

/// Converts an ICMP error about a probe; `None` if the error says nothing about the route.
pub(super) fn answered(
    number: u32,
    icmp: Icmp,
    is_udp: bool,
    translation: Option<Option<Translation>>,
) -> Option<Seen> {
    let from = icmp.from?;
    let answer = match (from.is_ipv4(), icmp.kind, icmp.code) {
        (true, 11, 0) | (false, 3, 0) => HopAnswer::Expired,
        // A timeout of fragment reassembly says nothing about the route.
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
