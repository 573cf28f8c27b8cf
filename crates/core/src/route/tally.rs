//! The samples of a route, added up with bounded memory.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::observed::event::Stamp;
use crate::observed::route::{
    AutonomousSystem, HopAnswer, HopSample, MplsLabel, PathMtu, TraceStart, Translation,
};
use crate::stats::histogram::Distribution;

/// Maximum number of addresses kept for one hop.
const MAX_ADDRESSES: usize = 64;
/// Maximum number of round trips kept for one hop; the latest ones are kept.
pub(super) const MAX_HISTORY: usize = 64;
/// Maximum number of kinds of answers kept for one hop.
const MAX_ANSWERS: usize = 16;
/// Maximum number of names kept.
const MAX_NAMES: usize = 4_096;
/// Maximum number of flows kept.
const MAX_FLOWS: usize = 256;
/// Maximum number of labels kept for one hop.
const MAX_LABELS: usize = 8;

/// A route according to the samples so far. It can be read at any time.
#[derive(Clone, Debug, Default)]
pub struct RouteTally {
    pub(super) start: Option<TraceStart>,
    pub(super) hops: BTreeMap<u8, HopTally>,
    /// The address and the answer at each distance, by flow.
    pub(super) flows: BTreeMap<u16, BTreeMap<u8, (IpAddr, HopAnswer)>>,
    pub(super) names: BTreeMap<IpAddr, String>,
    pub(super) origins: BTreeMap<IpAddr, AutonomousSystem>,
    pub(super) mtu: Option<PathMtu>,
}

/// The samples of one hop, added up.
#[derive(Clone, Debug, Default)]
pub(super) struct HopTally {
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) addresses: BTreeMap<IpAddr, u64>,
    pub(super) answers: BTreeMap<HopAnswer, u64>,
    pub(super) rtt: Distribution,
    /// The latest round trips by probe number. An answer may arrive before the timeout of an
    /// earlier probe.
    pub(super) history: VecDeque<(u32, Option<Duration>)>,
    /// True if this program, and not the kernel, took the timestamps of a round trip.
    pub(super) is_user_stamped: bool,
    pub(super) labels: Vec<MplsLabel>,
    pub(super) reply_ttl: Option<u8>,
    /// The translation that the latest quote shows. The outer `None` means that no quote shows if
    /// there is one.
    pub(super) translation: Option<Option<Translation>>,
}

impl RouteTally {
    /// Records the target and the method of the trace.
    pub fn begin(&mut self, start: TraceStart) {
        self.start = Some(start);
    }

    /// Records one probe and its answer.
    pub fn observe(&mut self, sample: &HopSample) {
        self.follow(sample);
        if sample.flow != 0 {
            return;
        }
        let hop = self.hops.entry(sample.ttl).or_default();
        hop.sent += 1;
        hop.count(sample);
    }

    /// Records the name of a hop.
    pub fn name(&mut self, address: IpAddr, name: String) {
        if self.names.len() < MAX_NAMES {
            self.names.insert(address, name);
        }
    }

    /// Records the autonomous system of a hop.
    pub fn origin(&mut self, address: IpAddr, origin: AutonomousSystem) {
        if self.origins.len() < MAX_NAMES {
            self.origins.insert(address, origin);
        }
    }

    /// Records the path MTU.
    pub fn mtu(&mut self, mtu: PathMtu) {
        self.mtu = Some(mtu);
    }

    /// Records the address that answered for a flow at a distance.
    fn follow(&mut self, sample: &HopSample) {
        let Some(from) = sample.from else {
            return;
        };
        if self.flows.len() < MAX_FLOWS || self.flows.contains_key(&sample.flow) {
            let flow = self.flows.entry(sample.flow).or_default();
            flow.insert(sample.ttl, (from, sample.answer));
        }
    }

    /// Returns the distance at which probes of flow 0 end; `None` if none got a final answer.
    pub(super) fn distance(&self) -> Option<u8> {
        let ends = |hop: &HopTally| hop.answers.keys().any(|answer| answer.is_final());
        let mut hops = self.hops.iter();
        hops.find(|(_, hop)| ends(hop)).map(|(&ttl, _)| ttl)
    }
}

impl HopTally {
    fn count(&mut self, sample: &HopSample) {
        if self.history.len() >= MAX_HISTORY {
            self.history.pop_front();
        }
        let later = self.history.iter().rev();
        let later = later.take_while(|(number, _)| *number > sample.number);
        let place = self.history.len() - later.count();
        self.history.insert(place, (sample.number, sample.rtt));
        let Some(from) = sample.from else {
            return;
        };
        self.answered += 1;
        if self.answers.len() < MAX_ANSWERS || self.answers.contains_key(&sample.answer) {
            *self.answers.entry(sample.answer).or_default() += 1;
        }
        if self.addresses.len() < MAX_ADDRESSES || self.addresses.contains_key(&from) {
            *self.addresses.entry(from).or_default() += 1;
        }
        if let Some(rtt) = sample.rtt {
            self.rtt.record(rtt);
            self.is_user_stamped |= sample.stamp == Stamp::User;
        }
        if !sample.labels.is_empty() {
            self.labels = sample.labels.iter().copied().take(MAX_LABELS).collect();
        }
        self.reply_ttl = sample.reply_ttl.or(self.reply_ttl);
        if sample.is_quoted {
            self.translation = Some(sample.translation);
        }
    }

    /// Returns the share of the probes that were not answered, 0 to 1.
    pub(super) fn loss(&self) -> f64 {
        let lost = self.sent.saturating_sub(self.answered);
        lost as f64 / self.sent.max(1) as f64
    }
}
