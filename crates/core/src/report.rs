//! The report of a diagnosis: the single document from which all views are made.
//!
//! Durations are integer nanoseconds, in fields whose names end in `_ns`. The order of all lists is
//! fixed, so equal input gives equal bytes. A new field keeps [`SCHEMA`]; a field that changes its
//! meaning raises it.
//!
//! Changes in schema 2:
//!
//! - `findings` ends with findings that only locate time that no cause explains (`locates`). They
//!   name no cause and leave the exit code at 0.
//! - A finding's `location` says where its time passed and how certain that place is. Its `verdict`
//!   says only how certain the cause is.
//! - `account` books all time.
//! - A layer is `cleared` only by its own account.

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::experiment::Experiment;
use crate::registry::Id;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

mod account;
mod capacity;
mod connection;
mod counted;
mod figures;
mod load;
mod mode;
mod overall;
mod picture;
mod record;
mod route;
mod sockets;
mod sweep;
mod two_point;
mod watch;

pub use account::{Account, Booking, ClaimedTime, Location, Says, Shape, Witness};
pub use capacity::{
    Capacity, CapacityLimit, LoadLevel, ProcessorShare, ProcessorShares, RequestsSent,
};
pub use connection::{
    Acknowledgements, CongestionMarks, ConnectionEnd, ConnectionRecord, ConnectionSide,
    Connections, Delays, Handshake, InitialWindow, Lost, QuicFacts, Retransmissions,
    RoundTripFigures, Spells, SystemFacts, Vantage, WindowFigures,
};
pub(crate) use counted::part_of;
pub use counted::{count, counted, digits, duration, share};
pub use figures::{Figures, ProbeFigures};
pub use load::{
    CapturedPart, Generator, Interval, Intervals, LoadRun, Stage, Stages, TlsUse, Transport, UrlRun,
};
pub use mode::LatencyMode;
pub use overall::{Caveat, Overall, OverallResult, Unclaimed};
pub use picture::{
    Cell, Curve, CurveName, Ladder, LadderGap, LadderPacket, Part, PartShares, PassedOn, Picture,
    PictureService, PicturedCall, PicturedConnection, PicturedExchange, PicturedSocket, Points,
    Raster, RequestAt, WaySeries, Why,
};
pub use record::{ExchangeRecord, RecoveryRecord};
pub use route::{
    Hop, HopAddress, HopLabel, HopState, HopTranslation, Route, RouteMtu, RouteNarrowing, RoutePath,
};
pub use sockets::{Bearing, KernelLimit, LiveSocket};
pub use sweep::{Sweep, SweepStep};
pub use two_point::{ClockRelation, Joined, Way, WayPlace};
pub use watch::{
    AskedService, Disagreement, Dropped, JoinedTurns, Throttled, WaitSplit, Watch, WatchedService,
};

/// Version of the report's schema.
pub const SCHEMA: u32 = 2;

/// The first status code of an error (RFC 9110 §15).
const LEAST_ERROR_STATUS: u16 = 400;
/// Minimum share of failed requests that users notice, as one in this many.
const NOTICED: u64 = 100;

impl Report {
    /// Returns the findings that name a cause: all but those that only locate unexplained time.
    pub fn causes(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.locates)
    }

    /// Returns the findings whose cause explains why time was lost, and not only where.
    pub fn accusations(&self) -> impl Iterator<Item = &Finding> {
        self.causes()
            .filter(|finding| !finding.cause.cause().says_only_where)
    }

    /// Returns true if a file has the packets of the report, so that their numbers refer to it.
    pub fn keeps_packets(&self) -> bool {
        let capture = self.capture.as_ref();
        self.command == "analyze" || capture.is_some_and(|capture| capture.written.is_some())
    }

    /// Returns the report of a run that has measured nothing.
    pub fn nothing() -> Self {
        Self {
            schema: SCHEMA,
            ..Self::default()
        }
    }

    /// Records that the user interrupted the run after this time, before its measurement was whole.
    /// A cause that was found until then stays the result.
    pub fn interrupt(&mut self, after: Duration) {
        self.took_ns = Some(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        let overall = self.overall.get_or_insert_with(Overall::nothing);
        overall.is_interrupted = true;
        if overall.result != OverallResult::CauseFound {
            overall.result = OverallResult::Interrupted;
        }
    }

    /// Returns true if a share of the requests failed that its users notice, for whatever reason, or
    /// if none of our own was answered.
    pub fn fails(&self) -> bool {
        let exchanges = &self.exchanges;
        let failed = exchanges.errors.saturating_add(exchanges.timeouts);
        let all = exchanges.count.saturating_add(failed);
        match self.overall.as_ref().map(|overall| overall.result) {
            Some(OverallResult::AllFailed | OverallResult::SomeFailed) => {
                failed.saturating_mul(NOTICED) >= all
            }
            Some(OverallResult::NoRequest) => self.command == "diagnose",
            _ => false,
        }
    }

    /// Returns the findings that only locate time that no cause explains.
    pub fn places(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.locates)
    }
}

/// A finished diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of the schema, [`SCHEMA`].
    pub schema: u32,
    /// The subcommand that made the report, `diagnose`.
    pub command: String,
    /// The subject of the report: a URL, or the capture files.
    pub subject: String,
    /// Start of the diagnosis, RFC 3339 in UTC; the first packet's time for a capture.
    pub started: String,
    /// For how long the run measured; `None` if it read a file, or if that does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// The overall result, and the limits of the claim; `None` in reports of older versions, and
    /// where nothing was diagnosed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overall: Option<Overall>,
    /// The totals of the packet sources; `None` when no packets were captured.
    pub capture: Option<Capture>,
    /// The joint view of two captures of the same connections; `None` unless there are two such
    /// captures.
    #[serde(default)]
    pub joined: Option<Joined>,
    /// The phases of the investigation, in nanoseconds since the epoch.
    pub phases: Vec<PhaseSpan>,
    /// Connection attempts, with their outcomes and durations.
    pub setups: Setups,
    /// Connections one by one, where requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// The results of our own load; `None` where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadRun>,
    /// What the service carries; `None` if no levels of load were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Who used the processors of this host while delay was judged; `None` if that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorShares>,
    /// The requests that lagtrace sent in all; `None` where it sent none, or was not asked to load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<RequestsSent>,
    /// Results of the load run in steps; `load` holds the results of one of the steps.
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
    /// Sockets of this host one by one, where requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live: Vec<LiveSocket>,
    /// The results of watching the kernel; `None` where the kernel was not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
    /// Kernel settings that limit the sockets of `live`, where requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<KernelLimit>,
    /// Kernel counters that changed.
    pub counters: Vec<Counter>,
    /// Effective configuration.
    pub configuration: Vec<Setting>,
    /// Interventions and their effects.
    pub experiments: Vec<ExperimentOutcome>,
    /// The state of each layer: cleared, accused, suspected, not measured.
    pub layers: Vec<Layer>,
    /// Causes, root cause first, then by cost; after the causes, findings that only locate time
    /// that no cause explains ([`Finding::locates`]).
    pub findings: Vec<Finding>,
    /// The account of each service's time: inherent, claimed by findings, or unclaimed.
    #[serde(default)]
    pub account: Vec<Account>,
    /// Other remarks that a reader should know.
    pub notes: Vec<Remark>,
    /// Raw data, for comparing runs and for detailed analysis.
    pub details: Option<Details>,
}

/// The totals of all packet sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// Records read.
    pub packets: u64,
    /// Bytes of the packets on the wire.
    pub bytes: u64,
    /// Time of the first TCP segment, nanoseconds since the epoch; time of the first record if
    /// there is no TCP segment; `None` if there are no records.
    pub start_ns: Option<i64>,
    /// Time of the last TCP segment, or of the last record if there is no TCP segment.
    pub end_ns: Option<i64>,
    /// Packets that the capture itself lost; `None` where the capture does not report the number.
    pub dropped: Option<u64>,
    /// Records cut by the snap length.
    pub truncated: u64,
    /// The file to which packets captured live were written; `None` if they were not kept, or were
    /// read from the files of `points`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Each observation point.
    pub points: Vec<CapturePoint>,
}

/// An observation point of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapturePoint {
    /// File or interface.
    pub name: String,
    /// Records read.
    pub packets: u64,
    /// Records without a TCP segment that could be decoded.
    pub undecoded: u64,
    /// The records of link types that are not decoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_links: Vec<UnreadLink>,
    /// Connections seen.
    pub connections: u64,
    /// Position of the observation point: `client`, `server`, `both`, `middle` or `unknown`.
    pub vantage: String,
    /// The reason that reading ended early; `None` when all was read.
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
    /// The phase: `warm-up`, `level N`, `baseline`, `control N`, `experiment N`.
    pub phase: String,
    /// The target: `subject` or `twin`.
    pub target: String,
    /// Start, nanoseconds since the epoch.
    pub start_ns: i64,
    /// End, nanoseconds since the epoch.
    pub end_ns: i64,
    /// The intervention, for controls and experiments.
    pub experiment: Option<Experiment>,
    /// Requests per second offered; `None` in closed loop.
    pub offered_rate: Option<f64>,
    /// True if packets were captured during the phase.
    pub is_observed: bool,
}

/// Connection attempts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setups {
    /// Number of attempts.
    pub count: u64,
    /// Attempts by outcome.
    pub outcomes: Vec<SetupOutcome>,
    /// Time from the first SYN to the end of the handshake.
    pub latency_ns: Figures,
    /// The time of the handshakes by kind of wait.
    pub waits: Vec<WaitShare>,
}

/// The number of connection attempts with one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupOutcome {
    /// The outcome: `established`, `refused`, `unanswered`, `cut`.
    pub outcome: String,
    /// Number of attempts.
    pub count: u64,
}

/// Requests with their responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exchanges {
    /// Number of whole exchanges.
    pub count: u64,
    /// Exchanges ended by reset, close, garbage, an error reply or an HTTP status of 500 or more; also
    /// by a status of 400 or more if most are, for our own requests, and for too many requests.
    pub errors: u64,
    /// Exchanges given up by the client.
    pub timeouts: u64,
    /// Exchanges that began before the capture, ended after it, or have a gap in it. All figures
    /// exclude them.
    pub cut: u64,
    /// Whole exchanges per second, over the time in which exchanges ran.
    pub rate: f64,
    /// The source of the latency figures: `packets`, or `own stamps` (the timestamps of our own
    /// program).
    pub measured_by: String,
    /// Time from the request's first byte to the response's last byte.
    pub latency_ns: Figures,
    /// The time of the exchanges by kind of wait; shares add up to 1.
    pub waits: Vec<WaitShare>,
    /// Number of exchanges that `waits` covers: those whose packets were seen, including timeouts.
    /// It can differ from `count`, which the latency covers. 0 in reports of older versions, where
    /// it is about `count`.
    #[serde(default)]
    pub waits_of: u64,
    /// The slowest exchanges, worst first.
    pub slowest: Vec<Exemplar>,
    /// Responses by status or failure.
    pub statuses: Vec<StatusCount>,
    /// Peaks of the latency distribution by packets, or by our own timestamps, fastest first; empty
    /// for few exchanges.
    #[serde(default)]
    pub modes: Vec<LatencyMode>,
}

/// The number of responses with one status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusCount {
    /// The status code, or the failure's name.
    pub status: String,
    /// Number of responses.
    pub count: u64,
}

impl StatusCount {
    /// Returns true if the status code is that of an error; `None` if it is the name of a failure.
    pub(crate) fn is_error_status(&self) -> Option<bool> {
        let code: u16 = self.status.parse().ok()?;
        Some(code >= LEAST_ERROR_STATUS)
    }
}

/// A kind of wait and its share of the total time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitShare {
    /// The kind of wait.
    pub kind: WaitKind,
    /// The party that caused the wait.
    pub owner: Owner,
    /// Sum over all exchanges.
    pub total_ns: u64,
    /// Share of all exchanges' time, 0 to 1.
    pub share: f64,
}

/// An exchange shown as an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exemplar {
    /// The client's address and port.
    pub client: String,
    /// The server's address and port.
    pub server: String,
    /// The request, `GET /path`, as far as it could be read.
    pub request: String,
    /// The status or the failure.
    pub outcome: String,
    /// Start, nanoseconds since the epoch.
    pub start_ns: i64,
    /// Duration of the whole exchange.
    pub latency_ns: u64,
    /// The number of the first packet in the capture; `None` without one.
    pub first_packet: Option<u64>,
    /// The number of the last packet.
    pub last_packet: Option<u64>,
    /// The waits in time order. They cover the exchange without gap or overlap.
    pub waits: Vec<WaitSpan>,
    /// The time at the server's host by stage, in order, as observed by the host's kernel; empty
    /// where the kernel was not observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_host: Vec<HostStage>,
}

/// A part of an exchange's time at its server's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostStage {
    /// The stage: `backlog`, `stack`, `unread`, `wake-up`, `run-queue`, `program`, `waiting`,
    /// `held`, `sending`, `qdisc`.
    pub stage: String,
    /// Duration of the stage.
    pub duration_ns: u64,
}

impl Exemplar {
    /// Removes the packet numbers, because there is no file to which they refer.
    pub(crate) fn forget_packets(&mut self) {
        (self.first_packet, self.last_packet) = (None, None);
        for wait in &mut self.waits {
            wait.released_by_packet = None;
        }
    }
}

/// A wait of an exemplar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSpan {
    /// The kind of wait.
    pub kind: WaitKind,
    /// The party that caused the wait.
    pub owner: Owner,
    /// Duration of the wait.
    pub duration_ns: u64,
    /// Maximum error of the duration in either direction, where the bounds of the wait are
    /// inferred; `None` where they were observed.
    pub error_ns: Option<u64>,
    /// The packet that ended the wait; `None` without one.
    pub released_by_packet: Option<u64>,
}

/// Round trips measured by one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The method: `tcp-syn`, `tcp-connect`, `tcp-flags`, `icmp`, `udp`, `tls-full`, `tls-resumed`,
    /// `http-fresh`, `http-kept-alive`.
    pub method: String,
    /// Address and port.
    pub target: String,
    /// The time of the probes: `idle`, or `loaded` while the load ran.
    pub during: String,
    /// Probes sent.
    pub sent: u64,
    /// Answers received from the target, late ones included.
    pub received: u64,
    /// Answers of `received` that came after the timeout.
    pub late: u64,
    /// Probes that nobody answered.
    pub lost: u64,
    /// Answers that came more than once.
    pub duplicates: u64,
    /// Answers that came after those of later probes.
    pub reordered: u64,
    /// Time to live of the first answer, where known.
    pub ttl: Option<u8>,
    /// Answers by kind: `open`, `refused`, `silence`, a status.
    pub answers: Vec<StatusCount>,
    /// The origin of the timestamps: `kernel` or `user`.
    pub stamp: String,
    /// The round-trip times.
    pub rtt_ns: ProbeFigures,
    /// Mean difference between the round-trip times of successive answers.
    pub jitter_ns: u64,
    /// Time from the call that sent a probe until this program received the answer, where the
    /// kernel measured `rtt_ns`. The excess over `rtt_ns` is time in this host's own queues and
    /// wake-ups.
    pub noticed_ns: Option<ProbeFigures>,
    /// Time of probes in this host's own queue before they reached the device, where the kernel
    /// timestamps both instants; not part of `rtt_ns`.
    pub queued_ns: Option<ProbeFigures>,
    /// The part of `noticed_ns` that is neither the round trip nor the time in `queued_ns`: this
    /// program's own calls and wake-ups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_ns: Option<ProbeFigures>,
    /// Results by value, where the probes differ in one parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ProbeStepRow>,
    /// The time of the probes by phase, where they are handshakes or requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ProbePhase>,
    /// The parameters of the latest TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ProbeTlsFacts>,
}

impl Probe {
    /// Returns true if a probe was lost or refused.
    ///
    /// With `tcp-flags`, most segments may correctly get no answer. The result then is true if the
    /// SYN was not answered by SYN/ACK. If no SYN was sent, it is true if no segment was answered.
    pub fn is_faulty(&self) -> bool {
        if self.method == "tcp-flags" {
            let syn = self.steps.iter().find(|step| step.value == "SYN");
            return syn.map_or(self.received == 0, |syn| syn.answer != "open");
        }
        let is_bad = |answer: &StatusCount| {
            let is_refusal = ["refused", "closed", "not HTTP"].contains(&answer.status.as_str());
            answer.is_error_status().unwrap_or(is_refusal)
        };
        self.received < self.sent || self.answers.iter().any(is_bad)
    }
}

/// The time that probes spent in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbePhase {
    /// The phase: `resolve`, `connect`, `tls`, `tls-first-byte` (a part of `tls`), `first-byte`,
    /// `transfer`.
    pub phase: String,
    /// Number of probes with this phase.
    pub count: u64,
    /// Durations of the phase.
    pub took_ns: ProbeFigures,
}

/// The parameters agreed on in a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeTlsFacts {
    /// The version, `TLS 1.3`.
    pub version: String,
    /// The cipher suite's registered name.
    pub cipher: String,
    /// Expiry of the server's certificate, in nanoseconds since 1970.
    pub certificate_ends_ns: Option<i64>,
}

/// The results of the probes with one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeStepRow {
    /// The parameter varied: `source-port`, `size` or `flags`.
    pub by: String,
    /// The value.
    pub value: String,
    /// Probes sent.
    pub sent: u64,
    /// Probes that were answered by any host.
    pub received: u64,
    /// The most frequent answer.
    pub answer: String,
    /// The minimum round-trip time.
    pub least_ns: Option<u64>,
}

/// A group of sockets with the same owner and options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketGroup {
    /// The target: `subject` or `twin`.
    pub target: String,
    /// The owner: `own`, or the process as `nginx[1234]`.
    pub owner: String,
    /// Sockets in the group.
    pub sockets: u64,
    /// Number of samples of these sockets.
    pub samples: u64,
    /// Samples with `TCP_NODELAY` set, out of those in which the option was read.
    pub nodelay: Option<CountOf>,
    /// Samples with `TCP_CORK` set.
    pub cork: Option<CountOf>,
    /// Samples in which `TCP_QUICKACK` reads 1, so that the socket is not in ping-pong mode.
    pub quickack: Option<CountOf>,
    /// Samples with unsent data while a small segment was unacknowledged.
    pub holding: Option<CountOf>,
}

/// A count out of a total.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tally")]
pub struct CountOf {
    /// The count.
    pub count: u64,
    /// The total.
    pub of: u64,
}

/// The change of a kernel counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// The counter's name, `TcpExt:DelayedACKs`.
    pub name: String,
    /// The increase.
    pub change: u64,
    /// The side that the counter covers: `client`, `server`, or `both` if both run on one kernel.
    pub side: String,
}

/// An effective setting of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The target: `subject` or `twin`.
    pub target: String,
    /// The program, `nginx`.
    pub program: String,
    /// The directive, `tcp_nodelay`.
    pub directive: String,
    /// The value.
    pub value: String,
    /// File and line, `nginx.conf:12`; `None` for the built-in default.
    pub set_at: Option<String>,
    /// The configuration blocks around the setting.
    pub scope: String,
    /// True if the file is newer than the workers, which may run on an older one.
    pub is_newer_than_process: Option<bool>,
    /// The reason that another block might apply.
    pub doubt: Option<String>,
}

/// The effect of an intervention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentOutcome {
    /// The intervention.
    pub experiment: Experiment,
    /// The target: `subject` or `twin`.
    pub target: String,
    /// Requests without the intervention, interleaved with those that have it.
    pub control: Figures,
    /// Requests with the intervention.
    pub treated: Figures,
    /// Mean with the intervention minus mean without it; negative if the intervention helps.
    pub difference_ns: i64,
    /// Lower end of the 95 % interval of the difference.
    pub difference_low_ns: i64,
    /// Upper end of the 95 % interval of the difference.
    pub difference_high_ns: i64,
    /// Number of alternations between control and intervention.
    pub alternations: u64,
    /// False if requests without the intervention did not have the load's delay either, so that
    /// nothing follows.
    pub is_conclusive: bool,
    /// The interpretation of the outcome, in a sentence.
    pub meaning: String,
}

/// The state of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// The layer: `name`, `route`, `round-trip`, `connection`, `firewall`, `backlog`, `transport`,
    /// `server`, `client`, `counters`, `configuration`.
    pub layer: String,
    /// The state of the layer.
    pub state: LayerState,
    /// The outcome in one line.
    pub line: String,
    /// The evidence for that outcome.
    pub because: String,
}

/// The state of a layer that may be responsible for lost time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayerState {
    /// The layer was examined and is not responsible for lost time.
    Cleared,
    /// A finding accuses this layer.
    Accused,
    /// Something happened in this layer that no finding covers.
    Suspected,
    /// The layer could not be examined.
    NotMeasured,
}

/// The certainty of a finding.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The cause fits what was seen.
    #[default]
    Possible,
    /// The cause was seen repeatedly by one kind of evidence, and all look-alikes are excluded.
    Strong,
    /// Two kinds of evidence show the mechanism, or a controlled intervention made it disappear and
    /// return.
    Proven,
}

/// A cause that was found, with its cost and its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The cause's id.
    pub cause: Id,
    /// The cause's title.
    pub title: String,
    /// The certainty of the cause.
    pub verdict: Verdict,
    /// The party that has to change something.
    pub culprit: Owner,
    /// The kinds of wait that the cause lengthens, for marking them in a timeline; empty where the
    /// time of the cause is in no wait (a refused connection).
    #[serde(default)]
    pub waits: Vec<WaitKind>,
    /// The address and port of the server where the cause was found.
    pub service: String,
    /// The total time that the affected exchanges would have saved without the cause.
    pub cost_ns: u64,
    /// Lower bound of the cost.
    pub cost_low_ns: u64,
    /// Upper bound of the cost.
    pub cost_high_ns: u64,
    /// Time during which at least one exchange suffered from the cause.
    pub wall_ns: u64,
    /// Share of all exchanges' time, 0 to 1.
    pub share: f64,
    /// The number of affected exchanges, out of all.
    pub affected: Affected,
    /// The unit of `affected`, where it is not requests.
    #[serde(default, skip_serializing_if = "Unit::is_requests")]
    pub unit: Unit,
    /// The cost per affected request; `None` where the finding costs no time, and in reports of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<Extent>,
    /// A summary in one paragraph, for a person.
    pub summary: String,
    /// The evidence for the finding.
    pub evidence: Vec<Evidence>,
    /// A Wireshark display filter for the packets that show the cause best: a few whole exchanges
    /// and the packets of the evidence; `None` if there are no such packets.
    #[serde(default)]
    pub display_filter: Option<String>,
    /// Look-alikes that were excluded.
    pub ruled_out: Vec<RuledOut>,
    /// Causes that may explain this finding, the likeliest first, where packets cannot distinguish
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// The observation that would overturn the finding.
    pub overturned_by: String,
    /// The changes that remove the cause, best first.
    pub fix: Vec<Fix>,
    /// The latency to expect after the change.
    pub predicted: Option<Prediction>,
    /// The exchanges that show the cause best.
    pub exemplars: Vec<Exemplar>,
    /// True if the finding only locates time that no cause explains.
    #[serde(default)]
    pub locates: bool,
    /// The place of the finding's time and how certain that place is; `None` where the finding has
    /// no time of its own, and in reports of schema 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// Each kind of evidence, and its relation to the finding; empty in reports of schema 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// The measurement that would give more information, as a command; empty for a cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<Fix>,
}

/// The number of exchanges affected by a cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Affected {
    /// Affected exchanges.
    pub exchanges: u64,
    /// All exchanges.
    pub of: u64,
}

/// The cost of a cause per affected exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extent {
    /// Mean cost.
    pub each_ns: u64,
    /// Lower and upper bound of the mean cost, where they are materially apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_ns: Option<[u64; 2]>,
    /// True if the server's kernel timed the wait: then `each_ns` is its time, and the lower bound is
    /// what packets alone show.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_timed_by_kernel: bool,
    /// True if the cause affects all, or nearly all, exchanges of its service.
    pub concerns_all: bool,
    /// Mean time of a request, including connection setup if the cause is there. `each_ns` is the
    /// finding's share of it. Present if the cause affects nearly all requests of the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_ns: Option<u64>,
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
    /// Data of one side that belongs to no request or response.
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

    /// Returns the unit's name in the singular and the plural.
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

/// The kinds of evidence on which a verdict is based.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Packets.
    Wire,
    /// Our own sockets and the timestamps of our own requests.
    OwnSocket,
    /// Another process's sockets.
    ForeignSocket,
    /// Kernel trace points.
    KernelTrace,
    /// A program's configuration.
    Configuration,
    /// Kernel counters.
    Counter,
    /// A change made on purpose, with an interleaved control.
    Intervention,
}

/// A piece of evidence for a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The kind of evidence.
    pub kind: EvidenceKind,
    /// True if the mechanism itself was seen (counts towards `proven`); false if only a
    /// circumstance that fits the mechanism was seen.
    pub shows_mechanism: bool,
    /// The observation, with its figures.
    pub text: String,
    /// Number of observations.
    pub count: Option<u64>,
    /// Typical duration.
    pub median_ns: Option<u64>,
    /// The numbers of a few packets that show the observation.
    pub packets: Vec<u64>,
    /// A Wireshark display filter for packets that show the observation.
    pub display_filter: Option<String>,
    /// File and line for configuration.
    pub location: Option<String>,
}

/// A cause that fits the observations, which cannot distinguish it from the other candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The cause's id.
    pub cause: Id,
    /// The evidence for the candidate.
    pub because: String,
    /// The observation that would confirm or exclude the candidate.
    pub decided_by: String,
}

/// A look-alike that was excluded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuledOut {
    /// The id of the excluded cause.
    pub cause: Id,
    /// The evidence that excludes the cause.
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

/// The predicted latency without the cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The rate for which the prediction is valid, in requests per second.
    pub at_rate: f64,
    /// The predicted latency at that rate.
    pub latency_ns: PredictedLatency,
    /// The measured latency of the same requests; `None` if the report does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ns: Option<PredictedLatency>,
    /// Lower and upper bound of the rate that the same closed loop would reach, in requests per
    /// second.
    pub closed_loop_rate: Option<(f64, f64)>,
    /// The predicted latency at more quantiles, for the picture. The report does not contain it.
    #[serde(skip)]
    pub(crate) curve: Vec<(f64, u64)>,
    /// The part of each round trip that the latencies do not include, because the capture is at the
    /// server. `closed_loop_rate` includes it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outside_ns: u64,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

impl Prediction {
    /// Returns true if the prediction concerns all requests of `exchanges`. It is false for the
    /// requests of one of several services, and for several requests that are counted as one.
    pub fn is_of(&self, exchanges: &Exchanges) -> bool {
        let of_all = &exchanges.latency_ns;
        let is_same =
            |measured: PredictedLatency| (measured.p50, measured.p99) == (of_all.p50, of_all.p99);
        exchanges.measured_by != "packets" || self.measured_ns.is_none_or(is_same)
    }
}

/// Two percentiles of latency.
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

impl Remark {
    /// The id of the remark on time in which neither end sent anything, in a protocol that does not
    /// show which of them owed the other an answer.
    pub const OWED_UNKNOWN: &str = "owed-unknown";
    /// The id of the remark on a host whose processors are busy while requests wait for them.
    pub const SHORT_OF_PROCESSORS: &str = "short-of-processors";
    /// The id of the remark on requests of other clients during an investigation.
    pub const FOREIGN_REQUESTS: &str = "foreign-requests";
    /// The id of the remark on a service that works on its requests for most of their time, and carries
    /// less than the asked load.
    pub const COMPUTES: &str = "computes";
}

/// Raw data for `compare` and for detailed analysis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// The subject's baseline latencies by cluster. The bootstrap resamples whole clusters.
    pub clusters: Vec<Cluster>,
    /// The subject's baseline latencies in one distribution.
    pub latency: Distribution,
    /// The subject's baseline times between first and last response byte.
    pub body: Distribution,
}

/// The latencies of one second of one group of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Whole seconds since the start of the baseline.
    pub second: u32,
    /// Group of connections.
    pub group: u16,
    /// The latencies.
    pub latency: Distribution,
    /// Requests that failed. A request that timed out is also in `latency`, with the time until the
    /// timeout.
    #[serde(default)]
    pub failures: u64,
}
