//! HTTP/1.x message boundaries (RFC 9112), incrementally and tolerantly.
//!
//! In come a direction's contiguous bytes, where captured, and the count of
//! those that were not; out come the beginnings, heads and ends of messages.
//! It knows nothing of packets, times or the other direction.

use memchr::memchr;

use crate::protocol::{Step, skip};

/// Longest head that is kept; a longer one is no HTTP worth reading.
const MAX_HEAD: usize = 64 * 1024;
/// Longest request target kept for the report.
const MAX_TARGET: usize = 256;
/// Header fields parsed at most.
const MAX_FIELDS: usize = 100;

/// Which messages a direction carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Request,
    Response,
}

/// What a head says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// `GET /path` for a request.
    pub(crate) request: Option<RequestLine>,
    /// The status of a response.
    pub(crate) status: Option<u16>,
    /// `Connection: close`, or HTTP/1.0 without keep-alive.
    pub(crate) asks_to_close: bool,
    /// What else of it a rule asks for.
    pub(crate) fields: Fields,
    /// Its body is what a certificate's validity rests on (RFC 6960 §4.2,
    /// RFC 5280 §4.2.1.13, RFC 2585 §4).
    pub(crate) is_revocation: bool,
    /// Another protocol's reply says that the request failed.
    pub(crate) is_error: bool,
    /// `Upgrade: h2c` (RFC 7540 §3.2): after a 101 HTTP/2 is spoken.
    pub(crate) upgrades_to_http2: bool,
}

/// The fields of a head that are evidence rather than framing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// `Expect: 100-continue` (RFC 9110 §10.1.1).
    pub(crate) expects_continue: bool,
    /// [`fingerprint`] of what a redirect's `Location` names; `None` without
    /// one, or where it is relative to the request.
    pub(crate) location: Option<u64>,
    /// The body has a content coding and no known length: it is encoded while
    /// it is sent (RFC 9110 §8.4).
    pub(crate) is_encoded_on_the_fly: bool,
}

/// The request's first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestLine {
    pub(crate) method: String,
    pub(crate) target: String,
    /// [`fingerprint`] of the whole target.
    pub(crate) fingerprint: u64,
}

/// FNV-1a of a request target: enough to tell whether a redirect was followed.
pub(crate) fn fingerprint(target: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    target.bytes().fold(BASIS, mix)
}

/// The request target that a `Location` leads to: its path and query, without
/// scheme, authority and fragment (RFC 9110 §10.2.2).
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

/// The messages of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    role: Role,
    state: State,
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between messages: stray CRLF are skipped (RFC 9112 §2.2).
    Between,
    Head,
    /// This many body bytes are to come.
    Length(u64),
    /// Collecting a chunk-size line in `head`.
    ChunkSize,
    /// This many bytes of a chunk and its CRLF are to come.
    Chunk(u64),
    /// Collecting the trailer section in `head`.
    Trailer,
    /// The body lasts until the connection closes.
    UntilClose,
    /// The message's end is due.
    Ending,
    Lost,
}

impl Messages {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            state: State::Between,
            head: Vec::new(),
        }
    }

    /// Begins afresh at a message's first byte.
    pub(crate) fn reset(&mut self) {
        self.state = State::Between;
        self.head = Vec::new();
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Body bytes that the message in progress has announced and that are still
    /// to come, where its length was given.
    pub(crate) fn awaited_bytes(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Whether the message in progress ends with the connection.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.state == State::UntilClose
    }

    /// The response whose head was just read has no body: it answers `HEAD`.
    pub(crate) fn no_body(&mut self) {
        self.state = State::Ending;
    }

    /// Goes on with `bytes`, the captured part at their front used up step by
    /// step; `missing` uncaptured bytes follow them.
    pub(crate) fn step(&mut self, bytes: &mut &[u8], missing: &mut u64) -> Step {
        loop {
            match self.state {
                State::Lost => {
                    *bytes = &[];
                    *missing = 0;
                    return Step::NeedMore;
                }
                State::Ending => {
                    self.state = State::Between;
                    return Step::Ended;
                }
                _ if bytes.is_empty() && *missing == 0 => return Step::NeedMore,
                State::UntilClose => {
                    *bytes = &[];
                    *missing = 0;
                }
                State::Length(left) => {
                    let left = skip(left, bytes, missing);
                    self.state = if left == 0 {
                        State::Ending
                    } else {
                        State::Length(left)
                    };
                }
                State::Chunk(left) => {
                    let left = skip(left, bytes, missing);
                    self.state = if left == 0 {
                        State::ChunkSize
                    } else {
                        State::Chunk(left)
                    };
                }
                _ if bytes.is_empty() => return self.lose(),
                State::Between => {
                    if let Some(step) = self.begin(bytes) {
                        return step;
                    }
                }
                State::Head => {
                    if let Some(step) = self.read_head(bytes) {
                        return step;
                    }
                }
                State::ChunkSize => {
                    if !self.read_chunk_size(bytes) {
                        return self.lose();
                    }
                }
                State::Trailer => {
                    if !self.read_trailer(bytes) {
                        return self.lose();
                    }
                }
            }
        }
    }

    fn lose(&mut self) -> Step {
        self.state = State::Lost;
        self.head = Vec::new();
        Step::Lost
    }

    fn begin(&mut self, bytes: &mut &[u8]) -> Option<Step> {
        let stray = bytes
            .iter()
            .take_while(|&&byte| byte == b'\r' || byte == b'\n')
            .count();
        *bytes = bytes.get(stray..).unwrap_or_default();
        if bytes.is_empty() {
            return None;
        }
        if !begins_message(self.role, bytes) {
            return Some(self.lose());
        }
        self.head.clear();
        self.state = State::Head;
        Some(Step::Began)
    }

    /// Takes bytes up to the head's empty line.
    fn read_head(&mut self, bytes: &mut &[u8]) -> Option<Step> {
        while let Some(newline) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(newline + 1);
            *bytes = rest;
            self.head.extend_from_slice(line);
            if self.head.len() > MAX_HEAD {
                return Some(self.lose());
            }
            if self.head.ends_with(b"\r\n\r\n") || self.head.ends_with(b"\n\n") {
                return Some(self.finish_head());
            }
        }
        self.head.extend_from_slice(bytes);
        *bytes = &[];
        (self.head.len() > MAX_HEAD).then(|| self.lose())
    }

    fn finish_head(&mut self) -> Step {
        let head = core::mem::take(&mut self.head);
        let parsed = match self.role {
            Role::Request => parse_request(&head),
            Role::Response => parse_response(&head),
        };
        self.head = head;
        self.head.clear();
        match parsed {
            Some((head, state)) => {
                self.state = state;
                Step::Head(head)
            }
            None => self.lose(),
        }
    }

    /// Reads `chunk-size [ext] CRLF` (RFC 9112 §7.1), and the CRLF before it.
    fn read_chunk_size(&mut self, bytes: &mut &[u8]) -> bool {
        let Some(line) = self.take_line(bytes) else {
            return self.head.len() <= MAX_TARGET;
        };
        let size = line
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        if size.is_empty() || size.len() > 16 {
            return false;
        }
        let Some(size) = core::str::from_utf8(size)
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        else {
            return false;
        };
        // The chunk's own CRLF counts with it.
        self.state = match size {
            0 => State::Trailer,
            size => State::Chunk(size.saturating_add(2)),
        };
        true
    }

    fn read_trailer(&mut self, bytes: &mut &[u8]) -> bool {
        let Some(line) = self.take_line(bytes) else {
            return self.head.len() <= MAX_HEAD;
        };
        if line.trim_ascii().is_empty() {
            self.state = State::Ending;
        }
        true
    }

    /// One line with its newline, or `None` with what there was put by.
    fn take_line(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let Some(newline) = memchr(b'\n', bytes) else {
            self.head.extend_from_slice(bytes);
            *bytes = &[];
            return None;
        };
        let (line, rest) = bytes.split_at(newline + 1);
        *bytes = rest;
        self.head.extend_from_slice(line);
        Some(core::mem::take(&mut self.head))
    }
}

/// Whether `bytes` may begin a message: a known method, or `HTTP/`.
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
        Role::Request => METHODS.iter().any(|method| agrees(method)),
        Role::Response => agrees(b"HTTP/1."),
    }
}

fn parse_request(head: &[u8]) -> Option<(Head, State)> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    request.parse(head).ok()?;
    let framing = Framing::of(request.headers);
    let line = RequestLine {
        method: request.method.unwrap_or_default().to_owned(),
        target: request
            .path
            .unwrap_or_default()
            .chars()
            .take(MAX_TARGET)
            .collect(),
        fingerprint: fingerprint(request.path.unwrap_or_default()),
    };
    let state = match framing {
        Framing {
            is_chunked: true, ..
        } => State::ChunkSize,
        Framing {
            length: Some(length),
            ..
        } if length > 0 => State::Length(length),
        _ => State::Ending,
    };
    let asks_to_close = framing.closes(request.version);
    let fields = Fields {
        expects_continue: framing.expects_continue,
        ..Fields::default()
    };
    Some((
        Head {
            request: Some(line),
            status: None,
            asks_to_close,
            fields,
            is_revocation: framing.is_revocation,
            upgrades_to_http2: framing.upgrades_to_http2,
            is_error: false,
        },
        state,
    ))
}

fn parse_response(head: &[u8]) -> Option<(Head, State)> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(head).ok()?;
    let status = response.code?;
    let framing = Framing::of(response.headers);
    // RFC 9112 §6.3: which responses have a body, and how it ends.
    let state = match (status, &framing) {
        (100..200 | 204 | 304, _) => State::Ending,
        (
            _,
            Framing {
                is_chunked: true, ..
            },
        ) => State::ChunkSize,
        (
            _,
            Framing {
                length: Some(0), ..
            },
        ) => State::Ending,
        (
            _,
            Framing {
                length: Some(length),
                ..
            },
        ) => State::Length(*length),
        _ => State::UntilClose,
    };
    let asks_to_close = framing.closes(response.version);
    let fields = Fields {
        location: framing.location,
        is_encoded_on_the_fly: framing.is_encoded && framing.length.is_none(),
        ..Fields::default()
    };
    Some((
        Head {
            request: None,
            status: Some(status),
            asks_to_close,
            fields,
            is_revocation: framing.is_revocation,
            upgrades_to_http2: framing.upgrades_to_http2,
            is_error: false,
        },
        state,
    ))
}

/// The fields that decide where a message ends, and those that are evidence.
#[derive(Debug, Default)]
struct Framing {
    is_chunked: bool,
    length: Option<u64>,
    says_close: bool,
    says_keep_alive: bool,
    expects_continue: bool,
    is_encoded: bool,
    location: Option<u64>,
    is_revocation: bool,
    upgrades_to_http2: bool,
}

impl Framing {
    fn of(fields: &[httparse::Header<'_>]) -> Self {
        let mut framing = Self::default();
        for field in fields {
            let value = core::str::from_utf8(field.value).unwrap_or_default().trim();
            if field.name.eq_ignore_ascii_case("content-length") {
                framing.length = value.parse().ok();
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                framing.is_chunked = has_token(value, "chunked");
            } else if field.name.eq_ignore_ascii_case("upgrade") {
                framing.upgrades_to_http2 = has_token(value, "h2c");
            } else if field.name.eq_ignore_ascii_case("content-type") {
                const TYPES: [&str; 3] = [
                    "application/ocsp-response",
                    "application/pkix-crl",
                    "application/pkix-cert",
                ];
                framing.is_revocation = TYPES.contains(&value);
            } else if field.name.eq_ignore_ascii_case("connection") {
                framing.says_close = has_token(value, "close");
                framing.says_keep_alive = has_token(value, "keep-alive");
            } else if field.name.eq_ignore_ascii_case("expect") {
                framing.expects_continue = value.eq_ignore_ascii_case("100-continue");
            } else if field.name.eq_ignore_ascii_case("content-encoding") {
                framing.is_encoded = !value.eq_ignore_ascii_case("identity");
            } else if field.name.eq_ignore_ascii_case("location") {
                framing.location = target_of(value).map(fingerprint);
            }
        }
        framing
    }

    fn closes(&self, version: Option<u8>) -> bool {
        self.says_close || (version == Some(0) && !self.says_keep_alive)
    }
}

fn has_token(list: &str, token: &str) -> bool {
    list.split(',')
        .any(|item| item.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `input` cut at `cuts` and lists the steps as short words.
    fn steps(role: Role, input: &[u8], cuts: &[usize]) -> Vec<String> {
        let mut messages = Messages::new(role);
        let mut words = Vec::new();
        let mut from = 0;
        for to in cuts.iter().copied().chain([input.len()]) {
            let (mut bytes, mut missing) = (&input[from..to], 0);
            loop {
                match messages.step(&mut bytes, &mut missing) {
                    Step::NeedMore | Step::Http2(_) | Step::Tls(_) => break,
                    Step::Began => words.push("began".into()),
                    Step::Ended => words.push("ended".into()),
                    Step::Lost => words.push("lost".into()),
                    Step::Head(head) => words.push(match head.request {
                        Some(line) => format!("{} {}", line.method, line.target),
                        None => format!("{}", head.status.expect("a response has a status")),
                    }),
                }
            }
            from = to;
        }
        words
    }

    const RESPONSES: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nT: v\r\n\r\n\
        HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn messages_end_where_their_framing_says() {
        let words = steps(Role::Response, RESPONSES, &[]);
        let expected = [
            "began", "200", "ended", "began", "204", "ended", "began", "200", "ended", "began",
            "404", "ended",
        ];
        assert_eq!(words, expected);
        let requests =
            b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
        let words = steps(Role::Request, requests, &[]);
        assert_eq!(
            words,
            ["began", "GET /a", "ended", "began", "POST /b", "ended"]
        );
    }

    #[test]
    fn a_location_leads_to_the_target_that_is_asked_for_next() {
        let cases = [
            ("/home/?q=1#top", Some("/home/?q=1")),
            ("https://example.org/a/b", Some("/a/b")),
            ("https://example.org", Some("/")),
            ("//example.org/c", Some("/c")),
            ("next.html", None),
        ];
        for (location, target) in cases {
            assert_eq!(target_of(location), target, "{location}");
        }
    }

    #[test]
    fn heads_tell_what_rules_ask_for() {
        let mut messages = Messages::new(Role::Request);
        let head = |messages: &mut Messages, mut bytes: &[u8]| {
            let mut missing = 0;
            loop {
                match messages.step(&mut bytes, &mut missing) {
                    Step::Head(head) => return head.fields,
                    Step::NeedMore | Step::Lost => panic!("no head"),
                    _ => {}
                }
            }
        };
        let request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nexpect: 100-Continue\r\n\r\n";
        assert!(head(&mut messages, request).expects_continue);
        let mut messages = Messages::new(Role::Response);
        let response = b"HTTP/1.1 302 Found\r\nLocation: http://a/b\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(
            head(&mut messages, response).location,
            Some(fingerprint("/b"))
        );
        let mut messages = Messages::new(Role::Response);
        let response =
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(head(&mut messages, response).is_encoded_on_the_fly);
    }

    #[test]
    fn every_cut_gives_the_same_steps() {
        let whole = steps(Role::Response, RESPONSES, &[]);
        for cut in 0..RESPONSES.len() {
            assert_eq!(
                steps(Role::Response, RESPONSES, &[cut]),
                whole,
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn uncaptured_body_bytes_are_counted_and_uncaptured_heads_lose_the_thread() {
        let mut messages = Messages::new(Role::Response);
        let (mut bytes, mut missing) = (
            &b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc"[..],
            997,
        );
        let mut words = Vec::new();
        loop {
            match messages.step(&mut bytes, &mut missing) {
                Step::NeedMore => break,
                step => words.push(step),
            }
        }
        assert_eq!(words.last(), Some(&Step::Ended));
        let (mut bytes, mut missing) = (&b"HTTP/1.1 200 OK\r\nContent-Le"[..], 20);
        assert_eq!(messages.step(&mut bytes, &mut missing), Step::Began);
        assert_eq!(messages.step(&mut bytes, &mut missing), Step::Lost);
    }

    #[test]
    fn other_bytes_are_lost_at_once() {
        assert_eq!(
            steps(Role::Response, b"\x16\x03\x01\x02\x00", &[]),
            ["lost"]
        );
        assert_eq!(steps(Role::Request, b"EHLO x\r\n", &[]), ["lost"]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut with_start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            with_start.extend_from_slice(&input);
            steps(Role::Response, &with_start, &[]);
            steps(Role::Response, &input, &[]);
            steps(Role::Request, &input, &[]);
        }
    }
}
