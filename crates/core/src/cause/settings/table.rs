//! The directives that explain claims.
//!
//! A new directive needs a row here. It also needs its contexts and its default in the table of the
//! source that reads the configuration.

use super::value::{duration, request_rate, size, zone};
use super::{Seen, is_set};
use crate::exchange::wait::Owner;
use crate::observed::event::ListenerSample;
use crate::registry::Id;
use crate::report::Says::{self, Contradicts, Silent, Supports};

/// A directive, or several with the same meaning, and the causes that it explains.
pub(super) struct Row {
    pub(super) directives: &'static [&'static str],
    pub(super) causes: &'static [Id],
    /// Compares the effective value with the traffic.
    pub(super) test: fn(&Seen<'_>) -> Says,
    /// The effect of the setting that the traffic shows.
    pub(super) effect: &'static str,
    /// The change to make. `{setting}` stands for the current line. Empty if the setting must stay
    /// as it is.
    pub(super) change: &'static str,
}

/// The directives with which nginx forwards a request.
pub(in crate::cause) const PASSING: &[&str] = &[
    "proxy_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "grpc_pass",
    "memcached_pass",
];

/// Maximum relative deviation of a measured rate from the configured one. nginx counts in whole
/// seconds (`ngx_http_write_filter_module.c`).
const OFF_RATE: f64 = 0.25;
/// Maximum relative deviation of a counted number. Distributions keep only ten bits of it.
const OFF_COUNT: f64 = 0.002;
/// Maximum relative deviation of the number of requests in service from the number of workers.
const OFF_SERVED: f64 = 0.25;
/// nginx keeps an idle connection for at least this part of the timeout.
const KEPT: f64 = 0.95;
/// Maximum difference between the length of a TLS record and its plain text, in bytes (RFC 5246
/// §6.2.3: 2048 bytes plus the header).
const RECORD_OVERHEAD: u64 = 2053;
/// Maximum length of a record's plain text, in bytes (RFC 8446 §5.1).
const MAX_RECORD: u64 = 1 << 14;

/// Returns the directives of the table.
pub fn directives() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| row.directives).copied()
}

/// Returns each directive with the causes that it explains.
pub(in crate::cause) fn by_directive() -> impl Iterator<Item = (&'static str, &'static [Id])> {
    let rows = TABLE.iter();
    rows.flat_map(|row| row.directives.iter().map(|&name| (name, row.causes)))
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
        effect: "each connection was closed after that number of requests",
        change: "raise {setting} to 1000 or more",
    },
    Row {
        directives: &["keepalive_timeout", "--keep-alive"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| {
            let is_none = duration(seen.value()).is_some_and(|kept| kept.is_zero());
            supports(is_none && seen.measured.requests == Some(1))
        },
        effect: "each connection was closed after one request",
        change: "raise {setting} above 0",
    },
    Row {
        directives: &["--worker-class"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| supports(seen.value() == "sync" && seen.measured.requests == Some(1)),
        effect: "a sync worker closes each connection after one request",
        change: "--worker-class gthread instead of {setting}: it keeps connections",
    },
    Row {
        directives: &[
            "keepalive_timeout",
            "KeepAliveTimeout",
            "timeout http-keep-alive",
            "--keep-alive",
            "--timeout-keep-alive",
        ],
        causes: &[Id::StaleKeepAlive],
        test: |seen| {
            let kept = duration(seen.value()).filter(|kept| !kept.is_zero());
            let is_over = kept.zip(seen.measured.idle);
            supports(is_over.is_some_and(|(kept, idle)| idle >= kept.mul_f64(KEPT)))
        },
        effect: "the failed requests were sent on connections that had been idle for longer than that",
        change: "raise {setting} above the idle timeout of the clients' pools",
    },
    Row {
        directives: &["KeepAlive"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| {
            let is_off = seen.value().eq_ignore_ascii_case("off");
            supports(is_off && seen.measured.requests == Some(1))
        },
        effect: "each connection was closed after one request",
        change: "KeepAlive On",
    },
    Row {
        directives: &["option httpclose"],
        causes: &[Id::ConnectionNotReused],
        test: |seen| supports(seen.value() == "on" && seen.measured.requests == Some(1)),
        effect: "each connection was closed after one request",
        change: "remove {setting}",
    },
    Row {
        directives: &["limit_req_zone"],
        causes: &[Id::RateLimit],
        test: |seen| {
            let rate = seen.measured.request_rate;
            supports(rate.is_some_and(|rate| sets_rate(seen, rate)))
        },
        effect: "it sets the rate of the limit",
        change: "raise the rate in {setting}",
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
        effect: "requests above the limit have to wait",
        change: "let bursts pass immediately: `burst=N nodelay` in {setting}, or raise its rate",
    },
    Row {
        directives: &["limit_req"],
        causes: &[Id::HttpError],
        test: |seen| {
            let is_idle = seen.has("limit_req_dry_run", "on");
            supports(is_set(&seen.line.value) && !is_idle && is_refusal(seen))
        },
        effect: "requests above the limit and its burst are refused (status 503 unless \
            limit_req_status sets another)",
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
        effect: "requests on more connections than that are refused (status 503 unless \
            limit_conn_status sets another)",
        change: "raise {setting}",
    },
    Row {
        directives: &["--limit-concurrency"],
        causes: &[Id::HttpError],
        test: |seen| {
            let most = seen.value().parse::<u64>().ok();
            let is_reached = most.is_some_and(|most| seen.measured.connections >= most);
            supports(is_reached && seen.measured.status == Some(503))
        },
        effect: "with as many connections or requests open, further requests are refused by 503",
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
        effect: "the responses came at this rate",
        change: "raise {setting}, or let the first part pass: limit_rate_after",
    },
    Row {
        directives: &["gzip"],
        causes: &[Id::CompressionCost],
        test: |seen| supports(seen.value() == "on"),
        effect: "responses are compressed while they are sent",
        change: "replace {setting} by gzip_static on, and compress the files beforehand",
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
        effect: "it fills each TLS record with up to this much data",
        change: "ssl_buffer_size 4k;",
    },
    Row {
        directives: &["ssl_protocols"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| {
            let allows = seen.words().any(|version| version == "TLSv1.3");
            supports(!allows && seen.measured.lowered > 0)
        },
        effect: "the server chose an older TLS version than clients offered",
        change: "ssl_protocols TLSv1.2 TLSv1.3;",
    },
    Row {
        directives: &["ssl_session_tickets"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| supports(seen.value() == "off" && resumes_nothing(seen)),
        effect: "it issues no session tickets, so clients cannot resume sessions",
        change: "ssl_session_tickets on;",
    },
    Row {
        directives: &["ssl_session_cache"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| supports(seen.has("ssl_session_tickets", "off") && resumes_nothing(seen)),
        effect: "it stores no sessions, so clients cannot resume them",
        change: "ssl_session_cache shared:SSL:10m;",
    },
    Row {
        directives: &["ssl_ecdh_curve"],
        causes: &[Id::TlsRoundTrips],
        test: |seen| supports(seen.line.set_at.is_some() && seen.measured.retried > 0),
        effect: "it prefers a group for which clients send no key share",
        change: "begin {setting} with a group for which clients send a key share: \
            X25519:prime256v1",
    },
    Row {
        directives: &["ssl_stapling"],
        causes: &[Id::TlsRevocationFetch],
        test: |seen| supports(seen.value() == "off"),
        effect: "clients have to fetch the revocation status of its certificate themselves",
        change: "ssl_stapling on; ssl_stapling_verify on;",
    },
    Row {
        directives: PASSING,
        causes: &[Id::DownstreamWait],
        test: |seen| supports(is_set(&seen.line.value) && seen.line.set_at.is_some()),
        effect: "it passes these requests on to another server",
        change: "",
    },
    Row {
        directives: PASSING,
        causes: &[Id::HttpError],
        test: |seen| {
            let is_gateways = matches!(seen.measured.status, Some(502 | 504));
            supports(is_gateways && is_set(&seen.line.value) && seen.line.set_at.is_some())
        },
        effect: "these requests go to the server that it names",
        change: "check that the server of {setting} runs, can be reached from here and answers in \
            time",
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
        effect: "it answers with status 504 if the upstream sends nothing for that long",
        change: "find out why the upstream takes longer than {setting}",
    },
    Row {
        directives: &["client_max_body_size"],
        causes: &[Id::HttpError],
        test: |seen| supports(seen.measured.status == Some(413)),
        effect: "it refuses longer request bodies with status 413",
        change: "raise {setting}",
    },
    Row {
        directives: &["--max-http-header-size"],
        causes: &[Id::HttpError],
        test: |seen| supports(seen.measured.status == Some(431)),
        effect: "it refuses requests with larger heads by 431",
        change: "raise {setting}",
    },
    Row {
        directives: &["return"],
        causes: &[Id::HttpError],
        test: |seen| {
            let status = seen.value().parse::<u16>().ok();
            supports(status.is_some() && status == seen.measured.status)
        },
        effect: "it answers these requests with this status",
        change: "check why {setting} is there",
    },
    Row {
        directives: &["return"],
        causes: &[Id::ConnectionClosed],
        test: |seen| supports(seen.value() == "444"),
        effect: "444 makes nginx close the connection without an answer",
        change: "check why {setting} is there",
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
        // nginx sets TCP_CORK only with sendfile.
        test: |seen| supports(seen.value() == "on" && seen.has("sendfile", "on")),
        effect: "together with sendfile it sets TCP_CORK, which holds partial segments back",
        change: "tcp_nopush off;",
    },
    Row {
        directives: &["postpone_output"],
        causes: &[Id::TinyWrites],
        test: |seen| supports(seen.culprit == Owner::Server && seen.value() == "0"),
        effect: "each piece of a response is sent separately",
        change: "postpone_output 1460;",
    },
    Row {
        directives: &["listen backlog", "--backlog", "--listen"],
        causes: &[Id::AcceptQueueOverflow],
        test: |seen| {
            // If net.core.somaxconn is lower, it is the limit instead.
            let limit = listener_limit(seen);
            let backlog = seen.value().parse::<u32>().ok();
            supports(backlog.is_some() && (limit.is_none() || limit == backlog))
        },
        effect: "no more connections than that can wait to be accepted",
        change: "raise {setting}, and net.core.somaxconn to at least as much",
    },
    Row {
        directives: &["listen reuseport"],
        causes: &[Id::AcceptQueueOverflow],
        test: |seen| supports(seen.value() == "on" && has_uneven_queues(seen)),
        effect: "each worker has an accept queue of its own, and one was full while another was \
            empty",
        change: "remove `reuseport` from {setting}, so that idle workers accept waiting connections",
    },
    Row {
        directives: &["listen deferred"],
        causes: &[Id::DeferAccept],
        test: |seen| match seen.value() {
            "on" => Supports,
            _ => Contradicts,
        },
        effect: "its listener has TCP_DEFER_ACCEPT",
        change: "remove `deferred` from {setting}",
    },
    Row {
        directives: &["listen fastopen"],
        causes: &[Id::FastOpenBlackHole],
        test: |seen| supports(seen.value().parse::<u32>().is_ok_and(|queue| queue > 0)),
        effect: "it allows clients to send data in their SYNs",
        change: "remove {setting} until the path lets SYNs with data through",
    },
    Row {
        directives: &["listen sndbuf"],
        causes: &[Id::SendBuffer],
        test: |seen| supports(seen.culprit == Owner::Server && size(seen.value()).is_some()),
        effect: "it sets SO_SNDBUF, which disables the kernel's autotuning",
        change: "remove {setting}: it disables the kernel's autotuning",
    },
    Row {
        directives: &["listen rcvbuf"],
        causes: &[Id::ReceiveWindow, Id::ZeroWindow],
        test: |seen| supports(seen.culprit == Owner::Server && size(seen.value()).is_some()),
        effect: "it sets SO_RCVBUF, which disables the kernel's autotuning",
        change: "remove {setting}: it disables the kernel's autotuning",
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
            supports(is_served(seen, workers))
        },
        effect: "this many requests were served at the same time",
        change: "use more workers than {setting}: `worker_processes auto;`",
    },
    Row {
        directives: &["server maxconn"],
        causes: &[Id::WorkerSaturation],
        test: |seen| supports(is_served(seen, seen.value().parse().ok())),
        effect: "haproxy passed this many requests to the servers behind it at a time, and queued \
            the others",
        change: "raise {setting}, if the servers behind haproxy carry more",
    },
    Row {
        directives: &["--workers", "--processes", "--threads"],
        causes: &[Id::WorkerSaturation, Id::SocketQueueDwell],
        test: |seen| {
            // A pool of one thread is told by its workers.
            let is_own = seen.line.directive != "--threads" || seen.value() != "1";
            let pool = pool(seen).filter(|_| is_own);
            supports(is_served(seen, pool))
        },
        effect: "as many requests as workers and their threads allow were in service at a time",
        change: "raise {setting}: each worker or thread serves one request at a time",
    },
    Row {
        directives: &["UV_THREADPOOL_SIZE"],
        causes: &[Id::WorkerSaturation],
        test: |seen| supports(is_served(seen, seen.value().parse().ok())),
        effect: "as many requests were in service at a time: files, lookups, zlib and crypto use \
            this pool",
        change: "raise {setting} in the environment of the process",
    },
    Row {
        directives: &["GOMAXPROCS", "-XX:ActiveProcessorCount"],
        causes: &[Id::WorkerSaturation],
        test: |seen| supports(is_served(seen, seen.value().parse().ok())),
        effect: "the runtime uses as many processors as requests were in service at a time",
        change: "raise {setting} to the number of processors, or take it out",
    },
    Row {
        directives: &["GOGC"],
        causes: &[Id::StopTheWorld],
        // The default is 100: the heap may double between two collections.
        test: |seen| supports(seen.value().parse::<u64>().is_ok_and(|part| part < 100)),
        effect: "it makes the collector run more often than by default",
        change: "raise {setting}, to 100 at least",
    },
    Row {
        directives: &["-XX:+UseSerialGC", "-XX:+UseParallelGC"],
        causes: &[Id::StopTheWorld],
        test: |seen| supports(seen.value() == "on"),
        effect: "this collector stops all threads for its whole work",
        change: "a collector that works while the program runs, instead of {setting}: -XX:+UseG1GC \
            or -XX:+UseZGC",
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
        effect: "a worker closes connections that it accepts beyond this limit",
        change: "raise {setting}, and worker_rlimit_nofile as well",
    },
];

fn supports(does: bool) -> Says {
    if does { Supports } else { Silent }
}

/// Returns the number of requests that the workers and their threads serve at a time; `None` for
/// workers that serve any number, such as gunicorn's `gevent`.
fn pool(seen: &Seen<'_>) -> Option<u64> {
    let number = |name| {
        let value = seen.values(name).next()?;
        value.parse::<u64>().ok()
    };
    let mut classes = seen.values("--worker-class");
    let has_threads = classes.all(|class| ["sync", "gthread"].contains(&class));
    let workers = number("--workers").or_else(|| number("--processes"));
    let threads = number("--threads").unwrap_or(1);
    has_threads.then(|| workers.unwrap_or(1).saturating_mul(threads))
}

/// Returns true if about as many requests were in service at a time.
fn is_served(seen: &Seen<'_>, allowed: Option<u64>) -> bool {
    let both = allowed.zip(seen.measured.served);
    both.is_some_and(|(allowed, served)| {
        (served - allowed as f64).abs() <= allowed as f64 * OFF_SERVED
    })
}

/// Returns true if a count is about the number that a setting allows.
fn is_near(count: Option<u64>, allowed: Option<u64>, off: f64) -> bool {
    let both = count.zip(allowed).filter(|&(_, allowed)| allowed > 0);
    both.is_some_and(|(count, allowed)| {
        count.abs_diff(allowed) as f64 <= (allowed as f64 * off).floor()
    })
}

/// Returns true if this `limit_req` may delay requests at this rate. The rate is compared if the
/// definition of the zone is known.
fn delays(seen: &Seen<'_>, rate: f64) -> bool {
    // With `nodelay`, nginx refuses excess requests instead of delaying them.
    let is_delaying = is_set(&seen.line.value) && seen.words().all(|word| word != "nodelay");
    let own = zone(&seen.line.value);
    let mut zones = seen.values("limit_req_zone");
    let definition = zones.find(|definition| own.is_some() && zone(definition) == own);
    let allowed = definition.and_then(request_rate);
    let is_met = allowed.is_none_or(|allowed| (rate - allowed).abs() <= allowed * OFF_RATE);
    is_delaying && seen.line.set_at.is_some() && is_met && !seen.has("limit_req_dry_run", "on")
}

/// Returns true if this `limit_req_zone` sets the rate of a limit that delays requests.
fn sets_rate(seen: &Seen<'_>, rate: f64) -> bool {
    let own = zone(&seen.line.value);
    let mut limits = seen.values("limit_req");
    let is_delaying = limits.any(|limit| {
        own.is_some() && zone(limit) == own && limit.split(' ').all(|word| word != "nodelay")
    });
    let allowed = request_rate(&seen.line.value);
    let is_met = allowed.is_some_and(|allowed| (rate - allowed).abs() <= allowed * OFF_RATE);
    is_delaying && is_met && !seen.has("limit_req_dry_run", "on")
}

/// Returns true if most error responses have a status that limits use.
fn is_refusal(seen: &Seen<'_>) -> bool {
    matches!(seen.measured.status, Some(429 | 503))
}

/// Returns true if there were full handshakes, and no cache keeps sessions.
fn resumes_nothing(seen: &Seen<'_>) -> bool {
    let mut caches = seen.values("ssl_session_cache");
    let has_cache = caches.any(|cache| cache.contains("shared:") || cache.contains("builtin"));
    !has_cache && seen.measured.full > 0
}

/// Returns the maximum length of the listener's accept queue in the kernel.
fn listener_limit(seen: &Seen<'_>) -> Option<u32> {
    Some(listeners(seen).next()?.limit)
}

/// Returns true if the port has one full and one empty accept queue.
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
