//! Several captures read as one, in time order.

use std::collections::VecDeque;

use lagtrace_core::datagram::{Datagram, Neighbour};
use lagtrace_core::decode::Packet;
use lagtrace_core::icmp::IcmpError;
use lagtrace_core::time::Timestamp;
use lagtrace_sources::capture::FileCapture;

use crate::interrupt::Interrupt;
use crate::packets::Packets;

/// How many packets of a file are read ahead while others are due.
const AHEAD: usize = 1024;

/// Hands at most `limit` segments of each capture to `visit`, and what else
/// bears on flows between them, in time order across captures that are each in time order.
pub(super) fn drain(
    captures: &mut [FileCapture],
    limit: u64,
    interrupt: &Interrupt,
    mut visit: impl FnMut(&Packet<'_>),
) {
    if let [only] = captures {
        // Nothing to be merged with: no need to keep anything.
        let mut left = limit;
        while left > 0 && !interrupt.is_requested() {
            let Some(packet) = only.next_packet() else {
                break;
            };
            left -= u64::from(matches!(packet, Packet::Tcp(..)));
            visit(&packet);
        }
        return;
    }
    let mut lanes: Vec<_> = captures.iter_mut().map(|c| Lane::new(c, limit)).collect();
    while !interrupt.is_requested() {
        let due = lanes
            .iter_mut()
            .filter_map(|lane| Some((lane.head()?, lane)))
            .min_by_key(|&(at, _)| at);
        let Some((_, lane)) = due else { break };
        lane.take(&mut visit);
    }
    for lane in &mut lanes {
        lane.say(usize::MAX, &mut visit);
    }
}

/// What is no segment, and bears on flows all the same.
enum Aside {
    Icmp(IcmpError),
    Udp(Datagram, Vec<u8>),
    Neighbour(Neighbour),
}

/// One capture and what was read of it ahead of its time.
struct Lane<'a> {
    capture: &'a mut FileCapture,
    ahead: Packets,
    /// What else was read ahead, each with how many segments go before it.
    asides: VecDeque<(usize, Aside)>,
    next: usize,
    left: u64,
}

impl<'a> Lane<'a> {
    fn new(capture: &'a mut FileCapture, limit: u64) -> Self {
        Self {
            capture,
            ahead: Packets::default(),
            asides: VecDeque::new(),
            next: 0,
            left: limit,
        }
    }

    /// When the next packet was seen; `None` at the end.
    fn head(&mut self) -> Option<Timestamp> {
        if self.next == self.ahead.len() {
            self.refill();
        }
        self.ahead.at(self.next).map(|(segment, _)| segment.at)
    }

    fn take(&mut self, visit: &mut impl FnMut(&Packet<'_>)) {
        self.say(self.next, visit);
        if let Some((segment, payload)) = self.ahead.at(self.next) {
            visit(&Packet::Tcp(*segment, payload));
            self.next += 1;
        }
    }

    fn put_aside(&mut self, aside: Aside) {
        self.asides.push_back((self.ahead.len(), aside));
    }

    /// Hands on what comes before segment `next`.
    fn say(&mut self, next: usize, visit: &mut impl FnMut(&Packet<'_>)) {
        while self
            .asides
            .front()
            .is_some_and(|(before, _)| *before <= next)
        {
            match self.asides.pop_front() {
                Some((_, Aside::Icmp(error))) => visit(&Packet::Icmp(error)),
                Some((_, Aside::Udp(header, payload))) => visit(&Packet::Udp(header, &payload)),
                Some((_, Aside::Neighbour(step))) => visit(&Packet::Neighbour(step)),
                None => {}
            }
        }
    }

    /// What comes behind the last segment go with the next one: nothing waits for
    /// them.
    fn refill(&mut self) {
        self.ahead.clear();
        self.next = 0;
        for (before, _) in &mut self.asides {
            *before = 0;
        }
        while self.left > 0 && self.ahead.len() < AHEAD && self.asides.len() < AHEAD {
            match self.capture.next_packet() {
                Some(Packet::Tcp(segment, payload)) => {
                    self.ahead.push(&segment, payload);
                    self.left -= 1;
                }
                Some(Packet::Icmp(error)) => self.put_aside(Aside::Icmp(error)),
                Some(Packet::Udp(header, payload)) => {
                    let aside = Aside::Udp(header, payload.to_vec());
                    self.put_aside(aside);
                }
                Some(Packet::Neighbour(step)) => self.put_aside(Aside::Neighbour(step)),
                Some(Packet::Other) => {}
                None => self.left = 0,
            }
        }
    }
}
