//! The rule of the cause `proxy-buffering`.

use super::evidence::{self, human, median};
use super::upstream::{Upstream, UpstreamRole, claimed};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{behind} has begun to answer, but the proxy holds the answer back for {saved} \
              (median): its client gets nothing of the streamed response in that time.",
    ruled_out: &[(Id::DownstreamWait, "the upstream's answer was there")],
    overturned_by: "a proxy that must not forward it sooner, because it checks or signs the whole \
                    message",
    fix: &[
        (
            "proxy",
            "proxy_buffering off, or `X-Accel-Buffering: no` from the upstream (nginx)",
        ),
        (
            "proxy",
            "no gzip for streamed types (gzip_types), or a compressor that flushes",
        ),
    ],
};

/// The wording for a proxy that receives the whole request before it forwards it.
const UPLOAD: Wording = Wording {
    summary: "The proxy receives the whole request, which takes {upload} (median), before it sends \
        the request to {behind}. The two steps could have overlapped for {saved} (median).",
    ruled_out: &[(
        Id::DownstreamWait,
        "the upstream got nothing while the request was still arriving",
    )],
    fix: &[(
        "proxy",
        "proxy_request_buffering off (nginx), for uploads whose upstream can read as they come",
    )],
    ..WORDING
};

/// Watches proxies that receive a whole upload before they forward it, or that hold back a response
/// that their upstream has begun.
///
/// The sign is that the capture contains both sides of the proxy. Either the proxy's own request
/// begins only at the end of the client's long request, or the upstream's response begins long
/// before the proxy's.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match claimed(case, &[UpstreamRole::IsAskedLate, UpstreamRole::IsHeldBack]) {
            Some((upstream, role, tally)) => {
                let is_upload = role == UpstreamRole::IsAskedLate;
                Conclusion::Claim(Box::new(claim(case, upstream, tally, is_upload)))
            }
            None => Conclusion::Nothing,
        }
    }
}

fn claim(case: &Case<'_>, upstream: &Upstream, tally: &Tally, is_upload: bool) -> Claim {
    let mut claim = evidence::claim(Id::ProxyBuffering, Owner::Proxy, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    if !is_upload {
        // Without buffering, only the first byte would arrive sooner, and not the last.
        claim.time.cost.low = 0;
        claim.time.predicted = None;
    }
    let behind = upstream.endpoint;
    let upload = human(upstream.median(|pair| pair.front.sent.since(pair.front.begin)));
    let shown = if is_upload {
        format!(
            "{} to {behind} began only after the client's request to the proxy was complete, which \
             took {upload} (median)",
            counted(upstream.pairs.len() as u64, "request", "requests"),
        )
    } else {
        format!(
            "{} of {behind} had begun {} (median) before the proxy's answer to its client did",
            counted(upstream.pairs.len() as u64, "answer", "answers"),
            median(&tally.saved),
        )
    };
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, shown)
            .count(tally.affected)
            .median(&tally.saved)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    claim.basis = Basis::new(tally.affected, false);
    let wording = if is_upload { &UPLOAD } else { &WORDING };
    wording.tell(
        &mut claim,
        &[
            ("behind", &behind),
            ("upload", &upload),
            ("saved", &median(&tally.saved)),
        ],
    );
    claim
}
