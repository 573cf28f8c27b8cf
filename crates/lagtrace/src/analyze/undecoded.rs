//! Captures in which no packet can be decoded.

use std::collections::BTreeSet;

use lagtrace_core::decode::LinkType;
use lagtrace_core::observed::event::CaptureSummary;

use crate::failure::{Failure, Result};

/// Rejects captures that contain packets, but none with a supported link type.
///
/// # Errors
/// If no packet has a supported link type, because there is nothing to report.
pub(super) fn refuse(summaries: &[CaptureSummary]) -> Result<()> {
    let packets: u64 = summaries.iter().map(|summary| summary.packets).sum();
    let unread = || summaries.iter().flat_map(|summary| &summary.unread_links);
    if packets == 0 || unread().map(|(_, count)| count).sum::<u64>() < packets {
        return Ok(());
    }
    let links: BTreeSet<u16> = unread().map(|(&link, _)| link).collect();
    let links: Vec<String> = links
        .iter()
        .map(|&link| LinkType(link).to_string())
        .collect();
    let names: Vec<&str> = summaries
        .iter()
        .map(|summary| summary.name.as_str())
        .collect();
    let failure = Failure::new(format!(
        "{} cannot be decoded: all {packets} packets are of {}",
        names.join(", "),
        links.join(", "),
    ));
    Err(failure.hint("capture on an interface that carries IP, or on the interface any"))
}
