//! The routers on a path.
//!
//! The routers are in a row between the hosts. A packet that is addressed to a router, or whose
//! time to live ends at a router, goes no further; the router may answer it. There is no I/O, and
//! the time is passed in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bottleneck::{PolicerSpec, TokenBucket};
use super::icmp::RouterAddress;
use crate::quantity::{Rate, Size, duration};
use crate::side::Side;

/// A router on the path. The first in a list is next to the client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HopSpec {
    /// The delay to this hop from the previous one, or from the client, in either direction. It is
    /// a part of the path's delay, not an addition.
    #[serde(with = "duration")]
    pub delay: Duration,
    /// The rule for answers to echo requests and to packets whose time to live ends at this router.
    pub answers: Answers,
    /// The number of answers per second if `answers = "limited"`: 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// The router's IPv4 address, within 10.77.1.0/24; by default 10.77.1.N for the N-th hop. Its
    /// IPv6 address ends in the same number: fd77:0:0:1::N.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
}

/// The rate at which a router answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// Answers every time.
    #[default]
    Always,
    /// Never answers: a traceroute prints `*`.
    Never,
    /// Answers a few times per second, as most routers do.
    Limited,
}

/// Maximum number of routers of a path.
pub(super) const HOP_LIMIT: usize = 32;

/// The network of the routers' addresses.
const NETWORK: [u8; 3] = [10, 77, 1];

/// The last number of the address of the router before a narrow link, on a path without configured
/// hops.
const NAMELESS: u8 = 254;

pub(super) fn check(hops: &[HopSpec], one_way: Duration) -> Result<(), String> {
    if hops.len() > HOP_LIMIT {
        return Err(format!("it has more than {HOP_LIMIT} hops"));
    }
    let is_ours = |address: &Ipv4Addr| address.octets()[..3] == NETWORK;
    if let Some(address) = hops
        .iter()
        .filter_map(|hop| hop.address)
        .find(|address| !is_ours(address))
    {
        return Err(format!("its hop {address} is not in 10.77.1.0/24"));
    }
    let sum = hops
        .iter()
        .try_fold(Duration::ZERO, |sum, hop| sum.checked_add(hop.delay));
    if sum.is_none_or(|sum| sum > one_way) {
        Err("its hops are farther away than the other host".to_owned())
    } else {
        Ok(())
    }
}

/// The routers of a path, numbered from 1, starting at the client.
#[derive(Debug, Clone)]
pub(super) struct Hops {
    hops: Vec<Hop>,
    /// The number of routers between the client and the link with the lanes' faults.
    faults_after: usize,
}

#[derive(Debug, Clone)]
struct Hop {
    from_client: Duration,
    address: RouterAddress,
    answers: Answers,
    allowance: TokenBucket,
}

impl Hops {
    pub(super) fn new(specs: &[HopSpec], faults_after: Option<usize>) -> Self {
        let mut from_client = Duration::ZERO;
        let hops: Vec<Hop> = (1..)
            .zip(specs)
            .map(|(number, spec): (u8, _)| {
                from_client = from_client.saturating_add(spec.delay);
                Hop {
                    from_client,
                    address: address(spec.address.map_or(number, |address| address.octets()[3])),
                    answers: spec.answers,
                    allowance: allowance(spec.rate.unwrap_or(1)),
                }
            })
            .collect();
        Self {
            faults_after: faults_after.unwrap_or(hops.len()).min(hops.len()),
            hops,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.hops.len()
    }

    /// Returns the hop at which a packet from this side ends: the packet is addressed to that hop,
    /// or its time to live does not reach further.
    pub(super) fn where_ends(&self, from: Side, time_to_live: u8, to: IpAddr) -> Option<usize> {
        let own = |hop: &Hop| to == IpAddr::V4(hop.address.v4) || to == IpAddr::V6(hop.address.v6);
        // A router decreases the time to live by one, and forwards the packet only if it is still
        // above zero.
        let reached = usize::from(time_to_live.max(1));
        let dies = (reached <= self.count()).then(|| self.in_order(from, reached));
        let addressed = self.hops.iter().position(own).map(|at| at + 1);
        match (dies, addressed) {
            (Some(dies), Some(own)) => Some(if self.steps(from, own) <= self.steps(from, dies) {
                own
            } else {
                dies
            }),
            (dies, own) => dies.or(own),
        }
    }

    /// Returns the number of the n-th hop from a side.
    fn in_order(&self, from: Side, n: usize) -> usize {
        match from {
            Side::Client => n,
            Side::Server => self.count() + 1 - n,
        }
    }

    /// Returns the number of hops from a side to this hop, including this hop.
    pub(super) fn steps(&self, from: Side, hop: usize) -> usize {
        self.in_order(from, hop)
    }

    /// Returns the delay between a side and a hop, as a part of the path's total delay `whole`.
    pub(super) fn distance(&self, side: Side, hop: usize, whole: Duration) -> Duration {
        let Some(from_client) = self.at(hop).map(|hop| hop.from_client) else {
            return whole / 2;
        };
        match side {
            Side::Client => from_client,
            Side::Server => whole.saturating_sub(from_client),
        }
    }

    /// Returns true if the lanes' faults are between a side and a hop.
    pub(super) fn is_behind_faults(&self, side: Side, hop: usize) -> bool {
        match side {
            Side::Client => hop > self.faults_after,
            Side::Server => hop <= self.faults_after,
        }
    }

    /// Returns the router before the faulty link for a packet from this side; 0, which stands for
    /// an unnamed router, if there is no hop.
    pub(super) fn before_faults(&self, from: Side) -> usize {
        match from {
            Side::Client => self.faults_after,
            Side::Server if self.faults_after < self.count() => self.faults_after + 1,
            Side::Server => 0,
        }
    }

    /// Returns the address from which a hop answers, if it answers now.
    pub(super) fn answers(&mut self, hop: usize, now: Duration) -> Option<RouterAddress> {
        let Some(hop) = hop.checked_sub(1).and_then(|at| self.hops.get_mut(at)) else {
            return Some(address(NAMELESS));
        };
        let willing = match hop.answers {
            Answers::Always => true,
            Answers::Never => false,
            Answers::Limited => hop.allowance.take(now, 1),
        };
        willing.then_some(hop.address)
    }

    fn at(&self, hop: usize) -> Option<&Hop> {
        self.hops.get(hop.checked_sub(1)?)
    }
}

fn address(number: u8) -> RouterAddress {
    let [a, b, c] = NETWORK;
    RouterAddress {
        v4: Ipv4Addr::new(a, b, c, number),
        v6: Ipv6Addr::new(0xfd77, 0, 0, 1, 0, 0, 0, number.into()),
    }
}

/// Returns the token bucket for this number of answers per second: an answer takes one byte, and
/// the burst is one byte.
fn allowance(rate: u32) -> TokenBucket {
    let bits = u64::from(rate.max(1)) * 8;
    TokenBucket::new(PolicerSpec {
        rate: Rate::from_bits_per_second(bits).expect("at least 8"),
        burst: Size::from_bytes(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

    fn three(faults_after: Option<usize>) -> Hops {
        let hop = |answers| HopSpec {
            delay: 2 * MS,
            answers,
            ..HopSpec::default()
        };
        let specs = [Answers::Always, Answers::Never, Answers::Limited].map(hop);
        Hops::new(&specs, faults_after)
    }

    #[test]
    fn a_packet_ends_where_its_time_to_live_or_its_address_says() {
        let hops = three(None);
        let from_client = [0, 1, 2, 3, 4].map(|ttl| hops.where_ends(Side::Client, ttl, FAR));
        assert_eq!(from_client, [Some(1), Some(1), Some(2), Some(3), None]);
        let from_server = [1, 2, 3, 4].map(|ttl| hops.where_ends(Side::Server, ttl, FAR));
        assert_eq!(from_server, [Some(3), Some(2), Some(1), None]);
        let second = IpAddr::from([10, 77, 1, 2]);
        assert_eq!(hops.where_ends(Side::Client, 64, second), Some(2));
        assert_eq!(hops.where_ends(Side::Client, 2, second), Some(2));
        assert_eq!(hops.where_ends(Side::Client, 1, second), Some(1));
        assert_eq!(hops.where_ends(Side::Server, 1, second), Some(3));
    }

    #[test]
    fn distances_and_faults_are_seen_from_either_side() {
        let hops = three(Some(1));
        assert_eq!(hops.distance(Side::Client, 3, 10 * MS), 6 * MS);
        assert_eq!(hops.distance(Side::Server, 3, 10 * MS), 4 * MS);
        let behind = |side| [1, 2, 3].map(|hop| hops.is_behind_faults(side, hop));
        assert_eq!(behind(Side::Client), [false, true, true]);
        assert_eq!(behind(Side::Server), [true, false, false]);
        assert_eq!(hops.before_faults(Side::Client), 1);
        assert_eq!(hops.before_faults(Side::Server), 2);
        assert_eq!(three(None).before_faults(Side::Server), 0);
    }

    #[test]
    fn each_answers_in_its_way() {
        let mut hops = three(None);
        let mut answers = |hop, at| hops.answers(hop, MS * at).is_some();
        assert!((0..9).all(|at| answers(1, at)));
        assert!((0..9).all(|at| !answers(2, at)));
        let limited: Vec<_> = [0, 1, 999, 1_000, 1_001, 5_000, 5_001]
            .map(|at| answers(3, at))
            .into();
        assert_eq!(limited, [true, false, false, true, false, true, false]);
    }

    #[test]
    fn nonsense_is_refused() {
        let far = HopSpec {
            delay: 5 * MS,
            ..HopSpec::default()
        };
        assert!(check(&[far.clone(), far.clone()], 9 * MS).is_err());
        assert!(check(&[far.clone(), far.clone()], 10 * MS).is_ok());
        assert!(check(&vec![HopSpec::default(); HOP_LIMIT + 1], MS).is_err());
        let elsewhere = HopSpec {
            address: Some(Ipv4Addr::new(192, 0, 2, 1)),
            ..far
        };
        assert!(check(&[elsewhere], 10 * MS).is_err());
    }
}
