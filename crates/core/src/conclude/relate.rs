//! Relations between claims: consequences of one cause, and doubts on all of them.

use super::{Scene, book, consequence, failures, full_links};
use crate::claim::{Ceiling, Claim};
use crate::registry::Id;
use crate::report::Remark;

/// Merges consequences into their causes, adds claims on requests that fail for no known reason, and
/// lowers what the capture as a whole makes doubtful.
pub(super) fn relate(scene: &Scene<'_>, claims: &mut Vec<Claim>, notes: &mut Vec<Remark>) {
    let observations = scene.observations;
    let abandoned = book::elsewhere(observations).into_keys().collect();
    consequence::fold(claims, &abandoned);
    failures::add(observations, claims);
    full_links::doubt_repairs(claims);
    if observations.is_drawn {
        doubt_times(claims);
        notes.push(drawn());
    }
    if observations.is_at_one_pace {
        doubt_pacing(claims);
    }
}

/// Lowers claims that cost time to *possible* and drops what they predict, because the timestamps
/// are artificial.
fn doubt_times(claims: &mut [Claim]) {
    for claim in claims.iter_mut().filter(|claim| claim.time.cost.likely > 0) {
        claim.basis.cap(Ceiling::ArtificialTimes);
        claim.time.predicted = None;
    }
}

/// Lowers claims on pacing to *possible*. If the data of both ends arrives at the same intervals,
/// neither end's kernel set these intervals.
fn doubt_pacing(claims: &mut [Claim]) {
    for claim in claims.iter_mut().filter(|f| f.cause == Id::Pacing) {
        claim.basis.cap(Ceiling::OnePace);
        claim.text.overturned_by =
            "the pace of a replay or of a recorder: the other end's packets \
                                 have the same intervals"
                .to_owned();
    }
}

/// Returns the remark that the timestamps are artificial.
fn drawn() -> Remark {
    Remark {
        id: "stamps-made-up".to_owned(),
        text:
            "Nearly all packets have the same interval, to the microsecond: these timestamps are \
               artificial, and do not show how long anything took."
                .to_owned(),
    }
}
