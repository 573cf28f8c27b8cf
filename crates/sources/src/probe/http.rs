//! Probes by TLS handshakes and HTTP requests. In a series of requests, the first one uses a new
//! connection and the others reuse it. With TLS, the last one uses another new connection, which
//! may resume a session. Alternatively, each request uses its own connection.

mod client;
mod strange;
mod wire;

use std::sync::atomic::AtomicBool;

use core::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase, ProbeSample};

use super::{ProbeError, ProbePlan, STOP_INTERVAL, note, series};
use crate::tls::TlsPeer;
use crate::url::Url;
use client::{Client, Manner};

/// The kind of a probe that uses its own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A TLS handshake. Every second handshake may resume the session of the one before it. The
    /// others start without a session.
    Handshake,
    /// A complete response.
    Get,
    /// A response without its body.
    Head,
}

/// A series of handshakes or requests, each on its own connection.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    /// Target, number and time limits of the probes.
    pub probe: ProbePlan,
    /// URL to request. A handshake needs only its host.
    pub url: Url,
    /// TLS peer, if the probes use TLS.
    pub peer: Option<TlsPeer>,
    /// Kind of probe.
    pub ask: Ask,
    /// Time that resolving the host name took. It is reported with the first probe.
    pub resolved: Option<Duration>,
}

/// Requests `url` as `plan` says: first on a new connection, then on the same connection as long as
/// the target keeps it open.
///
/// lagtrace itself measures a probe's round trip, from the `send` of the request to the last byte
/// of the response. A TLS handshake before it is a separate sample. If a connection cannot be
/// opened, the answers are those of [`connect`](super::connect()). `peer` is the TLS peer, if the
/// probes use TLS.
pub fn http(
    plan: &ProbePlan,
    url: &Url,
    peer: Option<&TlsPeer>,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    let client = Client::new(plan, url, peer.cloned(), Manner::KeptAlive, stop);
    run(client, &mut sink)
}

/// Sends probes as `plan` says, and records the phases of each. The round trip of a handshake does
/// not include the TCP handshake. The round trip of a request lasts from its `send` to the last
/// byte of the response.
pub fn request(
    plan: &RequestPlan,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<(), ProbeError> {
    let peer = plan.peer.clone();
    let manner = Manner::Each(plan.ask, plan.resolved);
    let client = Client::new(&plan.probe, &plan.url, peer, manner, stop);
    run(client, &mut sink).map(drop)
}

fn run(
    mut client: Client<'_>,
    sink: &mut dyn FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    let (plan, stop) = (client.plan, client.stop);
    let mut samples = series(plan, stop, sink, || client.probe())?;
    for (sample, at) in client.handshakes.drain(..) {
        let body = EventBody::Probe(sample.clone());
        sink(Event::here(at, Phase::Baseline, body));
        samples.push(sample);
    }
    if let Some((at, fault)) = client.fault {
        sink(note(
            at,
            "tls-failed",
            format!("TLS failed: {}.", fault.text),
        ));
    }
    if let Some((at, bytes)) = client.strange {
        let (id, text) = strange::describe(plan, &bytes);
        sink(note(at, id, text));
    }
    Ok(samples)
}
