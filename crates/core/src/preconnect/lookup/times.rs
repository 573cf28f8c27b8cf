//! The times for which programs may have waited for resolvers: from each query to its answer.
//!
//! A lookup as a program sees it may consist of several of these. They follow one another then.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::MessageSighting;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::protocol::dns::Message;
use crate::stats::bounded::Least;

/// Maximum number of waits that are kept.
const MAX_DONE: usize = 1024;
/// Maximum number of queries that may wait for their answers; older ones are taken as unanswered.
const MAX_OPEN: usize = 1024;
/// Minimum time after which the same query counts as sent again; an earlier one is a copy.
const SOONEST_RETRY: Duration = Duration::from_millis(250);

/// A wait for a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResolverWait {
    /// Time of the first query.
    pub(crate) begin: Timestamp,
    /// Time of the answer; `None` if there was none.
    pub(crate) end: Option<Timestamp>,
    pub(crate) point: PointId,
    pub(crate) client: IpAddr,
    pub(crate) resolver: IpAddr,
    /// True if the query was sent more than once.
    pub(crate) is_repeated: bool,
}

/// The port and the id of a query, by which its answer is known.
type Key = (PointId, Endpoint, u16);

/// The waits of a capture.
#[derive(Debug, Default)]
pub(super) struct ResolverWaits {
    open: BTreeMap<Key, ResolverWait>,
    /// The last queries, answered or not, each with its time.
    last: VecDeque<(Key, Timestamp)>,
    done: Least<ResolverWait, MAX_DONE>,
}

impl ResolverWaits {
    pub(super) fn query(&mut self, message: &Message, place: MessageSighting) {
        let key = (place.point, place.source, message.id);
        if let Some(open) = self.open.get_mut(&key) {
            open.is_repeated |= place.at.since(open.begin) >= SOONEST_RETRY;
            return;
        }
        if self.last.len() >= MAX_OPEN {
            self.drop_oldest();
        }
        self.last.push_back((key, place.at));
        let wait = ResolverWait {
            begin: place.at,
            end: None,
            point: place.point,
            client: place.source.addr,
            resolver: place.destination.addr,
            is_repeated: false,
        };
        self.open.insert(key, wait);
    }

    pub(super) fn answer(&mut self, message: &Message, place: MessageSighting) {
        let key = (place.point, place.destination, message.id);
        if let Some(wait) = self.open.remove(&key) {
            let end = Some(place.at);
            self.done.add(ResolverWait { end, ..wait });
        }
    }

    /// Returns the earliest waits, in the order in which they began.
    pub(super) fn all(&self) -> Vec<ResolverWait> {
        let mut all = self.done.clone();
        self.open.values().for_each(|wait| all.add(*wait));
        all.sorted()
    }

    fn drop_oldest(&mut self) {
        let oldest = self.last.pop_front();
        // The query of a later lookup may have the same port and id.
        let is_open =
            |(key, at): &(Key, Timestamp)| self.open.get(key).is_some_and(|open| open.begin == *at);
        if let Some((key, _)) = oldest.filter(is_open)
            && let Some(wait) = self.open.remove(&key)
        {
            self.done.add(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::dns;

    fn at(seconds: u64, port: u16, is_answer: bool) -> MessageSighting {
        let client = Endpoint::new([10, 0, 0, 1].into(), port);
        let resolver = Endpoint::new([10, 0, 0, 53].into(), dns::PORT);
        let (source, destination) = if is_answer {
            (resolver, client)
        } else {
            (client, resolver)
        };
        MessageSighting {
            at: Timestamp::from_parts(seconds as i64, 0),
            number: 1,
            point: PointId(0),
            source,
            destination,
            is_stream: false,
        }
    }

    /// A message of a question for `a.b`.
    fn message(id: u16) -> Message {
        let [high, low] = id.to_be_bytes();
        let bytes = [
            high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 1, b'b', 0, 0, 1, 0, 1,
        ];
        dns::read(&bytes).expect("a query")
    }

    #[test]
    fn a_query_waits_for_its_answer_or_in_vain() {
        let mut waits = ResolverWaits::default();
        waits.query(&message(7), at(1, 50_000, false));
        waits.query(&message(7), at(6, 50_000, false));
        waits.query(&message(8), at(11, 50_001, false));
        waits.answer(&message(8), at(12, 50_001, true));
        waits.query(&message(9), at(13, 50_002, false));
        let all = waits.all();
        let told = all.iter().map(|wait| {
            let took = wait.end.map(|end| end.since(wait.begin).as_secs());
            (took, wait.is_repeated)
        });
        let expected = [(None, true), (Some(1), false), (None, false)];
        assert!(told.eq(expected), "{all:?}");
    }

    #[test]
    fn old_queries_are_taken_as_unanswered_whatever_follows() {
        let mut waits = ResolverWaits::default();
        for n in 0..4 * MAX_OPEN as u64 {
            waits.query(&message(7), at(n, n as u16, false));
        }
        assert!(waits.open.len() <= MAX_OPEN);
        let all = waits.all();
        assert_eq!(all.first().map(|wait| wait.begin), Some(at(0, 0, false).at));
    }
}
