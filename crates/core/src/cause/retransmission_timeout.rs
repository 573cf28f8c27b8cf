//! `retransmission-timeout`.

use super::evidence::{fix, human};
use super::loss::{Kind, Losses};
use super::{Case, Conclusion};
use crate::exchange::Exchange;

/// Counts losses that only a timer repaired.
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
        let found = self.0.finding("retransmission-timeout", Kind::Timeout, case);
        let Some(mut finding) = found else { return Conclusion::Nothing };
        finding.summary = format!(
            "{} exchanges lost a segment at the end of a message, where nothing follows that \
             would reveal the loss, and waited {} (median) for a timer.",
            finding.affected.exchanges,
            human(self.0.tally.saved.quantile(0.5).unwrap_or_default()),
        );
        finding.overturned_by =
            "a capture at the other end that shows these segments arriving in time".to_owned();
        finding.fix = vec![
            fix("path", "find where the segments are lost"),
            fix("sender", "tail-loss probes on (net.ipv4.tcp_early_retrans=3); in a data centre a lower rto_min on the route"),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}
