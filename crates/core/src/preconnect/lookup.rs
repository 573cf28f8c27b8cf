//! Name lookups: queries, retries and answers, combined into what a waiting program sees as one
//! lookup.

mod open;
mod resolver;
mod times;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use open::OpenLookup;
use resolver::Resolvers;
pub(crate) use resolver::{Resolved, ResolvedKind};
pub(crate) use times::ResolverWait;
use times::ResolverWaits;

use super::Search;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::packet::PacketRange;
use crate::observed::time::Timestamp;
use crate::protocol::dns::Message;

/// Maximum total number of lookups remembered; the oldest are dropped.
const MAX_LOOKUPS: usize = 4096;
/// Maximum number of lookups per host that are in progress or just completed; the oldest are
/// dropped.
const MAX_OF_CLIENT: usize = 32;
/// Maximum number of lookups remembered for one address in their answers; the oldest are dropped.
const MAX_OF_ADDRESS: usize = 16;
/// Maximum number of unanswered lookups kept after their removal from the list of lookups.
const MAX_GIVEN_UP: usize = 64;
/// Maximum number of resolvers whose minimum answer time is stored.
const MAX_RESOLVERS: usize = 256;
/// Maximum number of resolvers that one host queries one after another (resolv.conf(5), `MAXNS`).
const MAX_OF_HOST: usize = 3;
/// Maximum time from the last answer until a program connects. In a capture at the resolver, this
/// includes the round trip to the client.
const NEXT: Duration = Duration::from_secs(1);
/// Maximum time until a program tries another of the addresses: about the time for which Linux
/// retries the first one (`tcp_syn_retries`).
const NEXT_ADDRESS: Duration = Duration::from_secs(135);

/// Time and place at which a message was seen, and its source and destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageSighting {
    pub(super) at: Timestamp,
    pub(super) number: u64,
    pub(super) point: PointId,
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    /// True if the message came over TCP.
    pub(super) is_stream: bool,
}

/// A lookup after which a connection was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The name that was found in the end.
    pub(crate) name: String,
    pub(crate) resolver: IpAddr,
    /// Time of the first query.
    pub(crate) begin: Timestamp,
    /// The time from the first query to the last answer before the connection.
    pub(crate) took: Duration,
    /// The time until unanswered queries were retried.
    pub(crate) retried: Duration,
    /// The longest time from the last retry of a query to its answer.
    pub(crate) answered_after_retry: Duration,
    /// The queries that had to be retried.
    pub(crate) lost: LostQueries,
    /// The resolver that answered what the first one had left unanswered.
    pub(crate) second: Option<IpAddr>,
    /// Number of names that were queried.
    pub(crate) names: u32,
    /// The time spent on other names that do not exist, before the first query for the name.
    pub(crate) searched: Duration,
    /// Number of these names.
    pub(crate) suffixes: u32,
    /// The time from a truncated answer to the complete answer over TCP.
    pub(crate) streamed: Duration,
    /// The time spent waiting for answers, over all names, if each query was sent once; `None` if a
    /// query was retried or repeated over TCP.
    pub(crate) waited: Option<Duration>,
    /// The first and the last packet.
    pub(crate) packets: PacketRange,
}

/// The queries of a lookup that were lost and had to be retried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LostQueries {
    /// No query.
    #[default]
    Nothing,
    /// The second of two queries sent from one socket. The first was answered immediately.
    SecondOfTwo,
    /// Any other query.
    Something,
}

/// Lookups of a capture, with or without a connection after them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SeenLookups {
    /// The number of lookups.
    pub(crate) count: u64,
    /// True if any answer was seen. Missing answers would then also have been captured.
    pub(crate) is_answered: bool,
    /// Lookups whose query was retried and never answered, oldest first.
    pub(crate) unanswered: Vec<Unanswered>,
    /// Lookups after which no connection was opened, by resolver.
    pub(crate) resolved: BTreeMap<IpAddr, Resolved>,
    /// The earliest waits for resolvers, in the order in which they began.
    pub(crate) waits: Vec<ResolverWait>,
}

/// A lookup without an answer. Its name and resolver are those of the query that was retried most
/// often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    pub(crate) point: PointId,
    pub(crate) client: IpAddr,
    pub(crate) name: String,
    pub(crate) resolver: IpAddr,
    pub(crate) sends: u32,
    /// The time from the first query to the last.
    pub(crate) took: Duration,
}

/// The result of [`Lookups::before`].
#[derive(Debug)]
pub(super) struct Found {
    /// Number of the lookup. It is the same for all connections to the lookup's addresses.
    pub(super) id: u64,
    /// The lookup; present only for the first of these connections.
    pub(super) lookup: Option<Lookup>,
    /// The resolution of a hardware address for which the first query waited.
    pub(super) searched: Option<Search>,
}

/// The lookups of a capture.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// Lookups by number; the oldest has the lowest number.
    list: BTreeMap<u64, OpenLookup>,
    of_client: BTreeMap<(PointId, IpAddr), VecDeque<u64>>,
    of_address: BTreeMap<(PointId, IpAddr), VecDeque<u64>>,
    next: u64,
    /// Unanswered lookups that are no longer in the list.
    given_up: Vec<Unanswered>,
    /// Minimum time in which each resolver answered.
    pub(super) resolvers: BTreeMap<IpAddr, Duration>,
    /// Lookups after which no connection was opened and that are no longer in the list.
    done: Resolvers,
    waits: ResolverWaits,
}

impl Lookups {
    /// Processes a query; `searched` is the resolution of a hardware address for which it may have
    /// waited.
    pub(super) fn query(
        &mut self,
        message: &Message,
        place: MessageSighting,
        searched: Option<Search>,
    ) {
        self.waits.query(message, place);
        let key = (place.point, place.source.addr);
        let ids: Vec<u64> = self
            .of_client
            .get(&key)
            .into_iter()
            .flatten()
            .copied()
            .collect();
        // The criteria by which a query belongs to a lookup, the most reliable first.
        let signs: [fn(&mut OpenLookup, &Message, MessageSighting) -> bool; 2] =
            [OpenLookup::take_repetition, OpenLookup::take_companion];
        if signs
            .iter()
            .any(|sign| self.is_of_any(&ids, *sign, message, place))
        {
            return;
        }
        let is_alien = self.asks_one_more(&ids, place.destination.addr);
        if !is_alien && self.is_of_any(&ids, OpenLookup::take_late_repetition, message, place)
            || self.is_of_any(&ids, OpenLookup::take_next_name, message, place)
        {
            return;
        }
        self.begin(key, OpenLookup::new(message, place, searched));
    }

    /// Returns true if a query belongs to any of these lookups by the criterion `sign`.
    fn is_of_any(
        &mut self,
        ids: &[u64],
        sign: fn(&mut OpenLookup, &Message, MessageSighting) -> bool,
        message: &Message,
        place: MessageSighting,
    ) -> bool {
        ids.iter().any(|id| {
            let open = self.list.get_mut(id);
            open.is_some_and(|open| sign(open, message, place))
        })
    }

    /// Returns true if `resolver` is new, and the client's lookups already use as many resolvers as
    /// a host can have. A query to it is then not a retry.
    fn asks_one_more(&self, ids: &[u64], resolver: IpAddr) -> bool {
        let open = ids.iter().filter_map(|id| self.list.get(id));
        let asked: BTreeSet<IpAddr> = open.flat_map(OpenLookup::asked).collect();
        asked.len() >= MAX_OF_HOST && !asked.contains(&resolver)
    }

    /// Processes an answer.
    pub(super) fn answer(&mut self, message: &Message, place: MessageSighting) {
        self.waits.answer(message, place);
        let key = (place.point, place.destination.addr);
        // Ids are reused, so the answer belongs to the latest lookup with its id.
        for id in self.of_client.get(&key).into_iter().flatten().rev() {
            let Some(open) = self.list.get_mut(id) else {
                continue;
            };
            let Some(fresh) = open.take_answer(message, place) else {
                continue;
            };
            let has_room = self.resolvers.len() < MAX_RESOLVERS;
            if let Some(took) = open.answered_within(message, place).filter(|_| has_room) {
                let least = self.resolvers.entry(place.source.addr).or_insert(took);
                *least = took.min(*least);
            }
            for address in fresh {
                let ids = self.of_address.entry((place.point, address)).or_default();
                if ids.len() == MAX_OF_ADDRESS {
                    ids.pop_front();
                }
                ids.push_back(*id);
            }
            return;
        }
    }

    /// Returns the totals of all lookups so far.
    pub(super) fn asked(&self) -> SeenLookups {
        let open = self.list.values().filter_map(OpenLookup::unanswered);
        SeenLookups {
            count: self.next,
            is_answered: !self.resolvers.is_empty(),
            unanswered: self.given_up.iter().cloned().chain(open).collect(),
            resolved: BTreeMap::new(),
            waits: self.waits.all(),
        }
    }

    /// Returns true if more resolvers are queried than one host can have.
    pub(super) fn asks_anybody(&self) -> bool {
        let open = self.list.values().flat_map(OpenLookup::asked);
        self.done
            .resolvers()
            .chain(open)
            .collect::<BTreeSet<_>>()
            .len()
            > MAX_OF_HOST
    }

    /// Returns the lookups after which no connection was opened, by resolver. `shows_answers` is
    /// true if missing answers would have been captured.
    pub(super) fn resolved(&self, shows_answers: bool) -> BTreeMap<IpAddr, Resolved> {
        let mut all = self.done.clone();
        for open in self.list.values() {
            all.add_lookup(open);
        }
        all.by_address(shows_answers)
    }

    /// Returns the lookup that returned the address to which `client` sends a SYN at `at`.
    pub(super) fn before(
        &mut self,
        point: PointId,
        client: IpAddr,
        server: IpAddr,
        at: Timestamp,
    ) -> Option<Found> {
        if self.list.is_empty() {
            return None;
        }
        for id in self.of_address.get(&(point, server))? {
            let Some(open) = self.list.get_mut(id) else {
                continue;
            };
            let is_first = open.used.is_empty();
            let since = at.since(open.end);
            let is_soon = since <= if is_first { NEXT } else { NEXT_ADDRESS };
            if at >= open.end
                && is_soon
                && is_same_host(open.client, client)
                && open.use_for(server)
            {
                return Some(Found {
                    id: *id,
                    lookup: is_first.then(|| open.conclude()),
                    searched: open.searched.take(),
                });
            }
        }
        None
    }

    fn begin(&mut self, key: (PointId, IpAddr), open: OpenLookup) {
        if self.list.len() >= MAX_LOOKUPS
            && let Some((id, open)) = self.list.pop_first()
        {
            self.forget(id, &open);
        }
        let ids = self.of_client.entry(key).or_default();
        let oldest = (ids.len() >= MAX_OF_CLIENT)
            .then(|| ids.pop_front())
            .flatten();
        ids.push_back(self.next);
        self.list.insert(self.next, open);
        self.next += 1;
        if let Some(id) = oldest
            && let Some(open) = self.list.remove(&id)
        {
            self.forget(id, &open);
        }
    }

    /// Removes a lookup from the indexes; it is already removed from the list.
    fn forget(&mut self, id: u64, open: &OpenLookup) {
        if self.given_up.len() < MAX_GIVEN_UP {
            self.given_up.extend(open.unanswered());
        }
        self.done.add_lookup(open);
        let of_client = (open.point, open.client);
        unlist(&mut self.of_client, &of_client, id);
        for &address in &open.addresses {
            unlist(&mut self.of_address, &(open.point, address), id);
        }
    }
}

fn unlist(
    index: &mut BTreeMap<(PointId, IpAddr), VecDeque<u64>>,
    key: &(PointId, IpAddr),
    id: u64,
) {
    if let Some(ids) = index.get_mut(key) {
        ids.retain(|known| *known != id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

/// Returns true if one host may send queries from the first address and connect from the second. A
/// host has addresses of both families, and may have its own resolver on loopback.
fn is_same_host(asks: IpAddr, connects: IpAddr) -> bool {
    asks == connects || asks.is_ipv4() != connects.is_ipv4() || asks.is_loopback()
}
