//! `ack-thinning`: a note, never a claim. A receiver acknowledges at least every second full
//! segment (RFC 5681 §4.2). If one ACK covers many segments, the receiver's offload or a device on
//! the path has dropped the other ACKs. The sender then sends in larger bursts, but nothing waits.

use super::evidence::REPEATS;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::Exchange;
use crate::report::Remark;
use crate::stats::Merge;

/// Minimum number of segments per ACK for a note.
const MANY: u32 = 4;

/// Counts responses with few ACKs.
#[derive(Clone, Copy, Debug, Default, Merge)]
pub(crate) struct Rule {
    rarely: u64,
    all: u64,
    /// The median number of segments per ACK, of the response in which it was largest.
    #[merge(max)]
    most: u32,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::PACKING;

    fn observe(&mut self, exchange: &Exchange) {
        if let Some(stride) = exchange.response.packing.stride {
            let is_rare = stride >= MANY;
            self.merge(Self {
                rarely: is_rare.into(),
                all: 1,
                most: stride,
            });
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.rarely < REPEATS || self.rarely * 2 < self.all {
            return Conclusion::Nothing;
        }
        let covered = match self.most {
            ..=MANY => MANY.to_string(),
            most => format!("{MANY} to {most}"),
        };
        Conclusion::Note(Remark {
            id: Id::AckThinning.to_string(),
            text: format!(
                "{}: in {} of {} larger responses the median ACK covered {} segments: \
                 either the client's offload (GRO) merges segments, or a modem or radio link on \
                 the path drops ACKs. The server sends in larger bursts, but nothing waits for the \
                 missing ACKs.",
                case.endpoint, self.rarely, self.all, covered
            ),
        })
    }
}
