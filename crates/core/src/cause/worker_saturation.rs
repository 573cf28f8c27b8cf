//! `worker-saturation`.

use super::evidence::{self, fix, human, median, percent, ruled_out};
use super::rhythm::{Gate, Nature};
use super::tally::Tally;
use super::{Case, Conclusion, Id};
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::wait::Owner;

/// Requests on several connections are answered one at a time, each one turn
/// after the other, and a request that meets an idle server takes one turn too.
///
/// The discriminator against a limit is that turn of a request that waited for
/// nobody: it is work. Several workers, or work of uneven length, do not show
/// in packets and stay `server-think`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Queues(gate), tally)) => {
                Conclusion::Finding(Box::new(finding(case, gate, tally)))
            }
            _ => Conclusion::Nothing,
        }
    }
}

fn finding(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Finding {
    let mut finding = evidence::finding(Id::WorkerSaturation, Owner::Server, case, tally);
    finding.exemplars = case.ledger.slowest.exemplars();
    let (even, of) = gate.even;
    let text = format!(
        "{even} of {of} answers to requests that waited side by side came {} after the one before",
        human(gate.turn)
    );
    finding.evidence.push(
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(even as u64)
            .packets(&evidence::answers(&finding.exemplars)),
    );
    let text = format!(
        "a request that met an idle server took {} as well",
        human(gate.quickest)
    );
    finding
        .evidence
        .push(Evidence::mechanism(EvidenceKind::Wire, text));
    finding.verdict = evidence::judge(&finding.evidence, tally.affected, false);
    finding.summary = format!(
        "The server serves one request at a time and needs {} for it; the others wait in line, \
         {} (median), {} of all request time. The wait grows with each request that is made side \
         by side.",
        human(gate.turn),
        median(&tally.saved),
        percent(finding.share),
    );
    finding.ruled_out.push(ruled_out(
        Id::RateLimit,
        format!(
            "no request was answered sooner than in {}",
            human(gate.quickest)
        ),
    ));
    finding.overturned_by =
        "requests that are answered side by side, or a limit in the server's configuration that \
         lets one through at a time (then raise it)"
            .to_owned();
    finding.fix = vec![
        fix(
            "server",
            "more workers, threads or processes; a higher `maxconn` where a proxy queues",
        ),
        fix("server", "less work per request: the turn itself"),
        fix(
            "client",
            "fewer requests side by side: more of them only wait longer",
        ),
    ];
    finding
}
