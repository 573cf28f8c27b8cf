//! ClientHello and ServerHello (RFC 8446 §4.1, RFC 5246 §7.4.1, RFC 6066).

use super::{CLIENT_HELLO, SERVER_HELLO};
use crate::observed::side::Side;
use crate::protocol::http::fingerprint;

/// The random value that marks a ServerHello as a HelloRetryRequest: the SHA-256 of
/// "HelloRetryRequest" (RFC 8446 §4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// TLS 1.3 in a version field.
pub(crate) const TLS_1_3: u16 = 0x0304;
/// Maximum length in bytes of a server name that is kept (RFC 1035 §2.3.4).
const LONGEST_NAME: usize = 255;

/// Extensions that are read (IANA's registry of TLS ExtensionType values).
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const ALPN: u16 = 16;
    pub(super) const SESSION_TICKET: u16 = 35;
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const EARLY_DATA: u16 = 42;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    /// Next Protocol Negotiation, which was never standardised.
    pub(super) const NPN: u16 = 13_172;
}

/// Content of a hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The highest version offered (ClientHello), or the one chosen (ServerHello).
    pub(crate) version: u16,
    /// True for a HelloRetryRequest.
    pub(crate) is_retry: bool,
    /// True if the hello contains a session identifier, a ticket for resumption, or a pre-shared
    /// key that is offered or was chosen.
    pub(crate) resumes: bool,
    pub(crate) server_name: Option<String>,
    /// True if HTTP/2 is offered or chosen (ALPN).
    pub(crate) has_http2: bool,
    /// True if the hello names protocols to agree on (ALPN, or NPN before it), as for HTTP/2 and
    /// SPDY.
    pub(crate) has_agreement: bool,
    pub(crate) has_early_data: bool,
    /// Fingerprint of the cipher suites that the client offers; 0 for a ServerHello.
    pub(crate) suites: u64,
}

impl Hello {
    pub(super) fn parse(kind: u8, body: &[u8]) -> Option<Self> {
        match kind {
            CLIENT_HELLO => client(&mut Reader(body)),
            SERVER_HELLO => server(&mut Reader(body)),
            _ => None,
        }
    }

    fn extend(&mut self, mut extensions: Reader<'_>, by: Side) -> Option<()> {
        let is_client = by == Side::Client;
        while !extensions.0.is_empty() {
            let kind = extensions.u16()?;
            let mut body = Reader(extensions.vector(2)?);
            match kind {
                extension::SERVER_NAME if is_client => self.server_name = server_name(body),
                extension::ALPN => {
                    self.has_http2 = offers_http2(body);
                    self.has_agreement = true;
                }
                extension::NPN => self.has_agreement = true,
                extension::SESSION_TICKET if is_client => self.resumes |= !body.0.is_empty(),
                extension::PRE_SHARED_KEY => self.resumes = true,
                extension::EARLY_DATA => self.has_early_data = true,
                extension::SUPPORTED_VERSIONS if is_client => {
                    self.version = highest(Reader(body.vector(1)?)).unwrap_or(self.version);
                }
                extension::SUPPORTED_VERSIONS => self.version = body.u16()?,
                _ => {}
            }
        }
        Some(())
    }
}

fn client(body: &mut Reader<'_>) -> Option<Hello> {
    let mut hello = Hello {
        version: body.u16()?,
        ..Hello::default()
    };
    body.take(32)?;
    let has_session = !body.vector(1)?.is_empty();
    hello.suites = fingerprint(&suites(Reader(body.vector(2)?)));
    body.vector(1)?;
    if !body.0.is_empty() {
        hello.extend(Reader(body.vector(2)?), Side::Client)?;
    }
    // In TLS 1.3 the session identifier serves only compatibility with middleboxes (§D.4).
    hello.resumes |= has_session && hello.version < TLS_1_3;
    Some(hello)
}

fn server(body: &mut Reader<'_>) -> Option<Hello> {
    let mut hello = Hello {
        version: body.u16()?,
        ..Hello::default()
    };
    hello.is_retry = body.take(32)? == RETRY;
    body.vector(1)?;
    body.take(3)?;
    if !body.0.is_empty() {
        hello.extend(Reader(body.vector(2)?), Side::Server)?;
    }
    Some(hello)
}

/// Returns the first name of type `host_name` (RFC 6066 §3).
fn server_name(mut body: Reader<'_>) -> Option<String> {
    let mut list = Reader(body.vector(2)?);
    let kind = list.take(1)?;
    let name = list.vector(2)?;
    let is_name =
        kind == [0] && name.len() <= LONGEST_NAME && name.iter().all(u8::is_ascii_graphic);
    is_name.then(|| String::from_utf8_lossy(name).into_owned())
}

/// Returns true if the ALPN list contains `h2` (RFC 7301 §3.1).
fn offers_http2(mut body: Reader<'_>) -> bool {
    let Some(list) = body.vector(2) else {
        return false;
    };
    let mut list = Reader(list);
    core::iter::from_fn(|| list.vector(1)).any(|name| name == b"h2")
}

/// Returns the cipher suites without GREASE values (both bytes alike, low halves `a`), which a
/// client draws for each connection (RFC 8701 §2).
fn suites(mut list: Reader<'_>) -> Vec<u8> {
    let suites = core::iter::from_fn(|| list.u16());
    let is_grease = |suite: u16| suite & 0x0f0f == 0x0a0a && suite >> 8 == suite & 0xff;
    let offered = suites.filter(|&suite| !is_grease(suite));
    offered.flat_map(u16::to_be_bytes).collect()
}

/// Returns the highest version in a list. GREASE values are ignored: their high bytes differ (RFC
/// 8701).
fn highest(mut list: Reader<'_>) -> Option<u16> {
    core::iter::from_fn(|| list.u16())
        .filter(|version| version >> 8 == 3)
        .max()
}

/// The remaining bytes of a hello's body.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }

    /// Removes and returns a vector. It is preceded by its length, a number of `length_bytes`
    /// bytes.
    fn vector(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let length = self.take(length_bytes)?;
        let length = length
            .iter()
            .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(suites: &[u8]) -> u64 {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, u8::try_from(suites.len()).expect("a short list")]);
        body.extend(suites);
        body.extend([1, 0]);
        Hello::parse(CLIENT_HELLO, &body).expect("a hello").suites
    }

    #[test]
    fn suites_are_told_apart_without_what_a_client_draws() {
        let plain = offered(&[0x13, 1, 0x13, 2]);
        assert_eq!(offered(&[0x3a, 0x3a, 0x13, 1, 0x13, 2]), plain);
        assert_eq!(offered(&[0xfa, 0xfa, 0x13, 1, 0x13, 2]), plain);
        assert_ne!(offered(&[0x13, 1]), plain);
        assert_ne!(offered(&[0x3a, 0x4a, 0x13, 1, 0x13, 2]), plain);
    }
}
