//! The request that probes and loads send, and its bytes in HTTP/1.1.
//!
//! Input: a method, header fields and a body, which may contain placeholders. Output: the bytes for
//! a URL. The fields are sent in curl's order: `Host`, the given ones, `Content-Length`, and the
//! fields that describe the body.

mod method;
mod template;

use core::fmt;
use std::borrow::Cow;

pub use method::Method;
pub use template::{Placeholders, check_placeholders};

use crate::url::Url;
use template::Draw;

/// The value of lagtrace's own `User-Agent` field.
pub const AGENT: &str = concat!("lagtrace/", env!("CARGO_PKG_VERSION"));

/// A request, without its URL.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Value of the `Host` field in place of the URL's authority; if empty, there is no such field.
    pub host: Option<String>,
    /// Other header fields in the form `Name: value`, in the order in which they are sent.
    pub fields: Vec<String>,
    /// The body; `None` if there is none, so that no `Content-Length` is sent either.
    pub body: Option<Vec<u8>>,
    /// Header fields that come after `Content-Length`.
    pub body_fields: Vec<String>,
    /// True for a call of gRPC, whose outcome is its `grpc-status`.
    pub is_grpc: bool,
    /// The state of the placeholders, which all copies share.
    pub placeholders: Placeholders,
}

impl Default for Request {
    /// A `GET` that identifies lagtrace.
    fn default() -> Self {
        Self {
            method: Method::GET,
            host: None,
            fields: vec![format!("User-Agent: {AGENT}"), "Accept: */*".to_owned()],
            body: None,
            body_fields: Vec::new(),
            is_grpc: false,
            placeholders: Placeholders::default(),
        }
    }
}

impl fmt::Debug for Request {
    /// Writes no field and no body, because they can be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("fields", &self.fields.len())
            .field("body_len", &self.body.as_ref().map(Vec::len))
            .finish_non_exhaustive()
    }
}

impl Request {
    /// Returns true if the requests for `url` differ, because placeholders stand for other values
    /// in each.
    pub fn varies(&self, url: &Url) -> bool {
        let fields = self.fields.iter().chain(&self.body_fields);
        let mut texts = fields.map(String::as_bytes).chain([url.path().as_bytes()]);
        texts.any(template::has_placeholder)
            || self
                .host
                .as_deref()
                .is_some_and(|host| template::has_placeholder(host.as_bytes()))
            || self.body.as_deref().is_some_and(template::has_placeholder)
    }

    /// Returns the request for `url` with new values of its placeholders, and its path.
    pub(crate) fn drawn(&self, url: &Url) -> (Self, String) {
        let mut draw = self.placeholders.draw();
        let mut text = |text: &str| fill_text(&mut draw, text);
        let path = text(url.path());
        let host = self.host.as_deref().map(&mut text);
        let fields = self.fields.iter().map(|field| text(field)).collect();
        let body_fields = self.body_fields.iter().map(|field| text(field)).collect();
        let body = self.body.as_deref().map(|body| draw.fill(body));
        let drawn = Self {
            method: self.method.clone(),
            host,
            fields,
            body,
            body_fields,
            is_grpc: self.is_grpc,
            placeholders: self.placeholders.clone(),
        };
        (drawn, path)
    }

    /// Returns the bytes of the request for `url` in HTTP/1.1. If `closes` is true, it is the last
    /// one on its connection, whatever its own fields say.
    pub(crate) fn http1(&self, url: &Url, closes: bool) -> Vec<u8> {
        if self.varies(url) {
            let (drawn, path) = self.drawn(url);
            return drawn.http1_for(url, &path, closes);
        }
        self.http1_for(url, url.path(), closes)
    }

    fn http1_for(&self, url: &Url, path: &str, closes: bool) -> Vec<u8> {
        let mut head = format!("{} {path} HTTP/1.1\r\n", self.method);
        let host = self.host.clone().unwrap_or_else(|| url.authority());
        let body = self.body.as_deref();
        let length = body.filter(|_| self.field("content-length").is_none());
        let is_kept = |field: &&String| !closes || !is_named(field, "connection");
        let own = [
            (!host.is_empty()).then(|| format!("Host: {host}")),
            closes.then(|| "Connection: close".to_owned()),
        ];
        let [host, close] = own;
        let length = length.map(|body| format!("Content-Length: {}", body.len()));
        let given = self
            .fields
            .iter()
            .filter(is_kept)
            .map(|field| Cow::from(field.as_str()));
        let of_body = self
            .body_fields
            .iter()
            .map(|field| Cow::from(field.as_str()));
        let own = |field: Option<String>| field.map(Cow::from);
        let lines = own(host)
            .into_iter()
            .chain(given)
            .chain(own(length))
            .chain(of_body);
        for line in lines.chain(own(close)) {
            head.push_str(&line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }

    /// Returns the value of the first field with this name, which must be in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut all = self.fields.iter().chain(&self.body_fields);
        let found = all.find(|field| is_named(field, name))?;
        found.split_once(':').map(|(_, value)| value.trim())
    }
}

/// Returns true if a header field in the form `Name: value` has this name.
pub(crate) fn is_named(field: &str, name: &str) -> bool {
    let given = field.split(':').next().unwrap_or_default();
    given.trim().eq_ignore_ascii_case(name)
}

fn fill_text(draw: &mut Draw, text: &str) -> String {
    // Placeholders and what replaces them are ASCII, so a text stays a text.
    String::from_utf8_lossy(&draw.fill(text.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request, closes: bool) -> String {
        let url: Url = "http://shop.example:8080/a?b={seq}".parse().expect("a URL");
        String::from_utf8(request.http1(&url, closes)).expect("text")
    }

    #[test]
    fn a_request_identifies_its_sender_and_says_how_long_it_is() {
        let plain = text(&Request::default(), false);
        let want = format!(
            "GET /a?b=1 HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: {AGENT}\r\n\
             Accept: */*\r\n\r\n"
        );
        assert_eq!(plain, want);
        let order = Request {
            method: Method::POST,
            host: Some("other".to_owned()),
            fields: vec!["X-A:1".to_owned()],
            body: Some(b"{}".to_vec()),
            body_fields: vec!["Content-Type: application/json".to_owned()],
            ..Request::default()
        };
        assert_eq!(
            text(&order, false),
            "POST /a?b=1 HTTP/1.1\r\nHost: other\r\nX-A:1\r\nContent-Length: 2\r\n\
             Content-Type: application/json\r\n\r\n{}"
        );
        let empty = Request {
            body: Some(Vec::new()),
            ..Request::default()
        };
        assert!(text(&empty, false).contains("Content-Length: 0"));
    }

    #[test]
    fn the_last_request_of_a_connection_says_so_whatever_was_given() {
        let mut kept = Request::default();
        kept.fields.push("connection: keep-alive".to_owned());
        let text = text(&kept, true);
        assert!(text.ends_with("\r\nConnection: close\r\n\r\n"), "{text}");
        assert!(!text.contains("keep-alive"), "{text}");
    }

    #[test]
    fn lengths_are_of_what_is_sent() {
        let drawn = Request {
            body: Some(b"{\"id\":\"{uuid}\",\"n\":{rand:100:999}}".to_vec()),
            fields: vec!["X-N: {seq}".to_owned()],
            ..Request::default()
        };
        let (first, second) = (text(&drawn, false), text(&drawn.clone(), false));
        assert!(first.contains("X-N: 1\r\n") && second.contains("X-N: 2\r\n"));
        for text in [first, second] {
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            assert!(
                head.contains(&format!("Content-Length: {}", body.len())),
                "{text}"
            );
        }
    }

    #[test]
    fn no_secret_is_in_what_a_panic_prints() {
        let mut secret = Request::default();
        secret
            .fields
            .push("Authorization: Bearer s3cret".to_owned());
        secret.body = Some(b"s3cret".to_vec());
        assert!(!format!("{secret:?}").contains("s3cret"));
    }
}
