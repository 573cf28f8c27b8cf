//! `delayed-ack-harmless`: a note, never a finding.

use super::evidence::median;
use super::{Case, Conclusion, Id};
use crate::report::Remark;

/// Watches delayed ACKs that no data waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _other: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let delays = &case.ledger.harmless_delays;
        if delays.is_empty() {
            return Conclusion::Nothing;
        }
        Conclusion::Note(Remark {
            id: Id::DelayedAckHarmless.to_string(),
            text: format!(
                "{}: {} responses were acknowledged late ({}, median) after their last byte. \
                 Nothing waited for these ACKs; they cost nothing.",
                case.endpoint,
                delays.count(),
                median(delays)
            ),
        })
    }
}
