//! `delayed-ack-harmless`: a note, never a claim.

use super::evidence::median;
use super::{Case, Conclusion, Id};
use crate::report::{Remark, counted};
use crate::stats::Merge;

/// Watches delayed ACKs for which no data waited.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let delays = &case.ledger.harmless_delays;
        if delays.is_empty() {
            return Conclusion::Nothing;
        }
        Conclusion::Note(Remark {
            id: Id::DelayedAckHarmless.to_string(),
            text: format!(
                "{}: {} acknowledged late, {} (median) after the last byte. Nothing waited for \
                 these ACKs; they cost nothing.",
                case.endpoint,
                counted(delays.count(), "response was", "responses were"),
                median(delays)
            ),
        })
    }
}
