//! Causes of latency: one file and one page each.
//!
//! A rule is an accumulator: it is fed exchanges and setups as they close, and
//! concludes once, when everything that was observed is known, so that
//! evidence that arrives later can retract what earlier evidence suggested.

mod accept_queue_overflow;
mod ack_thinning;
mod attempts;
mod autocorking;
mod bandwidth_limit;
mod bounded;
mod byte_rate;
pub(crate) mod candidates;
mod chatty_round_trips;
mod client_queue;
mod client_think;
mod close_delimited_body;
mod cold_start;
mod compression_cost;
mod connection_closed;
mod connection_not_reused;
mod connection_refused;
mod cork_hold;
mod cpu_idle_wakeup;
mod cpu_quota;
mod defer_accept;
mod delayed_ack_harmless;
mod delays;
mod disorder;
mod dns_parallel_query_loss;
mod dns_retry;
mod dns_search_list;
mod dns_slow_resolver;
mod dns_tcp_fallback;
mod downstream_wait;
mod duplicate_packets;
pub(crate) mod evidence;
pub(crate) mod example;
mod expect_continue;
mod failures;
mod fast_open_black_hole;
mod fast_retransmit;
mod features;
mod firewall_drop;
mod gathered;
mod head_of_line_blocking;
mod held;
mod host_unreachable;
mod http2_flow_control;
mod http_error;
mod ipv6_fallback;
mod limited;
mod loss;
mod lost_requests;
mod lost_retransmission;
mod low_congestion_window;
mod mtu_black_hole;
mod nagle_delayed_ack;
mod nagle_delayed_ack_request;
mod nagle_round_trip;
mod name_service_chain;
mod neighbour_resolution;
mod no_response;
mod not_http;
mod pacing;
mod packet_filter_cost;
mod packet_loss;
mod path_distance;
mod path_jitter;
mod path_member_fault;
mod path_queueing;
mod policer;
mod poll_timer;
mod port_exhaustion;
mod proxy_buffering;
mod qdisc_dwell;
mod radio_power_save;
mod rate_limit;
mod receive_window;
mod redirect_chain;
mod refusals;
mod reordering;
mod retransmission_timeout;
pub(crate) mod rhythm;
mod route_change;
pub(crate) mod secured;
mod send_buffer;
mod sequence;
mod served;
mod server_pause;
mod server_think;
mod slow_request_upload;
mod slow_start;
mod slow_start_after_idle;
mod socket_memory_pressure;
mod socket_queue_dwell;
mod softirq_backlog;
mod split_connection_proxy;
mod spurious_retransmission;
mod stale_keep_alive;
mod stop_the_world;
mod syn_loss;
mod syn_queue_full;
mod tail_loss_probe;
pub(crate) mod tally;
mod thinking;
mod time_wait_clash;
mod tiny_writes;
mod tls_failed;
mod tls_large_certificate;
mod tls_record_buffering;
mod tls_revocation_fetch;
mod tls_round_trips;
mod tls_slow_handshake;
mod traffic_flood;
mod trips;
pub(crate) mod upstream;
mod upstream_connection_churn;
mod worker_saturation;
mod zero_window;

use core::fmt;

use crate::connection::Setup;
use crate::event::TargetId;
use crate::exchange::Exchange;
use crate::facts::Facts;
use crate::flow::Endpoint;
use crate::report::{Finding, Remark};
use crate::service::{Ledger, Stretches};
use evidence::Measures;
pub(crate) use features::Features;
pub(crate) use gathered::Gathered;
use rhythm::Rhythm;
use upstream::Upstream;

/// A class of latency: what it is called and how it is told to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Stable kebab-case id.
    pub id: &'static str,
    /// Its name in a sentence's form.
    pub title: &'static str,
    /// The page that `lagtrace explain` prints, in Markdown.
    pub page: &'static str,
}

/// The conclusion of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Conclusion {
    Nothing,
    Note(Remark),
    Finding(Box<Finding>),
}

/// `None` becomes `Nothing`.
impl From<Option<Finding>> for Conclusion {
    fn from(found: Option<Finding>) -> Self {
        found.map_or(Self::Nothing, |finding| Self::Finding(Box::new(finding)))
    }
}

/// Everything a rule may look at when it concludes.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) endpoint: Endpoint,
    /// The service as a target of the run; `None` in a capture on its own.
    pub(crate) target: Option<TargetId>,
    pub(crate) ledger: &'a Ledger,
    /// The measures of the ledger's latencies.
    pub(crate) latency: Measures,
    pub(crate) gathered: &'a Gathered,
    /// Fetches of what a certificate's validity rests on, at any service.
    pub(crate) fetches: &'a Stretches,
    pub(crate) facts: &'a Facts,
    /// The server's rhythm: what the instants of its answers show.
    pub(crate) rhythm: &'a Rhythm,
    /// The server's own upstream, if the capture holds its traffic.
    pub(crate) upstream: Option<&'a Upstream>,
    /// True if the ledger was made from packets, false if from our own
    /// timestamps.
    pub(crate) has_packets: bool,
    /// The requests that each exchange of the ledger stands for: more than one
    /// where our own timestamps are a sample.
    pub(crate) weight: f64,
}

impl Case<'_> {
    /// Scales a sum over the ledger's exchanges to all requests.
    pub(crate) fn weigh(&self, sum: u64) -> u64 {
        (sum as f64 * self.weight).round() as u64
    }
}

/// One cause's accumulator.
pub(crate) trait Rule: Clone + Default + fmt::Debug {
    /// The features of which an exchange needs at least one to change what the
    /// rule holds.
    const CONCERNS: Features = Features::ANY;

    /// Takes in a closed exchange that concerns the rule.
    fn observe(&mut self, exchange: &Exchange) {
        let _ = exchange;
    }

    /// Takes in a handshake that ended.
    fn observe_setup(&mut self, setup: &Setup) {
        let _ = setup;
    }

    /// Takes over what another shard gathered.
    fn merge(&mut self, other: Self);

    /// Weighs everything.
    fn conclude(&self, case: &Case<'_>) -> Conclusion;
}

/// Declares the rules: the struct that holds them all, and the list of causes.
/// Their modules are declared above, where rustfmt sees them.
macro_rules! causes {
    ($($module:ident $id:literal $title:literal;)*) => {
        /// The accumulators of all causes for one service.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Rules {
            pub(crate) gathered: Gathered,
            $($module: $module::Rule,)*
        }

        impl Rules {
            /// Shows each rule the exchanges that concern it, rule by rule.
            pub(crate) fn observe(&mut self, batch: &[&Exchange]) {
                let features: Vec<_> = batch.iter().map(|each| Features::of(each)).collect();
                self.show(batch, &features);
            }

            /// Shows each rule its exchanges, given the features of each.
            fn show(&mut self, batch: &[&Exchange], features: &[Features]) {
                let batch = || batch.iter().zip(features);
                let any = features.iter().copied().fold(Features::ANY, Features::or);
                for (exchange, features) in batch() {
                    self.gathered.observe(exchange, *features);
                }
                $(if any.has_any(<$module::Rule as Rule>::CONCERNS) {
                    for (exchange, features) in batch() {
                        if features.has_any(<$module::Rule as Rule>::CONCERNS) {
                            self.$module.observe(exchange);
                        }
                    }
                })*
            }

            pub(crate) fn observe_setups(&mut self, batch: &[&Setup]) {
                $(batch.iter().for_each(|setup| self.$module.observe_setup(setup));)*
            }

            pub(crate) fn merge(&mut self, other: Self) {
                self.gathered.merge(other.gathered);
                $(self.$module.merge(other.$module);)*
            }

            pub(crate) fn conclude(&self, case: &Case<'_>) -> Vec<Conclusion> {
                vec![$(self.$module.conclude(case),)*]
            }
        }

        const CAUSES: &[Cause] = &[
            $(Cause { id: $id, title: $title, page: include_str!(concat!("cause/", $id, ".md")) },)*
        ];
    };
}

causes! {
    nagle_delayed_ack "nagle-delayed-ack" "Nagle's algorithm on the server waits for the client's delayed ACK";
    nagle_delayed_ack_request "nagle-delayed-ack-request" "Nagle's algorithm on the client waits for the server's delayed ACK";
    nagle_round_trip "nagle-round-trip" "Nagle's algorithm costs a round trip";
    delayed_ack_harmless "delayed-ack-harmless" "Delayed ACKs that hold nothing back";
    autocorking "autocorking" "Small writes leave together, at no cost";
    ack_thinning "ack-thinning" "One acknowledgement comes for many segments, at no cost";
    server_think "server-think" "The server takes its time before it answers";
    socket_queue_dwell "socket-queue-dwell" "Requests lie in the server's sockets before they are read";
    cpu_quota "cpu-quota" "The server's processor time is used up until the next period";
    cpu_idle_wakeup "cpu-idle-wakeup" "An idle processor of the server is slow to wake";
    softirq_backlog "softirq-backlog" "The server's kernel is late to take packets up";
    packet_filter_cost "packet-filter-cost" "The server's packet filters take long for each packet";
    server_pause "server-pause" "The server pauses in the middle of its answer";
    compression_cost "compression-cost" "The server compresses each response while the client waits";
    slow_request_upload "slow-request-upload" "The client takes its time to send its request";
    expect_continue "expect-continue" "The client waits for leave to send its request's body";
    close_delimited_body "close-delimited-body" "Only the connection's end tells that the response is whole";
    head_of_line_blocking "head-of-line-blocking" "Responses wait behind a slower one on their connection";
    client_queue "client-queue" "Requests wait in the client for a connection that is free";
    client_think "client-think" "The client pauses between requests that belong together";
    chatty_round_trips "chatty-round-trips" "One action takes many round trips one after the other";
    redirect_chain "redirect-chain" "Redirects lead to redirects";
    path_distance "path-distance" "The distance between the ends";
    path_queueing "path-queueing" "Packets queue on the path";
    socket_memory_pressure "socket-memory-pressure" "The receiver's kernel drops what its socket has no memory for";
    qdisc_dwell "qdisc-dwell" "Responses wait in the queue of the server's own device";
    packet_loss "packet-loss" "The path loses packets";
    policer "policer" "Something on the path drops what exceeds an allowance";
    retransmission_timeout "retransmission-timeout" "Lost segments wait for a retransmission timer";
    mtu_black_hole "mtu-black-hole" "A link on the path takes no full packets and nobody says so";
    path_jitter "path-jitter" "The path delays some packets and not others";
    route_change "route-change" "The route between the ends changed";
    radio_power_save "radio-power-save" "A radio on the way sleeps between requests";
    path_member_fault "path-member-fault" "One of several parallel paths loses packets";
    reordering "reordering" "The path delivers packets out of order";
    spurious_retransmission "spurious-retransmission" "Segments are sent again that had arrived";
    duplicate_packets "duplicate-packets" "Packets are seen twice, at no cost";
    tail_loss_probe "tail-loss-probe" "The end of a message is lost and found by a probe";
    lost_retransmission "lost-retransmission" "Lost segments are lost again when they are repeated";
    fast_retransmit "fast-retransmit" "Lost segments are repaired by fast retransmission";
    receive_window "receive-window" "The receiver's window is too small for the round trip";
    zero_window "zero-window" "The receiver does not read, and its window closes";
    send_buffer "send-buffer" "The sender's socket buffer is too small for the round trip";
    slow_start "slow-start" "A new connection's window has yet to grow";
    slow_start_after_idle "slow-start-after-idle" "A connection that rested begins slow start anew";
    low_congestion_window "low-congestion-window" "Something keeps the congestion window low";
    tiny_writes "tiny-writes" "A message is written in tiny pieces";
    pacing "pacing" "The sender's kernel spaces its segments to a rate";
    cork_hold "cork-hold" "A cork holds responses back until a timer expires";
    bandwidth_limit "bandwidth-limit" "The path carries no more than a constant rate";
    rate_limit "rate-limit" "The server keeps to a rate that was set";
    poll_timer "poll-timer" "The server looks for requests by a timer";
    worker_saturation "worker-saturation" "Requests wait for a busy worker";
    stop_the_world "stop-the-world" "The whole server stands still at times";
    cold_start "cold-start" "The first requests wait until the server is warm";
    tls_round_trips "tls-round-trips" "The TLS handshake takes a round trip more than it must";
    tls_large_certificate "tls-large-certificate" "The server's certificates do not fit into the first flight";
    tls_revocation_fetch "tls-revocation-fetch" "The client asks for revocation in the midst of the TLS handshake";
    tls_slow_handshake "tls-slow-handshake" "The server takes its time for TLS handshakes";
    tls_record_buffering "tls-record-buffering" "The first TLS record is longer than the first flight";
    http2_flow_control "http2-flow-control" "HTTP/2's flow-control window is too small";
    downstream_wait "downstream-wait" "The server waits for another that it asks";
    proxy_buffering "proxy-buffering" "A proxy holds back what it could pass on";
    upstream_connection_churn "upstream-connection-churn" "A proxy connects to its upstream anew for each request";
    split_connection_proxy "split-connection-proxy" "A near proxy hides the way to a far server";
    connection_not_reused "connection-not-reused" "Each request pays for a connection of its own";
    syn_loss "syn-loss" "Connection attempts are lost and repeated";
    name_service_chain "name-service-chain" "A name is asked for elsewhere before the resolver is asked";
    dns_retry "dns-retry" "Lookups wait for queries that were lost";
    dns_parallel_query_loss "dns-parallel-query-loss" "Lookups lose the second of two queries sent side by side";
    dns_search_list "dns-search-list" "Lookups try a search list before the name";
    dns_slow_resolver "dns-slow-resolver" "The resolver takes its time to find a name";
    dns_tcp_fallback "dns-tcp-fallback" "Lookups are done again over TCP";
    ipv6_fallback "ipv6-fallback" "The server's IPv6 address does not answer";
    neighbour_resolution "neighbour-resolution" "The next hop's hardware address takes long to find";
    accept_queue_overflow "accept-queue-overflow" "The queue of connections to be accepted is full";
    syn_queue_full "syn-queue-full" "The queue of half-open connections is full";
    traffic_flood "traffic-flood" "A flood leaves no room for real connections";
    time_wait_clash "time-wait-clash" "New connections meet the memory of old ones";
    port_exhaustion "port-exhaustion" "The client runs out of local ports";
    defer_accept "defer-accept" "The server hears of its connections late";
    fast_open_black_hole "fast-open-black-hole" "The path drops SYNs that carry data";
    stale_keep_alive "stale-keep-alive" "Requests go into connections that are dead";
    connection_refused "connection-refused" "Nobody listens on the port";
    firewall_drop "firewall-drop" "Connection attempts are dropped silently";
    host_unreachable "host-unreachable" "The network says that the host cannot be reached";
    no_response "no-response" "The server accepts requests and does not answer";
    connection_closed "connection-closed" "The server closes before it answers";
    not_http "not-http" "The answer is no HTTP";
    tls_failed "tls-failed" "No TLS connection comes about";
    http_error "http-error" "The server answers with errors";
}

pub(crate) use nagle_delayed_ack::stall_follows_ack;
pub(crate) use neighbour_resolution::silent as neighbour_silent;

/// Every cause that this version knows, in the order they are weighed.
pub fn all() -> &'static [Cause] {
    CAUSES
}

/// The cause with this id.
pub fn by_id(id: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.id == id)
}
