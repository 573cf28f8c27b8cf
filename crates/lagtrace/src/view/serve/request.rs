//! The requests that the server reads.

/// Maximum length of the head of a request.
pub(super) const MAX_HEAD: usize = 8 * 1024;
/// Maximum number of header fields.
const MAX_FIELDS: usize = 64;

/// The parts of a request that matter.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) host: String,
}

/// The reason that a request gets no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Not a request of HTTP/1.1, or one that names no host or several.
    Malformed,
    /// The head is too long.
    TooLong,
    /// The host is another one.
    Host,
    /// The method is not GET.
    Method,
    /// The connection is that of another user of this host.
    Reader,
    /// There is nothing at the path.
    Path,
    /// The capture cannot be read any more.
    Unreadable,
}

impl Refusal {
    /// Returns the status line without the version.
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Host => "421 Misdirected Request",
            Self::Method => "405 Method Not Allowed",
            Self::Reader => "403 Forbidden",
            Self::Path => "404 Not Found",
            Self::Unreadable => "500 Internal Server Error",
        }
    }
}

impl Request {
    /// Parses the head of a request.
    pub(super) fn parse(head: &[u8]) -> Result<Self, Refusal> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(Refusal::Malformed),
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLong),
            Err(_) => return Err(Refusal::Malformed),
        }
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Err(Refusal::Malformed);
        };
        let fields = request.headers.iter();
        let mut hosts = fields.filter(|field| field.name.eq_ignore_ascii_case("host"));
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Refusal::Malformed);
        };
        let host = str::from_utf8(host.value).map_err(|_| Refusal::Malformed)?;
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            host: host.to_owned(),
        })
    }
}
