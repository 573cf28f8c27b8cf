//! Names for which a host asks its link before it asks its resolver: multicast DNS (RFC 6762) and
//! LLMNR (RFC 4795), caused by an entry of `nsswitch.conf` before `dns`, or by a local resolver.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::lookup::Place;
use crate::observed::event::PointId;
use crate::observed::packet::PacketRange;
use crate::observed::time::Timestamp;
use crate::protocol::dns::Message;

/// Port of multicast DNS.
pub(super) const MDNS_PORT: u16 = 5353;
/// Port of link-local multicast name resolution.
pub(super) const LLMNR_PORT: u16 = 5355;
/// Maximum number of questions remembered; the oldest are dropped.
const MAX_QUESTIONS: usize = 256;
/// Maximum time for which a program waits for the link: avahi gives up after 5 s, resolved sooner.
const LONGEST: Duration = Duration::from_secs(6);

/// Unanswered questions to the link before a lookup of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The time from the first question to the lookup.
    pub(crate) took: Duration,
    /// Number of questions.
    pub(crate) questions: u32,
    /// True if the questions were LLMNR's.
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

/// Questions to the link, by host and name.
#[derive(Debug, Default)]
pub(super) struct Chains {
    open: BTreeMap<(PointId, IpAddr, String), Question>,
}

impl Chains {
    /// Takes in a question or an answer.
    pub(super) fn observe_message(&mut self, message: Message, place: Place) {
        if message.is_answer {
            // An answer may be to any host's question, so it is given to all of them.
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

    /// Removes and returns the questions that `client` asked its link before it looked up `name` at
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
