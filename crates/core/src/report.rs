//! The one document that every view starts from.
//!
//! Durations are integer nanoseconds with `_ns` in the name. The order of all
//! lists is fixed, so equal input gives equal bytes. Adding a field keeps
//! [`SCHEMA`]; changing a field's meaning raises it.
//!
//! What schema 2 changed: `findings` ends with places of time that no cause explains
//! (`locates`), which accuse nobody and leave the exit code at 0; a finding's `location`
//! says where its time is and how sure that is, and `verdict` only how sure the cause is;
//! `account` books all time; a layer is `cleared` by its own account only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::experiment::Experiment;
use crate::registry::Id;
use crate::stats::histogram::Distribution;

mod account;
mod connection;
mod figures;
mod load;
mod mode;
mod record;
mod route;
mod sockets;
mod sweep;
mod syscalls;
mod two_point;
mod watch;

pub use account::{Account, Booking, Claim, Location, Says, Shape, Witness};
pub use connection::{
    Acknowledgements, CongestionMarks, ConnectionEnd, ConnectionRecord, ConnectionSide,
    Connections, Delays, Handshake, InitialWindow, Lost, QuicFacts, Retransmissions,
    RoundTripFigures, Spells, SystemFacts, Vantage, WindowFigures,
};
pub use figures::{Figures, ProbeFigures};
pub use load::{Generator, Interval, Intervals, LoadRun, Stage, Stages, TlsUse, Transport, UrlRun};
pub use mode::LatencyMode;
pub use record::{ExchangeRecord, RecoveryRecord};
pub use route::{
    Hop, HopAddress, HopLabel, HopState, HopTranslation, Route, RouteMtu, RouteNarrowing, RoutePath,
};
pub use sockets::{Bearing, Limit, LiveSocket};
pub use sweep::{Sweep, SweepStep};
pub use syscalls::{CalledSocket, ServiceSetting, SocketCaller, SocketCalls, SocketSetting};
pub use two_point::{ClockRelation, Joined, Place, Way};
pub use watch::{
    AskedService, Disagreement, Dropped, JoinedTurns, Throttled, WaitSplit, Watch, WatchedService,
};

/// Version of the report's stable part.
pub const SCHEMA: u32 = 2;

impl Report {
    /// The findings that name a cause, places of unexplained time aside.
    pub fn causes(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.locates)
    }

    /// The findings that accuse somebody: causes that say why, and not only where.
    pub fn accusations(&self) -> impl Iterator<Item = &Finding> {
        self.causes()
            .filter(|finding| !finding.cause.cause().says_only_where)
    }

    /// The places of time that no cause explains.
    pub fn places(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.locates)
    }
}

/// A finished diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of the stable part, [`SCHEMA`].
    pub schema: u32,
    /// The subcommand that made it, `diagnose`.
    pub command: String,
    /// What it is about: a URL, or the capture files.
    pub subject: String,
    /// When it was started, RFC 3339 in UTC; the first packet's time for a capture.
    pub started: String,
    /// What the packet sources delivered; `None` when no packets were had.
    pub capture: Option<Capture>,
    /// What two captures of the same connections show together; `None`
    /// without two such.
    #[serde(default)]
    pub joined: Option<Joined>,
    /// What was done when, in nanoseconds since the epoch.
    pub phases: Vec<PhaseSpan>,
    /// Connections made: how they went and what they took.
    pub setups: Setups,
    /// Connections one by one, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// What our own load came to; `None` where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadRun>,
    /// Load in steps, of which `load` is one.
    #[serde(default)]
    pub sweep: Option<Sweep>,
    /// Requests and responses in the baseline.
    pub exchanges: Exchanges,
    /// The healthy twin's exchanges (`--control`).
    pub twin: Option<Exchanges>,
    /// Round trips by method.
    pub probes: Vec<Probe>,
    /// The route as a whole; `None` where none was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Hops of the route.
    pub hops: Vec<Hop>,
    /// Sockets seen, by owner and options.
    pub sockets: Vec<SocketGroup>,
    /// Sockets of this host one by one, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live: Vec<LiveSocket>,
    /// Calls that set up sockets; `None` where they were not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<SocketCalls>,
    /// What watching the kernel showed; `None` where nothing was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
    /// Settings of the kernel that bound those, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Kernel counters that changed.
    pub counters: Vec<Counter>,
    /// Effective configuration.
    pub configuration: Vec<Setting>,
    /// Interventions and what they did.
    pub experiments: Vec<ExperimentOutcome>,
    /// Layer by layer: cleared, accused, suspected, not measured.
    pub layers: Vec<Layer>,
    /// Causes, root cause first, then by cost; behind them places of time that no cause
    /// explains ([`Finding::locates`]).
    pub findings: Vec<Finding>,
    /// The time of each service: what is inherent, claimed by a finding, unclaimed.
    #[serde(default)]
    pub account: Vec<Account>,
    /// What a reader should know besides.
    pub notes: Vec<Remark>,
    /// Bulk for comparing runs and for close looks.
    pub details: Option<Details>,
}

/// What packet sources delivered in all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// Records read.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Time of the first TCP segment, nanoseconds since the epoch; of the first
    /// record where there is none; `None` where there is no record either.
    pub start_ns: Option<i64>,
    /// Time of the last one.
    pub end_ns: Option<i64>,
    /// Packets that the capture itself lost; `None` where it does not say.
    pub dropped: Option<u64>,
    /// Records cut by the snap length.
    pub truncated: u64,
    /// Each observation point.
    pub points: Vec<CapturePoint>,
}

/// One observation point of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapturePoint {
    /// File or interface.
    pub name: String,
    /// Records read.
    pub packets: u64,
    /// Records that held no TCP segment that could be decoded.
    pub undecoded: u64,
    /// The records of link types that are not decoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_links: Vec<UnreadLink>,
    /// Connections seen.
    pub connections: u64,
    /// Where it stands: `client`, `server`, `both`, `middle` or `unknown`.
    pub vantage: String,
    /// Why reading ended early; `None` when it did not.
    pub damage: Option<String>,
}

/// A link type that is not decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadLink {
    /// The `LINKTYPE_` number.
    pub link_type: u16,
    /// The name and number, as a person reads them.
    pub name: String,
    /// The number of records of this type.
    pub packets: u64,
}

/// A phase of the investigation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseSpan {
    /// `warm-up`, `baseline`, `control N`, `experiment N`.
    pub phase: String,
    /// `subject` or `twin`.
    pub target: String,
    /// Start, nanoseconds since the epoch.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// The intervention, for controls and experiments.
    pub experiment: Option<Experiment>,
    /// Requests per second offered; `None` in closed loop.
    pub offered_rate: Option<f64>,
    /// Whether packets were captured meanwhile.
    pub is_observed: bool,
}

/// Connections made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setups {
    /// How many were begun.
    pub count: u64,
    /// How they ended.
    pub outcomes: Vec<SetupOutcome>,
    /// From the first SYN to the handshake's end.
    pub latency_ns: Figures,
    /// What their time went to.
    pub waits: Vec<WaitShare>,
}

/// How connections ended up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupOutcome {
    /// `established`, `refused`, `unanswered`, `cut`.
    pub outcome: String,
    /// How many.
    pub count: u64,
}

/// Requests with their responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exchanges {
    /// Whole ones.
    pub count: u64,
    /// Ended by reset, close, garbage or an HTTP status of 500 or more.
    pub errors: u64,
    /// Given up by the client.
    pub timeouts: u64,
    /// Begun before or ended after the capture, or torn by its holes: in no figure.
    pub cut: u64,
    /// Whole exchanges a second, while they ran.
    pub rate: f64,
    /// Where the latency figures come from: `packets`, or `own stamps`.
    pub measured_by: String,
    /// Request's first byte to response's last byte.
    pub latency_ns: Figures,
    /// What the time went to; shares add up to 1.
    pub waits: Vec<WaitShare>,
    /// How many exchanges that is of, timeouts included: those whose packets were
    /// seen, which need not be the ones that `count` and the latency speak of.
    /// 0: not said (reports of older versions), about as many as `count`.
    #[serde(default)]
    pub waits_of: u64,
    /// The slowest, worst first.
    pub slowest: Vec<Exemplar>,
    /// Responses by status or failure.
    pub statuses: Vec<StatusCount>,
    /// Peaks of the latency distribution as packets, or our own stamps, show
    /// it, fastest first; none for a few exchanges.
    #[serde(default)]
    pub modes: Vec<LatencyMode>,
}

/// Responses of one status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusCount {
    /// The status code, or the failure's name.
    pub status: String,
    /// How many.
    pub count: u64,
}

/// A kind of wait and its part in the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitShare {
    /// What kind.
    pub kind: WaitKind,
    /// Whose it is.
    pub owner: Owner,
    /// Sum over all exchanges.
    pub total_ns: u64,
    /// Part of all exchanges' time, 0 to 1.
    pub share: f64,
}

/// One exchange shown as an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exemplar {
    /// Client's address and port.
    pub client: String,
    /// Server's address and port.
    pub server: String,
    /// What was asked, `GET /path`, as far as it could be read.
    pub request: String,
    /// Status or failure.
    pub outcome: String,
    /// Begin, nanoseconds since the epoch.
    pub start_ns: i64,
    /// Its whole duration.
    pub latency_ns: u64,
    /// The number of its first packet in the capture; `None` without one.
    pub first_packet: Option<u64>,
    /// The number of its last packet.
    pub last_packet: Option<u64>,
    /// Its waits, in order, tiling it.
    pub waits: Vec<WaitSpan>,
    /// Where its time at the server's host went, as that kernel saw it, in
    /// order; empty where that was not seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_host: Vec<HostStage>,
}

/// A part of an exchange's time at its server's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostStage {
    /// `backlog`, `stack`, `unread`, `wake-up`, `run-queue`, `program`, `waiting`, `held`,
    /// `sending`, `qdisc`.
    pub stage: String,
    /// How long.
    pub duration_ns: u64,
}

impl Exemplar {
    /// Takes the packets' numbers out: they are in no file.
    pub(crate) fn forget_packets(&mut self) {
        (self.first_packet, self.last_packet) = (None, None);
        for wait in &mut self.waits {
            wait.released_by_packet = None;
        }
    }
}

/// One wait of an exemplar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSpan {
    /// What kind.
    pub kind: WaitKind,
    /// Whose it is.
    pub owner: Owner,
    /// How long.
    pub duration_ns: u64,
    /// Half-width of the error where its bounds are inferred; `None` where they were observed.
    pub error_ns: Option<u64>,
    /// The packet that ended it; `None` without one.
    pub released_by_packet: Option<u64>,
}

/// Round trips measured by one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// `tcp-syn`, `tcp-connect`, `tcp-flags`, `icmp`, `udp`, `tls-full`,
    /// `tls-resumed`, `http-fresh`, `http-kept-alive`.
    pub method: String,
    /// Address and port.
    pub target: String,
    /// `idle`, or `loaded` while the load ran.
    pub during: String,
    /// Probes sent.
    pub sent: u64,
    /// Answers received from the target, late ones included.
    pub received: u64,
    /// Of those, the ones that came after the time allowed.
    pub late: u64,
    /// Probes that nothing answered.
    pub lost: u64,
    /// Answers that came more than once.
    pub duplicates: u64,
    /// Answers that came after those of later probes.
    pub reordered: u64,
    /// Time to live of the first answer, where it was seen.
    pub ttl: Option<u8>,
    /// What came back, by kind: `open`, `refused`, `silence`, a status.
    pub answers: Vec<StatusCount>,
    /// Who stamped the times: `kernel` or `user`.
    pub stamp: String,
    /// The round trips.
    pub rtt_ns: ProbeFigures,
    /// Mean difference between the round trips of one answer and the next.
    pub jitter_ns: u64,
    /// From the call that sent a probe to when this program had its answer,
    /// where `rtt_ns` is by the kernel's stamps: what it has more than those is
    /// this host's own queues and wake-ups.
    pub noticed_ns: Option<ProbeFigures>,
    /// How long probes lay in this host's own queue before the device had them,
    /// where the kernel stamps both; `rtt_ns` does not hold it.
    pub queued_ns: Option<ProbeFigures>,
    /// Of `noticed_ns`, what is neither the round trip nor that queue: this
    /// program's own calls and wake-ups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_ns: Option<ProbeFigures>,
    /// What became of the probes of each value, where they differ in one thing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ProbeStepRow>,
    /// What they spent their time on, where they are handshakes or requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ProbePhase>,
    /// What the latest TLS handshake agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ProbeTlsFacts>,
}

/// What probes spent their time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbePhase {
    /// `resolve`, `connect`, `tls`, `tls-first-byte` (a part of `tls`),
    /// `first-byte`, `transfer`.
    pub phase: String,
    /// How many had it.
    pub count: u64,
    /// How long it took.
    pub took_ns: ProbeFigures,
}

/// What a TLS handshake agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeTlsFacts {
    /// `TLS 1.3`.
    pub version: String,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// When the server's certificate ends, in nanoseconds since 1970.
    pub certificate_ends_ns: Option<i64>,
}

/// What became of the probes of one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeStepRow {
    /// What they differ in: `source-port`, `size` or `flags`.
    pub by: String,
    /// The value.
    pub value: String,
    /// Probes sent.
    pub sent: u64,
    /// Of those, how many anybody answered.
    pub received: u64,
    /// What most of them were answered with.
    pub answer: String,
    /// The least round trip.
    pub least_ns: Option<u64>,
}

/// Sockets alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketGroup {
    /// `subject` or `twin`.
    pub target: String,
    /// `own`, or the process as `nginx[1234]`.
    pub owner: String,
    /// Sockets in the group.
    pub sockets: u64,
    /// Samples of them.
    pub samples: u64,
    /// Samples with `TCP_NODELAY` set, of those where it was read.
    pub nodelay: Option<Tally>,
    /// Samples with `TCP_CORK` set.
    pub cork: Option<Tally>,
    /// Samples with `TCP_QUICKACK` reading 1: not in ping-pong mode.
    pub quickack: Option<Tally>,
    /// Samples holding unsent data while something small was unacknowledged.
    pub holding: Option<Tally>,
}

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// Of how many.
    pub of: u64,
}

/// A kernel counter's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// `TcpExt:DelayedACKs`.
    pub name: String,
    /// By how much it rose.
    pub change: u64,
    /// `client`, `server`, or `both` where both run on one kernel.
    pub side: String,
}

/// An effective setting of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// `subject` or `twin`.
    pub target: String,
    /// `nginx`.
    pub program: String,
    /// `tcp_nodelay`.
    pub directive: String,
    /// Its value.
    pub value: String,
    /// File and line, `nginx.conf:12`; `None` for the built-in default.
    pub set_at: Option<String>,
    /// The blocks around it.
    pub scope: String,
    /// The file is newer than the workers, which may run on an older one.
    pub is_newer_than_process: Option<bool>,
    /// Why another block might apply.
    pub doubt: Option<String>,
}

/// What an intervention did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentOutcome {
    /// The intervention.
    pub experiment: Experiment,
    /// `subject` or `twin`.
    pub target: String,
    /// Requests without it, interleaved.
    pub control: Figures,
    /// Requests with it.
    pub treated: Figures,
    /// Mean with it minus mean without it, negative when it helps.
    pub difference_ns: i64,
    /// Lower end of the 95 % interval of the difference.
    pub difference_low_ns: i64,
    /// Its upper end.
    pub difference_high_ns: i64,
    /// How often control and intervention alternated.
    pub alternations: u64,
    /// What it shows, in a sentence.
    pub meaning: String,
}

/// One layer's verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// `name`, `route`, `round-trip`, `connection`, `firewall`, `backlog`,
    /// `transport`, `server`, `client`, `counters`, `configuration`.
    pub layer: String,
    /// What became of it.
    pub state: LayerState,
    /// The outcome in one line.
    pub line: String,
    /// What that rests on.
    pub because: String,
}

/// What became of a suspect layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayerState {
    /// Looked at and innocent.
    Cleared,
    /// A finding lies here.
    Accused,
    /// Something happened here that no finding weighs.
    Suspected,
    /// Could not be looked at.
    NotMeasured,
}

/// How sure a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Fits what was seen.
    Possible,
    /// Seen repeatedly by one kind of evidence, no look-alike left.
    Strong,
    /// The mechanism was seen by two kinds of evidence, or vanished and
    /// returned with a controlled intervention.
    Proven,
}

/// A cause that was found, what it cost and what shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The cause's id.
    pub cause: Id,
    /// Its title.
    pub title: String,
    /// How sure it is.
    pub verdict: Verdict,
    /// Who has to change something.
    pub culprit: Owner,
    /// The kinds of wait it lengthens, for marking them in a timeline; empty
    /// where its time is in no wait (a refused connection).
    #[serde(default)]
    pub waits: Vec<WaitKind>,
    /// The server's address and port it was found at.
    pub service: String,
    /// What the affected exchanges would have saved without it, summed.
    pub cost_ns: u64,
    /// The least it can be.
    pub cost_low_ns: u64,
    /// The most it can be.
    pub cost_high_ns: u64,
    /// Time during which at least one exchange suffered it.
    pub wall_ns: u64,
    /// Part of all exchanges' time, 0 to 1.
    pub share: f64,
    /// How many exchanges, of how many.
    pub affected: Affected,
    /// The unit of `affected`, where it is not requests.
    #[serde(default, skip_serializing_if = "Unit::is_requests")]
    pub unit: Unit,
    /// One paragraph for a person.
    pub summary: String,
    /// What shows it.
    pub evidence: Vec<Evidence>,
    /// A Wireshark display filter for the packets that show it best: a few
    /// whole exchanges and the packets of the evidence; `None` without any.
    #[serde(default)]
    pub display_filter: Option<String>,
    /// Look-alikes that were excluded.
    pub ruled_out: Vec<RuledOut>,
    /// What it may have been in its turn, the likeliest first, where packets
    /// cannot tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// What observation would overturn it.
    pub overturned_by: String,
    /// What to change, best first.
    pub fix: Vec<Fix>,
    /// What to expect after the change.
    pub predicted: Option<Prediction>,
    /// The exchanges that show it best.
    pub exemplars: Vec<Exemplar>,
    /// True for a place of time that no cause explains: nobody is accused of it.
    #[serde(default)]
    pub locates: bool,
    /// The place of its time and how sure that is; `None` where it has no time of its own,
    /// and in reports of schema 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The statement of each kind of evidence; empty in reports of schema 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// The measurement that would tell more, as a command; empty for a cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<Fix>,
}

/// How many exchanges a cause touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Affected {
    /// Those touched.
    pub exchanges: u64,
    /// Of all these.
    pub of: u64,
}

/// The unit in which a finding counts what it affects.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Requests and their responses.
    #[default]
    Requests,
    /// Stretches of one side's data that no request asked for, or that is no answer.
    Transfers,
    /// Lookups of names.
    Lookups,
    /// Connections, or attempts at one.
    Connections,
    /// Packets that ask for an answer, such as pings.
    Packets,
}

impl Unit {
    /// Returns true if the unit is requests, the usual one.
    pub fn is_requests(&self) -> bool {
        *self == Self::Requests
    }

    /// One of them and several, in words.
    pub const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Requests => ["request", "requests"],
            Self::Transfers => ["transfer", "transfers"],
            Self::Lookups => ["lookup", "lookups"],
            Self::Connections => ["connection", "connections"],
            Self::Packets => ["packet", "packets"],
        }
    }
}

/// The kinds of evidence that a verdict counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Packets.
    Wire,
    /// Our own sockets and the stamps of our own requests.
    OwnSocket,
    /// Another process's sockets.
    ForeignSocket,
    /// Kernel trace points.
    KernelTrace,
    /// A program's configuration.
    Configuration,
    /// Kernel counters.
    Counter,
    /// Something was changed, with an interleaved control.
    Intervention,
}

/// One thing that shows a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Which kind.
    pub kind: EvidenceKind,
    /// Whether the mechanism itself was seen (counts towards `proven`), or
    /// only a circumstance that fits it.
    pub shows_mechanism: bool,
    /// What was seen, with its figures.
    pub text: String,
    /// How often it was seen.
    pub count: Option<u64>,
    /// Typical duration.
    pub median_ns: Option<u64>,
    /// Packet numbers that show it, a few.
    pub packets: Vec<u64>,
    /// A Wireshark display filter that shows it.
    pub display_filter: Option<String>,
    /// File and line for configuration.
    pub location: Option<String>,
}

/// A cause that fits and that these observations cannot tell from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its id.
    pub cause: Id,
    /// What speaks for it.
    pub because: String,
    /// What would decide.
    pub decided_by: String,
}

/// A look-alike that was excluded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuledOut {
    /// Its id.
    pub cause: Id,
    /// By what.
    pub because: String,
}

/// A change that removes the cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// The file and line, the program or the host to change.
    pub r#where: String,
    /// The change.
    pub change: String,
}

/// The latency to expect after the fix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Requests per second it holds for.
    pub at_rate: f64,
    /// The latency then, at that same rate.
    pub latency_ns: PredictedLatency,
    /// Requests per second that the same closed loop might reach, low and high.
    pub closed_loop_rate: Option<(f64, f64)>,
}

/// Two percentiles that are predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedLatency {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
}

/// A remark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// Stable kebab-case id.
    pub id: String,
    /// The remark.
    pub text: String,
}

/// Bulk that `compare` and close looks need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// The subject's baseline latencies by cluster, the unit of resampling.
    pub clusters: Vec<Cluster>,
    /// The subject's baseline latencies in one.
    pub latency: Distribution,
    /// The subject's baseline times between first and last response byte.
    pub body: Distribution,
}

/// The latencies of one second of one group of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Whole seconds since the baseline began.
    pub second: u32,
    /// Group of connections.
    pub group: u16,
    /// The latencies.
    pub latency: Distribution,
    /// Requests that failed; one that timed out is in `latency` too, with its age.
    #[serde(default)]
    pub failures: u64,
}
