//! Reading of responses as fast or as slowly as the client's settings require. Responses are parsed
//! only to find their end. All lengths are bounded, and anything that is not a response is an
//! error.

use std::io::{self, Read};
use std::thread::sleep;

use super::Taking;

/// Maximum length of the header, in bytes. Bodies are read but not kept.
const LONGEST_HEADER: usize = 64 << 10;

/// The end of a chunked body that is not empty (RFC 9112 §7.1).
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// The responses on a connection, one after the other.
pub(super) struct Incoming<'a, R> {
    from: R,
    taking: &'a Taking,
    /// Bytes that were read and are not yet part of a response.
    buffered: Vec<u8>,
    /// True once any byte was received.
    pub(super) has_begun: bool,
    /// True once the connection ended, or the server announced that it would close it.
    pub(super) has_ended: bool,
}

/// The length of a response's body, according to the header.
#[derive(Debug, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked,
    /// The body ends when the connection does.
    Close,
}

impl<'a, R: Read> Incoming<'a, R> {
    pub(super) fn new(from: R, taking: &'a Taking) -> Self {
        Self {
            from,
            taking,
            buffered: Vec::new(),
            has_begun: false,
            has_ended: false,
        }
    }

    /// Reads until the next response has begun.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        sleep(self.taking.late);
        if self.buffered.is_empty() && !self.read_more()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads the next response to its end; interim ones (1xx) are skipped.
    pub(super) fn response(&mut self) -> io::Result<()> {
        self.begin()?;
        loop {
            let header = self.header()?;
            self.has_ended |= says_close(&header);
            match body(&header)? {
                None => {}
                Some(Body::Length(length)) => return self.skip(length),
                Some(Body::Chunked) => return self.skip_chunks(),
                Some(Body::Close) => {
                    self.buffered.clear();
                    while self.read_more()? {
                        self.buffered.clear();
                    }
                    return Ok(());
                }
            }
        }
    }

    fn header(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let end = self
                .buffered
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                return Ok(self.buffered.drain(..end + 4).collect());
            }
            if self.buffered.len() >= LONGEST_HEADER {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.must_read_more()?;
        }
    }

    fn skip(&mut self, mut left: u64) -> io::Result<()> {
        while left > 0 {
            if self.buffered.is_empty() {
                self.must_read_more()?;
            }
            let here = usize::try_from(left).unwrap_or(usize::MAX);
            let here = here.min(self.buffered.len());
            self.buffered.drain(..here);
            left -= here as u64;
        }
        Ok(())
    }

    /// Skips a chunked body. The lab's servers send plain text, which never contains the bytes of
    /// the last chunk.
    fn skip_chunks(&mut self) -> io::Result<()> {
        loop {
            let seen = &self.buffered;
            if let Some(at) = seen
                .windows(LAST_CHUNK.len())
                .position(|end| end == LAST_CHUNK)
            {
                self.buffered.drain(..at + LAST_CHUNK.len());
                return Ok(());
            }
            let useless = seen.len().saturating_sub(LAST_CHUNK.len());
            self.buffered.drain(..useless);
            self.must_read_more()?;
        }
    }

    fn must_read_more(&mut self) -> io::Result<()> {
        if self.read_more()? {
            return Ok(());
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads once; returns false at the end of the connection.
    fn read_more(&mut self) -> io::Result<bool> {
        let mut room = [0; 16 << 10];
        let piece = self.taking.piece.map_or(u64::MAX, |size| size.bytes());
        let most = usize::try_from(piece).unwrap_or(usize::MAX).min(room.len());
        let length = self.from.read(&mut room[..most])?;
        self.buffered.extend_from_slice(&room[..length]);
        self.has_begun |= length > 0;
        self.has_ended |= length == 0;
        sleep(self.taking.between);
        Ok(length > 0)
    }
}

fn says_close(header: &[u8]) -> bool {
    let text = String::from_utf8_lossy(header).to_ascii_lowercase();
    text.contains("\r\nconnection: close\r\n")
}

/// Returns the body's length according to the header; `None` for an interim response.
fn body(header: &[u8]) -> io::Result<Option<Body>> {
    let text = String::from_utf8_lossy(header).to_ascii_lowercase();
    let status: Option<u16> = text
        .strip_prefix("http/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    if status < 200 {
        return Ok(None);
    }
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let mut body = Body::Close;
    for (name, value) in fields {
        match (name, value.trim()) {
            ("transfer-encoding", "chunked") => return Ok(Some(Body::Chunked)),
            ("content-length", length) => {
                body = Body::Length(length.parse().map_err(|_| io::ErrorKind::InvalidData)?);
            }
            _ => {}
        }
    }
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bytes: &[u8]) -> usize {
        let taking = Taking::default();
        let mut incoming = Incoming::new(bytes, &taking);
        std::iter::from_fn(|| incoming.response().ok()).count()
    }

    #[test]
    fn responses_are_told_apart_by_their_framing() {
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        let close = "HTTP/1.1 200 OK\r\n\r\nhi";
        let all = [length, chunked, interim, length, close].concat();
        assert_eq!(count(all.as_bytes()), 4);
    }

    #[test]
    fn what_is_cut_short_or_no_response_is_an_error() {
        assert_eq!(count(b""), 0);
        assert_eq!(count(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"), 0);
        assert_eq!(count(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), 0);
        assert_eq!(count(&[0xA5; 64]), 0);
        assert_eq!(count(&[b'x'; LONGEST_HEADER + 9]), 0);
    }
}
