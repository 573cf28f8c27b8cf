//! The messages of each framing: writing them in parts, and reading them.

use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::traffic::WireFormat;
use crate::server::own::realtime_ns;

/// The size of the head of a binary message: its length, its kind and its number.
const BINARY_HEAD: usize = 13;

/// The kinds of binary messages.
const CALL: u8 = 1;
const ANSWER: u8 = 2;
const PUSH: u8 = 3;

/// The words with which lines begin.
const ASKS: &str = "get";
const ANSWERS: &str = "ok";
const TELLS: &str = "event";

/// The line with which a server greets.
pub(super) const GREETING: &[u8] = b"220 ready\n";

/// The largest size of a request over HTTP that has no body.
const NO_BODY: usize = 60;

/// The maximum number of bytes of one read.
const READ: usize = 64 << 10;

/// Returns the writes of a request.
pub(super) fn request(framing: WireFormat, id: u64, size: usize, parts: u16) -> Vec<Vec<u8>> {
    let whole = match framing {
        WireFormat::Http if size <= NO_BODY => {
            format!("GET /list HTTP/1.1\r\nHost: lab\r\nX-Number: {id}\r\n\r\n").into_bytes()
        }
        WireFormat::Http | WireFormat::Chunked => {
            let body = json(id, size);
            let mut head = format!(
                "POST /list HTTP/1.1\r\nHost: lab\r\nX-Number: {id}\r\nContent-Type: \
                 application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .into_bytes();
            head.extend(body);
            head
        }
        WireFormat::Binary => binary(CALL, id, size),
        WireFormat::Lines | WireFormat::Greeting => line(ASKS, id, size),
    };
    split(whole, parts)
}

/// Returns the writes of a response; `closes` if the server closes the connection after it.
pub(super) fn response(
    framing: WireFormat,
    id: u64,
    size: usize,
    parts: u16,
    closes: bool,
) -> Vec<Vec<u8>> {
    let connection = if closes { "Connection: close\r\n" } else { "" };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{connection}");
    let whole = match framing {
        WireFormat::Http => {
            let body = json(id, size);
            let mut whole = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
            whole.extend(body);
            whole
        }
        WireFormat::Chunked => {
            let head = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
            return chunks(head.into_bytes(), split(json(id, size), parts));
        }
        WireFormat::Binary => binary(ANSWER, id, size),
        WireFormat::Lines | WireFormat::Greeting => line(ANSWERS, id, size),
    };
    split(whole, parts)
}

/// Returns a message that nobody asked for; `None` if the framing has none.
pub(super) fn push(framing: WireFormat) -> Option<Vec<u8>> {
    match framing {
        WireFormat::Http | WireFormat::Chunked => None,
        WireFormat::Binary => Some(binary(PUSH, 0, 40)),
        WireFormat::Lines | WireFormat::Greeting => Some(line(TELLS, 0, 40)),
    }
}

/// Puts each part into a chunk. The first write also has the head, the last one the end.
fn chunks(head: Vec<u8>, parts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut writes: Vec<Vec<u8>> = parts
        .into_iter()
        .map(|part| {
            let size = format!("{:x}\r\n", part.len()).into_bytes();
            [&size[..], &part, b"\r\n"].concat()
        })
        .collect();
    if let Some(first) = writes.first_mut() {
        first.splice(0..0, head);
    }
    if let Some(last) = writes.last_mut() {
        last.extend(b"0\r\n\r\n");
    }
    writes
}

fn split(whole: Vec<u8>, parts: u16) -> Vec<Vec<u8>> {
    let size = whole.len().div_ceil(usize::from(parts.max(1)));
    whole.chunks(size.max(1)).map(<[u8]>::to_vec).collect()
}

fn filler(size: usize) -> impl Iterator<Item = u8> {
    b"abcdefghijklmnopqrstuvwxyz"
        .iter()
        .copied()
        .cycle()
        .take(size)
}

fn json(id: u64, size: usize) -> Vec<u8> {
    let mut text = format!("{{\"id\":{id},\"data\":\"").into_bytes();
    text.extend(filler(size.saturating_sub(text.len() + 2)));
    text.extend(b"\"}");
    text
}

fn binary(kind: u8, id: u64, size: usize) -> Vec<u8> {
    let length = u32::try_from(BINARY_HEAD - 4 + size).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.push(kind);
    bytes.extend(id.to_be_bytes());
    bytes.extend(filler(size));
    bytes
}

fn line(word: &str, id: u64, size: usize) -> Vec<u8> {
    let mut line = format!("{word} {id} ").into_bytes();
    line.extend(filler(size.saturating_sub(line.len() + 1)));
    line.push(b'\n');
    line
}

/// Writes the parts one after the other; sleeps before the second for `pause`. Returns the time
/// slept.
pub(super) fn write(
    mut to: impl Write,
    parts: &[Vec<u8>],
    pause: Option<Duration>,
) -> io::Result<u64> {
    let mut slept = 0;
    for (number, part) in parts.iter().enumerate() {
        if number == 1
            && let Some(pause) = pause
        {
            slept = nap(pause);
        }
        to.write_all(part)?;
    }
    Ok(slept)
}

/// Makes this program sleep for the times that are drawn, and wake before other work of the machine:
/// its waits would otherwise be in no diary. Without the privilege, it has its usual priority.
pub(super) fn be_punctual() {
    const HIGHEST: i32 = -20;
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = rustix::process::setpriority_process(None, HIGHEST);
}

/// Sleeps, and returns for how long.
pub(super) fn nap(time: Duration) -> u64 {
    if time.is_zero() {
        return 0;
    }
    let begun = Instant::now();
    sleep(time);
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A message that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: u64,
    /// True if nobody asked for it.
    pub(super) is_push: bool,
    pub(super) bytes: u64,
    /// The time of its first byte, and of its last.
    pub(super) first_ns: u64,
    pub(super) whole_ns: u64,
}

/// A reader that pauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) piece: usize,
    pub(super) pause: Duration,
}

/// The messages of one direction of a connection.
pub(super) struct MessageReader<R> {
    from: R,
    framing: WireFormat,
    pace: Option<Pace>,
    buffer: Vec<u8>,
    begun_ns: u64,
    /// The sum of the pauses so far.
    pub(super) unread_ns: u64,
}

impl<R: Read> MessageReader<R> {
    pub(super) fn new(from: R, framing: WireFormat, pace: Option<Pace>) -> Self {
        Self {
            from,
            framing,
            pace,
            buffer: Vec::new(),
            begun_ns: 0,
            unread_ns: 0,
        }
    }

    /// Reads the next message; `None` if the peer has ended the connection.
    pub(super) fn next(&mut self) -> io::Result<Option<Message>> {
        let mut whole_ns = self.begun_ns;
        loop {
            if let Some((length, id, is_push)) = whole(self.framing, &self.buffer) {
                self.buffer.drain(..length);
                let first_ns = std::mem::replace(&mut self.begun_ns, whole_ns);
                return Ok(Some(Message {
                    id,
                    is_push,
                    bytes: length as u64,
                    first_ns,
                    whole_ns,
                }));
            }
            let is_first = self.buffer.is_empty();
            if !self.read()? {
                return Ok(None);
            }
            whole_ns = realtime_ns();
            if is_first {
                self.begun_ns = whole_ns;
            }
        }
    }

    /// Reads once; returns false at the end of the connection.
    fn read(&mut self) -> io::Result<bool> {
        let begun = self.buffer.len();
        if let Some(pace) = self.pace.filter(|_| begun > 0) {
            self.unread_ns += nap(pace.pause);
        }
        let most = self.pace.map_or(READ, |pace| pace.piece);
        self.buffer.resize(begun + most, 0);
        let read = self.from.read(&mut self.buffer[begun..]);
        self.buffer.truncate(begun + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }
}

/// Returns the length of the first message in the buffer, its number, and whether it is a push; `None`
/// if it is not whole.
fn whole(framing: WireFormat, buffer: &[u8]) -> Option<(usize, u64, bool)> {
    match framing {
        WireFormat::Http | WireFormat::Chunked => {
            let head = position(buffer, b"\r\n\r\n")? + 4;
            let text = String::from_utf8_lossy(&buffer[..head]);
            let id = field(&text, "X-Number: ").unwrap_or_default();
            let body = if text.contains("Transfer-Encoding: chunked") {
                chunked(&buffer[head..])?
            } else {
                usize::try_from(field(&text, "Content-Length: ").unwrap_or_default()).ok()?
            };
            (buffer.len() >= head + body).then_some((head + body, id, false))
        }
        WireFormat::Binary => {
            let length = u32::from_be_bytes(buffer.get(..4)?.try_into().ok()?);
            let length = usize::try_from(length).ok()? + 4;
            let head = buffer.get(..BINARY_HEAD)?;
            let id = u64::from_be_bytes(head[5..].try_into().ok()?);
            (buffer.len() >= length).then_some((length, id, head[4] == PUSH))
        }
        WireFormat::Lines | WireFormat::Greeting => {
            let length = buffer.iter().position(|&byte| byte == b'\n')? + 1;
            let text = String::from_utf8_lossy(&buffer[..length.min(40)]);
            let mut words = text.split_whitespace();
            let word = words.next().unwrap_or_default();
            let id = words.next().and_then(|id| id.parse().ok());
            let is_message = [ASKS, ANSWERS].contains(&word);
            Some((length, id.unwrap_or_default(), !is_message))
        }
    }
}

/// Returns the length of a chunked body.
fn chunked(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = position(&body[at..], b"\r\n")?;
        let size = std::str::from_utf8(&body[at..at + line]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        at += line + 2 + size + 2;
        if body.len() < at {
            return None;
        }
        if size == 0 {
            return Some(at);
        }
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn field(head: &str, name: &str) -> Option<u64> {
    let rest = head.split(name).nth(1)?;
    rest.split("\r\n").next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMINGS: [WireFormat; 5] = [
        WireFormat::Http,
        WireFormat::Chunked,
        WireFormat::Binary,
        WireFormat::Lines,
        WireFormat::Greeting,
    ];

    #[test]
    fn what_is_written_is_read_in_order() {
        for framing in FRAMINGS {
            for size in [10, 700, 100_000] {
                let mut stream = push(framing).unwrap_or_default();
                for id in [7, 8] {
                    stream.extend(request(framing, id, size, 3).concat());
                }
                let mut incoming = MessageReader::new(&stream[..], framing, None);
                let mut ids = Vec::new();
                while let Some(message) = incoming.next().expect("it reads") {
                    if !message.is_push {
                        ids.push(message.id);
                        assert!(message.first_ns <= message.whole_ns);
                    }
                }
                assert_eq!(ids, [7, 8], "{framing:?} {size}");
            }
        }
    }

    #[test]
    fn a_response_has_its_parts_and_ends() {
        for framing in FRAMINGS {
            let parts = response(framing, 7, 500, 2, false);
            assert_eq!(parts.len(), 2, "{framing:?}");
            let whole = parts.concat();
            let read = super::whole(framing, &whole).expect("it is whole");
            assert_eq!((read.0, read.2), (whole.len(), false));
            assert_eq!(super::whole(framing, &whole[..whole.len() - 1]), None);
        }
    }
}
