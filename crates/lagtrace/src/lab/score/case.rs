//! The diagnosis of a recording from one end, compared with the truth.

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Finding, Report, Verdict as Sureness};
use lagtrace_lab::{Label, Side, Truth};
use serde::{Deserialize, Serialize};

use crate::lab::truth;

/// The end at which a recording was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// The host that sent the requests.
    Client,
    /// The host that answered the requests.
    Server,
    /// The single host that did both; its capture contains everything that either end sees.
    Loopback,
}

/// The kind of a recording with respect to its diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A fault that is visible in the packets at this end.
    Known,
    /// A fault that is not visible in the packets at this end. The correct diagnosis reports
    /// nothing, or only the visible part.
    Hidden,
    /// No fault, or something that only resembles a fault.
    Healthy,
}

/// The judgement of a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The expected cause was found first, with the right culprit.
    Right,
    /// The expected cause was found first, with a wrong culprit.
    WrongCulprit,
    /// Another cause was found first.
    OtherFirst,
    /// Nothing was found, although a cause was expected.
    Missed,
    /// No cause was expected, and no false one was found.
    LeftAlone,
    /// No cause was expected, and a false one was found.
    Accused,
}

/// The diagnosis of a recording from one end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Case {
    /// The recording's folder.
    pub(crate) recording: String,
    /// The scenario that was recorded.
    #[serde(skip)]
    pub(crate) scenario: String,
    /// The randomly drawn parameters, in words; `None` for a recording that a scenario itself
    /// specifies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drawn: Option<String>,
    /// The end at which the capture was made.
    pub(crate) end: End,
    /// The kind of recording.
    pub(crate) kind: Kind,
    /// For each expected finding, the causes that are correct. The most costly finding comes first.
    pub(crate) expected: Vec<Vec<Id>>,
    /// The findings, in the report's order.
    pub(crate) found: Vec<Found>,
    /// The judgement of the findings.
    pub(crate) verdict: Verdict,
    /// The mistakes, in words.
    pub(crate) misses: Vec<String>,
    /// The reported causes that are not true.
    pub(crate) accused: Vec<Id>,
    /// The owner of the time that the report names first, with or without a cause; `None` for a
    /// recording without a fault that is visible in its packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) named: Option<Named>,
    /// True if a false cause was reported with a strong or proven verdict.
    pub(crate) is_firmly_accused: bool,
    /// The rank of the fault among the first finding's candidates, if that finding only shows the
    /// effect of a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) candidate: Option<Candidacy>,
    /// The unexplained share of the time of all requests, 0 to 1; `None` if there is no complete
    /// request.
    pub(crate) unknown_share: Option<f64>,
    /// The cost of the expected findings; `None` if none of them was found or the fault added no
    /// time.
    pub(crate) cost: Option<Cost>,
}

/// The owner that a report names first, compared with the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Named {
    /// The owner of the fault.
    Right,
    /// Another owner, or an unknown one.
    Other,
    /// No owner: the report has no finding.
    Nobody,
}

/// The rank of the fault among the candidates of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Candidacy {
    /// The most likely candidate.
    First,
    /// A less likely candidate.
    Named,
    /// Not among the candidates.
    Absent,
}

/// A summary of a finding.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) cause: Id,
    pub(crate) culprit: Owner,
    pub(crate) sureness: Sureness,
    /// The cost of the finding over all requests, in nanoseconds.
    pub(crate) cost_ns: u64,
}

/// The cost of a fault per request: as found, and as measured by the clients.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) found_ns: u64,
    /// The mean time of a request with the fault, minus the mean time without it.
    pub(crate) true_ns: u64,
    /// The error of `found_ns` as a fraction of `true_ns`; negative if the found cost is too small.
    pub(crate) error: f64,
}

impl End {
    /// All ends, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Client, Self::Server, Self::Loopback];

    /// Returns the part of a truth that is visible in the packets at this end.
    fn sees(self, truth: &Truth) -> Truth {
        match self {
            Self::Client => truth.seen_from(Side::Client),
            Self::Server => truth.seen_from(Side::Server),
            Self::Loopback => truth.seen_from_both(),
        }
    }

    /// Returns the end's name, which is also the name of its capture.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Loopback => "loopback",
        }
    }
}

impl Kind {
    pub(crate) fn of(truth: &Truth) -> Self {
        if truth.expected.is_empty() {
            Self::Healthy
        } else {
            Self::Known
        }
    }
}

impl Case {
    pub(super) fn new(recording: &str, end: End, label: &Label, report: &Report) -> Self {
        let whole = &label.truth;
        let truth = &end.sees(whole);
        let kind = match Kind::of(truth) {
            Kind::Healthy if !whole.expected.is_empty() => Kind::Hidden,
            kind => kind,
        };
        let expected = if truth.expected.is_empty() {
            whole
        } else {
            truth
        };
        let mut accused: Vec<Id> = Vec::new();
        for cause in truth::accused(truth, report) {
            if !accused.contains(&cause) {
                accused.push(cause);
            }
        }
        let is_firm = |finding: &Finding| finding.verdict >= Sureness::Strong;
        let mut firm = report.causes().filter(|finding| is_firm(finding));
        Self {
            named: named(kind, truth, report),
            is_firmly_accused: firm.any(|finding| accused.contains(&finding.cause)),
            recording: recording.to_owned(),
            scenario: label.scenario.clone(),
            drawn: label.drawn.is_some().then(|| label.describe()),
            end,
            kind,
            expected: expected.expected.iter().map(|e| e.cause.clone()).collect(),
            found: report.causes().map(Found::from).collect(),
            verdict: verdict(kind, truth, report, !accused.is_empty()),
            misses: truth::misses(truth, report),
            accused,
            candidate: candidate(kind, expected, report),
            unknown_share: unknown_share(report),
            cost: cost(label, truth, report),
        }
    }

    /// Returns the first of the causes that are correct for the first expected finding; `None` if
    /// the case is healthy.
    pub(crate) fn expected_first(&self) -> Option<Id> {
        self.expected.first()?.first().copied()
    }

    /// Returns the cause that was found first. If it is one of several correct causes, the first of
    /// these is returned, so that the confusion matrix has one column for them.
    pub(crate) fn found_first(&self) -> Option<Id> {
        let found = self.found.first()?.cause;
        match self.expected.first() {
            Some(names) if names.contains(&found) => self.expected_first(),
            _ => Some(found),
        }
    }

    /// Returns true if the expected cause was found first.
    pub(crate) fn is_first_right(&self) -> bool {
        matches!(self.verdict, Verdict::Right | Verdict::WrongCulprit)
    }

    /// Returns true if anything about the diagnosis is wrong.
    pub(crate) fn is_wrong(&self) -> bool {
        !self.misses.is_empty() || !matches!(self.verdict, Verdict::Right | Verdict::LeftAlone)
    }
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        Self {
            cause: finding.cause,
            culprit: finding.culprit,
            sureness: finding.verdict,
            cost_ns: finding.cost_ns,
        }
    }
}

fn verdict(kind: Kind, truth: &Truth, report: &Report, is_accused: bool) -> Verdict {
    let expected = truth.expected.first().filter(|_| kind == Kind::Known);
    match (expected, report.causes().next()) {
        (None, _) if is_accused => Verdict::Accused,
        (None, _) => Verdict::LeftAlone,
        (Some(_), None) => Verdict::Missed,
        (Some(expected), Some(found)) if truth::fulfils(found, expected) => Verdict::Right,
        (Some(expected), Some(found)) if expected.cause.contains(&found.cause) => {
            Verdict::WrongCulprit
        }
        (Some(_), Some(_)) => Verdict::OtherFirst,
    }
}

fn named(kind: Kind, truth: &Truth, report: &Report) -> Option<Named> {
    let expected = truth.expected.first().filter(|_| kind == Kind::Known)?;
    Some(match report.findings.first() {
        None => Named::Nobody,
        Some(finding) if truth::is_of(finding, expected) => Named::Right,
        Some(_) => Named::Other,
    })
}

fn unknown_share(report: &Report) -> Option<f64> {
    let exchanges = &report.exchanges;
    let unknown = exchanges
        .waits
        .iter()
        .filter(|w| w.kind == WaitKind::Unknown);
    let share = unknown.map(|wait| wait.share).sum();
    (exchanges.count > 0).then(|| rounded(share))
}

/// Returns the rank of a hidden fault among the candidates of the first finding; `None` if that
/// finding has no candidates.
fn candidate(kind: Kind, truth: &Truth, report: &Report) -> Option<Candidacy> {
    let mut expected = truth.expected.iter().filter(|_| kind == Kind::Hidden);
    let causes = &expected.next()?.cause;
    let candidates = &report.causes().next()?.candidates;
    let rank = candidates
        .iter()
        .position(|one| causes.contains(&one.cause));
    (!candidates.is_empty()).then_some(match rank {
        Some(0) => Candidacy::First,
        Some(_) => Candidacy::Named,
        None => Candidacy::Absent,
    })
}

fn cost(label: &Label, truth: &Truth, report: &Report) -> Option<Cost> {
    if truth.no_cost.is_some() {
        return None;
    }
    let with = &label.requests.with;
    let without = label.requests.without.as_ref()?;
    let true_ns = with.mean_ns.checked_sub(without.mean_ns)?;
    let mut findings = truth::of_expected(truth, report).peekable();
    findings.peek()?;
    let total = findings.fold(0_u64, |sum, finding| sum.saturating_add(finding.cost_ns));
    let recorded = if truth.partial {
        report.exchanges.count
    } else {
        with.count
    };
    let found_ns = total.checked_div(recorded)?;
    (true_ns > 0).then(|| Cost {
        found_ns,
        true_ns,
        error: rounded(found_ns as f64 / true_ns as f64 - 1.0),
    })
}

/// Rounds to four decimals, so that insignificant differences do not change the printed values.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
