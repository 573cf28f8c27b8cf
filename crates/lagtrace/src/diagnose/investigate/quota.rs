//! The request of all parts of the load, and the number of requests that they may send.

use std::time::Duration;

use lagtrace_core::observed::experiment::Experiment;
use lagtrace_sources::load::{Plan, Summary};

use super::{Investigation, Site};
use crate::console::Console;
use crate::diagnose::Options;
use crate::failure::Result;
use crate::request::USUAL_COUNT;
use crate::words;

/// The part of the remaining requests that the next part of the load may send.
const SHARE: u64 = 3;
/// The number of requests in all for each connection. It is so large that each part sends several
/// on a connection: the first ones on a connection are not like the others.
const PER_CONNECTION: u64 = 50;
/// Maximum number of connections if no levels of load show what the service carries: most services
/// carry so few.
pub(super) const FEW_CONNECTIONS: u32 = 8;

/// Returns the number of requests that the load may send in all; `None` if they change nothing, so
/// that only time limits them.
///
/// # Errors
/// Returns an error if the user did not agree to repeat a request that may change something.
pub(super) fn agreed(options: &Options, sites: &[Site], console: &Console) -> Result<Option<u64>> {
    let Some(first) = sites.first() else {
        return Ok(None);
    };
    let is_safe = first.target.request.method.is_safe();
    let count = options.requests.or((!is_safe).then_some(USUAL_COUNT));
    let how_often = format!("at most {} times", words::count(count.unwrap_or(0)));
    for site in sites {
        let target = &site.target;
        let consent = options.request.consent();
        consent.check(&target.request, &target.url, &how_often, console)?;
    }
    Ok(count)
}

impl Investigation<'_> {
    /// Says how to send more requests, if the user did not set their number.
    pub(super) fn tell_limit(&mut self) {
        if self.quota.is_some() && self.options.requests.is_none() {
            let text = format!(
                "Requests that may change something are sent {} times in all, a third of them in \
                 the part whose latency is told; `-n 3000` sends more.",
                words::count(USUAL_COUNT)
            );
            self.note("requests-limited", text);
        }
    }

    /// Sets how the plan's requests are sent, and how many there may be.
    pub(super) fn limit(&self, plan: &mut Plan) {
        plan.protocol.http2 = self.options.request.is_http2();
        plan.sockets
            .unix
            .clone_from(&self.options.request.way.unix_socket);
        let Some(left) = self.quota else {
            return;
        };
        let lanes = plan.lanes.len().max(1) as u64;
        plan.requests = Some((left / SHARE / lanes).max(1));
        // Each of so few requests counts.
        plan.warm_up = Duration::ZERO;
        let most = self.options.requests.unwrap_or(USUAL_COUNT) / PER_CONNECTION;
        let most = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
        // No levels of load show what the service carries.
        let most = if self.options.load.sets_connections() {
            most
        } else {
            most.min(FEW_CONNECTIONS)
        };
        for lane in &mut plan.lanes {
            lane.connections = lane.connections.min(most);
        }
    }

    /// Returns true if an experiment is possible with the protocol: HTTP/2 has no field that ends a
    /// connection.
    pub(super) fn allows(&self, experiment: Experiment) -> bool {
        experiment != Experiment::ConnectionClose || !self.options.request.is_http2()
    }

    /// Takes the requests of a part of the load off the number that is left.
    pub(super) fn spend(&mut self, summary: Option<&Summary>) {
        let (Some(left), Some(summary)) = (&mut self.quota, summary) else {
            return;
        };
        *left = left.saturating_sub(summary.requests);
    }
}
