//! The packet capture during the load.

use std::collections::BTreeSet;

use anyhow::Context as _;
use lagtrace_core::observed::event::{Event, EventBody, Note, Origin, Phase, PointId};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::ClockId;
use lagtrace_sources::capture::{CaptureError, LiveOptions, LiveOutcome};
use lagtrace_sources::files::{Output, Purpose};
use lagtrace_sources::route;

use super::recorder::Recorder;
use super::{Investigation, Site};
use crate::clock;
use crate::diagnose::Options;
use crate::failure::{Failure, Result};
use crate::words;

/// The filter for ICMP errors (RFC 792: types 3, 11 and 12; RFC 4443: types below 128, of which 4
/// are assigned), ARP, and neighbour discovery (RFC 4861 §4.3).
const AROUND: &str = "arp or (icmp and (icmp[0] = 3 or icmp[0] = 11 or icmp[0] = 12)) \
    or (icmp6 and (ip6[40] < 5 or ip6[40] = 135 or ip6[40] = 136))";
/// The step's name.
const STEP: &str = "capture";

impl Investigation<'_> {
    /// Starts the capture, if it is requested and permitted.
    pub(super) fn start_capture(&mut self) {
        if self.options.network.no_capture {
            return self.note(
                "not-measured-capture",
                "Not measured: packets, because of --no-capture. They would show which packet \
                 ended each wait.",
            );
        }
        self.tell_translations();
        let mut options = self.live_options();
        let mut started = Recorder::start(&options);
        // If the file cannot be written, the packets are still analysed.
        if let (Err(CaptureError::Create { .. } | CaptureError::Write { .. }), Some(_)) =
            (&started, options.write.take())
        {
            let kept = std::mem::replace(&mut started, Recorder::start(&options));
            kept.err()
                .into_iter()
                .for_each(|error| self.not_kept(error));
        }
        match started {
            Ok(recorder) => self.recorder = Some(recorder),
            Err(error) => self.capture_refused(error),
        }
    }

    /// Makes packets behind NAT of this host belong to the targets.
    fn tell_translations(&mut self) {
        let translations: Vec<_> = self
            .open_sites()
            .filter_map(|site| Some((site.translated()?, site.target.endpoint())))
            .collect();
        for (behind, target) in translations {
            self.feed.translate(behind, target);
            let text = format!(
                "This host translates {target} to {behind} (NAT). Captured packets have the \
                 translated address; the report names the other one."
            );
            self.note("translated-address", text);
        }
    }

    fn capture_refused(&mut self, error: CaptureError) {
        let hint = error
            .hint()
            .map_or(String::new(), |hint| format!(" ({hint})"));
        let error = Failure::from(error);
        let text = format!(
            "Not measured: packets, which would show which packet ended each wait: {error}{hint}."
        );
        let id = "not-measured-capture".to_owned();
        self.not_measured(STEP, Note { id, text });
    }

    fn not_kept(&mut self, error: CaptureError) {
        let text = format!("Not all packets were written: {}.", Failure::from(error));
        let id = "packets-not-kept".to_owned();
        self.not_measured(STEP, Note { id, text });
    }

    /// Passes on the packets captured so far, together with all other observations.
    pub(super) fn analyze(&mut self) {
        let packets = self
            .recorder
            .as_ref()
            .map(Recorder::take)
            .unwrap_or_default();
        self.feed.digest(packets);
    }

    /// Ends the capture and passes on the remaining packets.
    pub(super) fn end_capture(&mut self) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        let (packets, outcome, skipped) = recorder.stop();
        self.feed.digest(packets);
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
                at: clock::now(),
                phase: Phase::Baseline,
                body: EventBody::Capture(summary),
            });
        }
        let Some(written) = outcome.written else {
            return;
        };
        match written.fault {
            Some(fault) => self.not_kept(fault),
            None => {
                let packets = words::plural(written.packets, "packet");
                let text = format!("{packets} written to {}", written.name);
                self.console.outcome(STEP, &text);
                self.kept_in = Some(written.name);
            }
        }
    }

    fn live_options(&self) -> LiveOptions {
        let network = &self.options.network;
        let mut names: Vec<String> = match &network.interface {
            Some(name) => vec![name.clone()],
            None => self.open_sites().flat_map(interfaces).collect(),
        };
        let mut known = BTreeSet::new();
        names.retain(|name| known.insert(name.clone()));
        if names.is_empty() {
            names.push("any".to_owned());
        }
        let mut options = LiveOptions::new("", PointId(0));
        options.interfaces = names.into_iter().zip((0..).map(PointId)).collect();
        options.filter = Some(self.filter());
        options.write.clone_from(&network.write);
        options
    }

    /// Returns the filter of the capture: packets to and from the targets and their upstreams, ICMP
    /// errors, and searches for hardware addresses (ARP, neighbour discovery). The latter two can
    /// show why packets were not delivered. Name lookups are not captured: the load makes none, so
    /// they would belong to other programs.
    fn filter(&self) -> String {
        let of_end = |end: Endpoint| format!("(tcp port {} and host {})", end.port, end.addr);
        let ends = |site: &Site| [Some(site.target.endpoint()), site.translated()];
        let ends = self.open_sites().flat_map(ends).flatten();
        let upstreams = self.open_sites().flat_map(|site| &site.upstreams);
        let upstreams = upstreams.map(|upstream| upstream.endpoint);
        let parts: Vec<_> = ends.chain(upstreams).map(of_end).collect();
        format!("{} or {AROUND}", parts.join(" or "))
    }
}

/// Returns the interfaces of the packets to a target: that of the route, behind NAT that of the
/// translated address, and those of its upstreams.
fn interfaces(site: &Site) -> Vec<String> {
    let upstreams = site.upstreams.iter().map(|upstream| upstream.endpoint);
    let further = site.translated().into_iter().chain(upstreams);
    let further: Vec<_> = further
        .filter_map(|end| route::lookup(end.addr).ok())
        .collect();
    let routes = site.route.iter().chain(&further);
    routes.map(|route| route.interface.clone()).collect()
}

/// Returns an error, before anything is measured, if the packets could not be written.
pub(super) fn check_file(options: &Options) -> Result<()> {
    if let Some(path) = &options.network.write {
        Output::check(path, Purpose::Stream)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
