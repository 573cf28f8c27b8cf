//! Segments that are out of order or duplicated. The rules on reordering, needless retransmissions
//! and copies use them.

use core::time::Duration;

use super::features::Features;
use super::first_packets::FirstPackets;
use super::loss::{Losses, lost};
use crate::exchange::{Disorder, Exchange};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

/// The disorder in the exchanges, and its cost.
#[derive(Clone, Debug, Default, Merge)]
pub(super) struct Disorders {
    /// Exchanges that waited for reordered data, or for a window that needless retransmissions had
    /// reduced.
    pub(super) tally: Tally,
    pub(super) overtaken: u64,
    pub(super) resent: u64,
    pub(super) copied: u64,
    /// Number of losses in the exchanges of `tally`. A loss may be the reason for a reduced window.
    pub(super) losses: u64,
    packets: [FirstPackets; 3],
}

impl Disorders {
    pub(super) const CONCERNS: Features = Features::DISORDER.or(Losses::CONCERNS);

    pub(super) fn observe(&mut self, exchange: &Exchange) {
        let Disorder {
            overtaken,
            resent,
            taken_back: _,
            copied,
            took,
            first_packets: first,
        } = exchange.loss.disorder;
        self.losses += exchange.loss.recoveries.len() as u64;
        self.overtaken += u64::from(overtaken);
        self.resent += u64::from(resent);
        self.copied += u64::from(copied);
        for (list, packet) in
            self.packets
                .iter_mut()
                .zip([first.overtaken, first.resent, first.copied])
        {
            list.extend(packet);
        }
        let cut = if exchange.loss.recoveries.is_empty() {
            lost(exchange)
        } else {
            Duration::ZERO
        };
        if took + cut > Duration::ZERO {
            self.tally
                .add(exchange, Cost::exactly(took + cut), Duration::ZERO);
        }
    }

    /// Returns the numbers of the first packets that arrived late because others overtook them.
    pub(super) fn overtaken_packets(&self) -> &[u64] {
        &self.packets[0]
    }

    /// Returns the numbers of the first needless retransmissions.
    pub(super) fn resent_packets(&self) -> &[u64] {
        &self.packets[1]
    }
}
