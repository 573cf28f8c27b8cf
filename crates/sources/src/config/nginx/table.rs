//! The directives that are resolved: those that explain a finding, and those that they depend on.
//!
//! To report another directive, add a line to its group. The contexts and defaults are from nginx's
//! documentation.

use super::directive::{Contexts, Known, Needs, Version, changed, list, one, own};

const MAIN: Contexts = Contexts::MAIN;
const EVENTS: Contexts = Contexts::EVENTS;
const HTTP_SERVER: Contexts = Contexts::HTTP.and(Contexts::SERVER);
/// `http`, `server` and `location`.
const HSL: Contexts = HTTP_SERVER.and(Contexts::LOCATION);
/// `http`, `server`, `location`, and `if` within a location.
const HSLI: Contexts = HSL.and(Contexts::IF);
const LOCATION_IF: Contexts = Contexts::LOCATION.and(Contexts::IF);
const SERVER_LOCATION: Contexts = Contexts::SERVER.and(Contexts::LOCATION);

/// The version of a default that is the same in every release.
const EVER: Version = (0, 0, 0);

/// All groups, in the order in which they are reported.
pub(crate) static GROUPS: &[(Needs, &[Known])] = &[
    (Needs::Nothing, SOCKETS),
    (Needs::Nothing, KEEPALIVE),
    (Needs::Nothing, LIMITS),
    (Needs::Nothing, CONTENT),
    (Needs::Nothing, WORKERS),
    (Needs::Passing("proxy_pass"), PROXY),
    (Needs::Passing("fastcgi_pass"), FASTCGI),
    (Needs::Passing("uwsgi_pass"), UWSGI),
    (Needs::Passing("scgi_pass"), SCGI),
    (Needs::Passing("grpc_pass"), GRPC),
    (Needs::Tls, TLS),
];

static SOCKETS: &[Known] = &[
    one("tcp_nodelay", HSL, "on"),
    one("tcp_nopush", HSL, "off"),
    one("sendfile", HSLI, "off"),
    one("postpone_output", HSL, "1460"),
];

static KEEPALIVE: &[Known] = &[
    one("keepalive_timeout", HSL, "75s"),
    changed(
        "keepalive_requests",
        HSL,
        &[(EVER, "100"), ((1, 19, 10), "1000")],
    ),
];

static LIMITS: &[Known] = &[
    list("limit_req", HSL, ""),
    one("limit_req_dry_run", HSL, "off"),
    list("limit_conn", HSL, ""),
    one("limit_conn_dry_run", HSL, "off"),
    one("limit_rate", HSLI, "0"),
    one("client_max_body_size", HSL, "1m"),
];

static CONTENT: &[Known] = &[
    own("proxy_pass", LOCATION_IF),
    own("fastcgi_pass", LOCATION_IF),
    own("uwsgi_pass", LOCATION_IF),
    own("scgi_pass", LOCATION_IF),
    own("grpc_pass", LOCATION_IF),
    own("memcached_pass", LOCATION_IF),
    own("return", SERVER_LOCATION),
    one("gzip", HSLI, "off"),
    one("gzip_comp_level", HSL, "1"),
];

static WORKERS: &[Known] = &[
    one("worker_processes", MAIN, "1"),
    one("worker_connections", EVENTS, "512"),
];

static PROXY: &[Known] = &[one("proxy_read_timeout", HSL, "60s")];

static FASTCGI: &[Known] = &[one("fastcgi_read_timeout", HSL, "60s")];

static UWSGI: &[Known] = &[one("uwsgi_read_timeout", HSL, "60s")];

static SCGI: &[Known] = &[one("scgi_read_timeout", HSL, "60s")];

static GRPC: &[Known] = &[one("grpc_read_timeout", HSL, "60s")];

static TLS: &[Known] = &[
    one("ssl_session_cache", HTTP_SERVER, "none"),
    one("ssl_session_tickets", HTTP_SERVER, "on"),
    one("ssl_buffer_size", HTTP_SERVER, "16k"),
    one("ssl_stapling", HTTP_SERVER, "off"),
    one("ssl_ecdh_curve", HTTP_SERVER, "auto"),
    changed(
        "ssl_protocols",
        HTTP_SERVER,
        &[
            (EVER, "TLSv1 TLSv1.1 TLSv1.2"),
            ((1, 23, 4), "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3"),
            ((1, 27, 3), "TLSv1.2 TLSv1.3"),
        ],
    ),
];

/// The options of a listening socket, with their defaults on Linux.
pub(crate) static LISTEN_OPTIONS: &[(&str, &str)] = &[
    ("backlog", "511"),
    ("deferred", "off"),
    ("reuseport", "off"),
    ("fastopen", "off"),
    ("rcvbuf", "the system's"),
    ("sndbuf", "the system's"),
];

#[cfg(test)]
mod tests {
    use super::super::directive::NOT_SET;
    use super::*;

    #[test]
    fn defaults_follow_the_release() {
        let find = |name: &str| {
            GROUPS
                .iter()
                .flat_map(|(_, group)| group.iter())
                .find(|known| known.name == name)
                .expect("in the table")
        };
        let requests = find("keepalive_requests");
        assert_eq!(requests.default(Some((1, 18, 0))), "100");
        assert_eq!(requests.default(Some((1, 19, 10))), "1000");
        assert_eq!(requests.default(None), "1000");
        assert_eq!(find("limit_req").default(None), NOT_SET);
        assert_eq!(find("tcp_nodelay").default(Some((1, 22, 1))), "on");
    }

    #[test]
    fn no_directive_stands_twice() {
        let mut names: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, group)| group.iter().map(|known| known.name))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
