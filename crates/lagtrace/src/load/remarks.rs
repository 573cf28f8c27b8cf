//! Remarks needed to interpret the results of a load.

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::registry::Id;
use lagtrace_sources::load::{Ending, LaneSummary, Plan, Summary};

use crate::interrupt::Interrupt;
use crate::request;
use crate::request::help::{self, is_success};
use crate::tls;

/// The stable name of the note on a load none of whose connections succeeded.
const NOTHING_CONNECTED: &str = "nothing-connected";

/// A note's stable name and its text.
type Remark = (&'static str, String);

/// Returns the remarks that apply, with a fault before its consequences.
pub(super) fn remarks(
    plan: &Plan,
    summary: &Summary,
    is_failing: bool,
    interrupt: &Interrupt,
) -> Vec<Remark> {
    let is_interrupted = interrupt.is_requested() && !is_failing;
    let tls_fault = summary.tls_fault.as_ref();
    let of_tls = tls_fault.map(|fault| (Id::TlsFailed.as_str(), tls::sentence(fault)));
    [
        of_tls,
        no_http2(plan, summary),
        nothing_connected(summary),
        is_failing.then(broken_off),
        is_interrupted.then(interrupted),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns what to do about the most frequent status that is no success.
pub(super) fn status_help(summary: &Summary, options: &request::Options) -> Option<String> {
    let statuses = summary.lanes.iter().flat_map(|lane| &lane.statuses);
    let others = statuses.filter(|(status, _)| !is_success(*status, &[]));
    let (status, _) = others.max_by_key(|(_, count)| *count)?;
    if options.answer.expect_status.is_empty() {
        help::with(*status, None, options)
    } else {
        None
    }
}

/// Returns a remark if the server may have treated HTTP/2 requests as HTTP/1.
fn no_http2(plan: &Plan, summary: &Summary) -> Option<Remark> {
    let is_clear = plan.protocol.http2 && plan.lanes.iter().all(|lane| !lane.target.url.is_tls());
    let is_strange = |lane: &LaneSummary| {
        let is_meant = |failure| {
            matches!(
                failure,
                RequestFailure::NotHttp | RequestFailure::Closed | RequestFailure::Reset
            )
        };
        lane.responses() == 0 && lane.failures.iter().any(|&(failure, _)| is_meant(failure))
    };
    (is_clear && summary.lanes.iter().any(is_strange)).then(|| {
        let text = "No response was HTTP/2: the server may not support it in clear text (most \
                    support it only over TLS). Leave out --http2, or use https://.";
        ("not-http2", text.to_owned())
    })
}

fn nothing_connected(summary: &Summary) -> Option<Remark> {
    let text = match summary.ending {
        Ending::NothingConnected(failure) => format!(
            "No connection succeeded ({}), so the load ended early.",
            failure.name()
        ),
        _ if summary.opened > 0 || summary.lanes.iter().all(|lane| lane.failed() == 0) => {
            return None;
        }
        _ => "No connection succeeded before the load ended.".to_owned(),
    };
    Some((NOTHING_CONNECTED, text))
}

fn broken_off() -> Remark {
    let text = "Aborted, because most requests failed and more of them would only do harm. \
                --keep-going continues anyway.";
    ("load-broken-off", text.to_owned())
}

fn interrupted() -> Remark {
    let text = "Interrupted: the figures cover the time until then.";
    ("interrupted", text.to_owned())
}
