//! Probes by HTTP requests: one on a fresh connection, the others on it too;
//! over TLS the last one is on another fresh one, which may resume a session.

mod wire;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use lagtrace_core::event::{Event, EventBody, Phase, ProbeAnswer, ProbeMethod, ProbeSample};
use lagtrace_core::time::Timestamp;

use super::connect::open;
use super::{ProbeError, ProbePlan, Probed, STOP_INTERVAL, note, series};
use crate::clock::Clock;
use crate::http::{Progress, ResponseReader};
use crate::tls::{TlsFault, TlsPeer};
use crate::url::Url;
use wire::Wire;

/// Bytes of a strange answer that are kept to say what it was.
const KEPT_LEN: usize = 256;
/// Bytes of a strange answer that are printed.
const SHOWN_LEN: usize = 60;

/// Asks for `url` as often as `plan` says: first on a fresh connection, then
/// on the same one as long as the target keeps it.
///
/// A probe's round trip is from the request's `send` to the response's last
/// byte, by this program's time; a TLS handshake before it is a sample of its
/// own. A connection that cannot be made gives the answers of
/// [`connect`](super::connect()). `peer` is whom to speak TLS with, if at all.
pub fn http(
    plan: &ProbePlan,
    url: &Url,
    peer: Option<&TlsPeer>,
    stop: &AtomicBool,
    mut sink: impl FnMut(Event),
) -> Result<Vec<ProbeSample>, ProbeError> {
    let mut client = Client {
        plan,
        url,
        peer,
        clock: Clock::new(),
        stop,
        wire: None,
        strange: None,
        fault: None,
        handshakes: Vec::new(),
        left: plan.count,
    };
    let mut samples = series(plan, stop, &mut sink, || client.probe())?;
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
        let (id, text) = describe(plan, &bytes);
        sink(note(at, id, text));
    }
    Ok(samples)
}

struct Client<'a> {
    plan: &'a ProbePlan,
    url: &'a Url,
    peer: Option<&'a TlsPeer>,
    clock: Clock,
    stop: &'a AtomicBool,
    /// The connection, when it may carry another request.
    wire: Option<Wire>,
    /// The first answer that was not what it should be.
    strange: Option<(Timestamp, Vec<u8>)>,
    /// The first thing that went wrong within TLS.
    fault: Option<(Timestamp, TlsFault)>,
    handshakes: Vec<Probed>,
    /// Requests to come.
    left: u32,
}

/// How an exchange went.
struct Answered {
    answer: ProbeAnswer,
    is_reusable: bool,
    /// The beginning of what came.
    bytes: Vec<u8>,
}

impl Client<'_> {
    fn probe(&mut self) -> Result<Probed, ProbeError> {
        self.left = self.left.saturating_sub(1);
        if self.peer.is_some() && self.left == 0 {
            self.wire = None;
        }
        let (mut wire, method, syn_retransmissions) = match self.wire.take() {
            Some(wire) => (wire, ProbeMethod::HttpKeptAlive, 0),
            None => {
                let attempt = open(self.plan.address, self.plan.timeout, &self.clock, self.stop)?;
                let repeated = attempt.syn_retransmissions;
                let Some(socket) = attempt.socket else {
                    let mut sample = self.plan.sample(ProbeMethod::HttpFresh, attempt.answer);
                    sample.syn_retransmissions = repeated;
                    return Ok((sample, attempt.ended));
                };
                match self.secure(Wire::plain(socket.into(), self.plan.timeout)) {
                    Ok(wire) => (wire, ProbeMethod::HttpFresh, repeated),
                    Err(answer) => {
                        let sample = self.plan.sample(ProbeMethod::HttpFresh, answer);
                        return Ok((sample, self.clock.now()));
                    }
                }
            }
        };
        let sent = self.clock.now();
        let answered = self.ask(&mut wire, sent + self.plan.timeout);
        let ended = self.clock.now();
        let mut sample = self.plan.sample(method, answered.answer);
        sample.syn_retransmissions = syn_retransmissions;
        if answered.answer != ProbeAnswer::Silence {
            sample.rtt = Some(ended.since(sent));
        }
        let is_strange = matches!(
            answered.answer,
            ProbeAnswer::NotHttp | ProbeAnswer::Status(400)
        );
        if is_strange && self.strange.is_none() {
            self.strange = Some((ended, answered.bytes));
        }
        self.wire = answered.is_reusable.then_some(wire);
        Ok((sample, ended))
    }

    /// Makes the wire one of TLS, if that is asked for.
    fn secure(&mut self, wire: Wire) -> Result<Wire, ProbeAnswer> {
        let Some(peer) = self.peer else {
            return Ok(wire);
        };
        let begun = self.clock.now();
        let deadline = begun + self.plan.timeout;
        let is_over = || self.clock.now() >= deadline || self.stop.load(Ordering::Relaxed);
        let secured = wire.secure(peer, begun, is_over);
        let ended = self.clock.now();
        match secured {
            Ok((wire, is_resumed)) => {
                let method = match is_resumed {
                    true => ProbeMethod::TlsResumed,
                    false => ProbeMethod::TlsFull,
                };
                let mut sample = self.plan.sample(method, ProbeAnswer::Secured);
                sample.rtt = Some(ended.since(begun));
                self.handshakes.push((sample, ended));
                Ok(wire)
            }
            Err(_) if self.stop.load(Ordering::Relaxed) => Err(ProbeAnswer::Silence),
            Err(fault) => {
                let answer = fault.answer();
                self.fault.get_or_insert((ended, fault));
                Err(answer)
            }
        }
    }

    /// Sends one request and reads its response.
    fn ask(&self, wire: &mut Wire, deadline: Timestamp) -> Answered {
        let mut answered = Answered {
            answer: ProbeAnswer::Closed,
            is_reusable: false,
            bytes: Vec::new(),
        };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: lagtrace/{}\r\nAccept: */*\r\n\r\n",
            self.url.path(),
            self.url.authority(),
            env!("CARGO_PKG_VERSION"),
        );
        wire.send(request.as_bytes());
        let mut reader = ResponseReader::new(false);
        let mut buffer = [0; 16 * 1024];
        loop {
            let len = match self.read(wire, &mut buffer, deadline) {
                Ok(Some(len)) => len,
                Ok(None) => {
                    answered.answer = ProbeAnswer::Silence;
                    return answered;
                }
                Err(_) => return answered,
            };
            let bytes = buffer.get(..len).unwrap_or_default();
            let room = KEPT_LEN.saturating_sub(answered.bytes.len());
            answered.bytes.extend(bytes.iter().take(room));
            let outcome = if len == 0 {
                reader.close().map(|head| head.map(|head| (head, false)))
            } else {
                reader.feed(bytes).map(|progress| match progress {
                    Progress::More => None,
                    Progress::Complete { head, used } => Some((head, used == len)),
                })
            };
            match outcome {
                Err(_) => {
                    answered.answer = ProbeAnswer::NotHttp;
                    return answered;
                }
                Ok(Some((head, is_clean))) => {
                    answered.answer = ProbeAnswer::Status(head.status);
                    answered.is_reusable = head.keeps_alive && is_clean;
                    return answered;
                }
                Ok(None) if len == 0 => return answered,
                Ok(None) => {}
            }
        }
    }

    /// Reads what is there, 0 at the end; `None` when nothing came in time.
    fn read(
        &self,
        wire: &mut Wire,
        buffer: &mut [u8],
        deadline: Timestamp,
    ) -> io::Result<Option<usize>> {
        loop {
            let left = deadline.since(self.clock.now()).min(STOP_INTERVAL);
            if left.is_zero() || self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            wire.wait_at_most(left)?;
            match wire.read(buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if wire::is_wait(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a strange answer means.
fn describe(plan: &ProbePlan, bytes: &[u8]) -> (&'static str, String) {
    let address = plan.address;
    if is_tls_record(bytes) {
        let text = format!(
            "{address} answered a plain request with a TLS record: it speaks TLS there, and plain \
             HTTP on another port if at all."
        );
        return ("tls-on-plain-port", text);
    }
    if says_tls_port(bytes) {
        let text = format!(
            "{address} said that a plain HTTP request was sent to an HTTPS port: it speaks TLS \
             there, and plain HTTP on another port if at all."
        );
        return ("tls-on-plain-port", text);
    }
    let shown = bytes.get(..SHOWN_LEN).unwrap_or(bytes).escape_ascii();
    if bytes.starts_with(b"HTTP/1.") {
        let text = format!("{address} calls the request bad or breaks off: `{shown}`.");
        return ("http-bad-request", text);
    }
    let text = format!("{address} answered with no HTTP: `{shown}`.");
    ("not-http-answer", text)
}

/// A TLS alert or handshake record (RFC 8446 §5.1): type, version 3.x, length.
fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 3, 0..=4, ..])
}

/// What well-known servers say to a plain request on a TLS port, in a 400.
fn says_tls_port(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    [
        "plain http request was sent to https port",
        "speaking plain http to an ssl-enabled server port",
        "client sent an http request to an https server",
    ]
    .iter()
    .any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lagtrace_core::event::TargetId;

    #[test]
    fn strange_answers_are_named() {
        let plan = ProbePlan::new(TargetId::Subject, ([127, 0, 0, 1], 443).into());
        for (bytes, id) in [
            (&b"\x15\x03\x01\x00\x02\x02\x46"[..], "tls-on-plain-port"),
            (b"\x16\x03\x03\x00\x7a", "tls-on-plain-port"),
            (
                b"HTTP/1.1 400 Bad Request\r\n\r\n<title>400 The plain HTTP request was sent to HTTPS port</title>",
                "tls-on-plain-port",
            ),
            (
                b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
                "tls-on-plain-port",
            ),
            (b"HTTP/1.1 400 Bad Request\r\n\r\nno", "http-bad-request"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "not-http-answer"),
            (b"\x15", "not-http-answer"),
        ] {
            let (got, text) = describe(&plan, bytes);
            assert_eq!(got, id, "{}", bytes.escape_ascii());
            assert!(text.contains("127.0.0.1:443"));
            assert!(text.is_ascii() && !text.contains('\r'));
        }
    }
}
