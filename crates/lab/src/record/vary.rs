//! The same scenario with everything changed that its truth does not depend on: what was tuned
//! to one recording does not help with the next.

use std::time::Duration;

use super::Request;
use crate::path::PathSpec;
use crate::scenario::quantity::Size;
use crate::scenario::{Scenario, Service};
use crate::server::{Answer, Server};

/// A round trip becomes so many hundredths of what it was, at least and at most.
const DISTANCE: (u64, u64) = (80, 140);

/// So does the size of what is answered.
const SIZE: (u64, u64) = (85, 120);

/// Where other ports are taken from: below those that clients' own connections use.
const PORTS: (u64, u64) = (20_000, 29_999);

impl Request {
    /// The same recording with another seed, and distance, port and size drawn from it.
    #[must_use]
    pub fn vary(&self, scenario: &Scenario, seed: u64) -> Self {
        let name = scenario.name.bytes().fold(seed, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // Three draws that do not follow each other: the halves and the middle of a hash.
        let between = |shift: u32, (low, high): (u64, u64)| {
            low + (name.rotate_left(shift) >> 24) % (high - low + 1)
        };
        let round_trip = self.round_trip.unwrap_or(scenario.path.round_trip);
        let percent = u32::try_from(between(0, DISTANCE)).unwrap_or(100);
        let is_said_once = self.is_port_said_once(scenario);
        Self {
            round_trip: Some(whole_microseconds(round_trip * percent / 100)),
            seed: Some(seed),
            port: is_said_once
                .then(|| u16::try_from(between(21, PORTS)).ok())
                .flatten(),
            // A path that chooses what it drops by its size or place means the size it says.
            size_percent: (!chooses(&scenario.path)).then(|| between(43, SIZE)),
            ..self.clone()
        }
    }

    /// Whether the service's port stands nowhere but where it is said: no rule, directive or
    /// argument would miss it.
    fn is_port_said_once(&self, scenario: &Scenario) -> bool {
        let name = self.service.as_ref().unwrap_or(&scenario.target);
        let port = scenario.service(name).map(|service| service.port);
        let text = toml::to_string(scenario).unwrap_or_default();
        port.is_some_and(|port| text.matches(&port.to_string()).count() == 1)
    }

    /// Gives the service its other port and its answers their other sizes.
    pub(super) fn apply_to(&self, service: &mut Service) {
        service.port = self.port.unwrap_or(service.port);
        let Some(percent) = self.size_percent.filter(|_| service.load.is_for_root()) else {
            return;
        };
        resize(&mut service.server, percent);
        let without = service.without.as_mut();
        if let Some(server) = without.and_then(|without| without.server.as_mut()) {
            resize(server, percent);
        }
    }
}

fn chooses(path: &PathSpec) -> bool {
    !path.to_server.drop.is_empty() || !path.to_client.drop.is_empty()
}

fn resize(server: &mut Server, percent: u64) {
    let scaled = |size: Size| Size::from_bytes(size.bytes().saturating_mul(percent) / 100);
    match server {
        Server::Nginx(nginx) => {
            if let Answer::Bytes(sizes) = &mut nginx.answer {
                sizes.change(scaled);
            }
        }
        Server::Own(own) => own.response.body = own.response.body.map(scaled),
        _ => {}
    }
}

fn whole_microseconds(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_truth_does_not_depend_on_varies_with_the_seed() {
        let scenario = Scenario::by_name("nagle-delayed-ack").expect("a shipped scenario");
        let own = Request {
            round_trip: Some(Duration::from_millis(50)),
            ..Request::default()
        };
        let drawn: Vec<_> = (1..50).map(|seed| own.vary(&scenario, seed)).collect();
        assert_eq!(drawn[0], own.vary(&scenario, 1));
        for one in &drawn {
            let round_trip = one.round_trip.expect("a round trip");
            let allowed = Duration::from_millis(40)..=Duration::from_millis(70);
            assert!(allowed.contains(&round_trip), "{round_trip:?}");
            let size = one.size_percent.expect("a size");
            assert!((85..=120).contains(&size), "{size}");
        }
        let distances: std::collections::BTreeSet<_> =
            drawn.iter().map(|one| one.round_trip).collect();
        let ports: std::collections::BTreeSet<_> = drawn.iter().map(|one| one.port).collect();
        assert!(distances.len() > 20 && ports.len() > 20);
    }
}
