//! A whole head: its first line, the fields that say where its message ends,
//! and those that are evidence (RFC 9112 §3 to §6).

use memchr::memchr;

use super::{Framing, Head, MAX_TARGET, RequestLine, Role, fingerprint, target_of};

/// Header fields of one head at most.
const MAX_FIELDS: usize = 100;

/// Content types of what a certificate's validity rests on.
const REVOCATIONS: [&[u8]; 3] = [
    b"application/ocsp-response",
    b"application/pkix-crl",
    b"application/pkix-cert",
];

/// Where the head ends that `bytes` begin with: behind its empty line.
pub(super) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        let rest = bytes.get(end..)?;
        let newline = memchr(b'\n', rest)?;
        end += newline + 1;
        // An empty line comes behind another one.
        if newline == 0 || (newline == 1 && rest.first() == Some(&b'\r')) {
            return Some(end);
        }
    }
}

/// Reads a head up to its empty line; `None` where it is no HTTP/1.x.
pub(super) fn read(role: Role, head: &[u8]) -> Option<(Head, Framing)> {
    let mut rest = head;
    let first = next_line(&mut rest)?;
    let mut read = Reading::default();
    match role {
        Role::Request => read.request_line(first)?,
        Role::Response => read.status_line(first)?,
    }
    for _ in 0..=MAX_FIELDS {
        match next_line(&mut rest) {
            None | Some([]) => return Some(read.finish(role)),
            Some(line) => read.field(line)?,
        }
    }
    None
}

/// Takes a line off, without its end.
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (line, after) = rest.split_at(memchr(b'\n', rest)?);
    *rest = after.get(1..).unwrap_or_default();
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// What the lines of a head have said so far.
#[derive(Debug, Default)]
struct Reading {
    head: Head,
    is_old: bool,
    is_chunked: bool,
    length: Option<u64>,
    says_close: bool,
    says_keep_alive: bool,
    is_encoded: bool,
}

impl Reading {
    fn request_line(&mut self, line: &[u8]) -> Option<()> {
        let (method, rest) = line.split_at(memchr(b' ', line)?);
        let rest = rest.get(1..)?;
        let (target, version) = rest.split_at(memchr(b' ', rest)?);
        let is_plain = |byte: &u8| *byte > b' ' && *byte != 0x7f;
        let is_target = !target.is_empty() && target.iter().all(is_plain);
        if !is_target || !is_token(method) {
            return None;
        }
        self.version(version.get(1..)?)?;
        let (method, target) = (
            core::str::from_utf8(method).ok()?,
            core::str::from_utf8(target).ok()?,
        );
        let kept = match target.char_indices().nth(MAX_TARGET) {
            Some((end, _)) if target.len() > MAX_TARGET => target.get(..end)?,
            _ => target,
        };
        let mut line = RequestLine::new(method, kept);
        line.fingerprint = fingerprint(target);
        self.head.request = Some(line);
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

    /// Takes in a field line. Most are of no interest: their length says so.
    fn field(&mut self, line: &[u8]) -> Option<()> {
        let (name, value) = line.split_at(memchr(b':', line)?);
        if !is_token(name) {
            return None;
        }
        let value = || text(value.get(1..).unwrap_or_default());
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let head = &mut self.head;
        match name.len() {
            6 if is("expect") => {
                head.fields.expects_continue = value().eq_ignore_ascii_case("100-continue");
            }
            7 if is("upgrade") => head.upgrades_to_http2 = has_token(value(), "h2c"),
            8 if is("location") => head.fields.location = target_of(value()).map(fingerprint),
            10 if is("connection") => {
                self.says_close = has_token(value(), "close");
                self.says_keep_alive = has_token(value(), "keep-alive");
            }
            12 if is("content-type") => {
                head.is_revocation = REVOCATIONS.contains(&value().as_bytes());
            }
            14 if is("content-length") => self.length = value().parse().ok(),
            16 if is("content-encoding") => {
                self.is_encoded = !value().eq_ignore_ascii_case("identity");
            }
            17 if is("transfer-encoding") => self.is_chunked = has_token(value(), "chunked"),
            _ => {}
        }
        Some(())
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
            Role::Request => head.fields.location = None,
            Role::Response => {
                head.fields.expects_continue = false;
                head.fields.is_encoded_on_the_fly = self.is_encoded && self.length.is_none();
            }
        }
        (head, framing)
    }
}

/// A field's value; nothing of one that is no text.
fn text(value: &[u8]) -> &str {
    core::str::from_utf8(value).unwrap_or_default().trim()
}

/// Whether it is a name (RFC 9110 §5.6.2).
fn is_token(name: &[u8]) -> bool {
    const TOKEN: [bool; 256] = token_bytes();
    let is_token = |byte: &u8| TOKEN.get(usize::from(*byte)) == Some(&true);
    !name.is_empty() && name.iter().all(is_token)
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

fn has_token(list: &str, token: &str) -> bool {
    list.split(',')
        .any(|item| item.trim().eq_ignore_ascii_case(token))
}
