//! Everything of which a picture is made, besides the report.

use super::about::About;
use super::kept::Chosen;
use super::{curves, exchanges, parts};
use crate::report::{Picture, Points, Raster, Report};

/// The data of a picture, which waits for the report.
pub(crate) struct Sketch {
    pub(super) about: About,
    pub(super) raster: Raster,
    pub(super) cut: Option<Raster>,
    pub(super) points: Option<Points>,
    pub(super) chosen: Chosen,
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
            sockets: self.about.sockets,
            raster: self.raster,
            cut: self.cut,
            points: self.points,
            ..Picture::default()
        }
    }
}
