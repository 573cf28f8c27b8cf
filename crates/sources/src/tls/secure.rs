//! TLS on one connection, without I/O. Functions receive bytes of either side and return the
//! converted bytes.

use core::time::Duration;
use std::io::{Read, Write};

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;
use rustls::{ClientConnection, HandshakeKind};

use super::validity::certificate_end;
use super::{TlsFault, TlsPeer};

/// Maximum number of decrypted bytes in one read.
const PLAIN_LEN: usize = 16 * 1024;

/// A completed TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secured {
    /// Time from the beginning of the handshake until a request could be sent.
    pub(crate) took: Duration,
    /// True if the handshake resumed a session. The server sends no certificate then.
    pub(crate) is_resumed: bool,
    /// Version, as on the wire: 0x0304 is TLS 1.3.
    pub(crate) version: u16,
    /// Name of the cipher suite; empty if it has none.
    pub(crate) cipher: &'static str,
    /// True if the server selected HTTP/2 (ALPN).
    pub(crate) is_http2: bool,
}

/// The TLS state of a connection.
#[derive(Debug)]
pub(crate) struct Secure {
    session: ClientConnection,
    begun: Timestamp,
    is_told: bool,
    has_ended: bool,
}

impl Secure {
    /// Begins a handshake at `now`. [`drain`](Self::drain) returns its ClientHello.
    pub(crate) fn begin(peer: &TlsPeer, now: Timestamp) -> Result<Self, TlsFault> {
        let session = peer.begin().map_err(|error| TlsFault::new(&error))?;
        Ok(Self {
            session,
            begun: now,
            is_told: false,
            has_ended: false,
        })
    }

    /// Processes bytes from the peer. Decrypted bytes are appended to `plain`.
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

    /// Returns the result of the handshake when it is complete; later calls return `None`.
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

    /// Returns the expiry time of the peer's certificate; `None` after a resumed handshake, which
    /// has no certificate.
    pub(crate) fn certificate_ends(&self) -> Option<Timestamp> {
        let certificate = self.session.peer_certificates()?.first()?;
        certificate_end(certificate)
    }

    /// Returns true if the peer has announced the end of its data.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Encrypts bytes from the beginning of `plain`. Returns the number of bytes accepted.
    pub(crate) fn give(&mut self, plain: &[u8]) -> usize {
        self.session.writer().write(plain).unwrap_or(0)
    }

    /// Appends the pending TLS records to `wire`.
    pub(crate) fn drain(&mut self, wire: &mut Vec<u8>) {
        while self.session.wants_write() {
            // Writing to a vector never fails.
            if self.session.write_tls(wire).unwrap_or(0) == 0 {
                return;
            }
        }
    }
}
