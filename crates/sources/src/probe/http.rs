//! Probes by TLS handshakes and HTTP requests, over TCP or a Unix socket. In a series of requests, the first one uses a new
//! connection and the others reuse it. With TLS, the last one uses another new connection, which
//! may resume a session. Alternatively, each request uses its own connection.

mod client;
mod strange;
mod streams;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use core::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase, ProbeSample};

use super::{ProbeError, ProbePlan, STOP_INTERVAL, note, series};
use crate::request::Request;
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
    Request,
}

/// What probes request, and how.
#[derive(Clone, Debug)]
pub struct Asked {
    /// URL to request. A handshake needs only its host.
    pub url: Url,
    /// The request.
    pub request: Request,
    /// TLS peer, if the probes use TLS.
    pub peer: Option<TlsPeer>,
    /// True for HTTP/2, with prior knowledge or negotiated within TLS (ALPN).
    pub is_http2: bool,
    /// Unix socket to connect to, instead of the probes' address.
    pub unix: Option<PathBuf>,
}

/// A series of handshakes or requests, each on its own connection.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    /// Target, number and time limits of the probes.
    pub probe: ProbePlan,
    /// What they request.
    pub asked: Asked,
    /// Kind of probe.
    pub ask: Ask,
    /// Time that resolving the host name took. It is reported with the first probe.
    pub resolved: Option<Duration>,
}

/// The results of a series of requests.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The samples, in order; those of handshakes come last.
    pub samples: Vec<ProbeSample>,
    /// The place that the first redirect names (`Location`). It is known only with HTTP/1.1.
    pub location: Option<String>,
}

/// Makes requests as `plan` says: first on a new connection, then on the same connection as long as
/// the target keeps it open.
///
/// lagtrace itself measures a probe's round trip, from the `send` of the request to the last byte
/// of the response. A TLS handshake before it is a separate sample. If a connection cannot be
/// opened, the answers are those of [`connect`](super::connect()).
pub fn http(
    plan: &ProbePlan,
    asked: &Asked,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<Answers, ProbeError> {
    let client = Client::new(plan, asked, Manner::KeptAlive, stop);
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
    let manner = Manner::Each(plan.ask, plan.resolved);
    let client = Client::new(&plan.probe, &plan.asked, manner, stop);
    run(client, &mut sink).map(drop)
}

fn run(mut client: Client<'_>, sink: &mut dyn FnMut(Event)) -> Result<Answers, ProbeError> {
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
    Ok(Answers {
        samples,
        location: client.location,
    })
}
