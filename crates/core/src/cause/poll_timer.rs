//! The rule of the cause `poll-timer`.

use super::evidence::{self, human, median};
use super::rhythm::{Nature, Ticks};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::report::counted;
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The server is not woken by a request: it polls for requests every {period}, and each \
        request waits for the rest of that time, {saved} (median), {share} of all request time.",
    ruled_out: &[(
        Id::NagleDelayedAck,
        "a delayed ACK takes its whole time at each request; these waits are spread evenly",
    )],
    overturned_by: "answers between the ticks, or requests that arrive on the same ticks",
    fix: &[
        (
            "server",
            "wait for the socket (epoll, select, a blocking read) instead of sleeping",
        ),
        (
            "server",
            "poll more often: a request waits half a period on average and a whole one at worst",
        ),
    ],
};

/// Watches responses that leave on the grid of a server's timer, whenever their requests arrived.
///
/// The sign is the distribution of the waits. They are spread evenly from zero to one period,
/// because requests arrive at any phase of the timer. A server's own time, a delayed ACK or a
/// client's timer makes all waits equal.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Polls(ticks), tally)) => {
                Conclusion::Claim(Box::new(claim(case, ticks, tally)))
            }
            _ => Conclusion::Nothing,
        }
    }
}

fn claim(case: &Case<'_>, ticks: &Ticks, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::PollTimer, Owner::Server, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let (fitting, of) = ticks.fitting;
    let gaps = if fitting == of {
        format!("all {of} gaps")
    } else {
        format!("{fitting} of the {of} gaps")
    };
    let text = format!(
        "answers left at {}, and {gaps} between them are multiples of {}",
        counted(ticks.count as u64, "instant", "instants"),
        human(ticks.period),
    );
    claim.evidence.push(
        Statement::shows(case.timed_by(), text)
            .count(fitting as u64)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    let [low, middle, high] = ticks.spread.map(human);
    let text = format!(
        "the waits spread from zero to one period: {low}, {middle} and {high} at the 10th, 50th \
         and 90th percentile"
    );
    claim.evidence.push(Statement::shows(case.timed_by(), text));
    claim.basis = Basis::new(tally.affected, false);
    WORDING.tell(
        &mut claim,
        &[
            ("period", &human(ticks.period)),
            ("saved", &median(&tally.saved)),
        ],
    );
    claim
}
