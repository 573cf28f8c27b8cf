//! The response of one server, created once: its bytes, split into writes.

use std::io::{self, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use socket2::SockRef;

use super::options::{Framing, Hold, Response};
use super::process::Process;
use super::realtime_ns;
use crate::server::PAGE;

/// The response to each request.
pub(super) struct Answer {
    writes: Vec<Vec<u8>>,
    between: Duration,
    holds: bool,
}

impl Answer {
    pub(super) fn new(response: &Response, hold: Option<Hold>) -> Self {
        let body = text(response.body.map(|size| size.bytes()));
        let piece = response.piece.map_or(u64::MAX, |size| size.bytes());
        let piece = usize::try_from(piece).unwrap_or(usize::MAX).max(1);
        let mut writes = vec![header(response.framing, body.len()).into_bytes()];
        writes.extend(body.chunks(piece).map(|piece| match response.framing {
            Framing::Chunked => chunk(piece),
            _ => piece.to_vec(),
        }));
        if response.framing == Framing::Chunked {
            writes.last_mut().expect("the header").extend(b"0\r\n\r\n");
        }
        if !response.apart && writes.len() > 1 {
            let first = writes.remove(1);
            writes[0].extend(first);
        }
        Self {
            writes,
            between: response.between,
            holds: hold == Some(Hold::More),
        }
    }

    /// Writes the response; returns the time at which each write returned.
    pub(super) fn write(&self, mut to: &TcpStream, process: &Process) -> io::Result<Vec<u64>> {
        let mut written_ns = Vec::with_capacity(self.writes.len());
        for (n, bytes) in self.writes.iter().enumerate() {
            if n > 0 {
                sleep(self.between);
                process.wait_while_stopped();
            }
            if self.holds {
                write_with_more_to_come(to, bytes)?;
            } else {
                to.write_all(bytes)?;
            }
            written_ns.push(realtime_ns());
        }
        Ok(written_ns)
    }
}

fn write_with_more_to_come(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let flags = libc::MSG_MORE | libc::MSG_NOSIGNAL;
        let written = SockRef::from(to).send_with_flags(bytes, flags)?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Returns the page, or the given number of bytes made of repetitions of the page.
pub(crate) fn text(bytes: Option<u64>) -> Vec<u8> {
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let length = bytes.unwrap_or(PAGE.len());
    PAGE.bytes().cycle().take(length).collect()
}

fn header(framing: Framing, length: usize) -> String {
    let connection = if framing.ends_connection() {
        "close"
    } else {
        "keep-alive"
    };
    let body = match framing {
        Framing::Length | Framing::LengthThenClose => format!("Content-Length: {length}\r\n"),
        Framing::TooLong => format!("Content-Length: {}\r\n", length + 1),
        Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        Framing::Close => String::new(),
    };
    format!(
        "HTTP/1.1 200 OK\r\nServer: lagtrace-lab\r\nContent-Type: text/html\r\n{body}\
         Connection: {connection}\r\n\r\n"
    )
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend(bytes);
    chunk.extend(b"\r\n");
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Size;

    fn writes(response: &Response) -> Vec<String> {
        let answer = Answer::new(response, None);
        let texts = answer.writes.into_iter();
        texts
            .map(|bytes| String::from_utf8(bytes).expect("text"))
            .collect()
    }

    #[test]
    fn a_response_is_cut_as_asked() {
        let whole = writes(&Response::default());
        assert_eq!(whole.len(), 1);
        assert!(whole[0].ends_with(PAGE));
        let mut response = Response {
            body: Some(Size::from_bytes(10)),
            piece: Some(Size::from_bytes(4)),
            ..Response::default()
        };
        let lengths = |response: &Response| -> Vec<usize> {
            writes(response)[1..].iter().map(String::len).collect()
        };
        assert_eq!(lengths(&response), [4, 2]);
        response.apart = true;
        assert_eq!(lengths(&response), [4, 4, 2]);
        response.framing = Framing::Chunked;
        assert_eq!(lengths(&response), [9, 9, 12]);
    }

    #[test]
    fn framings_say_what_they_do() {
        for (framing, wanted) in [
            (
                Framing::Length,
                "Content-Length: 3\r\nConnection: keep-alive",
            ),
            (Framing::TooLong, "Content-Length: 4\r\nConnection: close"),
            (Framing::Close, "text/html\r\nConnection: close"),
            (Framing::Chunked, "chunked\r\nConnection: keep-alive"),
        ] {
            assert!(header(framing, 3).contains(wanted), "{framing:?}");
        }
        let empty = Response {
            body: Some(Size::from_bytes(0)),
            framing: Framing::Chunked,
            ..Response::default()
        };
        assert!(writes(&empty)[0].ends_with("\r\n\r\n0\r\n\r\n"));
    }
}
