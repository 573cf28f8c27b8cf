//! Boundaries of HTTP/1.x messages (RFC 9112), found incrementally and tolerantly.
//!
//! The input is one direction's captured bytes in order, and the number of bytes that were not
//! captured. The output is the beginnings, heads and ends of messages. The parser does not see
//! packets, times or the other direction.

mod head;
mod messages;
mod repeated;
pub(crate) mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::reply_error::ReplyError;
pub(crate) use head::is_stream;
pub(crate) use messages::Messages;

/// Maximum number of characters of a request target that are kept for the report.
const MAX_TARGET: usize = 256;

/// The kind of messages in a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Request,
    Response,
}

/// Content of a message's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Method and target of a request, such as `GET /path`.
    pub(crate) request: Option<RequestLine>,
    /// Status of a response.
    pub(crate) status: Option<u16>,
    /// True for `Connection: close`, or HTTP/1.0 without keep-alive.
    pub(crate) asks_to_close: bool,
    /// The fields that rules use as evidence.
    pub(crate) fields: Fields,
    /// True if the body is an OCSP response, a revocation list or a certificate (RFC 6960 §4.2, RFC
    /// 5280 §4.2.1.13, RFC 2585 §4).
    pub(crate) is_revocation: bool,
    /// The error that a reply of a protocol other than HTTP reports.
    pub(crate) error: Option<ReplyError>,
    /// True for `Upgrade: h2c` (RFC 7540 §3.2): after a 101 the connection continues with HTTP/2.
    pub(crate) upgrades_to_http2: bool,
}

/// The fields of a head that serve as evidence and do not affect framing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// True for `Expect: 100-continue` (RFC 9110 §10.1.1).
    pub(crate) expects_continue: bool,
    /// [`fingerprint`] of the target in a redirect's `Location`. `None` without this field, or if
    /// it is relative to the request.
    pub(crate) location: Option<u64>,
    /// True if the body has a content encoding and no known length: the server encodes it while
    /// sending it (RFC 9110 §8.4).
    pub(crate) is_encoded_on_the_fly: bool,
    /// True if the body is an event stream, whose parts are sent when events occur.
    pub(crate) is_stream: bool,
}

/// The first line of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestLine {
    /// Method, and target if there is one. Shared, because most requests repeat an earlier one.
    pub(crate) text: Arc<str>,
    /// True for `HEAD`, whose response has no body (RFC 9110 §9.3.2).
    pub(crate) is_head: bool,
    /// [`fingerprint`] of the whole target; 0 if the protocol is not HTTP.
    pub(crate) fingerprint: u64,
    /// The [`origin`] that the request names. 0 if it names none, or if the request goes to a
    /// proxy.
    pub(crate) origin: u64,
}

impl RequestLine {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        let mut text = String::with_capacity(method.len() + 1 + target.len());
        text.push_str(method);
        text.push(' ');
        text.push_str(target);
        Self {
            text: text.trim_end().into(),
            is_head: method == "HEAD",
            fingerprint: 0,
            origin: 0,
        }
    }
}

/// Returns the FNV-1a hash of a request target. It serves to recognize that a client followed a
/// redirect.
pub(crate) fn fingerprint(target: &[u8]) -> u64 {
    fingerprint_of(target.iter().copied())
}

fn fingerprint_of(bytes: impl Iterator<Item = u8>) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

/// Returns the [`fingerprint`] of an origin's name, without regard to case and an explicit default
/// port. Clients reuse a connection only for the same origin.
pub(crate) fn origin(name: &[u8]) -> u64 {
    let name = name.strip_suffix(b":80").unwrap_or(name);
    let name = name.strip_suffix(b":443").unwrap_or(name);
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() {
        0
    } else {
        fingerprint_of(name.iter().map(u8::to_ascii_lowercase))
    }
}

/// Returns the request target to which a `Location` leads: its path and query, without scheme,
/// authority and fragment (RFC 9110 §10.2.2).
fn target_of(location: &str) -> Option<&str> {
    let location = location.split('#').next().unwrap_or_default();
    let authority = match location.find("://") {
        Some(at) => Some(location.get(at + 3..)?),
        None => location.strip_prefix("//"),
    };
    match authority {
        Some(rest) => Some(rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")),
        None => location.starts_with('/').then_some(location),
    }
}

/// Maximum length of a method in bytes. The longest registered one has 17 letters.
const MAX_METHOD: usize = 24;

/// Returns true if `bytes` may begin a message. A response begins with `HTTP/1.` or a prefix of it.
/// A request begins with a known method, a prefix of one, or a request line that names HTTP's
/// version.
pub(crate) fn begins_message(role: Role, bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] = [
        b"GET ",
        b"POST ",
        b"HEAD ",
        b"PUT ",
        b"DELETE ",
        b"OPTIONS ",
        b"PATCH ",
        b"CONNECT ",
        b"TRACE ",
    ];
    let agrees = |start: &[u8]| bytes.iter().zip(start).all(|(a, b)| a == b);
    match role {
        Role::Request => METHODS.iter().any(|method| agrees(method)) || is_request_line(bytes),
        Role::Response => agrees(b"HTTP/1."),
    }
}

/// Returns true if `bytes` begin with a method, a target and HTTP's version (RFC 9112 §3). The
/// version distinguishes unknown methods from other text that begins with capitals.
fn is_request_line(bytes: &[u8]) -> bool {
    let in_method = |byte: &&u8| byte.is_ascii_uppercase() || **byte == b'-';
    let method = bytes.iter().take(MAX_METHOD + 1).take_while(in_method);
    let method = method.count();
    let Some([b' ', rest @ ..]) = bytes.get(method..) else {
        return false;
    };
    let target = rest.iter().take_while(|byte| byte.is_ascii_graphic());
    let target = target.count();
    let is_version = |rest: &[u8]| rest.starts_with(b" HTTP/1.");
    (1..=MAX_METHOD).contains(&method) && target > 0 && rest.get(target..).is_some_and(is_version)
}

/// Returns the first line of a request whose head was cut off. A target that does not end in
/// `bytes` is completed with `…`.
pub(crate) fn cut_request(bytes: &[u8]) -> Option<RequestLine> {
    if !begins_message(Role::Request, bytes) {
        return None;
    }
    let mut words = bytes.splitn(3, |&byte| byte == b' ');
    let method = core::str::from_utf8(words.next()?).ok()?;
    let target = words.next().filter(|target| !target.is_empty())?;
    let is_whole = words.next().is_some();
    // The cut may also be inside a character.
    let text = String::from_utf8_lossy(target);
    let kept = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let is_plain = |c: char| c > ' ' && c != '\u{7f}';
    if kept.is_empty() || !kept.chars().all(is_plain) {
        return None;
    }
    let kept: String = kept.chars().take(MAX_TARGET).collect();
    let ending = if is_whole { "" } else { "…" };
    Some(RequestLine::new(method, &format!("{kept}{ending}")))
}

/// Returns the status of a response whose head was cut off. `None` for an interim response, because
/// another response follows it (RFC 9110 §15.2).
pub(crate) fn cut_status(bytes: &[u8]) -> Option<u16> {
    let rest = bytes.strip_prefix(b"HTTP/1.")?;
    let code = match rest {
        [b'0' | b'1', b' ', code @ ..] => code.get(..3)?,
        _ => return None,
    };
    let code = core::str::from_utf8(code).ok()?.parse().ok()?;
    (200..600).contains(&code).then_some(code)
}

/// The end of a message's body (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// At the head's end, because there is no body.
    Empty,
    /// After this number of bytes.
    Length(u64),
    /// At the last chunk.
    Chunked,
    /// At the end of the connection.
    UntilClose,
}
