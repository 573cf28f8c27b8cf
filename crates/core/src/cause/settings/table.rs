//! The directives that explain findings.
//!
//! A new one needs a row here and, with its contexts and default, in the table of the source that
//! resolves it.

use super::value::{duration, request_rate, size, zone};
use super::{Seen, is_set};
use crate::exchange::wait::Owner;
use crate::observed::event::ListenerSample;
use crate::registry::Id;
use crate::report::Says::{self, Contradicts, Silent, Supports};

/// A directive, or several of one meaning, and the causes that it explains.
pub(super) struct Row {
    pub(super) directives: &'static [&'static str],
    pub(super) causes: &'static [Id],
    /// Holds the effective value against the traffic.
    pub(super) test: fn(&Seen<'_>) -> Says,
    /// The effect of the setting, which the traffic shows.
    pub(super) effect: &'static str,
    /// The change, `{setting}` for the present line; empty where the setting is as it must be.
    pub(super) change: &'static str,
}

/// The directives by which nginx passes a request on.
pub(in crate::cause) const PASSING: &[&str] = &[
    "proxy_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "grpc_pass",
    "memcached_pass",
];

/// Maximum relative deviation of a measured rate from the configured one: nginx counts whole
/// seconds (`ngx_http_write_filter_module.c`).
const OFF_RATE: f64 = 0.25;
/// Maximum relative deviation of a counted number: distributions keep ten bits.
const OFF_COUNT: f64 = 0.002;
/// Maximum share by which the number of requests in service may miss that of workers.
const OFF_SERVED: f64 = 0.25;
/// Part of its timeout for which nginx keeps an idle connection at least.
const KEPT: f64 = 0.95;
/// Maximum overhead of a TLS record over its plain text (RFC 5246 §6.2.3: 2048 bytes and header).
const RECORD_OVERHEAD: u64 = 2053;
/// Maximum length of a record's plain text (RFC 8446 §5.1).
const MAX_RECORD: u64 = 1 << 14;

/// Returns the directives of the table.
pub fn directives() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| row.directives).copied()
}

/// All rows, in the order in which their changes are proposed.
pub(super) static TABLE: &[Row] = &[
    Row {
        directives: &["tcp_nodelay"],
        causes: &[Id::NagleDelayedAck, Id::NagleRoundTrip],
        test: |seen| supports(seen.culprit == Owner::Server && seen.value() == "off"),
        effect: "Nagle's algorithm applies to its sockets",
        change: "tcp_nodelay on;",
    },
    Row {
        directives: &["keepalive_requests", "MaxKeepAliveRequests"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| {
            let most = seen.value().parse::<u64>().ok();
            supports(is_near(seen.measured.requests, most, OFF_COUNT))
        },
        effect: "connections were closed after as many requests",
        change: "raise {setting}, to 1000 at least",
    },
    Row {
        directives: &["keepalive_timeout"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| {
            let is_none = duration(seen.value()).is_some_and(|kept| kept.is_zero());
            supports(is_none && seen.measured.requests == Some(1))
        },
        effect: "connections were closed after one request",
        change: "raise {setting} above 0 (the default is 75s)",
    },
    Row {
        directives: &[
            "keepalive_timeout",
            "KeepAliveTimeout",
            "timeout http-keep-alive",
        ],
        causes: &[Id::StaleKeepAlive],
        test: |seen| {
            let kept = duration(seen.value()).filter(|kept| !kept.is_zero());
            let is_over = kept.zip(seen.measured.idle);
            supports(is_over.is_some_and(|(kept, idle)| idle >= kept.mul_f64(KEPT)))
        },
        effect: "the requests that failed came on connections that had been idle for longer",
        change: "raise {setting} above the idle timeout of the clients' pools",
    },
    Row {
        directives: &["KeepAlive"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| {
            let is_off = seen.value().eq_ignore_ascii_case("off");
            supports(is_off && seen.measured.requests == Some(1))
        },
        effect: "connections were closed after one request",
        change: "KeepAlive On",
    },
    Row {
        directives: &["option httpclose"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| supports(seen.value() == "on" && seen.measured.requests == Some(1)),
        effect: "connections were closed after one request",
        change: "take {setting} out",
    },
    Row {
        directives: &["limit_req"],
        causes: &[Id::RateLimit],
        test: |seen| {
            supports(
                seen.measured
                    .request_rate
                    .is_some_and(|rate| delays(seen, rate)),
            )
        },
        effect: "requests above the limit wait their turn",
        change: "raise the rate of {setting}, or let bursts pass immediately: `burst=N nodelay`",
    },
    Row {
        directives: &["limit_req"],
        causes: &[Id::HttpError],
        test: |seen| {
            let is_idle = seen.has("limit_req_dry_run", "on");
            supports(is_set(&seen.line.value) && !is_idle && is_refusal(seen))
        },
        effect: "requests above the limit and its burst are refused, by 503 unless \
            limit_req_status says otherwise",
        change: "raise the rate or the burst of {setting}",
    },
    Row {
        directives: &["limit_conn"],
        causes: &[Id::HttpError],
        test: |seen| {
            let most = seen
                .words()
                .last()
                .and_then(|word| word.parse::<u64>().ok());
            let is_over = most.is_some_and(|most| seen.measured.connections > most);
            let is_idle = seen.has("limit_conn_dry_run", "on");
            supports(is_over && !is_idle && is_refusal(seen))
        },
        effect: "requests on more connections than that are refused, by 503 unless \
            limit_conn_status says otherwise",
        change: "raise {setting}",
    },
    Row {
        directives: &["limit_rate"],
        causes: &[Id::RateLimit],
        test: |seen| {
            let rate = size(seen.value()).filter(|&rate| rate > 0);
            let rate = rate.map(|rate| rate as f64);
            let is_met = rate.zip(seen.measured.byte_rate);
            supports(is_met.is_some_and(|(rate, met)| (met - rate).abs() <= rate * OFF_RATE))
        },
        effect: "responses came at that many bytes a second",
        change: "raise {setting}, or let the first part pass: limit_rate_after",
    },
    Row {
        directives: &["gzip"],
        causes: &[Id::CompressionCost],
        test: |seen| supports(seen.value() == "on"),
        effect: "responses are compressed while they are sent",
        change: "compress beforehand instead of {setting}: gzip_static on",
    },
    Row {
        directives: &["gzip_comp_level"],
        causes: &[Id::CompressionCost],
        test: |seen| {
            let level = seen.value().parse::<u8>();
            supports(seen.has("gzip", "on") && level.is_ok_and(|level| level > 1))
        },
        effect: "each level above 1 takes more time for little gain",
        change: "lower {setting} (the default is 1)",
    },
    Row {
        directives: &["ssl_buffer_size"],
        causes: &[Id::TlsRecordBuffering],
        test: |seen| match size(seen.value()).zip(seen.measured.record) {
            Some((size, record)) if record > size.min(MAX_RECORD) + RECORD_OVERHEAD => Contradicts,
            Some((size, record)) => supports(record * 2 > size.min(MAX_RECORD)),
            None => Silent,
        },
        effect: "it gathers as much for one record",
        change: "ssl_buffer_size 4k;",
    },
    Row {
        directives: &["ssl_protocols"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| {
            let allows = seen.words().any(|version| version == "TLSv1.3");
            supports(!allows && seen.measured.lowered > 0)
        },
        effect: "it takes a version below the one that clients offer",
        change: "ssl_protocols TLSv1.2 TLSv1.3;",
    },
    Row {
        directives: &["ssl_session_tickets"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| supports(seen.value() == "off" && resumes_nothing(seen)),
        effect: "it gives no tickets to resume sessions by",
        change: "ssl_session_tickets on;",
    },
    Row {
        directives: &["ssl_session_cache"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| supports(seen.has("ssl_session_tickets", "off") && resumes_nothing(seen)),
        effect: "it keeps no sessions to resume",
        change: "ssl_session_cache shared:SSL:10m;",
    },
    Row {
        directives: &["ssl_ecdh_curve"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| supports(seen.line.set_at.is_some() && seen.measured.retried > 0),
        effect: "it asks for a group that clients send no key for",
        change: "begin {setting} with a group that clients send a key for: X25519:prime256v1",
    },
    Row {
        directives: &["ssl_stapling"],
        causes: &[Id::TlsRevocationFetch],
        test: |seen| supports(seen.value() == "off"),
        effect: "clients have to fetch the state of its certificate themselves",
        change: "ssl_stapling on; ssl_stapling_verify on;",
    },
    Row {
        directives: PASSING,
        causes: &[Id::DownstreamWait],
        test: |seen| supports(is_set(&seen.line.value) && seen.line.set_at.is_some()),
        effect: "it passes these requests on",
        change: "",
    },
    Row {
        directives: &[
            "proxy_read_timeout",
            "fastcgi_read_timeout",
            "uwsgi_read_timeout",
            "scgi_read_timeout",
            "grpc_read_timeout",
        ],
        causes: &[Id::HttpError],
        test: |seen| supports(seen.measured.status == Some(504)),
        effect: "it answers 504 if the upstream says nothing for as long",
        change: "find what the upstream does for longer than {setting}",
    },
    Row {
        directives: &["client_max_body_size"],
        causes: &[Id::HttpError],
        test: |seen| supports(seen.measured.status == Some(413)),
        effect: "it refuses longer bodies by 413",
        change: "raise {setting}",
    },
    Row {
        directives: &["return"],
        causes: &[Id::HttpError],
        test: |seen| {
            let status = seen.value().parse::<u16>().ok();
            supports(status.is_some() && status == seen.measured.status)
        },
        effect: "it answers these requests so",
        change: "see for what {setting} stands there",
    },
    Row {
        directives: &["return"],
        causes: &[Id::ConnectionClosed],
        test: |seen| supports(seen.value() == "444"),
        effect: "444 makes nginx close the connection without an answer",
        change: "see for what {setting} stands there",
    },
    Row {
        directives: &["return"],
        causes: &[Id::RedirectChain],
        test: |seen| {
            supports(matches!(
                seen.value(),
                "301" | "302" | "303" | "307" | "308"
            ))
        },
        effect: "it redirects these requests",
        change: "redirect to the final location in {setting}",
    },
    Row {
        directives: &["tcp_nopush"],
        causes: &[Id::CorkHold],
        // Without sendfile nginx sets no cork.
        test: |seen| supports(seen.value() == "on" && seen.has("sendfile", "on")),
        effect: "with sendfile it holds partial segments back by TCP_CORK",
        change: "tcp_nopush off;",
    },
    Row {
        directives: &["postpone_output"],
        causes: &[Id::TinyWrites],
        test: |seen| supports(seen.culprit == Owner::Server && seen.value() == "0"),
        effect: "it sends each piece of a response by itself",
        change: "postpone_output 1460;",
    },
    Row {
        directives: &["listen backlog"],
        causes: &[Id::AcceptQueueOverflow],
        test: |seen| {
            // A lower net.core.somaxconn is the limit instead.
            let limit = listener_limit(seen);
            let backlog = seen.value().parse::<u32>().ok();
            supports(backlog.is_some() && (limit.is_none() || limit == backlog))
        },
        effect: "no more connections may wait to be accepted",
        change: "raise {setting}, and net.core.somaxconn to at least as much",
    },
    Row {
        directives: &["listen reuseport"],
        causes: &[Id::AcceptQueueOverflow],
        test: |seen| supports(seen.value() == "on" && has_uneven_queues(seen)),
        effect: "each worker has an accept queue of its own, and one was full while another was \
            empty",
        change: "take `reuseport` out of {setting}, so that idle workers accept what waits",
    },
    Row {
        directives: &["listen deferred"],
        causes: &[Id::DeferAccept],
        test: |seen| match seen.value() {
            "on" => Supports,
            _ => Contradicts,
        },
        effect: "its listener has TCP_DEFER_ACCEPT",
        change: "take `deferred` out of {setting}",
    },
    Row {
        directives: &["listen fastopen"],
        causes: &[Id::FastOpenBlackHole],
        test: |seen| supports(seen.value().parse::<u32>().is_ok_and(|queue| queue > 0)),
        effect: "it invites clients to send data in their SYNs",
        change: "take {setting} back until the path lets SYNs with data through",
    },
    Row {
        directives: &["listen sndbuf"],
        causes: &[Id::SendBuffer],
        test: |seen| supports(seen.culprit == Owner::Server && size(seen.value()).is_some()),
        effect: "it sets SO_SNDBUF, which disables the kernel's autotuning",
        change: "take {setting} out: it disables the kernel's autotuning",
    },
    Row {
        directives: &["listen rcvbuf"],
        causes: &[Id::ReceiveWindow, Id::ZeroWindow],
        test: |seen| supports(seen.culprit == Owner::Server && size(seen.value()).is_some()),
        effect: "it sets SO_RCVBUF, which disables the kernel's autotuning",
        change: "take {setting} out: it disables the kernel's autotuning",
    },
    Row {
        directives: &["worker_processes"],
        causes: &[Id::WorkerSaturation],
        test: |seen| {
            let workers = seen
                .value()
                .parse::<u64>()
                .ok()
                .filter(|_| !seen.is_passed_on());
            let served = workers.zip(seen.measured.served);
            supports(served.is_some_and(|(workers, served)| {
                (served - workers as f64).abs() <= workers as f64 * OFF_SERVED
            }))
        },
        effect: "as many requests were in service at a time",
        change: "more workers than {setting}: `worker_processes auto;`",
    },
    Row {
        directives: &["worker_connections"],
        causes: &[Id::ConnectionClosed],
        test: |seen| {
            let each = seen.value().parse::<u64>().ok();
            let mut workers = seen.values("worker_processes");
            let workers = workers.next().and_then(|count| count.parse::<u64>().ok());
            let most = each
                .zip(workers)
                .map(|(each, workers)| each.saturating_mul(workers));
            supports(most.is_some_and(|most| seen.measured.connections >= most))
        },
        effect: "a worker closes what it accepts beyond that",
        change: "raise {setting}, and worker_rlimit_nofile with it",
    },
];

fn supports(does: bool) -> Says {
    if does { Supports } else { Silent }
}

/// Returns true if a count is what a setting allows.
fn is_near(count: Option<u64>, allowed: Option<u64>, off: f64) -> bool {
    let both = count.zip(allowed).filter(|&(_, allowed)| allowed > 0);
    both.is_some_and(|(count, allowed)| {
        count.abs_diff(allowed) as f64 <= (allowed as f64 * off).floor()
    })
}

/// Returns true if a `limit_req` makes requests wait at this rate, as far as its zone tells.
fn delays(seen: &Seen<'_>, rate: f64) -> bool {
    // With `nodelay` no request waits: excess requests are refused.
    let is_delaying = is_set(&seen.line.value) && seen.words().all(|word| word != "nodelay");
    let own = zone(&seen.line.value);
    let mut zones = seen.values("limit_req_zone");
    let definition = zones.find(|definition| own.is_some() && zone(definition) == own);
    let allowed = definition.and_then(request_rate);
    let is_met = allowed.is_none_or(|allowed| (rate - allowed).abs() <= allowed * OFF_RATE);
    is_delaying && seen.line.set_at.is_some() && is_met && !seen.has("limit_req_dry_run", "on")
}

/// Returns true if most errors are those of a limit.
fn is_refusal(seen: &Seen<'_>) -> bool {
    matches!(seen.measured.status, Some(429 | 503))
}

/// Returns true if no cache keeps sessions, and handshakes were full.
fn resumes_nothing(seen: &Seen<'_>) -> bool {
    let mut caches = seen.values("ssl_session_cache");
    let has_cache = caches.any(|cache| cache.contains("shared:") || cache.contains("builtin"));
    !has_cache && seen.measured.full > 0
}

/// Returns the length of the listener's accept queue, as its kernel tells it.
fn listener_limit(seen: &Seen<'_>) -> Option<u32> {
    Some(listeners(seen).next()?.limit)
}

/// Returns true if one accept queue of the port was full, and another empty.
fn has_uneven_queues(seen: &Seen<'_>) -> bool {
    let is_full = |listener: &ListenerSample| listener.queued >= listener.limit;
    listeners(seen).any(is_full) && listeners(seen).any(|listener| listener.queued == 0)
}

fn listeners<'a>(seen: &Seen<'a>) -> impl Iterator<Item = &'a ListenerSample> {
    let (port, listeners) = (seen.endpoint.port, &seen.facts.kernel.listeners);
    listeners
        .iter()
        .filter(move |listener| listener.local.port == port)
}
