//! Random variation of everything in a scenario that its truth does not depend on. Such recordings
//! show whether a diagnosis is also correct under circumstances to which the rules were not tuned.
//!
//! The parameters that may change are derived from the scenario as far as possible: a path with its
//! own settings keeps them, and a port that a rule contains is kept. Other dependencies of the
//! truth are listed in the scenario ([`CaptureSpec::fixed`](crate::scenario::CaptureSpec)).
//! Finally, the scenario's proof must still hold.

mod said;

use std::time::Duration;

use super::drawn::{Drawn, RECEIVE_BUFFER};
use super::request::Request;
use crate::load::Load;
use crate::path::chance::{Chance, mix};
use crate::quantity::Size;
use crate::scenario::{CaptureFormat, Circumstance, HostSpec, Scenario, Service};
use said::{
    chooses, counts_connections, has_size, is_plain, largest_answer, on_loopback, speaks_http,
    speaks_of_content,
};

/// The range of the factor on the round trip, for a scenario recorded at a single round trip.
const DISTANCE: (f64, f64) = (0.8, 1.25);

/// Minimum emulated round trip for a scenario that is recorded without one.
const NEAR: Duration = Duration::from_micros(300);

/// The range of the size of responses, in percent of the original size.
const SIZE: (u64, u64) = (85, 120);

/// The range of ports to draw from: below the clients' ephemeral ports.
const PORTS: (u64, u64) = (20_000, 29_999);

/// The range of the devices' MTU: from the size that every host accepts to jumbo frames.
const MTU: (f64, f64) = (576.0, 9000.0);

/// Minimum MTU for IPv6 (RFC 8200 §5).
const IPV6_MTU: f64 = 1280.0;

/// The sizes of the client's receive buffer to draw from, in bytes.
const RECEIVE_BUFFERS: [u64; 2] = [16_384, 65_536];

/// Minimum ratio of a receive buffer to the response that it receives, so that no window fills.
const ROOM: u64 = 8;

/// Maximum number of connections in parallel.
const MOST_CONNECTIONS: u64 = 24;

/// The range of the share of packets missing from a recording that lacks its beginning, in percent.
const BEGIN: (u64, u64) = (5, 35);

/// Minimum number of requests per connection for a recording that lacks its beginning.
const LEAST_REQUESTS: u32 = 8;

/// The range of the bytes kept of each packet if all headers, including HTTP's, are kept whole.
const SNAPSHOT: (u64, u64) = (600, 1500);

/// The range of the bytes kept of each packet if little more than TCP's header is kept.
const SNAPSHOT_SHORT: (u64, u64) = (96, 200);

impl Request {
    /// Returns this recording with a seed. Every parameter that the truth does not depend on is
    /// drawn from the seed, so equal seeds give equal recordings.
    #[must_use]
    pub fn vary(&self, scenario: &Scenario, seed: u64) -> Self {
        let name = self.service.as_ref().unwrap_or(&scenario.target);
        let Some(service) = scenario.service(name) else {
            return self.clone();
        };
        let dice = Dice {
            seed,
            scenario,
            service,
            text: toml::to_string(scenario).unwrap_or_default(),
        };
        let mut varied = Self {
            seed: Some(seed),
            ..self.clone()
        };
        let mut drawn = Drawn::default();
        dice.path(&mut varied, &mut drawn);
        dice.traffic(&mut varied, &mut drawn);
        dice.file(&mut drawn);
        varied.drawn = Some(drawn);
        varied
    }
}

/// The source of all draws for one scenario.
struct Dice<'a> {
    seed: u64,
    scenario: &'a Scenario,
    service: &'a Service,
    /// The complete scenario as TOML.
    text: String,
}

impl Dice<'_> {
    /// Returns a sequence of draws for one circumstance, independent of the sequences for other
    /// circumstances.
    fn chance(&self, what: Circumstance) -> Chance {
        let name = self.scenario.name.bytes();
        let of_name = name.fold(self.seed, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Chance::new(mix(of_name) ^ mix(what as u64 + 1))
    }

    /// Returns true if the scenario contains any of these words.
    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    fn is_fixed(&self, what: Circumstance) -> bool {
        self.scenario.recording.fixed.contains(&what)
    }

    /// Draws the path's parameters.
    fn path(&self, request: &mut Request, drawn: &mut Drawn) {
        let near = Duration::ZERO;
        let own = self.scenario.path.round_trip;
        let distances = self.scenario.recording.distances(own);
        let is_plain = is_plain(self.scenario);
        let mut kind = self.chance(Circumstance::Loopback);
        let may_be_far = distances.iter().any(|&distance| distance > near);
        let may_be_near = distances.contains(&near);
        if may_be_near && is_plain && self.may_be_loopback() && kind.strikes(0.3) {
            request.round_trip = Some(near);
            drawn.loopback = true;
        } else if may_be_far && !(may_be_near && kind.strikes(0.5)) {
            request.round_trip = Some(self.distance(&distances));
        } else {
            request.round_trip = Some(near);
        }
        if !is_plain {
            return;
        }
        if may_be_near && !drawn.loopback && !self.is_fixed(Circumstance::Mtu) {
            drawn.mtu = self.mtu(request.ipv6);
        }
        let is_open = self.scenario.recording.offload.is_empty();
        if is_open && !self.is_fixed(Circumstance::Offload) {
            let mut chance = self.chance(Circumstance::Offload);
            request.offload = Some(chance.strikes(0.5));
        }
    }

    /// Draws a round trip between the minimum and the maximum at which the scenario is recorded;
    /// every order of magnitude is equally likely.
    fn distance(&self, distances: &[Duration]) -> Duration {
        let far = distances.iter().filter(|distance| !distance.is_zero());
        let (Some(&least), Some(&most)) = (far.clone().min(), far.max()) else {
            return Duration::ZERO;
        };
        let mut chance = self.chance(Circumstance::Distance);
        if self.is_fixed(Circumstance::Distance) {
            let which = chance.draw() % distances.len() as u64;
            return distances[usize::try_from(which).unwrap_or_default()];
        }
        let (low, high) = if distances.contains(&Duration::ZERO) {
            (NEAR.min(most), most)
        } else if least == most {
            (least.mul_f64(DISTANCE.0), most.mul_f64(DISTANCE.1))
        } else {
            (least, most)
        };
        let seconds = log_between(&mut chance, low.as_secs_f64(), high.as_secs_f64());
        whole_microseconds(Duration::from_secs_f64(seconds))
    }

    fn mtu(&self, ipv6: bool) -> Option<u32> {
        let mut chance = self.chance(Circumstance::Mtu);
        let least = if ipv6 { IPV6_MTU } else { MTU.0 };
        let mtu = log_between(&mut chance, least, MTU.1) as u32;
        // One third of the recordings keep the usual MTU.
        chance.strikes(0.66).then_some(mtu)
    }

    /// Returns true if no setting of the scenario needs two hosts.
    fn may_be_loopback(&self) -> bool {
        let scenario = self.scenario;
        let has_own_device = |host: &HostSpec| {
            let rules = host.firewall.as_ref();
            let is_ours =
                |rules: &crate::FirewallRules| !rules.arp.is_empty() || !rules.ingress.is_empty();
            host.shaper.is_some() || rules.is_some_and(is_ours)
        };
        let hosts = [&scenario.client, &scenario.server];
        !self.is_fixed(Circumstance::Loopback)
            && !scenario.recording.ipv6
            && scenario.recording.vlan.is_none()
            && !hosts.into_iter().any(has_own_device)
            && !self.says(&["10.77.", "fd77:", "path0"])
            && on_loopback(scenario).check_sense(&scenario.name).is_ok()
            && on_loopback(scenario)
                .switched_off()
                .check_sense(&scenario.name)
                .is_ok()
    }

    /// Draws the parameters of requests and responses.
    fn traffic(&self, request: &mut Request, drawn: &mut Drawn) {
        if self.may_be_ipv6(drawn) {
            request.ipv6 |= self.chance(Circumstance::Ip).strikes(0.3);
        }
        if !self.is_fixed(Circumstance::Port) && self.is_port_said_once() {
            let port = between(&mut self.chance(Circumstance::Port), PORTS);
            drawn.port = u16::try_from(port).ok();
        }
        // A path that drops packets by their size or place depends on the size in the scenario.
        let is_resizable = !chooses(&self.scenario.path)
            && self.service.load.is_for_root()
            && has_size(&self.service.server);
        if is_resizable && !self.is_fixed(Circumstance::Size) {
            drawn.size_percent = Some(between(&mut self.chance(Circumstance::Size), SIZE));
        }
        drawn.connections = self.connections();
        drawn.receive_buffer = self.receive_buffer();
    }

    fn may_be_ipv6(&self, drawn: &Drawn) -> bool {
        let is_large_enough = drawn.mtu.is_none_or(|mtu| f64::from(mtu) >= IPV6_MTU);
        // For a name, the client's own library chooses the version of IP.
        let has_names = !self.scenario.client.files.is_empty()
            || matches!(&self.service.load, Load::Curl(curl) if curl.host.is_some());
        let words = [
            "ip saddr",
            "ip daddr",
            "ip.",
            "icmp",
            "{address}:",
            "10.77.",
        ];
        is_large_enough && !has_names
            // A header of another length makes packets of another size.
            && !chooses(&self.scenario.path) && !self.is_fixed(Circumstance::Ip) && !self.says(&words)
    }

    /// Returns true if the service's port appears nowhere else in the scenario, so that changing it
    /// does not invalidate a rule, directive or argument.
    fn is_port_said_once(&self) -> bool {
        self.text.matches(&self.service.port.to_string()).count() == 1
    }

    fn connections(&self) -> Option<u32> {
        let (connections, requests) = match &self.service.load {
            Load::Curl(curl) if curl.every.is_none() => (curl.connections, curl.requests),
            Load::Own(own) if own.client.every.is_zero() => {
                (own.client.connections.into(), own.client.requests.into())
            }
            _ => return None,
        };
        let is_counted = counts_connections(self.service) || chooses(&self.scenario.path);
        if self.is_fixed(Circumstance::Connections) || is_counted || connections == 1 {
            return None;
        }
        let connections = u64::from(connections);
        // Each connection has at least half as many requests as before: events that come once per
        // connection keep their share.
        let most = (connections * 2).min(MOST_CONNECTIONS).max(connections);
        let most = if requests > 2 { most } else { connections };
        let least = connections.div_ceil(2);
        let many = between(&mut self.chance(Circumstance::Connections), (least, most));
        u32::try_from(many).ok()
    }

    /// Draws a receive buffer that is much larger than any response or request.
    fn receive_buffer(&self) -> Option<Size> {
        let says_buffers = self.says(&[RECEIVE_BUFFER, "receive_buffer"]);
        let answer = largest_answer(self.service)?;
        let body = match &self.service.load {
            Load::Curl(curl) if curl.arguments.is_empty() => 0,
            Load::Own(own) => own.client.request.body.map_or(0, Size::bytes),
            _ => return None,
        };
        if says_buffers || self.is_fixed(Circumstance::ReceiveBuffer) {
            return None;
        }
        let mut chance = self.chance(Circumstance::ReceiveBuffer);
        let which = usize::try_from(chance.draw() % 3).unwrap_or_default();
        let &buffer = RECEIVE_BUFFERS.get(which)?;
        let largest = answer.max(body) * SIZE.1 / 100;
        (largest * ROOM <= buffer).then(|| Size::from_bytes(buffer))
    }

    /// Draws the parameters of the capture.
    fn file(&self, drawn: &mut Drawn) {
        let spec = &self.scenario.recording;
        let is_open = |what| !self.is_fixed(what);
        if spec.snapshot.is_none() && is_open(Circumstance::Snapshot) {
            drawn.snapshot = self.snapshot();
        }
        let is_usual =
            spec.format == CaptureFormat::Pcap && spec.lose == 0.0 && spec.vlan.is_none();
        if is_usual && is_open(Circumstance::Format) {
            let formats = [
                None,
                Some(CaptureFormat::PcapMicro),
                Some(CaptureFormat::Pcapng),
            ];
            let which = self.chance(Circumstance::Format).draw() % 3;
            drawn.format = formats[usize::try_from(which).unwrap_or_default()];
        }
        let mut chance = self.chance(Circumstance::Begin);
        if is_open(Circumstance::Begin) && self.has_a_middle() && chance.strikes(0.35) {
            drawn.begin_percent = u8::try_from(between(&mut chance, BEGIN)).ok();
        }
    }

    fn snapshot(&self) -> Option<u32> {
        let mut chance = self.chance(Circumstance::Snapshot);
        let range = if !speaks_http(self.service) || chance.strikes(0.5) {
            return None;
        } else if speaks_of_content(self.service) || chance.strikes(0.5) {
            SNAPSHOT
        } else {
            SNAPSHOT_SHORT
        };
        u32::try_from(between(&mut chance, range)).ok()
    }

    /// Returns true if the recording may begin mid-connection: each connection has many similar
    /// requests, and no other change is made to the file.
    fn has_a_middle(&self) -> bool {
        let spec = &self.scenario.recording;
        let is_long = match &self.service.load {
            Load::Curl(curl) => {
                !curl.fresh && curl.host.is_none() && curl.requests >= LEAST_REQUESTS
            }
            Load::Own(own) => !own.client.fresh && u32::from(own.client.requests) >= LEAST_REQUESTS,
            Load::Command(_) => false,
        };
        is_long && spec.begin_after.is_none() && spec.lose == 0.0 && spec.vlan.is_none()
    }
}

fn between(chance: &mut Chance, (low, high): (u64, u64)) -> u64 {
    low + chance.draw() % (high - low + 1)
}

fn log_between(chance: &mut Chance, low: f64, high: f64) -> f64 {
    low * (high / low).powf(chance.unit())
}

fn whole_microseconds(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
