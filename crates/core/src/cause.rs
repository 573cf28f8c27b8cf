//! The causes of latency, each with a rule (`<id>.rs`) and a page (`<id>.md`).
//!
//! A rule is an accumulator. It receives exchanges and connection setups when they close. It
//! concludes once, at the end, so that later evidence can contradict earlier evidence.

mod accept_queue_overflow;
mod ack_thinning;
mod attempts;
mod autocorking;
mod bandwidth_limit;
pub(crate) mod behind;
mod beside;
mod byte_rate;
pub(crate) mod calls;
pub(crate) mod candidates;
mod capacity;
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
pub(crate) mod dns_retry;
mod dns_search_list;
mod dns_slow_resolver;
mod dns_tcp_fallback;
mod downstream_wait;
mod duplicate_packets;
mod error_reply;
pub(crate) mod evidence;
mod expect_continue;
mod failures;
pub(crate) mod far_side;
mod fast_open_black_hole;
mod fast_retransmit;
mod features;
mod firewall_drop;
mod first_packets;
mod gathered;
mod greetings;
mod grpc_error;
mod head_of_line_blocking;
mod held;
mod host_unreachable;
mod http2_flow_control;
mod http2_stream_reset;
mod http_error;
pub(crate) mod ipv6_fallback;
mod kernel_place;
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
mod one_thread;
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
mod rules;
mod search;
pub(crate) mod secured;
mod send_buffer;
mod sequence;
pub(crate) mod served;
mod server_pause;
mod server_think;
pub(crate) mod service;
pub(crate) mod settings;
mod silence;
mod silences;
mod slow_request_upload;
mod slow_start;
mod slow_start_after_idle;
mod socket_memory_pressure;
mod socket_options;
mod socket_queue_dwell;
mod softirq_backlog;
mod split_connection_proxy;
mod spurious_retransmission;
mod stale_keep_alive;
pub(crate) mod starved;
mod stop_the_world;
mod syn_loss;
mod syn_queue_full;
mod tail_loss_probe;
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
mod upstream_calls;
mod upstream_connection_churn;
mod upstream_unreachable;
mod wording;
mod worker_saturation;
mod zero_window;

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::claim::Claim;
use crate::connection::Setup;
use crate::exchange::Exchange;
use crate::facts::Facts;
use crate::observed::event::{ListenerSample, TargetId};
use crate::observed::flow::Endpoint;
use crate::registry::{Cause, Id};
use crate::report::{EvidenceKind, Remark};
use crate::service::tcp_handshakes::WhyRepeated;
use crate::service::{Ledger, Stretches, Uploads};
use crate::stats::Merge;
use behind::Behind;
use calls::HostCalls;
use evidence::Measures;
pub(crate) use features::Features;
pub(crate) use gathered::Gathered;
use rhythm::Rhythm;
pub(crate) use rules::Rules;
pub use search::search;
use settings::Measured;
pub use settings::directives;
use upstream::Upstream;

/// The conclusion of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Conclusion {
    Nothing,
    Note(Remark),
    Claim(Box<Claim>),
}

/// Converts `None` to [`Conclusion::Nothing`].
impl From<Option<Claim>> for Conclusion {
    fn from(found: Option<Claim>) -> Self {
        found.map_or(Self::Nothing, |claim| Self::Claim(Box::new(claim)))
    }
}

/// The input of a rule's conclusion. A rule uses nothing else.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) endpoint: Endpoint,
    /// The service's role in our own run; `None` for a capture without a run.
    pub(crate) target: Option<TargetId>,
    pub(crate) ledger: &'a Ledger,
    /// The mean and the 99th percentile of the ledger's latencies.
    pub(crate) latency: Measures,
    pub(crate) gathered: &'a Gathered,
    /// Fetches of certificate revocation data (OCSP, CRL), at any service.
    pub(crate) fetches: &'a Stretches,
    /// Uploads that filled a queue on the path to the server, at any of the server's ports.
    pub(crate) uploads: &'a Uploads,
    pub(crate) facts: &'a Facts,
    /// The server's rhythm: the times of its requests and responses.
    pub(crate) rhythm: &'a Rhythm,
    /// The rhythms of all servers.
    pub(crate) rhythms: &'a BTreeMap<Endpoint, Rhythm>,
    /// The upstream that the server calls, if the capture contains that traffic.
    pub(crate) upstream: Option<&'a Upstream>,
    /// The calls of the server's host that fill its waits, if the capture contains them.
    pub(crate) behind: Option<&'a Behind>,
    /// All calls that were seen.
    pub(crate) calls: &'a HostCalls,
    /// True if the ledger was made from packets, and false if it was made from the timestamps of
    /// our own requests.
    pub(crate) has_packets: bool,
    /// Number of requests that each exchange of the ledger represents. It is more than 1 if the
    /// exchanges are a sample.
    pub(crate) weight: f64,
}

impl Case<'_> {
    /// Scales a sum over the ledger's exchanges to all requests that they represent.
    pub(crate) fn weigh(&self, sum: u64) -> u64 {
        (sum as f64 * self.weight).round() as u64
    }

    /// Returns the reason that SYNs of the service are retransmitted.
    pub(crate) fn why_syns_repeat(&self) -> WhyRepeated {
        let shown = self
            .ledger
            .setups
            .handshakes
            .why(self.ledger, self.listen_overflows());
        match shown {
            WhyRepeated::Loss if self.full_listener().is_some() => WhyRepeated::AcceptQueue,
            _ => shown,
        }
    }

    /// Returns the service's listener if its accept queue was seen full: its kernel ignores whatever
    /// would add to it (`sk_acceptq_is_full()`). Known only for our target on this host.
    pub(crate) fn full_listener(&self) -> Option<&ListenerSample> {
        let own = |listener: &&ListenerSample| listener.local.port == self.endpoint.port;
        let mut listeners = self.facts.kernel.listeners.iter().filter(own);
        listeners
            .find(|listener| listener.queued > listener.limit)
            .filter(|_| self.target == Some(TargetId::Subject))
    }

    /// Returns how often an accept queue on the server's host was full, if the service is our target
    /// or was watched. The kernel counts all listeners of the host together.
    pub(crate) fn listen_overflows(&self) -> u64 {
        let is_watched = self.target.is_none() && self.facts.turns.tally.is_some();
        if is_watched || self.target == Some(TargetId::Subject) {
            self.facts.listen_overflows()
        } else {
            0
        }
    }

    /// Returns the kind of evidence that the times of the exchanges are.
    pub(crate) fn timed_by(&self) -> EvidenceKind {
        if self.has_packets {
            EvidenceKind::Wire
        } else {
            EvidenceKind::OwnSocket
        }
    }

    /// Returns true if the exchanges are all that a capture contains, or all of our own requests,
    /// and not a sample, in which successive requests are not neighbours.
    pub(crate) fn has_all(&self) -> bool {
        let is_whole = |target| self.facts.loads.has_all_samples(target);
        self.has_packets || self.target.is_some_and(is_whole)
    }

    /// Returns the minimum round-trip time between the ends. It comes from handshakes or, if the
    /// capture contains none, from exchanges and FINs.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let later = || {
            let trips = self.gathered.trips.least().into_iter();
            trips.chain(self.ledger.trips.fin).min()
        };
        self.ledger.trips.handshake.or_else(later)
    }
}

/// The accumulator of one cause's rule.
pub(crate) trait Rule: Clone + Default + fmt::Debug + Merge {
    /// The features that matter to the rule. An exchange without any of these features does not
    /// change the rule's state.
    const CONCERNS: Features = Features::ANY;

    /// Records a closed exchange that has one of the features in [`CONCERNS`](Self::CONCERNS).
    fn observe(&mut self, exchange: &Exchange) {
        let _ = exchange;
    }

    /// Records a connection setup that has ended.
    fn observe_setup(&mut self, setup: &Setup) {
        let _ = setup;
    }

    /// Returns the conclusion from all observations.
    fn conclude(&self, case: &Case<'_>) -> Conclusion;

    /// Returns the claim's figures that are compared with the server's configuration.
    fn measured(&self, case: &Case<'_>) -> Measured {
        let _ = case;
        Measured::default()
    }
}

pub(crate) use host_unreachable::told as told_unreachable;
pub(crate) use http_error::Statuses;
pub(crate) use nagle_delayed_ack::stall_follows_ack;
pub(crate) use neighbour_resolution::silent as neighbour_silent;
pub(crate) use path_queueing::grown as grown_handshakes_of;

/// Returns the rows of all causes of this version, in the registry's order.
pub fn all() -> impl ExactSizeIterator<Item = &'static Cause> {
    Id::ALL.iter().map(|id| id.cause())
}
