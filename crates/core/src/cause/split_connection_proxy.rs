//! The rule of the cause `split-connection-proxy`.

use super::evidence::{self, human, median};
use super::sequence::round_trip;
use super::upstream::{Pair, Upstream, UpstreamRole, claimed};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The connection ends at a proxy {near} away, which connects to {behind}, {far} away: \
              the apparent think time is the path behind the proxy, {saved} (median), {share} of \
              all request time. The client's handshakes do not show this path.",
    ruled_out: &[(
        Id::ServerThink,
        "{behind} answered within the round trip to it",
    )],
    overturned_by: "the proxy's log showing that its calls to {behind} are not made for these \
        requests",
    fix: &[
        (
            "path",
            "a server nearer to the proxy, or answers cached in the proxy",
        ),
        (
            "measurement",
            "take the round trip from the leg behind the proxy, not from the handshake",
        ),
    ],
};

/// Watches proxies near the client whose think time is the round trip to their upstream.
///
/// The sign is that the capture contains the requests to the upstream. Their handshakes and
/// responses take as long as the proxy thinks, and the upstream itself does not think. If the
/// capture contains only the client's side, the cause is `server-think`.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match claimed(case, &[UpstreamRole::IsFar]) {
            Some((upstream, _, tally)) => Conclusion::Claim(Box::new(claim(case, upstream, tally))),
            None => Conclusion::Nothing,
        }
    }
}

fn claim(case: &Case<'_>, upstream: &Upstream, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::SplitConnectionProxy, Owner::Proxy, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    // Without the proxy, the distance would be the same.
    claim.time.cost.low = 0;
    claim.time.predicted = None;
    let behind = upstream.endpoint;
    let (near, far) = (
        human(round_trip(case)),
        human(upstream.median(Pair::travel)),
    );
    let text = format!(
        "{} followed to {behind}: network transit takes {far} (median) between proxy and {behind}, \
         and {near} between client and proxy",
        counted(upstream.pairs.len() as u64, "request was", "requests were"),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(tally.affected)
            .median(&tally.saved)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    claim.basis = Basis::new(tally.affected, false);
    WORDING.tell(
        &mut claim,
        &[
            ("near", &near),
            ("behind", &behind),
            ("far", &far),
            ("saved", &median(&tally.saved)),
        ],
    );
    claim
}
