//! Servers that do not use HTTP, and the function with which all built-in servers close a
//! connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::server::request::Requests;

/// The answer of the garbage server; none of its bytes is valid in a status line.
pub(super) const GARBAGE: [u8; 64] = [0xA5; 64];

/// A TLS record with an alert, TLS 1.2: fatal, unexpected_message (RFC 8446 §5.1, §6).
pub(super) const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

/// Answers the first request with these bytes and closes the connection.
pub(super) fn answer(mut connection: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    if Requests::new(connection).next()? {
        connection.write_all(bytes)?;
        close(connection)?;
    }
    Ok(())
}

/// Closes a connection once the client has closed it or has sent nothing for two seconds. Closing
/// it earlier would reset it while data is in flight.
pub(super) fn close(connection: &TcpStream) -> io::Result<()> {
    connection.shutdown(Shutdown::Write)?;
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    listen(connection)
}

/// Reads and discards data until the client has closed the connection.
pub(super) fn listen(mut connection: &TcpStream) -> io::Result<()> {
    let mut nowhere = [0; 4096];
    while connection.read(&mut nowhere)? > 0 {}
    Ok(())
}
