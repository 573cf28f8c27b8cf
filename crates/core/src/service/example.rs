//! Exchanges kept as examples.

use core::cmp::Reverse;
use core::time::Duration;
use std::sync::Arc;

use crate::exchange::wait::{Bound, Wait};
use crate::exchange::{Exchange, ExchangePackets, Outcome};
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::RequestSpan;
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{Exemplar, HostStage, WaitSpan};
use crate::stats::Merge;

/// Maximum number of exemplars kept for one finding.
const EXEMPLARS: usize = 5;

/// The exchanges that rank highest by one figure, worst first.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
pub(crate) struct Worst {
    #[merge(extend)]
    list: Vec<(u64, Example)>,
}

impl Worst {
    pub(crate) fn offer(&mut self, weight: u64, exchange: &Exchange) {
        let is_full = self.list.len() >= EXEMPLARS;
        // Of exchanges with equal weight the earliest stays, so that the order of closing has no
        // effect.
        let rank = (Reverse(weight), exchange.begin);
        let is_behind = |(least, last): &(u64, Example)| rank > (Reverse(*least), last.begin);
        if is_full && self.list.last().is_some_and(is_behind) {
            return;
        }
        self.list.push((weight, Example::of(exchange)));
        self.settle();
    }

    pub(crate) fn exemplars(&self) -> Vec<Exemplar> {
        self.list
            .iter()
            .map(|(_, example)| example.exemplar())
            .collect()
    }

    fn settle(&mut self) {
        let rank =
            |(weight, example): &(u64, Example)| (Reverse(*weight), example.begin, example.client);
        self.list.sort_by_key(rank);
        self.list.truncate(EXEMPLARS);
    }
}

/// The data of an exchange that is kept to show it as an example. Its texts are written only when
/// the report is made, because few of the kept exchanges are shown.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    request: Option<Arc<str>>,
    outcome: Outcome,
    pub(crate) begin: Timestamp,
    pub(crate) latency: Duration,
    packets: ExchangePackets,
    pub(crate) waits: Vec<Wait>,
    at_host: Option<Box<[Duration; RequestSpan::STAGES.len()]>>,
}

impl Example {
    pub(crate) fn of(exchange: &Exchange) -> Self {
        Self {
            client: exchange.id.client,
            server: exchange.id.server,
            request: exchange.request.clone(),
            outcome: exchange.outcome,
            begin: exchange.begin,
            latency: exchange.latency(),
            packets: exchange.packets,
            waits: exchange.waits.clone(),
            at_host: exchange.at_host.clone(),
        }
    }

    /// Returns the number of the exchange's first packet.
    pub(crate) fn first_packet(&self) -> Option<u64> {
        self.packets.first.map(PacketNumber::get)
    }

    /// Replaces the data by that of another exchange; uses the same memory.
    pub(crate) fn replace(&mut self, exchange: &Exchange) {
        (self.client, self.server) = (exchange.id.client, exchange.id.server);
        self.request.clone_from(&exchange.request);
        self.outcome = exchange.outcome;
        (self.begin, self.latency) = (exchange.begin, exchange.latency());
        self.packets = exchange.packets;
        self.waits.clone_from(&exchange.waits);
        self.at_host.clone_from(&exchange.at_host);
    }

    /// Returns the exchange in the form of the report.
    pub(crate) fn exemplar(&self) -> Exemplar {
        let waits = self.waits.iter().map(|wait| WaitSpan {
            kind: wait.kind,
            owner: wait.owner,
            duration_ns: nanos(wait.duration()),
            error_ns: match wait.bound {
                Bound::Observed => None,
                Bound::Inferred(error) => Some(nanos(error)),
            },
            released_by_packet: wait.released_by,
        });
        Exemplar {
            client: self.client.to_string(),
            server: self.server.to_string(),
            request: self.request.as_deref().unwrap_or_default().to_owned(),
            outcome: self.outcome.to_string(),
            start_ns: self.begin.as_nanos(),
            latency_ns: nanos(self.latency),
            first_packet: self.packets.first.map(PacketNumber::get),
            last_packet: self.packets.last.map(PacketNumber::get),
            waits: waits.collect(),
            at_host: self.at_host(),
        }
    }

    fn at_host(&self) -> Vec<HostStage> {
        let stages = self.at_host.iter().flat_map(|stages| stages.iter());
        let named = RequestSpan::STAGES.iter().zip(stages);
        let spent = named.filter(|(_, took)| !took.is_zero());
        spent
            .map(|(name, took)| HostStage {
                stage: (*name).to_owned(),
                duration_ns: nanos(*took),
            })
            .collect()
    }
}
