//! The upstream of a proxy. If the capture contains both sides of the proxy, each client request is
//! matched with the upstream request that it caused.
//!
//! Most proxies send upstream requests from the address at which they receive client requests. If
//! the addresses differ, the times of the requests must match more closely than chance allows.

use core::cell::OnceCell;
use core::time::Duration;
use std::collections::BTreeMap;

use super::rhythm::{Gate, PointView, Rhythm, quantile, sorted};
use super::sequence::round_trip;
use super::{Case, evidence};
use crate::observed::flow::Endpoint;
use crate::report::{PassedOn, RequestAt};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;

/// Minimum number of matched requests that show an upstream.
const LEAST_PAIRS: usize = 5;
/// Maximum number of services that are tried as the upstream of one service.
const MAX_CANDIDATES: usize = 64;
/// Minimum share of a service's requests that have a matching upstream request.
const FOLLOWED: f64 = 0.8;
/// Minimum ratio of the round trip to a distant upstream to the round trip to its proxy.
const FARTHER: u32 = 4;
/// Maximum variation of one host's timestamps.
const JITTER: Duration = Duration::from_millis(1);
/// Minimum share of the think time for which the proxy waits for its upstream.
const MAINLY: f64 = 0.5;
/// A statement about the upstream must be true for at least this share of the pairs.
const MOST: f64 = 0.9;

/// Minimum number of pairs if the proxy has different addresses on its two sides.
const LEAST_BY_TIMES: usize = 10;
/// Minimum share of the client request's think time that the upstream request takes, if the
/// addresses differ.
const FILLED: f64 = 0.8;
/// Maximum expected number of upstream requests that fit a client request by chance.
const BY_CHANCE: f64 = 0.1;
/// Maximum ratio of two spreads. The first is that of the clients' times without the upstream's
/// time. The second is that of the clients' whole times. If a client sent requests to two servers
/// in parallel, the times would vary independently.
const LEFT: f64 = 0.5;
/// Maximum number of upstream requests that are tried for each client request, if the addresses
/// differ.
const MAX_TRIED: usize = 16;

/// The upstream of a service, with the matched requests on both sides.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(super) endpoint: Endpoint,
    /// The pairs of a client request and the upstream request that it caused.
    pub(super) pairs: Vec<Pair>,
    /// Number of requests that each pair represents.
    weight: f64,
    /// The gate of the upstream, if requests pass it one after the other.
    pub(super) gate: Option<Gate>,
    pub(super) role: Option<UpstreamRole>,
    /// The result of [`Upstream::claim`]. It is cached because several rules need it.
    claimed: OnceCell<Option<(UpstreamRole, Tally)>>,
}

/// A client request to the proxy, and the proxy's request to its upstream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) front: Moment,
    pub(super) back: Moment,
}

/// The reason why the proxy waits for its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpstreamRole {
    /// The upstream thinks.
    Thinks,
    /// The upstream is distant.
    IsFar,
    /// The proxy opens a new connection to the upstream for each request.
    IsConnectedAnew,
    /// The proxy sends its request only when it has received the client's whole request.
    IsAskedLate,
    /// The proxy holds back the upstream's response.
    IsHeldBack,
}

impl Pair {
    /// Returns the time at which the upstream's response begins to arrive at the proxy. The time for
    /// which Nagle's algorithm holds the response comes before: a head without its body is no use.
    fn arrival(&self) -> crate::observed::time::Timestamp {
        self.back.answered + self.back.response.held + self.back.asked.since(self.back.sent)
    }

    /// Returns the time for which the upstream has the request before its response is on its way. If
    /// nothing shows the round trip to the upstream, all of the time counts.
    pub(super) fn late(&self) -> Duration {
        let travel = (!self.back.path.is_told).then(|| self.travel());
        self.back.think() + self.back.response.held + travel.unwrap_or_default()
    }

    /// Returns the time for which the complete client request waited for the upstream's response.
    fn waited(&self) -> Duration {
        let from = self.back.begin.max(self.front.asked);
        self.arrival().min(self.front.answered).since(from)
    }

    /// Returns the time of the client request without the time of the upstream request.
    fn room(&self) -> Duration {
        let took = self.arrival().since(self.back.begin);
        self.front
            .answered
            .since(self.front.begin)
            .saturating_sub(took)
    }

    /// Returns the round trip to the upstream.
    pub(super) fn travel(&self) -> Duration {
        self.back.asked.since(self.back.sent) * 2
    }

    /// Returns the time that would be saved if the upstream request began with the upload.
    fn overlap(&self) -> Duration {
        let upload = self.front.sent.since(self.front.begin);
        upload.min(self.front.answered.since(self.back.begin))
    }

    /// Returns the time for which the proxy held back the response.
    fn held(&self) -> Duration {
        self.front.answered.since(self.arrival())
    }
}

impl Upstream {
    /// Returns the upstream of `front`; `None` if no service in the capture is its upstream.
    pub(crate) fn of(front: Endpoint, rhythms: &BTreeMap<Endpoint, Rhythm>) -> Option<Self> {
        let own = rhythms.get(&front)?;
        let views = own.views();
        let found = views.filter_map(|view| Self::in_view(front, &view, rhythms));
        found.max_by_key(|upstream| upstream.pairs.len())
    }

    fn in_view(
        front: Endpoint,
        own: &PointView<'_>,
        rhythms: &BTreeMap<Endpoint, Rhythm>,
    ) -> Option<Self> {
        if own.moments.len() < LEAST_PAIRS || !own.moments.iter().any(is_slow) {
            return None;
        }
        let candidates = rhythms
            .iter()
            .filter(|(back, rhythm)| !is_itself(front, **back) && may_be_behind(front, rhythm))
            .take(MAX_CANDIDATES);
        let (endpoint, rhythm, pairs) = candidates
            .map(|(&back, rhythm)| (back, rhythm, pairs(front, &own.moments, rhythm)))
            .filter(|(_, _, pairs)| {
                pairs.len() >= LEAST_PAIRS
                    && pairs.len() as f64 >= own.moments.len() as f64 * FOLLOWED
            })
            .max_by_key(|(back, _, pairs)| (pairs.len(), core::cmp::Reverse(*back)))
            .or_else(|| by_times(front, &own.moments, rhythms))?;
        let gate = rhythm.gate();
        let role = role(&pairs, gate.as_ref());
        Some(Self {
            endpoint,
            pairs,
            weight: own.weight,
            gate,
            role,
            claimed: OnceCell::new(),
        })
    }

    /// Returns the requests to the proxy `front` with those that it passed on.
    pub(crate) fn passed_on(&self, front: Endpoint) -> impl Iterator<Item = PassedOn> {
        let at = |moment: &Moment, server: Endpoint| RequestAt {
            start_ns: moment.begin.as_nanos(),
            client: moment.client.to_string(),
            server: server.to_string(),
        };
        self.pairs.iter().map(move |pair| PassedOn {
            asked: at(&pair.front, front),
            asks: at(&pair.back, self.endpoint),
        })
    }

    /// Returns the time that this pair would save without the upstream's `role`.
    fn saved(&self, role: UpstreamRole, pair: &Pair) -> Duration {
        match role {
            UpstreamRole::Thinks | UpstreamRole::IsFar | UpstreamRole::IsConnectedAnew => {
                let setup = pair
                    .back
                    .setup
                    .filter(|_| role == UpstreamRole::IsConnectedAnew);
                pair.waited() + setup.unwrap_or_default()
            }
            UpstreamRole::IsAskedLate => pair.overlap(),
            UpstreamRole::IsHeldBack => pair.held(),
        }
    }

    /// Returns the upstream's role and its cost; `None` if the cost does not matter.
    pub(super) fn claim(&self, case: &Case<'_>) -> Option<(UpstreamRole, &Tally)> {
        let claimed = self.claimed.get_or_init(|| self.weigh(case)).as_ref();
        claimed.map(|(role, tally)| (*role, tally))
    }

    fn weigh(&self, case: &Case<'_>) -> Option<(UpstreamRole, Tally)> {
        let is_farther = || self.median(Pair::travel) >= round_trip(case) * FARTHER;
        let role = self
            .role
            .filter(|&role| role != UpstreamRole::IsFar || is_farther())?;
        let mut tally = Tally::default();
        let extents = case.rhythm.extents();
        for pair in &self.pairs {
            let saved = self.saved(role, pair);
            if saved >= evidence::ORDINARY_WORK {
                tally.add_moment(&extents.of(pair.front), saved, self.weight);
            }
        }
        let is_repeated = evidence::is_repeated(case, &tally) && evidence::stands_out(case, &tally);
        (is_repeated && evidence::is_material(case, &tally)).then_some((role, tally))
    }

    /// Returns the proxy's think time without the time that it waited for the upstream.
    pub(super) fn rest(&self, role: UpstreamRole) -> Tally {
        let mut tally = Tally::default();
        for pair in &self.pairs {
            let saved = match role {
                // The upstream's own time is necessary, even if it overlaps with the upload.
                UpstreamRole::IsAskedLate => pair.waited(),
                role => self.saved(role, pair),
            };
            let rest = pair.front.think().saturating_sub(saved);
            if rest >= evidence::ORDINARY_WORK {
                tally.add_moment(&pair.front, rest, self.weight);
            }
        }
        tally
    }

    /// Returns the time of uploads to the proxy, without the part that could overlap with the
    /// upstream request.
    pub(super) fn upload_rest(&self) -> Tally {
        let mut tally = Tally::default();
        for pair in &self.pairs {
            let upload = pair.front.sent.since(pair.front.begin);
            let rest = upload.saturating_sub(pair.overlap());
            if rest >= evidence::ORDINARY_WORK {
                tally.add_moment(&pair.front, rest, self.weight);
            }
        }
        tally
    }

    /// Returns true if the time of the upstream may be that of the path to it: no reply of its kernel
    /// shows how long the path is.
    pub(super) fn may_be_far(&self) -> bool {
        let untold = self
            .pairs
            .iter()
            .filter(|pair| !pair.back.path.is_told)
            .count();
        untold as f64 >= self.pairs.len() as f64 * MAINLY
            && self.median(Pair::travel) * 2 >= self.median(Pair::late)
    }

    /// Returns the median of `of` over all pairs.
    pub(super) fn median(&self, of: impl Fn(&Pair) -> Duration) -> Duration {
        median(&self.pairs, of)
    }
}

/// Returns the result of [`Upstream::claim`] if its role is one of `roles`. Several rules share the
/// claim.
pub(super) fn claimed<'a>(
    case: &'a Case<'_>,
    roles: &[UpstreamRole],
) -> Option<(&'a Upstream, UpstreamRole, &'a Tally)> {
    let upstream = case.upstream.filter(|_| case.has_packets)?;
    let (role, tally) = upstream.claim(case)?;
    roles.contains(&role).then_some((upstream, role, tally))
}

/// Returns another server to which the host of `front` sent a request while one of its own requests
/// waited, whether for its response or not.
pub(super) fn asked_meanwhile(
    front: Endpoint,
    rhythms: &BTreeMap<Endpoint, Rhythm>,
) -> Option<Endpoint> {
    let own = rhythms.get(&front)?;
    let is_meanwhile = |rhythm: &Rhythm| {
        let slow = own.moments.iter().filter(|moment| is_slow(moment));
        slow.into_iter().any(|moment| {
            let from = rhythm
                .moments
                .partition_point(|back| back.begin < moment.sent);
            let later = rhythm.moments.iter().skip(from);
            let mut within = later.take_while(|back| back.begin <= moment.answered);
            within.any(|back| {
                let is_here = rhythm.is_called_here || is_same_host(front, back.client);
                is_here && back.client != moment.client
            })
        })
    };
    let mut others = rhythms.iter().filter(|(back, _)| !is_itself(front, **back));
    others.find_map(|(&back, rhythm)| is_meanwhile(rhythm).then_some(back))
}

fn is_slow(moment: &Moment) -> bool {
    moment.think() >= evidence::ORDINARY_WORK
}

fn median(pairs: &[Pair], of: impl Fn(&Pair) -> Duration) -> Duration {
    quantile(&sorted(pairs.iter().map(of)), 0.5)
}

fn role(pairs: &[Pair], gate: Option<&Gate>) -> Option<UpstreamRole> {
    let think = median(pairs, |pair| pair.front.think());
    let is_main = |part: Duration| {
        part >= evidence::ORDINARY_WORK && part.as_secs_f64() >= think.as_secs_f64() * MAINLY
    };
    let most = |is: &dyn Fn(&Pair) -> bool| {
        pairs.iter().filter(|pair| is(pair)).count() as f64 >= pairs.len() as f64 * MOST
    };
    let upload = median(pairs, |pair| pair.front.sent.since(pair.front.begin));
    let is_asked_late = upload >= evidence::ORDINARY_WORK * 4
        && most(&|pair| pair.back.begin + JITTER >= pair.front.sent)
        && median(pairs, Pair::overlap) >= evidence::ORDINARY_WORK * 4;
    if is_asked_late {
        return Some(UpstreamRole::IsAskedLate);
    }
    let is_streaming =
        median(pairs, |pair| pair.back.end.since(pair.arrival())) >= evidence::ORDINARY_WORK * 4;
    if is_main(median(pairs, Pair::held)) && is_streaming {
        return Some(UpstreamRole::IsHeldBack);
    }
    if !is_main(median(pairs, Pair::waited)) {
        return None;
    }
    // The clients reuse their connections, and each upstream connection carries one request.
    let reused = pairs.iter().filter(|pair| pair.front.ordinal > 0).count();
    let is_anew = most(&|pair| pair.back.ordinal == 0) && reused * 2 >= pairs.len();
    let travel = median(pairs, Pair::travel);
    let own = median(pairs, Pair::late);
    if is_anew && gate.is_some_and(|gate| gate.quickest * 2 <= gate.turn) {
        Some(UpstreamRole::IsConnectedAnew)
    } else if travel > own && is_main(travel) {
        Some(UpstreamRole::IsFar)
    } else {
        is_main(own).then_some(UpstreamRole::Thinks)
    }
}

/// Matches each client request with the first upstream request that is sent and answered within it.
fn pairs(front: Endpoint, asked: &[Moment], rhythm: &Rhythm) -> Vec<Pair> {
    let behind = &rhythm.moments;
    let mut taken = vec![false; behind.len()];
    let mut pairs = Vec::new();
    for moment in asked.iter().filter(|moment| moment.is_clear) {
        let from = behind.partition_point(|back| back.begin < moment.begin);
        let until = behind.partition_point(|back| back.begin <= moment.answered);
        let found = (from..until).find(|&index| {
            let is_free = !taken.get(index).copied().unwrap_or(true);
            is_free
                && behind
                    .get(index)
                    .is_some_and(|back| is_within(front, moment, rhythm, back))
        });
        let Some(index) = found else { continue };
        if let (Some(taken), Some(&back)) = (taken.get_mut(index), behind.get(index)) {
            *taken = true;
            pairs.push(Pair {
                front: *moment,
                back,
            });
        }
    }
    pairs
}

/// Returns the upstream of a proxy that uses another address towards it. This service gets one
/// request for each request to `front`, and no other requests.
fn by_times<'a>(
    front: Endpoint,
    own: &[Moment],
    rhythms: &'a BTreeMap<Endpoint, Rhythm>,
) -> Option<(Endpoint, &'a Rhythm, Vec<Pair>)> {
    let asked = own.len() as f64;
    let is_as_often = |rhythm: &Rhythm| {
        let behind = rhythm.moments.len() as f64;
        behind >= asked * FOLLOWED && asked >= behind * FOLLOWED
    };
    let others = rhythms.iter().filter(|(back, rhythm)| {
        back.addr != front.addr && is_as_often(rhythm) && !may_be_behind(front, rhythm)
    });
    let found = others.take(MAX_CANDIDATES).filter_map(|(&back, rhythm)| {
        let pairs = pairs_by_times(own, &rhythm.moments);
        let all = own.len().max(rhythm.moments.len());
        let is_all = pairs.len() >= LEAST_BY_TIMES && pairs.len() as f64 >= all as f64 * FOLLOWED;
        (is_all && is_driven(&pairs, &rhythm.moments)).then_some((back, rhythm, pairs))
    });
    // If several services match, their requests are nested. The proxy calls the one that takes
    // longest.
    found.max_by_key(|(back, _, pairs)| {
        let waited: Duration = pairs.iter().map(Pair::waited).sum();
        (waited, core::cmp::Reverse(*back))
    })
}

/// Matches each client request with an upstream request from another address that takes nearly all
/// of its think time.
fn pairs_by_times(asked: &[Moment], behind: &[Moment]) -> Vec<Pair> {
    let mut taken = vec![false; behind.len()];
    let mut pairs = Vec::new();
    for &front in asked.iter().filter(|moment| moment.is_clear) {
        let from = behind.partition_point(|back| back.begin < front.begin);
        let tried = behind.iter().zip(&mut taken).skip(from).take(MAX_TRIED);
        let mut free = tried.filter(|(_, taken)| !**taken);
        let found = free.find(|(back, _)| {
            is_filled(&Pair {
                front,
                back: **back,
            })
        });
        if let Some((&back, taken)) = found {
            *taken = true;
            pairs.push(Pair { front, back });
        }
    }
    pairs
}

/// Returns true if the upstream request is within the client request, and takes nearly all of its
/// think time.
fn is_filled(pair: &Pair) -> bool {
    let Pair { front, back } = pair;
    let think = front.think();
    back.point == front.point
        && back.client.addr != front.client.addr
        && back.begin >= front.begin
        && back.answered <= front.answered
        && think >= evidence::ORDINARY_WORK
        && pair.waited().as_secs_f64() >= think.as_secs_f64() * FILLED
}

/// Returns true if the upstream determines the time of the client requests. Requests like those in
/// `behind` must not fit by chance, and both times must vary together.
fn is_driven(pairs: &[Pair], behind: &[Moment]) -> bool {
    let (Some(first), Some(last)) = (behind.first(), behind.last()) else {
        return false;
    };
    let lasted = last.begin.since(first.begin).as_secs_f64();
    let room = sorted(pairs.iter().map(Pair::room));
    let fitting = behind.len() as f64 * quantile(&room, 0.5).as_secs_f64();
    let spread = |sorted: &[Duration]| {
        let middle = quantile(sorted, 0.5);
        sorted
            .iter()
            .map(|each| each.abs_diff(middle))
            .sum::<Duration>()
    };
    let thinks = sorted(pairs.iter().map(|pair| pair.front.think()));
    fitting <= lasted * BY_CHANCE
        && spread(&room).as_secs_f64() <= spread(&thinks).as_secs_f64() * LEFT
}

/// Returns true if the host of `front` sent enough requests to the service.
fn may_be_behind(front: Endpoint, rhythm: &Rhythm) -> bool {
    let is_there = |moment: &Moment| is_same_host(front, moment.client);
    let is_there = rhythm.is_called_here || rhythm.moments.first().is_some_and(is_there);
    rhythm.moments.len() >= LEAST_PAIRS && is_there
}

/// Returns true if `back` is the program behind `front`: it serves one port at an address of its host
/// and over loopback.
pub(super) fn is_itself(front: Endpoint, back: Endpoint) -> bool {
    let is_one_host = front.addr == back.addr || is_same_host(front, back);
    front.port == back.port && is_one_host
}

/// Returns true if the client may be on the same host as the server `front`: at the same address,
/// or over loopback.
fn is_same_host(front: Endpoint, client: Endpoint) -> bool {
    client.addr == front.addr || client.addr.is_loopback() || front.addr.is_loopback()
}

/// Returns true if the proxy may have sent `back` for the client request `moment`: from the same
/// host, and with a response that came no later.
fn is_within(front: Endpoint, moment: &Moment, rhythm: &Rhythm, back: &Moment) -> bool {
    let is_seen_here = is_same_host(front, back.client) && back.point == moment.point;
    (rhythm.is_called_here || is_seen_here)
        && back.client != moment.client
        && back.answered <= moment.answered + JITTER
        && back.end <= moment.end + JITTER
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;
    use crate::observed::time::Timestamp;

    /// Returns the rhythm of a server whose only request is on the client's port `port`, from
    /// `begin` to `end` (in milliseconds).
    fn rhythm(port: u16, begin: i64, end: i64) -> Rhythm {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        let mut rhythm = Rhythm::default();
        rhythm.moments = vec![Moment::between(port, at(begin), at(end))];
        rhythm
    }

    #[test]
    fn a_request_of_the_server_to_another_server_within_a_wait_is_found() {
        let server = |last: u8| Endpoint::new(IpAddr::from([10, 0, 0, last]), 80);
        let (front, other) = (server(1), server(2));
        let with = |begin: i64| {
            let waits = rhythm(40_001, 100, 900);
            BTreeMap::from([(front, waits), (other, rhythm(40_002, begin, 2_000))])
        };
        assert_eq!(asked_meanwhile(front, &with(300)), Some(other));
        assert_eq!(asked_meanwhile(front, &with(950)), None);
        assert_eq!(asked_meanwhile(front, &with(50)), None);
    }

    #[test]
    fn a_program_is_no_upstream_of_itself() {
        let at = |host: [u8; 4], port| Endpoint::new(host.into(), port);
        let (outside, inside) = ([10, 0, 0, 2], [127, 0, 0, 1]);
        assert!(is_itself(at(outside, 6379), at(inside, 6379)));
        assert!(is_itself(at(inside, 6379), at(outside, 6379)));
        assert!(!is_itself(at(outside, 80), at(inside, 6379)));
        assert!(!is_itself(at(outside, 80), at([10, 0, 0, 3], 80)));
    }
}
