//! The prose of findings: constants of each rule, apart from how it finds what it tells of.

use core::fmt::Display;

use super::Id;
use super::evidence::{fix, percent, ruled_out};
use crate::report::Finding;

/// What a finding says beside its evidence. `{name}` stands for a value that the rule gives;
/// `{share}`, `{part}` (of the exchanges) and `{service}` are the finding's own.
pub(super) struct Wording {
    pub(super) summary: &'static str,
    /// What else it might have been, and why it is not.
    pub(super) ruled_out: &'static [(Id, &'static str)],
    pub(super) overturned_by: &'static str,
    /// Where to change what.
    pub(super) fix: &'static [(&'static str, &'static str)],
}

/// Values by the names that stand for them.
pub(super) type Values<'a> = [(&'a str, &'a dyn Display)];

impl Wording {
    /// The wording that says nothing.
    pub(super) const NONE: Self = Self {
        summary: "",
        ruled_out: &[],
        overturned_by: "",
        fix: &[],
    };

    /// Tells it of a finding, behind what is told of it already.
    pub(super) fn tell(&self, finding: &mut Finding, values: &Values<'_>) {
        finding.summary += &filled(self.summary, finding, values);
        for &(cause, because) in self.ruled_out {
            let because = filled(because, finding, values);
            finding.ruled_out.push(ruled_out(cause, because));
        }
        finding.overturned_by = filled(self.overturned_by, finding, values);
        for &(place, change) in self.fix {
            let place = filled(place, finding, values);
            finding
                .fix
                .push(fix(place, filled(change, finding, values)));
        }
    }
}

/// A text with its values in it.
pub(super) fn filled(text: &str, finding: &Finding, values: &Values<'_>) -> String {
    let mut pieces = text.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once('}').unwrap_or((piece, ""));
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => filled += &value.to_string(),
            None => filled += &own(finding, name),
        }
        filled += rest;
    }
    filled
}

/// A value of the finding's own.
fn own(finding: &Finding, name: &str) -> String {
    let affected = finding.affected;
    match name {
        "share" => percent(finding.share),
        "part" => percent(affected.exchanges as f64 / affected.of.max(1) as f64),
        "service" => finding.service.clone(),
        _ => {
            debug_assert!(false, "a text has no value for {name}");
            String::new()
        }
    }
}
