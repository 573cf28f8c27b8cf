//! The sum of all cases: which causes are confused with which, and the totals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lagtrace_core::registry::Id;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::case::{Candidacy, Case, End, Kind, Named, Verdict, rounded};
use super::fresh::{Fresh, Refused};

/// The version of the score's format.
const SCHEMA: u32 = 1;

/// Maximum error of a cost that counts as correct, as a fraction of the true cost.
const CLOSE: f64 = 0.1;

/// A finished score.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Score {
    schema: u32,
    /// The cases, by recording, then by end.
    pub(crate) cases: Vec<Case>,
    /// The pairs of the cause expected first and the cause found first, each with its count.
    pub(crate) confusion: Vec<Confused>,
    /// The totals of each end.
    pub(crate) totals: Vec<Totals>,
    /// The figures of all ends together.
    pub(crate) together: Together,
    /// The seed for the parameters of recordings made for the score; `None` for the corpus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    /// The recordings for the score that could not be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<Refused>,
    /// The attempts that were rejected and drawn again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) redrawn: Vec<Refused>,
    /// The folder for wrongly diagnosed recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<PathBuf>,
}

/// The number of cases with the same cause expected and the same cause found first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confused {
    pub(crate) kind: Kind,
    /// The expected cause; `None` if no cause is expected.
    pub(crate) expected: Option<Id>,
    /// The cause that was found first; `None` if nothing was found.
    pub(crate) found: Option<Id>,
    pub(crate) count: usize,
}

/// The results of all diagnoses together, regardless of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Together {
    /// The number of faults that are visible in the packets.
    pub(crate) known: usize,
    /// The number of faults whose cause was found first.
    pub(crate) first_right: usize,
    /// The number of faults whose owner was named first, with or without a cause.
    pub(crate) owner_right: usize,
    /// The number of faults for which nothing was reported.
    pub(crate) silent: usize,
    /// The number of recordings without a fault.
    pub(crate) healthy: usize,
    /// The number of recordings without a fault for which a false cause was reported as strong or
    /// proven.
    pub(crate) firmly_accused: usize,
}

/// The totals of one end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Totals {
    pub(crate) end: End,
    /// The number of faults that are visible in the packets at this end.
    pub(crate) known: usize,
    /// The number of known faults whose cause was found first.
    pub(crate) first_right: usize,
    /// The number of known faults whose cause was found first, with the right culprit.
    pub(crate) culprit_right: usize,
    /// The number of known faults for which another cause was accused, in addition to the expected
    /// one or instead of it.
    pub(crate) known_accused: usize,
    /// The number of faults that are not visible in the packets at this end.
    pub(crate) hidden: usize,
    /// The number of hidden faults for which a cause was accused that is not true, or that cannot
    /// be determined at this end.
    pub(crate) hidden_accused: usize,
    /// The candidates that were listed for hidden faults.
    pub(crate) candidates: Candidates,
    /// The number of recordings without a fault.
    pub(crate) healthy: usize,
    /// The number of recordings without a fault for which something was accused.
    pub(crate) healthy_accused: usize,
    /// The unexplained share of the requests' time.
    pub(crate) unknown_share: Option<Unknown>,
    /// The errors of the costs, as fractions of the true cost.
    pub(crate) cost_error: Option<CostError>,
}

/// Results for findings that show only the effect of a fault and list candidates for it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Candidates {
    /// The number of faults with such findings.
    pub(crate) of: usize,
    /// The number of faults that are among the candidates.
    pub(crate) named: usize,
    /// The number of faults that are the most likely candidate.
    pub(crate) first: usize,
}

/// The unexplained shares of time, 0 to 1.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Unknown {
    pub(crate) mean: f64,
    pub(crate) p90: f64,
    pub(crate) worst: f64,
    pub(crate) worst_in: String,
}

/// The errors of costs, as fractions of the true cost.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CostError {
    /// The number of recordings.
    pub(crate) of: usize,
    pub(crate) median: f64,
    /// The number of recordings with an error within 10 %.
    pub(crate) close: usize,
    pub(crate) worst: f64,
    pub(crate) worst_in: String,
}

impl Score {
    pub(super) fn of(cases: Vec<Case>) -> Self {
        let of_end = |end: End| {
            let cases: Vec<_> = cases.iter().filter(|case| case.end == end).collect();
            (!cases.is_empty()).then(|| Totals::of(end, &cases))
        };
        Self {
            schema: SCHEMA,
            totals: End::ALL.into_iter().filter_map(of_end).collect(),
            confusion: confusion(&cases),
            together: Together::of(&cases),
            cases,
            seed: None,
            refused: Vec::new(),
            redrawn: Vec::new(),
            kept: None,
        }
    }

    /// Returns the score for recordings that were made for it.
    pub(super) fn of_fresh(cases: Vec<Case>, fresh: Fresh, kept: Option<&Path>) -> Self {
        Self {
            seed: Some(fresh.seed),
            refused: fresh.refused,
            redrawn: fresh.redrawn,
            kept: kept.map(Path::to_owned),
            ..Self::of(cases)
        }
    }

    /// Returns the scenarios that were drawn again more than once and at least as often as they
    /// were recorded, each with the number of these draws. The truth of such a scenario may depend
    /// on the drawn parameters.
    pub(crate) fn often_redrawn(&self) -> Vec<(&Refused, usize)> {
        let mut last: BTreeMap<&str, (&Refused, usize)> = BTreeMap::new();
        for one in &self.redrawn {
            let (latest, count) = last.entry(&one.scenario).or_insert((one, 0));
            (*latest, *count) = (one, *count + 1);
        }
        let recorded = |name: &str| {
            let own = self.cases.iter().filter(|case| case.scenario == name);
            let mut own: Vec<_> = own.map(|case| &case.recording).collect();
            own.dedup();
            own.len()
        };
        last.into_iter()
            .filter(|(name, (_, count))| *count > 1 && *count >= recorded(name))
            .map(|(_, often)| often)
            .collect()
    }

    /// Returns true if any diagnosis is wrong, or any recording could not be made.
    pub(super) fn is_wrong(&self) -> bool {
        !self.refused.is_empty() || self.cases.iter().any(Case::is_wrong)
    }

    /// Returns the score as one indented JSON document.
    pub(super) fn json(&self) -> String {
        format!("{:#}\n", self.value())
    }

    /// Returns the score as a JSON document.
    pub(super) fn value(&self) -> Value {
        value(self)
    }

    /// Returns the score as JSON lines, one for each case, each confusion and each end's totals.
    pub(super) fn ndjson(&self) -> String {
        let mut text = String::new();
        let cases = self.cases.iter().map(|case| ("case", value(case)));
        let confusion = self.confusion.iter().map(|one| ("confusion", value(one)));
        let totals = self.totals.iter().map(|one| ("totals", value(one)));
        let refused = self.refused.iter().map(|one| ("refused", value(one)));
        let redrawn = self.redrawn.iter().map(|one| ("redrawn", value(one)));
        let all = cases.chain(confusion).chain(totals);
        let all = all.chain([("together", value(&self.together))]);
        for (kind, mut line) in all.chain(refused).chain(redrawn) {
            line["type"] = json!(kind);
            writeln!(text, "{line}").ok();
        }
        text
    }
}

fn value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).expect("these types have string keys only")
}

fn confusion(cases: &[Case]) -> Vec<Confused> {
    let mut counts = BTreeMap::new();
    for case in cases {
        let pair = (case.kind, case.expected_first(), case.found_first());
        *counts.entry(pair).or_insert(0) += 1;
    }
    let confused = |((kind, expected, found), count)| Confused {
        kind,
        expected,
        found,
        count,
    };
    let mut list: Vec<_> = counts.into_iter().map(confused).collect();
    let id = |cause: Option<Id>| cause.map(Id::as_str);
    list.sort_by_key(|pair| (pair.kind, id(pair.expected), id(pair.found)));
    list
}

impl Totals {
    fn of(end: End, cases: &[&Case]) -> Self {
        let count =
            |is_wanted: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| is_wanted(case)).count();
        let of = |kind: Kind| count(&|case| case.kind == kind);
        let accused = |kind: Kind| count(&|case| case.kind == kind && !case.accused.is_empty());
        Self {
            end,
            known: of(Kind::Known),
            first_right: count(&Case::is_first_right),
            hidden: of(Kind::Hidden),
            hidden_accused: accused(Kind::Hidden),
            culprit_right: count(&|case| case.verdict == Verdict::Right),
            known_accused: accused(Kind::Known),
            candidates: Candidates::of(cases),
            healthy: of(Kind::Healthy),
            healthy_accused: accused(Kind::Healthy),
            unknown_share: Unknown::of(cases),
            cost_error: CostError::of(cases),
        }
    }
}

impl Together {
    fn of(cases: &[Case]) -> Self {
        let count =
            |is_wanted: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| is_wanted(case)).count();
        let of = |kind: Kind| count(&|case| case.kind == kind);
        let named = |named: Named| count(&|case| case.named == Some(named));
        let is_accused = |case: &Case| case.kind == Kind::Healthy && case.is_firmly_accused;
        Self {
            known: of(Kind::Known),
            first_right: count(&Case::is_first_right),
            owner_right: named(Named::Right),
            silent: named(Named::Nobody),
            healthy: of(Kind::Healthy),
            firmly_accused: count(&is_accused),
        }
    }
}

impl Candidates {
    fn of(cases: &[&Case]) -> Self {
        let all = cases.iter().filter_map(|case| case.candidate);
        let count = |wanted: &[Candidacy]| all.clone().filter(|one| wanted.contains(one)).count();
        Self {
            of: all.clone().count(),
            named: count(&[Candidacy::First, Candidacy::Named]),
            first: count(&[Candidacy::First]),
        }
    }
}

impl Unknown {
    fn of(cases: &[&Case]) -> Option<Self> {
        let shares = Ranked::new(cases, |case| case.unknown_share);
        let (worst, worst_in) = shares.worst()?;
        Some(Self {
            mean: rounded(shares.sum() / shares.0.len() as f64),
            p90: shares.quantile(0.9)?,
            worst,
            worst_in,
        })
    }
}

impl CostError {
    fn of(cases: &[&Case]) -> Option<Self> {
        let errors = Ranked::new(cases, |case| Some(case.cost?.error.abs()));
        let (worst, worst_in) = errors.worst()?;
        Some(Self {
            of: errors.0.len(),
            median: errors.quantile(0.5)?,
            close: errors.0.iter().filter(|(error, _)| *error <= CLOSE).count(),
            worst,
            worst_in,
        })
    }
}

/// The values of a figure, for the cases that have it, in ascending order, each with its recording.
struct Ranked<'a>(Vec<(f64, &'a str)>);

impl<'a> Ranked<'a> {
    fn new(cases: &[&'a Case], figure: impl Fn(&Case) -> Option<f64>) -> Self {
        let all = cases.iter();
        let mut ranked: Vec<_> = all
            .filter_map(|case| Some((figure(case)?, case.recording.as_str())))
            .collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(ranked)
    }

    fn sum(&self) -> f64 {
        self.0.iter().map(|(figure, _)| figure).sum()
    }

    /// Returns the given quantile, 0 to 1, of the values.
    fn quantile(&self, part: f64) -> Option<f64> {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        self.0
            .get(rank.saturating_sub(1))
            .map(|(figure, _)| *figure)
    }

    fn worst(&self) -> Option<(f64, String)> {
        let (figure, recording) = self.0.last()?;
        Some((*figure, (*recording).to_owned()))
    }
}
