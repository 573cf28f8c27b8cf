//! A blocking connection, in plain text or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::time::Timestamp;

use super::STOP_INTERVAL;
use crate::tls::secure::{Secure, Secured};
use crate::tls::{TlsFault, TlsPeer};

/// Maximum number of bytes that one read returns.
const WIRE_LEN: usize = 16 * 1024;

/// The connection of a probe.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<Within>),
}

/// A connection with TLS. Every call waits for at most one read or write. Otherwise, a peer that
/// sends single bytes could delay the caller beyond its deadline.
pub(super) struct Within {
    stream: TcpStream,
    tls: Secure,
    /// Decrypted bytes that have not been read yet.
    plain: Vec<u8>,
}

/// The result of a TLS handshake.
pub(super) struct Handshake {
    pub(super) secured: Secured,
    /// Time from the beginning of the handshake to the server's first bytes.
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
    /// Creates a plain-text connection, of TCP or a Unix socket. A send on it takes at most `timeout`.
    pub(super) fn plain(stream: TcpStream, timeout: Duration) -> Self {
        // These calls can fail if the connection has been closed; the send fails then too. The
        // first one fails also for a Unix socket, which has no such option.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_write_timeout(Some(timeout.max(STOP_INTERVAL)));
        Self::Plain(stream)
    }

    /// Performs a TLS handshake on this connection. Returns the secured connection and the
    /// handshake's result. The handshake is abandoned when `is_over` returns true.
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
        let mut was_over = false;
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
            if was_over {
                return Err(TlsFault::within_handshake(RequestFailure::TlsTimeout));
            }
            // After a stop of this process, the target's part may be there although the time is over.
            was_over = is_over();
            match within.step()? {
                Ok(len) if len > 0 && sent.is_ok() => {
                    hello.get_or_insert_with(|| now().since(begun));
                }
                Err(error) if is_wait(&error) && sent.is_ok() => {}
                _ => return Err(TlsFault::within_handshake(RequestFailure::Tls)),
            }
        }
    }

    /// Sends a request. Errors are ignored, because the following read shows them.
    pub(super) fn send(&mut self, request: &[u8]) {
        let sent = match self {
            Self::Plain(stream) => stream.write_all(request),
            Self::Tls(within) => within.send(request),
        };
        if sent.is_err() {
            // The target may have answered before it closed the connection. The read returns this
            // answer, and must not block.
            let _ = self.tcp().set_nonblocking(true);
        }
    }

    /// Sets the maximum time that a read waits.
    pub(super) fn wait_at_most(&mut self, length: Duration) -> io::Result<()> {
        // Zero would mean no limit.
        let length = length.max(Duration::from_millis(1));
        self.tcp().set_read_timeout(Some(length))
    }

    /// Reads bytes; 0 at the end of the connection.
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
    /// Encrypts and sends a request, in parts that TLS can hold.
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let mut rest = request;
        while !rest.is_empty() {
            let taken = self.tls.give(rest);
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.flush()?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends the pending TLS records.
    fn flush(&mut self) -> io::Result<()> {
        let mut wire = Vec::new();
        self.tls.drain(&mut wire);
        self.stream.write_all(&wire)
    }

    /// Reads once and decrypts the bytes. Returns the number of bytes read; 0 at the end of the
    /// connection.
    fn step(&mut self) -> Result<io::Result<usize>, TlsFault> {
        let mut wire = [0; WIRE_LEN];
        let len = match self.stream.read(&mut wire) {
            Ok(len) => len,
            error => return Ok(error),
        };
        let taken = wire.get(..len).unwrap_or_default();
        let taken = self.tls.take(taken, &mut self.plain);
        if let Err(fault) = taken {
            // Sends the alert with the reason. The result is the same if this fails.
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
