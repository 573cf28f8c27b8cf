//! The upstreams that the targets' programs call. Their packets are captured too: they show for
//! which time a server waits for others, whatever thread makes the call.

use std::collections::BTreeSet;

use lagtrace_core::observed::event::{EventBody, Upstream};
use lagtrace_core::observed::flow::Endpoint;

use super::{Investigation, Site};

/// The step's name.
const STEP: &str = "upstream";

impl Investigation<'_> {
    /// Finds the upstreams of the targets' programs on this host, by the connections that they
    /// have open after the first part of the load.
    pub(super) fn find_upstreams(&mut self) {
        if self.options.network.no_capture {
            return;
        }
        let targets: Vec<Endpoint> = self.open_sites().flat_map(ends).collect();
        for index in 0..self.sites.len() {
            let site = &self.sites[index];
            let server = site.server.as_ref().filter(|server| {
                // Packets are captured in our own namespace.
                server.namespace().is_own() && !server.processes().is_empty()
            });
            let Some(server) = server else { continue };
            let id = site.target.id;
            match server.upstreams() {
                Ok(mut upstreams) => {
                    upstreams.retain(|upstream| !targets.contains(&upstream.endpoint));
                    if !upstreams.is_empty() {
                        self.say(STEP, id, &describe(&upstreams));
                    }
                    for &upstream in &upstreams {
                        self.feed.observe_now(EventBody::Upstream(upstream));
                    }
                    self.sites[index].upstreams = upstreams;
                }
                Err(error) => self.refused(STEP, &error, "whom the server calls"),
            }
        }
    }
}

/// Returns the addresses of a target: as the user named it, and behind NAT of this host.
fn ends(site: &Site) -> impl Iterator<Item = Endpoint> {
    [Some(site.target.endpoint()), site.translated()]
        .into_iter()
        .flatten()
}

fn describe(upstreams: &[Upstream]) -> String {
    let ends: BTreeSet<Endpoint> = upstreams.iter().map(|upstream| upstream.endpoint).collect();
    let names: Vec<_> = ends.iter().map(Endpoint::to_string).collect();
    format!("the server keeps connections to {} open", names.join(", "))
}
