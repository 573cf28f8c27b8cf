//! Capturing beside the load.

use lagtrace_core::event::{Event, EventBody, Note, Origin, Phase, PointId};
use lagtrace_core::time::ClockId;
use lagtrace_sources::capture::{LiveOptions, LiveOutcome};

use super::Investigation;
use super::recorder::Recorder;
use crate::conclusion;
use crate::words;

/// The step's name.
const STEP: &str = "capture";

impl Investigation<'_> {
    /// Begins to capture, where that is wanted and allowed.
    pub(super) fn start_capture(&mut self) {
        if self.options.network.no_capture {
            return self.note(
                "not-measured-capture",
                "Not measured: packets, because of --no-capture. \
                 They show which wait each packet ended.",
            );
        }
        match Recorder::start(&self.live_options()) {
            Ok(recorder) => self.recorder = Some(recorder),
            Err(failure) => {
                let hint = failure
                    .hint_text()
                    .map(|hint| format!(" ({hint})"))
                    .unwrap_or_default();
                let text = format!(
                    "Not measured: packets, which show which wait each of them ended: {failure}{hint}."
                );
                let id = "not-measured-capture".to_owned();
                self.not_measured(STEP, Note { id, text });
            }
        }
    }

    /// Hands on the packets captured so far, with everything else.
    pub(super) fn analyze(&mut self) {
        let packets = self
            .recorder
            .as_ref()
            .map(Recorder::take)
            .unwrap_or_default();
        self.feed.digest(&packets);
    }

    /// Ends the capture and hands on its rest.
    pub(super) fn end_capture(&mut self) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        let (packets, outcome, skipped) = recorder.stop();
        self.feed.digest(&packets);
        if skipped > 0 {
            let skipped = words::plural(skipped, "packet");
            self.note(
                "capture-memory-full",
                format!("{skipped} did not fit into memory and were not analysed."),
            );
        }
        self.tell_capture(outcome);
    }

    fn tell_capture(&mut self, outcome: LiveOutcome) {
        for (point, summary) in outcome.summaries {
            let lost = match summary.dropped {
                Some(0) => "none lost".to_owned(),
                Some(lost) => format!("{} lost", words::count(lost)),
                None => "losses unknown".to_owned(),
            };
            let packets = words::plural(summary.packets, "packet");
            self.console
                .outcome(STEP, &format!("{packets} on {}, {lost}", summary.name));
            let origin = Origin {
                point,
                clock: ClockId::Realtime,
                number: 0,
            };
            self.feed.observe(Event {
                origin,
                at: conclusion::now(),
                phase: Phase::Baseline,
                body: EventBody::Capture(summary),
            });
        }
        let Some(written) = outcome.written else {
            return;
        };
        match written.fault {
            Some(fault) => {
                let text = format!(
                    "Not all packets were kept: {}.",
                    crate::failure::Failure::from(fault)
                );
                self.not_measured(
                    STEP,
                    Note {
                        id: "packets-not-kept".to_owned(),
                        text,
                    },
                );
            }
            None => {
                let text = format!(
                    "{} kept in {}",
                    words::plural(written.packets, "packet"),
                    written.name
                );
                self.console.outcome(STEP, &text);
            }
        }
    }

    fn live_options(&self) -> LiveOptions {
        let network = &self.options.network;
        let mut names: Vec<String> = match &network.interface {
            Some(name) => vec![name.clone()],
            None => self
                .open_sites()
                .filter_map(|site| Some(site.route.as_ref()?.interface.clone()))
                .collect(),
        };
        names.dedup();
        if names.is_empty() {
            names.push("any".to_owned());
        }
        let mut options = LiveOptions::new("", PointId(0));
        options.interfaces = names.into_iter().zip((0..).map(PointId)).collect();
        options.filter = Some(self.filter());
        options.write.clone_from(&network.write);
        options
    }

    /// Only what goes to the targets and comes from them.
    fn filter(&self) -> String {
        let of_site = |address: std::net::SocketAddr| {
            format!("(tcp port {} and host {})", address.port(), address.ip())
        };
        let parts: Vec<_> = self
            .open_sites()
            .map(|site| of_site(site.target.address))
            .collect();
        parts.join(" or ")
    }
}
