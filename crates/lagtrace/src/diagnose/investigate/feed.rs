//! The feed of all observations to a single analyzer, in the order in which they occurred.

use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::{Event, EventBody, Note, Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::{Endpoint, FlowKey};
use lagtrace_core::observed::segment::Segment;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::report::{Picture, Remark, Report};
use lagtrace_core::views::picture::Keeps;

use super::keeper::Keeper;
use super::recorder::Batches;
use crate::clock;
use crate::conclusion;

/// The analyzer, and the events that were not passed to it yet.
#[derive(Debug)]
pub(super) struct Feed {
    analyzer: Analyzer,
    waiting: Vec<Event>,
    keeper: Option<Keeper>,
    /// Addresses behind NAT of this host, each with the one that lagtrace connects to.
    translations: Vec<(Endpoint, Endpoint)>,
}

impl Feed {
    /// Returns the feed of an analyzer for these targets; events are also passed to `keeper`.
    pub(super) fn new(
        targets: Vec<(TargetId, Endpoint)>,
        keeper: Option<Keeper>,
        is_drawn: bool,
    ) -> Self {
        let options = conclusion::options(targets);
        Self {
            // The load comes before its experiments, which have no examples.
            analyzer: conclusion::live_analyzer(options, is_drawn, Keeps::Earliest),
            waiting: Vec::new(),
            keeper,
            translations: Vec::new(),
        }
    }

    /// Makes packets to and from `behind` belong to `target`.
    pub(super) fn translate(&mut self, behind: Endpoint, target: Endpoint) {
        self.translations.push((behind, target));
    }

    /// Keeps an event until the next [`digest`](Self::digest).
    pub(super) fn observe(&mut self, event: Event) {
        self.waiting.push(event);
    }

    /// Keeps several events.
    pub(super) fn observe_all(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.observe(event);
        }
    }

    /// Keeps events observed before the load began; they are not used as a baseline.
    pub(super) fn observe_idle(&mut self, events: impl IntoIterator<Item = Event>) {
        self.observe_all(events.into_iter().map(|event| Event {
            phase: Phase::WarmUp,
            ..event
        }));
    }

    /// Keeps an event, with the current time.
    pub(super) fn observe_now(&mut self, body: EventBody) {
        self.observe(Event::here(clock::now(), Phase::Baseline, body));
    }

    /// Keeps a remark.
    pub(super) fn note(&mut self, note: Note) {
        self.observe_now(EventBody::Note(note));
    }

    /// Returns the events that were not passed on yet.
    pub(super) fn waiting(&self) -> &[Event] {
        &self.waiting
    }

    /// Passes on the kept events together with the packets of the same time.
    ///
    /// An event that assigns a flow to a phase is passed on first. It applies to all packets of the
    /// flow, including those before the connection was known to be open.
    pub(super) fn digest(&mut self, packets: Batches) {
        let mut events = std::mem::take(&mut self.waiting);
        events.sort_by_key(due);
        let mut events = events.into_iter().peekable();
        for batch in packets.into_each() {
            for packet in batch.whole() {
                let at = packet.at();
                while let Some(event) =
                    events.next_if(|event| at.is_some_and(|at| due(event) <= at))
                {
                    self.pass_on(event);
                }
                self.analyzer
                    .packet(&untranslated(packet, &self.translations));
            }
        }
        events.for_each(|event| self.pass_on(event));
    }

    fn pass_on(&mut self, event: Event) {
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(&event);
        }
        self.analyzer.observe(event);
    }

    /// Returns experiments that can distinguish the remaining hypotheses.
    pub(super) fn next_experiments(&mut self) -> Vec<Experiment> {
        self.analyzer.next_experiments()
    }

    /// Returns the report, and the picture if it is drawn.
    pub(super) fn finish(mut self) -> (Report, Option<Picture>) {
        self.digest(Batches::default());
        let kept = self.keeper.map_or(Ok(()), Keeper::finish);
        let (mut report, picture) = self.analyzer.finish_with_picture();
        report.notes.extend(kept.err().map(|fault| Remark {
            id: "observations-not-kept".to_owned(),
            text: format!("The observations were not kept: {fault}."),
        }));
        (report, picture)
    }
}

/// Returns a packet with the address that lagtrace connects to instead of the one behind NAT.
fn untranslated<'p>(packet: Packet<'p>, translations: &[(Endpoint, Endpoint)]) -> Packet<'p> {
    let Packet::Tcp(segment, payload) = packet else {
        return packet;
    };
    if translations.is_empty() {
        return packet;
    }
    let (flow, direction) = (segment.flow, segment.direction);
    let target_of = |end: Endpoint| {
        let mut known = translations.iter();
        let found = known.find(|(behind, _)| *behind == end);
        found.map_or(end, |&(_, target)| target)
    };
    let ends = [flow.source(direction), flow.destination(direction)].map(target_of);
    let (flow, direction) = FlowKey::new(flow.transport(), ends[0], ends[1]);
    let segment = Segment {
        flow,
        direction,
        ..segment
    };
    Packet::Tcp(segment, payload)
}

fn due(event: &Event) -> Timestamp {
    match event.body {
        EventBody::FlowPhase(_) => Timestamp::MIN,
        _ => event.at,
    }
}
