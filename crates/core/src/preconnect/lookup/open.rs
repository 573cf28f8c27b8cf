//! A lookup in progress: its queries and their answers.

use core::net::IpAddr;
use core::time::Duration;

use super::{Lookup, LostQueries, MessageSighting, Unanswered};
use crate::observed::event::PointId;
use crate::observed::packet::PacketRange;
use crate::observed::time::Timestamp;
use crate::preconnect::Search;
use crate::protocol::dns::{Kind, MAX_ADDRESSES, Message};

/// Maximum number of names tried in one lookup. glibc's search list has six, and those of other
/// libraries have more.
const MAX_STEPS: usize = 16;
/// Maximum number of record types queried for one name: A, AAAA, HTTPS, SVCB.
const MAX_QUERIES: usize = 4;
/// Maximum number of resolvers remembered per lookup in addition to the first.
const MAX_OTHERS: usize = 3;
/// Minimum time after which a query counts as a retry; an earlier one is a copy. Libraries wait a
/// second or more, and the fastest resolvers wait 376 ms.
const SOONEST_RETRY: Duration = Duration::from_millis(250);
/// Minimum time after which a query with the same question and another id counts as a retry. Some
/// resolvers use a new socket for each attempt.
const LATE_RETRY: Duration = Duration::from_millis(900);
/// Maximum time for which a client waits for an answer (resolv.conf(5): `timeout` is at most 30 s).
const LATEST_RETRY: Duration = Duration::from_secs(31);
/// Maximum time between A and AAAA queries that a client sends together from two sockets.
const TOGETHER: Duration = Duration::from_millis(50);
/// Maximum time from the answer that a name does not exist to the query for the next name of the
/// search list. In a capture at the resolver, this includes the round trip to the client.
const NEXT_NAME: Duration = Duration::from_millis(500);
/// Response codes of a resolver that could not answer: SERVFAIL and REFUSED (RFC 1035 §4.1.1).
const FAILURES: [u8; 2] = [2, 5];
/// Response code of a name that does not exist (RFC 1035 §4.1.1).
const NXDOMAIN: u8 = 3;
/// Minimum number of labels, from the left, that all names of one search list have in common.
const COMMON_LABELS: usize = 2;

/// A lookup in progress.
#[derive(Debug)]
pub(super) struct OpenLookup {
    pub(super) point: PointId,
    pub(super) client: IpAddr,
    resolver: IpAddr,
    /// Further resolvers that were asked the same question.
    others: Vec<IpAddr>,
    steps: Vec<Step>,
    begin: Timestamp,
    /// Time of the last answer.
    pub(super) end: Timestamp,
    packets: PacketRange,
    pub(super) addresses: Vec<IpAddr>,
    /// Addresses to which connections were made.
    pub(super) used: Vec<IpAddr>,
    pub(super) searched: Option<Search>,
}

/// A name that was queried.
#[derive(Debug)]
struct Step {
    name: String,
    begin: Timestamp,
    queries: Vec<Query>,
}

/// A question and all queries that were sent for it.
#[derive(Debug)]
struct Query {
    kind: Kind,
    id: u16,
    /// The port of the latest query, and of the one before: each resolver may be asked from a socket
    /// of its own.
    port: u16,
    earlier_port: u16,
    first: Timestamp,
    last: Timestamp,
    sends: u32,
    /// Time of a truncated answer.
    truncated: Option<Timestamp>,
    answered: Option<Timestamp>,
    /// The resolver that answered.
    answered_by: Option<IpAddr>,
    has_addresses: bool,
    /// True if the resolver could not answer.
    is_failed: bool,
    /// True if the answer was that the name does not exist.
    is_nonexistent: bool,
}

impl OpenLookup {
    /// Returns the resolver that was asked first.
    pub(super) fn resolver(&self) -> IpAddr {
        self.resolver
    }

    /// Iterates over the resolvers that were asked.
    pub(super) fn asked(&self) -> impl Iterator<Item = IpAddr> {
        self.others.iter().copied().chain([self.resolver])
    }

    /// Returns true if any of the lookup's questions was answered.
    pub(super) fn is_answered(&self) -> bool {
        self.queries().any(|query| query.answered.is_some())
    }

    /// Returns true if the resolver reported for any of the lookup's questions that it could not
    /// answer.
    pub(super) fn is_failed(&self) -> bool {
        self.queries().any(|query| query.is_failed)
    }

    /// Returns the question that was sent most often; `None` if any of the lookup's questions was
    /// answered.
    pub(super) fn unanswered(&self) -> Option<Unanswered> {
        let queries = || self.steps.iter().flat_map(|step| &step.queries);
        if queries().any(|query| query.answered.is_some() || query.truncated.is_some()) {
            return None;
        }
        let worst = queries().max_by_key(|query| query.sends)?;
        let name = &self.steps.last()?.name;
        (worst.sends > 1).then(|| Unanswered {
            point: self.point,
            client: self.client,
            name: name.clone(),
            resolver: self.resolver,
            sends: worst.sends,
            took: worst.last.since(worst.first),
        })
    }

    pub(super) fn new(message: &Message, place: MessageSighting, searched: Option<Search>) -> Self {
        Self {
            point: place.point,
            client: place.source.addr,
            resolver: place.destination.addr,
            others: Vec::new(),
            steps: vec![Step::new(message, place)],
            begin: place.at,
            end: place.at,
            packets: PacketRange::of_one(place.number),
            addresses: Vec::new(),
            used: Vec::new(),
            searched,
        }
    }

    /// Processes a query if it is a retry with the same id; otherwise returns false.
    pub(super) fn take_repetition(&mut self, message: &Message, place: MessageSighting) -> bool {
        // Ids are reused: a query long after the last one with its id belongs to another lookup.
        let is_meant =
            |query: &Query| query.id == message.id && place.at.since(query.last) <= LATEST_RETRY;
        if self.is_used() {
            return false;
        }
        let Some(query) = self.query(message, is_meant) else {
            return false;
        };
        query.repeat(place);
        self.note_resolver(place.destination.addr);
        true
    }

    /// Processes a query if it is for the other address family of the same name; otherwise returns
    /// false.
    pub(super) fn take_companion(&mut self, message: &Message, place: MessageSighting) -> bool {
        if self.is_used() {
            return false;
        }
        let end = self.end;
        let Some(step) = self
            .steps
            .last_mut()
            .filter(|step| step.name == message.name)
        else {
            return false;
        };
        let is_known = step.queries.iter().any(|query| query.kind == message.kind);
        let is_same_socket = step
            .queries
            .iter()
            .any(|query| query.port == place.source.port);
        let since = place.at.since(step.begin.max(end));
        if is_known || step.queries.len() >= MAX_QUERIES || !is_same_socket && since > TOGETHER {
            return false;
        }
        step.queries.push(Query::new(message, place));
        true
    }

    /// Processes a query if it repeats a question with another id; otherwise returns false. The
    /// client repeats it over TCP after a truncated answer, or long after a query that stayed
    /// unanswered.
    pub(super) fn take_late_repetition(
        &mut self,
        message: &Message,
        place: MessageSighting,
    ) -> bool {
        if self.is_used() {
            return false;
        }
        let is_moved = self.resolver != place.destination.addr;
        let soonest = if is_moved { SOONEST_RETRY } else { LATE_RETRY };
        let is_due = |query: &Query| {
            let since = place.at.since(query.last);
            let is_late = (soonest..=LATEST_RETRY).contains(&since);
            let is_streamed = place.is_stream && query.truncated.is_some();
            query.answered.is_none() && (is_late || is_streamed)
        };
        let Some(query) = self.query(message, is_due) else {
            return false;
        };
        query.id = message.id;
        query.repeat(place);
        self.note_resolver(place.destination.addr);
        true
    }

    /// Remembers a resolver that was asked the same question.
    fn note_resolver(&mut self, resolver: IpAddr) {
        if self.others.len() < MAX_OTHERS && self.asked().all(|asked| asked != resolver) {
            self.others.push(resolver);
        }
    }

    /// Processes a query if it is for the next name of a search list, sent because the previous
    /// name does not exist; otherwise returns false.
    pub(super) fn take_next_name(&mut self, message: &Message, place: MessageSighting) -> bool {
        let Some(step) = self.steps.last() else {
            return false;
        };
        let is_in_vain = step.queries.iter().all(Query::is_in_vain);
        let is_soon = place.at >= self.end && place.at.since(self.end) <= NEXT_NAME;
        if self.is_used() || !is_in_vain || !is_soon || !is_same_search(&step.name, &message.name) {
            return false;
        }
        if self.steps.len() < MAX_STEPS {
            self.steps.push(Step::new(message, place));
        }
        true
    }

    /// Processes an answer to one of the lookup's queries. Returns the addresses that it adds.
    pub(super) fn take_answer(
        &mut self,
        message: &Message,
        place: MessageSighting,
    ) -> Option<Vec<IpAddr>> {
        if self.is_used() {
            return None;
        }
        let query = self.query(message, |query| {
            let is_its_port = [query.port, query.earlier_port].contains(&place.destination.port);
            query.id == message.id && (place.is_stream || is_its_port)
        })?;
        if query.answered.is_some() {
            return Some(Vec::new());
        }
        if message.is_truncated && !place.is_stream {
            query.truncated.get_or_insert(place.at);
            return Some(Vec::new());
        }
        query.answered = Some(place.at);
        query.answered_by = Some(place.source.addr);
        query.has_addresses = !message.addresses.is_empty();
        query.is_failed = FAILURES.contains(&message.code);
        query.is_nonexistent = message.code == NXDOMAIN;
        self.end = place.at;
        self.packets.last = place.number;
        let mut fresh = Vec::new();
        for &address in &message.addresses {
            if !self.addresses.contains(&address) && self.addresses.len() < MAX_ADDRESSES {
                self.addresses.push(address);
                fresh.push(address);
            }
        }
        Some(fresh)
    }

    /// Returns the time until the latest answer, if its query was sent only once.
    pub(super) fn answered_within(
        &mut self,
        message: &Message,
        place: MessageSighting,
    ) -> Option<Duration> {
        let query = self.query(message, |query| query.id == message.id && query.sends == 1)?;
        let is_first = query.answered.is_none_or(|answered| answered == place.at);
        (is_first && !place.is_stream).then(|| place.at.since(query.first))
    }

    /// Records a connection to one of the lookup's addresses. Returns false if a connection to that
    /// address was already recorded.
    pub(super) fn use_for(&mut self, address: IpAddr) -> bool {
        let is_new = !self.used.contains(&address);
        if is_new {
            self.used.push(address);
        }
        is_new
    }

    /// Returns the result of the lookup at the time when the connection begins.
    pub(super) fn conclude(&self) -> Lookup {
        let retried = self.retried();
        let streamed = self.streamed();
        let last = self.steps.last();
        let is_plain = retried.is_zero() && streamed.is_zero();
        let (suffixes, searched) = self.searched();
        Lookup {
            name: last.map(|step| step.name.clone()).unwrap_or_default(),
            resolver: self.resolver,
            begin: self.begin,
            took: self.end.since(self.begin),
            retried,
            answered_after_retry: self.answered_after_retry(),
            lost: self.lost(),
            second: self.second(),
            names: u32::try_from(self.steps.len()).unwrap_or(u32::MAX),
            searched,
            suffixes,
            streamed,
            waited: is_plain.then(|| self.steps.iter().map(Step::waited).sum()),
            packets: self.packets,
        }
    }

    pub(super) fn is_used(&self) -> bool {
        !self.used.is_empty()
    }

    fn query(
        &mut self,
        message: &Message,
        is_meant: impl Fn(&Query) -> bool,
    ) -> Option<&mut Query> {
        let steps = self
            .steps
            .iter_mut()
            .filter(|step| step.name == message.name);
        let mut queries = steps.flat_map(|step| &mut step.queries);
        queries.find(|query| query.kind == message.kind && is_meant(query))
    }

    fn queries(&self) -> impl Iterator<Item = &Query> {
        self.steps.iter().flat_map(|step| &step.queries)
    }

    /// Returns the number of nonexistent names that were queried before the name itself, and the
    /// time that they took.
    fn searched(&self) -> (u32, Duration) {
        let (mut names, mut took) = (0, Duration::ZERO);
        let own = self.steps.last().map(|step| &step.name);
        for pair in self.steps.windows(2) {
            let [step, next] = pair else { continue };
            if Some(&step.name) == own {
                break;
            }
            if step.queries.iter().all(|query| query.is_nonexistent) {
                names += 1;
                took += next.begin.since(step.begin);
            }
        }
        (names, took)
    }

    /// Returns the time from the first query to the last one, for all questions that were sent more
    /// than once. Overlapping times count once.
    fn retried(&self) -> Duration {
        let repeated = self.queries().filter(|query| query.sends > 1);
        let mut spans: Vec<_> = repeated.map(|query| (query.first, query.last)).collect();
        spans.sort_unstable();
        let (mut sum, mut covered) = (Duration::ZERO, Timestamp::MIN);
        for (first, last) in spans {
            sum += last.since(first.max(covered).min(last));
            covered = covered.max(last);
        }
        sum
    }

    /// Returns the longest time from the last retry of a query to its answer.
    fn answered_after_retry(&self) -> Duration {
        let retried = self.queries().filter(|query| query.was_lost());
        let waits = retried.filter_map(|query| Some(query.answered?.since(query.last)));
        waits.max().unwrap_or_default()
    }

    /// Returns the resolver that answered the retried queries, if the first one answered none of them.
    fn second(&self) -> Option<IpAddr> {
        let retried = self.queries().filter(|query| query.was_lost());
        let mut by = retried.filter_map(|query| query.answered_by);
        let second = by.next()?;
        let is_first = |by: IpAddr| by == self.resolver;
        (!is_first(second) && !by.any(is_first)).then_some(second)
    }

    fn lost(&self) -> LostQueries {
        let step = self
            .steps
            .iter()
            .find(|step| step.queries.iter().any(Query::was_lost));
        let Some(step) = step else {
            return LostQueries::Nothing;
        };
        match step.queries.as_slice() {
            [first, second]
                if first.port == second.port && !first.was_lost() && first.answered.is_some() =>
            {
                LostQueries::SecondOfTwo
            }
            _ => LostQueries::Something,
        }
    }

    fn streamed(&self) -> Duration {
        let truncated = self.queries().filter_map(|query| query.truncated).min();
        let answered = self
            .queries()
            .filter(|query| query.truncated.is_some())
            .filter_map(|query| query.answered)
            .max();
        match (truncated, answered) {
            (Some(truncated), Some(answered)) => answered.since(truncated),
            _ => Duration::ZERO,
        }
    }
}

impl Step {
    fn new(message: &Message, place: MessageSighting) -> Self {
        Self {
            name: message.name.clone(),
            begin: place.at,
            queries: vec![Query::new(message, place)],
        }
    }

    /// Returns the time from the first query for the name to the last answer.
    fn waited(&self) -> Duration {
        let answers = self.queries.iter().filter_map(|query| query.answered);
        answers
            .max()
            .map_or(Duration::ZERO, |last| last.since(self.begin))
    }
}

impl Query {
    fn new(message: &Message, place: MessageSighting) -> Self {
        Self {
            kind: message.kind,
            id: message.id,
            port: place.source.port,
            earlier_port: place.source.port,
            first: place.at,
            last: place.at,
            sends: 1,
            truncated: None,
            answered: None,
            answered_by: None,
            has_addresses: false,
            is_failed: false,
            is_nonexistent: false,
        }
    }

    /// Records that the question was sent again. Over TCP, or after an answer, this is not a retry
    /// after a loss.
    fn repeat(&mut self, place: MessageSighting) {
        if self.port != place.source.port {
            (self.earlier_port, self.port) = (self.port, place.source.port);
        }
        let is_retry = !place.is_stream && self.answered.is_none();
        if is_retry && place.at.since(self.last) >= SOONEST_RETRY {
            self.sends += 1;
            self.last = place.at;
        }
    }

    /// Returns true if the answer was that the name or its address does not exist.
    fn is_in_vain(&self) -> bool {
        self.answered.is_some() && !self.has_addresses
    }

    /// Returns true if the question was sent again because no answer had arrived.
    fn was_lost(&self) -> bool {
        self.sends > 1 && self.answered.is_none_or(|at| at >= self.last)
    }
}

/// Returns true if two names are one name with different suffixes of a search list, or with and
/// without a suffix.
fn is_same_search(one: &str, other: &str) -> bool {
    let labels = |name: &str| name.split('.').count();
    let (ahead, behind) = (
        one.split('.').zip(other.split('.')),
        one.rsplit('.').zip(other.rsplit('.')),
    );
    let head = ahead.take_while(|(a, b)| a == b).count();
    let tail = behind.take_while(|(a, b)| a == b).count();
    let shorter = labels(one).min(labels(other));
    one != other && head > 0 && (head >= COMMON_LABELS || head + tail >= shorter)
}

#[cfg(test)]
mod tests {
    use super::is_same_search;

    #[test]
    fn names_of_one_search_are_told_from_others() {
        let cases = [
            ("www.lab.test.shop.svc", "www.lab.test.svc", true),
            ("www.lab.test.cluster.test", "www.lab.test.lab.test", true),
            ("db.shop.svc.local", "db.svc.local", true),
            ("db.corp.test", "db", true),
            ("www.example.com", "www.example.org", true),
            ("www.alpha.com", "www.beta.com", false),
            ("www.alpha.co.uk", "www.beta.co.uk", false),
            ("a.example.com", "b.example.com", false),
            ("a.test", "a.test", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(is_same_search(one, other), expected, "{one} {other}");
        }
    }
}
