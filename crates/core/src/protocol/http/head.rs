//! Heads of messages: the first line, the fields that determine where a message ends, and those
//! that serve as evidence (RFC 9112 §3 to §6).

use memchr::memchr;

use super::{Framing, Head, MAX_TARGET, RequestLine, Role, fingerprint, origin, target_of};

/// Maximum number of header fields per head.
const MAX_FIELDS: usize = 100;

/// Content types of bodies on which a certificate's validity depends.
const REVOCATIONS: [&[u8]; 3] = [
    b"application/ocsp-response",
    b"application/pkix-crl",
    b"application/pkix-cert",
];

/// Content types of bodies whose parts are sent as events occur (HTML's server-sent events, camera
/// frames, lines of watches, gRPC).
const STREAMS: [&[u8]; 6] = [
    b"text/event-stream",
    b"multipart/x-mixed-replace",
    b"application/x-ndjson",
    b"application/stream+json",
    b"application/json-seq",
    b"application/grpc",
];

/// A head, where its body ends, and the number of bytes in the head.
pub(super) type Whole = (Head, Framing, usize);

/// Reads the head at the beginning of `bytes`, including its empty line; `None` if the empty line
/// is missing, or if this is not HTTP/1.x.
pub(super) fn read(role: Role, bytes: &[u8]) -> Option<Whole> {
    let mut rest = bytes;
    let first = next_line(&mut rest)?;
    let mut read = Reading::default();
    match role {
        Role::Request => read.request_line(first)?,
        Role::Response => read.status_line(first)?,
    }
    for _ in 0..=MAX_FIELDS {
        if let [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] = rest {
            let (head, framing) = read.finish(role);
            return Some((head, framing, bytes.len() - after.len()));
        }
        read.field(&mut rest)?;
    }
    None
}

/// Removes and returns a line, without its line end.
#[inline]
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (line, after) = rest.split_at(memchr(b'\n', rest)?);
    *rest = after.get(1..).unwrap_or_default();
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Content of a head's lines so far.
#[derive(Debug, Default)]
struct Reading {
    head: Head,
    is_old: bool,
    is_chunked: bool,
    length: Option<u64>,
    says_close: bool,
    says_keep_alive: bool,
    is_encoded: bool,
    is_to_proxy: bool,
}

impl Reading {
    fn request_line(&mut self, line: &[u8]) -> Option<()> {
        let (method, rest) = line.split_at(token_len(line));
        let (target, version) = match rest {
            [b' ', rest @ ..] if !method.is_empty() => rest.split_at(memchr(b' ', rest)?),
            _ => return None,
        };
        let is_plain = |is: bool, byte: &u8| is & (*byte > b' ') & (*byte != 0x7f);
        if target.is_empty() || !target.iter().fold(true, is_plain) {
            return None;
        }
        self.version(version.get(1..)?)?;
        let begin = method.len() + 1;
        let text = core::str::from_utf8(line.get(..begin + target.len())?).ok()?;
        let mut kept = text;
        if target.len() > MAX_TARGET {
            // The method is ASCII.
            if let Some((end, _)) = text.char_indices().nth(begin + MAX_TARGET) {
                kept = text.get(..end)?;
            }
        }
        self.head.request = Some(RequestLine {
            text: kept.trim_end().to_owned(),
            is_head: method == b"HEAD",
            fingerprint: fingerprint(target),
            origin: 0,
        });
        // A proxy gets requests for all origins on one connection (RFC 9112 §3.2.2).
        self.is_to_proxy = target.starts_with(b"http://");
        Some(())
    }

    fn status_line(&mut self, line: &[u8]) -> Option<()> {
        let (version, rest) = line.split_at_checked(8)?;
        self.version(version)?;
        let &[b' ', a, b, c, ref reason @ ..] = rest else {
            return None;
        };
        if !matches!(reason, [] | [b' ', ..]) {
            return None;
        }
        let digits = [a, b, c].map(|digit| digit.wrapping_sub(b'0'));
        let is_code = digits.iter().all(|digit| *digit < 10);
        let code = || digits.iter().fold(0, |code, &d| code * 10 + u16::from(d));
        self.head.status = Some(is_code.then(code)?);
        Some(())
    }

    fn version(&mut self, version: &[u8]) -> Option<()> {
        match version {
            b"HTTP/1.1" => {}
            b"HTTP/1.0" => self.is_old = true,
            _ => return None,
        }
        Some(())
    }

    /// Removes a field line. Most are of no interest, which their length shows.
    #[inline]
    fn field(&mut self, rest: &mut &[u8]) -> Option<()> {
        let (name, after) = rest.split_at(token_len(rest));
        if name.is_empty() || after.first() != Some(&b':') {
            return None;
        }
        let value = next_line(rest)?.get(name.len() + 1..)?;
        if matches!(name.len(), 4 | 6..=8 | 10 | 12 | 14 | 16 | 17) {
            self.known_field(name, value.trim_ascii());
        }
        Some(())
    }

    fn known_field(&mut self, name: &[u8], value: &[u8]) {
        let head = &mut self.head;
        match name.len() {
            4 if is(name, b"host") && !self.is_to_proxy => {
                if let Some(request) = head.request.as_mut() {
                    request.origin = origin(value);
                }
            }
            6 if is(name, b"expect") => {
                head.fields.expects_continue = is(value, b"100-continue");
            }
            7 if is(name, b"upgrade") => head.upgrades_to_http2 = has_token(value, b"h2c"),
            8 if is(name, b"location") => {
                let target = core::str::from_utf8(value).ok().and_then(target_of);
                head.fields.location = target.map(|target| fingerprint(target.as_bytes()));
            }
            10 if is(name, b"connection") => {
                for item in items(value) {
                    self.says_close |= is(item, b"close");
                    self.says_keep_alive |= is(item, b"keep-alive");
                }
            }
            12 if is(name, b"content-type") => {
                head.is_revocation = REVOCATIONS.contains(&value);
                let kind = value.split(|&byte| byte == b';').next().unwrap_or_default();
                head.fields.is_stream = STREAMS.contains(&kind.trim_ascii());
            }
            14 if is(name, b"content-length") => self.length = number(value),
            16 if is(name, b"content-encoding") => {
                self.is_encoded = !is(value, b"identity");
            }
            17 if is(name, b"transfer-encoding") => self.is_chunked = has_token(value, b"chunked"),
            _ => {}
        }
    }

    fn finish(self, role: Role) -> (Head, Framing) {
        let mut head = self.head;
        head.asks_to_close = self.says_close || (self.is_old && !self.says_keep_alive);
        let length = match self.length {
            Some(0) => Framing::Empty,
            Some(length) => Framing::Length(length),
            None if role == Role::Request => Framing::Empty,
            None => Framing::UntilClose,
        };
        let framing = match head.status {
            // RFC 9112 §6.3: which responses have no body.
            Some(100..200 | 204 | 304) => Framing::Empty,
            _ if self.is_chunked => Framing::Chunked,
            _ => length,
        };
        match role {
            Role::Request => {
                head.fields.location = None;
                head.fields.is_stream = false;
            }
            Role::Response => {
                head.fields.expects_continue = false;
                head.fields.is_encoded_on_the_fly = self.is_encoded && self.length.is_none();
            }
        }
        (head, framing)
    }
}

/// Returns the length of the token (RFC 9110 §5.6.2) at the beginning of `bytes`.
#[inline]
fn token_len(bytes: &[u8]) -> usize {
    const TOKEN: [bool; 256] = token_bytes();
    let is_token = |byte: &u8| TOKEN.get(usize::from(*byte)) == Some(&true);
    let mut len = 0;
    // Four at a time, with one branch.
    for four in bytes.chunks_exact(4) {
        if !four.iter().fold(true, |is, byte| is & is_token(byte)) {
            break;
        }
        len += 4;
    }
    while bytes.get(len).is_some_and(is_token) {
        len += 1;
    }
    len
}

const fn token_bytes() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let letter = byte as u8;
        table[byte] = letter.is_ascii_alphanumeric()
            || matches!(
                letter,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.'
            )
            || matches!(letter, b'^' | b'_' | b'`' | b'|' | b'~');
        byte += 1;
    }
    table
}

/// Returns the value of a string that consists only of digits (RFC 9110 §8.6).
fn number(digits: &[u8]) -> Option<u64> {
    let append = |number: u64, digit: &u8| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        let digit = Some(digit).filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit)
    };
    let number = digits.iter().try_fold(0, append);
    number.filter(|_| !digits.is_empty())
}

/// Returns true if `text` equals `word`, which is in lower case, ignoring case.
#[inline]
fn is<const N: usize>(text: &[u8], word: &[u8; N]) -> bool {
    let case = |letter: u8| u8::from(letter.is_ascii_lowercase()) << 5;
    let agrees = |(byte, letter): (&u8, &u8)| byte | case(*letter) == *letter;
    // Arrays of one known length are compared many bytes at a time.
    let text: Result<&[u8; N], _> = text.try_into();
    text.is_ok_and(|text| {
        text.iter()
            .zip(word)
            .fold(true, |is, pair| is & agrees(pair))
    })
}

fn has_token<const N: usize>(list: &[u8], token: &[u8; N]) -> bool {
    items(list).any(|item| is(item, token))
}

/// Iterates over the members of a list (RFC 9110 §5.6.1).
fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}
