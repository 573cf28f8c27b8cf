//! Results per URL, for runs with several URLs.

use std::collections::BTreeMap;

use lagtrace_core::observed::event::{LoadUrl, RequestFailure, TargetId};
use lagtrace_core::stats::histogram::Distribution;

use super::plan::Plan;
use super::record::Record;
use super::tally::has_latency;

/// Sums by lane and URL. Empty if the run has only one URL.
#[derive(Debug, Default)]
pub(super) struct ByUrl {
    urls: usize,
    sums: Vec<Sum>,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    latency: Distribution,
    failures: BTreeMap<RequestFailure, u64>,
    statuses: BTreeMap<u16, u64>,
}

impl ByUrl {
    /// Creates the sums for a run of `plan`.
    pub(super) fn new(plan: &Plan) -> Self {
        let urls = match plan.urls.len() {
            0 | 1 => 0,
            several => several,
        };
        Self {
            urls,
            sums: vec![Sum::default(); urls * plan.lanes.len()],
        }
    }

    /// Counts a request.
    pub(super) fn add(&mut self, record: &Record) {
        let at = record.lane * self.urls + usize::from(record.part);
        let Some(sum) = self.sums.get_mut(at) else {
            return;
        };
        if has_latency(record) {
            let latency = record.ended.since(record.due);
            sum.latency.record_many(latency, record.count);
        }
        match record.outcome {
            Ok(status) => *sum.statuses.entry(status).or_default() += record.count,
            Err(failure) => *sum.failures.entry(failure).or_default() += record.count,
        }
    }

    /// Returns the results: the number of each lane, with the results of the lane's URLs.
    pub(super) fn finish(&mut self, plan: &Plan) -> Vec<(usize, LoadUrl)> {
        let sums = core::mem::take(&mut self.sums).into_iter().enumerate();
        sums.filter_map(|(at, sum)| {
            let (lane, part) = (at / self.urls, at % self.urls);
            let target = plan.lanes.get(lane).map(|lane| lane.target.id);
            let weighted = plan.urls.get(part)?;
            let url = LoadUrl {
                target: target.unwrap_or(TargetId::Subject),
                url: weighted.url.to_string(),
                weight: weighted.weight,
                latency: sum.latency,
                failures: sum.failures.into_iter().collect(),
                statuses: sum.statuses.into_iter().collect(),
            };
            Some((lane, url))
        })
        .collect()
    }
}
