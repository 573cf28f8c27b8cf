//! Reading HTTP/1.1 requests off a kept-alive connection, as far as our servers need it: where
//! one ends. Bounded; what is no request ends the connection.

use std::io::{self, Read};

/// The longest header, in bytes. Bodies are read and not kept.
const LONGEST_HEADER: usize = 64 << 10;

/// A connection's requests, one after the other.
pub(super) struct Requests<R> {
    from: R,
    /// Read and not yet part of a request.
    buffered: Vec<u8>,
}

impl<R: Read> Requests<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            buffered: Vec::new(),
        }
    }

    /// Reads the next request to its end; `false` if the client has no more.
    pub(super) fn next(&mut self) -> io::Result<bool> {
        let header = loop {
            if let Some(length) = header_length(&self.buffered) {
                break length;
            }
            if self.buffered.len() >= LONGEST_HEADER {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            if !self.read_more()? {
                return Ok(false);
            }
        };
        let mut body = body_length(&self.buffered[..header]);
        self.buffered.drain(..header);
        while body > 0 {
            if self.buffered.is_empty() && !self.read_more()? {
                return Ok(false);
            }
            let here = usize::try_from(body)
                .unwrap_or(usize::MAX)
                .min(self.buffered.len());
            self.buffered.drain(..here);
            body -= here as u64;
        }
        Ok(true)
    }

    fn read_more(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        let length = self.from.read(&mut chunk)?;
        self.buffered.extend_from_slice(&chunk[..length]);
        Ok(length > 0)
    }
}

/// How long the header is, its empty line included, once it is complete.
fn header_length(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// What the header says of its body's length: `Content-Length` (RFC 9112 §6.3), or nothing.
fn body_length(header: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(header);
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bytes: &[u8]) -> usize {
        let mut requests = Requests::new(bytes);
        std::iter::from_fn(|| requests.next().ok().filter(|more| *more)).count()
    }

    #[test]
    fn requests_are_told_apart_with_and_without_bodies() {
        assert_eq!(
            count(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
            2
        );
        assert_eq!(
            count(b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n"),
            2
        );
        assert_eq!(
            count(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhello"),
            0
        );
        assert_eq!(count(b""), 0);
    }

    #[test]
    fn an_endless_request_is_given_up() {
        let mut requests = Requests::new(io::repeat(b'x'));
        assert!(requests.next().is_err());
        let mut requests =
            Requests::new(&b"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n"[..]);
        assert!(matches!(requests.next(), Ok(false)));
    }
}
