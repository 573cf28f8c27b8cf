//! The first word, if it is not a command: a URL, a host, a port, a file, or another tool.

use std::net::IpAddr;
use std::path::Path;

use lagtrace_core::registry::Id;
use lagtrace_sources::files::{self, Kind};

use super::typed::Typed;
use super::{answer, tools};
use crate::failure::Result;

/// The ends of the names of captures.
const CAPTURES: &[&str] = &[
    ".pcap", ".pcapng", ".cap", ".snoop", ".dmp", ".gz", ".zst", ".lz4",
];
/// The ends of the names of reports.
const REPORTS: &[&str] = &[".json", ".json.gz"];
/// The ports at which services speak TLS.
const TLS: &[u16] = &[443, 8443];

/// Puts the command before the word that is meant, or answers what to type.
pub(super) fn settle(typed: &mut Typed<'_>) -> Result<()> {
    let Some(word) = typed.word().map(str::to_owned) else {
        return Ok(());
    };
    if typed.has_command() {
        return Ok(());
    }
    if let Some(instead) = tools::instead(&word, &typed.rest()) {
        return Err(answer(
            format!("`{word}` is not a command of lagtrace"),
            instead,
        ));
    }
    if word.contains("://") {
        typed.begin_with("diagnose");
    } else if word == "-" || is_file(&word) {
        let is_report = REPORTS.iter().any(|end| word.ends_with(end));
        typed.begin_with(if is_report { "view" } else { "analyze" });
    } else if let Some(port) = port(&word) {
        let url = url(&format!("localhost:{port}"), port);
        return Err(answer(
            format!("`{word}` alone is not a command"),
            format!("sudo lagtrace watch -p {port}, or with load: lagtrace diagnose {url}"),
        ));
    } else if word.parse::<Id>().is_ok() {
        let instead = format!("lagtrace explain {word}");
        return Err(answer(
            format!("`{word}` is a cause, not a command"),
            instead,
        ));
    } else if let Some(port) = port_of_host(&word) {
        typed.replace_word(url(&word, port));
        typed.begin_with("diagnose");
    } else if is_host(&word) {
        return Err(answer(
            format!("`{word}` alone is not a command"),
            format!(
                "lagtrace probe {word}, lagtrace route {word}, or with load: lagtrace diagnose \
                 http://{word}/"
            ),
        ));
    }
    Ok(())
}

/// Returns true for a file, or for a name that can only be one.
fn is_file(word: &str) -> bool {
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    files::kind(Path::new(word)) != Kind::Unknown || ends(CAPTURES) || ends(REPORTS)
}

/// Reads `8080` or `:8080`.
fn port(word: &str) -> Option<u16> {
    let digits = word.strip_prefix(':').unwrap_or(word);
    digits.parse().ok().filter(|port| *port > 0)
}

/// Returns the port of `HOST:PORT`, with or without a path, or of `HOST/PATH`.
fn port_of_host(word: &str) -> Option<u16> {
    let (authority, path) = match word.split_once('/') {
        Some((authority, _)) => (authority, true),
        None => (word, false),
    };
    match authority.rsplit_once(':') {
        Some((host, port)) if is_name(host) => port.parse().ok().filter(|port| *port > 0),
        _ => (path && is_host(authority)).then_some(80),
    }
}

fn is_name(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match inner {
        Some(address) => address.parse::<IpAddr>().is_ok(),
        None => !host.is_empty() && host.chars().all(is_allowed),
    }
}

/// Returns true for an address, `localhost`, or a name with a dot.
fn is_host(word: &str) -> bool {
    let has_dot = word.trim_matches('.').contains('.') && is_name(word);
    has_dot || word == "localhost" || word.parse::<IpAddr>().is_ok()
}

/// Returns the URL of `HOST[:PORT][/PATH]`.
fn url(word: &str, port: u16) -> String {
    let scheme = if TLS.contains(&port) { "https" } else { "http" };
    let path = if word.contains('/') { "" } else { "/" };
    format!("{scheme}://{word}{path}")
}
