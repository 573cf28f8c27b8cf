//! Everything that is observed besides TCP segments.
//!
//! Sources make events; the analyzer folds them. An event says what was seen,
//! where, when and during which phase, and never what it means.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observed::experiment::Experiment;
use crate::observed::flow::{Endpoint, FlowKey};
use crate::observed::kernel_span::{RequestSpan, WatchTally};
use crate::observed::route::{AutonomousSystem, HopSample, PathMtu, TraceStart};
use crate::observed::segment::{TcpFlags, TcpOptions};
use crate::observed::sockets::{KernelLimits, LiveSocket};
use crate::observed::syscall::{CallTally, SocketCall};
use crate::observed::time::{ClockId, Timestamp};
use crate::stats::histogram::Distribution;

/// An observation point within one run: a capture file, an interface, a host's
/// socket layer. Records of one point are in time order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PointId(pub u16);

/// Where an observation comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The observation point.
    pub point: PointId,
    /// The clock of its timestamps.
    pub clock: ClockId,
    /// The record's number there, from 1; 0 where records have no numbers.
    pub number: u64,
}

/// What lagtrace itself was doing when something was observed. Only the
/// baseline feeds percentiles and findings; the others only discriminate.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before the load is steady; not counted.
    WarmUp,
    /// The service as its users see it.
    #[default]
    Baseline,
    /// Beside experiment `n` and like it in everything but the intervention.
    Control(u8),
    /// Experiment `n`, numbered in the order the experiments were started.
    Experiment(u8),
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Where it comes from.
    pub origin: Origin,
    /// When it was observed; for something that took time, when it ended.
    pub at: Timestamp,
    /// During which phase.
    pub phase: Phase,
    /// What was observed.
    pub body: EventBody,
}

impl Event {
    /// An observation by this host itself, on its realtime clock.
    pub fn here(at: Timestamp, phase: Phase, body: EventBody) -> Self {
        Self {
            origin: Origin::default(),
            at,
            phase,
            body,
        }
    }
}

/// What was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventBody {
    /// A name was resolved, or was not.
    Resolution(Resolution),
    /// The kernel's choice of route and source address for a target.
    Route(KernelRoute),
    /// One probe and its answer.
    Probe(ProbeSample),
    /// A route is about to be traced.
    Trace(TraceStart),
    /// One probe of a route and its answer.
    Hop(HopSample),
    /// The name of an address on the route.
    HopName(IpAddr, String),
    /// Whose an address on the route is.
    HopOrigin(IpAddr, AutonomousSystem),
    /// The largest packet that a route takes.
    PathMtu(PathMtu),
    /// What a phase is: its experiment, its limits.
    PhaseStarted(PhaseStart),
    /// Traffic of this flow belongs to this event's phase, whatever the time.
    FlowPhase(FlowKey),
    /// Requests of one cluster of one load run, summed up.
    Load(LoadCluster),
    /// How the connections of a load run were made, when it is over.
    Transport(LoadTransport),
    /// Where the time of a load run's requests went, when it is over.
    Stages(LoadStages),
    /// What came of one of several URLs of a load run, when it is over.
    LoadUrl(LoadUrl),
    /// What a load generator itself needed.
    Generator(GeneratorSample),
    /// A time in which none of our requests was answered, when a load run is over.
    Silence(Silence),
    /// One request of ours with its stamps (a bounded sample of all).
    Request(RequestSample),
    /// The options and state of a live socket.
    Socket(SocketSample),
    /// A socket of this host as it is now. Not written down: its report holds
    /// all of it.
    #[serde(skip)]
    LiveSocket(Box<LiveSocket>),
    /// A turn of a live connection as the kernel timed it.
    Turn(Box<RequestSpan>),
    /// What watching the kernel came to, when it is over.
    Watched(WatchTally),
    /// A call on a socket that is over. Not written down either.
    #[serde(skip)]
    SocketCall(Box<SocketCall>),
    /// What tracing calls came to, when it is over.
    Traced(CallTally),
    /// What bounds the sockets of a network namespace of this host.
    KernelLimits(KernelLimits),
    /// A kernel counter's change over the run.
    Counter(CounterChange),
    /// A listening socket's queue.
    Listener(ListenerSample),
    /// An effective line of a program's configuration.
    Configuration(ConfigurationLine),
    /// The kernel timers that apply on a host.
    Timers(KernelTimers),
    /// Whether packet filter rules could touch the target.
    Firewall(FirewallState),
    /// What a packet source delivered in all.
    Capture(CaptureSummary),
    /// Something that could not be measured, or must be known to read the rest.
    Note(Note),
}

/// Which of the run's targets an observation is about.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum TargetId {
    /// The service under investigation.
    #[default]
    Subject,
    /// Its healthy twin (`--control`).
    Twin,
}

/// The outcome of resolving a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The name asked for.
    pub name: String,
    /// The addresses in the order they were given; empty when it failed.
    pub addresses: Vec<IpAddr>,
    /// How long it took, as the program's own call sees it.
    pub took: Duration,
    /// Why it failed, in the resolver's words.
    pub failure: Option<String>,
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
    /// The next hop; `None` where the target is on the link or this host.
    pub gateway: Option<IpAddr>,
    /// Whether the target is this host itself: such traffic stays on `lo`.
    pub is_local: bool,
    /// The path MTU the kernel knows, in bytes.
    pub mtu: Option<u32>,
    /// Whether the route carries the `quickack` metric: no delayed ACKs.
    pub quickack: bool,
    /// The route's `rto_min`, which caps delayed ACKs too.
    pub rto_min: Option<Duration>,
}

/// How a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeMethod {
    /// A SYN from a raw socket, answered by SYN/ACK or RST.
    TcpSyn,
    /// `connect(2)`, its round trip read from `TCP_INFO`.
    TcpConnect,
    /// Segments with flags of the user's choice from a raw socket.
    TcpFlags,
    /// One request on a fresh connection.
    HttpFresh,
    /// One request on a connection used before.
    HttpKeptAlive,
    /// A full TLS handshake, without TCP's.
    TlsFull,
    /// A TLS handshake that resumed a session, without TCP's.
    TlsResumed,
    /// An ICMP echo request (RFC 792, RFC 4443 §4.1).
    Icmp,
    /// A datagram, answered by one or by ICMP port unreachable.
    Udp,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeAnswer {
    /// SYN/ACK: something listens.
    Open,
    /// RST: nothing listens, or a filter says so.
    Refused,
    /// An ICMP error of this type and code.
    Unreachable(u8, u8),
    /// Nothing within the time allowed.
    Silence,
    /// An HTTP response with this status.
    Status(u16),
    /// The connection was closed or reset before a full response.
    Closed,
    /// The bytes were no HTTP response.
    NotHttp,
    /// A TLS handshake that succeeded.
    Secured,
    /// A TLS handshake that did not, for another reason than the next three.
    TlsFailed,
    /// A certificate that was not accepted.
    NotTrusted,
    /// Bytes that are no TLS where a handshake was asked for.
    NotTls,
    /// No whole TLS handshake within the time allowed.
    TlsTimeout,
    /// An ICMP echo reply.
    Echo,
    /// A UDP datagram.
    Datagram,
}

impl ProbeAnswer {
    /// Whether a TLS handshake was asked for and did not succeed.
    pub const fn is_tls_failure(self) -> bool {
        matches!(
            self,
            Self::TlsFailed | Self::NotTrusted | Self::NotTls | Self::TlsTimeout
        )
    }
}

/// Who stamped a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamp {
    /// The kernel, at the device or socket.
    Kernel,
    /// The program, which may have woken up late: errs upward.
    User,
}

/// One probe and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSample {
    /// Which target it was for.
    pub target: TargetId,
    /// The address and port probed.
    pub endpoint: Endpoint,
    /// How it asked.
    pub method: ProbeMethod,
    /// What came back.
    pub answer: ProbeAnswer,
    /// From the probe's leaving to the answer's arrival; `None` for silence.
    pub rtt: Option<Duration>,
    /// Who stamped `rtt`.
    pub stamp: Stamp,
    /// Time to live of the answer, where it was seen.
    pub ttl: Option<u8>,
    /// How often the SYN was retransmitted before the answer.
    pub syn_retransmissions: u8,
    /// Its number in its series, from 0.
    pub number: u32,
    /// Whether the answer came within the time allowed, and whether another
    /// one had come before.
    pub coming: Coming,
    /// From the call that sent it to when this program had the answer, where
    /// `rtt` is the kernel's: the rest is this host's own queues and wake-ups.
    pub noticed: Option<Duration>,
    /// How long the probe lay in this host's own queue (the qdisc) before the
    /// device had it, by the kernel's stamps; `rtt` does not hold it.
    pub queued: Option<Duration>,
    /// What it differs in from the others of its series, if in something.
    pub step: Option<ProbeStep>,
    /// Bytes of its packet before the payload, IP's header included; 0 where
    /// the kernel makes all of it.
    pub headers: u16,
    /// What the answering packet said.
    pub reply: Option<Box<ProbeReply>>,
    /// What it spent its time on, where it is a handshake of TLS or a request.
    pub phases: Option<Box<ProbePhases>>,
}

/// What a TLS handshake or a request spent its time on, one after the other;
/// `None` where there was no such thing. By the program's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePhases {
    /// Finding the name's address.
    pub resolve: Option<Duration>,
    /// TCP's handshake.
    pub connect: Option<Duration>,
    /// TLS' handshake.
    pub handshake: Option<Duration>,
    /// Of that, until the server's first byte.
    pub hello: Option<Duration>,
    /// From sending the request to the response's first byte.
    pub first_byte: Option<Duration>,
    /// From there to its last byte.
    pub transfer: Option<Duration>,
    /// What the handshake agreed on.
    pub tls: Option<ProbeTls>,
}

impl ProbePhases {
    /// Their names, in their order.
    pub const NAMES: [&'static str; 6] = [
        "resolve",
        "connect",
        "tls",
        "tls-first-byte",
        "first-byte",
        "transfer",
    ];

    /// How long each took.
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

/// What a TLS handshake agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeTls {
    /// The version, as on the wire: 0x0304 is TLS 1.3.
    pub version: u16,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// Whether it resumed a session.
    pub is_resumed: bool,
    /// When the server's certificate ends, where it was read.
    pub certificate_ends: Option<Timestamp>,
}

/// The name of a version of TLS by its number on the wire.
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

/// What the probes of a series differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeStep {
    /// The port that they are sent from.
    SourcePort(u16),
    /// Payload bytes.
    Size(u16),
    /// TCP's control bits.
    Flags(u8),
}

/// How an answer came.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Coming {
    /// Within the time allowed, or it never came.
    #[default]
    InTime,
    /// After it had been given up, which a sample before this one says.
    Late,
    /// Once more.
    Again,
}

/// The packet that answered a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReply {
    /// Who sent it: the target, or the router of an ICMP error.
    pub from: IpAddr,
    /// The port that the probe came from; 0 for ICMP.
    pub source_port: u16,
    /// The packet's length on the wire without the link's header, in bytes,
    /// where it was seen.
    pub len: Option<u32>,
    /// The IPv4 identification, where it was seen.
    pub id: Option<u16>,
    /// Whether routers may not fragment it (IPv4), where it was seen.
    pub dont_fragment: Option<bool>,
    /// The TCP header, if it was a segment.
    pub segment: Option<ReplySegment>,
}

/// The header of a segment that answered a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplySegment {
    /// Its control bits.
    pub flags: TcpFlags,
    /// Its sequence number.
    pub seq: u32,
    /// What it acknowledges.
    pub ack: u32,
    /// The window field, unscaled as in every segment with SYN.
    pub window: u16,
    /// Its options.
    pub options: TcpOptions,
}

/// What a phase is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseStart {
    /// The target under load.
    pub target: TargetId,
    /// When it ends or ended.
    pub end: Timestamp,
    /// The experiment, for the phases `Control` and `Experiment`.
    pub experiment: Option<Experiment>,
    /// Connections in use.
    pub connections: u32,
    /// Requests per second offered; `None` in closed loop.
    pub offered_rate: Option<f64>,
    /// How many turns it has: 1 unless it alternates with others.
    pub turns: u32,
    /// How long requests could start, its turns added up.
    pub active: Duration,
    /// Whether packets were captured meanwhile, which disturbs.
    pub is_observed: bool,
}

/// Why a request ended without a whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestFailure {
    /// The connection was refused (RST to SYN).
    Refused,
    /// The connection could not be made in the time allowed.
    ConnectTimeout,
    /// No route, or an ICMP error.
    Unreachable,
    /// No whole response in the time allowed.
    Timeout,
    /// Reset by the peer.
    Reset,
    /// Closed by the peer before the response was whole.
    Closed,
    /// The bytes were no HTTP response.
    NotHttp,
    /// The server's certificate was not accepted.
    Certificate,
    /// The TLS handshake, or a record behind it, failed otherwise.
    Tls,
    /// The TLS handshake was not over in the time allowed.
    TlsTimeout,
    /// The server took no request on its connections (HTTP/2's GOAWAY and
    /// REFUSED_STREAM), however often it was asked.
    TurnedAway,
    /// Our own side failed (out of descriptors or ports).
    Local,
    /// The run ended first, after a grace: it was in flight or overdue.
    Cut,
}

impl RequestFailure {
    /// In words, as reports name it.
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
            Self::Local => "failed on our side",
            Self::Cut => "cut by the end of the run",
        }
    }
}

/// Requests of one cluster of a load run: one second of one group of
/// connections. Clusters are the unit that confidence intervals resample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCluster {
    /// The target.
    pub target: TargetId,
    /// Whole seconds since the phase began.
    pub second: u32,
    /// Group of connections, stable over the run.
    pub group: u16,
    /// Last byte minus intended start (open loop) or minus send (closed
    /// loop). Timeouts are in it with their age.
    pub latency: Distribution,
    /// Last byte minus send: `latency` without the wait for a free connection,
    /// and the same in closed loop.
    pub service: Distribution,
    /// First response byte minus send.
    pub first_byte: Distribution,
    /// Last response byte minus first response byte, for whole responses.
    pub body: Distribution,
    /// Failures by kind; a failed request is counted in `latency` only if it
    /// timed out or was cut.
    pub failures: Vec<(RequestFailure, u64)>,
    /// Whole responses by HTTP status.
    pub statuses: Vec<(u16, u64)>,
    /// Connections opened.
    pub connects: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

/// Where one request's time went, by the kernel's stamps: these tile it from
/// when it was due to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// From when it was due until `send` was called: for a free connection.
    pub waited: Duration,
    /// Until its last byte was at the device: in this host's own queues.
    pub queued: Duration,
    /// The connection's least round trip, or as much of it as there was.
    pub path: Duration,
    /// Beyond that until it was acknowledged: more of the path, or the peer
    /// held its acknowledgement back (delayed ACK).
    pub unacknowledged: Duration,
    /// Until the response's first byte came.
    pub server: Duration,
    /// Until its last byte came.
    pub response: Duration,
    /// Until our own program had read it.
    pub wake_up: Duration,
    /// Whether the acknowledgement came before the response and apart from it.
    pub is_acknowledged_apart: bool,
}

impl StageTimes {
    /// The stages in their order, by name.
    pub fn each(&self) -> [(&'static str, Duration); 7] {
        [
            ("for a connection", self.waited),
            ("own queue", self.queued),
            ("path", self.path),
            ("unacknowledged", self.unacknowledged),
            ("server", self.server),
            ("response", self.response),
            ("own wake-up", self.wake_up),
        ]
    }
}

/// Where the time of a load run's requests went: of those chosen to be stamped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadStages {
    /// The target.
    pub target: TargetId,
    /// Requests whose stages are told.
    pub requests: u64,
    /// Requests of which stamps were missing or not believed.
    pub without: u64,
    /// Requests that were acknowledged before their response came.
    pub acknowledged_apart: u64,
    /// The stages in their order, as [`StageTimes::each`] names them.
    pub stages: Vec<(String, Distribution)>,
}

/// What came of one of several URLs that a load run asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadUrl {
    /// The target.
    pub target: TargetId,
    /// What was asked for.
    pub url: String,
    /// How often beside the others.
    pub weight: u32,
    /// As of a [`LoadCluster`].
    pub latency: Distribution,
    /// Failures by kind.
    pub failures: Vec<(RequestFailure, u64)>,
    /// Whole responses by HTTP status.
    pub statuses: Vec<(u16, u64)>,
}

/// How the connections of one load run were made, and what they carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadTransport {
    /// The target.
    pub target: TargetId,
    /// The version of HTTP: `HTTP/1.1`.
    pub protocol: String,
    /// Requests that a connection may have under way at once.
    pub at_once: u32,
    /// What TLS was used, if any, by the first handshake.
    pub tls: Option<LoadTls>,
    /// The Unix socket connected to instead of the target's address.
    pub unix_socket: Option<String>,
    /// What was set on our sockets, as `setsockopt(2)` names it: `TCP_NODELAY`.
    pub options: Vec<String>,
    /// The addresses that connections came from in turn; empty: the kernel chose.
    pub sources: Vec<IpAddr>,
}

/// The TLS of a load run; its times count handshakes of the warm-up too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadTls {
    /// The version, as on the wire: 0x0304 is TLS 1.3.
    pub version: u16,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// Full handshakes, from the ClientHello to when a request could be sent.
    pub full: Distribution,
    /// The same of those that resumed a session.
    pub resumed: Distribution,
}

/// What a load generator itself needed in one run, and how late it was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorSample {
    /// Share of one processor that its busiest thread used, 0 to 1.
    pub busiest_share: f64,
    /// Processor time of all its threads.
    pub cpu: Duration,
    /// How late requests were started although a connection was free (at a
    /// rate), 99th percentile; up to 25 % too high.
    pub start_lag_p99: Duration,
    /// How long a thread was busy between two waits, 99th percentile: how late
    /// a response may have been read; up to 25 % too high.
    pub turn_p99: Duration,
    /// Whether it, and not the service, may have set the figures.
    pub is_limit: bool,
    /// The greatest lateness of a thread of it that only looks on; `None` where that was not
    /// measured.
    #[serde(default)]
    pub standstill: Option<Duration>,
}

/// A time in which a request of ours was under way on each of our connections to a target,
/// and none was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// The target.
    pub target: TargetId,
    /// The instant at which the last of the requests was sent.
    pub begin: Timestamp,
    /// The instant at which the first of the responses began to come.
    pub end: Timestamp,
    /// The number of connections.
    pub connections: u32,
}

/// One request of ours, by the stamps of our own program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSample {
    /// The target.
    pub target: TargetId,
    /// The connection; `None` before one existed.
    pub flow: Option<FlowKey>,
    /// Which request on its connection, from 0.
    pub ordinal: u32,
    /// When `send` was called.
    pub sent: Timestamp,
    /// When the first response byte was read.
    pub first_byte: Option<Timestamp>,
    /// When the last response byte was read, or the request given up.
    pub ended: Timestamp,
    /// The longest time between two reads within the response.
    pub longest_gap: Duration,
    /// Time to resolve and connect, for the first request of a connection.
    pub setup: Option<Duration>,
    /// The status, or why there is none.
    pub outcome: Result<u16, RequestFailure>,
    /// Bytes of the response read.
    pub received_bytes: u64,
}

/// Whose socket it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketOwner {
    /// Ours.
    Own,
    /// Of another process, read without stopping it.
    Process {
        /// Process id in our own pid namespace.
        pid: u32,
        /// Descriptor there.
        fd: u32,
        /// Its `comm`.
        name: String,
    },
    /// Some other process's, seen by `sock_diag` only.
    Unnamed,
}

/// The options and state of a live socket at one instant. `None`: not read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketSample {
    /// Which target it belongs to.
    pub target: TargetId,
    /// Whose it is.
    pub owner: SocketOwner,
    /// Its own address.
    pub local: Endpoint,
    /// Its peer's address.
    pub remote: Endpoint,
    /// `TCP_NODELAY`: Nagle's algorithm is off.
    pub nodelay: Option<bool>,
    /// `TCP_CORK`.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK`: not in ping-pong mode at this instant.
    pub quickack: Option<bool>,
    /// `tcp_info` and the queues.
    pub tcp: Option<TcpSample>,
}

/// The part of `tcp_info` (`include/uapi/linux/tcp.h`) that bears on latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSample {
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The least round trip seen by the kernel's filter; `None` when unknown.
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
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Bytes written and not yet sent.
    pub notsent_bytes: u32,
    /// The peer's receive window in bytes; `None` on older kernels.
    pub snd_wnd: Option<u32>,
    /// Segments retransmitted in all.
    pub total_retrans: u32,
    /// Time with data outstanding.
    pub busy: Duration,
    /// Thereof limited by the peer's window.
    pub rwnd_limited: Duration,
    /// Thereof limited by the send buffer.
    pub sndbuf_limited: Duration,
    /// Bytes received and not yet read by the program.
    pub receive_queue_bytes: u32,
    /// Bytes not yet acknowledged by the peer.
    pub send_queue_bytes: u32,
}

/// Whose work a kernel counter counts: each network namespace has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterScope {
    /// Our namespace's, in which the target does not run.
    Client,
    /// The target's namespace on this host, in which we do not run.
    Target,
    /// One namespace for both: the figure holds both shares.
    Both,
}

/// A counter of the kernel, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterChange {
    /// Group and name as the kernel prints them, `TcpExt:DelayedACKs`.
    pub name: String,
    /// Before the load.
    pub before: u64,
    /// After it.
    pub after: u64,
    /// Whose work is in the figure.
    pub scope: CounterScope,
}

/// The accept queue of a listener (`ss -ltn`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerSample {
    /// The listening address.
    pub local: Endpoint,
    /// Connections waiting to be accepted.
    pub queued: u32,
    /// How many may wait.
    pub limit: u32,
    /// Connections in SYN_RECV for this listener's port.
    pub embryonic: u32,
    /// `net.ipv4.tcp_max_syn_backlog` there; `None` when not read.
    pub syn_backlog: Option<u32>,
}

/// One effective directive of a program's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationLine {
    /// Which target it applies to.
    pub target: TargetId,
    /// The program, `nginx`.
    pub program: String,
    /// The directive, `tcp_nodelay`.
    pub directive: String,
    /// Its effective value.
    pub value: String,
    /// Where it is set; `None` for the built-in default.
    pub set_at: Option<SourceLocation>,
    /// The blocks around it, `http > server :8080 > location /`.
    pub scope: String,
    /// Whether the file is newer than the workers, which may then not have read it.
    pub is_newer_than_process: Option<bool>,
    /// Why another block might apply; `None` when the choice is exact.
    pub doubt: Option<String>,
}

/// A line in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLocation {
    /// The file as its program names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// The timers of the kernel that produce known quanta.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTimers {
    /// Ticks per second, `CONFIG_HZ`; `None` where it could not be told.
    pub hz: Option<u32>,
    /// Least delay of a delayed ACK (`TCP_DELACK_MIN`, `include/net/tcp.h`).
    pub delack_min: Duration,
    /// Greatest delay of a delayed ACK (`TCP_DELACK_MAX`, or the route's `rto_min` cap).
    pub delack_max: Duration,
    /// Least retransmission timeout (`tcp_rto_min_us`).
    pub rto_min: Duration,
    /// Where these come from.
    pub source: String,
}

/// What is known of packet filters on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallState {
    /// Rules that drop or reject and could match the target; `None` when the
    /// rules could not be read.
    pub blocking_rules: Option<u32>,
    /// How it was found out.
    pub because: String,
}

/// What a packet source delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSummary {
    /// A file's name or an interface's.
    pub name: String,
    /// Records read.
    pub packets: u64,
    /// Bytes of packets on the wire.
    pub bytes: u64,
    /// Packets that the capture itself lost, where it says so.
    pub dropped: Option<u64>,
    /// Records whose bytes were cut by the snap length.
    pub cut_records: u64,
    /// Records that are no TCP over IP that could be decoded.
    pub undecoded: u64,
    /// The records of link types that are not read, for each type.
    #[serde(default)]
    pub unread_links: BTreeMap<u16, u64>,
    /// The times of the first and the last record that is no TCP segment.
    #[serde(default)]
    pub beside_tcp: Option<(Timestamp, Timestamp)>,
    /// Blocks of decryption secrets, such as keys of TLS sessions, that it holds.
    pub secrets: u64,
    /// Blocks of system calls, as sysdig and Falco write them, that it holds.
    #[serde(default)]
    pub calls: u64,
    /// Why the rest could not be read; `None` when it ended properly.
    pub damage: Option<String>,
}

/// A remark with a stable id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Stable kebab-case id, `not-measured-capture`.
    pub id: String,
    /// What a person should know, in one or two sentences.
    pub text: String,
}
