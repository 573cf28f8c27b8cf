//! Words that are not redacted: those of lagtrace itself, of the kernel, and of known programs.

use super::Place;

/// Fields with words of closed vocabularies, most of them written by lagtrace itself.
const CLOSED: [&str; 58] = [
    "bearing",
    "by",
    "cause",
    "causes",
    "caveats",
    "cells",
    "certainty",
    "cipher",
    "command",
    "congestion",
    "culprit",
    "direction",
    "directive",
    "experiment",
    "fate",
    "figure",
    "flags",
    "how",
    "id",
    "judgement",
    "kind",
    "known_by",
    "layer",
    "limit",
    "made_by",
    "measured_by",
    "mechanism",
    "method",
    "option_order",
    "outcome",
    "over",
    "owners",
    "part",
    "phase",
    "place",
    "protocol",
    "recovery",
    "result",
    "says",
    "sender",
    "shape",
    "shows",
    "side",
    "sorted_by",
    "stage",
    "stamp",
    "started",
    "state",
    "status",
    "type",
    "unit",
    "vantage",
    "verdict",
    "verdict_after",
    "verdict_before",
    "version",
    "wait",
    "why",
];

/// Words with which texts of lagtrace speak of the parties.
const OWN: [&str; 22] = [
    "any",
    "both",
    "client",
    "clients",
    "connection",
    "host",
    "kernel",
    "loopback",
    "network",
    "own",
    "packets",
    "path",
    "proxy",
    "request",
    "requests",
    "resolver",
    "response",
    "sender",
    "server",
    "servers",
    "standard input",
    "unknown",
];

/// Programs that many hosts run. Their names are in the advice.
const PROGRAMS: [&str; 27] = [
    "apache2",
    "beam.smp",
    "caddy",
    "docker-proxy",
    "dotnet",
    "envoy",
    "gunicorn",
    "haproxy",
    "httpd",
    "java",
    "lagtrace",
    "lagtrace-lab",
    "mariadbd",
    "memcached",
    "mysqld",
    "nginx",
    "node",
    "php-fpm",
    "postgres",
    "python",
    "python3",
    "redis-server",
    "ruby",
    "traefik",
    "uvicorn",
    "uwsgi",
    "waitress-serve",
];

/// Files of every Linux system.
const PATHS: [&str; 12] = [
    "/dev/cpu_dma_latency",
    "/etc/gai.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/systemd/resolved.conf",
    "/proc",
    "/proc/PID/cgroup",
    "/proc/PID/environ",
    "/proc/PID/ns/net",
    "/proc/net/softnet_stat",
    "/proc/stat",
];

/// The first parts of names with dots that are not names of hosts: kernel settings, fields of
/// Wireshark's display filters, files of control groups, directives.
const FIRST_PARTS: [&str; 21] = [
    "cpu", "dns", "frame", "fs", "http", "http2", "icmp", "icmpv6", "io", "ip", "ipv6", "kernel",
    "memory", "net", "quic", "tcp", "tls", "tune", "udp", "user", "vm",
];

/// Other words with dots that are not names of hosts.
const DOTTED: [&str; 14] = [
    "END.pcap",
    "apache2.conf",
    "app.ini",
    "beam.smp",
    "client.pcap",
    "gai.conf",
    "gunicorn.conf.py",
    "haproxy.cfg",
    "httpd.conf",
    "nginx.conf",
    "nsswitch.conf",
    "resolv.conf",
    "resolved.conf",
    "server.pcap",
];

/// Maximum length of a method.
const METHOD: usize = 24;

/// Returns true if a field contains words of a closed vocabulary.
pub(super) fn is_closed(place: Place<'_>) -> bool {
    match place.field {
        // The socket's program in one place, the owner of time in all others.
        "owner" => place.around != "sockets",
        // A list of kinds in findings; elsewhere objects, which are not texts.
        "waits" => true,
        // The name of a curve, and that of a counter.
        "name" => ["counters", "curves"].contains(&place.around),
        field => CLOSED.binary_search(&field).is_ok(),
    }
}

/// Returns true for a word of lagtrace's own texts.
pub(super) fn is_own(word: &str) -> bool {
    word.is_empty() || OWN.contains(&word)
}

/// Returns true for the name of a program that many hosts run. A name may end with a version, or
/// have a part after a colon or a slash, as those of workers do.
pub(super) fn is_known_program(name: &str) -> bool {
    let first = name.split([':', '/', ' ']).next().unwrap_or_default();
    let plain = first.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    [first, plain].iter().any(|name| PROGRAMS.contains(name))
}

/// Returns true for a file of every Linux system.
pub(super) fn is_known_path(path: &str) -> bool {
    let path = path.trim_end_matches(['.', ':']);
    PATHS.contains(&path) || path.starts_with("/proc/sys/") || path.starts_with("/sys/kernel/")
}

/// Returns true for a word with dots that is not the name of a host.
pub(super) fn is_known_dotted(word: &str) -> bool {
    let first = word.split('.').next().unwrap_or_default();
    DOTTED.contains(&word) || FIRST_PARTS.contains(&first)
}

/// Returns true for the method or command of a request: a short word.
pub(super) fn is_method(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
    word.len() <= METHOD && word.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns true if a schema is that of one or several words of a closed vocabulary.
    fn is_vocabulary(schema: &Value, all: &Value) -> bool {
        let inner = ["anyOf", "oneOf", "allOf"];
        let inner = inner
            .iter()
            .filter_map(|key| schema[key].as_array())
            .flatten();
        let named = schema["$ref"]
            .as_str()
            .and_then(|name| all.pointer(&name[1..]));
        let parts = inner.chain(named).chain(schema.get("items"));
        schema["enum"].is_array()
            || schema["const"].is_string()
            || parts.into_iter().any(|part| is_vocabulary(part, all))
    }

    /// If a word of a vocabulary were replaced, the document could not be read again: a hostile
    /// host's name could be such a word.
    #[test]
    fn fields_with_words_of_vocabularies_are_closed() {
        for text in [
            include_str!("../../../../../../schema/report-2.json"),
            include_str!("../../../../../../schema/comparison-1.json"),
            include_str!("../../../../../../schema/picture-1.json"),
        ] {
            let all: Value = serde_json::from_str(text).expect("the committed schema is JSON");
            let types = all["$defs"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, of)| of);
            for of in types.chain([&all]) {
                for (field, schema) in of["properties"].as_object().into_iter().flatten() {
                    let is_curve = field == "name" && of["properties"].get("points").is_some();
                    let around = if is_curve { "curves" } else { "" };
                    let is_one = is_vocabulary(schema, &all);
                    assert!(
                        !is_one || is_closed(Place { field, around }),
                        "{field} in {of:#}"
                    );
                }
            }
        }
    }

    #[test]
    fn lists_are_sorted() {
        assert!(CLOSED.is_sorted());
    }
}
