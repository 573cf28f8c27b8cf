//! The changes of the findings, and the evidence that the change caused them.
//!
//! The absence of a finding does not prove a fix, because the load may have missed the cause. The
//! change was the fix if the finding's mechanism was seen to change: the option on the live
//! sockets, or at least the line in the configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::registry::Id;
use crate::report::{Finding, Report, Verdict};

mod lever;

pub use lever::{Lever, LeverPlace};

/// The presence of a finding in the two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Found before, not after.
    Vanished,
    /// Found in both.
    Stayed,
    /// Found after only.
    Appeared,
    /// Found before. The run after the change has no whole exchange that could show it.
    NotMeasured,
}

/// The observed change of a finding's mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The live sockets were seen without the remedy before and with it after.
    Changed,
    /// The configuration changed; live sockets were not read in both runs.
    Configured,
    /// All values read stayed the same.
    Unchanged,
    /// No relevant value was read in both runs.
    NotSeen,
}

/// A finding in two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingChange {
    /// The cause's id.
    pub cause: Id,
    /// The cause's title.
    pub title: String,
    /// The address and port of the server where the cause was found.
    pub service: String,
    /// The presence of the finding in the two runs.
    pub fate: Fate,
    /// The certainty before; `None` when the finding appeared.
    pub verdict_before: Option<Verdict>,
    /// The certainty after; `None` when the finding is gone.
    pub verdict_after: Option<Verdict>,
    /// Share of all exchanges' time before, 0 to 1.
    pub share_before: f64,
    /// Share of all exchanges' time after, 0 to 1.
    pub share_after: f64,
    /// The observed change of the mechanism; `None` for findings that appeared or were not measured
    /// after the change.
    pub mechanism: Option<Mechanism>,
    /// The values of the mechanism, as read before and after.
    pub levers: Vec<Lever>,
    /// An explanation of the change in a sentence or two.
    pub explanation: String,
}

/// Matches the findings of both reports.
pub(super) fn trace(before: &Report, after: &Report) -> Vec<FindingChange> {
    let is_same_subject = before.subject == after.subject;
    let matches = |one: &Finding, other: &Finding| {
        one.cause == other.cause && (!is_same_subject || one.service == other.service)
    };
    let old = before.causes().map(|finding| {
        let now = after.findings.iter().find(|other| matches(finding, other));
        follow(finding, now, before, after)
    });
    let new = after
        .causes()
        .filter(|finding| !before.findings.iter().any(|other| matches(finding, other)))
        .map(appeared);
    old.chain(new).collect()
}

fn follow(
    finding: &Finding,
    now: Option<&Finding>,
    before: &Report,
    after: &Report,
) -> FindingChange {
    let is_blind = before.exchanges.count > 0 && after.exchanges.count == 0;
    let fate = match now {
        Some(_) => Fate::Stayed,
        None if is_blind => Fate::NotMeasured,
        None => Fate::Vanished,
    };
    let levers = lever::read(finding, before, after);
    let mechanism = (fate != Fate::NotMeasured).then(|| weigh(&levers));
    FindingChange {
        cause: finding.cause,
        title: finding.title.clone(),
        service: finding.service.clone(),
        fate,
        verdict_before: Some(finding.verdict),
        verdict_after: now.map(|f| f.verdict),
        share_before: finding.share,
        share_after: now.map_or(0.0, |f| f.share),
        mechanism,
        explanation: explain(fate, mechanism, &levers),
        levers,
    }
}

fn appeared(finding: &Finding) -> FindingChange {
    FindingChange {
        cause: finding.cause,
        title: finding.title.clone(),
        service: finding.service.clone(),
        fate: Fate::Appeared,
        verdict_before: None,
        verdict_after: Some(finding.verdict),
        share_before: 0.0,
        share_after: finding.share,
        mechanism: None,
        levers: Vec::new(),
        explanation: "It was not found before.".to_owned(),
    }
}

/// Judges the levers. Sockets decide; the configuration decides only if no sockets were read.
fn weigh(levers: &[Lever]) -> Mechanism {
    let of = |place| levers.iter().filter(move |lever| lever.place == place);
    if of(LeverPlace::Sockets).next().is_some() {
        let is_changed = of(LeverPlace::Sockets).any(|lever| lever.has_changed);
        return if is_changed {
            Mechanism::Changed
        } else {
            Mechanism::Unchanged
        };
    }
    match of(LeverPlace::Configuration).next() {
        None => Mechanism::NotSeen,
        Some(_) if of(LeverPlace::Configuration).any(|l| l.has_changed) => Mechanism::Configured,
        Some(_) => Mechanism::Unchanged,
    }
}

fn explain(fate: Fate, mechanism: Option<Mechanism>, levers: &[Lever]) -> String {
    let conclusion = match (fate, mechanism) {
        (Fate::NotMeasured, _) => {
            return "The later run has no complete exchange that could show it.".to_owned();
        }
        (Fate::Vanished, Some(Mechanism::Changed)) => {
            "It is gone because the change reached the live sockets"
        }
        (Fate::Vanished, Some(Mechanism::Configured)) => {
            "It is gone and the configuration changed; the live sockets were not read in both runs"
        }
        (Fate::Vanished, Some(Mechanism::Unchanged)) => {
            "It is gone, but its mechanism was read and did not change: something else fixed it"
        }
        (Fate::Vanished, _) => "It is gone, but no change of the mechanism was seen",
        (Fate::Stayed, Some(Mechanism::Changed)) => {
            "It is still there although the change reached the live sockets: \
             the change is not the whole remedy, or the diagnosis is wrong"
        }
        (Fate::Stayed, Some(Mechanism::Configured)) => {
            "It is still there although the configuration changed: has the program read it?"
        }
        (Fate::Stayed, Some(Mechanism::Unchanged)) => {
            "It is still there: the change has not reached it"
        }
        _ => "It is still there",
    };
    // What stayed the same is of interest only if nothing changed.
    let has_changed = levers.iter().any(|lever| lever.has_changed);
    let told = levers
        .iter()
        .filter(|lever| lever.has_changed || !has_changed);
    let read: Vec<String> = told.map(ToString::to_string).collect();
    if read.is_empty() {
        format!("{conclusion}.")
    } else {
        format!("{conclusion}: {}.", read.join("; "))
    }
}
