//! The client for a series of HTTP probes: connection, TLS handshake, request, response.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use core::time::Duration;

use lagtrace_core::observed::event::{
    ProbeAnswer, ProbeMethod, ProbePhases, ProbeSample, ProbeTls,
};
use lagtrace_core::observed::time::Timestamp;
use rustix::io::Errno;

use super::wire::{self, Handshake, Wire};
use super::{Ask, Asked, STOP_INTERVAL};
use crate::clock::Clock;
use crate::http::{Progress, ResponseReader};
use crate::http2::{Encoded, Session};
use crate::probe::connect::open;
use crate::probe::{ProbeError, ProbePlan, Probed, is_cut};
use crate::request::Method;
use crate::tls::{TlsFault, TlsPeer};
use crate::unix::unix_socket;

/// Number of bytes that are kept of an unexpected answer, to identify it.
const KEPT_LEN: usize = 256;
/// Maximum wait for a server's session tickets, in addition to the round trip. In TLS 1.3, tickets
/// follow the handshake (RFC 8446 §4.6.1).
const TICKETS: Duration = Duration::from_millis(20);
/// TLS 1.3. In earlier versions, tickets are part of the handshake.
const TLS_1_3: u16 = 0x0304;

/// The use of connections by successive probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// All requests use one connection, as long as the target keeps it open.
    KeptAlive,
    /// Each probe uses its own connection. Contains the duration of the host name's resolution,
    /// which is reported with the first probe.
    Each(Ask, Option<Duration>),
}

pub(super) struct Client<'a> {
    pub(super) plan: &'a ProbePlan,
    pub(super) stop: &'a AtomicBool,
    asked: &'a Asked,
    peer: Option<TlsPeer>,
    manner: Manner,
    pub(super) clock: Clock,
    /// The connection, if it can carry another request.
    wire: Option<Spoken>,
    /// The place that the first redirect names.
    pub(super) location: Option<String>,
    /// The first unexpected answer.
    pub(super) strange: Option<(Timestamp, Vec<u8>)>,
    /// The first failure in TLS.
    pub(super) fault: Option<(Timestamp, TlsFault)>,
    /// Samples of handshakes. Requests on the same connections have samples of their own.
    pub(super) handshakes: Vec<Probed>,
    /// Number of probes that were started.
    begun: u32,
    /// Phases of the current probe so far.
    phases: ProbePhases,
}

/// The result of a request.
pub(super) struct Answered {
    pub(super) answer: ProbeAnswer,
    pub(super) is_reusable: bool,
    /// First bytes of the answer.
    bytes: Vec<u8>,
    /// Time at which the first byte arrived.
    pub(super) first: Option<Timestamp>,
    /// The value of `Location`.
    location: Option<String>,
}

impl Answered {
    /// Returns the result if the connection ends now.
    pub(super) fn nothing() -> Self {
        Self {
            answer: ProbeAnswer::Closed,
            is_reusable: false,
            bytes: Vec::new(),
            first: None,
            location: None,
        }
    }

    /// Returns the result if the time allowed ends now.
    pub(super) fn cut(self) -> Self {
        let answer = match self.first {
            Some(_) => ProbeAnswer::Unfinished,
            None => ProbeAnswer::Silence,
        };
        Self { answer, ..self }
    }
}

/// A connection, and what was said on it.
struct Spoken {
    wire: Wire,
    /// The state of HTTP/2, if it is used.
    session: Option<Box<Session>>,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        plan: &'a ProbePlan,
        asked: &'a Asked,
        manner: Manner,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            plan,
            stop,
            asked,
            peer: asked.peer.clone(),
            manner,
            clock: Clock::new(),
            wire: None,
            location: None,
            strange: None,
            fault: None,
            handshakes: Vec::new(),
            begun: 0,
            phases: ProbePhases::default(),
        }
    }

    pub(super) fn probe(&mut self) -> Result<Probed, ProbeError> {
        self.begin();
        let (mut sample, at) = self.make()?;
        if let Manner::Each(..) = self.manner {
            self.handshakes.clear();
            sample.phases = Some(Box::new(std::mem::take(&mut self.phases)));
        }
        Ok((sample, at))
    }

    /// Clears the state that belongs to the previous probe.
    fn begin(&mut self) {
        let number = self.begun;
        self.begun = number.saturating_add(1);
        let is_anew = match self.manner {
            // With TLS, the last probe uses a new connection, to show whether the session is
            // resumed.
            Manner::KeptAlive => {
                if self.peer.is_some() && self.begun == self.plan.count {
                    self.wire = None;
                }
                return;
            }
            Manner::Each(Ask::Handshake, _) => number.is_multiple_of(2),
            Manner::Each(..) => true,
        };
        self.wire = None;
        if let Some(peer) = self.peer.as_mut().filter(|_| is_anew) {
            *peer = peer.anew();
        }
        let resolve = match self.manner {
            Manner::Each(_, resolved) if number == 0 => resolved,
            _ => None,
        };
        self.phases = ProbePhases {
            resolve,
            ..ProbePhases::default()
        };
    }

    fn make(&mut self) -> Result<Probed, ProbeError> {
        let (mut spoken, method, syn_retransmissions) = match self.wire.take() {
            Some(spoken) => (spoken, ProbeMethod::HttpKeptAlive, 0),
            None => match self.connect()? {
                Ok((wire, repeated)) => (self.begin_on(wire), ProbeMethod::HttpFresh, repeated),
                Err(probed) => return Ok(probed),
            },
        };
        if matches!(self.manner, Manner::Each(Ask::Handshake, _))
            && let Some(made) = self.handshakes.pop()
        {
            self.take_tickets(&mut spoken.wire);
            return Ok(made);
        }
        let sent = self.clock.now();
        let deadline = sent + self.plan.timeout;
        let Spoken { wire, session } = &mut spoken;
        let answered = match session {
            Some(session) => self.ask_by_stream(wire, session, deadline),
            None => self.ask(wire, deadline),
        };
        let ended = self.clock.now();
        let mut sample = self.plan.sample(method, answered.answer);
        sample.syn_retransmissions = syn_retransmissions;
        let is_over = !is_cut(answered.answer);
        sample.rtt = is_over.then(|| ended.since(sent));
        self.phases.first_byte = answered.first.map(|first| first.since(sent));
        let first = answered.first.filter(|_| is_over);
        self.phases.transfer = first.map(|first| ended.since(first));
        let is_strange = matches!(
            answered.answer,
            ProbeAnswer::NotHttp | ProbeAnswer::Status(400)
        );
        if is_strange && self.strange.is_none() {
            self.strange = Some((ended, answered.bytes));
        }
        self.location = self.location.take().or(answered.location);
        self.wire = answered.is_reusable.then_some(spoken);
        Ok((sample, ended))
    }

    /// Opens a new connection, and returns it with the number of SYN retransmissions. If this
    /// fails, returns the sample of the failure.
    fn connect(&mut self) -> Result<Result<(Wire, u8), Probed>, ProbeError> {
        if let Some(path) = &self.asked.unix {
            return Ok(self.connect_unix(path));
        }
        let begun = self.clock.now();
        let attempt = open(self.plan.address, self.plan.timeout, &self.clock, self.stop)?;
        let repeated = attempt.syn_retransmissions;
        let failed = |answer| ProbeSample {
            syn_retransmissions: repeated,
            ..self.plan.sample(self.method_of_failures(), answer)
        };
        let Some(socket) = attempt.socket else {
            return Ok(Err((failed(attempt.answer), attempt.ended)));
        };
        self.phases.connect = Some(attempt.ended.since(begun));
        let secured = self.secure(Wire::plain(socket.into(), self.plan.timeout));
        Ok(match secured {
            Ok(wire) => Ok((wire, repeated)),
            Err(answer) => {
                let sample = self.plan.sample(self.method_of_failures(), answer);
                Err((sample, self.clock.now()))
            }
        })
    }

    /// Connects to a Unix socket, which is possible at once or not at all.
    fn connect_unix(&mut self, path: &Path) -> Result<(Wire, u8), Probed> {
        let begun = self.clock.now();
        let connected = unix_socket(path);
        self.phases.connect = Some(self.clock.now().since(begun));
        let failed = |answer| {
            let sample = self.plan.sample(self.method_of_failures(), answer);
            (sample, self.clock.now())
        };
        match connected {
            Ok(fd) => {
                let wire = Wire::plain(fd.into(), self.plan.timeout);
                self.secure(wire).map(|wire| (wire, 0)).map_err(|answer| {
                    let sample = self.plan.sample(self.method_of_failures(), answer);
                    (sample, self.clock.now())
                })
            }
            Err(Errno::AGAIN) => Err(failed(ProbeAnswer::Silence)),
            Err(_) => Err(failed(ProbeAnswer::Refused)),
        }
    }

    /// Returns the state of a new connection.
    fn begin_on(&self, wire: Wire) -> Spoken {
        let session = self.asked.is_http2.then(|| {
            let encoded = Encoded::of(&self.asked.request, &self.asked.url);
            Box::new(Session::new(Arc::from([encoded])))
        });
        Spoken { wire, session }
    }

    fn method_of_failures(&self) -> ProbeMethod {
        match self.manner {
            Manner::Each(Ask::Handshake, _) => ProbeMethod::TlsFull,
            _ => ProbeMethod::HttpFresh,
        }
    }

    /// Reads the session tickets that follow a handshake, if they arrive in time.
    fn take_tickets(&mut self, wire: &mut Wire) {
        let tls = self.phases.tls.as_ref();
        if tls.is_some_and(|tls| tls.version == TLS_1_3 && !tls.is_resumed) {
            let patience = TICKETS + self.phases.connect.unwrap_or_default();
            // Without tickets, the next handshake is a full one too.
            let _ = wire.wait_at_most(patience.min(STOP_INTERVAL));
            let _ = wire.read(&mut [0; 1]);
        }
    }

    /// Runs the TLS handshake on the connection, if TLS is in use.
    fn secure(&mut self, wire: Wire) -> Result<Wire, ProbeAnswer> {
        let Some(peer) = &self.peer else {
            return Ok(wire);
        };
        let begun = self.clock.now();
        let deadline = begun + self.plan.timeout;
        let is_over = || self.clock.now() >= deadline || self.stop.load(Ordering::Relaxed);
        let secured = wire.secure(peer, || self.clock.now(), is_over);
        let ended = self.clock.now();
        match secured {
            Ok((_, handshake)) if self.asked.is_http2 && !handshake.secured.is_http2 => {
                let fault = TlsFault::no_http2();
                let answer = fault.answer();
                self.fault.get_or_insert((ended, fault));
                Err(answer)
            }
            Ok((wire, handshake)) => {
                let method = if handshake.secured.is_resumed {
                    ProbeMethod::TlsResumed
                } else {
                    ProbeMethod::TlsFull
                };
                let mut sample = self.plan.sample(method, ProbeAnswer::Secured);
                sample.rtt = Some(ended.since(begun));
                self.handshakes.push((sample, ended));
                self.phases.handshake = Some(ended.since(begun));
                self.phases.hello = handshake.hello;
                self.phases.tls = Some(agreed(&handshake));
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
        let mut answered = Answered::nothing();
        wire.send(&self.asked.request.http1(&self.asked.url, false));
        let mut reader = ResponseReader::new(self.asked.request.method == Method::HEAD);
        reader.keep_field("location");
        let mut buffer = [0; 16 * 1024];
        loop {
            let len = match self.read(wire, &mut buffer, deadline) {
                Ok(Some(len)) => len,
                Ok(None) => return answered.cut(),
                Err(_) => return answered,
            };
            if len > 0 {
                answered.first.get_or_insert_with(|| self.clock.now());
            }
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
                    let is_redirect = matches!(head.status, 301..=303 | 307 | 308);
                    let location = reader.take_values().into_iter().next();
                    answered.location = location.filter(|_| is_redirect);
                    answered.is_reusable = head.keeps_alive && is_clean;
                    return answered;
                }
                Ok(None) if len == 0 => return answered,
                Ok(None) => {}
            }
        }
    }

    /// Reads bytes; 0 at the end of the connection. Returns `None` at the deadline. If it passes
    /// during the wait, as in a stop of this process, bytes that have arrived are still read.
    pub(super) fn read(
        &self,
        wire: &mut Wire,
        buffer: &mut [u8],
        deadline: Timestamp,
    ) -> io::Result<Option<usize>> {
        let mut has_waited = false;
        loop {
            let left = deadline.since(self.clock.now()).min(STOP_INTERVAL);
            let is_over = left.is_zero() || self.stop.load(Ordering::Relaxed);
            if is_over && !has_waited {
                return Ok(None);
            }
            wire.wait_at_most(left)?;
            match wire.read(buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if wire::is_wait(&error) && is_over => return Ok(None),
                Err(error) if wire::is_wait(&error) => has_waited = true,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the parameters that the handshake negotiated.
fn agreed(handshake: &Handshake) -> ProbeTls {
    let secured = handshake.secured;
    ProbeTls {
        version: secured.version,
        cipher: secured.cipher.to_owned(),
        is_resumed: secured.is_resumed,
        certificate_ends: handshake.certificate_ends,
    }
}
