//! TLS on one connection: both sides' bytes in and out, no I/O.

use core::time::Duration;
use std::io::{Read, Write};

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;
use rustls::{ClientConnection, HandshakeKind};

use super::validity::certificate_end;
use super::{TlsFault, TlsPeer};

/// Plain bytes taken out at once.
const PLAIN_LEN: usize = 16 * 1024;

/// A TLS handshake of ours that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secured {
    /// From the ClientHello to when a request could be sent.
    pub(crate) took: Duration,
    /// Whether it resumed a session: no certificate was shown.
    pub(crate) is_resumed: bool,
    /// The version, as on the wire: 0x0304 is TLS 1.3.
    pub(crate) version: u16,
    /// The cipher suite's name; empty where it has none.
    pub(crate) cipher: &'static str,
    /// Whether the server chose HTTP/2 (ALPN).
    pub(crate) is_http2: bool,
}

/// A connection's TLS.
#[derive(Debug)]
pub(crate) struct Secure {
    session: ClientConnection,
    begun: Timestamp,
    is_told: bool,
    has_ended: bool,
}

impl Secure {
    /// Begins a handshake at `now`; what is to be sent waits to be taken.
    pub(crate) fn begin(peer: &TlsPeer, now: Timestamp) -> Result<Self, TlsFault> {
        let session = peer.begin().map_err(|error| TlsFault::new(&error))?;
        Ok(Self {
            session,
            begun: now,
            is_told: false,
            has_ended: false,
        })
    }

    /// Takes bytes off the wire; what they hold for us is appended to `plain`.
    pub(crate) fn take(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsFault> {
        let broken = |error| TlsFault {
            failure: RequestFailure::Tls,
            text: format!("a record could not be read: {error}"),
            is_name: false,
            is_plain: false,
        };
        while !wire.is_empty() {
            self.session.read_tls(&mut wire).map_err(broken)?;
            let state = self
                .session
                .process_new_packets()
                .map_err(|error| TlsFault::new(&error))?;
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let from = plain.len();
                plain.resize(from + left.min(PLAIN_LEN), 0);
                let room = plain.get_mut(from..).unwrap_or_default();
                let len = self.session.reader().read(room).map_err(broken)?;
                plain.truncate(from + len);
                left = if len == 0 { 0 } else { left - len.min(left) };
            }
            if state.peer_has_closed() {
                self.has_ended = true;
                break;
            }
        }
        Ok(())
    }

    /// The handshake's outcome, once, when it is over.
    pub(crate) fn outcome(&mut self, now: Timestamp) -> Option<Secured> {
        if self.is_told || self.session.is_handshaking() {
            return None;
        }
        self.is_told = true;
        let suite = self.session.negotiated_cipher_suite();
        Some(Secured {
            took: now.since(self.begun),
            is_resumed: self.session.handshake_kind() == Some(HandshakeKind::Resumed),
            version: self.session.protocol_version().map_or(0, u16::from),
            cipher: suite
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or_default(),
            is_http2: self.session.alpn_protocol() == Some(b"h2"),
        })
    }

    /// When the certificate that the peer showed ends; one that resumes a
    /// session shows none anew.
    pub(crate) fn certificate_ends(&self) -> Option<Timestamp> {
        let certificate = self.session.peer_certificates()?.first()?;
        certificate_end(certificate)
    }

    /// Whether the peer said that nothing more will come.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Encrypts from the beginning of `plain`; how many bytes were taken.
    pub(crate) fn give(&mut self, plain: &[u8]) -> usize {
        self.session.writer().write(plain).unwrap_or(0)
    }

    /// Appends to `wire` what is to be sent.
    pub(crate) fn drain(&mut self, wire: &mut Vec<u8>) {
        while self.session.wants_write() {
            // A vector takes everything.
            if self.session.write_tls(wire).unwrap_or(0) == 0 {
                return;
            }
        }
    }
}
