//! A connection of the server: reading, writing and ending, each for a limited time.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::request::{MAX_HEAD, Refusal};

/// Time after which a read or a write that waits is tried again.
const STEP: Duration = Duration::from_millis(100);
/// Time in which a request must arrive, and after which a peer that takes nothing of the answer is
/// given up.
const TIME: Duration = Duration::from_secs(10);
/// Maximum time for which a connection stays open after its answer, or after the end of the server.
const LINGER: Duration = Duration::from_secs(1);

/// Prepares a connection that was just accepted.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STEP))?;
    stream.set_write_timeout(Some(STEP))
}

/// Reads the head of a request; `None` if the peer sends none in time, a refusal if it is too long.
pub(super) fn read(
    stream: &mut TcpStream,
    is_over: impl Fn() -> bool,
) -> io::Result<Option<std::result::Result<Vec<u8>, Refusal>>> {
    let end = Instant::now() + TIME;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD {
            return Ok(Some(Err(Refusal::TooLong)));
        }
        if is_over() || Instant::now() >= end {
            return Ok(None);
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(None),
            Ok(length) => head.extend_from_slice(&chunk[..length]),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(Ok(head)))
}

/// Writes a part of an answer. The server does not wait for a peer that takes nothing, nor for long
/// after its own end.
pub(super) fn write(
    stream: &mut TcpStream,
    mut rest: &[u8],
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let (mut taken, mut over) = (Instant::now(), None);
    while !rest.is_empty() {
        if is_over() && over.is_none() {
            over = Some(Instant::now());
        }
        let is_late = over.is_some_and(|over: Instant| over.elapsed() > LINGER);
        if is_late || taken.elapsed() > TIME {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                rest = rest.get(length..).unwrap_or_default();
                taken = Instant::now();
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends a connection so that the peer gets the whole answer: closed while something that it sent is
/// unread, the connection would be reset.
pub(super) fn part(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let end = Instant::now() + LINGER;
    let mut rest = [0; 4096];
    while Instant::now() < end {
        match stream.read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    [Interrupted, TimedOut, WouldBlock].contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_peer_that_takes_nothing_does_not_keep_a_server_that_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let peer = TcpStream::connect(address).expect("a connection");
        let (mut stream, _) = listener.accept().expect("a connection");
        prepare(&stream).expect("its options");
        // More than the buffers of both sockets hold.
        let answer = vec![0; 64 << 20];
        let written = write(&mut stream, &answer, || true);
        let error = written.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        drop(peer);
    }
}
