//! Requests that were late because an upload, on any port, filled the path to their server, and
//! that waited in the same queue.

use core::time::Duration;

use super::Case;
use super::evidence::{self, OCCASIONS, REPEATS};
use super::rhythm::{NOTABLE, quantile, sorted};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;

/// Minimum share of the late requests that met an upload, and of the requests without an upload
/// that were quick.
const MET: f64 = 0.8;
/// Minimum share of the requests that met an upload that were late: few requests escape the queue.
const LATE: f64 = 0.5;
/// Maximum ratio of a typical delay to the upload's queueing time: no request waits in a queue much
/// longer than the traffic that fills the queue.
const LONGER: u32 = 2;

/// The requests that met an upload and those that met none, with the late ones of each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meetings {
    met: u64,
    met_late: u64,
    unmet: u64,
    unmet_late: u64,
}

impl Meetings {
    pub(super) fn count(&mut self, is_met: bool, is_late: bool) {
        let (all, late) = if is_met {
            (&mut self.met, &mut self.met_late)
        } else {
            (&mut self.unmet, &mut self.unmet_late)
        };
        *all += 1;
        *late += u64::from(is_late);
    }

    /// Returns true if requests were late when they met an upload and quick when they did not, and
    /// there were enough of both.
    pub(super) fn go_together(self) -> bool {
        let late = self.met_late + self.unmet_late;
        let quick = self.unmet - self.unmet_late;
        self.met_late >= REPEATS
            && self.unmet >= OCCASIONS
            && self.met_late as f64 >= late as f64 * MET
            && self.met_late as f64 >= self.met as f64 * LATE
            && quick as f64 >= self.unmet as f64 * MET
    }
}

/// Returns the requests whose responses were late while an upload filled the path to their server,
/// by no more than the upload's own queueing delay; `None` if there were none, or if the server may
/// be the reason.
pub(super) fn late(case: &Case<'_>) -> Option<Tally> {
    let queue = case.uploads.queue();
    if case.uploads.count() == 0 || queue < NOTABLE {
        return None;
    }
    let mut meetings = Meetings::default();
    let mut delays: Vec<Duration> = Vec::new();
    let own = case.rhythm.moments.iter().filter(|moment| is_small(moment));
    for moment in own {
        let (is_met, is_late) = (is_met(case, moment), is_late(moment));
        meetings.count(is_met, is_late);
        delays.extend(Some(moment.think()).filter(|_| is_met && is_late));
    }
    let typical = quantile(&sorted(delays.into_iter()), 0.5);
    if !meetings.go_together() || typical > queue * LONGER {
        return None;
    }
    let tally = case.rhythm.tally(|moment| {
        let is_queued = is_small(moment) && is_met(case, moment) && is_late(moment);
        if is_queued {
            moment.think()
        } else {
            Duration::ZERO
        }
    });
    evidence::is_material(case, &tally).then_some(tally)
}

/// Returns true if the request was sent in one burst and was not acknowledged before the response.
fn is_small(moment: &Moment) -> bool {
    moment.is_clear && !moment.is_acked_first && moment.sent.since(moment.begin) < NOTABLE
}

fn is_met(case: &Case<'_>, moment: &Moment) -> bool {
    let client = Some(moment.client.addr);
    case.uploads.meet(client, moment.sent, moment.answered)
}

fn is_late(moment: &Moment) -> bool {
    moment.think() >= NOTABLE
}
