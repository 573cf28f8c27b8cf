//! A connection that waits for its bytes, plain or within TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use core::time::Duration;

use lagtrace_core::event::RequestFailure;
use rustls::{ClientConnection, HandshakeKind, StreamOwned};

use super::STOP_INTERVAL;
use crate::tls::{TlsFault, TlsPeer};

/// What requests are sent over.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Whether an error only says that nothing came so far.
pub(super) fn is_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

impl Wire {
    /// A connection over which a send takes no longer than `timeout`.
    pub(super) fn plain(stream: TcpStream, timeout: Duration) -> Self {
        // The options may fail on a connection that is gone; so will the send.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(timeout.max(STOP_INTERVAL)));
        Self::Plain(stream)
    }

    /// The same within TLS, and whether that resumed a session; given up when
    /// `is_over`.
    pub(super) fn secure(
        self,
        peer: &TlsPeer,
        is_over: impl Fn() -> bool,
    ) -> Result<(Self, bool), TlsFault> {
        let Self::Plain(mut stream) = self else {
            return Ok((self, false));
        };
        let mut session = peer.begin().map_err(|error| TlsFault::new(&error))?;
        let _ = stream.set_read_timeout(Some(STOP_INTERVAL));
        while session.is_handshaking() {
            if is_over() {
                return Err(TlsFault::within_handshake(RequestFailure::TlsTimeout));
            }
            match session.complete_io(&mut stream) {
                Ok(_) => {}
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(fault_of(&error)),
            }
        }
        let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        let stream = StreamOwned::new(session, stream);
        Ok((Self::Tls(Box::new(stream)), is_resumed))
    }

    /// Sends all of a request, as far as that is possible.
    pub(super) fn send(&mut self, request: &[u8]) {
        let sent = match self {
            Self::Plain(stream) => stream.write_all(request),
            Self::Tls(stream) => stream.write_all(request).and_then(|()| stream.flush()),
        };
        if sent.is_err() {
            // What the target said before it closed tells more than that it did.
            let _ = self.tcp().set_nonblocking(true);
        }
    }

    /// Lets a read wait so long.
    pub(super) fn wait_at_most(&mut self, length: Duration) -> io::Result<()> {
        // The kernel rounds a timeout to ticks; zero would mean for ever.
        let length = length.max(Duration::from_millis(1));
        self.tcp().set_read_timeout(Some(length))
    }

    /// Reads what is there; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => match stream.read(buffer) {
                // Many servers close without TLS' own word for it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                done => done,
            },
        }
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

/// What broke a handshake: TLS' own error, or the end of the connection.
fn fault_of(error: &io::Error) -> TlsFault {
    let inner = error.get_ref();
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => TlsFault::new(error),
        None => TlsFault::within_handshake(RequestFailure::Tls),
    }
}
