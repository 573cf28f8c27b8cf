//! Probes by TLS handshakes and HTTP requests. In a series of requests the first is on a fresh
//! connection and the others reuse it, and over TLS the last one is on another fresh one, which may
//! resume a session; or each is on its own.

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

/// The kind of probe, each on a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A TLS handshake. Every second one may resume the session of the one before; the others start
    /// without a session.
    Handshake,
    /// A complete response.
    Get,
    /// A response without its body.
    Head,
}

/// A series of handshakes or requests, each on a connection of its own.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    /// Target, number and patience of the probes.
    pub probe: ProbePlan,
    /// URL to request; a handshake needs its host only.
    pub url: Url,
    /// TLS peer, if the probes use TLS.
    pub peer: Option<TlsPeer>,
    /// Kind of probe.
    pub ask: Ask,
    /// Time to resolve the address, which counts for the first probe.
    pub resolved: Option<Duration>,
}

/// Requests `url` as often as `plan` says: first on a fresh connection, then on the same one as
/// long as the target keeps it.
///
/// A probe's round trip is from the request's `send` to the response's last byte, by this program's
/// time; a TLS handshake before it is a sample of its own. A connection that cannot be made gives
/// the answers of [`connect`](super::connect()). `peer` is the TLS peer, if the probes use TLS.
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

/// Probes as `plan` says; each sample holds its phases. A handshake's round trip is its own,
/// without TCP's; a request's is from its `send` to the response's last byte.
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
