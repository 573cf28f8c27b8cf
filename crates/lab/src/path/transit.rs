//! Both directions of the path and the routers between, as a pure function of time: packets
//! go in at one side, and come out when they are due, on either side.
//!
//! Packets are as the TUN devices hand them over, with a head before the IP header where the
//! hosts offload ([`super::tun`]). Time is counted from the path's first packet.

use std::time::Duration;

use super::chance::mix;
use super::counters::{DropReason, LaneCounters};
use super::delay_line::{DelayLine, Errand};
use super::fragment::fragments;
use super::hop::Hops;
use super::icmp::{self, Answer};
use super::lane::{Fate, Lane};
use super::packet::Packet;
use super::radio::{Radio, SleepSpec};
use super::stage::taken;
use super::thin_acks::ThinAcks;
use super::tun::Head;
use super::{LaneSpec, PathSpec};
use crate::host::Side;

/// The most that one direction holds: 10 s of 50 Mbit/s, or 50 ms of 10 Gbit/s.
const HELD_LIMIT: usize = 64 << 20;

/// The path with what is under way on it.
pub(super) struct Transit {
    to_server: Way,
    to_client: Way,
    hops: Hops,
    radio: Radio,
    head: Head,
}

/// One direction.
struct Way {
    spec: LaneSpec,
    delay: Duration,
    lane: Lane,
    members: Vec<Lane>,
    /// What members are chosen by.
    seed: u64,
    thin_acks: Option<ThinAcks>,
    line: DelayLine,
    latest: Duration,
    counters: LaneCounters,
}

/// Which part of the way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leg {
    Whole,
    ToHop(usize),
    FromHop(usize),
}

impl Transit {
    pub(super) fn new(spec: &PathSpec, head: Head) -> Self {
        let (there, back) = spec.delays();
        let members = |lane: fn(&super::MemberSpec) -> &LaneSpec| -> Vec<LaneSpec> {
            spec.members.iter().map(lane).cloned().collect()
        };
        Self {
            to_server: Way::new(&spec.to_server, members(|m| &m.to_server), there, spec.seed),
            to_client: Way::new(&spec.to_client, members(|m| &m.to_client), back, !spec.seed),
            hops: Hops::new(&spec.hops, spec.faults_after),
            radio: Radio::default(),
            head,
        }
    }

    /// Takes in a packet that the host on this side sends, at `now`. It may be changed.
    pub(super) fn admit(&mut self, from: Side, now: Duration, raw: &mut [u8]) {
        self.way(from).counters.offered += 1;
        let Some(hop) = self.where_ends(from, raw) else {
            return self.pass_narrow_link(from, now, raw);
        };
        let earlier = self.hops.steps(from, hop) - 1;
        self.age(raw, earlier);
        self.cross(from, now, raw, Leg::ToHop(hop));
    }

    /// When something is to be done next.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let lines = [&self.to_server.line, &self.to_client.line];
        lines.into_iter().filter_map(DelayLine::next_due).min()
    }

    /// A packet from this side that the other host is to get by now.
    pub(super) fn take_due(&mut self, from: Side, now: Duration) -> Option<Vec<u8>> {
        loop {
            let (errand, raw) = self.way(from).line.pop_due(now)?;
            match errand {
                Errand::Deliver => return Some(raw),
                Errand::Hop(hop) => {
                    self.way(from).counters.count_drop(DropReason::Hop);
                    self.answer(from, now, hop, None, &raw);
                }
                Errand::Narrow(hop, mtu) => self.answer(from, now, hop, Some(mtu), &raw),
                Errand::Held(ticket) if self.is_needed(from, ticket, &raw) => {
                    self.cross(from, now, &raw, Leg::Whole);
                }
                Errand::Held(_) => self.way(from).counters.count_drop(DropReason::Thinned),
            }
        }
    }

    /// A packet from this side was handed over, or refused.
    pub(super) fn count_delivery(&mut self, from: Side, raw: &[u8], is_taken: bool) {
        let size = raw.len().saturating_sub(self.head.length()) as u64;
        let counters = &mut self.way(from).counters;
        match is_taken {
            true => {
                counters.delivered += 1;
                counters.delivered_bytes += size;
            }
            false => counters.count_drop(DropReason::Overflow),
        }
    }

    /// To the server, to the client.
    pub(super) fn counters(&self) -> (LaneCounters, LaneCounters) {
        (self.to_server.counters, self.to_client.counters)
    }

    fn way(&mut self, from: Side) -> &mut Way {
        match from {
            Side::Client => &mut self.to_server,
            Side::Server => &mut self.to_client,
        }
    }

    /// The hop that a packet does not get past.
    fn where_ends(&self, from: Side, raw: &[u8]) -> Option<usize> {
        if self.hops.count() == 0 {
            return None;
        }
        let packet = self.head.packet(raw);
        let time_to_live = icmp::time_to_live(packet.bytes())?;
        let to = packet.headers()?.flow.destination;
        self.hops.where_ends(from, time_to_live, to)
    }

    /// The first thing on the way that may stop a packet.
    fn pass_narrow_link(&mut self, from: Side, now: Duration, raw: &mut [u8]) {
        let Some(mtu) = self.way(from).spec.mtu else {
            return self.leave_hops(from, now, raw);
        };
        if self.head.packet(raw).largest_on_a_link() <= usize::from(mtu) {
            return self.leave_hops(from, now, raw);
        }
        if let Some(parts) = self.head.fragments(raw, |ip| fragments(ip, mtu.into())) {
            self.way(from).counters.fragments += parts.len() as u64 - 1;
            for mut part in parts {
                self.leave_hops(from, now, &mut part);
            }
            return;
        }
        self.way(from).counters.count_drop(DropReason::Mtu);
        if self.way(from).spec.icmp.unwrap_or(true) {
            let hop = self.hops.before_faults(from);
            let whole = self.way(from).delay;
            let due = now.saturating_add(self.hops.distance(from, hop, whole));
            if hop > 0 {
                let earlier = self.hops.steps(from, hop) - 1;
                self.age(raw, earlier);
            }
            // No room costs the answer; the packet is counted already.
            let _ = self.way(from).line.push(due, Errand::Narrow(hop, mtu), raw);
        }
    }

    /// Every router takes one off the time to live.
    fn leave_hops(&mut self, from: Side, now: Duration, raw: &mut [u8]) {
        let more = taken(&self.way(from).spec.steps, now).map_or(0, |step| step.ttl);
        let routers = self.hops.count() + usize::from(more);
        if routers > 0 {
            let reaches = icmp::time_to_live(self.head.packet(raw).bytes());
            if reaches.is_some_and(|reaches| usize::from(reaches) <= routers) {
                return self.way(from).counters.count_drop(DropReason::Hop);
            }
            self.age(raw, routers);
        }
        let head = self.head;
        let way = match from {
            Side::Client => &mut self.to_server,
            Side::Server => &mut self.to_client,
        };
        if let Some(thin_acks) = &mut way.thin_acks {
            if let Some((wait, ticket)) = thin_acks.hold(&head.packet(raw)) {
                let due = now.saturating_add(wait);
                return way.schedule(due, Errand::Held(ticket), raw);
            }
        }
        self.cross(from, now, raw, Leg::Whole);
    }

    fn is_needed(&mut self, from: Side, ticket: u64, raw: &[u8]) -> bool {
        let packet = self.head.packet(raw);
        let thin_acks = self.way(from).thin_acks.as_mut();
        thin_acks.is_some_and(|thin_acks| thin_acks.release(&packet, ticket))
    }

    /// Sends a packet over the faulty link, if that is on its way, and through the distance.
    fn cross(&mut self, from: Side, now: Duration, raw: &[u8], leg: Leg) {
        let (far, errand) = match leg {
            Leg::Whole => (None, Errand::Deliver),
            Leg::ToHop(hop) => (Some((from, hop)), Errand::Hop(hop)),
            Leg::FromHop(hop) => (Some((other(from), hop)), Errand::Deliver),
        };
        let meets_faults = far.is_none_or(|(side, hop)| self.hops.is_behind_faults(side, hop));
        let (way, radio) = match from {
            Side::Client => (&mut self.to_server, &mut self.radio),
            Side::Server => (&mut self.to_client, &mut self.radio),
        };
        let fate = match meets_faults {
            true => way.meet_faults(radio, now, &self.head.packet(raw)),
            false => Fate::Deliver(now),
        };
        let travel = match far {
            None => way.delay,
            Some((side, hop)) => self.hops.distance(side, hop, way.delay),
        };
        match fate {
            Fate::Deliver(at) => way.schedule(at.saturating_add(travel), errand, raw),
            Fate::Duplicate(at, again) => {
                way.counters.duplicated += 1;
                way.schedule(at.saturating_add(travel), errand, raw);
                way.schedule(again.saturating_add(travel), errand, raw);
            }
            Fate::Drop(reason) => way.counters.count_drop(reason),
        }
    }

    /// A router answers the host on a side for a packet of its.
    fn answer(&mut self, to: Side, now: Duration, hop: usize, mtu: Option<u16>, raw: &[u8]) {
        let packet = self.head.packet(raw);
        let Some(headers) = packet.headers() else {
            return;
        };
        let destination = headers.flow.destination;
        let Some(router) = self.hops.answers(hop, now) else {
            return;
        };
        let is_own = destination == router.v4 || destination == router.v6;
        let answer = match mtu {
            Some(mtu) => Answer::TooBig(mtu),
            None if is_own => Answer::Echo,
            None => Answer::TimeExceeded,
        };
        let Some(reply) = answer.to(&packet, router) else {
            return;
        };
        let mut reply = self.head.before(&reply);
        if hop > 0 {
            let nearer = self.hops.steps(to, hop) - 1;
            self.age(&mut reply, nearer);
        }
        self.way(other(to)).counters.answers += 1;
        self.cross(other(to), now, &reply, Leg::FromHop(hop));
    }

    fn age(&self, raw: &mut [u8], hops: usize) {
        if let Some(ip) = raw.get_mut(self.head.length()..) {
            icmp::age(ip, u8::try_from(hops).unwrap_or(u8::MAX));
        }
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

impl Way {
    fn new(spec: &LaneSpec, members: Vec<LaneSpec>, delay: Duration, seed: u64) -> Self {
        let members = (1..).zip(members).map(|(n, member): (u64, _)| {
            let longer = member.delay.unwrap_or_default();
            Lane::new(&member, longer, mix(seed ^ n))
        });
        Self {
            delay,
            lane: Lane::new(spec, Duration::ZERO, seed),
            members: members.collect(),
            seed,
            thin_acks: spec.thin_acks.map(ThinAcks::new),
            line: DelayLine::new(HELD_LIMIT),
            latest: Duration::ZERO,
            counters: LaneCounters::default(),
            spec: spec.clone(),
        }
    }

    /// Everything that the lane does, but for its distance.
    fn meet_faults(&mut self, radio: &mut Radio, now: Duration, packet: &Packet<'_>) -> Fate {
        let sleep: Option<SleepSpec> = self.spec.sleep;
        let fate = self.lane.admit(radio.pass(now, sleep), packet);
        if self.members.is_empty() {
            return fate;
        }
        let chosen = packet.flow_hash(self.seed) % self.members.len() as u64;
        let member = &mut self.members[chosen as usize];
        match fate {
            Fate::Deliver(at) => member.admit(at, packet),
            Fate::Duplicate(at, again) => {
                match (member.admit(at, packet), member.admit(again, packet)) {
                    (Fate::Deliver(at), Fate::Deliver(again)) => Fate::Duplicate(at, again),
                    // One copy is lost: what is left is a packet.
                    (Fate::Drop(_), one) | (one, _) => one,
                }
            }
            Fate::Drop(reason) => Fate::Drop(reason),
        }
    }

    fn schedule(&mut self, due: Duration, errand: Errand, raw: &[u8]) {
        if errand == Errand::Deliver {
            self.counters.reordered += u64::from(due < self.latest);
            self.latest = self.latest.max(due);
        }
        if !self.line.push(due, errand, raw) {
            self.counters.count_drop(DropReason::Overflow);
        }
    }
}
