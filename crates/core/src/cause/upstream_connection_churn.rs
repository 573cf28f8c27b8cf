//! The rule of the cause `upstream-connection-churn`.

use super::behind::{self, CallDelay, DelayReason};
use super::evidence::{self, human, median};
use super::served::KernelCalls;
use super::upstream::{Upstream, UpstreamRole, claimed};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The proxy opens a new connection to {behind} for every request, and {behind} accepts \
              connections more slowly than it serves requests: they wait {saved} (median), {share} \
              of all request time. To clients this looks like think time.",
    ruled_out: &[(
        Id::DownstreamWait,
        "the upstream answers immediately if a connection does not wait for others",
    )],
    overturned_by: "the same waits on upstream connections that are kept alive: then its work is slow",
    fix: &[
        (
            "proxy",
            "keep upstream connections: `keepalive 32;` in the upstream block, proxy_http_version 1.1 and proxy_set_header Connection \"\" (nginx); http-reuse always (haproxy)",
        ),
        (
            "{behind}",
            "accept in more processes or threads; no process per connection",
        ),
    ],
};

/// The wording if connecting itself takes the time.
const CONNECTING: Wording = Wording {
    summary: "The server opens a new connection to {behind} for its requests, and connecting takes \
              {took} (median) of each wait, {share} of all request time. To clients this looks like \
              think time.",
    ruled_out: &[(
        Id::DownstreamWait,
        "the time passes before the server has sent its own request",
    )],
    overturned_by: "the server's log showing that it keeps its connections to {behind}",
    fix: &[(
        "server",
        "keep connections to {behind} open and use them again: a pool of connections, a keep-alive \
         agent, as many idle connections as requests at a time",
    )],
};

/// The wording if only the server's own kernel saw the connections.
const WATCHED: Wording = Wording {
    summary: " in round trips to {behind} over connections that were made for these requests: {trips} for \
              each connection (mean), {way} each. A request needs one; the others set the connection up \
              (TCP, TLS, a login).",
    ruled_out: &[],
    ..CONNECTING
};

/// Watches proxies that open a new connection to their upstream for each request, if the upstream
/// is slower to accept connections than to answer requests.
///
/// Two signs must come together. Each upstream request is the first of its connection, while client
/// requests share theirs. And new connections are served one at a time at even intervals, although
/// a single connection is served immediately. If the upstream is just slow, the cause is
/// `downstream-wait`.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match claimed(case, &[UpstreamRole::IsConnectedAnew]) {
            Some((upstream, _, tally)) => Conclusion::Claim(Box::new(claim(case, upstream, tally))),
            None => behind::claimed(case, &[DelayReason::Connects])
                .map(|delay| connecting(case, delay))
                .or_else(|| watched(case))
                .into(),
        }
    }
}

/// Returns true if the calls of a request are mostly round trips that set up a connection made for it.
/// The socket's smallest round trip is the way then: it contains that of the SYN.
pub(super) fn are_setups(calls: &KernelCalls) -> bool {
    calls.contain_setups() && calls.may_be_far() && !calls.are_unanswered()
}

/// Returns the claim on connections that only the server's kernel saw.
fn watched(case: &Case<'_>) -> Option<Claim> {
    let calls = KernelCalls::of(case).filter(are_setups)?;
    let mut claim = calls.claim(Id::UpstreamConnectionChurn, case)?;
    // One round trip of each connection would remain, and so would what passes elsewhere.
    let setups = 1.0 - calls.connections / (calls.calls + calls.connections);
    claim.time.take_part(calls.share * setups);
    WATCHED.tell(
        &mut claim,
        &[
            ("behind", &calls.name()),
            (
                "trips",
                &format!("{:.0}", 1.0 + calls.calls / calls.connections),
            ),
            ("way", &human(calls.way)),
        ],
    );
    Some(claim)
}

fn connecting(case: &Case<'_>, delay: &CallDelay) -> Claim {
    let text = format!(
        "{} of the server contain the setup of a new connection to {}, TLS and login included: {} (median)",
        counted(delay.tally.affected, "wait", "waits"),
        delay.behind,
        human(delay.each),
    );
    let mut claim = delay.claim(Id::UpstreamConnectionChurn, case, text);
    let took = median(&delay.tally.saved);
    CONNECTING.tell(&mut claim, &[("behind", &delay.behind), ("took", &took)]);
    claim
}

fn claim(case: &Case<'_>, upstream: &Upstream, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::UpstreamConnectionChurn, Owner::Proxy, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let behind = upstream.endpoint;
    let text = format!(
        "{} to {behind} used separate connections, while the client's requests to the proxy shared \
         theirs",
        counted(upstream.pairs.len() as u64, "request", "requests"),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(tally.affected)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    if let Some(gate) = &upstream.gate {
        let text = format!(
            "{behind} serves queued connections one every {}, but needs only {} for a connection \
             that does not queue",
            human(gate.turn),
            human(gate.quickest),
        );
        claim
            .evidence
            .push(Statement::shows(EvidenceKind::Wire, text));
    }
    claim.basis = Basis::new(tally.affected, false);
    WORDING.tell(
        &mut claim,
        &[("behind", &behind), ("saved", &median(&tally.saved))],
    );
    claim
}
