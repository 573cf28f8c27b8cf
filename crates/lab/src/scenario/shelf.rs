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
    "syn-loss",
    "closes-at-once",
    "never-answers",
    "garbage",
    "tls-on-plain-port",
    "http-error",
    "packet-loss",
    "packet-loss-burst",
    "packet-loss-to-server",
    "fast-retransmit",
    "tail-loss-probe",
    "retransmission-timeout",
    "lost-retransmission",
    "spurious-retransmission",
    "syn-loss-syn",
    "syn-loss-syn-ack",
    "reordering",
    "reordering-costly",
    "duplicate-packets",
    "policer",
    "path-queueing",
    "bandwidth-limit",
    "path-jitter",
    "path-distance",
    "far-but-healthy",
    "route-change",
    "path-member-fault",
    "radio-power-save",
    "mtu-black-hole",
    "mtu-with-icmp",
    "ack-thinning",
];
