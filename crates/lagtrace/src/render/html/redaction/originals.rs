//! Reading of the fields that contain originals.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::Place;
use super::labels::Labels;
use super::scan;

/// Notes the originals in all fields of a document.
pub(super) fn read(labels: &mut Labels, document: &Value) {
    let mut ends = Ends::default();
    walk(document, Place::default(), &mut |place, text| {
        ends.read(place, text);
        note(labels, place, text);
    });
    labels.set_clients(ends.clients.difference(&ends.servers).copied().collect());
}

/// The addresses of clients and of servers.
#[derive(Default)]
struct Ends {
    clients: BTreeSet<IpAddr>,
    servers: BTreeSet<IpAddr>,
}

impl Ends {
    fn read(&mut self, place: Place<'_>, text: &str) {
        let ends = match place.field {
            "client" => &mut self.clients,
            "server" | "service" | "target" => &mut self.servers,
            _ => return,
        };
        ends.extend(text.parse::<SocketAddr>().map(|end| end.ip()));
    }
}

/// Calls `see` with each text in a value and its place.
fn walk<'a>(value: &'a Value, place: Place<'a>, see: &mut impl FnMut(Place<'a>, &str)) {
    match value {
        Value::String(text) => see(place, text),
        Value::Array(items) => items.iter().for_each(|item| walk(item, place, see)),
        Value::Object(fields) => {
            for (field, value) in fields {
                walk(value, place.within(field), see);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Notes the original in a field, if it contains one that has to be found in other texts too.
fn note(labels: &mut Labels, place: Place<'_>, text: &str) {
    match (place.field, place.around) {
        ("name", "hops" | "addresses") | ("as_name", _) => labels.host(text),
        ("name", "holders" | "peer") | ("owner", "sockets") | ("programs", _) => {
            labels.program(text);
        }
        ("program", "configuration" | "sockets") => labels.program(text),
        ("target", "probes" | "route") => labels.host(text),
        ("capture" | "client_capture" | "server_capture", _) => labels.file(text),
        ("container" | "cgroup" | "unix_socket", _) => labels.file(text),
        ("local" | "remote", "live") if text.parse::<SocketAddr>().is_err() => labels.file(text),
        ("set_at" | "location" | "where", _) => file_and_line(labels, text),
        ("subject", _) => url(labels, text),
        ("url", _) => url(labels, text),
        ("request", _) => request(labels, text),
        _ => {}
    }
}

/// Notes the file of `FILE:LINE`. An address with a port looks alike, and so does a word for a
/// party.
fn file_and_line(labels: &mut Labels, text: &str) {
    let Some((file, line)) = text.rsplit_once(':') else {
        return;
    };
    let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    if is_line && file.contains(['/', '.']) && text.parse::<SocketAddr>().is_err() {
        labels.file(file);
    }
}

/// Notes the host of a URL: other texts name it without the rest.
fn url(labels: &mut Labels, text: &str) {
    let Some((_, rest)) = text.split_once("://") else {
        return;
    };
    let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
    labels.host(authority.rsplit('@').next().unwrap_or_default());
}

/// Notes the target of a request if it would not be found as a path. A single plain word could not
/// be told from any other word of a text.
fn request(labels: &mut Labels, text: &str) {
    let Some((_, rest)) = text.split_once(' ') else {
        return;
    };
    let is_word = rest.chars().all(|c| c.is_ascii_alphabetic());
    if !is_word && !scan::is_whole_path(rest) {
        labels.target(rest);
    }
}
