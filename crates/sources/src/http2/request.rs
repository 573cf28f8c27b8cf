//! A request as a field section (RFC 7541). Nothing is put into the dynamic table, so that the
//! section is the same for every request.

use crate::request::{Method, Request};
use crate::url::Url;

/// A request's fields and body.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(super) section: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// True for a call of gRPC.
    pub(super) is_grpc: bool,
    /// The request, if placeholders vary it.
    varied: Option<(Request, Url)>,
}

/// Fields that are left out: those that concern a connection, not a request (RFC 9113 §8.2.2), and
/// `Host`, which `:authority` replaces.
const LEFT_OUT: [&str; 6] = [
    "connection",
    "host",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

impl Encoded {
    /// Encodes `request` for `url`.
    pub(crate) fn of(request: &Request, url: &Url) -> Self {
        Self {
            varied: request.varies(url).then(|| (request.clone(), url.clone())),
            ..Self::with_path(request, url, url.path())
        }
    }

    /// Returns the next request, if it differs from others.
    pub(super) fn own(&self) -> Option<Self> {
        let (request, url) = self.varied.as_ref()?;
        let (drawn, path) = request.drawn(url);
        Some(Self::with_path(&drawn, url, &path))
    }

    fn with_path(request: &Request, url: &Url, path: &str) -> Self {
        let mut section = Vec::new();
        match &request.method {
            method if *method == Method::GET => section.push(0x82),
            method if *method == Method::POST => section.push(0x83),
            other => literal(&mut section, ":method", other.as_str()),
        }
        section.push(if url.is_tls() { 0x87 } else { 0x86 });
        let host = request.host.clone().filter(|host| !host.is_empty());
        literal(&mut section, ":authority", &host.unwrap_or(url.authority()));
        literal(&mut section, ":path", path);
        let body = request.body.as_deref();
        let length = body.filter(|_| request.field("content-length").is_none());
        let length = length.map(|body| format!("content-length: {}", body.len()));
        let fields = request
            .fields
            .iter()
            .chain(&length)
            .chain(&request.body_fields);
        for (name, value) in fields.filter_map(|field| field.split_once(':')) {
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            if !LEFT_OUT.contains(&name.as_str()) {
                literal(&mut section, &name, value);
            }
        }
        Self {
            section,
            body: body.unwrap_or_default().to_vec(),
            is_grpc: request.is_grpc,
            varied: None,
        }
    }

    #[cfg(feature = "fuzzing")]
    pub(super) fn with_body(len: usize) -> Self {
        Self {
            section: vec![0x82, 0x86, 0x84],
            body: vec![b'x'; len],
            is_grpc: len > 0,
            varied: None,
        }
    }
}

/// Appends a literal field that is not indexed (§6.2.2). Its name is a literal too, and there is no
/// Huffman coding.
fn literal(section: &mut Vec<u8>, name: &str, value: &str) {
    section.push(0);
    for text in [name, value] {
        length(section, text.len());
        section.extend_from_slice(text.as_bytes());
    }
}

/// Appends a length, encoded as an integer with a seven-bit prefix (§5.1).
fn length(section: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return section.push(length as u8);
    }
    section.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        section.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    section.push(rest as u8);
}
