//! `server-think`.

use core::time::Duration;

use super::evidence::{self, fix, human, median, percent, ruled_out};
use super::tally::{Cost, Tally};
use super::{Case, Conclusion, candidates, path_queueing};
use crate::event::{ProbeMethod, TargetId};
use crate::exchange::Exchange;
use crate::histogram::Distribution;
use crate::report::{Evidence, EvidenceKind, Finding, Remark};
use crate::wait::{Owner, WaitKind};

/// Shorter think times are a server's ordinary work.
const NOTABLE: Duration = Duration::from_millis(5);
/// A queue in front of a busy server spreads think times from nothing upward;
/// work of its own has a floor. The tenth percentile must reach this share of
/// the median.
const FLOOR_SHARE: f64 = 0.3;
/// Think times of this length are long whatever their spread.
const LONG: Duration = Duration::from_millis(50);
/// An idle server that answers within this share of the loaded think time
/// is queueing our own load, not thinking.
const IDLE_SHARE: f64 = 0.25;

/// Watches the time between a whole request and the response's first byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    tally: Tally,
    think: Distribution,
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        if exchange.waits.is_empty() {
            return;
        }
        let think = waited(exchange, WaitKind::ServerThink);
        self.think.record(think);
        if think >= NOTABLE {
            self.tally.add(exchange, Cost::exactly(think), Duration::ZERO);
        }
    }

    fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.think.absorb(other.think);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        // What a finding of its own explains is not told twice.
        let rest = case.rhythm.claim(case).map(|(nature, _)| case.rhythm.rest(nature));
        let behind = case.upstream.filter(|_| case.has_packets);
        let behind = behind.and_then(|upstream| Some(upstream.rest(upstream.claim(case)?.0)));
        let rest = rest.or(behind);
        let tally = rest.as_ref().unwrap_or(&self.tally);
        if !evidence::is_material(case, tally) || !evidence::recurs(case, tally) {
            return Conclusion::Nothing;
        }
        if self.is_path_queue(case) {
            return Conclusion::Nothing;
        }
        if let Some(idle) = idle_think(case).filter(|&idle| self.is_queue(idle)) {
            return Conclusion::Note(self.saturation(case, idle));
        }
        if !self.has_floor() && !is_long(tally) {
            return Conclusion::Nothing;
        }
        Conclusion::Finding(Box::new(self.finding(case, tally)))
    }
}

impl Rule {
    fn median(&self) -> Duration {
        self.think.quantile(0.5).unwrap_or_default()
    }

    fn has_floor(&self) -> bool {
        let tenth = self.think.quantile(0.1).unwrap_or_default();
        self.median() >= NOTABLE && tenth.as_secs_f64() >= self.median().as_secs_f64() * FLOOR_SHARE
    }

    /// Whether the server's kernel answers handshakes about as late as its
    /// program answers requests: then both wait in the same queue on the path.
    fn is_path_queue(&self, case: &Case<'_>) -> bool {
        path_queueing::grown_handshakes(case)
            .is_some_and(|(idle, loaded)| (loaded - idle) * 2 >= self.median())
    }

    fn is_queue(&self, idle: Duration) -> bool {
        idle.as_secs_f64() <= self.median().as_secs_f64() * IDLE_SHARE && self.median() < LONG
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

    fn finding(&self, case: &Case<'_>, tally: &Tally) -> Finding {
        let mut finding = evidence::finding("server-think", Owner::Server, case, tally);
        finding.exemplars = self.tally.exemplars();
        let text = format!(
            "{} requests were with the server, nothing of them lost or held, for {} (median) \
             before the response's first byte",
            tally.affected,
            median(&tally.saved)
        );
        let kind =
            if case.has_packets { EvidenceKind::Wire } else { EvidenceKind::OwnSocket };
        let shown = Evidence::mechanism(kind, text);
        finding.evidence.push(shown.count(tally.affected).median(&tally.saved));
        if let Some(idle) = idle_think(case).filter(|&idle| idle >= NOTABLE) {
            let text = format!("a single request to the idle server waited {} too", human(idle));
            finding.evidence.push(Evidence::circumstance(EvidenceKind::OwnSocket, text));
        }
        finding.verdict = evidence::judge(&finding.evidence, tally.affected, !self.has_floor());
        finding.summary = format!(
            "The server has the whole request and takes {} (median) before it begins to answer, \
             {} of all request time. The network and the client have no part in it; what the \
             server does meanwhile shows on the server only.",
            median(&tally.saved),
            percent(finding.share),
        );
        finding.ruled_out.push(ruled_out(
            "nagle-delayed-ack",
            "nothing of the response had been sent that an acknowledgement could have released",
        ));
        if case.has_packets {
            finding.candidates = candidates::of_server(case);
        }
        finding.overturned_by = "the server's own log showing that it answered sooner".to_owned();
        finding.fix = vec![
            fix("server", "profile the handler: its own CPU, locks, database and upstream calls"),
            fix("server", "more workers if requests queue (compare one request with many at once)"),
        ];
        finding
    }
}

fn is_long(tally: &Tally) -> bool {
    let long = tally.saved.quantile(0.5).unwrap_or_default();
    long >= LONG && tally.affected >= evidence::REPEATS
}

/// Sum of an exchange's waits of one kind.
pub(crate) fn waited(exchange: &Exchange, kind: WaitKind) -> Duration {
    let waits = exchange.waits.iter().filter(|wait| wait.kind == kind);
    Duration::from_nanos(waits.fold(0, |sum, wait| sum.saturating_add(wait.nanos())))
}

/// How long the server takes for a single request when nothing else asks.
fn idle_think(case: &Case<'_>) -> Option<Duration> {
    let target = case.target.unwrap_or(TargetId::Subject);
    let alone = case.facts.probes_of(target, ProbeMethod::HttpKeptAlive, false)?;
    let travel = case.facts.round_trip(target).unwrap_or_default();
    Some(alone.rtt.quantile(0.5)?.saturating_sub(travel))
}
