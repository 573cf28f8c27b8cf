//! A watch that is running: what it sees is passed to the analysis.

use std::thread;
use std::time::Instant;

use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::{CaptureSummary, Event, EventBody, Phase};
use lagtrace_core::report::{Picture, Report};
use lagtrace_sources::kernel::{Sighting, Standing, Watch};
use lagtrace_sources::privilege::namespace_id;

use super::browser::Effect;
use super::conclusions::Conclusions;
use super::counted::ServerCounters;
use super::ends::ProcessEnds;
use super::live::Live;
use crate::analyze::listing::Listing;
use crate::call_trace::{CallTrace, TAKEN_EVERY};
use crate::clock;
use crate::conclusion;
use crate::console::Console;
use crate::interrupt::Interrupt;
use crate::words;

/// A watch that is running.
pub(super) struct Session {
    pub(super) analyzer: Analyzer,
    /// The output of single exchanges.
    pub(super) lines: Option<Listing>,
    /// The summary of the segments from the kernel, as for a capture.
    pub(super) seen: CaptureSummary,
    /// The features that are missing in this kernel.
    pub(super) missing: Vec<String>,
    /// The calls on the watched sockets.
    pub(super) calls: Option<CallTrace>,
    pub(super) ends: ProcessEnds,
    pub(super) counters: Option<ServerCounters>,
    /// The network namespace that is watched; `None` for all.
    pub(super) namespace: Option<u64>,
    pub(super) conclusions: Conclusions,
}

impl Session {
    /// Follows the watch until the user or the duration ends it.
    pub(super) fn follow(
        &mut self,
        mut watch: Watch,
        interrupt: &Interrupt,
        end: Option<Instant>,
        live: &mut Live<'_>,
        console: &Console,
    ) -> Standing {
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        while !interrupt.is_requested() && !is_over() && !self.is_unread() {
            thread::sleep(TAKEN_EVERY);
            watch.take(|sighting| self.take(&sighting));
            self.calls.iter_mut().for_each(CallTrace::take);
            self.ends.look(console);
            if let Some(lines) = &self.lines {
                lines.flush();
            }
            let conclusions = &mut self.conclusions;
            conclusions.renew(&mut self.analyzer, || watch.standing().tally);
            let streams = self.analyzer.watched_streams();
            let shown = live.show(conclusions.latest(), || {
                let mut tally = watch.standing().tally;
                tally.latency.merge(streams);
                tally
            });
            if shown == Effect::Ends {
                interrupt.request();
            }
        }
        watch.finish(|sighting| self.take(&sighting))
    }

    /// Says with `--verbose` for how long the watch waited while its state was copied.
    pub(super) fn tell_copies(&self, console: &Console) {
        let (count, longest) = self.conclusions.copied();
        if count > 0 {
            console.detail(&format!(
                "{} so far; the watch paused at most {} for each",
                words::plural(count, "conclusion"),
                words::time(longest)
            ));
        }
    }

    /// Returns true if the output's reader has exited.
    fn is_unread(&self) -> bool {
        self.lines.as_ref().is_some_and(Listing::has_failed)
    }

    fn take(&mut self, sighting: &Sighting<'_>) {
        match sighting {
            Sighting::Packet(packet) => {
                self.seen.packets += 1;
                match packet {
                    Packet::Tcp(segment, _) => self.seen.bytes += u64::from(segment.payload_len),
                    _ => self.seen.undecoded += 1,
                }
                self.analyzer.packet(packet);
            }
            Sighting::Passage(passage) => {
                let body = EventBody::Passage(Box::new((*passage).clone()));
                let event = Event::here(passage.at, Phase::Baseline, body);
                self.analyzer.observe(event);
            }
            Sighting::Turn(turn) => {
                let body = EventBody::Turn(Box::new((*turn).clone()));
                let event = Event::here(turn.sent_last, Phase::Baseline, body);
                self.analyzer.observe(event);
            }
        }
    }

    /// Passes the traced calls to the analysis, or notes why there are none.
    fn tell_calls(&mut self) {
        let Some(calls) = self.calls.take() else {
            return;
        };
        let mut traced = calls.finish();
        if let Some(refusal) = traced.refusal.take() {
            let text = format!(
                "Not measured: the system calls on these sockets, which would show who set \
                 TCP_NODELAY, TCP_CORK or a buffer's size: {refusal}."
            );
            let note = conclusion::note("not-measured-calls", text);
            self.analyzer.observe(note);
        }
        let own = namespace_id(std::process::id()).ok();
        traced.calls.retain(|call| {
            let of = call.socket.as_ref().and_then(|socket| socket.namespace);
            self.namespace.is_none_or(|id| of.or(own) == Some(id))
        });
        for event in traced.events() {
            self.analyzer.observe(event);
        }
    }

    /// Returns the report and the picture of everything that was seen.
    pub(super) fn report(mut self, standing: Standing) -> (Report, Option<Picture>) {
        self.tell_calls();
        let mut observe = |body| {
            let event = Event::here(clock::now(), Phase::Baseline, body);
            self.analyzer.observe(event);
        };
        let counters = self.counters.into_iter();
        counters
            .flat_map(ServerCounters::changes)
            .for_each(&mut observe);
        self.seen.dropped = Some(standing.tally.lost_records);
        observe(EventBody::Watched(standing.tally));
        observe(EventBody::Capture(self.seen));
        for missing in self.missing {
            let text = format!("This kernel does not offer {missing}.");
            self.analyzer
                .observe(conclusion::note("watch-missing", text));
        }
        for note in self.ends.notes() {
            self.analyzer.observe(note);
        }
        self.analyzer.finish_with_picture()
    }
}
