//! `duplicate-packets`: a note, because copies of packets cost nothing. A copy
//! has the numbers of what came before (IP identification, TSval); what was
//! sent again has newer ones.

use super::disorder::Disorders;
use super::evidence::REPEATS;
use super::{Case, Conclusion};
use crate::exchange::Exchange;
use crate::report::Remark;

/// Counts copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule(Disorders);

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        self.0.observe(exchange);
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.0.copied < REPEATS {
            return Conclusion::Nothing;
        }
        Conclusion::Note(Remark {
            id: "duplicate-packets".to_owned(),
            text: format!(
                "{}: {} segments with data were seen twice, with the same identification or an \
                 older timestamp than what came before: copies, not retransmissions. Captures on \
                 the `any` device, on a bridge or a mirror port show every packet twice; some \
                 links do deliver copies. They cost nothing.",
                case.endpoint, self.0.copied
            ),
        })
    }
}
