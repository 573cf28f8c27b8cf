//! The earliest whole exchanges of one server in time order, for rules that compare several
//! connections.
//!
//! Which exchanges are kept depends only on when they began, so neither the order in which they
//! arrive nor the number of shards changes the outcome.

mod late;

use core::time::Duration;

pub(crate) use late::{LEAST_LATE, Late};

use crate::exchange::tls_handshake::Handshake;
use crate::exchange::wait::{Wait, WaitKind};
use crate::exchange::{Exchange, Outcome};
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::protocol::http;
use crate::stats::Merge;

/// Maximum number of exchanges kept for one server: several seconds of a busy server, all of a lab
/// run's.
const MAX_MOMENTS: usize = 2048;
/// Number of exchanges from which on all but the earliest are dropped: each time takes time for the
/// whole list, and the list takes memory for each of hundreds of servers.
const FULL: usize = MAX_MOMENTS / 4 * 5;

/// The instants of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Time of the request's first byte.
    pub(crate) begin: Timestamp,
    pub(crate) client: Endpoint,
    pub(crate) point: PointId,
    pub(crate) ordinal: u32,
    /// Time at which the request was complete at the observation point.
    pub(crate) sent: Timestamp,
    /// Time at which the server had the request, corrected for the propagation time where known.
    pub(crate) asked: Timestamp,
    /// Time at which the server sent the response's first byte.
    pub(crate) answered: Timestamp,
    /// Time at which the server continued after its longest own wait.
    pub(crate) resumed: Timestamp,
    /// Time of the response's last byte.
    pub(crate) end: Timestamp,
    pub(crate) response: Response,
    /// Setup time of the exchange's connection, if the connection was made for this exchange.
    pub(crate) setup: Option<Duration>,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) path: Path,
    /// True if the exchange belongs to the setup of its connection: a login.
    pub(crate) is_login: bool,
    /// True if no part of the exchange was lost, missed by the capture or queued after another: its
    /// times are those of the server and the path alone.
    pub(crate) is_clear: bool,
}

/// Facts about the path to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    /// Minimum round trip from the observation point to the server.
    pub(crate) to_server: Duration,
    /// True if this round trip cannot contain time of the server's program.
    pub(crate) is_told: bool,
    /// True if the server's kernel acknowledged the request before the response.
    pub(crate) is_acked_first: bool,
}

/// Facts about the sending of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Response {
    /// Time for which Nagle's algorithm held parts of the response.
    pub(crate) held: Duration,
    /// Time for which the server paused within the response.
    pub(crate) paused: Duration,
    /// True if the response was compressed while it was sent.
    pub(crate) is_encoded: bool,
    /// True if nothing was due for most of the exchange: the server waited for what others send.
    pub(crate) is_unowed: bool,
}

/// Fingerprints of names in an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprints {
    /// The request's target; 0 if the protocol is not HTTP.
    pub(crate) target: u64,
    /// The target that a redirect leads to.
    pub(crate) redirect: Option<u64>,
    /// The server name that was requested; 0 if the name could not be parsed.
    pub(crate) origin: u64,
}

/// The server's part of an exchange: the instants of a [`Moment`] that are evaluated for every
/// exchange.
#[derive(Clone, Copy)]
struct Served {
    sent: Timestamp,
    asked: Timestamp,
    answered: Timestamp,
    is_clear: bool,
}

impl Served {
    fn of(exchange: &Exchange) -> Self {
        let sent = sent(exchange);
        let (mut think, mut first_travel, mut is_clear) = (None, None, true);
        for wait in &exchange.waits {
            let is_answering = wait.start >= sent;
            match wait.kind {
                WaitKind::ServerThink if is_answering && think.is_none() => think = Some(wait),
                WaitKind::RoundTrip if is_answering && first_travel.is_none() => {
                    first_travel = Some(wait);
                }
                WaitKind::Unknown | WaitKind::Recovery | WaitKind::Behind => is_clear = false,
                _ => {}
            }
        }
        let asked = think.map(|wait| wait.start);
        let asked = asked.or(first_travel.map(|wait| wait.end)).unwrap_or(sent);
        Self {
            sent,
            asked,
            answered: think.map_or(asked, |wait| wait.end),
            is_clear,
        }
    }

    /// Returns the time for which the server had the request before it began to answer.
    fn think(&self) -> Duration {
        self.answered.since(self.asked)
    }
}

impl Moment {
    fn of(exchange: &Exchange, served: Served) -> Self {
        let Served {
            sent,
            asked,
            answered,
            is_clear,
        } = served;
        Self {
            begin: exchange.begin,
            client: exchange.id.client,
            point: exchange.id.point,
            ordinal: exchange.id.ordinal,
            sent,
            asked,
            answered,
            resumed: resumed(exchange),
            end: exchange.end,
            response: Response {
                held: exchange.waited(WaitKind::ResponseHeld),
                paused: exchange.waited(WaitKind::ServerPause),
                is_encoded: exchange.particulars.is_encoded_on_the_fly,
                is_unowed: exchange.waited(WaitKind::BetweenMessages) * 2 > exchange.latency(),
            },
            setup: exchange.connecting.setup,
            fingerprints: Fingerprints {
                target: exchange.particulars.target,
                redirect: exchange.particulars.redirect,
                origin: origin(exchange),
            },
            path: Path {
                to_server: exchange.path.to_server.unwrap_or_default(),
                is_told: exchange.path.is_told,
                is_acked_first: exchange.path.is_acked_first,
            },
            is_login: exchange.request.as_deref().is_some_and(is_login),
            is_clear,
        }
    }

    /// Returns the time for which the server had the request before it began to answer.
    pub(crate) fn think(&self) -> Duration {
        self.answered.since(self.asked)
    }

    /// Returns the whole duration.
    pub(crate) fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }
}

/// Returns true if a request with this name precedes the work on a connection: logins of PostgreSQL,
/// MySQL, IMAP and Redis.
fn is_login(request: &str) -> bool {
    const LOGINS: [&str; 5] = ["SSLREQUEST", "STARTUP", "LOGIN", "AUTH", "HELLO"];
    LOGINS.iter().any(|login| {
        let (name, rest) = request.split_at_checked(login.len()).unwrap_or_default();
        name.eq_ignore_ascii_case(login) && (rest.is_empty() || rest.starts_with(' '))
    })
}

/// Returns the fingerprint of the server name in the exchange, or in the handshake before it. Under
/// TLS the offered cipher suites are part of it: a program does not take over a connection that was
/// negotiated with other ones, and programs that share an address differ in them.
fn origin(exchange: &Exchange) -> u64 {
    let of_handshake = |handshake: &Handshake| {
        let name = handshake.server_name.as_deref().unwrap_or_default();
        http::origin(name.as_bytes()) ^ handshake.suites
    };
    match (exchange.particulars.origin, &exchange.connecting.handshake) {
        (0, Some(handshake)) => of_handshake(handshake),
        (origin, _) => origin,
    }
}

/// Returns the time at which the request was complete.
fn sent(exchange: &Exchange) -> Timestamp {
    let is_sending = |wait: &&Wait| {
        matches!(
            wait.kind,
            WaitKind::RequestTransfer | WaitKind::RequestPause | WaitKind::RequestHeld
        )
    };
    let last = exchange.waits.iter().rfind(is_sending);
    last.map_or(exchange.begin, |wait| wait.end)
}

/// Returns the time at which the server continued after its longest own wait in `exchange`,
/// corrected for the propagation time from the server where that time is known.
fn resumed(exchange: &Exchange) -> Timestamp {
    let propagation = exchange.path.to_server.unwrap_or_default() / 2;
    let own = exchange
        .waits
        .iter()
        .filter(|wait| matches!(wait.kind, WaitKind::ServerThink | WaitKind::ServerPause));
    let longest = own.max_by_key(|wait| (wait.nanos(), core::cmp::Reverse(wait.end)));
    longest.map_or(exchange.end, |wait| match wait.kind {
        WaitKind::ServerPause => wait.end - propagation,
        _ => wait.end,
    })
}

/// The earliest exchanges, at most [`MAX_MOMENTS`].
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::bound)]
pub(crate) struct Timeline {
    #[merge(extend)]
    moments: Vec<Moment>,
    /// Number of whole exchanges, kept or not.
    count: u64,
    /// Begin of the last exchange kept; exchanges that begin later are not kept. `None` while there
    /// is room.
    #[merge(skip = "the own one stays true, and bounding the list renews it")]
    until: Option<Timestamp>,
    late: Late,
}

impl Timeline {
    pub(crate) fn add_exchange(&mut self, exchange: &Exchange) {
        // An exchange that took no longer than a tick of the capture's clock has no waits.
        let is_tiled = !exchange.waits.is_empty() || exchange.begin == exchange.end;
        if !matches!(exchange.outcome, Outcome::Complete(_)) || !is_tiled {
            return;
        }
        self.count += 1;
        let served = Served::of(exchange);
        let moment = || Moment::of(exchange, served);
        self.late.add_exchange(served, moment);
        if self.until.is_some_and(|until| exchange.begin > until) {
            return;
        }
        if self.moments.len() >= FULL {
            self.keep_earliest();
        }
        self.moments.push(moment());
    }

    /// Returns the exchanges in the order in which they began, as seen by the observation
    /// point with the most exchanges, and those that other points saw.
    pub(crate) fn sorted(&self) -> (Vec<Moment>, Vec<Moment>) {
        let mut moments = self.moments.clone();
        keep_least(&mut moments, MAX_MOMENTS);
        // Exchanges that began simultaneously are sorted by their other fields, so that the order
        // of recording has no effect.
        put_in_order(&mut moments, |moment| moment.begin);
        match busiest_point(&moments) {
            Some(point) => moments
                .into_iter()
                .partition(|moment| moment.point == point),
            None => (moments, Vec::new()),
        }
    }

    /// Returns the number of all exchanges, and those that the server took longest to answer;
    /// `None` if all exchanges are kept.
    pub(crate) fn late(&self) -> Option<(u64, &Late)> {
        (self.count > MAX_MOMENTS as u64).then_some((self.count, &self.late))
    }

    /// Returns the time until which exchanges were kept; `None` if all are kept.
    pub(crate) fn kept_until(&self) -> Option<Timestamp> {
        let mut begins: Vec<Timestamp> = self.moments.iter().map(|one| one.begin).collect();
        let is_cut = self.count > MAX_MOMENTS as u64 && begins.len() >= MAX_MOMENTS;
        is_cut.then(|| *begins.select_nth_unstable(MAX_MOMENTS - 1).1)
    }

    /// Returns the number of exchanges that each of the `kept` represents.
    pub(crate) fn weight(&self, kept: usize) -> f64 {
        match kept {
            0 => 1.0,
            kept => (self.count as f64 / kept as f64).max(1.0),
        }
    }

    fn bound(&mut self) {
        if self.moments.len() >= FULL {
            self.keep_earliest();
        }
    }

    /// Drops all but the earliest exchanges; leaves those in any order.
    fn keep_earliest(&mut self) {
        if let Some(last) = keep_least(&mut self.moments, MAX_MOMENTS) {
            self.until = Some(last.begin);
        }
    }
}

/// Drops all but the `most` smallest items, and returns the last of them if there were that many.
fn keep_least<T: Ord + Copy>(list: &mut Vec<T>, most: usize) -> Option<T> {
    if list.len() < most {
        return None;
    }
    let (_, last, _) = list.select_nth_unstable(most - 1);
    let last = *last;
    list.truncate(most);
    Some(last)
}

/// Returns the moments sorted by the instants that `at` returns; moments with equal instants keep
/// their order.
pub(crate) fn by_time(moments: &[Moment], at: impl Fn(&Moment) -> Timestamp) -> Vec<Moment> {
    let number = |moment: &Moment| Some(at(moment).as_nanos().wrapping_sub(i64::MIN) as u64);
    in_order(moments, number, &at)
}

/// Sorts the moments by the instants that `at` returns, and those with equal instants by the
/// moments themselves.
fn put_in_order(moments: &mut Vec<Moment>, at: impl Fn(&Moment) -> Timestamp) {
    *moments = by_time(moments, &at);
    for at_once in moments.chunk_by_mut(|a, b| at(a) == at(b)) {
        at_once.sort_unstable();
    }
}

/// Returns the moments grouped by client, within each group in the given order.
pub(crate) fn by_client(moments: &[Moment]) -> Vec<Moment> {
    in_order(
        moments,
        |moment| moment.client.number(),
        |moment| moment.client,
    )
}

/// Returns the moments grouped by requesting host, within each group in the given order.
pub(crate) fn by_host(moments: &[Moment]) -> Vec<Moment> {
    let host = |moment: &Moment| Endpoint::new(moment.client.addr, 0);
    in_order(moments, |moment| host(moment).number(), host)
}

/// Returns the moments sorted by `key`; moments with equal keys keep their order. If `number`
/// differs for two moments, `key` must sort them the same way.
fn in_order<'a, K: Ord>(
    moments: &'a [Moment],
    number: impl Fn(&Moment) -> Option<u64>,
    key: impl Fn(&'a Moment) -> K,
) -> Vec<Moment> {
    // Indices are sorted instead of moments, because moments are large.
    let places = match places_by_number(moments, number) {
        Some(places) => places,
        None => {
            let keys = moments.iter().map(key).zip(0..);
            let mut places: Vec<(K, usize)> = keys.collect();
            places.sort_unstable();
            places.into_iter().map(|(_, at)| at).collect()
        }
    };
    let mut sorted = Vec::with_capacity(moments.len());
    sorted.extend(places.iter().filter_map(|at| moments.get(*at)));
    sorted
}

/// Number of bits of an index that is packed together with a number.
const PLACE_BITS: u32 = 16;

/// Returns the indices of the moments, sorted by number and then by index. Each number and its
/// index are packed into one machine word, which is by far the fastest to sort. `None` if they do
/// not fit into one word.
fn places_by_number(
    moments: &[Moment],
    number: impl Fn(&Moment) -> Option<u64>,
) -> Option<Vec<usize>> {
    let numbers: Option<Vec<u64>> = moments.iter().map(number).collect();
    let mut words = numbers?;
    let least = words.iter().copied().min().unwrap_or_default();
    let most = words.iter().copied().max().unwrap_or_default();
    if (most - least) >> (u64::BITS - PLACE_BITS) > 0 || words.len() > 1 << PLACE_BITS {
        return None;
    }
    for (word, place) in words.iter_mut().zip(0..) {
        *word = (*word - least) << PLACE_BITS | place;
    }
    words.sort_unstable();
    let place = |word: u64| (word & ((1 << PLACE_BITS) - 1)) as usize;
    Some(words.into_iter().map(place).collect())
}

/// Returns the point that saw the most of the moments; of equal ones the first.
fn busiest_point(moments: &[Moment]) -> Option<PointId> {
    let mut points: Vec<PointId> = moments.iter().map(|moment| moment.point).collect();
    points.sort_unstable();
    let mut best: Option<(usize, PointId)> = None;
    for run in points.chunk_by(|a, b| a == b) {
        let Some(&point) = run.first() else { continue };
        if best.is_none_or(|(count, _)| run.len() > count) {
            best = Some((run.len(), point));
        }
    }
    best.map(|(_, point)| point)
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;

    impl Moment {
        /// A request from `port` of this host that the server had from `begin` to `end`.
        pub(crate) fn between(port: u16, begin: Timestamp, end: Timestamp) -> Self {
            Self {
                begin,
                client: Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
                point: PointId::default(),
                ordinal: 0,
                sent: begin,
                asked: begin,
                answered: end,
                resumed: end,
                end,
                response: Response::default(),
                setup: None,
                fingerprints: Fingerprints::default(),
                path: Path::default(),
                is_login: false,
                is_clear: true,
            }
        }
    }

    fn moment(n: i64) -> Moment {
        let at = Timestamp::from_nanos(n * 1_000);
        Moment::between(40_000, at, at)
    }

    /// Fills `shards` timelines in turn and merges them.
    fn merged(shards: usize, order: impl Iterator<Item = i64>) -> Vec<Moment> {
        let mut all = vec![Timeline::default(); shards];
        for (turn, n) in order.enumerate() {
            all[turn % shards].merge(Timeline {
                moments: vec![moment(n)],
                count: 1,
                ..Timeline::default()
            });
        }
        let mut sum = Timeline::default();
        all.into_iter().for_each(|timeline| sum.merge(timeline));
        assert_eq!(sum.count, 20_000);
        sum.sorted().0
    }

    #[test]
    fn the_earliest_stay_whatever_the_order_and_the_shards() {
        let one = merged(1, 0..20_000);
        let many = merged(64, (0..20_000).rev());
        assert_eq!(one.len(), MAX_MOMENTS);
        assert_eq!(one, many);
    }
}
