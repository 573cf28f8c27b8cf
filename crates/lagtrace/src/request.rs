//! The HTTP request that `diagnose`, `load` and `probe` send, with curl's options.
//!
//! Options from the command line and those of a curl command become one [`Options`], before the
//! process is confined. From them comes one request, which all steps of a command send.

mod adopt;
mod body;
mod consent;
mod curl;
mod fields;
mod form;
pub(crate) mod help;
mod named;
mod pieces;
mod place;
pub(crate) mod redirect;
mod secrets;
mod shell;
mod tables;
mod userinfo;

use std::path::{Path, PathBuf};

use clap::Args;
use lagtrace_sources::request::{Method, Placeholders, Request};
use lagtrace_sources::tls::Carried;
use lagtrace_sources::url::Url;

pub(crate) use consent::USUAL_COUNT;
use pieces::{Piece, Pieces};
pub(crate) use place::{Place, Way};
pub(crate) use secrets::blank;

use crate::failure::{Failure, Result};

/// The number of redirects that are followed by default, as by curl.
const MOST_REDIRECTS: u16 = 50;

/// The request.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Request")]
#[group(skip)]
pub(crate) struct Options {
    /// The method; default: GET, or POST with a body
    #[arg(short = 'X', long = "request", id = "verb", value_name = "METHOD")]
    pub(super) method: Option<String>,
    /// Use HEAD, so that no body is sent back
    #[arg(short = 'I', long)]
    pub(super) head: bool,
    /// A header field, in place of lagtrace's own of that name; `NAME:` leaves it out, and @FILE
    /// has one on each line
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
    #[command(flatten)]
    pub(super) pieces: Pieces,
    /// Send FILE as the body, as --data-binary @FILE does, but without a type
    #[arg(long, value_name = "FILE")]
    pub(super) body: Option<PathBuf>,
    /// Send the data as the query of the URL, with GET
    #[arg(short = 'G', long)]
    pub(super) get: bool,
    /// Call gRPC: the URL ends in /PACKAGE.SERVICE/METHOD, and FILE has the encoded message; the
    /// deadline is --timeout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["get", "head", "body"])]
    pub(super) grpc: Option<PathBuf>,
    #[command(flatten)]
    pub(super) sender: Sender,
    #[command(flatten)]
    pub(super) answer: Answer,
    #[command(flatten)]
    pub(crate) way: Way,
    /// Take URL and request from a curl command, as browsers copy it (bash or cmd): the command
    /// itself, @FILE or @-. HTTP/1.1 is used, unless the command says --http2
    #[arg(long, value_name = "COMMAND")]
    pub(super) from_curl: Option<String>,
    /// Repeat a request that may change something: methods other than GET, HEAD and OPTIONS. {seq},
    /// {uuid} and {rand:FIRST:LAST} in URL, header fields and body differ in each request
    #[arg(short = 'y', long)]
    pub(super) yes: bool,
    /// True if the options are those of a curl command.
    #[arg(skip)]
    pub(super) is_curl: bool,
}

/// Who sends the request.
#[derive(Clone, Default, Args)]
#[command(next_help_heading = "Request")]
#[group(skip)]
pub(crate) struct Sender {
    /// Identify by name and password (HTTP Basic)
    #[arg(short, long, value_name = "NAME:PASSWORD")]
    pub(super) user: Option<String>,
    /// Identify by this token (HTTP Bearer)
    #[arg(long, value_name = "TOKEN", conflicts_with = "user")]
    pub(super) oauth2_bearer: Option<String>,
    /// Cookies to send with each request, as NAME=VALUE; NAME=VALUE
    #[arg(short = 'b', long, value_name = "COOKIES")]
    pub(super) cookie: Vec<String>,
    /// The User-Agent field; if empty, there is none
    #[arg(short = 'A', long, value_name = "NAME")]
    pub(super) user_agent: Option<String>,
    /// The Referer field
    #[arg(short = 'e', long, value_name = "URL")]
    pub(super) referer: Option<String>,
    /// The Range field, of bytes
    #[arg(long, value_name = "FIRST-LAST")]
    pub(super) range: Option<String>,
    /// Accept compressed responses
    #[arg(long)]
    pub(super) compressed: bool,
}

impl std::fmt::Debug for Sender {
    /// Writes no value, because it can be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

/// What the response is to be.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Request")]
#[group(skip)]
pub(crate) struct Answer {
    /// Follow redirects first, with single requests, and measure the last place
    #[arg(short = 'L', long)]
    pub(crate) location: bool,
    /// Maximum number of redirects to follow; default: 50
    #[arg(long, value_name = "N")]
    pub(crate) max_redirs: Option<u16>,
    /// Statuses of a success, such as 201 or 200,404; all others count as failures
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(100..=599))]
    pub(crate) expect_status: Vec<u16>,
}

impl Answer {
    /// Returns the maximum number of redirects to follow.
    fn most_redirects(&self) -> u16 {
        self.max_redirs.unwrap_or(MOST_REDIRECTS)
    }
}

/// The request of a command, and what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub(crate) request: Request,
    /// Data that become the end of each URL's query.
    query: Option<String>,
}

impl Settled {
    /// Returns the URL with the data that belong to it.
    pub(crate) fn url(&self, url: Url) -> Result<Url> {
        let Some(query) = &self.query else {
            return Ok(url);
        };
        let mark = if url.path().contains('?') { "&" } else { "?" };
        let text = format!("{url}{mark}{query}");
        let hint = "--data-urlencode encodes what a URL cannot contain";
        text.parse()
            .map_err(|error| Failure::from(error).hint(hint))
    }
}

impl Options {
    /// Returns true if the options are those of a curl command.
    pub(crate) fn is_curl(&self) -> bool {
        self.is_curl
    }

    /// Returns true if an option asks for a request.
    pub(crate) fn is_given(&self) -> bool {
        let content = !self.pieces.0.is_empty() || self.body.is_some() || self.grpc.is_some();
        let sender = &self.sender;
        content
            || self.method.is_some()
            || self.head
            || self.get
            || !self.headers.is_empty()
            || !sender.cookie.is_empty()
            || [
                &sender.user,
                &sender.oauth2_bearer,
                &sender.user_agent,
                &sender.referer,
            ]
            .into_iter()
            .any(Option::is_some)
            || sender.compressed
            || self.way.is_http2()
            || self.way.unix_socket.is_some()
    }

    /// Makes the request.
    pub(crate) fn settle(&self, timeout: std::time::Duration) -> Result<Settled> {
        let body = match &self.grpc {
            Some(path) => Some(self.framed(path)?),
            None => self.content()?,
        };
        let method = self.verb(body.is_some())?;
        let (query, body) = match body {
            Some(body) if self.get => (Some(as_query(&body.bytes)), None),
            body => (None, body),
        };
        let lines = self.header_lines()?;
        let made = fields::Fields::of(self, &lines, body.as_ref(), timeout)?;
        let bytes = body.map(|body| body.bytes);
        // Only curl sends such a method without any length.
        let is_empty = !self.is_curl && method.has_content();
        let request = Request {
            host: made.host,
            fields: made.fields,
            body: bytes.or(is_empty.then(Vec::new)),
            body_fields: made.body_fields,
            is_grpc: self.grpc.is_some(),
            method,
            placeholders: Placeholders::default(),
        };
        Ok(Settled { request, query })
    }

    /// Returns the protocol that the request asks for.
    pub(crate) fn carried(&self) -> Carried {
        if self.is_http2() {
            Carried::Http2
        } else {
            Carried::Http1
        }
    }

    /// Returns true if the request is sent by HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.way.is_http2() || self.grpc.is_some()
    }

    /// Returns the ports that requests connect to, given those of the URLs; `None` if they are not
    /// known before the first answer.
    pub(crate) fn ports(&self, of_urls: Option<Vec<u16>>) -> Option<Vec<u16>> {
        let of_urls = of_urls.filter(|_| !self.answer.location)?;
        Some(of_urls.into_iter().chain(self.way.ports()).collect())
    }

    /// Returns the files that the request reads.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let headers = self
            .headers
            .iter()
            .filter_map(|header| header.strip_prefix('@'));
        let headers = headers.filter(|name| *name != "-").map(PathBuf::from);
        let pieces = self.pieces.0.iter().filter_map(body::files_of);
        let files = self.body.iter().chain(&self.grpc).cloned();
        files.chain(headers).chain(pieces).collect()
    }

    /// Returns the body that the options give.
    fn content(&self) -> Result<Option<body::Body>> {
        let Some(path) = &self.body else {
            return body::of(&self.pieces.0);
        };
        if !self.pieces.0.is_empty() {
            let told = "--body and --data cannot make one body together";
            return Err(Failure::new(told).hint("--data-binary @FILE can be joined with others"));
        }
        let mut named = b"@".to_vec();
        named.extend_from_slice(path.as_os_str().as_encoded_bytes());
        let body = body::of(&[Piece::Binary(named)])?;
        Ok(body.map(|body| body::Body {
            kind: String::new(),
            ..body
        }))
    }

    /// Returns the message in gRPC's frame: not compressed, and its length.
    fn framed(&self, path: &Path) -> Result<body::Body> {
        if !self.pieces.0.is_empty() {
            let told = "--grpc FILE is the whole body";
            return Err(Failure::new(told).hint("leave out --data, --json and --form"));
        }
        let message = named::read(path)?;
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![0];
        bytes.extend(length.to_be_bytes());
        bytes.extend(message);
        Ok(body::Body {
            bytes,
            kind: "application/grpc".to_owned(),
            is_json: false,
            is_form: false,
        })
    }

    fn verb(&self, has_body: bool) -> Result<Method> {
        if self.head && has_body && !self.get {
            let told = "HEAD has no body, and the options give one";
            return Err(Failure::new(told).hint("leave out --head (-I), or add --get (-G)"));
        }
        let Some(name) = &self.method else {
            return Ok(if self.head {
                Method::HEAD
            } else if has_body && !self.get {
                Method::POST
            } else {
                Method::GET
            });
        };
        Method::of(name).ok_or_else(|| {
            let told = format!("`{name}` is not a method that lagtrace can send");
            Failure::new(told).hint("write it as in a request line, such as GET, POST or PURGE")
        })
    }

    /// Returns the lines of all header fields, those of files too.
    fn header_lines(&self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for header in &self.headers {
            let Some(name) = header.strip_prefix('@') else {
                lines.push(header.clone());
                continue;
            };
            let text = named::read(Path::new(name))?;
            let text = String::from_utf8(text)
                .map_err(|_| Failure::new(format!("{name} is not text in UTF-8")))?;
            let of_file = text.lines().map(str::to_owned);
            lines.extend(of_file.filter(|line| !line.trim().is_empty()));
        }
        Ok(lines)
    }
}

/// Returns data as a query: what is not ASCII is percent-encoded, as by curl.
fn as_query(bytes: &[u8]) -> String {
    let mut query = String::new();
    let mut encoded = 0;
    for &byte in bytes {
        match byte {
            b'%' => encoded = 3,
            _ => encoded = usize::saturating_sub(encoded, 1),
        }
        match byte {
            0x80.. => query.push_str(&format!("%{byte:02x}")),
            hex if encoded > 0 => query.push(hex.to_ascii_lowercase().into()),
            plain => query.push(plain.into()),
        }
    }
    query
}

#[cfg(test)]
mod tests;
