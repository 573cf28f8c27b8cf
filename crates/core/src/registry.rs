//! The registry of causes. It has one row for each cause, with the title and all properties. Only
//! the cause's rule and its page have their own files.
//!
//! A new cause needs a row. No other table of the core lists causes.

mod id;
mod row;

use core::str::FromStr;

pub use id::UnknownCause;
pub use row::{Cause, LayerId};
pub(crate) use row::{Failing, RouteProperty, SharedTime};
use row::{Origin, PLAIN};

use crate::exchange::wait::WaitKind;
use crate::observed::kernel_span::Stage;
use crate::observed::syscall::SocketOption;

/// Generates the type `Id`, the rows, and the struct that contains all rules. The rules' modules
/// are declared in `cause.rs`, so that rustfmt formats them.
macro_rules! ids {
    ($($variant:ident: $id:literal $(by $module:ident)? {
        title: $title:literal,
        layer: $layer:ident,
        waits: [$($wait:ident),*],
        $(stages: [$($stage:ident),* $(,)?],)?
        $(follows: [$($time:ident $origin:ident),* $(,)?],)?
        $(particular_to: [$($general:ident),* $(,)?],)?
        $(route: $route:ident,)?
        $(option: $option:ident,)?
        $(fails: $fails:ident,)?
        $(is_place: $is_place:literal,)?
        $(is_between_exchanges: $is_between_exchanges:literal,)?
        $(is_free: $is_free:literal,)?
        $(holds_any_data: $holds_any_data:literal,)?
        $(tells_dead_peer: $tells_dead_peer:literal,)?
        $(is_silence: $is_silence:literal,)?
        $(may_be_work: $may_be_work:literal,)?
        $(says_only_where: $says_only_where:literal,)?
        $(manner: $manner:literal,)?
    })*) => {
        /// The identity of a cause, written as a stable kebab-case id.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id {
            $(#[doc = $title] $variant,)*
        }

        impl Id {
            /// Every cause that this version knows, in the order in which causes are weighed.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the kebab-case id.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $id,)*
                }
            }

            /// Returns the row of the registry.
            pub fn cause(self) -> &'static Cause {
                match self {
                    $(Self::$variant => &Cause {
                        id: Self::$variant,
                        title: $title,
                        page: include_str!(concat!(env!("OUT_DIR"), "/pages/", $id, ".md")),
                        layer: LayerId::$layer,
                        waits: &[$(WaitKind::$wait),*],
                        $(stages: &[$(Stage::$stage),*],)?
                        $(follows: &[$(Origin {
                            cause: Self::$origin,
                            time: SharedTime::$time,
                        }),*],)?
                        $(particular_to: &[$(Self::$general),*],)?
                        $(route: Some(RouteProperty::$route),)?
                        $(option: Some(SocketOption::$option),)?
                        $(fails: Some(Failing::$fails),)?
                        $(is_place: $is_place,)?
                        $(is_between_exchanges: $is_between_exchanges,)?
                        $(is_free: $is_free,)?
                        $(holds_any_data: $holds_any_data,)?
                        $(tells_dead_peer: $tells_dead_peer,)?
                        $(is_silence: $is_silence,)?
                        $(may_be_work: $may_be_work,)?
                        $(says_only_where: $says_only_where,)?
                        $(manner: $manner,)?
                        ..PLAIN
                    },)*
                }
            }
        }

        impl FromStr for Id {
            type Err = UnknownCause;

            fn from_str(text: &str) -> Result<Self, UnknownCause> {
                match text {
                    $($id => Ok(Self::$variant),)*
                    unknown => Err(UnknownCause(unknown.to_owned())),
                }
            }
        }
    };
}

/// Passes all rows to the macro `$make`.
macro_rules! causes {
    ($make:ident) => {
        $make! {
            NagleDelayedAck: "nagle-delayed-ack" by nagle_delayed_ack {
                title: "Nagle's algorithm on the server waits for the client's delayed ACK",
                layer: Transport,
                waits: [ResponseHeld],
                stages: [Held],
                option: NoDelay,
            }
            NagleDelayedAckRequest: "nagle-delayed-ack-request" by nagle_delayed_ack_request {
                title: "Nagle's algorithm on the client waits for the server's delayed ACK",
                layer: Transport,
                waits: [RequestHeld],
                option: NoDelay,
            }
            NagleRoundTrip: "nagle-round-trip" by nagle_round_trip {
                title: "Nagle's algorithm costs a round trip",
                layer: Transport,
                waits: [RequestHeld, ResponseHeld],
                stages: [Held],
                option: NoDelay,
            }
            DelayedAckHarmless: "delayed-ack-harmless" by delayed_ack_harmless {
                title: "Delayed ACKs that hold nothing back",
                layer: Transport,
                waits: [],
                is_free: true,
            }
            Autocorking: "autocorking" by autocorking {
                title: "Small writes leave together, at no cost",
                layer: Transport,
                waits: [],
                is_free: true,
            }
            AckThinning: "ack-thinning" by ack_thinning {
                title: "One acknowledgement comes for many segments, at no cost",
                layer: Transport,
                waits: [],
                is_free: true,
            }
            ServerThink: "server-think" by server_think {
                title: "The server is slow to start its answer",
                layer: Server,
                waits: [ServerThink],
                stages: [Backlog, Stack, Unread, WakeUp, RunQueue, Program, Waiting],
                // TLS handshakes take processor time from requests. A cork's timer and a configured
                // rate delay a response without work of the program. If the path delays requests on
                // their way to the server, the responses are late too. If connections wait in the
                // accept queue, the server seems to think.
                follows: [
                    Besides TlsSlowHandshake, Within CorkHold, Within CompressionCost,
                    Within RadioPowerSave, Within PathJitter, Within QdiscDwell,
                    Within SocketMemoryPressure, Within AcceptQueueOverflow,
                ],
                may_be_work: true,
                says_only_where: true,
                manner: "it takes {each} before it answers",
            }
            SocketQueueDwell: "socket-queue-dwell" by socket_queue_dwell {
                title: "Requests wait in the server's sockets until they are read",
                layer: Server,
                waits: [ServerThink],
                stages: [Unread],
            }
            CpuQuota: "cpu-quota" by cpu_quota {
                title: "The server's processor time is used up until the next period",
                layer: Server,
                waits: [ServerThink],
                stages: [RunQueue],
            }
            CpuIdleWakeup: "cpu-idle-wakeup" by cpu_idle_wakeup {
                title: "An idle processor of the server is slow to wake",
                layer: Server,
                waits: [ServerThink],
                stages: [WakeUp],
            }
            SoftirqBacklog: "softirq-backlog" by softirq_backlog {
                title: "The server's kernel processes packets late",
                layer: Server,
                waits: [ServerThink],
                stages: [Backlog],
            }
            PacketFilterCost: "packet-filter-cost" by packet_filter_cost {
                title: "The server's packet filters take long for each packet",
                layer: Server,
                waits: [ServerThink],
                stages: [Stack],
            }
            ServerPause: "server-pause" by server_pause {
                title: "The server pauses in the middle of its answer",
                layer: Server,
                waits: [ServerPause],
                stages: [Program, Waiting, WakeUp, RunQueue],
                // A cork's timer and a configured rate delay a response without work of the
                // program. A program that waits for space in its send buffer continues after an
                // ACK. The capture does not always show this wait if the last write is small. A CPU
                // quota can stop a thread at any point.
                follows: [
                    Within CorkHold, Within CompressionCost, Within RateLimit, Within SendBuffer,
                    Besides CpuQuota, Besides CpuIdleWakeup,
                ],
                may_be_work: true,
                says_only_where: true,
                manner: "it pauses within its answer, for {each} in all",
            }
            CompressionCost: "compression-cost" by compression_cost {
                title: "The server compresses each response while the client waits",
                layer: Server,
                waits: [ServerThink, ServerPause],
            }
            SlowRequestUpload: "slow-request-upload" by slow_request_upload {
                title: "The client is slow to send its request",
                layer: Client,
                waits: [RequestPause],
                // If Nagle's algorithm delays most parts of a request, it probably also delays the
                // parts whose release the capture does not show.
                follows: [Within NagleDelayedAckRequest, Within SocketMemoryPressure],
                may_be_work: true,
                says_only_where: true,
                manner: "it pauses for {each} while it sends its request",
            }
            ExpectContinue: "expect-continue" by expect_continue {
                title: "The client waits for permission to send its request's body",
                layer: Client,
                waits: [RequestPause],
            }
            CloseDelimitedBody: "close-delimited-body" by close_delimited_body {
                title: "Only the close of the connection marks the end of the response",
                layer: Server,
                waits: [ServerPause],
            }
            HeadOfLineBlocking: "head-of-line-blocking" by head_of_line_blocking {
                title: "Responses wait behind a slower one on their connection",
                layer: Client,
                waits: [Behind],
            }
            ClientQueue: "client-queue" by client_queue {
                title: "Requests wait in the client for a connection that is free",
                layer: Client,
                waits: [],
                is_between_exchanges: true,
            }
            ClientThink: "client-think" by client_think {
                title: "The client pauses between requests that belong together",
                layer: Client,
                waits: [],
                is_between_exchanges: true,
                may_be_work: true,
                says_only_where: true,
                manner: "it pauses for {each} between requests that belong together",
            }
            ChattyRoundTrips: "chatty-round-trips" by chatty_round_trips {
                title: "One action takes many round trips one after the other",
                layer: Client,
                waits: [],
            }
            RedirectChain: "redirect-chain" by redirect_chain {
                title: "Redirects lead to further redirects",
                layer: Server,
                waits: [],
            }
            PathDistance: "path-distance" by path_distance {
                title: "The distance between the ends",
                layer: RoundTrip,
                waits: [RoundTrip],
                may_be_work: true,
            }
            PathQueueing: "path-queueing" by path_queueing {
                title: "Packets queue on the path",
                layer: RoundTrip,
                waits: [RoundTrip],
                // Traffic that fills a link or a device queues in front of it. If delays occur only
                // after pauses, no queue causes them.
                follows: [Behind BandwidthLimit, Within RadioPowerSave, Within QdiscDwell],
                route: Delay,
            }
            SocketMemoryPressure: "socket-memory-pressure" by socket_memory_pressure {
                title: "The receiver's kernel drops data that its socket has no memory for",
                layer: Server,
                waits: [Recovery, WindowFull, ServerThink],
            }
            QdiscDwell: "qdisc-dwell" by qdisc_dwell {
                title: "Responses wait in the queue of the server's own device",
                layer: Server,
                waits: [RoundTrip, ServerThink],
                stages: [Qdisc],
            }
            PacketLoss: "packet-loss" by packet_loss {
                title: "The path loses packets",
                layer: Transport,
                waits: [Recovery],
                // The path as a whole loses no packets if only one of several parallel paths does,
                // or if only packets of one size are lost.
                follows: [
                    Within MtuBlackHole, Within PathMemberFault, Within Policer,
                    Within SocketMemoryPressure, Within AcceptQueueOverflow, Within StaleKeepAlive,
                ],
                route: Loss,
                holds_any_data: true,
            }
            Policer: "policer" by policer {
                title: "Something on the path drops traffic above an allowance",
                layer: RoundTrip,
                waits: [Recovery],
                route: Delay,
            }
            RetransmissionTimeout: "retransmission-timeout" by retransmission_timeout {
                title: "Lost segments wait for a retransmission timer",
                layer: Transport,
                waits: [Recovery],
                follows: [
                    Within MtuBlackHole, Within PathMemberFault, Within Policer,
                    Within SocketMemoryPressure, Within AcceptQueueOverflow, Within StaleKeepAlive,
                ],
                route: Loss,
                holds_any_data: true,
            }
            MtuBlackHole: "mtu-black-hole" by mtu_black_hole {
                title: "A link on the path drops full-size packets without an ICMP error",
                layer: Transport,
                waits: [Recovery],
                tells_dead_peer: true,
            }
            PathJitter: "path-jitter" by path_jitter {
                title: "The path delays some packets and not others",
                layer: RoundTrip,
                waits: [RoundTrip, ServerThink],
                follows: [Within QdiscDwell],
                route: Delay,
            }
            RouteChange: "route-change" by route_change {
                title: "The route between the ends changed",
                layer: RoundTrip,
                waits: [RoundTrip],
            }
            RadioPowerSave: "radio-power-save" by radio_power_save {
                title: "A radio on the path sleeps between requests",
                layer: RoundTrip,
                waits: [RoundTrip, ServerThink],
            }
            PathMemberFault: "path-member-fault" by path_member_fault {
                title: "One of several parallel paths loses packets",
                layer: Transport,
                waits: [Recovery],
            }
            Reordering: "reordering" by reordering {
                title: "The path delivers packets out of order",
                layer: Transport,
                waits: [ResponseTransfer, Recovery],
                holds_any_data: true,
            }
            SpuriousRetransmission: "spurious-retransmission" by spurious_retransmission {
                title: "Segments that had arrived are retransmitted",
                layer: Transport,
                waits: [Recovery],
                follows: [Within SocketMemoryPressure],
                holds_any_data: true,
            }
            DuplicatePackets: "duplicate-packets" by duplicate_packets {
                title: "Packets are seen twice, at no cost",
                layer: Transport,
                waits: [],
            }
            TailLossProbe: "tail-loss-probe" by tail_loss_probe {
                title: "The end of a message is lost and found by a probe",
                layer: Transport,
                waits: [Recovery],
                follows: [
                    Within SocketMemoryPressure, Within Policer, Within AcceptQueueOverflow,
                    Within StaleKeepAlive,
                ],
                route: Loss,
                holds_any_data: true,
            }
            LostRetransmission: "lost-retransmission" by lost_retransmission {
                title: "Retransmitted segments are lost again",
                layer: Transport,
                waits: [Recovery],
                follows: [
                    Within MtuBlackHole, Within PathMemberFault, Within Policer,
                    Within AcceptQueueOverflow, Within StaleKeepAlive, Within SocketMemoryPressure,
                ],
                route: Loss,
                holds_any_data: true,
            }
            FastRetransmit: "fast-retransmit" by fast_retransmit {
                title: "Lost segments are repaired by fast retransmission",
                layer: Transport,
                waits: [Recovery],
                follows: [Within Policer, Within SocketMemoryPressure],
                route: Loss,
                holds_any_data: true,
            }
            ReceiveWindow: "receive-window" by receive_window {
                title: "The receiver's window is too small for the round trip",
                layer: Transport,
                waits: [WindowFull],
                follows: [Within SocketMemoryPressure],
                holds_any_data: true,
            }
            ZeroWindow: "zero-window" by zero_window {
                title: "The receiver does not read, and its window closes",
                layer: Transport,
                waits: [WindowFull],
                follows: [Within SocketMemoryPressure],
                holds_any_data: true,
            }
            SendBuffer: "send-buffer" by send_buffer {
                title: "The sender's socket buffer is too small for the round trip",
                layer: Transport,
                waits: [SendBuffer],
            }
            SlowStart: "slow-start" by slow_start {
                title: "A new connection's congestion window is still small",
                layer: Transport,
                waits: [CongestionWindow],
            }
            SlowStartAfterIdle: "slow-start-after-idle" by slow_start_after_idle {
                title: "A connection that was idle begins slow start again",
                layer: Transport,
                waits: [CongestionWindow],
            }
            LowCongestionWindow: "low-congestion-window" by low_congestion_window {
                title: "Something keeps the congestion window low",
                layer: Transport,
                waits: [CongestionWindow],
            }
            TinyWrites: "tiny-writes" by tiny_writes {
                title: "A message is written in tiny pieces",
                layer: Transport,
                waits: [CongestionWindow],
            }
            Pacing: "pacing" by pacing {
                title: "The sender's kernel paces its segments",
                layer: Transport,
                waits: [Paced],
            }
            CorkHold: "cork-hold" by cork_hold {
                title: "A cork holds responses back until a timer expires",
                layer: Transport,
                waits: [ServerThink, ServerPause],
                stages: [Sending],
                // If a socket has no memory for data, the sender retransmits the data after a
                // timeout. The receive window is closed by then.
                follows: [Within SocketMemoryPressure],
                option: Cork,
            }
            BandwidthLimit: "bandwidth-limit" by bandwidth_limit {
                title: "The slowest link on the path limits the rate",
                layer: RoundTrip,
                waits: [RequestTransfer, ResponseTransfer],
                route: Delay,
                holds_any_data: true,
            }
            RateLimit: "rate-limit" by rate_limit {
                title: "The server enforces a rate limit",
                layer: Server,
                waits: [ServerThink, ServerPause],
            }
            PollTimer: "poll-timer" by poll_timer {
                title: "The server polls for requests on a timer",
                layer: Server,
                waits: [ServerThink],
            }
            WorkerSaturation: "worker-saturation" by worker_saturation {
                title: "Requests wait for a busy worker",
                layer: Server,
                waits: [ServerThink],
                stages: [Unread],
            }
            StopTheWorld: "stop-the-world" by stop_the_world {
                title: "The whole server stalls at times",
                layer: Server,
                waits: [ServerThink],
            }
            ColdStart: "cold-start" by cold_start {
                title: "The first requests wait until the server is warm",
                layer: Server,
                waits: [ServerThink],
            }
            TlsRoundTrips: "tls-round-trips" by tls_round_trips {
                title: "The TLS handshake takes a round trip more than it must",
                layer: Tls,
                waits: [],
                particular_to: [ConnectionNotReused],
            }
            TlsLargeCertificate: "tls-large-certificate" by tls_large_certificate {
                title: "The server's certificates do not fit into the first flight",
                layer: Tls,
                waits: [],
                particular_to: [ConnectionNotReused, SlowStart],
            }
            TlsRevocationFetch: "tls-revocation-fetch" by tls_revocation_fetch {
                title: "The client checks for revocation in the middle of the TLS handshake",
                layer: Tls,
                waits: [],
                particular_to: [ConnectionNotReused],
            }
            TlsSlowHandshake: "tls-slow-handshake" by tls_slow_handshake {
                title: "The server is slow in TLS handshakes",
                layer: Tls,
                waits: [],
                particular_to: [ConnectionNotReused],
                may_be_work: true,
            }
            TlsRecordBuffering: "tls-record-buffering" by tls_record_buffering {
                title: "The first TLS record is longer than the first flight",
                layer: Tls,
                waits: [],
                particular_to: [ConnectionNotReused, SlowStart],
            }
            Http2FlowControl: "http2-flow-control" by http2_flow_control {
                title: "HTTP/2's flow-control window is too small",
                layer: Transport,
                waits: [FlowControl],
                particular_to: [SlowStart],
            }
            DownstreamWait: "downstream-wait" by downstream_wait {
                title: "The server waits for another server that it calls",
                layer: Server,
                waits: [ServerThink],
                may_be_work: true,
            }
            ProxyBuffering: "proxy-buffering" by proxy_buffering {
                title: "A proxy holds back data that it could pass on",
                layer: Server,
                waits: [RequestPause, ServerThink],
            }
            UpstreamConnectionChurn: "upstream-connection-churn" by upstream_connection_churn {
                title: "The server opens a new connection to another one for each request",
                layer: Server,
                waits: [ServerThink],
            }
            UpstreamCalls: "upstream-calls" by upstream_calls {
                title: "The server makes many calls, one after another, for each request",
                layer: Server,
                waits: [ServerThink],
                may_be_work: true,
            }
            UpstreamUnreachable: "upstream-unreachable" by upstream_unreachable {
                title: "The server waits for something that does not answer it",
                layer: Server,
                waits: [ServerThink],
            }
            SplitConnectionProxy: "split-connection-proxy" by split_connection_proxy {
                title: "A nearby proxy hides the path to a distant server",
                layer: Server,
                waits: [ServerThink],
            }
            ConnectionNotReused: "connection-not-reused" by connection_not_reused {
                title: "Each request opens its own connection",
                layer: Connection,
                waits: [],
                // A server that closes idle connections too soon forces clients to open new ones.
                follows: [Within StaleKeepAlive],
            }
            SynLoss: "syn-loss" by syn_loss {
                title: "Connection attempts are lost and retransmitted",
                layer: Connection,
                waits: [],
                // A path that loses data segments loses SYNs too.
                follows: [
                    Besides PathMemberFault, Besides PacketLoss, Besides RetransmissionTimeout,
                    Besides FastRetransmit,
                ],
                route: Loss,
                is_silence: true,
            }
            NameServiceChain: "name-service-chain" by name_service_chain {
                title: "Another name service is asked before the resolver",
                layer: Name,
                waits: [],
            }
            DnsRetry: "dns-retry" by dns_retry {
                title: "Lookups wait for queries that got no answer",
                layer: Name,
                waits: [],
                is_silence: true,
            }
            DnsParallelQueryLoss: "dns-parallel-query-loss" by dns_parallel_query_loss {
                title: "Of two queries sent in parallel, the second is lost",
                layer: Name,
                waits: [],
                is_silence: true,
            }
            DnsSearchList: "dns-search-list" by dns_search_list {
                title: "Lookups try a search list before the name",
                layer: Name,
                waits: [],
            }
            DnsSlowResolver: "dns-slow-resolver" by dns_slow_resolver {
                title: "The resolver is slow to resolve a name",
                layer: Name,
                waits: [],
            }
            DnsTcpFallback: "dns-tcp-fallback" by dns_tcp_fallback {
                title: "Lookups are repeated over TCP",
                layer: Name,
                waits: [],
            }
            Ipv6Fallback: "ipv6-fallback" by ipv6_fallback {
                title: "The server's IPv6 address does not answer",
                layer: Connection,
                waits: [],
            }
            NeighbourResolution: "neighbour-resolution" by neighbour_resolution {
                title: "Finding the next hop's hardware address takes long",
                layer: Route,
                waits: [],
            }
            AcceptQueueOverflow: "accept-queue-overflow" by accept_queue_overflow {
                title: "The accept queue is full",
                layer: Connection,
                waits: [],
                tells_dead_peer: true,
                is_silence: true,
            }
            SynQueueFull: "syn-queue-full" by syn_queue_full {
                title: "The queue of half-open connections is full",
                layer: Connection,
                waits: [],
                is_silence: true,
            }
            TrafficFlood: "traffic-flood" by traffic_flood {
                title: "A flood leaves no room for real connections",
                layer: Connection,
                waits: [],
                is_silence: true,
            }
            TimeWaitClash: "time-wait-clash" by time_wait_clash {
                title: "New connections clash with old ones in TIME-WAIT",
                layer: Connection,
                waits: [],
            }
            PortExhaustion: "port-exhaustion" by port_exhaustion {
                title: "The client runs out of local ports",
                layer: Connection,
                waits: [],
                fails: Connections,
            }
            DeferAccept: "defer-accept" by defer_accept {
                title: "The server learns of its connections late",
                layer: Connection,
                waits: [],
            }
            FastOpenBlackHole: "fast-open-black-hole" by fast_open_black_hole {
                title: "The path drops SYNs that carry data",
                layer: Connection,
                waits: [],
                is_silence: true,
            }
            StaleKeepAlive: "stale-keep-alive" by stale_keep_alive {
                title: "Requests are sent on dead connections",
                layer: Connection,
                waits: [],
                tells_dead_peer: true,
            }
            ConnectionRefused: "connection-refused" by connection_refused {
                title: "No program listens on the port",
                layer: Connection,
                waits: [],
                fails: Connections,
            }
            FirewallDrop: "firewall-drop" by firewall_drop {
                title: "Connection attempts are dropped or filtered",
                layer: Firewall,
                waits: [],
                fails: Connections,
                tells_dead_peer: true,
                is_silence: true,
            }
            HostUnreachable: "host-unreachable" by host_unreachable {
                title: "The network reports that the host cannot be reached",
                layer: Connection,
                waits: [],
                fails: Connections,
                tells_dead_peer: true,
                is_silence: true,
            }
            NoResponse: "no-response" by no_response {
                title: "The server accepts requests but does not answer",
                layer: Server,
                waits: [ServerThink, Unknown],
                fails: Requests,
            }
            ConnectionClosed: "connection-closed" by connection_closed {
                title: "The server closes before it answers",
                layer: Server,
                waits: [],
                fails: Requests,
            }
            NotHttp: "not-http" by not_http {
                title: "The answer is not HTTP",
                layer: Server,
                waits: [],
                fails: Requests,
            }
            TlsFailed: "tls-failed" by tls_failed {
                title: "No TLS connection succeeds",
                layer: Tls,
                waits: [],
                fails: Requests,
            }
            HttpError: "http-error" by http_error {
                title: "The server answers with errors",
                layer: Server,
                waits: [],
                fails: Requests,
            }
            ErrorReply: "error-reply" by error_reply {
                title: "The server replies with errors",
                layer: Server,
                waits: [],
                fails: Requests,
            }
            RequestsFail: "requests-fail" {
                title: "Requests fail, and nothing shows why",
                layer: Server,
                waits: [],
                fails: Requests,
            }
            GrpcError: "grpc-error" by grpc_error {
                title: "gRPC calls end with errors",
                layer: Server,
                waits: [],
            }
            Http2StreamReset: "http2-stream-reset" by http2_stream_reset {
                title: "The server ends HTTP/2 streams before it answers",
                layer: Server,
                waits: [],
            }
            TimeInServer: "time-in-server" {
                title: "Unexplained time in the server",
                layer: Server,
                waits: [],
                is_place: true,
            }
            TimeInClient: "time-in-client" {
                title: "Unexplained time in the client",
                layer: Client,
                waits: [],
                is_place: true,
            }
            TimeOnPath: "time-on-path" {
                title: "Unexplained time on the path",
                layer: Transport,
                waits: [],
                is_place: true,
            }
            TimeInResolver: "time-in-resolver" {
                title: "Unexplained time in name resolution",
                layer: Name,
                waits: [],
                is_place: true,
                is_silence: true,
            }
            TimeInSetup: "time-in-setup" {
                title: "Unexplained time in connection setup",
                layer: Connection,
                waits: [],
                is_place: true,
                is_silence: true,
            }
            TimeUnknown: "time-unknown" {
                title: "Time that could not be located",
                layer: Transport,
                waits: [],
                is_place: true,
            }
        }
    };
}
pub(crate) use causes;

causes!(ids);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_from_itself() {
        fn origins(id: Id, depth: usize) {
            assert!(depth < Id::ALL.len(), "{id} follows from itself");
            for origin in id.cause().follows {
                origins(origin.cause, depth + 1);
            }
        }
        for &id in Id::ALL {
            origins(id, 0);
        }
    }

    #[test]
    fn pages_end_before_their_traces() {
        for cause in Id::ALL.iter().map(|id| id.cause()) {
            let page = cause.page;
            assert!(page.starts_with(&format!("# {}\n", cause.id)), "{page}");
            assert!(page.contains("\n## Limits\n"), "{page}");
            assert!(
                !page.contains("## Traces") && !page.contains("```trace"),
                "{page}"
            );
        }
    }

    #[test]
    fn what_a_servers_kernel_can_show_lengthens_a_wait() {
        for cause in Id::ALL.iter().map(|id| id.cause()) {
            // Stages are compared with the waits of a finding. Without waits, they cannot be
            // evidence.
            let is_held = cause.stages.is_empty() || !cause.waits.is_empty();
            assert!(is_held, "{} has stages and no waits", cause.id);
        }
    }
}
