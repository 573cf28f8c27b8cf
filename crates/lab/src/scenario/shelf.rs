//! The scenarios that travel inside the program: one file each in the repository's `lab/`.

/// Name and text of each file.
macro_rules! shelf {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../../lab/", $name, ".toml")))),*]
    };
}

/// Every shipped scenario, in the order in which a person should meet them.
pub(super) const FILES: &[(&str, &str)] = shelf![
    "nagle-delayed-ack",
    "nagle-delayed-ack-vlan",
    "healthy-vlan",
    "case-on-lossy-path",
    "nagle-write-write-read",
    "short-delayed-ack",
    "server-think",
    "server-pause",
    "nodelay-off-one-segment",
    "nodelay-off-elsewhere",
    "nopush",
    "fin-closed",
    "connection-refused",
    "firewall-drop",
    "firewall-reset",
    "firewall-prohibited",
    "syn-loss",
    "time-wait-clash",
    "port-exhaustion",
    "defer-accept",
    "defer-accept-harmless",
    "fast-open-black-hole",
    "neighbour-resolution",
    "closes-at-once",
    "never-answers",
    "garbage",
    "tls-on-plain-port",
    "tls-healthy",
    "tls-resumed",
    "tls-round-trips",
    "tls-round-trips-hello-retry",
    "tls-large-certificate",
    "tls-slow-handshake",
    "tls-record-buffering",
    "dns-healthy",
    "dns-retry",
    "dns-parallel-query-loss",
    "dns-search-list",
    "dns-slow-resolver",
    "dns-tcp-fallback",
    "ipv6-fallback",
    "ipv6-fallback-in-turn",
    "http-error",
    "packet-loss",
    "path-queueing",
];
