//! Packet numbers in reports of live observations. They would refer to nothing, because no file
//! contains these packets. Examples can be found by their time and connection instead.

use crate::report::{Exchanges, Exemplar, Report};

/// Removes packet numbers, and display filters with packet numbers, from the report.
pub(super) fn forget_packets(report: &mut Report) {
    for finding in &mut report.findings {
        finding.display_filter = None;
        for piece in &mut finding.evidence {
            piece.packets.clear();
            piece.display_filter = None;
        }
        finding
            .exemplars
            .iter_mut()
            .for_each(Exemplar::forget_packets);
    }
    forget_in(&mut report.exchanges);
    report.twin.iter_mut().for_each(forget_in);
}

fn forget_in(exchanges: &mut Exchanges) {
    let modes = exchanges.modes.iter_mut();
    let examples = modes.flat_map(|mode| &mut mode.exemplars);
    examples
        .chain(&mut exchanges.slowest)
        .for_each(Exemplar::forget_packets);
}
