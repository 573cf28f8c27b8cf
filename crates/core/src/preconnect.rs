//! Steps before a connection's first SYN: the lookup of a name, the resolution of a neighbour's
//! hardware address, and an attempt at another address.
//!
//! The input is the DNS messages, ARP and NDP packets, and SYNs of all flows, in the order in which
//! one observation point saw them. The output is the steps for which a connection waited before it
//! began. Only this module relates flows to each other.

pub(crate) mod chain;
pub(crate) mod elsewhere;
pub(crate) mod lookup;
pub(crate) mod neighbour;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::observed::datagram::{Datagram, Neighbour};
use crate::observed::event::PointId;
use crate::observed::segment::{Segment, TcpFlags};
use crate::protocol::dns;

pub(crate) use chain::Chain;
pub(crate) use elsewhere::Elsewhere;
pub(crate) use lookup::{Lookup, LostQueries, Resolved, ResolvedKind, ResolverWait, SeenLookups};
pub(crate) use neighbour::{Search, Silent};

/// The steps for which a connection waited before its first SYN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Approach {
    /// The lookup of the server's name.
    pub(crate) lookup: Option<Lookup>,
    /// Queries to the local link (multicast DNS, LLMNR) before that lookup.
    pub(crate) chain: Option<Chain>,
    /// The resolution of the next hop's hardware address.
    pub(crate) search: Option<Search>,
    /// The attempt to connect to another address of the same server.
    pub(crate) elsewhere: Option<Elsewhere>,
}

/// Lookups, address resolutions and connection attempts in progress, which a connection may follow.
#[derive(Debug, Default)]
pub(crate) struct Approaches {
    lookups: lookup::Lookups,
    chains: chain::Chains,
    searches: neighbour::Searches,
    heard: neighbour::HeardHosts,
    attempts: elsewhere::UnansweredAttempts,
}

impl Approaches {
    /// Processes a datagram.
    pub(crate) fn datagram(&mut self, datagram: &Datagram, payload: &[u8]) {
        let source = datagram.flow.source(datagram.direction);
        let destination = datagram.flow.destination(datagram.direction);
        self.heard.packet_to(datagram.point, destination.addr);
        let is_of = |port| source.port == port || destination.port == port;
        let place = lookup::MessageSighting {
            at: datagram.at,
            number: datagram.number,
            point: datagram.point,
            source,
            destination,
            is_stream: false,
        };
        if is_of(dns::PORT) {
            if let Some(message) = dns::read(payload) {
                self.message(&message, place);
            }
        } else if is_of(chain::MDNS_PORT) || is_of(chain::LLMNR_PORT) {
            dns::read_questions(payload, |message| {
                self.chains.observe_message(message, place)
            });
        }
    }

    /// Processes a step of the resolution of a hardware address.
    pub(crate) fn neighbour(&mut self, step: &Neighbour) {
        if step.is_answer {
            self.heard.packet_to(step.point, step.asker);
        }
        self.searches.observe_message(step);
    }

    /// Processes a segment; most segments are irrelevant. If the segment is a SYN, returns the
    /// steps for which its connection waited.
    #[inline]
    pub(crate) fn segment(&mut self, segment: &Segment, payload: &[u8]) -> Option<Box<Approach>> {
        if segment.flags.0 & (TcpFlags::SYN.0 | TcpFlags::RST.0) != 0 {
            return self.opening(segment).map(Box::new);
        }
        if !payload.is_empty() {
            let (low, high) = segment.flow.ends();
            if low.port == dns::PORT || high.port == dns::PORT {
                self.stream(segment, payload);
            }
        }
        None
    }

    /// Returns the hosts that never answered a request for their hardware address. The answer goes
    /// only to the asker, so a host is listed only if the capture would contain that answer.
    pub(crate) fn silent(&self) -> Vec<Silent> {
        let mut list = self.searches.silent();
        list.retain(|&(point, silent)| {
            self.heard.is_told(point, silent.asker) || self.searches.is_only(point, silent.asker)
        });
        list.into_iter().map(|(_, silent)| silent).collect()
    }

    /// Returns the number of lookups, with or without a connection after them, and the unanswered
    /// lookups. The capture contains what arrives at the addresses in `local`.
    pub(crate) fn asked(&self, local: &BTreeSet<(PointId, IpAddr)>) -> SeenLookups {
        let mut asked = self.lookups.asked();
        let is_told = |point, client| {
            asked.is_answered
                || self.heard.is_told(point, client)
                || local.contains(&(point, client))
        };
        asked
            .unanswered
            .retain(|lost| is_told(lost.point, lost.client));
        asked
            .waits
            .retain(|wait| wait.end.is_some() || is_told(wait.point, wait.client));
        if !asked.is_answered && self.lookups.asks_anybody() {
            // If none of many queries is answered, the capture contains only one direction, or the
            // traffic is synthetic.
            asked.unanswered.clear();
        }
        let shows_answers = asked.is_answered || !asked.unanswered.is_empty();
        asked.resolved = self.lookups.resolved(shows_answers);
        asked
    }

    /// Returns the resolvers, each with its minimum answer time.
    pub(crate) fn resolvers(&self) -> BTreeMap<IpAddr, Duration> {
        self.lookups.resolvers.clone()
    }

    #[cold]
    fn stream(&mut self, segment: &Segment, payload: &[u8]) {
        let place = lookup::MessageSighting {
            at: segment.at,
            number: segment.number,
            point: segment.point,
            source: segment.flow.source(segment.direction),
            destination: segment.flow.destination(segment.direction),
            is_stream: true,
        };
        dns::read_segment(payload, |message| self.message(&message, place));
    }

    fn message(&mut self, message: &dns::Message, place: lookup::MessageSighting) {
        if message.is_answer {
            self.lookups.answer(message, place);
        } else {
            // The query itself may have waited for the resolution of a hardware address.
            let searched = self
                .searches
                .before(place.point, place.source.addr, place.at);
            self.lookups.query(message, place, searched);
        }
    }

    fn opening(&mut self, segment: &Segment) -> Option<Approach> {
        let destination = segment.flow.destination(segment.direction);
        self.heard.packet_to(segment.point, destination.addr);
        if segment.flags.contains(TcpFlags::ACK) || segment.flags.contains(TcpFlags::RST) {
            self.attempts.answered(segment);
            return None;
        }
        let source = segment.flow.source(segment.direction);
        if destination.port == dns::PORT || !self.attempts.is_first(segment) {
            return None;
        }
        let found = self
            .lookups
            .before(segment.point, source.addr, destination.addr, segment.at);
        let elsewhere = self.attempts.begin(segment, found.as_ref().map(|f| f.id));
        let (lookup, looked_up_late) = match found {
            Some(found) => (found.lookup, found.searched),
            None => (None, None),
        };
        let chain = lookup.as_ref().and_then(|lookup| {
            self.chains
                .before(segment.point, source.addr, &lookup.name, lookup.begin)
        });
        let search = self
            .searches
            .before(segment.point, source.addr, segment.at)
            .or(looked_up_late);
        let approach = Approach {
            lookup,
            chain,
            search,
            elsewhere,
        };
        (approach != Approach::default()).then_some(approach)
    }
}
