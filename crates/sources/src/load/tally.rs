//! Requests aggregated by second and group of connections.

use std::collections::BTreeMap;

use core::time::Duration;

use lagtrace_core::observed::event::{LoadCluster, RequestFailure, TargetId};
use lagtrace_core::stats::histogram::Distribution;

use super::record::Record;

/// Returns true if the request's latency counts: it was answered, it timed out, or the end of the
/// run cut it off while it waited.
pub(super) fn has_latency(record: &Record) -> bool {
    match record.outcome {
        Ok(_) => true,
        Err(failure) => matches!(
            failure,
            RequestFailure::Timeout
                | RequestFailure::ConnectTimeout
                | RequestFailure::TlsTimeout
                | RequestFailure::Cut
        ),
    }
}

/// The key of a cluster: the requests of one second, one lane and one group of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Number of whole seconds since counting began.
    pub(super) second: u32,
    /// Number of the lane.
    pub(super) lane: usize,
    /// Group of connections within the lane.
    pub(super) group: u16,
}

/// The values of one cluster so far. They are kept individually and converted to distributions at
/// the end, which costs several times less in total.
#[derive(Debug, Default)]
pub(super) struct Tally {
    latency: Values,
    service: Values,
    first_byte: Values,
    body: Values,
    failures: BTreeMap<RequestFailure, u64>,
    statuses: BTreeMap<u16, u64>,
    connects: u64,
    received_bytes: u64,
}

impl Tally {
    /// Counts a request.
    pub(super) fn add(&mut self, record: &Record) {
        self.received_bytes = self.received_bytes.saturating_add(record.received_bytes);
        match record.outcome {
            Ok(status) => *self.statuses.entry(status).or_default() += record.count,
            Err(failure) => *self.failures.entry(failure).or_default() += record.count,
        }
        if has_latency(record) {
            self.latency
                .add(record.ended.since(record.due), record.count);
            if let Some(sent) = record.sent {
                self.service.add(record.ended.since(sent), record.count);
            }
        }
        if let (Some(first), Some(sent), Ok(_)) = (record.first_byte, record.sent, record.outcome) {
            self.first_byte.add(first.since(sent), 1);
            self.body.add(record.ended.since(first), 1);
        }
    }

    /// Counts failed requests that have no latency.
    pub(super) fn add_failures(&mut self, failure: RequestFailure, count: u64) {
        *self.failures.entry(failure).or_default() += count;
    }

    /// Counts a connection.
    pub(super) fn add_connect(&mut self) {
        self.connects += 1;
    }

    /// Converts the values to the cluster's event.
    pub(super) fn into_cluster(self, target: TargetId, key: Key) -> LoadCluster {
        LoadCluster {
            target,
            second: key.second,
            group: key.group,
            latency: self.latency.into_distribution(),
            service: self.service.into_distribution(),
            first_byte: self.first_byte.into_distribution(),
            body: self.body.into_distribution(),
            failures: self.failures.into_iter().collect(),
            statuses: self.statuses.into_iter().collect(),
            connects: self.connects,
            received_bytes: self.received_bytes,
        }
    }
}

/// Durations from which a distribution is built.
#[derive(Debug, Default)]
struct Values {
    single: Vec<u64>,
    repeated: Vec<(u64, u64)>,
}

impl Values {
    fn add(&mut self, value: Duration, count: u64) {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        if count == 1 {
            self.single.push(nanos);
        } else {
            self.repeated.push((nanos, count));
        }
    }

    fn into_distribution(mut self) -> Distribution {
        // Many values are equal. Sorting brings them together, and each run of equal values becomes
        // one pair of value and count.
        self.single.sort_unstable();
        let runs = self
            .single
            .chunk_by(|left, right| left == right)
            .filter_map(|run| Some((*run.first()?, run.len() as u64)));
        Distribution::from_buckets(runs.chain(self.repeated))
    }
}
