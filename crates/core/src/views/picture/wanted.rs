//! The choice of the examples whose packets are shown.

use core::net::SocketAddr;
use core::time::Duration;

use crate::observed::flow::{Direction, Endpoint, FlowKey, Transport};
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;
use crate::registry::Id;
use crate::report::{Exemplar, Finding, LadderGap, Report};

/// Maximum number of ladders, of one finding and together.
const PER_FINDING: usize = 3;
const MAX_LADDERS: usize = 20;
/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 5;
/// Maximum number of waits that are marked in a ladder.
const MAX_GAPS: usize = 16;
/// Minimum share of the exchange of a wait that is marked although no finding is about it.
const MARKED_SHARE: f64 = 0.02;
/// Maximum time by which an exchange's first packet may precede its start.
const AHEAD: Duration = Duration::from_secs(1);

/// An example whose packets are shown.
#[derive(Clone, Debug)]
pub(super) struct WantedExample {
    /// The order of the ladders.
    pub(super) rank: usize,
    pub(super) cause: Option<Id>,
    pub(super) exchange: Exemplar,
    pub(super) flow: FlowKey,
    /// The direction in which the client sends.
    pub(super) up: Direction,
    /// The waits to mark, longest first.
    pub(super) gaps: Vec<LadderGap>,
    /// True if the connection is shown too.
    pub(super) has_connection: bool,
}

/// The fact by which an example's first packet is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The packet's number. Examples without one are not wanted.
    Number,
    /// The number, or else the time: the segments are those from which the example was made.
    Time,
}

impl WantedExample {
    fn new(cause: Option<&Finding>, exchange: &Exemplar, by: Known) -> Option<Self> {
        let end = |text: &str| text.parse::<SocketAddr>().ok().map(Endpoint::from);
        let (client, server) = (end(&exchange.client)?, end(&exchange.server)?);
        let (flow, up) = FlowKey::new(Transport::Tcp, client, server);
        if by == Known::Number {
            exchange.first_packet?;
        }
        Some(Self {
            rank: 0,
            cause: cause.map(|finding| finding.cause),
            exchange: exchange.clone(),
            flow,
            up,
            gaps: gaps(cause, exchange),
            has_connection: false,
        })
    }

    pub(super) fn start_ns(&self) -> i64 {
        self.exchange.start_ns
    }

    fn start(&self) -> Timestamp {
        Timestamp::from_nanos(self.exchange.start_ns)
    }

    pub(super) fn end(&self) -> Timestamp {
        self.start() + Duration::from_nanos(self.exchange.latency_ns)
    }

    /// Returns true if the exchange begins with this segment. Another capture may contain a packet
    /// of the same number on the same flow.
    pub(super) fn begins_with(&self, segment: &Segment) -> bool {
        let is_near = segment.at + AHEAD >= self.start() && segment.at <= self.end();
        match self.exchange.first_packet {
            Some(number) => number == segment.number && is_near,
            None => segment.at == self.start() && self.is_request(segment),
        }
    }

    fn is_request(&self, segment: &Segment) -> bool {
        segment.direction == self.up && segment.payload_len > 0
    }
}

/// Returns the examples in the order of the report's findings; those of the slowest exchanges come
/// last. All findings get their first example before any gets its second.
pub(super) fn wanted(report: &Report, by: Known) -> Vec<WantedExample> {
    let mut list: Vec<(usize, usize, WantedExample)> = Vec::new();
    for round in 0..PER_FINDING {
        for (place, finding) in report.findings.iter().enumerate() {
            let example = finding.exemplars.get(round);
            let wanted = example.and_then(|example| WantedExample::new(Some(finding), example, by));
            list.extend(wanted.map(|wanted| (place, round, wanted)));
        }
    }
    let slowest = report.exchanges.slowest.iter().take(PER_FINDING);
    for example in slowest {
        let is_shown = |(.., shown): &(usize, usize, WantedExample)| shown.exchange == *example;
        if !list.iter().any(is_shown) {
            let wanted = WantedExample::new(None, example, by);
            list.extend(wanted.map(|wanted| (usize::MAX, 0, wanted)));
        }
    }
    list.truncate(MAX_LADDERS);
    list.sort_by_key(|(place, round, _)| (*place, *round));
    let mut list: Vec<WantedExample> = list.into_iter().map(|(.., wanted)| wanted).collect();
    for (rank, wanted) in list.iter_mut().enumerate() {
        wanted.rank = rank;
    }
    choose_connections(&mut list);
    list
}

/// Returns a single exchange with its connection; `None` if it has no packets.
pub(super) fn alone(exchange: &Exemplar) -> Option<WantedExample> {
    let wanted = WantedExample::new(None, exchange, Known::Number)?;
    Some(WantedExample {
        has_connection: true,
        ..wanted
    })
}

/// Chooses the connections of the first examples, at most one of each cause before others.
fn choose_connections(list: &mut [WantedExample]) {
    let mut causes = Vec::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for wanted in list.iter() {
        if causes.contains(&wanted.cause) {
            others.push(wanted.rank);
        } else {
            causes.push(wanted.cause);
            first.push(wanted.rank);
        }
    }
    let mut flows = Vec::new();
    for rank in first.into_iter().chain(others) {
        let Some(wanted) = list.get_mut(rank) else {
            continue;
        };
        if flows.len() < MAX_CONNECTIONS && !flows.contains(&wanted.flow) {
            flows.push(wanted.flow);
            wanted.has_connection = true;
        }
    }
}

/// Reports whether a wait is long enough to be the cost of a finding: that of one about the setup
/// of the connection is in no wait of the exchange.
fn holds(finding: &Finding, gap: &LadderGap) -> bool {
    let cost = finding.extent.map_or(0, |extent| extent.each_ns);
    gap.duration_ns.saturating_mul(2) >= cost
}

/// Returns the waits to mark: those that the finding is about, and other long ones.
fn gaps(finding: Option<&Finding>, exchange: &Exemplar) -> Vec<LadderGap> {
    let named = |gap: &LadderGap| finding.is_some_and(|f| f.waits.contains(&gap.kind));
    let blamed = |gap: &LadderGap| finding.is_some_and(|f| f.culprit == gap.owner && holds(f, gap));
    let mut at_ns = 0_u64;
    let mut list: Vec<LadderGap> = Vec::new();
    for wait in &exchange.waits {
        list.push(LadderGap {
            at_ns,
            duration_ns: wait.duration_ns,
            kind: wait.kind,
            owner: wait.owner,
            cause: None,
        });
        at_ns = at_ns.saturating_add(wait.duration_ns);
    }
    list.sort_by_key(|gap| core::cmp::Reverse(gap.duration_ns));
    let cause = finding.map(|finding| finding.cause);
    if list.iter().any(named) {
        let guilty = list.iter_mut().filter(|gap| named(gap));
        guilty.for_each(|gap| gap.cause = cause);
    } else if let Some(longest) = list.iter_mut().find(|gap| blamed(gap)) {
        longest.cause = cause;
    }
    let least = (exchange.latency_ns as f64 * MARKED_SHARE) as u64;
    list.retain(|gap| gap.cause.is_some() || gap.duration_ns >= least);
    // The ends of the first gaps are shown in any case, so the guilty ones come first.
    list.sort_by_key(|gap| gap.cause.is_none());
    list.truncate(MAX_GAPS);
    list
}
