//! The one request that shows a finding best: its waits, its packets, and the wait that the finding
//! is about.

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::{Exemplar, Finding, Ladder, LadderGap, Picture, Report, WaitSpan};

use crate::render::{ladder, verdict};

/// A request, as the page shows it.
pub(super) struct Example<'a> {
    pub(super) request: &'a Exemplar,
    /// Time of the connection's setup before the request; 0 if it had none, or it is not known.
    pub(super) setup_ns: u64,
    /// The packets, where they were read.
    pub(super) packets: Option<&'a Ladder>,
    pub(super) marked: Option<Marked>,
    /// The kinds of wait that the finding is about.
    pub(super) kinds: &'a [WaitKind],
}

/// The wait that is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marked {
    /// Start after the start of the request; negative for the setup of its connection.
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
    /// `None` for the setup.
    pub(super) kind: Option<WaitKind>,
    pub(super) owner: Owner,
    /// True if a finding is about it; otherwise, it is the longest wait.
    pub(super) is_found: bool,
}

impl Marked {
    pub(super) fn took_ns(self) -> u64 {
        u64::try_from(self.to_ns.saturating_sub(self.from_ns)).unwrap_or_default()
    }
}

impl<'a> Example<'a> {
    /// Returns the example of a finding: the first one whose packets were read, else the first one.
    pub(super) fn of(finding: &'a Finding, picture: Option<&'a Picture>) -> Option<Self> {
        let of_ladder = |request| ladder_of(request, picture).map(|ladder| (request, Some(ladder)));
        let mut examples = finding.exemplars.iter().filter(|it| !it.waits.is_empty());
        let first = examples.clone().next().map(|request| (request, None));
        let (request, packets) = examples.find_map(of_ladder).or(first)?;
        let setup_ns = setup_of(request, picture);
        Some(Self {
            request,
            setup_ns,
            packets,
            marked: found(finding, request, packets, setup_ns),
            kinds: &finding.waits,
        })
    }

    /// Returns the slowest request.
    pub(super) fn slowest(report: &'a Report, picture: Option<&'a Picture>) -> Option<Self> {
        let mut slowest = report.exchanges.slowest.iter();
        let request = slowest.find(|it| !it.waits.is_empty())?;
        let longest = request.waits.iter().max_by_key(|wait| wait.duration_ns);
        Some(Self {
            request,
            setup_ns: setup_of(request, picture),
            packets: ladder_of(request, picture),
            marked: longest.map(|wait| of_wait(request, wait, false)),
            kinds: &[],
        })
    }

    /// Returns the time of the request and of the setup before it.
    pub(super) fn whole_ns(&self) -> u64 {
        self.setup_ns.saturating_add(self.request.latency_ns)
    }
}

fn ladder_of<'a>(request: &Exemplar, picture: Option<&'a Picture>) -> Option<&'a Ladder> {
    let is_it = |ladder: &&Ladder| {
        ladder.client == request.client
            && ladder.server == request.server
            && ladder.start_ns == request.start_ns
            && !ladder.packets.is_empty()
    };
    picture?.ladders.iter().find(is_it)
}

fn setup_of(request: &Exemplar, picture: Option<&Picture>) -> u64 {
    let mut exchanges = picture.into_iter().flat_map(|picture| &picture.exchanges);
    let pictured = exchanges.find(|one| {
        one.exchange.client == request.client && one.exchange.start_ns == request.start_ns
    });
    pictured.and_then(|one| one.setup_ns).unwrap_or_default()
}

/// Returns the wait that a finding is about.
fn found(
    finding: &Finding,
    request: &Exemplar,
    packets: Option<&Ladder>,
    setup_ns: u64,
) -> Option<Marked> {
    let gap = packets.and_then(|it| it.gaps.iter().find(|gap| gap.cause.is_some()));
    if let Some(gap) = gap {
        return Some(of_gap(gap));
    }
    if verdict::includes_setup(finding) {
        return (setup_ns > 0).then(|| Marked {
            from_ns: -signed(setup_ns),
            to_ns: 0,
            kind: None,
            owner: finding.culprit,
            is_found: true,
        });
    }
    let wait = ladder::guilty(request, finding)?;
    let least = finding.extent.map_or(0, |extent| extent.each_ns) / 2;
    let is_it = finding.waits.contains(&wait.kind) || wait.duration_ns >= least;
    is_it.then(|| of_wait(request, wait, true))
}

fn of_gap(gap: &LadderGap) -> Marked {
    Marked {
        from_ns: signed(gap.at_ns),
        to_ns: signed(gap.at_ns.saturating_add(gap.duration_ns)),
        kind: Some(gap.kind),
        owner: gap.owner,
        is_found: true,
    }
}

fn of_wait(request: &Exemplar, wait: &WaitSpan, is_found: bool) -> Marked {
    let before = request.waits.iter();
    let before = before.take_while(|other| !std::ptr::eq(*other, wait));
    let at_ns = before.fold(0_u64, |sum, wait| sum.saturating_add(wait.duration_ns));
    Marked {
        from_ns: signed(at_ns),
        to_ns: signed(at_ns.saturating_add(wait.duration_ns)),
        kind: Some(wait.kind),
        owner: wait.owner,
        is_found,
    }
}

pub(super) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
