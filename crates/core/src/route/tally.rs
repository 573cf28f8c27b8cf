//! The samples of a route, folded: bounded, whatever is sent and answered.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::observed::event::Stamp;
use crate::observed::route::{
    AutonomousSystem, HopAnswer, HopSample, MplsLabel, PathMtu, TraceStart, Translation,
};
use crate::report::{Hop, Route};
use crate::stats::histogram::Distribution;

/// Addresses kept of one hop.
const MAX_ADDRESSES: usize = 64;
/// Round trips kept of one hop, the latest.
pub(super) const MAX_HISTORY: usize = 64;
/// Kinds of answers kept of one hop.
const MAX_ANSWERS: usize = 16;
/// Names kept.
const MAX_NAMES: usize = 4_096;
/// Flows kept.
const MAX_FLOWS: usize = 256;
/// Labels kept of one hop.
const MAX_LABELS: usize = 8;

/// A route as far as it is known: fed with samples, it can be looked at any time.
#[derive(Clone, Debug, Default)]
pub struct RouteTally {
    pub(super) start: Option<TraceStart>,
    pub(super) hops: BTreeMap<u8, HopTally>,
    /// Who answered at which distance, by flow.
    pub(super) flows: BTreeMap<u16, BTreeMap<u8, (IpAddr, HopAnswer)>>,
    pub(super) names: BTreeMap<IpAddr, String>,
    pub(super) origins: BTreeMap<IpAddr, AutonomousSystem>,
    pub(super) mtu: Option<PathMtu>,
}

/// One hop's samples, summed up.
#[derive(Clone, Debug, Default)]
pub(super) struct HopTally {
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) addresses: BTreeMap<IpAddr, u64>,
    pub(super) answers: BTreeMap<HopAnswer, u64>,
    pub(super) rtt: Distribution,
    /// The latest by their numbers: an answer may overtake the end of waiting
    /// for an earlier one.
    pub(super) history: VecDeque<(u32, Option<Duration>)>,
    /// Whether every round trip was stamped by the kernel.
    pub(super) is_user_stamped: bool,
    pub(super) labels: Vec<MplsLabel>,
    pub(super) reply_ttl: Option<u8>,
    /// The latest quote's difference; the outer `None`: no quote shows it.
    pub(super) translation: Option<Option<Translation>>,
}

impl RouteTally {
    /// What is traced.
    pub fn begin(&mut self, start: TraceStart) {
        self.start = Some(start);
    }

    /// One probe and its answer.
    pub fn observe(&mut self, sample: &HopSample) {
        self.follow(sample);
        if sample.flow != 0 {
            return;
        }
        let hop = self.hops.entry(sample.ttl).or_default();
        hop.sent += 1;
        hop.count(sample);
    }

    /// A hop's name.
    pub fn name(&mut self, address: IpAddr, name: String) {
        if self.names.len() < MAX_NAMES {
            self.names.insert(address, name);
        }
    }

    /// Whose a hop is.
    pub fn origin(&mut self, address: IpAddr, origin: AutonomousSystem) {
        if self.origins.len() < MAX_NAMES {
            self.origins.insert(address, origin);
        }
    }

    /// What is known of the largest packet.
    pub fn mtu(&mut self, mtu: PathMtu) {
        self.mtu = Some(mtu);
    }

    /// The route as a whole; `None` before it was begun.
    pub fn route(&self) -> Option<Route> {
        super::weigh::route(self)
    }

    /// The hops from the nearest to the target, each with what its losses and
    /// delays amount to.
    pub fn hops(&self) -> Vec<Hop> {
        super::weigh::hops(self)
    }

    /// Keeps who answered a flow where.
    fn follow(&mut self, sample: &HopSample) {
        let Some(from) = sample.from else {
            return;
        };
        if self.flows.len() < MAX_FLOWS || self.flows.contains_key(&sample.flow) {
            let flow = self.flows.entry(sample.flow).or_default();
            flow.insert(sample.ttl, (from, sample.answer));
        }
    }

    /// The distance at which probes of flow 0 come as far as they can.
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

    /// The part of the probes that nobody answered.
    pub(super) fn loss(&self) -> f64 {
        let lost = self.sent.saturating_sub(self.answered);
        lost as f64 / self.sent.max(1) as f64
    }
}
