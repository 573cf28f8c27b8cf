//! The kernel's route to the target, and its source address.

use lagtrace_core::observed::event::{EventBody, KernelRoute};
use lagtrace_sources::route;

use super::Investigation;
use crate::failure::Result;

/// The step's name.
const STEP: &str = "route";

impl Investigation<'_> {
    /// Queries the kernel's route to each target.
    pub(super) fn route(&mut self) -> Result<()> {
        for index in 0..self.sites.len() {
            let target = self.sites[index].target.clone();
            match route::lookup(target.address.ip()) {
                Ok(route) => {
                    self.say(STEP, target.id, &describe(&route));
                    self.feed.observe_now(EventBody::Route(route.clone()));
                    self.sites[index].route = Some(route);
                }
                Err(error) => self.refused(STEP, &error, "the kernel's route"),
            }
        }
        Ok(())
    }
}

fn describe(route: &KernelRoute) -> String {
    let source = match route.source {
        Some(source) => format!("from {source}"),
        None => "from an address of the kernel's choice".to_owned(),
    };
    let interface = &route.interface;
    match (route.is_local, route.gateway) {
        (true, _) => format!(
            "{} is this host itself: traffic stays on {interface}",
            route.target
        ),
        (false, Some(gateway)) => format!("{source} over {interface} to {gateway}"),
        (false, None) => format!("{source} over {interface}, on the same link"),
    }
}
