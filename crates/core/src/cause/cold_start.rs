//! `cold-start`.

use super::evidence::{self, fix, human, percent, ruled_out};
use super::rhythm::{Nature, Stall};
use super::tally::Tally;
use super::{Case, Conclusion, Id};
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::wait::{Owner, WaitKind};

/// The first requests that a server gets wait together, and no later one does.
///
/// The discriminator is that it is the server's beginning, not the
/// connections': requests that are the first of theirs later on are quick, and
/// the first ones on all connections are answered at the same instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Starts(stall), tally)) => {
                Conclusion::Finding(Box::new(finding(case, stall, tally)))
            }
            _ => Conclusion::Nothing,
        }
    }
}

fn finding(case: &Case<'_>, stall: &Stall, tally: &Tally) -> Finding {
    let mut finding = evidence::finding(Id::ColdStart, Owner::Server, case, tally);
    finding.exemplars = case.ledger.slowest.exemplars();
    let (took, ordinary) = (human(stall.duration()), human(case.rhythm.ordinary));
    let text = format!(
        "the first {} requests, on {} connections, were answered together after {took}; later \
         ones in {ordinary} (median)",
        stall.requests, stall.connections,
    );
    finding.evidence.push(
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(stall.requests as u64)
            .packets(&evidence::answers(&finding.exemplars)),
    );
    // It happened once: a stand-still that met the first requests looks the same.
    finding.verdict = evidence::judge(&finding.evidence, tally.affected, true);
    finding.summary = format!(
        "The first requests wait {took} for something that the server does once, and all that \
         come meanwhile wait with them; later ones take {ordinary} (median). It is {} of all \
         request time that was seen.",
        percent(finding.share),
    );
    if case.ledger.setups.waits.of(WaitKind::Recovery) == 0 && case.ledger.setups.count > 0 {
        finding.ruled_out.push(ruled_out(
            Id::ConnectionNotReused,
            "no connection had to repeat its SYN, and what came before the request is not counted",
        ));
    }
    finding.overturned_by =
        "the same wait later on, while the server is warm: then it is a stand-still".to_owned();
    finding.fix = vec![
        fix(
            "server",
            "warm up before taking traffic: load, compile and connect at start, and only then pass the readiness check",
        ),
        fix(
            "server",
            "keep an instance alive (minimum instances, no scale to zero)",
        ),
    ];
    finding
}
