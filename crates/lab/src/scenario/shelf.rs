//! The scenarios that travel inside the program: one file each in the repository's `lab/`.

/// Name and text of each, in the order in which a person should meet them.
pub(super) const FILES: &[(&str, &str)] = &[
    (
        "nagle-delayed-ack",
        include_str!("../../../../lab/nagle-delayed-ack.toml"),
    ),
    (
        "case-on-lossy-path",
        include_str!("../../../../lab/case-on-lossy-path.toml"),
    ),
    (
        "nagle-write-write-read",
        include_str!("../../../../lab/nagle-write-write-read.toml"),
    ),
    (
        "short-delayed-ack",
        include_str!("../../../../lab/short-delayed-ack.toml"),
    ),
    (
        "server-think",
        include_str!("../../../../lab/server-think.toml"),
    ),
    (
        "server-pause",
        include_str!("../../../../lab/server-pause.toml"),
    ),
    (
        "nodelay-off-one-segment",
        include_str!("../../../../lab/nodelay-off-one-segment.toml"),
    ),
    (
        "nodelay-off-elsewhere",
        include_str!("../../../../lab/nodelay-off-elsewhere.toml"),
    ),
    ("nopush", include_str!("../../../../lab/nopush.toml")),
    (
        "fin-closed",
        include_str!("../../../../lab/fin-closed.toml"),
    ),
    (
        "connection-refused",
        include_str!("../../../../lab/connection-refused.toml"),
    ),
    (
        "firewall-drop",
        include_str!("../../../../lab/firewall-drop.toml"),
    ),
    ("syn-loss", include_str!("../../../../lab/syn-loss.toml")),
    (
        "closes-at-once",
        include_str!("../../../../lab/closes-at-once.toml"),
    ),
    (
        "never-answers",
        include_str!("../../../../lab/never-answers.toml"),
    ),
    ("garbage", include_str!("../../../../lab/garbage.toml")),
    (
        "tls-on-plain-port",
        include_str!("../../../../lab/tls-on-plain-port.toml"),
    ),
    (
        "http-error",
        include_str!("../../../../lab/http-error.toml"),
    ),
    (
        "packet-loss",
        include_str!("../../../../lab/packet-loss.toml"),
    ),
    (
        "path-queueing",
        include_str!("../../../../lab/path-queueing.toml"),
    ),
];
