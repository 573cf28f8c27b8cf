//! Resolution of hardware addresses, and packets that had to wait for it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::{BTreeMap, HashSet};

use foldhash::fast::FixedState;

use crate::observed::datagram::Neighbour;
use crate::observed::event::PointId;
use crate::observed::packet::PacketRange;
use crate::observed::time::Timestamp;

/// Maximum number of searches remembered. Beyond that, new ones are ignored, as during a scan of a
/// network.
const MAX_SEARCHES: usize = 4096;
/// Maximum time from the answer until the packets that waited in the kernel leave. The kernel sends
/// them as soon as it has the address (`neigh_update()` in `net/core/neighbour.c`).
const AT_ONCE: Duration = Duration::from_millis(2);
/// Minimum time between a request and its retry. The kernel retries after `retrans_time_ms`, a
/// second, so closer requests are copies or come from several hosts.
const REPEAT: Duration = Duration::from_millis(300);
/// Number of requests after which the kernel gives up (`mcast_solicit`).
pub(crate) const GIVES_UP_AFTER: u32 = 3;
/// Maximum time between requests of one search.
const FORGET: Duration = Duration::from_secs(5);

/// A completed search for a hardware address, for which a packet had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) target: IpAddr,
    /// The time from the first request to the answer.
    pub(crate) took: Duration,
    pub(crate) requests: u32,
    pub(crate) packets: SearchPackets,
}

/// The packets of an answered search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SearchPackets {
    pub(crate) first_request: u64,
    pub(crate) last_request: u64,
    pub(crate) answer: u64,
}

impl SearchPackets {
    /// Returns the packet numbers in the order in which the packets were sent.
    pub(crate) fn numbers(self) -> [u64; 3] {
        [self.first_request, self.last_request, self.answer]
    }
}

/// A host that never answered a request for its hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Silent {
    pub(crate) target: IpAddr,
    pub(crate) asker: IpAddr,
    pub(crate) requests: u32,
    /// The time from the first request to the last.
    pub(crate) took: Duration,
    pub(crate) packets: PacketRange,
}

/// The answer to a search.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Timestamp,
    number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    first: Timestamp,
    last: Timestamp,
    requests: u32,
    packets: PacketRange,
    answer: Option<Answer>,
    has_ever_answered: bool,
}

/// All searches of a capture, by asker and target.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    open: BTreeMap<(PointId, IpAddr, IpAddr), Open>,
    /// The target of each asker's last answered search, until the asker sends a packet.
    answered: BTreeMap<(PointId, IpAddr), IpAddr>,
}

/// Hosts to which unicast packets were seen, by observation point.
///
/// ARP requests are broadcast and reach every point of a link. Replies are unicast and do not.
#[derive(Debug, Default)]
pub(crate) struct HeardHosts {
    hosts: HashSet<(u128, u32), FixedState>,
    /// The latest two entries. Most packets go back and forth between two hosts, so this saves
    /// lookups in `hosts`.
    last: [Option<(PointId, IpAddr)>; 2],
}

impl HeardHosts {
    /// Records a packet to `host`.
    pub(crate) fn packet_to(&mut self, point: PointId, host: IpAddr) {
        if self.last.contains(&Some((point, host))) {
            return;
        }
        self.last = [self.last[1], Some((point, host))];
        if self.hosts.len() < MAX_SEARCHES && !is_many(host) {
            self.hosts.insert(numbers(point, host));
        }
    }

    pub(crate) fn is_told(&self, point: PointId, host: IpAddr) -> bool {
        self.hosts.contains(&numbers(point, host))
    }
}

/// Returns a host and a point as numbers, which are faster to compare than addresses.
fn numbers(point: PointId, host: IpAddr) -> (u128, u32) {
    let point = u32::from(point.0) << 1;
    match host {
        IpAddr::V4(host) => (u128::from(host.to_bits()), point),
        IpAddr::V6(host) => (host.to_bits(), point | 1),
    }
}

/// Returns true if `to` may be a broadcast or multicast address. The netmask is not known, but
/// nearly all netmasks end at an octet.
fn is_many(to: IpAddr) -> bool {
    let is_broadcast = |v4: core::net::Ipv4Addr| v4.octets()[3] == 255;
    to.is_multicast() || matches!(to, IpAddr::V4(v4) if is_broadcast(v4))
}

impl Searches {
    pub(crate) fn observe_message(&mut self, step: &Neighbour) {
        let key = (step.point, step.asker, step.target);
        let has_room = self.open.len() < MAX_SEARCHES;
        match self.open.get_mut(&key) {
            Some(open) if step.is_answer => {
                if open.answer(step) {
                    self.answered.insert((step.point, step.asker), step.target);
                }
            }
            Some(open) => open.ask(step),
            None if step.is_answer || !has_room => {}
            None => {
                self.open.insert(key, Open::new(step));
            }
        }
    }

    /// Returns the search of `asker` that ended just before the asker sent a packet at `at`.
    pub(crate) fn before(
        &mut self,
        point: PointId,
        asker: IpAddr,
        at: Timestamp,
    ) -> Option<Search> {
        if self.answered.is_empty() {
            return None;
        }
        let target = self.answered.remove(&(point, asker))?;
        let open = self.open.get(&(point, asker, target))?;
        let answer = open.answer?;
        let is_at_once = at >= answer.at && at.since(answer.at) <= AT_ONCE;
        is_at_once.then(|| Search {
            target,
            took: answer.at.since(open.first),
            requests: open.requests,
            packets: SearchPackets {
                first_request: open.packets.first,
                last_request: open.packets.last,
                answer: answer.number,
            },
        })
    }

    /// Returns true if no other host than `asker` searches at this observation point. The point is
    /// then probably on this host.
    pub(crate) fn is_only(&self, point: PointId, asker: IpAddr) -> bool {
        let least = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let most = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));
        let mut searches = self.open.range((point, least, least)..=(point, most, most));
        // Searches are sorted by asker, so comparing the first and the last one suffices.
        let (first, last) = (searches.next(), searches.next_back());
        let mut ends = first.into_iter().chain(last);
        ends.all(|(&(_, other, _), _)| other == asker)
    }

    /// Returns the searches that the kernel gave up, in the order of their targets.
    pub(crate) fn silent(&self) -> Vec<(PointId, Silent)> {
        let given_up = self
            .open
            .iter()
            .filter(|(_, open)| !open.has_ever_answered && open.requests >= GIVES_UP_AFTER);
        let mut list: Vec<_> = given_up
            .map(|(&(point, asker, target), open)| {
                let silent = Silent {
                    target,
                    asker,
                    requests: open.requests,
                    took: open.last.since(open.first),
                    packets: open.packets,
                };
                (point, silent)
            })
            .collect();
        list.sort_unstable_by_key(|&(_, silent)| silent);
        list
    }
}

impl Open {
    fn new(step: &Neighbour) -> Self {
        Self {
            first: step.at,
            last: step.at,
            requests: 1,
            packets: PacketRange::of_one(step.number),
            answer: None,
            has_ever_answered: false,
        }
    }

    fn ask(&mut self, step: &Neighbour) {
        let since = step.at.since(self.last);
        let is_over = self.answer.is_some() || since > FORGET;
        if is_over {
            let has_ever_answered = self.has_ever_answered;
            *self = Self {
                has_ever_answered,
                ..Self::new(step)
            };
        } else if since >= REPEAT {
            self.requests += 1;
            self.last = step.at;
            self.packets.last = step.number;
        }
    }

    /// Processes an answer. Returns true if it is the first one.
    fn answer(&mut self, step: &Neighbour) -> bool {
        self.has_ever_answered = true;
        let is_first = self.answer.is_none();
        if is_first {
            self.answer = Some(Answer {
                at: step.at,
                number: step.number,
            });
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: PointId = PointId(0);

    fn host(last: u8) -> IpAddr {
        [10, 77, 0, last].into()
    }

    /// Feeds in as many requests from `asker` for `target` as the kernel would send.
    fn ask(searches: &mut Searches, asker: u8, target: u8) {
        for second in 0..i64::from(GIVES_UP_AFTER) {
            searches.observe_message(&Neighbour {
                at: Timestamp::from_nanos(second * 1_000_000_000),
                number: 1,
                point: POINT,
                asker: host(asker),
                target: host(target),
                is_answer: false,
            });
        }
    }

    #[test]
    fn among_several_askers_nobody_is_known_to_be_the_captures_own() {
        let mut searches = Searches::default();
        ask(&mut searches, 1, 2);
        assert!(searches.is_only(POINT, host(1)));
        ask(&mut searches, 3, 4);
        assert!(!searches.is_only(POINT, host(1)));
    }

    #[test]
    fn what_goes_to_all_tells_nobody() {
        let mut heard = HeardHosts::default();
        heard.packet_to(POINT, host(255));
        heard.packet_to(POINT, [224, 0, 0, 1].into());
        assert!(!heard.is_told(POINT, host(255)));
        heard.packet_to(POINT, host(1));
        assert!(heard.is_told(POINT, host(1)));
        assert!(!heard.is_told(PointId(1), host(1)));
    }
}
