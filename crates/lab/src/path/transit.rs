//! Both directions of the path and the routers between, as a pure function of time: packets enter
//! at one side, and leave at either side when they are due.
//!
//! Packets have the format of the TUN devices, with a head before the IP header if the hosts
//! offload ([`super::tun`]). Time is counted from the path's first packet.

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
use crate::side::Side;

/// Maximum number of bytes that one direction holds: 10 s of 50 Mbit/s, or 50 ms of 10 Gbit/s.
const HELD_LIMIT: usize = 64 << 20;
/// Minimum delay beyond its due time at which a packet counts as late: many times the emulator's
/// own error.
const LATE: Duration = Duration::from_millis(2);

/// The path with the packets in flight on it.
pub(super) struct Transit {
    to_server: Way,
    to_client: Way,
    hops: Hops,
    radio: Radio,
    head: Head,
}

/// A direction of the path.
struct Way {
    spec: LaneSpec,
    delay: Duration,
    lane: Lane,
    members: Vec<Lane>,
    /// The seed of the hash that selects a packet's member.
    seed: u64,
    thin_acks: Option<ThinAcks>,
    line: DelayLine,
    latest: Duration,
    counters: LaneCounters,
}

/// The part of the way that a packet takes.
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

    /// Admits a packet that the host on this side sends at `now`. The bytes of the packet may be
    /// changed.
    pub(super) fn admit(&mut self, from: Side, now: Duration, raw: &mut [u8]) {
        self.way(from).counters.offered += 1;
        let Some(hop) = self.where_ends(from, raw) else {
            return self.pass_narrow_link(from, now, raw);
        };
        let earlier = self.hops.steps(from, hop) - 1;
        self.age(raw, earlier);
        self.cross(from, now, raw, Leg::ToHop(hop));
    }

    /// Returns the time of the next action.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let lines = [&self.to_server.line, &self.to_client.line];
        lines.into_iter().filter_map(DelayLine::next_due).min()
    }

    /// Removes and returns a packet from this side whose delivery to the other host is due by now.
    pub(super) fn take_due(&mut self, from: Side, now: Duration) -> Option<Vec<u8>> {
        loop {
            let way = self.way(from);
            let due = way.line.next_due()?;
            let (errand, raw) = way.line.pop_due(now)?;
            match errand {
                Errand::Deliver => {
                    way.counters.late += u64::from(now.saturating_sub(due) > LATE);
                    return Some(raw);
                }
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

    /// Counts a packet from this side as delivered or as rejected.
    pub(super) fn count_delivery(&mut self, from: Side, raw: &[u8], is_taken: bool) {
        let size = raw.len().saturating_sub(self.head.length()) as u64;
        let counters = &mut self.way(from).counters;
        if is_taken {
            counters.delivered += 1;
            counters.delivered_bytes += size;
        } else {
            counters.count_drop(DropReason::Overflow)
        }
    }

    /// Returns the counters of the directions to the server and to the client.
    pub(super) fn counters(&self) -> (LaneCounters, LaneCounters) {
        (self.to_server.counters, self.to_client.counters)
    }

    fn way(&mut self, from: Side) -> &mut Way {
        match from {
            Side::Client => &mut self.to_server,
            Side::Server => &mut self.to_client,
        }
    }

    /// Returns the hop at which a packet ends, if it does not reach the other host.
    fn where_ends(&self, from: Side, raw: &[u8]) -> Option<usize> {
        if self.hops.count() == 0 {
            return None;
        }
        let packet = self.head.packet(raw);
        let time_to_live = icmp::time_to_live(packet.bytes())?;
        let to = packet.headers()?.flow.destination;
        self.hops.where_ends(from, time_to_live, to)
    }

    /// Passes a packet over the narrow link, which comes first. A packet that is too large is
    /// fragmented, or dropped and answered.
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
            // If there is no room, only the router's answer is lost. The packet itself is already
            // counted.
            let _ = self.way(from).line.push(due, Errand::Narrow(hop, mtu), raw);
        }
    }

    /// Passes a packet along the routers, each of which decreases its time to live by one.
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
        if let Some(thin_acks) = &mut way.thin_acks
            && let Some((wait, ticket)) = thin_acks.hold(&head.packet(raw))
        {
            let due = now.saturating_add(wait);
            return way.schedule(due, Errand::Held(ticket), raw);
        }
        self.cross(from, now, raw, Leg::Whole);
    }

    fn is_needed(&mut self, from: Side, ticket: u64, raw: &[u8]) -> bool {
        let packet = self.head.packet(raw);
        let thin_acks = self.way(from).thin_acks.as_mut();
        thin_acks.is_some_and(|thin_acks| thin_acks.release(&packet, ticket))
    }

    /// Passes a packet over the faulty link, if the packet crosses it, and adds the delay of the
    /// distance.
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
        let fate = if meets_faults {
            way.meet_faults(radio, now, &self.head.packet(raw))
        } else {
            Fate::Deliver(now)
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

    /// Sends an answer from a router to the host on this side, for a packet of that host.
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

    /// Returns the fate of a packet after all effects of the lane except its distance.
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
                    // One copy is lost: the other is delivered, as a single packet.
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

#[cfg(test)]
mod tests {
    use super::super::packet::tests::{datagram_v6, segment};
    use super::super::packet::{ACK, SYN};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn transit(toml: &str) -> Transit {
        let spec: PathSpec = toml::from_str(toml).expect("reads");
        spec.check().expect("makes sense");
        Transit::new(&spec, Head::None)
    }

    /// Returns every packet that leaves the path: the time in milliseconds, the side that it came
    /// from, and its bytes.
    fn leave(transit: &mut Transit) -> Vec<(u128, Side, Vec<u8>)> {
        let mut left = Vec::new();
        while let Some(due) = transit.next_due() {
            for from in [Side::Client, Side::Server] {
                while let Some(packet) = transit.take_due(from, due) {
                    transit.count_delivery(from, &packet, true);
                    left.push((due.as_millis(), from, packet));
                }
            }
        }
        for counters in [transit.to_server.counters, transit.to_client.counters] {
            let came = counters.offered + counters.duplicated + counters.fragments;
            assert_eq!(
                came + counters.answers,
                counters.delivered + counters.dropped()
            );
        }
        left
    }

    const THREE_HOPS: &str = "round_trip = '20ms'\n\
        hops = [{ delay = '1ms' }, { delay = '3ms', answers = 'never' }, { delay = '2ms' }]\n";

    fn with_ttl(mut packet: Vec<u8>, ttl: u8) -> Vec<u8> {
        match packet[0] >> 4 {
            4 => icmp::age(&mut packet, 64 - ttl),
            _ => packet[7] = ttl,
        }
        packet
    }

    #[test]
    fn what_crosses_takes_the_delay_and_ages_by_the_hops() {
        let mut path = transit(THREE_HOPS);
        path.admit(Side::Client, MS, &mut segment((1, 80), SYN, 0, 0));
        path.admit(Side::Server, MS, &mut datagram_v6(9));
        let left = leave(&mut path);
        let when: Vec<_> = left
            .iter()
            .map(|(at, from, packet)| (*at, *from, icmp::time_to_live(packet)))
            .collect();
        assert_eq!(
            when,
            [(11, Side::Client, Some(61)), (11, Side::Server, Some(61))]
        );
    }

    #[test]
    fn a_hop_answers_after_its_distance_there_and_back() {
        for asked in [segment((1, 80), SYN, 0, 0), datagram_v6(9)] {
            for (ttl, answer) in [(1, Some((2, 255))), (2, None), (3, Some((12, 253)))] {
                let mut path = transit(THREE_HOPS);
                path.admit(
                    Side::Client,
                    Duration::ZERO,
                    &mut with_ttl(asked.clone(), ttl),
                );
                let left = leave(&mut path);
                let told = left
                    .first()
                    .map(|(at, _, packet)| (*at, icmp::time_to_live(packet).unwrap_or(0)));
                assert_eq!(told, answer, "time to live {ttl}");
                assert_eq!(path.to_server.counters.dropped_hop, 1);
                assert_eq!(path.to_client.counters.answers, u64::from(answer.is_some()));
                if let Some((_, _, packet)) = left.first() {
                    // The quoted packet arrived with a time to live of 1.
                    let quoted = &packet[if packet[0] >> 4 == 4 { 28 } else { 48 }..];
                    assert_eq!(quoted, with_ttl(asked.clone(), 1));
                }
            }
        }
    }

    #[test]
    fn the_server_meets_the_hops_in_the_opposite_order() {
        let mut path = transit(THREE_HOPS);
        path.admit(
            Side::Server,
            Duration::ZERO,
            &mut with_ttl(segment((80, 1), ACK, 0, 0), 1),
        );
        let left = leave(&mut path);
        // The last hop is 10 - 6 = 4 ms away from the server.
        assert_eq!((left[0].0, left[0].1), (8, Side::Client));
        assert_eq!(&left[0].2[12..16], [10, 77, 1, 3]);
    }

    #[test]
    fn what_ends_before_the_faulty_link_does_not_meet_it() {
        let lossy =
            |after: usize| format!("{THREE_HOPS}faults_after = {after}\nto_server.loss = 1.0\n");
        for (after, reaches) in [(0, false), (1, true), (3, true)] {
            let mut path = transit(&lossy(after));
            path.admit(
                Side::Client,
                Duration::ZERO,
                &mut with_ttl(segment((1, 80), SYN, 0, 0), 1),
            );
            assert_eq!(leave(&mut path).len(), usize::from(reaches), "{after}");
        }
    }

    #[test]
    fn a_narrow_link_tells_or_keeps_silent_or_cuts() {
        let narrow =
            |icmp| format!("round_trip = '20ms'\n[to_server]\nmtu = 1400\nicmp = {icmp}\n");
        for (icmp, answers) in [(true, 1), (false, 0)] {
            for mut large in [segment((1, 80), ACK, 0, 1400), datagram_v6(1400)] {
                let mut path = transit(&narrow(icmp));
                path.admit(Side::Client, Duration::ZERO, &mut large);
                let left = leave(&mut path);
                assert_eq!(left.len(), answers);
                assert_eq!(path.to_server.counters.dropped_mtu, 1);
                // The answer has half the path in each direction: 5 ms there and 5 ms back.
                assert!(
                    left.iter()
                        .all(|(at, from, _)| (*at, *from) == (10, Side::Server))
                );
            }
        }
        let mut path = transit(&narrow(true));
        let mut may_be_cut = segment((1, 80), ACK, 0, 1400);
        may_be_cut[6] = 0;
        path.admit(Side::Client, Duration::ZERO, &mut may_be_cut);
        path.admit(
            Side::Client,
            Duration::ZERO,
            &mut segment((1, 80), ACK, 0, 1360),
        );
        let sizes: Vec<_> = leave(&mut path).iter().map(|left| left.2.len()).collect();
        assert_eq!(sizes, [1396, 64, 1400]);
        assert_eq!(path.to_server.counters.fragments, 1);
    }

    #[test]
    fn a_super_segment_passes_a_narrow_link_if_its_parts_do() {
        let spec: PathSpec = toml::from_str("to_server = { mtu = 1400 }").expect("reads");
        for (part, passes) in [(1360u16, true), (1361, false)] {
            let mut path = Transit::new(&spec, Head::VirtioNet);
            let mut raw = Head::VirtioNet.before(&segment((1, 80), ACK, 0, 9000));
            raw[1] = 1;
            raw[4..6].copy_from_slice(&part.to_ne_bytes());
            path.admit(Side::Client, Duration::ZERO, &mut raw);
            let crossed = leave(&mut path).iter().any(|left| left.1 == Side::Client);
            assert_eq!(crossed, passes, "{part}");
        }
    }

    #[test]
    fn thinned_acks_leave_only_the_last() {
        let mut path = transit("[to_server]\ndelay = '5ms'\nthin_acks = { of = 4, wait = '2ms' }");
        for n in 0..6u32 {
            let at = Duration::from_micros(100) * n;
            path.admit(Side::Client, at, &mut segment((1, 80), ACK, n, 0));
        }
        let left: Vec<_> = leave(&mut path)
            .iter()
            .map(|left| (left.0, left.2[27]))
            .collect();
        // The fourth acknowledgement is forwarded at once, and the sixth when its time is over.
        assert_eq!(left, [(5, 3), (7, 5)]);
        assert_eq!(path.to_server.counters.dropped_thinned, 4);
    }

    #[test]
    fn connections_stay_on_one_member_and_one_member_is_ill() {
        let toml = "round_trip = '20ms'\nmembers = [{}, {}, {}, { to_server = { loss = 1.0 } }]\n";
        let mut path = transit(toml);
        let mut lost = 0;
        for port in 40_000..40_400 {
            let fates = [0, 1, 2].map(|_| {
                path.admit(Side::Client, MS, &mut segment((port, 80), ACK, 0, 0));
                leave(&mut path).len()
            });
            assert!(fates == [1, 1, 1] || fates == [0, 0, 0], "{fates:?}");
            lost += u32::from(fates[0] == 0);
        }
        assert!((60..140).contains(&lost), "{lost}");
    }

    #[test]
    fn a_route_may_change_its_length_and_its_routers() {
        let mut path = transit("[to_client]\nsteps = [{ at = '1s', delay = '30ms', ttl = 2 }]");
        let (early, late) = (MS, 1_000 * MS);
        for at in [early, late] {
            path.admit(Side::Server, at, &mut segment((80, 1), ACK, 0, 0));
        }
        let left: Vec<_> = leave(&mut path)
            .iter()
            .map(|left| (left.0, left.2[8]))
            .collect();
        assert_eq!(left, [(1, 64), (1030, 62)]);
    }

    #[test]
    fn what_the_machine_keeps_waiting_is_late() {
        let mut path = transit("round_trip = '20ms'");
        for (after, late) in [(LATE, 0), (LATE + Duration::from_nanos(1), 1)] {
            path.admit(
                Side::Client,
                Duration::ZERO,
                &mut segment((1, 80), ACK, 0, 100),
            );
            let due = path.next_due().expect("it is under way");
            assert!(path.take_due(Side::Client, due + after).is_some());
            assert_eq!(path.to_server.counters.late, late);
        }
    }

    #[test]
    fn duplicates_and_overtaking_are_counted() {
        let mut path = transit("[to_client]\nduplicate = { share = 1.0, gap = '3ms' }");
        for at in [1, 2] {
            path.admit(Side::Server, MS * at, &mut segment((80, 1), ACK, 0, 0));
        }
        let left: Vec<_> = leave(&mut path).iter().map(|left| left.0).collect();
        assert_eq!(left, [1, 2, 4, 5]);
        let counters = path.to_client.counters;
        assert_eq!((counters.duplicated, counters.reordered), (2, 1));
    }

    #[test]
    fn whatever_is_sent_nothing_breaks() {
        let toml = format!(
            "{THREE_HOPS}members = [{{}}, {{}}]\n[to_server]\nmtu = 1280\n\
             thin_acks = {{ of = 2, wait = '1ms' }}\ndrop = [{{ flags = 'syn', nth = [1], per_flow = true }}]\n"
        );
        let spec: PathSpec = toml::from_str(&toml).expect("reads");
        for head in [Head::None, Head::VirtioNet] {
            let mut path = Transit::new(&spec, head);
            for whole in [
                segment((1, 2), ACK, 7, 1400),
                datagram_v6(1400),
                vec![0; 60],
            ] {
                let whole = head.before(&whole);
                for cut in 0..80.min(whole.len()) {
                    path.admit(Side::Client, MS, &mut whole[..cut].to_vec());
                    for value in [0, 1, 2, 0x0F, 0x45, 0x4F, 0x60, 44, 0xFF] {
                        let mut bytes = whole.clone();
                        bytes[cut] = value;
                        path.admit(Side::Client, MS, &mut bytes.clone());
                        path.admit(Side::Server, MS, &mut bytes);
                    }
                }
            }
            leave(&mut path);
        }
    }
}
