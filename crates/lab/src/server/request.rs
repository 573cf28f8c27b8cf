//! Reading of HTTP/1.1 requests from a persistent connection. Requests are parsed only to find
//! their end. Lengths are bounded; malformed input ends the connection.

use std::io::{self, Read};

/// Maximum length of the header, in bytes. Bodies are read but not kept.
const LONGEST_HEADER: usize = 64 << 10;

/// The response that tells a client to send the body that it announced (RFC 9110 §10.1.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The fields of a request's header that concern its body.
pub(super) struct Head {
    /// The body's length in bytes: `Content-Length` (RFC 9112 §6.3), or 0 without it.
    body: u64,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub(super) expects: bool,
}

/// The requests on a connection, one after the other.
pub(super) struct Requests<R> {
    from: R,
    /// Bytes that were read and are not yet part of a request.
    buffered: Vec<u8>,
}

impl<R: Read> Requests<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            buffered: Vec::new(),
        }
    }

    /// Returns true if bytes of the next request have been read already.
    pub(super) fn has_begun(&self) -> bool {
        !self.buffered.is_empty()
    }

    /// Reads the next request to its end; returns false if the client sends no more requests.
    pub(super) fn next(&mut self) -> io::Result<bool> {
        match self.head()? {
            Some(head) => self.body(&head),
            None => Ok(false),
        }
    }

    /// Reads the next request's header; `None` if the client sends no more requests.
    pub(super) fn head(&mut self) -> io::Result<Option<Head>> {
        let length = loop {
            if let Some(length) = header_length(&self.buffered) {
                break length;
            }
            if self.buffered.len() >= LONGEST_HEADER {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            if !self.read_more()? {
                return Ok(None);
            }
        };
        let head = Head::parse(&self.buffered[..length]);
        self.buffered.drain(..length);
        Ok(Some(head))
    }

    /// Reads the body that follows a header; returns false if the connection ends within the body.
    pub(super) fn body(&mut self, head: &Head) -> io::Result<bool> {
        let mut body = head.body;
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

/// Returns the length of the header, its empty line included, once it is complete.
fn header_length(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
}

impl Head {
    fn parse(header: &[u8]) -> Self {
        let text = String::from_utf8_lossy(header);
        let field = |wanted: &str| {
            text.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.trim())
        };
        Self {
            body: field("content-length")
                .and_then(|value| value.parse().ok())
                .unwrap_or(0),
            expects: field("expect")
                .is_some_and(|value| value.eq_ignore_ascii_case("100-continue")),
        }
    }
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
    fn a_client_that_waits_for_a_word_says_so() {
        let expects = |text: &str| Head::parse(text.as_bytes()).expects;
        assert!(expects("PUT / HTTP/1.1\r\nexpect: 100-Continue\r\n\r\n"));
        assert!(!expects("PUT / HTTP/1.1\r\nHost: a\r\n\r\n"));
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
