//! One recording from one end: what was found there, held against the truth.

use lagtrace_core::report::{Finding, Report, Verdict as Sureness};
use lagtrace_core::wait::{Owner, WaitKind};
use lagtrace_lab::{Label, Side, Truth};
use serde::Serialize;

use crate::lab::truth;

/// The end that a recording was made at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// The host that asked.
    Client,
    /// The host that answered.
    Server,
    /// The one host that did both: its capture shows what either end sees.
    Loopback,
}

/// What a recording is to the diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A fault that this program has a rule for.
    Known,
    /// A fault that is in none of this end's packets: the right thing to say
    /// is nothing, or what of it does show.
    Hidden,
    /// A fault that it has none for: the right thing to say is nothing.
    NoRule,
    /// No fault, or what only looks like one.
    Healthy,
}

/// What the diagnosis is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The expected cause comes first, and whose fault it is is right.
    Right,
    /// The expected cause comes first, and somebody else is named for it.
    WrongCulprit,
    /// Another cause comes first.
    OtherFirst,
    /// Nothing was found where something was to be.
    Missed,
    /// Nothing was to be found, and nothing untrue was.
    LeftAlone,
    /// Nothing was to be found, and a cause was named that is not true.
    Accused,
}

/// A recording's diagnosis from one end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Case {
    /// The recording's folder.
    pub(crate) recording: String,
    /// The scenario that was recorded.
    #[serde(skip)]
    pub(crate) scenario: String,
    /// What was drawn by chance for it, in words; `None` for what a scenario itself asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drawn: Option<String>,
    /// Where it was captured.
    pub(crate) end: End,
    /// What it is to the diagnosis.
    pub(crate) kind: Kind,
    /// The causes to be found, the largest first; of several in one place any
    /// one will do.
    pub(crate) expected: Vec<Vec<String>>,
    /// What was found, in the report's order.
    pub(crate) found: Vec<Found>,
    /// What that is worth.
    pub(crate) verdict: Verdict,
    /// What is wrong, in words.
    pub(crate) misses: Vec<String>,
    /// The causes that were named and are not true.
    pub(crate) accused: Vec<String>,
    /// Where the first finding only shows what a fault does: whether the fault
    /// is among what it says that it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) candidate: Option<Candidacy>,
    /// The part of all requests' time that was not explained, 0 to 1; `None`
    /// without a whole request.
    pub(crate) unknown_share: Option<f64>,
    /// What the expected findings cost; `None` where none was found or the
    /// fault added nothing.
    pub(crate) cost: Option<Cost>,
}

/// Where the fault is among the candidates of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Candidacy {
    /// The likeliest.
    First,
    /// A later one.
    Named,
    /// Not among them.
    Absent,
}

/// A finding, in short.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) cause: String,
    pub(crate) culprit: Owner,
    pub(crate) sureness: Sureness,
    /// Its cost over all requests, in nanoseconds.
    pub(crate) cost_ns: u64,
}

/// A fault's cost per request: what was found, and what the clients' clocks say.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) found_ns: u64,
    /// The mean request with the fault less the mean request without.
    pub(crate) true_ns: u64,
    /// By how much the one is off the other, as a part of it; negative when too little.
    pub(crate) error: f64,
}

impl End {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Client, Self::Server, Self::Loopback];

    /// What of a truth this end's packets can show.
    fn sees(self, truth: &Truth) -> Truth {
        match self {
            Self::Client => truth.seen_from(Side::Client),
            Self::Server => truth.seen_from(Side::Server),
            Self::Loopback => truth.seen_from_both(),
        }
    }

    /// Its name, also its capture's.
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
        match truth.expected.first() {
            None => Self::Healthy,
            Some(first) if truth::has_rule(first) => Self::Known,
            Some(_) => Self::NoRule,
        }
    }

    /// Whether there is a fault, and naming it is not asked.
    pub(crate) fn is_to_be_left_alone(self) -> bool {
        matches!(self, Self::Hidden | Self::NoRule)
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
        let expected = match truth.expected.is_empty() {
            true => whole,
            false => truth,
        };
        let mut accused: Vec<String> = Vec::new();
        for cause in truth::accused(truth, report) {
            if !accused.iter().any(|known| known == cause) {
                accused.push(cause.to_owned());
            }
        }
        Self {
            recording: recording.to_owned(),
            scenario: label.scenario.clone(),
            drawn: label.drawn.is_some().then(|| label.describe()),
            end,
            kind,
            expected: expected.expected.iter().map(|e| e.cause.clone()).collect(),
            found: report.findings.iter().map(Found::from).collect(),
            verdict: verdict(kind, truth, report, !accused.is_empty()),
            misses: truth::misses(truth, report),
            accused,
            candidate: candidate(kind, expected, report),
            unknown_share: unknown_share(report),
            cost: cost(label, truth, report),
        }
    }

    /// The cause that was expected first, by the first of its names; `None` for a healthy one.
    pub(crate) fn expected_first(&self) -> Option<&str> {
        self.expected.first()?.first().map(String::as_str)
    }

    /// The cause that was found first, by the name it was expected by if it was.
    pub(crate) fn found_first(&self) -> Option<&str> {
        let found = &self.found.first()?.cause;
        match self.expected.first() {
            Some(names) if names.contains(found) => self.expected_first(),
            _ => Some(found),
        }
    }

    /// Whether the expected cause was found first.
    pub(crate) fn is_first_right(&self) -> bool {
        matches!(self.verdict, Verdict::Right | Verdict::WrongCulprit)
    }

    /// Whether anything is wrong with it.
    pub(crate) fn is_wrong(&self) -> bool {
        !self.misses.is_empty() || !matches!(self.verdict, Verdict::Right | Verdict::LeftAlone)
    }
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        Self {
            cause: finding.cause.clone(),
            culprit: finding.culprit,
            sureness: finding.verdict,
            cost_ns: finding.cost_ns,
        }
    }
}

fn verdict(kind: Kind, truth: &Truth, report: &Report, is_accused: bool) -> Verdict {
    let expected = truth.expected.first().filter(|_| kind == Kind::Known);
    match (expected, report.findings.first()) {
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

fn unknown_share(report: &Report) -> Option<f64> {
    let exchanges = &report.exchanges;
    let unknown = exchanges
        .waits
        .iter()
        .filter(|w| w.kind == WaitKind::Unknown);
    let share = unknown.map(|wait| wait.share).sum();
    (exchanges.count > 0).then(|| rounded(share))
}

/// Whether a fault that has no finding of its own is among what the first
/// finding says that it may be.
fn candidate(kind: Kind, truth: &Truth, report: &Report) -> Option<Candidacy> {
    let mut expected = truth.expected.iter().filter(|_| kind.is_to_be_left_alone());
    let causes = &expected.next()?.cause;
    let candidates = &report.findings.first()?.candidates;
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
    let recorded = match truth.partial {
        true => report.exchanges.count,
        false => with.count,
    };
    let found_ns = total.checked_div(recorded)?;
    (true_ns > 0).then(|| Cost {
        found_ns,
        true_ns,
        error: rounded(found_ns as f64 / true_ns as f64 - 1.0),
    })
}

/// To four decimals: more would only make figures differ that do not.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
