//! The earliest whole exchanges of one server side by side: what a rule needs
//! that looks at several connections at once.
//!
//! Which exchanges are kept depends on when they began and on nothing else, so
//! that neither the order they come in nor the shards change the outcome.

mod late;

use core::time::Duration;

pub(crate) use late::{LEAST_LATE, Late};

use crate::event::PointId;
use crate::exchange::{Exchange, Outcome};
use crate::flow::Endpoint;
use crate::http;
use crate::time::Timestamp;
use crate::wait::{Wait, WaitKind};

/// Exchanges kept of one server: several seconds of a busy one, all of a lab's.
const MAX_MOMENTS: usize = 2048;

/// When one exchange was where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// The request's first byte.
    pub(crate) begin: Timestamp,
    pub(crate) client: Endpoint,
    pub(crate) point: PointId,
    pub(crate) ordinal: u32,
    /// The request was whole here.
    pub(crate) sent: Timestamp,
    /// The server had the request, as far as the travel to it is known.
    pub(crate) asked: Timestamp,
    /// The server sent the response's first byte.
    pub(crate) answered: Timestamp,
    /// The server went on after the longest wait that was its own.
    pub(crate) resumed: Timestamp,
    /// The response's last byte.
    pub(crate) end: Timestamp,
    /// Its connection was made for it.
    pub(crate) setup: Option<Duration>,
    pub(crate) target: u64,
    pub(crate) redirect: Option<u64>,
    /// Fingerprint of whom it asked, by name; 0 where that was not read.
    pub(crate) origin: u64,
    /// The least round trip from here to the server.
    pub(crate) to_server: Duration,
    /// Its response was compressed while it was sent.
    pub(crate) is_encoded: bool,
    /// The server's kernel acknowledged the request before the answer.
    pub(crate) is_acked_first: bool,
    /// Nothing of it was lost, missed or behind another: its times are the
    /// server's and the path's own.
    pub(crate) is_clear: bool,
}

impl Moment {
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
            begin: exchange.begin,
            client: exchange.client,
            point: exchange.point,
            ordinal: exchange.ordinal,
            sent,
            asked,
            answered: think.map_or(asked, |wait| wait.end),
            resumed: resumed(exchange),
            end: exchange.end,
            setup: exchange.setup,
            target: exchange.particulars.target,
            redirect: exchange.particulars.redirect,
            origin: origin(exchange),
            to_server: exchange.least_trip.unwrap_or_default(),
            is_encoded: exchange.particulars.is_encoded_on_the_fly,
            is_acked_first: exchange.travel.is_acked_first,
            is_clear,
        }
    }

    /// How long the server had the request before it began to answer.
    pub(crate) fn think(&self) -> Duration {
        self.answered.since(self.asked)
    }

    /// Its whole duration.
    pub(crate) fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }
}

/// Whom the exchange, or the handshake before it, asked by name.
fn origin(exchange: &Exchange) -> u64 {
    let handshake = exchange.handshake.as_ref();
    let named = handshake.and_then(|handshake| handshake.server_name.as_ref());
    match exchange.particulars.origin {
        0 => named.map_or(0, |name| http::origin(name.as_bytes())),
        origin => origin,
    }
}

/// When the request was whole.
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

/// When the server went on after its longest own wait in `exchange`, at the
/// server as far as the travel from it is known.
fn resumed(exchange: &Exchange) -> Timestamp {
    let travel = exchange.least_trip.unwrap_or_default() / 2;
    let own = exchange
        .waits
        .iter()
        .filter(|wait| matches!(wait.kind, WaitKind::ServerThink | WaitKind::ServerPause));
    let longest = own.max_by_key(|wait| (wait.nanos(), core::cmp::Reverse(wait.end)));
    longest.map_or(exchange.end, |wait| match wait.kind {
        WaitKind::ServerPause => wait.end - travel,
        _ => wait.end,
    })
}

/// The earliest exchanges, at most [`MAX_MOMENTS`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    moments: Vec<Moment>,
    /// Whole exchanges, kept or not.
    count: u64,
    /// What begins later than the last of those kept is not kept; `None`:
    /// there is room.
    until: Option<Timestamp>,
    late: Late,
}

impl Timeline {
    pub(crate) fn take(&mut self, exchange: &Exchange) {
        // One that took no longer than a tick of the capture's clock has no waits.
        let is_tiled = !exchange.waits.is_empty() || exchange.begin == exchange.end;
        if !matches!(exchange.outcome, Outcome::Complete(_)) || !is_tiled {
            return;
        }
        self.count += 1;
        let moment = Moment::of(exchange);
        self.late.take(moment);
        if self.until.is_some_and(|until| exchange.begin > until) {
            return;
        }
        if self.moments.len() >= 2 * MAX_MOMENTS {
            self.keep_earliest();
        }
        self.moments.push(moment);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.late.merge(other.late);
        self.moments.extend(other.moments);
        if self.moments.len() >= 2 * MAX_MOMENTS {
            self.keep_earliest();
        }
    }

    /// The exchanges in the order they began, of the point that saw most of
    /// them.
    pub(crate) fn sorted(&self) -> Vec<Moment> {
        let mut all = self.clone();
        all.keep_earliest();
        let mut moments = all.moments;
        if let Some(point) = busiest_point(&moments) {
            moments.retain(|moment| moment.point == point);
        }
        in_order(&moments, |moment| (moment.begin, moment))
    }

    /// The exchanges that took longest, where not all are among the earliest: how many there
    /// are in all, and those.
    pub(crate) fn late(&self) -> Option<(u64, &Late)> {
        (self.count > MAX_MOMENTS as u64).then_some((self.count, &self.late))
    }

    /// How many exchanges each of the `kept` stands for.
    pub(crate) fn weight(&self, kept: usize) -> f64 {
        match kept {
            0 => 1.0,
            kept => (self.count as f64 / kept as f64).max(1.0),
        }
    }

    /// Forgets what is not among the earliest; leaves them in any order.
    fn keep_earliest(&mut self) {
        if self.moments.len() < MAX_MOMENTS {
            return;
        }
        let (_, last, _) = self.moments.select_nth_unstable(MAX_MOMENTS - 1);
        self.until = Some(last.begin);
        self.moments.truncate(MAX_MOMENTS);
    }
}

/// The moments in the order of what `key` says of them; those of which it says
/// the same keep the order in which they come.
pub(crate) fn in_order<'a, K: Ord>(
    moments: &'a [Moment],
    key: impl Fn(&'a Moment) -> K,
) -> Vec<Moment> {
    // Places are sorted, for moments are large.
    let keys = moments.iter().map(key).zip(0..);
    let mut places: Vec<(K, usize)> = keys.collect();
    places.sort_unstable();
    let sorted = places.iter().filter_map(|(_, at)| moments.get(*at));
    sorted.copied().collect()
}

/// The point with most of them, of equal ones the first.
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
        /// A request from `port` of this host that its server had all the time.
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
                setup: None,
                target: 0,
                redirect: None,
                origin: 0,
                to_server: Duration::ZERO,
                is_encoded: false,
                is_acked_first: false,
                is_clear: true,
            }
        }
    }

    fn moment(n: i64) -> Moment {
        let at = Timestamp::from_nanos(n * 1_000);
        Moment::between(40_000, at, at)
    }

    /// Fills `shards` timelines turn by turn and merges them.
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
        sum.sorted()
    }

    #[test]
    fn the_earliest_stay_whatever_the_order_and_the_shards() {
        let one = merged(1, 0..20_000);
        let many = merged(64, (0..20_000).rev());
        assert_eq!(one.len(), MAX_MOMENTS);
        assert_eq!(one, many);
    }
}
