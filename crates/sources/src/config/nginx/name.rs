//! The server that answers requests for a host name, among the servers at one address.
//!
//! Implemented after nginx's `ngx_http_server_names()` (`src/http/ngx_http.c`) and
//! `src/core/ngx_hash.c`. The order of precedence is: exact name, longest leading wildcard, longest
//! trailing wildcard, first matching regular expression, default server.

use std::collections::HashMap;

use super::listen::Address;
use super::pattern::{MAX_TRIED, Match, search};
use super::tree::Directive;

/// The reason for which a server was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// The server is the only one at its address, so names are not compared.
    OnlyServer,
    /// The server has a name that equals the host.
    Exact(String),
    /// The server has a matching name that begins with `*.` or a dot.
    LeadingWildcard(String),
    /// The server has a matching name that ends with `.*`.
    TrailingWildcard(String),
    /// The server has a matching name that is a regular expression.
    Regex(String),
    /// No name matches, so the default server of the address answers.
    Default,
}

/// A server chosen by name.
#[derive(Debug)]
pub(crate) struct NameChoice {
    /// Index of the server.
    pub(crate) server: usize,
    pub(crate) by: NameMatch,
    /// Reasons why another server might have been chosen.
    pub(crate) doubts: Vec<String>,
}

/// The names of the servers at one address. A name belongs to the first server that declares it.
#[derive(Default)]
struct Names {
    exact: HashMap<Vec<u8>, usize>,
    /// Leading wildcards by their domain without the asterisk and the dot. Each has its name as
    /// written.
    leading: HashMap<Vec<u8>, (usize, String)>,
    /// Trailing wildcards by their prefix without the dot and the asterisk.
    trailing: HashMap<Vec<u8>, (usize, String)>,
    regexes: Vec<(Vec<u8>, usize)>,
}

/// Chooses among the servers of an address.
///
/// `host` is the `Host` header as sent, or empty without one. `hostname` is the value of
/// `$hostname`, if it is known.
pub(crate) fn choose(
    servers: &[&Directive],
    address: &Address<'_>,
    host: &str,
    hostname: Option<&str>,
) -> NameChoice {
    let default_server = address.default_server;
    let mut doubts = Vec::new();
    if address.servers.len() == 1 {
        return NameChoice {
            server: default_server,
            by: NameMatch::OnlyServer,
            doubts,
        };
    }
    let names = collect(servers, &address.servers, hostname, &mut doubts);
    let host = normalise(host);
    let found = find_literal(&names, &host);
    let (server, by) = found
        .or_else(|| find_regex(&names, &host, &mut doubts))
        .unwrap_or((default_server, NameMatch::Default));
    if matches!(by, NameMatch::Exact(_)) {
        doubts.clear();
    }
    NameChoice { server, by, doubts }
}

/// Returns the host in lower case, without the port and the final dot (`ngx_http_validate_host()`).
pub(crate) fn normalise(host: &str) -> Vec<u8> {
    let end = match host.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(bracket) => bracket + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    let name = &host[..end];
    name.strip_suffix('.')
        .unwrap_or(name)
        .to_ascii_lowercase()
        .into_bytes()
}

fn collect(
    servers: &[&Directive],
    candidates: &[usize],
    hostname: Option<&str>,
    doubts: &mut Vec<String>,
) -> Names {
    let mut names = Names::default();
    for &index in candidates {
        let Some(server) = servers.get(index) else {
            continue;
        };
        let mut is_named = false;
        for word in server.lines("server_name").flat_map(|line| &line.args) {
            is_named = true;
            let text = word.text();
            match (text.as_str(), hostname) {
                ("$hostname", Some(hostname)) => {
                    names.add(hostname.to_ascii_lowercase().as_bytes(), index);
                }
                ("$hostname", None) => {
                    doubts
                        .push("a server is named $hostname, whose value is not known here".into());
                }
                _ if text.starts_with('~') => names.regexes.push((word[1..].to_vec(), index)),
                _ => names.add(&word.to_ascii_lowercase(), index),
            }
        }
        if !is_named {
            names.add(b"", index);
        }
    }
    names
}

impl Names {
    /// Adds a name in lower case. A name that an earlier server has is ignored, as in nginx, which
    /// prints a warning.
    fn add(&mut self, name: &[u8], server: usize) {
        let written = || String::from_utf8_lossy(name).into_owned();
        if let Some(domain) = name.strip_prefix(b"*.") {
            let entry = (server, written());
            self.leading.entry(domain.to_vec()).or_insert(entry);
        } else if let Some(domain) = name.strip_prefix(b".") {
            // `.a.org` means `a.org` as well as `*.a.org`. If either of them is taken, nginx
            // ignores the name completely.
            if !self.exact.contains_key(domain) && !self.leading.contains_key(domain) {
                self.exact.insert(domain.to_vec(), server);
                self.leading.insert(domain.to_vec(), (server, written()));
            }
        } else if let Some(prefix) = name.strip_suffix(b".*") {
            let entry = (server, written());
            self.trailing.entry(prefix.to_vec()).or_insert(entry);
        } else {
            self.exact.entry(name.to_vec()).or_insert(server);
        }
    }
}

fn find_literal(names: &Names, host: &[u8]) -> Option<(usize, NameMatch)> {
    if let Some(server) = names.exact.get(host) {
        let name = String::from_utf8_lossy(host).into_owned();
        return Some((*server, NameMatch::Exact(name)));
    }
    let dots = || (0..host.len()).filter(|at| host[*at] == b'.');
    // The search goes from left to right, so the longest domain matches first.
    if let Some((server, name)) = dots().find_map(|at| names.leading.get(&host[at + 1..])) {
        return Some((*server, NameMatch::LeadingWildcard(name.clone())));
    }
    // The search goes from right to left, so the longest prefix matches first.
    let (server, name) = dots()
        .rev()
        .find_map(|at| names.trailing.get(&host[..at]))?;
    Some((*server, NameMatch::TrailingWildcard(name.clone())))
}

fn find_regex(names: &Names, host: &[u8], doubts: &mut Vec<String>) -> Option<(usize, NameMatch)> {
    for (number, (pattern, server)) in names.regexes.iter().enumerate() {
        if number == MAX_TRIED {
            doubts.push(
                "there are too many regular expressions in server names; not all were \
                         tried"
                    .into(),
            );
            break;
        }
        let written = || format!("~{}", String::from_utf8_lossy(pattern));
        match search(pattern, host, true) {
            Match::Yes => return Some((*server, NameMatch::Regex(written()))),
            Match::No => {}
            Match::Unknown(why) => doubts.push(format!(
                "the server name {} was not evaluated: {why}",
                written()
            )),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn hosts_lose_port_case_and_final_dot() {
        let table = [
            ("Example.COM", "example.com"),
            ("example.com:8080", "example.com"),
            ("example.com.", "example.com"),
            ("example.com.:80", "example.com"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("", ""),
        ];
        for (host, expected) in table {
            assert_eq!(normalise(host), expected.as_bytes(), "{host}");
        }
    }
}
