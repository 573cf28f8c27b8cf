//! Names for which a host queries its local link before its resolver, by multicast DNS (RFC 6762)
//! or LLMNR (RFC 4795). An entry before `dns` in `nsswitch.conf` causes this, or a resolver on the
//! host.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::lookup::MessageSighting;
use crate::observed::event::PointId;
use crate::observed::packet::PacketRange;
use crate::observed::time::Timestamp;
use crate::protocol::dns::Message;

/// Port of multicast DNS.
pub(super) const MDNS_PORT: u16 = 5353;
/// Port of link-local multicast name resolution.
pub(super) const LLMNR_PORT: u16 = 5355;
/// Maximum number of queries remembered; the oldest are dropped.
const MAX_QUESTIONS: usize = 256;
/// Maximum time for which a program waits for answers from the link. avahi gives up after 5 s, and
/// systemd-resolved sooner.
const LONGEST: Duration = Duration::from_secs(6);

/// Unanswered queries to the link before a lookup of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The time from the first query to the lookup.
    pub(crate) took: Duration,
    /// Number of queries.
    pub(crate) questions: u32,
    /// True if the queries were LLMNR, false if they were multicast DNS.
    pub(crate) is_llmnr: bool,
    /// The first and the last packet.
    pub(crate) packets: PacketRange,
}

#[derive(Clone, Debug)]
struct Question {
    begin: Timestamp,
    last: Timestamp,
    count: u32,
    is_llmnr: bool,
    packets: PacketRange,
}

/// Queries to the link, by host and name.
#[derive(Debug, Default)]
pub(super) struct Chains {
    open: BTreeMap<(PointId, IpAddr, String), Question>,
}

impl Chains {
    /// Processes a query or an answer.
    pub(super) fn observe_message(&mut self, message: Message, place: MessageSighting) {
        if message.is_answer {
            // The answer may be to any host's query for the name, so all of them count as answered.
            self.open
                .retain(|(point, _, name), _| *point != place.point || *name != message.name);
            return;
        }
        if self.open.len() >= MAX_QUESTIONS {
            let oldest = self
                .open
                .iter()
                .min_by_key(|(key, question)| (question.begin, *key));
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.open.remove(&key);
            }
        }
        let key = (place.point, place.source.addr, message.name);
        let fresh = Question {
            begin: place.at,
            last: place.at,
            count: 0,
            is_llmnr: place.destination.port == LLMNR_PORT,
            packets: PacketRange::of_one(place.number),
        };
        let question = self.open.entry(key).or_insert_with(|| fresh.clone());
        if place.at.since(question.last) > LONGEST {
            *question = fresh;
        }
        question.last = place.at;
        question.count += 1;
        question.packets.last = place.number;
    }

    /// Removes and returns the queries that `client` sent to its link before it looked up `name` at
    /// `begin`.
    pub(super) fn before(
        &mut self,
        point: PointId,
        client: IpAddr,
        name: &str,
        begin: Timestamp,
    ) -> Option<Chain> {
        if self.open.is_empty() {
            return None;
        }
        let found = self.open.iter().find(|((at, _, asked), question)| {
            *at == point && asked == name && question.last <= begin
        });
        let (key, question) = found?;
        let is_same_host = key.1 == client || key.1.is_ipv4() != client.is_ipv4();
        if !is_same_host || begin.since(question.last) > LONGEST {
            return None;
        }
        let chain = Chain {
            took: begin.since(question.begin),
            questions: question.count,
            is_llmnr: question.is_llmnr,
            packets: question.packets,
        };
        let key = key.clone();
        self.open.remove(&key);
        Some(chain)
    }
}
