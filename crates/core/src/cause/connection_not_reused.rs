//! The rule of the cause `connection-not-reused`.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::evidence::{self, human};
use super::settings::{self, Measured};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Closing, Exchange, Outcome};
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::report::{Remark, counted};
use crate::service::tally::{Cost, Tally};
use crate::service::timeline::Moment;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// The wording for a client that closes its connections and opens one for each request.
const WORDING: Wording = Wording {
    summary: "Each request opens its own connection and pays {setup} (median) for it, {share} of \
        the request time including connection setup.",
    ruled_out: &[],
    overturned_by: "exchanges that reuse these connections later on",
    fix: &[POOL],
};

/// The summary if only some requests have a connection of their own.
const SOME: &str = "{paying} of {whole} requests open their own connection and pay {setup} \
    (median) for it, {share} of the request time including connection setup.";

/// The look-alike that is ruled out if no SYN was retransmitted.
const CONNECTED: &[(Id, &str)] = &[(
    Id::SynLoss,
    "none of {handshakes} handshakes had to retransmit its SYN",
)];

/// The changes if the server closes the connections.
const OF_SERVER: &[(&str, &str)] = &[LET_LIVE];

/// The changes if it is not known which end closes the connections.
const OF_EITHER: &[(&str, &str)] = &[
    (
        "client",
        "look for `Connection: close` in its requests (`curl -v`) or its log",
    ),
    POOL,
    LET_LIVE,
];

/// The change at the client.
const POOL: (&str, &str) = ("client", "keep connections alive and pool them");

/// The change at the server.
const LET_LIVE: (&str, &str) = (
    "server",
    "keep connections open: no `Connection: close`; in nginx {keepalive_timeout} and \
     {keepalive_requests} above 0",
);

/// Minimum share of all exchanges that paid for a connection.
const SHARE: f64 = 0.5;
/// A server keeps an idle connection for at least this time if no end asks to close it (the default
/// of Node and Apache). After that time, the connection may be gone and cannot be reused.
const KEPT: Duration = Duration::from_secs(5);
/// A client opens connections by habit if at least one in this many was needless. A client that
/// opens several connections in parallel needs them, and may reuse them later.
const NEEDLESS: u64 = 2;
/// There must also be at least one needless connection for this many exchanges.
const NEEDLESS_OF_ALL: u64 = 3;
/// Maximum share of connections with fewer requests than usual, among those that the server closed.
/// The capture or the load began or ended while they were open.
const USUAL: f64 = 0.25;
/// The statuses after which a server has to close the connection, or may: where the request ends is
/// not known, or the rest of it is not wanted (RFC 9110 §15.5, RFC 9112 §2.2 and §6.3).
const FORCING: [u16; 9] = [400, 408, 411, 413, 414, 417, 431, 501, 505];
/// Maximum number of unfinished exchanges remembered.
const MAX_UNFINISHED: usize = 1024;
/// Minimum share of the exchanges that counts as all of them.
const EACH: f64 = 0.9;

/// Watches connections that carry a single exchange.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::bound)]
pub(crate) struct Rule {
    tally: Tally,
    /// Latencies of the exchanges that paid for a connection, including its setup.
    paid: Distribution,
    client_asked: u64,
    server_asked: u64,
    /// Number of exchanges with a setup whose heads were not read: TLS hides them, the capture does
    /// not have them, or the protocol is not read. Only the FINs are known.
    untold: u64,
    /// Number of exchanges whose heads were not read, and after which the server closed first: the
    /// client may have asked for that.
    veiled: u64,
    /// Number of exchanges with a setup that has a TLS handshake.
    secured: u64,
    /// Number of connections that the server closed because of a request.
    forced: u64,
    /// Numbers of requests on connections that the server closed. One nanosecond means one request.
    carried: Distribution,
    /// The earliest exchanges that were not finished: when they began, and their clients.
    #[merge(extend)]
    unfinished: Vec<(Timestamp, Endpoint)>,
    /// Number of exchanges without an end in the capture that reused a connection.
    reused: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::SETUP.or(Features::CLOSING).or(Features::FAILED);

    fn observe(&mut self, exchange: &Exchange) {
        match exchange.outcome {
            Outcome::Complete(_) => {}
            Outcome::Failed(_) | Outcome::Grpc(_) => return,
            outcome => {
                self.reused += u64::from(outcome == Outcome::Cut && exchange.id.ordinal > 0);
                return self.leave_unfinished(exchange.begin, exchange.id.client);
            }
        }
        self.client_asked += u64::from(exchange.particulars.closing.client_asked);
        self.server_asked += u64::from(exchange.particulars.closing.server_asked);
        if exchange.particulars.closing.server_asked && !exchange.particulars.closing.client_asked {
            let carried = u64::from(exchange.id.ordinal) + 1;
            self.carried.record(Duration::from_nanos(carried));
        }
        if let Outcome::Complete(Some(status)) = exchange.outcome
            && FORCING.contains(&status)
        {
            self.forced += u64::from(exchange.particulars.closing.server_asked);
        }
        let Closing {
            server_asked,
            is_told,
            ..
        } = exchange.particulars.closing;
        self.veiled += u64::from(server_asked && !is_told);
        if let Some(setup) = exchange.connecting.setup {
            self.untold += u64::from(!is_told);
            self.secured += u64::from(exchange.connecting.handshake.is_some());
            self.paid.record(exchange.latency() + setup);
            self.tally.add(exchange, Cost::exactly(setup), setup);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let spared = self.spared(case);
        let is_common = self.tally.affected as f64 >= self.all(case) as f64 * SHARE;
        let is_repeated = spared > 0 && self.tally.affected >= evidence::REPEATS;
        // A client whose reused connections are stale must not be told to reuse more. A server that
        // closes after requests which it cannot read has no other choice.
        let is_forced = case.ledger.counts.stale.max(self.forced) * 2 >= self.tally.affected;
        if let Some(note) = self.hidden_by_spares(case) {
            return Conclusion::Note(note);
        }
        if !(is_common || self.is_limited(case))
            || !is_repeated
            || is_forced
            || !self.is_material(case)
        {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case, spared)))
    }

    fn measured(&self, _: &Case<'_>) -> Measured {
        self.closes()
    }
}

/// The use of a connection by one exchange.
struct Use {
    host: IpAddr,
    origin: u64,
    begin: Timestamp,
    end: Timestamp,
    /// True if the connection was opened for the exchange.
    is_opened: bool,
}

/// Returns the number of exchanges that opened a connection needlessly: another connection of the
/// same client to the same origin had finished its exchanges, at most `kept` earlier. The
/// connections of `unfinished` exchanges, each with its begin, are busy from then on.
fn needless(
    moments: &[Moment],
    unfinished: &[(Timestamp, Endpoint)],
    kept: Option<Duration>,
) -> u64 {
    let origins = origins(moments);
    // One address with several names stands for several servers (RFC 9110 §4.3).
    let origin_of = |client: Endpoint| origins.get(&client).copied().unwrap_or_default();
    let whole = moments.iter().map(|moment| Use {
        host: moment.client.addr,
        origin: origin_of(moment.client),
        // The setup begins with the SYN, when the client has decided to open a connection.
        begin: moment.begin - moment.setup.unwrap_or_default(),
        end: moment.end,
        is_opened: moment.setup.is_some(),
    });
    let unfinished = unfinished.iter().map(|&(begin, client)| Use {
        host: client.addr,
        origin: origin_of(client),
        begin,
        end: Timestamp::MAX,
        is_opened: false,
    });
    let mut uses: Vec<Use> = whole.chain(unfinished).collect();
    uses.sort_by_key(|each| (each.host, each.origin, each.begin));
    let pools = uses.chunk_by(|a, b| (a.host, a.origin) == (b.host, b.origin));
    pools.map(|pool| needless_in(pool, kept)).sum()
}

/// Returns the number of connections that were opened needlessly among those of one pool, whose
/// `uses` are in order.
fn needless_in(uses: &[Use], kept: Option<Duration>) -> u64 {
    let mut count = 0;
    // The connections by the ends of their last exchanges.
    let mut pool: BTreeMap<Timestamp, u32> = BTreeMap::new();
    for each in uses {
        let at = each.begin;
        // The client takes the most recently used connection, as pools do.
        if let Some((&end, connections)) = pool.range_mut(..=at).next_back()
            && kept.is_none_or(|kept| at.since(end) <= kept)
        {
            *connections -= 1;
            if *connections == 0 {
                pool.remove(&end);
            }
            count += u64::from(each.is_opened);
        }
        *pool.entry(each.end).or_default() += 1;
    }
    count
}

/// Returns the origin of each connection on which it is known. With TLS, only the handshake names
/// it. The map is empty if all connections have the same origin.
fn origins(moments: &[Moment]) -> BTreeMap<Endpoint, u64> {
    let named = || {
        moments
            .iter()
            .filter(|moment| moment.fingerprints.origin != 0)
    };
    let first = named().next().map(|moment| moment.fingerprints.origin);
    if named().all(|moment| Some(moment.fingerprints.origin) == first) {
        return BTreeMap::new();
    }
    let mut named: Vec<_> = named()
        .map(|moment| {
            (
                moment.client,
                moment.begin,
                moment.ordinal,
                moment.fingerprints.origin,
            )
        })
        .collect();
    named.sort_unstable();
    // The first origin of a connection is inserted last, so it remains.
    let named = named.into_iter().rev();
    named.map(|(client, .., origin)| (client, origin)).collect()
}

/// Returns a clause that says how many of the connections a client with a pool would not have
/// opened, unless these are all.
fn avoidable(spared: u64, opened: u64) -> String {
    match spared {
        all if all >= opened => String::new(),
        spared => format!(
            ", and {spared} of these connections were avoidable, because another one had finished \
             its exchanges"
        ),
    }
}

impl Rule {
    fn is_material(&self, case: &Case<'_>) -> bool {
        let whole = &case.gathered.bearing.whole;
        evidence::betters(whole, &whole.with_replaced(&self.paid, &self.tally.before))
    }

    fn leave_unfinished(&mut self, begin: Timestamp, client: Endpoint) {
        self.unfinished.push((begin, client));
        self.bound();
    }

    fn bound(&mut self) {
        if self.unfinished.len() >= 2 * MAX_UNFINISHED {
            self.unfinished = self.unfinished();
        }
    }

    /// Returns the earliest unfinished exchanges, in order.
    fn unfinished(&self) -> Vec<(Timestamp, Endpoint)> {
        let mut earliest = self.unfinished.clone();
        earliest.sort_unstable();
        earliest.truncate(MAX_UNFINISHED);
        earliest
    }

    /// Returns the number of exchanges that are whole, or at least show that a connection was
    /// reused.
    fn all(&self, case: &Case<'_>) -> u64 {
        case.ledger.whole() + self.reused
    }

    fn culprit(&self, case: &Case<'_>) -> Owner {
        if self.is_closed_to_us(case) {
            Owner::Server
        } else if self.client_asked * 2 >= self.tally.affected {
            Owner::Client
        } else if self.server_asked * 2 >= self.tally.affected {
            if self.veiled * 2 >= self.server_asked {
                Owner::Unknown
            } else {
                Owner::Server
            }
        } else {
            // No end asked for a close, so the client could have reused the connections.
            Owner::Client
        }
    }

    /// Returns the number of connections that a client with a pool would not open. Such a client
    /// still needs as many connections as it has concurrent requests.
    fn spared(&self, case: &Case<'_>) -> u64 {
        let moments = &case.rhythm.moments;
        let made = moments.iter().filter(|moment| moment.setup.is_some());
        let made = made.count().max(1) as u64;
        let kept = (!self.is_asked()).then_some(KEPT);
        let needless = needless(moments, &self.unfinished(), kept);
        let spared = u128::from(needless) * u128::from(self.tally.affected);
        u64::try_from(spared / u128::from(made)).unwrap_or(u64::MAX)
    }

    /// Returns true if the server's configuration limits the requests per connection to the number
    /// after which the server closes.
    fn is_limited(&self, case: &Case<'_>) -> bool {
        let closes = self.closes();
        settings::supporting(case, Id::ConnectionNotReused, Owner::Server, &closes).is_some()
    }

    /// Returns the note on a server that closes our connections after a few requests, if our load
    /// has so many open connections that hardly a request waited for a new one.
    fn hidden_by_spares(&self, case: &Case<'_>) -> Option<Remark> {
        let requests = self.closes().requests.filter(|_| self.is_limited(case))?;
        let closed = self.carried.count();
        let is_hidden = self.tally.affected * 2 < closed && closed >= evidence::REPEATS;
        (is_hidden && case.facts.loads.is_paced(case.target)).then(|| Remark {
            id: "spare-connections".to_owned(),
            text: format!(
                "The server closed {} after {requests} requests each. The load at a fixed rate has \
                 spare open connections, so its requests rarely waited for a new one. A client \
                 without spare connections waits for a handshake each time (-c 1 shows it).",
                counted(closed, "connection", "connections"),
            ),
        })
    }

    /// Returns the number of requests after which the server closes connections.
    fn closes(&self) -> Measured {
        let carried = |part| self.carried.quantile(part).map(|count| count.as_nanos());
        let same = carried(0.5).filter(|_| carried(USUAL) == carried(0.5));
        Measured {
            requests: same.and_then(|count| u64::try_from(count).ok()),
            ..Measured::default()
        }
    }

    /// Returns true if either end asked to close at least half of the connections.
    fn is_asked(&self) -> bool {
        self.client_asked.max(self.server_asked) * 2 >= self.tally.affected
    }

    /// Returns true if the lack of reuse is a habit, in one of two cases:
    /// - Most connections were opened one after the other, so that a single one would have
    ///   sufficed.
    /// - One end asked to close nearly all of them after one exchange.
    fn is_habit(&self, spared: u64, case: &Case<'_>) -> bool {
        let whole = self.all(case);
        let is_each = self.is_asked() && self.tally.affected as f64 >= whole as f64 * EACH;
        let is_mostly = spared * NEEDLESS >= self.tally.affected;
        is_each || self.is_limited(case) || (is_mostly && spared * NEEDLESS_OF_ALL >= whole)
    }

    fn leave_pool(&self, spared: u64, claim: &mut Claim) {
        let all = self.tally.affected.max(1);
        let part = |cost: u64| (u128::from(cost) * u128::from(spared) / u128::from(all)) as u64;
        claim.time.cost.likely = part(claim.time.cost.likely);
        claim.time.cost.low = part(claim.time.cost.low);
        claim.affected.exchanges = part(claim.affected.exchanges);
    }

    fn claim(&self, case: &Case<'_>, spared: u64) -> Claim {
        let culprit = self.culprit(case);
        let mut claim = evidence::claim(Id::ConnectionNotReused, culprit, case, &self.tally);
        self.leave_pool(spared, &mut claim);
        claim.time.whole_ns = case.weigh(case.ledger.total_with_setup());
        let setup = human(self.tally.saved.quantile(0.5).unwrap_or_default());
        let text = format!(
            "{} of {} followed a handshake of their own ({setup}, median){}; {}",
            self.tally.affected,
            counted(self.all(case), "exchange", "exchanges"),
            avoidable(spared, self.tally.affected),
            self.who_asked(case),
        );
        claim.evidence.push(
            Statement::shows(case.timed_by(), text)
                .count(self.tally.affected)
                .median(&self.tally.saved),
        );
        let is_apart = !self.is_habit(spared, case);
        claim.basis = Basis::new(self.tally.affected, is_apart);
        let (paying, whole) = (self.tally.affected, self.all(case));
        if let Some(title) = self.title(paying, whole, culprit) {
            claim.text.title = title;
        }
        let setups = &case.ledger.setups;
        let is_connected = setups.waits.of(WaitKind::Recovery) == 0 && setups.count > 0;
        let wording = Wording {
            summary: if paying == whole {
                WORDING.summary
            } else {
                SOME
            },
            ruled_out: if is_connected { CONNECTED } else { &[] },
            fix: match culprit {
                Owner::Client => WORDING.fix,
                Owner::Unknown => OF_EITHER,
                _ => OF_SERVER,
            },
            ..WORDING
        };
        wording.tell(
            &mut claim,
            &[
                ("paying", &paying),
                ("whole", &whole),
                ("setup", &setup),
                ("handshakes", &setups.count),
            ],
        );
        claim
    }

    /// Returns the claim's title if many requests share a connection with others.
    fn title(&self, paying: u64, whole: u64, culprit: Owner) -> Option<String> {
        if paying as f64 >= whole as f64 * EACH {
            return None;
        }
        Some(match self.closes().requests {
            Some(requests) if requests > 1 && culprit == Owner::Server => {
                format!("The server closes connections after {requests} requests each")
            }
            _ => "Requests often open a connection of their own".to_owned(),
        })
    }

    /// Returns true if the server closed the connection after most requests of our own load, and no
    /// client asked for that.
    fn is_closed_to_us(&self, case: &Case<'_>) -> bool {
        let loads = &case.facts.loads;
        let own = case.target.map(|target| loads.samples_of(target));
        let own: Vec<bool> = own
            .into_iter()
            .flatten()
            .map(|(_, closed)| closed)
            .collect();
        let closed = own.iter().filter(|closed| **closed).count();
        let is_most = closed as f64 >= own.len() as f64 * SHARE;
        self.client_asked == 0 && closed as u64 >= evidence::REPEATS && is_most
    }

    /// Returns a clause that says which end asked to close the connections, and how often.
    fn who_asked(&self, case: &Case<'_>) -> String {
        if self.is_closed_to_us(case) {
            return "lagtrace's own requests asked to keep the connection open, and the server \
                    closed it"
                .to_owned();
        }
        let hides = if self.secured > 0 {
            "TLS hides"
        } else {
            "the bytes that were captured do not show"
        };
        let said = self.server_asked - self.veiled.min(self.server_asked);
        match (self.client_asked, said, self.veiled) {
            (0, 0, 0) if self.untold > 0 => format!("{hides} whether an end asked for a close"),
            (0, 0, 0) => "neither end asked for a close".to_owned(),
            (0, 0, veiled) => format!(
                "after {veiled} of them the server closed first; {hides} which side asked for that"
            ),
            (client, server, 0) => {
                format!("the client asked for {client} of the closes, the server for {server}")
            }
            (client, server, veiled) => format!(
                "the client asked for {client} of the closes, the server for {server}; after \
                 {veiled} more the server closed first, and {hides} which side asked for that"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::timeline::Fingerprints;

    /// Returns one request per second, each on its own connection, to `origins`.
    fn asked(origins: &[u64]) -> Vec<Moment> {
        let moment = |(second, origin): (u16, &u64)| {
            let at = Timestamp::from_nanos(i64::from(second) * 1_000_000_000);
            let end = at + Duration::from_millis(30);
            Moment {
                fingerprints: Fingerprints {
                    origin: *origin,
                    ..Fingerprints::default()
                },
                setup: Some(Duration::from_millis(10)),
                ..Moment::between(40_000 + second, at, end)
            }
        };
        (0..).zip(origins).map(moment).collect()
    }

    /// Every six seconds, a connection is opened while the only other one is busy, and takes so
    /// long to open that the other one is idle before it is used.
    #[test]
    fn a_connection_that_was_opened_while_the_other_was_busy_was_needed() {
        let at = |ms: u64| Timestamp::from_nanos(0) + Duration::from_millis(ms);
        let moment = |client, from: u64, setup: u64, to: u64| Moment {
            setup: Some(Duration::from_millis(setup)),
            ..Moment::between(client, at(from), at(to))
        };
        let pair = |n: u16| {
            let from = u64::from(n) * 6000;
            [
                moment(40_000 + n, from + 10, 10, from + 150),
                moment(41_000 + n, from + 250, 180, from + 300),
            ]
        };
        let moments: Vec<Moment> = (0..8).flat_map(pair).collect();
        assert_eq!(needless(&moments, &[], Some(KEPT)), 0);
    }

    #[test]
    fn a_connection_with_an_unfinished_response_is_not_idle() {
        let moments = asked(&[1; 2]);
        let unfinished = moments.first().map(|first| (first.end, first.client));
        assert_eq!(needless(&moments, &[], Some(KEPT)), 1);
        assert_eq!(needless(&moments, unfinished.as_slice(), Some(KEPT)), 0);
    }

    #[test]
    fn one_connection_would_have_done_for_one_origin_only() {
        assert_eq!(needless(&asked(&[1; 8]), &[], Some(KEPT)), 7);
        assert_eq!(needless(&asked(&[0; 8]), &[], Some(KEPT)), 7);
        assert_eq!(
            needless(&asked(&[1, 2, 3, 4, 5, 6, 7, 8]), &[], Some(KEPT)),
            0
        );
        assert_eq!(needless(&asked(&[1, 2, 1, 2, 1, 2]), &[], Some(KEPT)), 4);
    }
}
