//! Properties of a scenario that determine what its truth depends on.

use std::time::Duration;

use crate::load::Load;
use crate::path::PathSpec;
use crate::quantity::Size;
use crate::scenario::{Scenario, Service};
use crate::server::{Answer, PAGE, Server};

/// The protocols, by tshark's names, whose headers are within the first few bytes of a packet.
const HEADERS: [&str; 5] = ["tcp", "frame", "ip", "ipv6", "sll"];

/// Returns true if a scenario sets only the round trip and the seed of the path.
pub(super) fn is_plain(scenario: &Scenario) -> bool {
    let plain = PathSpec {
        round_trip: scenario.path.round_trip,
        seed: scenario.path.seed,
        ..PathSpec::default()
    };
    scenario.path == plain && scenario.without.path.is_none()
}

/// Returns the scenario with a single host that is both client and server.
pub(super) fn on_loopback(scenario: &Scenario) -> Scenario {
    let mut moved = scenario.clone().with_round_trip(Duration::ZERO);
    moved.path.loopback = true;
    moved
}

pub(super) fn chooses(path: &PathSpec) -> bool {
    !path.to_server.drop.is_empty() || !path.to_client.drop.is_empty()
}

/// Returns true if the scenario sets the size of this server's responses.
pub(super) fn has_size(server: &Server) -> bool {
    match server {
        Server::Nginx(nginx) => matches!(nginx.answer, Answer::Bytes(_)),
        Server::Own(own) => own.response.body.is_some(),
        _ => false,
    }
}

/// Returns the maximum size of a service's response bodies, in bytes; `None` if it is not known.
pub(super) fn largest_answer(service: &Service) -> Option<u64> {
    let page = PAGE.len() as u64;
    match &service.server {
        Server::Nginx(nginx) if nginx.directives.is_empty() && nginx.tls.is_none() => {
            Some(match &nginx.answer {
                Answer::Page | Answer::Return(_) => page,
                Answer::Bytes(sizes) => {
                    let sizes = sizes.as_slice().iter().map(|size| size.bytes());
                    sizes.max().unwrap_or(page)
                }
            })
        }
        Server::Own(own) => Some(own.response.body.map_or(page, Size::bytes)),
        Server::WriteWriteRead | Server::Think(_) | Server::Pause(_) | Server::Fin => Some(page),
        _ => None,
    }
}

/// Returns true if the truth may depend on events that occur once per connection or client process:
/// the proof filters on TCP flags or TLS handshakes, or the client looks up a name.
pub(super) fn counts_connections(service: &Service) -> bool {
    let mut filters = service
        .proof
        .iter()
        .filter_map(|proof| proof.tshark.as_ref());
    let looks_up = matches!(&service.load, Load::Curl(curl) if curl.host.is_some());
    looks_up
        || filters.any(|filter| filter.contains("tcp.flags.") || filter.contains("tls.handshake"))
}

/// Returns true if all traffic except bodies is HTTP in clear text, with heads at the beginning of
/// packets: no TLS, no lookups, no other protocol.
pub(super) fn speaks_http(service: &Service) -> bool {
    let is_plain = match &service.server {
        Server::Nginx(nginx) => nginx.tls.is_none(),
        Server::Own(_) | Server::WriteWriteRead | Server::Think(_) | Server::Pause(_) => true,
        _ => false,
    };
    let asks_by_name = matches!(&service.load, Load::Curl(curl) if curl.host.is_some());
    is_plain && !asks_by_name && !matches!(service.load, Load::Command(_))
}

/// Returns true if the truth may depend on the payload: a proof reads more than the headers up to
/// TCP's, or the load requests more than `/`.
pub(super) fn speaks_of_content(service: &Service) -> bool {
    let mut filters = service
        .proof
        .iter()
        .filter_map(|proof| proof.tshark.as_ref());
    let is_of_content = |filter: &String| {
        let fields = filter.split(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '_' | '.' | '{'));
        let mut protocols = fields.filter_map(|field| field.split('.').next());
        protocols.any(|name| {
            name.starts_with(|c: char| c.is_ascii_lowercase()) && !HEADERS.contains(&name)
        })
    };
    !service.load.is_for_root() || filters.any(is_of_content)
}
