//! All observations other than TCP segments.
//!
//! Sources make events, and the analyzer processes them. An event states what was seen, where, when
//! and during which phase. It never interprets the observation.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observed::experiment::Experiment;
use crate::observed::flow::{Endpoint, FlowKey};
use crate::observed::kernel_span::{RequestSpan, WatchTally};
use crate::observed::load_level::{LevelSample, ProcessorUse, SentRequests};
use crate::observed::passage::BytePassage;
pub use crate::observed::point::{PointId, Stamp};
use crate::observed::route::{AutonomousSystem, HopSample, PathMtu, TraceStart};
use crate::observed::segment::{TcpFlags, TcpOptions};
use crate::observed::sockets::{KernelLimits, LiveSocket};
use crate::observed::syscall::{CallTally, SocketCall};
use crate::observed::time::{ClockId, Timestamp};
use crate::stats::histogram::Distribution;

/// The source of an observation: its point, its clock and the record's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The observation point.
    pub point: PointId,
    /// The clock of its timestamps.
    pub clock: ClockId,
    /// The record's number at that point, from 1; 0 where records have no numbers.
    pub number: u64,
}

/// The activity of lagtrace itself at the time of an observation. Percentiles and findings use only
/// the baseline. The other phases serve only to distinguish causes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before the load is steady; not counted.
    WarmUp,
    /// The measurement without intervention: the service as its users see it.
    #[default]
    Baseline,
    /// Level `n` of the load that finds out what the service carries, numbered in the order of the
    /// levels.
    Level(u8),
    /// The control of experiment `n`: it runs in parallel with the experiment and differs only in
    /// the intervention.
    Control(u8),
    /// Experiment `n`, numbered in the order the experiments were started.
    Experiment(u8),
}

/// An observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The source of the observation.
    pub origin: Origin,
    /// Time of the observation; for something that took time, its end.
    pub at: Timestamp,
    /// The phase during which it was observed.
    pub phase: Phase,
    /// The observation itself.
    pub body: EventBody,
}

impl Event {
    /// Makes an observation of this host itself, on its realtime clock.
    pub fn here(at: Timestamp, phase: Phase, body: EventBody) -> Self {
        Self {
            origin: Origin::default(),
            at,
            phase,
            body,
        }
    }
}

/// The content of an observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventBody {
    /// A name resolution, successful or not.
    Resolution(Resolution),
    /// Connection attempts at an address of the target's name that is not the one used.
    OtherAddress(OtherAddress),
    /// The kernel's selection of route and source address for a target.
    Route(KernelRoute),
    /// A probe and its answer.
    Probe(ProbeSample),
    /// The start of a route trace.
    Trace(TraceStart),
    /// A probe of a route and its answer.
    Hop(HopSample),
    /// The name of an address on the route.
    HopName(IpAddr, String),
    /// The autonomous system of an address on the route.
    HopOrigin(IpAddr, AutonomousSystem),
    /// The path MTU of a route.
    PathMtu(PathMtu),
    /// The start of a phase, with its experiment and its limits.
    PhaseStarted(PhaseStart),
    /// The assignment of a flow to this event's phase. All traffic of the flow belongs to the
    /// phase, whatever its time.
    FlowPhase(FlowKey),
    /// Totals over one cluster of a load run's requests.
    Load(LoadCluster),
    /// The protocol, TLS and socket settings of a load run's connections, sent when it is over.
    Transport(LoadTransport),
    /// The answers under one level of load, sent when it is over.
    Level(LevelSample),
    /// Who used the processors of this host during the load of this event's phase.
    Processors(ProcessorUse),
    /// The requests that the investigation sent, told when it is over.
    Sent(SentRequests),
    /// The stages of a load run's requests and the time spent in each, sent when it is over.
    Stages(LoadStages),
    /// The results of one of several URLs of a load run, sent when it is over.
    LoadUrl(LoadUrl),
    /// The processor use and lateness of a load generator itself.
    Generator(GeneratorSample),
    /// A period in which none of our requests was answered, sent when a load run is over.
    Silence(Silence),
    /// A request of ours with its timestamps (a bounded sample of all).
    Request(RequestSample),
    /// The options and state of a live socket.
    Socket(SocketSample),
    /// A current socket of this host. Recordings do not contain it, because the report contains all
    /// of it.
    #[serde(skip)]
    LiveSocket(Box<LiveSocket>),
    /// An upstream that the program of a target calls. Requests to it show for which time the target
    /// waits for others.
    Upstream(Upstream),
    /// One request and its reply on a live connection, as timed by the kernel.
    Turn(Box<RequestSpan>),
    /// Bytes of a multiplexed connection that passed through the server's host, as timed by the
    /// kernel.
    Passage(Box<BytePassage>),
    /// The totals of watching the kernel, sent when it is over.
    Watched(WatchTally),
    /// A finished call on a socket.
    SocketCall(Box<SocketCall>),
    /// The totals of tracing calls, sent when it is over.
    Traced(CallTally),
    /// The limits on the sockets of a network namespace of this host.
    KernelLimits(KernelLimits),
    /// A kernel counter's change over the run.
    Counter(CounterChange),
    /// A listening socket's queue.
    Listener(ListenerSample),
    /// An effective line of a program's configuration.
    Configuration(ConfigurationLine),
    /// The kernel timers in effect on a host.
    Timers(KernelTimers),
    /// The packet filter rules that could touch the target.
    Firewall(FirewallState),
    /// The totals of what a packet source delivered.
    Capture(CaptureSummary),
    /// A remark: something could not be measured, or the report needs an explanation.
    Note(Note),
    /// The statuses of our own requests' responses that count as a success; all others count as
    /// failures.
    Expected(Vec<u16>),
}

/// The target of the run that an observation is about.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum TargetId {
    /// The service under investigation.
    #[default]
    Subject,
    /// The healthy twin of the subject (`--control`).
    Twin,
}

/// An upstream of a server, and who calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Upstream {
    /// The address from which the server's connections to the upstream come.
    pub caller: IpAddr,
    /// The upstream.
    pub endpoint: Endpoint,
}

/// The outcome of resolving a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The name asked for.
    pub name: String,
    /// The addresses in the order they were given; empty when the resolution failed.
    pub addresses: Vec<IpAddr>,
    /// The duration of the resolution, as the program's own call sees it.
    pub took: Duration,
    /// The reason for the failure, in the resolver's words.
    pub failure: Option<String>,
}

/// Connection attempts at an address of the target's name that is not the one used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherAddress {
    /// The target.
    pub target: TargetId,
    /// The address and the target's port.
    pub endpoint: Endpoint,
    /// Number of attempts, all with the same answer.
    pub attempts: u32,
    /// The result of each attempt.
    pub answer: ProbeAnswer,
    /// The time for which an answer was awaited.
    pub waited: Duration,
}

/// The kernel's route to a target (`ip route get`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRoute {
    /// The target.
    pub target: IpAddr,
    /// The source address the kernel chooses.
    pub source: Option<IpAddr>,
    /// The outgoing interface.
    pub interface: String,
    /// The next hop; `None` if the target is on the link or is this host.
    pub gateway: Option<IpAddr>,
    /// True if the target is this host itself: such traffic stays on `lo`.
    pub is_local: bool,
    /// The path MTU the kernel knows, in bytes.
    pub mtu: Option<u32>,
    /// True if the route carries the `quickack` metric: no delayed ACKs.
    pub quickack: bool,
    /// The route's `rto_min`, which also limits the delay of delayed ACKs.
    pub rto_min: Option<Duration>,
}

/// The method of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeMethod {
    /// A SYN from a raw socket, answered by SYN/ACK or RST.
    TcpSyn,
    /// `connect(2)`, with the round trip read from `TCP_INFO`.
    TcpConnect,
    /// Segments with user-chosen flags from a raw socket.
    TcpFlags,
    /// A request on a fresh connection.
    HttpFresh,
    /// A request on a connection that was used before.
    HttpKeptAlive,
    /// A full TLS handshake, without the TCP handshake before it.
    TlsFull,
    /// A TLS handshake that resumed a session, without the TCP handshake before it.
    TlsResumed,
    /// An ICMP echo request (RFC 792, RFC 4443 §4.1).
    Icmp,
    /// A datagram, answered by a datagram or by ICMP port unreachable.
    Udp,
}

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeAnswer {
    /// SYN/ACK: a program listens.
    Open,
    /// RST: no program listens, or a packet filter answered with RST.
    Refused,
    /// An ICMP error of this type and code.
    Unreachable(u8, u8),
    /// Nothing within the time allowed.
    Silence,
    /// An HTTP response with this status.
    Status(u16),
    /// An HTTP response that began, and was not complete within the time allowed.
    Unfinished,
    /// The connection was closed or reset before a full response.
    Closed,
    /// The bytes were not an HTTP response.
    NotHttp,
    /// A call of gRPC that failed with this `grpc-status`.
    Grpc(u8),
    /// A TLS handshake that succeeded.
    Secured,
    /// A TLS handshake that failed for a reason other than the next three.
    TlsFailed,
    /// A certificate that was not accepted.
    NotTrusted,
    /// Bytes that are not TLS in reply to a handshake.
    NotTls,
    /// No complete TLS handshake within the time allowed.
    TlsTimeout,
    /// An ICMP echo reply.
    Echo,
    /// A UDP datagram.
    Datagram,
}

impl ProbeAnswer {
    /// Returns the answer in words.
    pub fn name(self) -> String {
        match self {
            Self::Open => "open".to_owned(),
            Self::Refused => "refused".to_owned(),
            Self::Unreachable(kind, code) => format!("unreachable {kind}/{code}"),
            Self::Silence => "silence".to_owned(),
            Self::Status(status) => status.to_string(),
            Self::Unfinished => "unfinished".to_owned(),
            Self::Closed => "closed".to_owned(),
            Self::NotHttp => "not HTTP".to_owned(),
            Self::Grpc(code) => grpc_name(code).to_owned(),
            Self::Secured => "secured".to_owned(),
            Self::TlsFailed => "TLS failed".to_owned(),
            Self::NotTrusted => "certificate not accepted".to_owned(),
            Self::NotTls => "no TLS".to_owned(),
            Self::TlsTimeout => "TLS timeout".to_owned(),
            Self::Echo => "echo".to_owned(),
            Self::Datagram => "datagram".to_owned(),
        }
    }

    /// Returns true if a TLS handshake was requested and did not succeed.
    pub const fn is_tls_failure(self) -> bool {
        matches!(
            self,
            Self::TlsFailed | Self::NotTrusted | Self::NotTls | Self::TlsTimeout
        )
    }
}

/// A probe and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSample {
    /// The target probed.
    pub target: TargetId,
    /// The address and port probed.
    pub endpoint: Endpoint,
    /// The method of the probe.
    pub method: ProbeMethod,
    /// The answer to the probe.
    pub answer: ProbeAnswer,
    /// Time from the sending of the probe to the answer's arrival; `None` for silence and for a
    /// response that was not complete in time.
    pub rtt: Option<Duration>,
    /// The origin of the timestamps from which `rtt` was computed.
    pub stamp: Stamp,
    /// Time to live of the answer, if it was seen.
    pub ttl: Option<u8>,
    /// SYN retransmissions before the answer.
    pub syn_retransmissions: u8,
    /// The probe's number in its series, from 0.
    pub number: u32,
    /// Timeliness of the answer: within the time allowed, too late, or after another answer to the
    /// same probe.
    pub coming: Coming,
    /// Time from the call that sent the probe until this program received the answer, if the kernel
    /// measured `rtt`. The excess over `rtt` is time in this host's own queues and wake-ups.
    pub noticed: Option<Duration>,
    /// Time of the probe in this host's own queue (the qdisc) before it reached the device, by the
    /// kernel's timestamps; not part of `rtt`.
    pub queued: Option<Duration>,
    /// The parameter in which this probe differs from the others of its series, if any.
    pub step: Option<ProbeStep>,
    /// Bytes of the probe's packet before the payload, including the IP header; 0 if the kernel
    /// creates all of it.
    pub headers: u16,
    /// Header fields of the packet that answered.
    pub reply: Option<Box<ProbeReply>>,
    /// Time spent in each phase, if the probe is a TLS handshake or a request.
    pub phases: Option<Box<ProbePhases>>,
}

/// The phases of a TLS handshake or a request, one after the other, by the program's clock; `None`
/// for a phase that did not occur.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePhases {
    /// Name resolution.
    pub resolve: Option<Duration>,
    /// The TCP handshake.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub handshake: Option<Duration>,
    /// The part of `handshake` up to the server's first byte.
    pub hello: Option<Duration>,
    /// Time from sending the request to the response's first byte.
    pub first_byte: Option<Duration>,
    /// Time from the response's first byte to its last.
    pub transfer: Option<Duration>,
    /// The parameters agreed on in the TLS handshake.
    pub tls: Option<ProbeTls>,
}

impl ProbePhases {
    /// The names of the phases, in order.
    pub const NAMES: [&'static str; 6] = [
        "resolve",
        "connect",
        "tls",
        "tls-first-byte",
        "first-byte",
        "transfer",
    ];

    /// Returns the duration of each phase, in the order of [`Self::NAMES`].
    pub fn all(&self) -> [Option<Duration>; 6] {
        [
            self.resolve,
            self.connect,
            self.handshake,
            self.hello,
            self.first_byte,
            self.transfer,
        ]
    }
}

/// The parameters agreed on in a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeTls {
    /// The version, as on the wire: 0x0304 is TLS 1.3.
    pub version: u16,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// True if the handshake resumed a session.
    pub is_resumed: bool,
    /// Expiry of the server's certificate, if it was read.
    pub certificate_ends: Option<Timestamp>,
}

/// Returns the name of a TLS version by its number on the wire.
pub fn tls_version_name(version: u16) -> &'static str {
    match version {
        0x0304 => "TLS 1.3",
        0x0303 => "TLS 1.2",
        0x0302 => "TLS 1.1",
        0x0301 => "TLS 1.0",
        0x0300 => "SSL 3",
        _ => "TLS",
    }
}

/// The parameter that varies over the probes of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeStep {
    /// The source port of the probes.
    SourcePort(u16),
    /// Payload bytes.
    Size(u16),
    /// TCP's control bits.
    Flags(u8),
}

/// The timeliness of an answer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Coming {
    /// Within the time allowed. Also used for a probe without any answer.
    #[default]
    InTime,
    /// After the time allowed. An earlier sample reported the probe as unanswered.
    Late,
    /// After another answer to the same probe.
    Again,
}

/// The packet that answered a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReply {
    /// The sender of the packet: the target, or the router of an ICMP error.
    pub from: IpAddr,
    /// The source port of the probe; 0 for ICMP.
    pub source_port: u16,
    /// The packet's length on the wire without the link-layer header, in bytes, if it was seen.
    pub len: Option<u32>,
    /// The IPv4 identification, if it was seen.
    pub id: Option<u16>,
    /// The don't-fragment bit (IPv4), if it was seen.
    pub dont_fragment: Option<bool>,
    /// The TCP header, if it was a segment.
    pub segment: Option<ReplySegment>,
}

/// The header of a segment that answered a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplySegment {
    /// The control bits.
    pub flags: TcpFlags,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The window field, unscaled as in every segment with SYN.
    pub window: u16,
    /// The TCP options.
    pub options: TcpOptions,
}

/// The parameters of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseStart {
    /// The target under load.
    pub target: TargetId,
    /// Time at which the phase ends or ended.
    pub end: Timestamp,
    /// The experiment, for the phases `Control` and `Experiment`.
    pub experiment: Option<Experiment>,
    /// Connections in use.
    pub connections: u32,
    /// Requests per second offered; `None` in closed loop.
    pub offered_rate: Option<f64>,
    /// Number of periods into which the phase is divided: 1 unless it alternates with other phases.
    pub turns: u32,
    /// Total time of these periods, in which requests could start.
    pub active: Duration,
    /// True if packets were captured during the phase, which disturbs the measurement.
    pub is_observed: bool,
}

/// The reason that a request ended without a complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestFailure {
    /// The connection was refused (RST to SYN).
    Refused,
    /// The connection could not be opened within the time allowed.
    ConnectTimeout,
    /// No route, or an ICMP error.
    Unreachable,
    /// No complete response within the time allowed.
    Timeout,
    /// Reset by the peer.
    Reset,
    /// Closed by the peer before the response was complete.
    Closed,
    /// The bytes were not an HTTP response.
    NotHttp,
    /// The server's certificate was not accepted.
    Certificate,
    /// The TLS handshake, or a record after it, failed for another reason.
    Tls,
    /// The TLS handshake was not completed within the time allowed.
    TlsTimeout,
    /// The server rejected the request on every connection (HTTP/2's GOAWAY and REFUSED_STREAM),
    /// however often it was retried.
    TurnedAway,
    /// A call of gRPC ended with this `grpc-status`, which is not 0.
    Grpc(u8),
    /// Our own side failed (out of descriptors or ports).
    Local,
    /// The run and its grace period ended first: the request was in flight, or it was due and had
    /// not been sent.
    Cut,
}

impl RequestFailure {
    /// Returns the name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::ConnectTimeout => "connect timeout",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Closed => "closed early",
            Self::NotHttp => "not HTTP",
            Self::Certificate => "certificate not accepted",
            Self::Tls => "TLS failed",
            Self::TlsTimeout => "TLS timeout",
            Self::TurnedAway => "turned away",
            Self::Grpc(code) => grpc_name(code),
            Self::Local => "failed on our side",
            Self::Cut => "cut by the end of the run",
        }
    }
}

/// Returns the name of a `grpc-status`.
const fn grpc_name(code: u8) -> &'static str {
    match code {
        1 => "gRPC CANCELLED",
        3 => "gRPC INVALID_ARGUMENT",
        4 => "gRPC DEADLINE_EXCEEDED",
        5 => "gRPC NOT_FOUND",
        6 => "gRPC ALREADY_EXISTS",
        7 => "gRPC PERMISSION_DENIED",
        8 => "gRPC RESOURCE_EXHAUSTED",
        9 => "gRPC FAILED_PRECONDITION",
        10 => "gRPC ABORTED",
        11 => "gRPC OUT_OF_RANGE",
        12 => "gRPC UNIMPLEMENTED",
        13 => "gRPC INTERNAL",
        14 => "gRPC UNAVAILABLE",
        15 => "gRPC DATA_LOSS",
        16 => "gRPC UNAUTHENTICATED",
        _ => "gRPC UNKNOWN",
    }
}

/// Totals over one cluster of a load run's requests: those of one group of connections in one
/// second. The bootstrap for confidence intervals resamples whole clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCluster {
    /// The target.
    pub target: TargetId,
    /// Whole seconds since the start of the phase.
    pub second: u32,
    /// Group of connections, stable over the run.
    pub group: u16,
    /// Time from the intended start (open loop) or from the send (closed loop) to the last byte. A
    /// request that timed out counts with the time until the timeout.
    pub latency: Distribution,
    /// Time from the send to the last byte: `latency` without the wait for a free connection. Equal
    /// to `latency` in closed loop.
    pub service: Distribution,
    /// Time from the send to the first response byte.
    pub first_byte: Distribution,
    /// Time from the first response byte to the last one, for complete responses.
    pub body: Distribution,
    /// Failures by kind. `latency` contains a failed request only if it timed out or was cut.
    pub failures: Vec<(RequestFailure, u64)>,
    /// Complete responses by HTTP status.
    pub statuses: Vec<(u16, u64)>,
    /// Connections opened.
    pub connects: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

/// The time of one request, divided into stages by the kernel's timestamps. The stages add up to
/// the time from when the request was due to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Wait for a free connection: from the due time until `send` was called.
    pub waited: Duration,
    /// Time in this host's own queues, until the request's last byte reached the device.
    pub queued: Duration,
    /// The connection's minimum round-trip time, or less if the request was acknowledged or
    /// answered sooner.
    pub path: Duration,
    /// Additional time until the request was acknowledged: longer transit than the minimum, or a
    /// delayed ACK of the peer.
    pub unacknowledged: Duration,
    /// Additional time until the response's first byte arrived.
    pub server: Duration,
    /// Additional time until the response's last byte arrived.
    pub response: Duration,
    /// Additional time until our own program had read the response.
    pub wake_up: Duration,
    /// True if the acknowledgement came before the response, in a separate segment.
    pub is_acknowledged_apart: bool,
}

impl StageTimes {
    /// Returns the stages in order, by name.
    pub fn each(&self) -> [(&'static str, Duration); 7] {
        [
            ("for a connection", self.waited),
            ("own queue", self.queued),
            ("path", self.path),
            ("unacknowledged", self.unacknowledged),
            ("server", self.server),
            ("response", self.response),
            ("client wake-up", self.wake_up),
        ]
    }
}

/// The time of a load run's requests by stage, for the requests whose timestamps were sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadStages {
    /// The target.
    pub target: TargetId,
    /// Requests with known stages.
    pub requests: u64,
    /// Requests whose timestamps were missing or implausible.
    pub without: u64,
    /// Requests that were acknowledged before their response came.
    pub acknowledged_apart: u64,
    /// The stages in order, with their names from [`StageTimes::each`].
    pub stages: Vec<(String, Distribution)>,
}

/// The results of one of several URLs of a load run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadUrl {
    /// The target.
    pub target: TargetId,
    /// The URL.
    pub url: String,
    /// The relative frequency of this URL compared to the others.
    pub weight: u32,
    /// Latency, as in a [`LoadCluster`].
    pub latency: Distribution,
    /// Failures by kind.
    pub failures: Vec<(RequestFailure, u64)>,
    /// Complete responses by HTTP status.
    pub statuses: Vec<(u16, u64)>,
}

/// The protocol, TLS and socket settings of one load run's connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadTransport {
    /// The target.
    pub target: TargetId,
    /// The version of HTTP: `HTTP/1.1`.
    pub protocol: String,
    /// Maximum number of requests in flight per connection.
    pub at_once: u32,
    /// The TLS parameters of the first handshake, if TLS was used.
    pub tls: Option<LoadTls>,
    /// The Unix socket connected to instead of the target's address.
    pub unix_socket: Option<String>,
    /// The options set on our sockets, as `setsockopt(2)` names them: `TCP_NODELAY`.
    pub options: Vec<String>,
    /// The source addresses that connections use in rotation; empty if the kernel chose them.
    pub sources: Vec<IpAddr>,
}

/// The TLS parameters and handshakes of a load run, including the handshakes of the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadTls {
    /// The version, as on the wire: 0x0304 is TLS 1.3.
    pub version: u16,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// Full handshakes, from the ClientHello to when a request could be sent.
    pub full: Distribution,
    /// Handshakes that resumed a session, timed as `full`.
    pub resumed: Distribution,
}

/// The processor use and lateness of a load generator in one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorSample {
    /// Share of one processor used by the busiest thread, 0 to 1.
    pub busiest_share: f64,
    /// Processor time of all threads of the generator.
    pub cpu: Duration,
    /// Lateness of requests that were due while a connection was free (at a fixed rate), 99th
    /// percentile; up to 25 % too high.
    pub start_lag_p99: Duration,
    /// Time for which a thread was busy between two waits for events, 99th percentile; up to 25 %
    /// too high. A response may have been read this much too late.
    pub turn_p99: Duration,
    /// Run time of the thread that ran longest; `None` in recordings of older versions.
    #[serde(default)]
    pub wall: Option<Duration>,
    /// True if any response was received. Without one, a busy or late generator has distorted no
    /// figure.
    #[serde(default = "yes")]
    pub has_responses: bool,
    /// Maximum lateness of the generator's thread that collects the records; `None` if it was not
    /// measured.
    #[serde(default)]
    pub standstill: Option<Duration>,
}

/// The default of a flag that recordings of older versions lack.
fn yes() -> bool {
    true
}

/// A period in which a request of ours was in flight on each of our connections to a target, and
/// none was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// The target.
    pub target: TargetId,
    /// The time at which the last of the requests was sent.
    pub begin: Timestamp,
    /// The time at which the first of the responses began to arrive.
    pub end: Timestamp,
    /// The number of connections.
    pub connections: u32,
}

/// A request of ours, with the timestamps of our own program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSample {
    /// The target.
    pub target: TargetId,
    /// The connection; `None` before one existed.
    pub flow: Option<FlowKey>,
    /// The request's number on its connection, from 0.
    pub ordinal: u32,
    /// Time of the call of `send`.
    pub sent: Timestamp,
    /// Time at which the first response byte was read.
    pub first_byte: Option<Timestamp>,
    /// Time at which the last response byte was read, or the request was given up.
    pub ended: Timestamp,
    /// The longest time between two reads within the response.
    pub longest_gap: Duration,
    /// Time to resolve and connect, for the first request of a connection.
    pub setup: Option<Duration>,
    /// The HTTP status, or the reason that there is none.
    pub outcome: Result<u16, RequestFailure>,
    /// Bytes of the response read.
    pub received_bytes: u64,
}

impl RequestSample {
    /// Returns true if the response began, and was not complete in the time allowed.
    pub fn is_unfinished(&self) -> bool {
        self.first_byte.is_some() && self.outcome == Err(RequestFailure::Timeout)
    }
}

/// The owner of a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketOwner {
    /// Our own process.
    Own,
    /// Another process, whose socket was read without stopping the process.
    Process {
        /// Process id in our own pid namespace.
        pid: u32,
        /// The socket's descriptor in that process.
        fd: u32,
        /// The process's `comm`.
        name: String,
    },
    /// An unidentified process: the socket is known only from `sock_diag`.
    Unnamed,
}

/// The options and state of a live socket at one instant. `None`: not read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketSample {
    /// The target to which the socket belongs.
    pub target: TargetId,
    /// The owner of the socket.
    pub owner: SocketOwner,
    /// The local address.
    pub local: Endpoint,
    /// The peer's address.
    pub remote: Endpoint,
    /// `TCP_NODELAY`: Nagle's algorithm is off.
    pub nodelay: Option<bool>,
    /// `TCP_CORK`.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK`: true if not in ping-pong mode at this instant.
    pub quickack: Option<bool>,
    /// `tcp_info` and the queues.
    pub tcp: Option<TcpSample>,
}

/// The part of `tcp_info` (`include/uapi/linux/tcp.h`) that is relevant to latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSample {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rttvar: Duration,
    /// The minimum round-trip time of the kernel's filter; `None` when unknown.
    pub min_rtt: Option<Duration>,
    /// Delayed-ACK timeout in use.
    pub ato: Duration,
    /// Retransmission timeout in use.
    pub rto: Duration,
    /// Sending MSS in bytes.
    pub snd_mss: u32,
    /// Estimate of the peer's segment size in bytes.
    pub rcv_mss: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Segments sent but not acknowledged.
    pub unacked: u32,
    /// Bytes written but not yet sent.
    pub notsent_bytes: u32,
    /// The peer's receive window in bytes; `None` on older kernels.
    pub snd_wnd: Option<u32>,
    /// Total number of retransmitted segments.
    pub total_retrans: u32,
    /// Time with data outstanding.
    pub busy: Duration,
    /// Part of `busy` limited by the peer's window.
    pub rwnd_limited: Duration,
    /// Part of `busy` limited by the send buffer.
    pub sndbuf_limited: Duration,
    /// Bytes received but not yet read by the program.
    pub receive_queue_bytes: u32,
    /// Bytes not yet acknowledged by the peer.
    pub send_queue_bytes: u32,
}

/// The scope of a kernel counter: each network namespace has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterScope {
    /// Our namespace, in which the target does not run.
    Client,
    /// The target's namespace on this host, in which we do not run.
    Target,
    /// The namespace in which both we and the target run: the count includes the activity of both.
    Both,
}

/// The values of a kernel counter before and after the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterChange {
    /// Group and name as the kernel prints them, `TcpExt:DelayedACKs`.
    pub name: String,
    /// Value before the load.
    pub before: u64,
    /// Value after the load.
    pub after: u64,
    /// The scope of the counter.
    pub scope: CounterScope,
}

/// The accept queue of a listener (`ss -ltn`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerSample {
    /// The listening address.
    pub local: Endpoint,
    /// Connections waiting to be accepted.
    pub queued: u32,
    /// Maximum number of connections that may wait.
    pub limit: u32,
    /// Connections in SYN_RECV for this listener's port.
    pub embryonic: u32,
    /// `net.ipv4.tcp_max_syn_backlog` in the listener's namespace; `None` when not read.
    pub syn_backlog: Option<u32>,
    /// `net.core.somaxconn` there, the upper limit of `limit`; `None` when not read.
    #[serde(default)]
    pub somaxconn: Option<u32>,
}

/// An effective directive of a program's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationLine {
    /// The target to which the directive applies.
    pub target: TargetId,
    /// The program, `nginx`.
    pub program: String,
    /// The directive, `tcp_nodelay`.
    pub directive: String,
    /// The effective value.
    pub value: String,
    /// The place where the directive is set; `None` for the built-in default.
    pub set_at: Option<SourceLocation>,
    /// The enclosing blocks, `http > server :8080 > location /`.
    pub scope: String,
    /// True if the file is newer than the workers, which may then not have read it.
    pub is_newer_than_process: Option<bool>,
    /// The reason that another block might apply; `None` when the choice is exact.
    pub doubt: Option<String>,
}

/// A line in a file, or another place of a setting, such as a command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLocation {
    /// The file as its program names it, or the place in words: `command line of pid 123`.
    pub file: String,
    /// The line, from 1; 0 if the place is not a file.
    pub line: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// The kernel's timers that cause delays of known lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTimers {
    /// Ticks per second, `CONFIG_HZ`; `None` if it could not be determined.
    pub hz: Option<u32>,
    /// Minimum delay of a delayed ACK (`TCP_DELACK_MIN`, `include/net/tcp.h`).
    pub delack_min: Duration,
    /// Maximum delay of a delayed ACK (`TCP_DELACK_MAX`, or the route's `rto_min` if that limits
    /// it).
    pub delack_max: Duration,
    /// Minimum retransmission timeout (`tcp_rto_min_us`).
    pub rto_min: Duration,
    /// The source of these values.
    pub source: String,
}

/// The state of the packet filters on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallState {
    /// Rules that drop or reject and could match the target; `None` when the
    /// rules could not be read.
    pub blocking_rules: Option<u32>,
    /// The source of this information.
    pub because: String,
}

/// The totals of what a packet source delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSummary {
    /// The name of a file or an interface.
    pub name: String,
    /// Records read.
    pub packets: u64,
    /// Bytes of the packets on the wire.
    pub bytes: u64,
    /// Packets that the capture itself dropped, if it reports them.
    pub dropped: Option<u64>,
    /// Records whose bytes were cut by the snap length.
    pub cut_records: u64,
    /// Records that could not be decoded as TCP over IP.
    pub undecoded: u64,
    /// The number of records of unsupported link types, for each type.
    #[serde(default)]
    pub unread_links: BTreeMap<u16, u64>,
    /// The times of the first and the last record that is not a TCP segment.
    #[serde(default)]
    pub beside_tcp: Option<(Timestamp, Timestamp)>,
    /// Number of blocks with decryption secrets, such as the keys of TLS sessions.
    pub secrets: u64,
    /// Number of blocks with system calls, as written by sysdig and Falco.
    #[serde(default)]
    pub calls: u64,
    /// The reason that the rest of the source could not be read; `None` when the source ended
    /// properly.
    pub damage: Option<String>,
}

/// A remark with a stable id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Stable kebab-case id, `not-measured-capture`.
    pub id: String,
    /// The remark for a person, in one or two sentences.
    pub text: String,
}
