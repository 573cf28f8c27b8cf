//! Requests that were late because they waited behind an upload. The upload, on any port of the
//! server, filled a queue on the path.

use core::time::Duration;

use super::Case;
use super::evidence::{self, OCCASIONS, ORDINARY_WORK, REPEATS};
use super::rhythm::{quantile, sorted};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;

/// Minimum share of the late requests that met an upload. Also the minimum share of quick requests
/// among those that met none.
const MET: f64 = 0.8;
/// Minimum share of late requests among those that overlapped an upload. Few requests escape the queue.
const LATE: f64 = 0.5;
/// Maximum ratio of the typical delay to the upload's queueing time. A request does not wait much
/// longer in a queue than the traffic that fills it.
const LONGER: u32 = 2;

/// Requests that met an upload and requests that did not, each with the number of late ones.
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

    /// Returns true if enough requests were late when they met an upload, and enough were quick
    /// when they did not.
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

/// Returns the requests whose responses were late because they waited behind an upload. `None` if
/// there were none, or if the server may be the reason.
pub(super) fn late(case: &Case<'_>) -> Option<Tally> {
    let queue = case.uploads.queue();
    if case.uploads.count() == 0 || queue < ORDINARY_WORK {
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

/// Returns true if the request was sent in one burst, and the server's kernel did not acknowledge
/// it before the response. An early ACK would show that the request had passed the queue.
fn is_small(moment: &Moment) -> bool {
    moment.is_clear
        && !moment.path.is_acked_first
        && moment.sent.since(moment.begin) < ORDINARY_WORK
}

fn is_met(case: &Case<'_>, moment: &Moment) -> bool {
    let client = Some(moment.client.addr);
    case.uploads.meet(client, moment.sent, moment.answered)
}

fn is_late(moment: &Moment) -> bool {
    moment.think() >= ORDINARY_WORK
}
