//! The think times of servers. `server-think` and its special cases use them.

use core::time::Duration;

use super::evidence::{self, ORDINARY_WORK, human, median};
use super::{Case, beside, kernel_place, path_queueing, starved};
use crate::claim::Statement;
use crate::exchange::wait::WaitKind;
use crate::exchange::{Exchange, Outcome};
use crate::observed::event::{ProbeMethod, TargetId};
use crate::report::{Remark, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Minimum ratio of the 10th percentile of think times to their median that shows a server's own
/// work: work has a minimum time. A queue in front of a busy server spreads think times from zero
/// upward.
const FLOOR_SHARE: f64 = 0.3;
/// Minimum think time that counts as long, whatever the spread.
const LONG: Duration = Duration::from_millis(50);
/// Minimum think time of a class of slow requests.
const NOTICED: Duration = Duration::from_millis(10);
/// Minimum ratio of the 10th percentile of its think times to their median.
const ALIKE: f64 = 0.6;
/// Minimum share of all think time that a class of slow requests takes.
const MOSTLY_SLOW: f64 = 0.5;
/// Maximum ratio of the idle server's think time to the think time under load, if requests only
/// queue behind each other. The reason is then lagtrace's own load.
const IDLE_SHARE: f64 = 0.25;

/// The quantile of single requests from which on they are slow often enough. The first one may open
/// what others use.
const OFTEN: f64 = 0.7;
/// The quantile of think times at which a long tail begins.
const TAIL: f64 = 0.9;
/// Minimum ratio of the quantile [`TAIL`] to the median for a long tail. If the requests of
/// lagtrace's own load queue, all requests wait for about the same time, and there is no long tail.
const OUTSTANDING: u32 = 4;
/// Maximum ratio of the quantile [`TAIL`] to the median if all requests take about as long.
const EVEN: u32 = 2;
/// Minimum ratio of the idle server's think time to the think time under load, if the load is not
/// the reason.
const OWN_SHARE: f64 = 0.5;

/// Watches the time from a complete request to the first byte of the response.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Thinking {
    /// The exchanges whose think time is at least [`ORDINARY_WORK`], without those of the other tallies.
    tally: Tally,
    /// Requests whose connection ended before any response. How long the server would have taken is
    /// unknown.
    unanswered: Tally,
    /// The first requests of connections that waited for as long as connections that are passed
    /// over ([`starved`]).
    passed_over: Tally,
    think: Distribution,
}

/// The conclusion from a server's think time.
pub(super) enum ThinkTime {
    /// The server thinks. The tally contains the think time that no other rule explains.
    Thinks(Box<Tally>),
    /// Requests queue in front of a server that is quick when idle.
    Saturated(Remark),
}

impl Thinking {
    pub(super) fn observe(&mut self, exchange: &Exchange) {
        if exchange.waits.is_empty() {
            return;
        }
        let think = exchange.waited(WaitKind::ServerThink);
        self.think.record(think);
        if think >= ORDINARY_WORK {
            let is_answered = exchange.signs.has_response
                || matches!(
                    exchange.outcome,
                    Outcome::Complete(_) | Outcome::Failed(_) | Outcome::Grpc(_)
                );
            let tally = if !is_answered {
                &mut self.unanswered
            } else if starved::is_left(exchange) {
                &mut self.passed_over
            } else {
                &mut self.tally
            };
            tally.add(exchange, Cost::exactly(think), Duration::ZERO);
        }
    }

    /// Returns all exchanges whose think time is at least [`ORDINARY_WORK`].
    pub(super) fn tally(&self) -> Tally {
        let mut all = self.tally.clone();
        all.merge(self.passed_over.clone());
        all.merge(self.unanswered.clone());
        all
    }

    /// Returns the exchanges whose think time may be the server's own: without connections that are
    /// passed over and, if most requests have no response at all, without these.
    fn own(&self, case: &Case<'_>) -> Tally {
        if starved::passed_over(case).is_some() {
            return self.tally.clone();
        }
        let mut own = self.tally.clone();
        own.merge(self.passed_over.clone());
        if own.affected >= self.unanswered.affected {
            own.merge(self.unanswered.clone());
        }
        own
    }

    /// Returns the conclusion on the think time; `None` if it does not matter, or if another rule
    /// explains it.
    pub(super) fn claim(&self, case: &Case<'_>) -> Option<ThinkTime> {
        let tally = self.rest(case)?;
        let queue = |idle: &Duration| self.is_queue(*idle) && !self.is_met_alone(case);
        if let Some(idle) = idle_think(case).filter(queue) {
            return Some(ThinkTime::Saturated(self.saturation(case, idle)));
        }
        let counts = self.has_floor()
            || is_long(&tally)
            || (self.has_long_tail() && !case.ledger.is_unowed())
            || (self.has_slow_class(&tally) && !case.ledger.is_unowed())
            || idle_think(case).is_some_and(|idle| self.is_its_own(idle))
            || is_without_load(case) && kernel_place::is_placed(case);
        counts.then(|| ThinkTime::Thinks(Box::new(tally)))
    }

    /// Returns the think time that no other rule explains; `None` if it does not matter. Requests
    /// of lagtrace's own load that queue at the server are still included.
    pub(super) fn rest(&self, case: &Case<'_>) -> Option<Tally> {
        // Time with a claim of its own is not reported twice.
        let rest = case
            .rhythm
            .claim(case)
            .map(|(nature, _)| case.rhythm.rest(nature));
        let upstream = case.upstream.filter(|_| case.has_packets);
        let upstream = upstream.and_then(|upstream| Some(upstream.rest(upstream.claim(case)?.0)));
        let behind = case.behind.filter(|_| case.has_packets);
        let behind = behind.and_then(|behind| behind.rest(case));
        let rest = behind.or(rest).or(upstream);
        let tally = rest.unwrap_or_else(|| self.own(case));
        let matters = evidence::is_material(case, &tally) && evidence::recurs(case, &tally);
        let is_queued = self.is_path_queue(case) || beside::late(case).is_some();
        (matters && !is_queued).then_some(tally)
    }

    /// Returns the mean think time of all exchanges.
    pub(super) fn mean(&self) -> Duration {
        self.think.mean().unwrap_or_default()
    }

    /// Returns the share of all think time that passed in exchanges whose think time is at least
    /// [`ORDINARY_WORK`] (0 to 1).
    pub(super) fn slow_share(&self) -> f64 {
        self.think.sum_above(ORDINARY_WORK) as f64 / (self.think.sum_ns() as f64).max(1.0)
    }

    /// Returns the quantile `part` (0 to 1) of all think times.
    pub(super) fn quantile(&self, part: f64) -> Option<Duration> {
        self.think.quantile(part)
    }

    fn median(&self) -> Duration {
        self.think.quantile(0.5).unwrap_or_default()
    }

    pub(super) fn has_floor(&self) -> bool {
        let tenth = self.think.quantile(0.1).unwrap_or_default();
        self.median() >= ORDINARY_WORK
            && tenth.as_secs_f64() >= self.median().as_secs_f64() * FLOOR_SHARE
    }

    /// Returns true if all but a few requests take about as long as half of them, and these few take
    /// little of the time.
    pub(super) fn is_even(&self) -> bool {
        let tail = self.think.quantile(TAIL).unwrap_or_default();
        tail <= self.median() * EVEN && !self.has_heavy_tail()
    }

    /// Returns true if the load delays handshakes about as much as responses. Both then wait in the
    /// same queue on the path, because handshakes need no program.
    fn is_path_queue(&self, case: &Case<'_>) -> bool {
        path_queueing::grown_handshakes(case)
            .is_some_and(|(idle, loaded)| (loaded - idle) * 2 >= self.median())
    }

    fn is_queue(&self, idle: Duration) -> bool {
        idle.as_secs_f64() <= self.median().as_secs_f64() * IDLE_SHARE
            && self.median() < LONG
            && !self.has_long_tail()
            && !self.has_heavy_tail()
    }

    /// Returns true if single requests to the idle server at times wait as long as those under load,
    /// and at times do not: what they wait for comes and goes by itself.
    fn is_met_alone(&self, case: &Case<'_>) -> bool {
        let long = self.median() / 2 + travel(case);
        let methods = [ProbeMethod::HttpKeptAlive, ProbeMethod::HttpFresh];
        let mut alone = methods
            .into_iter()
            .filter_map(|method| evidence::alone(case, method));
        alone.any(|alone| {
            let often = alone.quantile(OFTEN).is_some_and(|often| often >= long);
            often && alone.min().is_some_and(|least| least * 2 < long)
        })
    }

    /// Returns true if some requests take long although most do not.
    fn has_long_tail(&self) -> bool {
        let tail = self.think.quantile(TAIL).unwrap_or_default();
        tail >= self.least_outstanding()
    }

    /// Returns true if so few requests that the quantile [`TAIL`] does not show them take most of
    /// the time.
    fn has_heavy_tail(&self) -> bool {
        self.think.sum_above(self.least_outstanding()) * 2 >= self.think.sum_ns()
    }

    /// Returns true if most requests of `tally` are a class of their own: each takes far longer than
    /// most requests, about as long as the others of its class, and together they take most of the
    /// time, and a material time for each request.
    fn has_slow_class(&self, tally: &Tally) -> bool {
        let least = NOTICED.max(self.median() * OUTSTANDING);
        let share = self.think.share_above(least);
        let count = share * self.think.count() as f64;
        let took = self.think.sum_above(least) as f64;
        let of_class = |part: f64| {
            let quantile = self.think.quantile(1.0 - share * (1.0 - part));
            quantile.unwrap_or_default().as_secs_f64()
        };
        count >= evidence::REPEATS as f64
            && count * 2.0 >= tally.affected as f64
            && of_class(0.1) >= of_class(0.5) * ALIKE
            && took >= self.think.sum_ns() as f64 * MOSTLY_SLOW
            && took >= evidence::MATERIAL_TIME.as_nanos() as f64 * self.think.count() as f64
    }

    /// Returns the minimum think time of requests that take long although most do not.
    fn least_outstanding(&self) -> Duration {
        LONG.max(self.median() * OUTSTANDING)
    }

    /// Returns true if the idle server takes about as long, so that the load is not the reason.
    fn is_its_own(&self, idle: Duration) -> bool {
        idle >= ORDINARY_WORK && idle.as_secs_f64() >= self.median().as_secs_f64() * OWN_SHARE
    }

    fn saturation(&self, case: &Case<'_>, idle: Duration) -> Remark {
        Remark {
            id: "server-saturated".to_owned(),
            text: format!(
                "{}: the server answers in {} when idle and in {} (median) under this load: the \
                 requests queue behind each other. A lower rate (--rate) shows it unsaturated.",
                case.endpoint,
                human(idle),
                human(self.median())
            ),
        }
    }
}

/// Returns true if lagtrace itself put no load on the service, which might queue there.
fn is_without_load(case: &Case<'_>) -> bool {
    let target = case.target.unwrap_or(TargetId::Subject);
    case.facts.loads.baseline(target).is_none()
}

fn is_long(tally: &Tally) -> bool {
    let long = tally.saved.quantile(0.5).unwrap_or_default();
    long >= LONG && tally.affected >= evidence::REPEATS
}

/// Returns the evidence that the server had received the requests completely before the wait.
pub(super) fn with_the_server(case: &Case<'_>, tally: &Tally) -> Statement {
    let text = format!(
        "the server had received {} completely, and sent the first byte of the response only {} \
         (median) later; in that time no segment was lost or held back",
        counted(tally.affected, "request", "requests"),
        median(&tally.saved)
    );
    Statement::shows(case.timed_by(), text)
        .count(tally.affected)
        .median(&tally.saved)
}

/// Returns the think time of the idle server for a single request.
pub(super) fn idle_think(case: &Case<'_>) -> Option<Duration> {
    Some(evidence::idle_latency(case)?.saturating_sub(travel(case)))
}

/// Returns the shortest think time of the idle server. A limit on the rate of requests lets the
/// first one through at once.
pub(super) fn quickest_idle_think(case: &Case<'_>) -> Option<Duration> {
    let methods = [ProbeMethod::HttpKeptAlive, ProbeMethod::HttpFresh];
    let quickest = methods.map(|method| evidence::alone(case, method)?.min());
    let quickest = quickest.into_iter().flatten().min()?;
    Some(quickest.saturating_sub(travel(case)))
}

/// Returns the round trip to the server, by probes.
fn travel(case: &Case<'_>) -> Duration {
    let subject = case.target.unwrap_or(TargetId::Subject);
    case.facts.round_trip(subject).unwrap_or_default()
}
