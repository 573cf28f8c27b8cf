//! A blocking connection, in clear text or within TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;

use super::STOP_INTERVAL;
use crate::tls::secure::{Secure, Secured};
use crate::tls::{TlsFault, TlsPeer};

/// Maximum number of bytes in one read from the connection.
const WIRE_LEN: usize = 16 * 1024;

/// The connection that requests are sent over.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<Within>),
}

/// A connection within TLS. Every call waits for at most one read or write, so that a peer that
/// sends single bytes cannot delay the caller beyond its deadline.
pub(super) struct Within {
    stream: TcpStream,
    tls: Secure,
    /// Decrypted bytes that were not read yet.
    plain: Vec<u8>,
}

/// The result of a TLS handshake.
pub(super) struct Handshake {
    pub(super) secured: Secured,
    /// Time from the start of the handshake to the server's first bytes.
    pub(super) hello: Option<Duration>,
    /// Expiry time of the server's certificate.
    pub(super) certificate_ends: Option<Timestamp>,
}

/// Returns true if an error only indicates that no data has arrived yet.
pub(super) fn is_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

impl Wire {
    /// Creates a clear-text connection on which a send takes at most `timeout`.
    pub(super) fn plain(stream: TcpStream, timeout: Duration) -> Self {
        // The options may fail on a connection that is gone; so will the send.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(timeout.max(STOP_INTERVAL)));
        Self::Plain(stream)
    }

    /// Runs a TLS handshake on this connection. Returns the secured connection with the handshake's
    /// result; gives up when `is_over` returns true.
    pub(super) fn secure(
        self,
        peer: &TlsPeer,
        now: impl Fn() -> Timestamp,
        is_over: impl Fn() -> bool,
    ) -> Result<(Self, Handshake), TlsFault> {
        let Self::Plain(stream) = self else {
            return Err(TlsFault::within_handshake(RequestFailure::Tls));
        };
        let begun = now();
        let mut hello = None;
        let _ = stream.set_read_timeout(Some(STOP_INTERVAL));
        let mut within = Within {
            stream,
            tls: Secure::begin(peer, begun)?,
            plain: Vec::new(),
        };
        loop {
            let sent = within.flush();
            if let Some(secured) = within.tls.outcome(now()) {
                let handshake = Handshake {
                    secured,
                    hello,
                    certificate_ends: within.tls.certificate_ends(),
                };
                return Ok((Self::Tls(Box::new(within)), handshake));
            }
            if is_over() {
                return Err(TlsFault::within_handshake(RequestFailure::TlsTimeout));
            }
            match within.step()? {
                Ok(len) if len > 0 && sent.is_ok() => {
                    hello.get_or_insert_with(|| now().since(begun));
                }
                Err(error) if is_wait(&error) && sent.is_ok() => {}
                _ => return Err(TlsFault::within_handshake(RequestFailure::Tls)),
            }
        }
    }

    /// Sends a request as far as possible.
    pub(super) fn send(&mut self, request: &[u8]) {
        let sent = match self {
            Self::Plain(stream) => stream.write_all(request),
            Self::Tls(within) => {
                within.tls.give(request);
                within.flush()
            }
        };
        if sent.is_err() {
            // The target's answer before it closed tells more than the close.
            let _ = self.tcp().set_nonblocking(true);
        }
    }

    /// Sets the maximum wait of a read.
    pub(super) fn wait_at_most(&mut self, length: Duration) -> io::Result<()> {
        // The kernel rounds a timeout to ticks; zero would mean for ever.
        let length = length.max(Duration::from_millis(1));
        self.tcp().set_read_timeout(Some(length))
    }

    /// Reads the bytes that arrived; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(within) => within.read(buffer),
        }
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(within) => &within.stream,
        }
    }
}

impl Within {
    /// Sends the pending TLS records.
    fn flush(&mut self) -> io::Result<()> {
        let mut wire = Vec::new();
        self.tls.drain(&mut wire);
        self.stream.write_all(&wire)
    }

    /// Reads once and decrypts the bytes; returns their number, 0 at the end.
    fn step(&mut self) -> Result<io::Result<usize>, TlsFault> {
        let mut wire = [0; WIRE_LEN];
        let len = match self.stream.read(&mut wire) {
            Ok(len) => len,
            error => return Ok(error),
        };
        let taken = wire.get(..len).unwrap_or_default();
        let taken = self.tls.take(taken, &mut self.plain);
        if let Err(fault) = taken {
            // The alert that gives the reason; its arrival changes nothing here.
            let _ = self.flush();
            return Err(fault);
        }
        Ok(Ok(len))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.plain.is_empty() && !self.tls.has_ended() {
            let stepped = self.step();
            let len = stepped.map_err(|fault| io::Error::other(fault.text))??;
            if len > 0 && self.plain.is_empty() && !self.tls.has_ended() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let len = self.plain.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(self.plain.drain(..len)) {
            *to = from;
        }
        Ok(len)
    }
}
