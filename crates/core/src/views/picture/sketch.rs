//! Everything of which a picture is made, besides the report.

use super::kept::Chosen;
use super::services::Services;
use super::{curves, exchanges, parts};
use crate::conclude::Evidence;
use crate::observed::event::{PointId, TargetId};
use crate::observed::flow::Endpoint;
use crate::report::{Picture, Points, Raster, Report};

/// What a report is about: its services, and the origin of their exchanges.
pub(crate) struct About {
    pub(super) services: Services,
    /// The name of each capture, with its first observation point, ascending.
    pub(super) captures: Vec<(PointId, String)>,
    /// True if the exchanges were seen as packets, rather than as our own requests.
    pub(super) has_packets: bool,
    /// True if packet numbers refer to a file.
    pub(super) has_numbers: bool,
}

/// The data of a picture, which waits for the report.
pub(crate) struct Sketch {
    pub(super) about: About,
    pub(super) raster: Raster,
    pub(super) points: Option<Points>,
    pub(super) chosen: Chosen,
}

impl About {
    /// `from_packets` are the services known from packets.
    pub(crate) fn of(evidence: &Evidence, from_packets: &[Endpoint]) -> Self {
        let captures = evidence.facts.captures.iter();
        let captures = captures.map(|(first, summary)| (*first, summary.name.clone()));
        let mut captures: Vec<(PointId, String)> = captures.collect();
        captures.sort_unstable();
        let mut subject = evidence.ledgers(TargetId::Subject);
        Self {
            has_packets: subject.any(|(server, _)| from_packets.contains(&server)),
            services: Services::of(evidence.ledgers(TargetId::Subject)),
            captures,
            has_numbers: !evidence.is_only_watched(),
        }
    }
}

impl Sketch {
    /// Returns the picture. `report` must be complete.
    pub(crate) fn finish(mut self, report: &Report) -> Picture {
        let chosen = core::mem::take(&mut self.chosen);
        Picture {
            shares: parts::shares(&self.about.services, report),
            curves: curves::curves(&self.about, report),
            exchanges: exchanges::exchanges(chosen, &self.about, report),
            services: self.about.services.list,
            raster: self.raster,
            points: self.points,
            ..Picture::default()
        }
    }
}
