//! Heads of messages (RFC 9112 §3 to §6): the first line, the fields that determine where a message
//! ends, and the fields that serve as evidence.

use core::mem::MaybeUninit;

use httparse::{Request, Response, Status};

use super::{Framing, Head, MAX_TARGET, RequestLine, Role, fingerprint, origin, target_of};

/// Maximum number of header fields per head.
const MAX_FIELDS: usize = 100;

/// Content types of OCSP responses, certificate revocation lists and certificates.
const REVOCATIONS: [&[u8]; 3] = [
    b"application/ocsp-response",
    b"application/pkix-crl",
    b"application/pkix-cert",
];

/// Content types of bodies whose parts are sent when events occur: server-sent events, camera
/// frames, watches with one event per line, and gRPC.
const STREAMS: [&[u8]; 6] = [
    b"text/event-stream",
    b"multipart/x-mixed-replace",
    b"application/x-ndjson",
    b"application/stream+json",
    b"application/json-seq",
    b"application/grpc",
];

/// Returns true if a body of this content type is sent in parts, when events occur.
pub(crate) fn is_stream(content_type: &[u8]) -> bool {
    let kind = content_type.split(|&byte| byte == b';').next();
    STREAMS.contains(&kind.unwrap_or_default().trim_ascii())
}

/// A head, the end of its body, and the length of the head in bytes.
pub(super) type Whole = (Head, Framing, usize);

/// Reads the head at the beginning of `bytes`, including its empty line. `None` if the empty line
/// is missing, or if this is not HTTP/1.x. Malformed field lines are skipped.
pub(super) fn read(role: Role, bytes: &[u8]) -> Option<Whole> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut config = httparse::ParserConfig::default();
    config.ignore_invalid_headers_in_requests(true);
    config.ignore_invalid_headers_in_responses(true);
    // Clients accept fields with such spaces too, even fields that determine the framing.
    config.allow_spaces_after_header_name_in_responses(true);
    let (mut request, mut response) = (Request::new(&mut []), Response::new(&mut []));
    let parsed = match role {
        Role::Request => config.parse_request_with_uninit_headers(&mut request, bytes, &mut fields),
        Role::Response => {
            config.parse_response_with_uninit_headers(&mut response, bytes, &mut fields)
        }
    };
    let Ok(Status::Complete(len)) = parsed else {
        return None;
    };
    let mut read = Reading {
        is_old: request.version.or(response.version) == Some(0),
        ..Reading::default()
    };
    read.head.status = response.code;
    if role == Role::Request {
        read.request_line(request.method?, request.path?);
    }
    let fields = request.headers.iter().chain(response.headers.iter());
    for field in fields {
        read.field(field.name.as_bytes(), field.value);
    }
    let (head, framing) = read.finish(role);
    Some((head, framing, len))
}

/// The content of the lines of a head that were read so far.
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
    fn request_line(&mut self, method: &str, target: &str) {
        let mut kept = target;
        if target.len() > MAX_TARGET
            && let Some((end, _)) = target.char_indices().nth(MAX_TARGET)
        {
            kept = target.get(..end).unwrap_or(target);
        }
        self.head.request = Some(RequestLine {
            fingerprint: fingerprint(target.as_bytes()),
            ..RequestLine::new(method, kept)
        });
        // A proxy receives requests for all origins on one connection (RFC 9112 §3.2.2).
        self.is_to_proxy = target.starts_with("http://");
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
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
                head.fields.is_stream = is_stream(value);
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
            // These responses have no body (RFC 9112 §6.3).
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

/// Returns the number in a string of digits; `None` if it has other characters (RFC 9110 §8.6).
fn number(digits: &[u8]) -> Option<u64> {
    let append = |number: u64, digit: &u8| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        let digit = Some(digit).filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit)
    };
    let number = digits.iter().try_fold(0, append);
    number.filter(|_| !digits.is_empty())
}

/// Returns true if `text` equals `word` when case is ignored; `word` is in lower case.
#[inline]
fn is<const N: usize>(text: &[u8], word: &[u8; N]) -> bool {
    let case = |letter: u8| u8::from(letter.is_ascii_lowercase()) << 5;
    let agrees = |(byte, letter): (&u8, &u8)| byte | case(*letter) == *letter;
    // The compiler compares arrays of the same known length many bytes at a time.
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

/// Iterates over the elements of a list in a field's value (RFC 9110 §5.6.1).
fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}
