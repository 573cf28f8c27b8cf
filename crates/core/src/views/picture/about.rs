//! The services of a picture, and the origin of their exchanges.

use super::services::PicturedServices;
use crate::conclude::Observations;
use crate::observed::event::{PointId, TargetId};
use crate::observed::flow::Endpoint;
use crate::report::PicturedSocket;

/// The subject of a report: its services, and the origin of their exchanges.
pub(crate) struct About {
    pub(super) services: PicturedServices,
    pub(super) sockets: Vec<PicturedSocket>,
    /// The name of each capture, with its first observation point, ascending.
    pub(super) captures: Vec<(PointId, String)>,
    /// True if the exchanges were seen as packets, rather than as our own requests.
    pub(super) has_packets: bool,
    /// True if packet numbers refer to a file.
    pub(super) has_numbers: bool,
}

impl About {
    /// `from_packets` are the services known from packets.
    pub(crate) fn of(evidence: &Observations, from_packets: &[Endpoint]) -> Self {
        let captures = evidence.facts.captures.iter();
        let captures = captures.map(|(first, summary)| (*first, summary.name.clone()));
        let mut captures: Vec<(PointId, String)> = captures.collect();
        captures.sort_unstable();
        let mut subject = evidence.ledgers(TargetId::Subject);
        let services = PicturedServices::of(evidence.ledgers(TargetId::Subject));
        let sockets = evidence.facts.calls.pictured(|end| services.is_at(end));
        Self {
            has_packets: subject.any(|(server, _)| from_packets.contains(&server)),
            services,
            sockets,
            captures,
            has_numbers: !evidence.is_only_watched(),
        }
    }
}
