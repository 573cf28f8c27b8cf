//! Probes that are repeated while lagtrace itself generates load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use lagtrace_core::observed::event::{Event, EventBody};
use lagtrace_sources::load::{self, Ending, Plan, Summary};

use crate::conclusion;
use crate::failure::Result;

/// The time for which the load runs before the probes start, so that connections are open and
/// queues are filled.
pub(super) const WARM_UP: Duration = Duration::from_millis(700);
/// Maximum duration of the load; the probes during the load end with it.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// Options for a load during the probes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Queueing")]
pub(super) struct Loaded {
    /// Probe again during a load on URL, for at most a minute: probes that take longer show queues,
    /// and where they are
    #[arg(long, value_name = "URL")]
    pub(super) loaded: Option<String>,
    /// Connections of that load; each sends its next request after each response
    #[arg(long, default_value_t = 100, value_name = "N", requires = "loaded")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(super) connections: u32,
}

/// Runs the load until `stop` is set; passes on the events that are relevant for probes.
pub(super) fn run(plan: &Plan, stop: &AtomicBool, mut sink: impl FnMut(Event)) -> Result<()> {
    let summary = load::run(plan, &|_| {}, stop, |event| {
        // These events are needed only to analyse packets and to find causes, which `probe` does
        // not do.
        if !matches!(event.body, EventBody::FlowPhase(_) | EventBody::Request(_)) {
            sink(event);
        }
    })?;
    if let Some(text) = remark(&summary) {
        sink(conclusion::note("load-failed", text));
    } else if !stop.load(Ordering::Relaxed) {
        let text = "The load ended after a minute, and its probes ended with it.";
        sink(conclusion::note("load-over", text.to_owned()));
    }
    Ok(())
}

/// Returns a remark if no load was generated.
fn remark(summary: &Summary) -> Option<String> {
    if let Some(fault) = &summary.tls_fault {
        return Some(crate::tls::sentence(fault));
    }
    let answered: u64 = summary.lanes.iter().map(load::LaneSummary::responses).sum();
    match (summary.ending, answered) {
        (Ending::NothingConnected(failure), _) => Some(format!(
            "No connection of the load succeeded ({}), so there was no load.",
            failure.name()
        )),
        (_, 0) => Some("No request of the load was answered.".to_owned()),
        _ => None,
    }
}
