//! The expectations of a trace: the findings and notes that it must lead to.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::registry::LayerId;
use lagtrace_core::report::{EvidenceKind, Finding};

use crate::block::Run;
use crate::observation::Observation;
use crate::sum::{Sum, Values};

/// The content of the `expect:`, `may:` and `expect-not:` lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectation {
    findings: Vec<Expected>,
    notes: Vec<String>,
    is_nothing: bool,
    welcome: Vec<String>,
    excluded: Vec<String>,
}

/// A finding that must be reported.
#[derive(Clone, Debug, Default)]
struct Expected {
    cause: String,
    culprit: Option<String>,
    verdict: Option<String>,
    /// The certainty of the place of the finding's time.
    place: Option<String>,
    cost: Option<(Sum, Sum)>,
    p50: Option<(Sum, Sum)>,
    affected: Option<u64>,
    /// The file and line of the setting that is evidence, or `no`.
    configured: Option<String>,
}

impl Expectation {
    pub(crate) fn read(&mut self, keyword: &str, words: &[String]) -> Result<(), String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (keyword, words.as_slice()) {
            (_, []) => return Err("names nothing".to_owned()),
            ("may:", ids) => self.welcome.extend(ids.iter().map(|id| (*id).to_owned())),
            ("expect-not:", ids) => self.excluded.extend(ids.iter().map(|id| (*id).to_owned())),
            (_, ["nothing"]) => self.is_nothing = true,
            (_, ["note", id]) => self.notes.push((*id).to_owned()),
            (_, [cause, facts @ ..]) => self.findings.push(Expected::parse(cause, facts)?),
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_open() && self.excluded.is_empty()
    }

    /// Returns true if the block only excludes findings.
    fn is_open(&self) -> bool {
        self.findings.is_empty() && self.notes.is_empty() && !self.is_nothing
    }

    /// Returns true if the block expects this cause.
    pub(crate) fn names(&self, id: &str) -> bool {
        self.findings.iter().any(|finding| finding.cause == id)
            || self.notes.iter().any(|n| n == id)
    }

    /// Returns true if this cause must not be reported.
    pub(crate) fn excludes(&self, id: &str) -> bool {
        let is_welcome = self.welcome.iter().any(|welcome| welcome == id);
        let is_excluded = self.excluded.iter().any(|excluded| excluded == id);
        is_excluded || (!self.is_open() && !self.names(id) && !is_welcome)
    }

    /// Lists the differences between the expectations and the result.
    pub(crate) fn check(&self, run: &Run, observed: &Observation) -> Vec<String> {
        let mut wrong = observed.untiled.clone();
        if !self.welcome.iter().any(|id| id == "unknown") {
            wrong.extend(observed.unknown.iter().cloned());
        }
        wrong.extend(misplaced(run, observed));
        let report = &observed.report;
        wrong.extend(crate::books::account_fault(report));
        wrong.extend(report.findings.iter().filter_map(unjust));
        let has_note = |id: &str| report.notes.iter().any(|note| note.id == id);
        wrong.extend(
            self.notes
                .iter()
                .filter(|id| !has_note(id))
                .map(|id| format!("no note `{id}`")),
        );
        let found: Vec<&str> = report.findings.iter().map(|f| f.cause.as_str()).collect();
        wrong.extend(
            self.excluded
                .iter()
                .filter(|id| found.contains(&id.as_str()) || has_note(id))
                .map(|id| format!("`{id}` must not be found: {}", told(&report.findings))),
        );
        if !self.is_open() {
            // A finding that only names a place of unexplained time counts only if the block
            // expects it.
            let counts = |f: &&Finding| !f.locates || self.names(f.cause.as_str());
            let counted: Vec<Finding> = report.findings.iter().filter(counts).cloned().collect();
            wrong.extend(self.compare(run, &counted));
        }
        wrong
    }

    fn compare(&self, run: &Run, findings: &[Finding]) -> Vec<String> {
        let is_welcome = |f: &&Finding| {
            let id = f.cause.as_str();
            !self.welcome.iter().any(|welcome| welcome == id) || self.names(id)
        };
        let counted: Vec<&Finding> = findings.iter().filter(is_welcome).collect();
        let ids: Vec<&str> = counted.iter().map(|f| f.cause.as_str()).collect();
        let expected: Vec<&str> = self.findings.iter().map(|e| e.cause.as_str()).collect();
        if ids != expected {
            return vec![format!("expected {expected:?}, found {}", told(findings))];
        }
        self.findings
            .iter()
            .zip(counted)
            .flat_map(|(e, finding)| e.check(run, finding))
            .collect()
    }
}

impl Expected {
    fn parse(cause: &str, facts: &[&str]) -> Result<Self, String> {
        let mut expected = Self {
            cause: cause.to_owned(),
            ..Self::default()
        };
        for fact in facts {
            let (key, value) = fact.split_once('=').ok_or(format!("`{fact}` is no fact"))?;
            match key {
                "culprit" => expected.culprit = Some(value.to_owned()),
                "verdict" => expected.verdict = Some(value.to_owned()),
                "configured" => expected.configured = Some(value.to_owned()),
                "place" => expected.place = Some(value.to_owned()),
                "affected" => {
                    expected.affected = Some(value.parse().map_err(|_| "a count is a number")?);
                }
                "cost" => expected.cost = Some(about(value)?),
                "p50" => expected.p50 = Some(about(value)?),
                _ => return Err(format!("a finding has no `{key}`")),
            }
        }
        Ok(expected)
    }

    fn check(&self, run: &Run, finding: &Finding) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut differ = |what: &str, expected: &str, found: &str| {
            if expected != found {
                wrong.push(format!(
                    "{}: {what} {found}, expected {expected}",
                    self.cause
                ));
            }
        };
        if let Some(culprit) = &self.culprit {
            differ("culprit", culprit, &word(&finding.culprit));
        }
        if let Some(configured) = &self.configured {
            differ("configured", configured, &configuration(finding));
        }
        if let Some(verdict) = &self.verdict {
            differ("verdict", verdict, &word(&finding.verdict));
        }
        if let Some(place) = &self.place {
            let sure = finding.location.as_ref().map(|at| word(&at.certainty));
            differ("place", place, &sure.unwrap_or_default());
        }
        let affected = finding.affected.exchanges;
        if let Some(expected) = self.affected {
            differ("affected", &expected.to_string(), &affected.to_string());
        }
        let mut values = Values::of(run.variables.clone());
        values.named.insert("rtt".to_owned(), run.rtt);
        let mut is_about = |what: &str, (sum, error): &(Sum, Sum), found: u64| {
            let expected = sum.value(&mut values).expect("a time of known names");
            let error = error.value(&mut values).expect("an error of known names");
            if (found as i64 - expected).abs() > error {
                let ms = |nanos: i64| format!("{} ms", nanos as f64 / 1e6);
                differ(what, &ms(expected), &ms(found as i64));
            }
        };
        if let Some(cost) = &self.cost {
            is_about("mean cost", cost, finding.cost_ns / affected.max(1));
        }
        if let Some(p50) = &self.p50 {
            let predicted = finding.predicted.as_ref();
            let predicted = predicted.map(|predicted| predicted.latency_ns.p50);
            is_about("predicted p50", p50, predicted.unwrap_or_default());
        }
        wrong
    }
}

/// Reads a time and its maximum error.
fn about(value: &str) -> Result<(Sum, Sum), String> {
    let (sum, error) = value.split_once('±').ok_or("a time is SUM±SUM")?;
    Ok((Sum::parse(sum)?, Sum::parse(error)?))
}

/// Returns the fault if the report gives the capture point a wrong position.
fn misplaced(run: &Run, observed: &Observation) -> Option<String> {
    let point = observed.report.capture.as_ref()?.points.first()?;
    let is_known = observed.has_handshake && run.rtt >= 1_000_000;
    (is_known && point.vantage != run.point.name())
        .then(|| format!("the point was taken to stand at: {}", point.vantage))
}

/// Returns the fault if the finding accuses the server's layer although another owner has to change
/// something. A finding whose owner is not known only makes the layer suspect.
fn unjust(finding: &Finding) -> Option<String> {
    let is_servers = matches!(
        finding.culprit,
        Owner::Server | Owner::Proxy | Owner::Unknown
    );
    let (cause, culprit) = (finding.cause, word(&finding.culprit));
    (!is_servers && cause.cause().layer == LayerId::Server)
        .then(|| format!("`{cause}`, of the {culprit}, accuses the server's layer"))
}

/// Returns the word for `value` in the report.
fn word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).expect("an enum of plain words");
    json.as_str().unwrap_or_default().to_owned()
}

fn told(findings: &[Finding]) -> String {
    let list: Vec<String> = findings
        .iter()
        .map(|f| {
            format!(
                "{} ({}, {}, {} exchanges, {:.3} ms)",
                f.cause,
                word(&f.culprit),
                word(&f.verdict),
                f.affected.exchanges,
                f.cost_ns as f64 / 1e6
            )
        })
        .collect();
    if list.is_empty() {
        "nothing".to_owned()
    } else {
        list.join("; ")
    }
}

/// Returns the file and line of the first setting that is evidence of the finding; `no` if there is
/// none.
fn configuration(finding: &Finding) -> String {
    let mut settings = finding.evidence.iter();
    let found = settings.find(|piece| piece.kind == EvidenceKind::Configuration);
    let place = found.and_then(|piece| piece.location.clone());
    place.unwrap_or_else(|| "no".to_owned())
}
