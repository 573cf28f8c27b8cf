//! Probes that are repeated while lagtrace itself generates load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use lagtrace_core::observed::event::{Event, EventBody, Phase, TargetId};
use lagtrace_sources::load::{self, Ending, Lane, Method, Plan, Summary, Target};
use lagtrace_sources::tls::Carried;
use lagtrace_sources::url::Url;

use super::options::Options;
use crate::conclusion;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};

/// The time for which the load runs before the probes start, so that connections are open and
/// queues are filled.
pub(super) const WARM_UP: Duration = Duration::from_millis(700);
/// Maximum duration of the load; the probes during the load end with it.
const LONGEST: Duration = Duration::from_secs(60);

/// The load.
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
    connections: u32,
}

impl Options {
    /// Returns the load that the user requested.
    pub(super) fn load(&self, events: &mut Vec<Event>) -> Result<Option<Plan>> {
        let Some(text) = &self.queueing.loaded else {
            return Ok(None);
        };
        if self.count == Some(0) {
            let told = "--loaded needs a limited number of probes, and `--count 0` has no limit";
            return Err(Failure::new(told).hint("name a count"));
        }
        let url: Url = text
            .parse()
            .map_err(|error| Failure::from(error).hint("give it as http[s]://HOST[:PORT]/PATH"))?;
        let family = Family {
            ipv4: self.ipv4,
            ipv6: self.ipv6,
        };
        let address = lookup::address(url.host(), family, events)?;
        let tls = self.tls.client([&url], Carried::Http1)?;
        let mut plan = Plan::new(vec![Lane {
            target: Target {
                id: TargetId::Subject,
                address: SocketAddr::new(address, url.port()),
                url,
                method: Method::Get,
                fields: Vec::new(),
                body: Vec::new(),
            },
            phase: Phase::Baseline,
            experiment: None,
            connections: self.queueing.connections,
        }]);
        plan.protocol.tls = tls;
        plan.timeout = self.timeout;
        plan.warm_up = Duration::from_millis(200);
        plan.duration = LONGEST;
        Ok(Some(plan))
    }
}

/// Runs the load until `stop` is set; passes on the events that are relevant for probes.
pub(super) fn run(plan: &Plan, stop: &AtomicBool, mut sink: impl FnMut(Event)) -> Result<()> {
    let summary = load::run(plan, &|_| {}, stop, |event| {
        // Flows and samples of requests bear on packets and findings.
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
