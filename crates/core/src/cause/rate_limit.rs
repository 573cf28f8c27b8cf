//! `rate-limit`.
//!
//! Two forms. *Bytes*: the program stops in mid-response with everything
//! acknowledged, and goes on when what it had sent by then is due at a constant
//! rate, however much that was; `server-pause` lasts as long as its work.
//! *Requests*: answers leave on a grid while requests wait, and a request that
//! finds nobody waiting is answered at once; a worker that is busy for that
//! long (`worker-saturation`) takes the same time for a request on its own.

use core::time::Duration;

use super::evidence::{self, fix, human, median, percent, ruled_out};
use super::server_think::waited;
use super::tally::{Cost, Tally};
use super::{Case, Conclusion};
use crate::delivery::Delivery;
use crate::exchange::{Exchange, Side};
use crate::histogram::Distribution;
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::time::Timestamp;
use crate::wait::{Owner, WaitKind};

/// Shorter pauses are ordinary work.
const NOTABLE: Duration = Duration::from_millis(20);
/// Fewer segments before a pause are an event, not a part of a bulk.
const LEAST_SEGMENTS: u64 = 2;
/// nginx wakes by the millisecond (`ngx_http_limit_rate`), so a rate is exact.
const OFF_RATE: f64 = 0.03;
/// What was sent from one pause to the next must differ by this factor: else a
/// constant time looks the same.
const DIFFERENT: f64 = 1.1;

/// Answers remembered of one service, the earliest.
const MAX_ANSWERS: usize = 4096;
/// Answers in a row, each waited for, that make a grid.
const LEAST_SLOTS: usize = 10;
/// Of them, this share must be a slot apart …
const ON_GRID: f64 = 0.8;
/// … within this, or a tenth of it.
const OFF_SLOT: Duration = Duration::from_millis(2);
/// The least slot that stands out from a host's own pace.
const LEAST_SLOT: Duration = Duration::from_millis(10);
/// A rate that is passed all the time delays this part of all requests.
const MOST: f64 = 0.66;
/// A request that nobody waited before is answered within this part of a slot.
const AT_ONCE: u32 = 4;

/// Watches pauses and answers that keep a rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    pauses: Tally,
    /// Bytes a second, as nanoseconds.
    rates: Distribution,
    /// Bytes from one pause to the next, as nanoseconds.
    sent: Distribution,
    delayed: Tally,
    answers: Answers,
}

/// When requests were asked and answered, the earliest answers.
#[derive(Clone, Debug, Default)]
struct Answers {
    /// Answered, asked, and the time in between.
    list: Vec<(Timestamp, Timestamp, Duration)>,
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        let bulk = |d: &&Delivery| d.sender == Side::Server;
        for delivery in exchange.deliveries.iter().filter(bulk) {
            self.observe_pauses(exchange, delivery);
        }
        let think = waited(exchange, WaitKind::ServerThink);
        let last = exchange.waits.iter().rfind(|wait| wait.kind == WaitKind::ServerThink);
        if let Some(wait) = last {
            self.answers.add((wait.end, exchange.begin, think));
        }
        if think >= LEAST_SLOT {
            self.delayed.add(exchange, Cost::exactly(think), Duration::ZERO);
        }
    }

    fn merge(&mut self, other: Self) {
        self.pauses.merge(other.pauses);
        self.rates.merge(&other.rates);
        self.sent.merge(&other.sent);
        self.delayed.merge(other.delayed);
        self.answers.list.extend(other.answers.list);
        self.answers.settle();
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let matters = |tally: &Tally| {
            evidence::is_material(case, tally) && evidence::is_repeated(case, tally)
        };
        if matters(&self.pauses) {
            if let Some(rate) = self.rate() {
                return Conclusion::Finding(Box::new(self.of_bytes(case, rate)));
            }
        }
        let is_most = self.delayed.affected as f64 >= case.ledger.count as f64 * MOST;
        if matters(&self.delayed) && case.has_packets && is_most {
            if let Some(slot) = self.answers.slot() {
                return Conclusion::Finding(Box::new(self.of_requests(case, slot)));
            }
        }
        Conclusion::Nothing
    }
}

impl Rule {
    fn observe_pauses(&mut self, exchange: &Exchange, delivery: &Delivery) {
        let least = LEAST_SEGMENTS * u64::from(delivery.mss);
        let pauses = delivery.pauses.iter();
        let (mut paused, mut before) = (Duration::ZERO, 0);
        for pause in pauses.filter(|pause| pause.took >= NOTABLE) {
            let part = pause.after.saturating_sub(before);
            before = pause.after;
            if part < least {
                continue;
            }
            let rate = pause.after as f64 / pause.until.as_secs_f64();
            self.rates.record(Duration::from_nanos(rate as u64));
            self.sent.record(Duration::from_nanos(part));
            paused += pause.took;
        }
        if !paused.is_zero() {
            self.pauses.add(exchange, Cost::exactly(paused), Duration::ZERO);
        }
    }

    /// Bytes a second, where the pauses keep to it.
    fn rate(&self) -> Option<f64> {
        let bytes = |of: &Distribution, part| of.quantile(part).map(|d| d.as_nanos() as f64);
        let rate = bytes(&self.rates, 0.5)?;
        let (low, high) = (bytes(&self.rates, 0.1)?, bytes(&self.rates, 0.9)?);
        let is_constant = low >= rate * (1.0 - OFF_RATE) && high <= rate * (1.0 + OFF_RATE);
        let (least, most) = (bytes(&self.sent, 0.0)?, bytes(&self.sent, 1.0)?);
        (is_constant && self.pauses.affected >= evidence::REPEATS && most >= least * DIFFERENT)
            .then_some(rate)
    }

    fn of_bytes(&self, case: &Case<'_>, rate: f64) -> Finding {
        let mut finding = evidence::finding("rate-limit", Owner::Server, case, &self.pauses);
        let rate = format!("{:.1} kB/s", rate / 1000.0);
        let text = format!(
            "{} responses stopped with everything acknowledged and went on when what had been sent \
             was due at {rate}, whether that was little or much",
            self.pauses.affected
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(self.pauses.affected)
                .median(&self.pauses.saved),
        );
        finding.verdict = evidence::judge(&finding.evidence, self.pauses.affected, false);
        finding.summary = format!(
            "The server holds each response to {rate}: it stops for {} (median), {} of all request \
             time, although neither the path nor a window asks for it.",
            median(&self.pauses.saved),
            percent(finding.share)
        );
        finding.ruled_out.push(ruled_out(
            "bandwidth-limit",
            "what was sent came through at once and was acknowledged before each stop",
        ));
        finding.overturned_by =
            "the server's configuration without a limit, or stops that follow its own work".to_owned();
        finding.fix = vec![
            fix("server", "nginx: limit_rate 0; or limit_rate_after; HAProxy: bwlim filters"),
            fix("server", "look for X-Accel-Limit-Rate in the application's responses"),
        ];
        finding
    }

    fn of_requests(&self, case: &Case<'_>, slot: Duration) -> Finding {
        let mut finding = evidence::finding("rate-limit", Owner::Server, case, &self.delayed);
        let rate = 1.0 / slot.as_secs_f64();
        let text = format!(
            "answers left {} apart while requests waited, whoever had asked, and a request that \
             found none waiting was answered at once",
            human(slot)
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(self.delayed.affected)
                .median(&self.delayed.saved),
        );
        finding.verdict = evidence::judge(&finding.evidence, self.delayed.affected, false);
        finding.summary = format!(
            "The server answers {rate:.1} requests a second and lets the others wait their turn: {} \
             (median), {} of all request time.",
            median(&self.delayed.saved),
            percent(finding.share)
        );
        finding.ruled_out.push(ruled_out(
            "worker-saturation",
            "a request on its own was answered in a fraction of the time between two answers",
        ));
        finding.overturned_by =
            "answers that come faster when more is asked, or a request on its own as slow".to_owned();
        finding.fix = vec![
            fix("server", "nginx: limit_req … burst=N nodelay, or a higher rate in limit_req_zone"),
            fix("client", "ask less often, or spread requests over time"),
        ];
        finding
    }
}

impl Answers {
    fn add(&mut self, answer: (Timestamp, Timestamp, Duration)) {
        self.list.push(answer);
        if self.list.len() >= 2 * MAX_ANSWERS {
            self.settle();
        }
    }

    /// Keeps the earliest, whatever order they came in.
    fn settle(&mut self) {
        self.list.sort_unstable();
        self.list.truncate(MAX_ANSWERS);
    }

    /// The time between two answers, where requests that wait are answered on
    /// a grid and others at once.
    fn slot(&self) -> Option<Duration> {
        let mut answers = self.clone();
        answers.settle();
        let pairs = answers.list.windows(2).filter_map(|pair| match pair {
            [before, next] => Some((before.0, next.0, next.1)),
            _ => None,
        });
        // The second had been asked already when the first was answered.
        let waited = pairs.filter(|&(before, _, asked)| asked < before);
        let mut steps: Vec<Duration> = waited.map(|(before, next, _)| next.since(before)).collect();
        steps.sort_unstable();
        let slot = steps.get(steps.len() / 2).copied()?;
        let slack = OFF_SLOT.max(slot / 10);
        let on_grid = steps.iter().filter(|step| step.abs_diff(slot) <= slack).count();
        let is_grid = slot >= LEAST_SLOT
            && steps.len() >= LEAST_SLOTS
            && on_grid as f64 >= steps.len() as f64 * ON_GRID;
        // Each answer takes a slot: no other comes within it.
        let gaps = answers.list.windows(2).map(|pair| match pair {
            [before, next] => next.0.since(before.0),
            _ => Duration::ZERO,
        });
        let close = gaps.filter(|&gap| gap + slack < slot).count();
        let is_grid = is_grid && close * 20 <= answers.list.len();
        let at_once = answers.list.iter().any(|&(_, _, think)| think * AT_ONCE < slot);
        (is_grid && at_once).then_some(slot)
    }
}
