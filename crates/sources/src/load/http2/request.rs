//! The request of a lane as a field section (RFC 7541). Nothing is put into the dynamic table, so
//! that the section is the same for every request.

use std::sync::Arc;

use crate::load::plan::{Lane, Method, Plan};
use crate::url::Url;

/// A request's fields and body.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::load) struct Request {
    pub(super) section: Vec<u8>,
    pub(super) body: Vec<u8>,
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

impl Request {
    /// Returns the requests of `lane` in a run of `plan`, one for each URL.
    pub(in crate::load) fn all_of(plan: &Plan, lane: &Lane) -> Arc<[Self]> {
        let urls = plan.urls_of(lane).into_iter();
        urls.map(|url| Self::of(lane, url)).collect()
    }

    /// Returns the request of `lane` for `url`.
    pub(super) fn of(lane: &Lane, url: &Url) -> Self {
        let target = &lane.target;
        let given: Vec<(String, &str)> = target
            .fields
            .iter()
            .filter_map(|field| field.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
            .collect();
        let value_of = |name: &str| {
            given
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, value)| *value)
        };
        let own_authority = url.authority();
        let authority = value_of("host").unwrap_or(&own_authority);
        let mut section = Vec::new();
        match target.method {
            Method::Get => section.push(0x82),
            Method::Post => section.push(0x83),
            other => literal(&mut section, ":method", other.as_str()),
        }
        section.push(if url.is_tls() { 0x87 } else { 0x86 });
        literal(&mut section, ":authority", authority);
        literal(&mut section, ":path", url.path());
        let length = target.body.len().to_string();
        let own = [
            (
                "user-agent",
                Some(concat!("lagtrace/", env!("CARGO_PKG_VERSION"))),
            ),
            ("accept", Some("*/*")),
            (
                "content-length",
                (!target.body.is_empty()).then_some(length.as_str()),
            ),
        ];
        for (name, value) in own {
            if let (Some(value), None) = (value, value_of(name)) {
                literal(&mut section, name, value);
            }
        }
        for (name, value) in &given {
            if !LEFT_OUT.contains(&name.as_str()) {
                literal(&mut section, name, value);
            }
        }
        Self {
            section,
            body: target.body.clone(),
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
