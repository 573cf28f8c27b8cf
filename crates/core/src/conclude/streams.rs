//! Remarks on HTTP/2 streams: requests that the capture does not show, and requests that may have
//! waited for a stream before they were sent.

use super::Observations;
use crate::cause::evidence::REPEATS;
use crate::observed::flow::Endpoint;
use crate::report::{Remark, counted};
use crate::service::Ledger;

/// Minimum share of requests that may have waited for a stream for a remark.
const SHARE: f64 = 0.05;

pub(super) fn remarks(endpoint: Endpoint, ledger: &Ledger) -> Vec<Remark> {
    [unread(endpoint, ledger), at_limit(endpoint, ledger)]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the remark on requests whose streams TLS hides. A load's own requests are timed one by one.
pub(super) fn hidden(evidence: &Observations) -> Option<Remark> {
    let services = evidence.services.iter();
    let mut services: Vec<(u64, u64, Endpoint)> = services
        .map(|(&endpoint, service)| {
            let ledger = &service.ledger;
            (ledger.doubtful.hidden_streams, ledger.uncut(), endpoint)
        })
        .filter(|(hidden, ..)| *hidden > 0)
        .collect();
    services.sort_by_key(|&(hidden, _, endpoint)| (core::cmp::Reverse(hidden), endpoint));
    let sum = |of: fn(&(u64, u64, Endpoint)) -> u64| services.iter().map(of).sum::<u64>();
    let (.., first) = services
        .first()
        .filter(|_| evidence.facts.loads.phases.is_empty())?;
    let others = match services.len() as u64 - 1 {
        0 => String::new(),
        others => format!(
            " and {}",
            counted(others, "other service", "other services")
        ),
    };
    Some(Remark {
        id: "http2-hidden".to_owned(),
        text: format!(
            "{} of {} to {first}{others} used HTTP/2 within TLS, which hides the streams. What one side sends until \
             the other's turn counts as one request there, so number and times are not those of single \
             requests.",
            sum(|service| service.0),
            counted(sum(|service| service.1), "request", "requests"),
        ),
    })
}

fn unread(endpoint: Endpoint, ledger: &Ledger) -> Option<Remark> {
    let unread = ledger.counts.streams.unread;
    (unread > 0).then(|| Remark {
        id: "http2-unread".to_owned(),
        text: format!(
            "{endpoint}: at least {} not read, because the capture lacks parts of HTTP/2 frames, as with a \
             small snap length; their streams' numbers show that they were sent. Capture whole \
             packets (tcpdump -s 0).",
            counted(unread, "request was", "requests were"),
        ),
    })
}

/// Packets show when a request was sent, and not for how long its client had it ready. A client
/// that sends just as many at a time looks the same.
fn at_limit(endpoint: Endpoint, ledger: &Ledger) -> Option<Remark> {
    let (at_limit, all) = (
        ledger.counts.streams.at_limit,
        ledger.uncut() + ledger.counts.cut,
    );
    let limit = ledger.counts.streams.limit?;
    (at_limit >= REPEATS && at_limit as f64 >= all as f64 * SHARE).then(|| Remark {
        id: "http2-stream-limit".to_owned(),
        text: format!(
            "{endpoint}: {at_limit} of {} left right after another stream had ended, with {limit} \
             streams open, as many as the server allows (SETTINGS_MAX_CONCURRENT_STREAMS). They may \
             have waited for a stream in the client before they were sent, unless the client never \
             sends more than {limit} at a time. That wait is not part of the times above.",
            counted(all, "request", "requests"),
        ),
    })
}
