//! `fast-retransmit`.

use super::evidence::{fix, human};
use super::loss::{Kind, Losses};
use super::{Case, Conclusion};
use crate::exchange::Exchange;

/// Counts losses that later data revealed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule(Losses);

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        self.0.observe(exchange);
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let found = self.0.finding("fast-retransmit", Kind::Fast, case);
        let Some(mut finding) = found else { return Conclusion::Nothing };
        finding.summary = format!(
            "{} exchanges lost a segment that later data revealed; each waited {} (median) until \
             it was sent again.",
            finding.affected.exchanges,
            human(self.0.tally.saved.quantile(0.5).unwrap_or_default()),
        );
        finding.overturned_by =
            "a capture at the other end that shows these segments arriving in time".to_owned();
        finding.fix = vec![fix("path", "find where the segments are lost")];
        Conclusion::Finding(Box::new(finding))
    }
}
