//! The judgement of one run: its first finding, and its figures.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Caveat, Finding, Report, Verdict as Sureness};
use lagtrace_lab::stranger::{Part, StrangerRecording, StrangerTruth, WireFormat};
use serde::Serialize;

use super::figures::{self, Sentence};
use crate::lab::truth::owner;

/// The share and the time by which a mean or a 99th percentile has to improve for a fault to matter:
/// those of the reports.
const MATERIAL_SHARE: f64 = 0.05;
const MATERIAL_NS: f64 = 1e6;

/// The factor by which a fault has to be beyond that for its absence from a report to be wrong.
const CLEAR: f64 = 1.6;

/// The factor within which two costs are equally high.
const EQUAL: f64 = 1.5;

/// Minimum number of affected requests of a fault that a report must name.
const REPEATS: u64 = 5;

/// The judgement of the first finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Judgement {
    /// The cause of a fault that costs most is named first.
    Right,
    /// The right cause is named first, and a wrong owner.
    WrongOwner,
    /// No cause is named, only the right owner.
    PlaceOnly,
    /// No cause is named, only a wrong owner.
    WrongPlace,
    /// Nothing is named.
    Silent,
    /// A fault is named first that is there, but costs less.
    Cheaper,
    /// Another cause is named first.
    Wrong,
    /// There is no fault that matters, and nobody is accused.
    LeftAlone,
    /// There is no fault that matters, and a cause that is not there is more than possible.
    Accused,
    /// The fault matters so little that it may be named or not.
    Open,
}

/// A run and its judgement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct JudgedRun {
    /// The seed that repeats the run.
    pub(super) seed: u64,
    /// The traffic, in words.
    pub(super) traffic: String,
    /// True if lagtrace decodes the protocol.
    pub(super) is_decoded: bool,
    /// True if no fault was drawn.
    pub(super) is_healthy: bool,
    /// The judgement of the first finding.
    pub(super) verdict: Judgement,
    /// The parts of the true time, the most costly first: name, cost per request in ms, and whether it
    /// is a fault.
    pub(super) truth: Vec<(&'static str, f64, bool)>,
    /// The findings: cause, owner, certainty, and cost per request in ms.
    pub(super) found: Vec<(Id, Owner, Sureness, f64)>,
    /// The limits that the report states.
    pub(super) caveats: Vec<Caveat>,
    /// The causes that are more than possible in the report, and not in the traffic.
    pub(super) accused: Vec<Id>,
    /// The figures.
    pub(super) sentences: Vec<Sentence>,
}

impl JudgedRun {
    pub(super) fn of(recorded: &StrangerRecording, report: &Report) -> Self {
        let truth = &recorded.truth;
        let accused = accused(truth, report);
        let each = |ns: u64| {
            let mean = ns as f64 / truth.requests.len().max(1) as f64 / 1e6;
            (mean * 1e3).round() / 1e3
        };
        let mut parts: Vec<&Part> = truth.parts.iter().collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.cost_ns()));
        Self {
            seed: recorded.traffic.seed,
            traffic: recorded.traffic.describe(),
            is_decoded: matches!(
                recorded.traffic.framing,
                WireFormat::Http | WireFormat::Chunked
            ),
            is_healthy: recorded.traffic.faults.is_empty(),
            verdict: verdict(truth, report, !accused.is_empty()),
            truth: parts
                .iter()
                .map(|part| (part.name, each(part.cost_ns()), part.is_fault))
                .collect(),
            found: report
                .findings
                .iter()
                .map(|f| (f.cause, f.culprit, f.verdict, each(f.cost_ns)))
                .collect(),
            caveats: report
                .overall
                .iter()
                .flat_map(|overall| overall.caveats.clone())
                .collect(),
            accused,
            sentences: figures::judge(recorded, report),
        }
    }

    /// Returns true if nothing about the report is wrong.
    pub(super) fn is_right(&self) -> bool {
        let is_right = match self.verdict {
            Judgement::Right | Judgement::LeftAlone | Judgement::Open => true,
            // Without its messages, a protocol shows where time passes, but not who owed whom.
            Judgement::PlaceOnly => !self.is_decoded,
            _ => false,
        };
        is_right && self.accused.is_empty() && self.sentences.iter().all(Sentence::is_true)
    }

    /// Returns true if the report says that its requests and responses may be paired wrongly.
    pub(super) fn is_unsure_of_pairs(&self) -> bool {
        self.caveats.contains(&Caveat::TurnsOverlapped)
    }

    /// Returns the sentences that are not true.
    pub(super) fn untrue(&self) -> impl Iterator<Item = &Sentence> {
        self.sentences.iter().filter(|sentence| !sentence.is_true())
    }

    /// Describes the judgement in a few words.
    pub(super) fn told(&self) -> String {
        let verdict = format!("{:?}", self.verdict);
        let untrue: Vec<_> = self
            .untrue()
            .map(|sentence| sentence.what.as_str())
            .collect();
        if untrue.is_empty() {
            return verdict;
        }
        format!("{verdict}, untrue: {}", untrue.join(", "))
    }
}

/// Returns the causes that are more than possible, but neither in the traffic nor usual for it.
fn accused(truth: &StrangerTruth, report: &Report) -> Vec<Id> {
    let is_there = |cause: Id| {
        let mut parts = truth.parts.iter().filter(|part| part.cost_ns() > 0);
        truth.admitted.contains(&cause) || parts.any(|part| part.causes.contains(&cause))
    };
    let firm = report
        .causes()
        .filter(|finding| finding.verdict >= Sureness::Strong);
    let causes = firm.map(|finding| finding.cause);
    causes.filter(|&cause| !is_there(cause)).collect()
}

fn verdict(truth: &StrangerTruth, report: &Report, is_accused: bool) -> Judgement {
    let faults = || {
        let parts = truth.parts.iter();
        parts.filter(|part| part.is_fault && !part.is_hidden)
    };
    let clear: Vec<&Part> = faults()
        .filter(|part| matters(truth, part) >= CLEAR && part.affected() >= REPEATS)
        .collect();
    let Some(top) = clear.iter().map(|part| part.cost_ns()).max() else {
        let is_open = faults().any(|part| matters(truth, part) > 1.0 / CLEAR);
        return match (is_accused, is_open) {
            (true, _) => Judgement::Accused,
            (false, true) => Judgement::Open,
            (false, false) => Judgement::LeftAlone,
        };
    };
    let is_high = |part: &&Part| part.cost_ns() as f64 * EQUAL >= top as f64;
    let accepted: Vec<&Part> = truth.parts.iter().filter(is_high).collect();
    let Some(first) = report.causes().next() else {
        let owns = |place| accepted.iter().any(|part| has_owner(place, part));
        return match report.places().next() {
            Some(place) if owns(place) => Judgement::PlaceOnly,
            Some(_) => Judgement::WrongPlace,
            None => Judgement::Silent,
        };
    };
    let named: Vec<&&Part> = accepted
        .iter()
        .filter(|part| part.causes.contains(&first.cause))
        .collect();
    let is_there = |part: &Part| part.causes.contains(&first.cause);
    if named.is_empty() && faults().any(is_there) {
        Judgement::Cheaper
    } else if named.is_empty() {
        Judgement::Wrong
    } else if named.iter().any(|part| has_owner(first, part)) {
        Judgement::Right
    } else {
        Judgement::WrongOwner
    }
}

fn has_owner(finding: &Finding, part: &Part) -> bool {
    let mut culprits = part.culprits.iter();
    culprits.any(|&culprit| owner(culprit) == finding.culprit)
}

/// Returns by which factor the mean or the 99th percentile improves more without this part than it
/// has to for the part to matter.
fn matters(truth: &StrangerTruth, part: &Part) -> f64 {
    let setup = |request: &lagtrace_lab::stranger::TrueRequest| {
        if part.is_setup { request.connect_ns } else { 0 }
    };
    let requests = truth.requests.iter();
    let before: Vec<u64> = requests.map(|r| r.total_ns + setup(r)).collect();
    let saved = before.iter().zip(&part.saved_ns);
    let after: Vec<u64> = saved
        .map(|(total, saved)| total.saturating_sub(*saved))
        .collect();
    let gain = |before: f64, after: f64| {
        let saved = before - after;
        (saved / MATERIAL_NS).min(saved / before.max(1.0) / MATERIAL_SHARE)
    };
    let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len().max(1) as f64;
    let tail = |times: &[u64]| figures::quantile(times, 0.99) as f64;
    gain(mean(&before), mean(&after)).max(gain(tail(&before), tail(&after)))
}

#[cfg(test)]
mod tests {
    use lagtrace_lab::Culprit;
    use lagtrace_lab::stranger::{Span, TrueRequest};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns a part that costs each of 20 requests this many milliseconds.
    fn part(name: &'static str, cause: Id, culprit: Culprit, ms: u64) -> Part {
        Part {
            name,
            is_fault: true,
            causes: vec![cause],
            culprits: vec![culprit],
            saved_ns: vec![ms * MS; 20],
            sum_ns: Span::default(),
            ..Part::default()
        }
    }

    fn truth(parts: Vec<Part>) -> StrangerTruth {
        let request = TrueRequest {
            total_ns: 100 * MS,
            ..TrueRequest::default()
        };
        StrangerTruth {
            requests: vec![request; 20],
            parts,
            ..StrangerTruth::default()
        }
    }

    fn report(findings: &[(Id, Owner, bool)]) -> Report {
        let finding = |&(cause, culprit, locates): &(Id, Owner, bool)| Finding {
            cause,
            culprit,
            locates,
            ..serde_json::from_value(serde_json::json!({
                "cause": Id::ServerThink, "title": "", "verdict": "strong", "culprit": "unknown",
                "service": "", "cost_ns": 0, "cost_low_ns": 0, "cost_high_ns": 0, "wall_ns": 0,
                "share": 0.0, "affected": {"exchanges": 0, "of": 0}, "summary": "",
                "evidence": [], "ruled_out": [], "overturned_by": "", "fix": [],
                "predicted": null, "exemplars": [],
            }))
            .expect("a blank finding reads")
        };
        Report {
            findings: findings.iter().map(finding).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn the_first_finding_is_that_of_a_fault_that_costs_most() {
        let pause = || part("pause", Id::ServerPause, Culprit::Server, 40);
        let loss = |ms| part("loss", Id::PacketLoss, Culprit::Path, ms);
        let judged = |parts: Vec<Part>, found: &[(Id, Owner, bool)]| {
            verdict(&truth(parts), &report(found), false)
        };
        let paused = [(Id::ServerPause, Owner::Server, false)];
        assert_eq!(judged(vec![pause()], &paused), Judgement::Right);
        assert_eq!(judged(vec![pause(), loss(50)], &paused), Judgement::Right);
        assert_eq!(judged(vec![pause(), loss(80)], &paused), Judgement::Cheaper);
        assert_eq!(judged(vec![loss(80)], &paused), Judgement::Wrong);
        let client = [(Id::ServerPause, Owner::Client, false)];
        assert_eq!(judged(vec![pause()], &client), Judgement::WrongOwner);
        let place = |owner| [(Id::TimeInServer, owner, true)];
        let of_server = place(Owner::Server);
        assert_eq!(judged(vec![pause()], &of_server), Judgement::PlaceOnly);
        let of_path = place(Owner::Path);
        assert_eq!(judged(vec![pause()], &of_path), Judgement::WrongPlace);
        assert_eq!(judged(vec![pause()], &[]), Judgement::Silent);
    }

    #[test]
    fn a_fault_that_does_not_matter_may_be_left_out() {
        let pause = |ms| part("pause", Id::ServerPause, Culprit::Server, ms);
        let judged = |ms, is_accused| {
            let truth = truth(vec![pause(ms)]);
            verdict(&truth, &report(&[]), is_accused)
        };
        assert_eq!(judged(1, false), Judgement::LeftAlone);
        assert_eq!(judged(5, false), Judgement::Open);
        assert_eq!(judged(20, false), Judgement::Silent);
        assert_eq!(judged(0, true), Judgement::Accused);
        let hidden = Part {
            is_hidden: true,
            ..pause(40)
        };
        let truth = truth(vec![hidden]);
        assert_eq!(verdict(&truth, &report(&[]), false), Judgement::LeftAlone);
    }

    #[test]
    fn a_cause_is_accused_if_it_is_firm_and_neither_there_nor_usual() {
        let mut truth = truth(vec![part("pause", Id::ServerPause, Culprit::Server, 40)]);
        truth.admitted = vec![Id::SlowStart];
        let found = [
            (Id::ServerPause, Owner::Server, false),
            (Id::SlowStart, Owner::Server, false),
            (Id::PacketLoss, Owner::Path, false),
        ];
        let mut report = report(&found);
        assert_eq!(accused(&truth, &report), [Id::PacketLoss]);
        report.findings[2].verdict = Sureness::Possible;
        assert_eq!(accused(&truth, &report), []);
    }
}
