//! The rule of the cause `client-think`.

use core::time::Duration;

use super::evidence::{self, human};
use super::rhythm::{quantile, sorted};
use super::sequence::{idle, is_at_once, sequences};
use super::wording::Wording;
use super::{Case, Conclusion, Id, candidates};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The client waits {pause} (median) between a response and its next request, {in_row} \
              times in a row, although other requests show that it can send one immediately. The \
              client's own users wait for these pauses too. They lie between requests, and no \
              server can shorten them.",
    ruled_out: &[(
        Id::ServerThink,
        "the server had answered, and had no request in these pauses",
    )],
    overturned_by: "the client being idle in these pauses: waiting for a timer or for a person",
    fix: &[
        (
            "client",
            "profile what it does between a response and its next request",
        ),
        (
            "client",
            "send the next request before processing the last response",
        ),
    ],
};

/// Minimum pause that counts. Shorter pauses are a client's ordinary work between two requests.
const LEAST_THINK: Duration = Duration::from_millis(20);
/// Maximum pause that counts. Longer pauses come from a person or a timer.
const LONGEST: Duration = Duration::from_secs(2);
/// Maximum deviation from the median of pauses that count as equal, as a share of the median.
const ALIKE: f64 = 0.2;
/// Minimum share of pauses that are equal. Also the minimum share of gaps between requests that are
/// either a pause or no wait at all.
const MOST: f64 = 0.8;
/// Minimum number of pauses for a claim.
const LEAST_PAUSES: usize = 10;
/// Minimum number of requests without a pause before them.
const LEAST_AT_ONCE: usize = 3;
/// Minimum share of the requests without a pause. If there are fewer, they may be late requests of
/// a client that sends by a timer.
const LEAST_SHARE: f64 = 0.1;

/// Watches clients that send some requests right after a response, but pause for about the same
/// time before most others. The pauses are the client's work between the requests of one action.
///
/// The sign is that one connection has both kinds of request, and that the number of pauses in a
/// row is constant. A person or a timer pauses before every request. A chatty action pauses only
/// before its first request.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

/// The pauses that were found.
struct Pauses {
    lengths: Vec<Duration>,
    /// The times at which the pauses ended.
    ends: Vec<Timestamp>,
    at_once: usize,
    /// The median number of pauses in a row.
    in_row: usize,
}

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match pauses(case).filter(|_| case.has_packets) {
            Some(pauses) => Conclusion::Claim(Box::new(claim(case, &pauses))),
            None => Conclusion::Nothing,
        }
    }
}

fn pauses(case: &Case<'_>) -> Option<Pauses> {
    let (mut lengths, mut ends) = (Vec::new(), Vec::new());
    let (mut all, mut at_once) = (0, 0);
    let mut rows: Vec<usize> = Vec::new();
    for sequence in sequences(case) {
        let mut row = 0;
        for pair in sequence.windows(2) {
            let (Some(before), Some(next)) = (pair.first(), pair.get(1)) else {
                continue;
            };
            let idle = idle(case, before, next);
            all += 1;
            if is_at_once(case, idle) {
                at_once += 1;
                rows.push(core::mem::take(&mut row));
            } else if (LEAST_THINK..=LONGEST).contains(&idle) {
                lengths.push(idle);
                ends.push(next.begin);
                row += 1;
            }
        }
    }
    let lengths = sorted(lengths.into_iter());
    let median = quantile(&lengths, 0.5);
    let is_alike =
        |pause: &&Duration| pause.abs_diff(median).as_secs_f64() <= median.as_secs_f64() * ALIKE;
    let alike = lengths.iter().filter(is_alike).count();
    rows.sort_unstable();
    let in_row = rows.get(rows.len() / 2).copied()?;
    let regular = rows.iter().filter(|&&row| row == in_row).count();
    let most = |part: usize, of: usize| part as f64 >= of as f64 * MOST;
    let is_rule = lengths.len() >= LEAST_PAUSES
        && at_once >= LEAST_AT_ONCE
        && in_row > 1
        && most(alike, lengths.len())
        && most(regular, rows.len())
        && most(lengths.len() + at_once, all)
        && at_once as f64 >= all as f64 * LEAST_SHARE;
    is_rule.then_some(Pauses {
        lengths,
        ends,
        at_once,
        in_row,
    })
}

fn claim(case: &Case<'_>, pauses: &Pauses) -> Claim {
    let mut claim = evidence::claim(Id::ClientThink, Owner::Client, case, &Tally::default());
    let weight = case.rhythm.weight;
    let sum: u64 = pauses.lengths.iter().map(|&pause| nanos(pause)).sum();
    let cost = (sum as f64 * weight).round() as u64;
    claim.time.cost_exactly(cost);
    claim.time.wall_ns = sum;
    claim.time.whole_ns = case.ledger.total().saturating_add(cost);
    claim.affected.exchanges = ((pauses.lengths.len() as f64) * weight).round() as u64;
    claim.time.predicted = None;
    let median = human(quantile(&pauses.lengths, 0.5));
    let text = format!(
        "{}, in runs of {}, left {median} (median) after the previous response, and {} immediately \
         after it; nothing was in flight in either direction in between",
        counted(pauses.lengths.len() as u64, "request", "requests"),
        pauses.in_row,
        pauses.at_once,
    );
    claim
        .evidence
        .push(Statement::shows(EvidenceKind::Wire, text).count(pauses.lengths.len() as u64));
    // Only the timing suggests that the requests belong together.
    claim.basis = Basis::new(pauses.lengths.len() as u64, true);
    claim.candidates = candidates::of_client(pauses.ends.clone());
    WORDING.tell(
        &mut claim,
        &[("pause", &median), ("in_row", &pauses.in_row)],
    );
    claim
}
