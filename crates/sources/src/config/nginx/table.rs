//! The directives that affect latency.
//!
//! To report another directive, add a line to the group that it belongs to. Contexts and defaults
//! are those of nginx's own documentation.

use super::directive::{Contexts, Known, Needs, Version, changed, head, list, one, own};

const MAIN: Contexts = Contexts::MAIN;
const EVENTS: Contexts = Contexts::EVENTS;
const HTTP_SERVER: Contexts = Contexts::HTTP.and(Contexts::SERVER);
/// `http`, `server` and `location`.
const HSL: Contexts = HTTP_SERVER.and(Contexts::LOCATION);
/// `http`, `server`, `location`, and `if` within a location.
const HSLI: Contexts = HSL.and(Contexts::IF);
const LOCATION_IF: Contexts = Contexts::LOCATION.and(Contexts::IF);
const SERVER_LOCATION: Contexts = Contexts::SERVER.and(Contexts::LOCATION);
const UPSTREAM: Contexts = Contexts::UPSTREAM;

/// The version used for a default that applies to every release.
const EVER: Version = (0, 0, 0);

/// All groups, in the order in which they are reported.
pub(crate) static GROUPS: &[(Needs, &[Known])] = &[
    (Needs::Nothing, SOCKETS),
    (Needs::Nothing, KEEPALIVE),
    (Needs::Nothing, OUTPUT),
    (Needs::Nothing, INPUT),
    (Needs::Nothing, LIMITS),
    (Needs::Nothing, FILTERS),
    (Needs::Nothing, LOGS),
    (Needs::Nothing, CONTENT),
    (Needs::Nothing, WORKERS),
    (Needs::Passing("proxy_pass"), PROXY),
    (Needs::Passing("fastcgi_pass"), FASTCGI),
    (Needs::Passing("uwsgi_pass"), UWSGI),
    (Needs::Passing("grpc_pass"), GRPC),
    (Needs::Tls, TLS),
];

static SOCKETS: &[Known] = &[
    one("tcp_nodelay", HSL, "on"),
    one("tcp_nopush", HSL, "off"),
    one("sendfile", HSLI, "off"),
    changed(
        "sendfile_max_chunk",
        HSL,
        &[(EVER, "0"), ((1, 21, 4), "2m")],
    ),
    one("send_lowat", HSL, "0"),
    one("reset_timedout_connection", HSL, "off"),
];

static KEEPALIVE: &[Known] = &[
    one("keepalive_timeout", HSL, "75s"),
    changed(
        "keepalive_requests",
        HSL,
        &[(EVER, "100"), ((1, 19, 10), "1000")],
    ),
    changed("keepalive_time", HSL, &[(EVER, ""), ((1, 19, 10), "1h")]),
    one("keepalive_disable", HSL, "msie6"),
    one("lingering_close", HSL, "on"),
    one("lingering_time", HSL, "30s"),
    one("lingering_timeout", HSL, "5s"),
];

static OUTPUT: &[Known] = &[
    one("postpone_output", HSL, "1460"),
    changed(
        "output_buffers",
        HSL,
        &[(EVER, "1 32k"), ((1, 9, 5), "2 32k")],
    ),
    one("chunked_transfer_encoding", HSL, "on"),
    one("send_timeout", HSL, "60s"),
    one("aio", HSL, "off"),
    one("directio", HSL, "off"),
    one("read_ahead", HSL, "0"),
    one("open_file_cache", HSL, "off"),
];

static INPUT: &[Known] = &[
    head("client_header_timeout", HTTP_SERVER, "60s"),
    head("client_header_buffer_size", HTTP_SERVER, "1k"),
    head("large_client_header_buffers", HTTP_SERVER, "4 8k"),
    one("client_body_timeout", HSL, "60s"),
    one("client_body_buffer_size", HSL, "two memory pages"),
    one("client_body_in_file_only", HSL, "off"),
    one("client_body_in_single_buffer", HSL, "off"),
    one("client_max_body_size", HSL, "1m"),
];

static LIMITS: &[Known] = &[
    list("limit_req", HSL, ""),
    one("limit_req_dry_run", HSL, "off"),
    list("limit_conn", HSL, ""),
    one("limit_conn_dry_run", HSL, "off"),
    one("limit_rate", HSLI, "0"),
    one("limit_rate_after", HSLI, "0"),
];

static FILTERS: &[Known] = &[
    one("gzip", HSLI, "off"),
    one("gzip_comp_level", HSL, "1"),
    one("gzip_min_length", HSL, "20"),
    one("gzip_types", HSL, "text/html"),
    one("gzip_buffers", HSL, "32 4k or 16 8k"),
    one("gzip_static", HSL, "off"),
    one("gunzip", HSL, "off"),
    one("ssi", HSLI, "off"),
    list("sub_filter", HSL, ""),
    one("slice", HSL, "0"),
];

static LOGS: &[Known] = &[
    list(
        "access_log",
        HSLI,
        "the compiled-in path, combined, unbuffered",
    ),
    one("open_log_file_cache", HSL, "off"),
    list("error_log", MAIN.and(HSL), "the compiled-in path, error"),
];

static CONTENT: &[Known] = &[
    own("proxy_pass", LOCATION_IF),
    own("fastcgi_pass", LOCATION_IF),
    own("uwsgi_pass", LOCATION_IF),
    own("scgi_pass", LOCATION_IF),
    own("grpc_pass", LOCATION_IF),
    own("memcached_pass", LOCATION_IF),
    own("return", SERVER_LOCATION),
    own("try_files", SERVER_LOCATION),
    one("auth_request", HSL, "off"),
    one("auth_basic", HSL, "off"),
    list("mirror", HSL, "off"),
    list("resolver", HSL, ""),
    one("resolver_timeout", HSL, "30s"),
];

static WORKERS: &[Known] = &[
    one("worker_processes", MAIN, "1"),
    one("worker_cpu_affinity", MAIN, ""),
    one("worker_priority", MAIN, "0"),
    one("worker_rlimit_nofile", MAIN, ""),
    one("timer_resolution", MAIN, ""),
    one("worker_connections", EVENTS, "512"),
    one("use", EVENTS, "epoll"),
    one("multi_accept", EVENTS, "off"),
    changed("accept_mutex", EVENTS, &[(EVER, "on"), ((1, 11, 3), "off")]),
    one("accept_mutex_delay", EVENTS, "500ms"),
];

static PROXY: &[Known] = &[
    changed(
        "proxy_http_version",
        HSL,
        &[(EVER, "1.0"), ((1, 29, 7), "1.1")],
    ),
    list("proxy_set_header", HSL, "Host $proxy_host"),
    one("proxy_buffering", HSL, "on"),
    one("proxy_buffer_size", HSL, "one memory page"),
    one("proxy_buffers", HSL, "8, of one memory page"),
    one("proxy_busy_buffers_size", HSL, "two memory pages"),
    one("proxy_max_temp_file_size", HSL, "1024m"),
    one("proxy_request_buffering", HSL, "on"),
    one("proxy_limit_rate", HSL, "0"),
    one("proxy_connect_timeout", HSL, "60s"),
    one("proxy_send_timeout", HSL, "60s"),
    one("proxy_read_timeout", HSL, "60s"),
    one("proxy_next_upstream", HSL, "error timeout"),
    one("proxy_next_upstream_timeout", HSL, "0"),
    one("proxy_next_upstream_tries", HSL, "0"),
    one("proxy_socket_keepalive", HSL, "off"),
    one("proxy_ssl_session_reuse", HSL, "on"),
    one("proxy_cache", HSL, "off"),
    one("proxy_cache_lock", HSL, "off"),
    one("proxy_cache_lock_timeout", HSL, "5s"),
    one("proxy_cache_lock_age", HSL, "5s"),
    one("proxy_cache_use_stale", HSL, "off"),
];

static FASTCGI: &[Known] = &[
    one("fastcgi_keep_conn", HSL, "off"),
    one("fastcgi_buffering", HSL, "on"),
    one("fastcgi_buffer_size", HSL, "one memory page"),
    one("fastcgi_buffers", HSL, "8, of one memory page"),
    one("fastcgi_request_buffering", HSL, "on"),
    one("fastcgi_connect_timeout", HSL, "60s"),
    one("fastcgi_send_timeout", HSL, "60s"),
    one("fastcgi_read_timeout", HSL, "60s"),
    one("fastcgi_next_upstream", HSL, "error timeout"),
    one("fastcgi_cache", HSL, "off"),
    one("fastcgi_cache_lock", HSL, "off"),
];

static UWSGI: &[Known] = &[
    one("uwsgi_buffering", HSL, "on"),
    one("uwsgi_request_buffering", HSL, "on"),
    one("uwsgi_connect_timeout", HSL, "60s"),
    one("uwsgi_read_timeout", HSL, "60s"),
    one("uwsgi_next_upstream", HSL, "error timeout"),
    one("uwsgi_cache", HSL, "off"),
];

static GRPC: &[Known] = &[
    one("grpc_buffer_size", HSL, "one memory page"),
    one("grpc_connect_timeout", HSL, "60s"),
    one("grpc_read_timeout", HSL, "60s"),
    one("grpc_next_upstream", HSL, "error timeout"),
    one("grpc_socket_keepalive", HSL, "off"),
];

static TLS: &[Known] = &[
    one("http2", HTTP_SERVER, "off"),
    one("http2_max_concurrent_streams", HTTP_SERVER, "128"),
    one("http2_chunk_size", HSL, "8k"),
    one("ssl_session_cache", HTTP_SERVER, "none"),
    one("ssl_session_tickets", HTTP_SERVER, "on"),
    one("ssl_session_timeout", HTTP_SERVER, "5m"),
    one("ssl_buffer_size", HTTP_SERVER, "16k"),
    one("ssl_early_data", HTTP_SERVER, "off"),
    one("ssl_stapling", HTTP_SERVER, "off"),
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

/// The directives of an `upstream` block that a `proxy_pass` leads to.
pub(crate) static UPSTREAMS: &[Known] = &[
    list("server", UPSTREAM, ""),
    changed(
        "keepalive",
        UPSTREAM,
        &[(EVER, ""), ((1, 29, 7), "32 local")],
    ),
    one("keepalive_timeout", UPSTREAM, "60s"),
    changed(
        "keepalive_requests",
        UPSTREAM,
        &[(EVER, "100"), ((1, 19, 10), "1000")],
    ),
    changed(
        "keepalive_time",
        UPSTREAM,
        &[(EVER, ""), ((1, 19, 10), "1h")],
    ),
];

/// The options of a listening socket, with their defaults on Linux.
pub(crate) static LISTEN_OPTIONS: &[(&str, &str)] = &[
    ("backlog", "511"),
    ("deferred", "off"),
    ("reuseport", "off"),
    ("fastopen", "off"),
    ("so_keepalive", "the system's"),
    ("rcvbuf", "the system's"),
    ("sndbuf", "the system's"),
];

/// The options of `listen` that apply to an address regardless of which server sets them.
pub(crate) static LISTEN_FLAGS: &[&str] = &["ssl", "http2", "proxy_protocol"];

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
        assert_eq!(find("keepalive_time").default(Some((1, 18, 0))), NOT_SET);
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
