//! `duplicate-packets`: a note, because copies of packets cost nothing. A copy has the same IP
//! identification and TSval as its original. A retransmission has newer ones.

use super::evidence::REPEATS;
use super::{Case, Conclusion, Id};
use crate::report::{Remark, counted};
use crate::stats::Merge;

/// Counts copies.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if case.gathered.disorders.copied < REPEATS {
            return Conclusion::Nothing;
        }
        Conclusion::Note(Remark {
            id: Id::DuplicatePackets.to_string(),
            text: format!(
                "{}: {} with data were seen twice, with the same identification or a timestamp \
                 older than that of earlier packets: they are copies, not retransmissions. \
                 Captures on the `any` device, on a bridge or a mirror port show every packet \
                 twice; some links do deliver copies. They cost nothing.",
                case.endpoint,
                counted(case.gathered.disorders.copied, "segment", "segments"),
            ),
        })
    }
}
