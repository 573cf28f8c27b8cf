//! The exchanges that the live page can show one by one: the latest and the slowest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use lagtrace_core::analyzer::Sink;
use lagtrace_core::exchange::Exchange;
use lagtrace_core::report::ExchangeRecord;

/// Maximum number of the latest exchanges that are kept, and of the slowest.
const MOST: usize = 500;

/// Exchanges that are shared between the analyzer, which adds them, and the page.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    latest: VecDeque<(u64, Arc<ExchangeRecord>)>,
    /// In ascending order of latency.
    slowest: VecDeque<(u64, Arc<ExchangeRecord>)>,
}

impl Recent {
    /// Returns a sink that adds the analyzer's exchanges, and passes them on.
    pub(super) fn sink(&self, mut next: Option<Sink>) -> Sink {
        let kept = Arc::clone(&self.0);
        Box::new(move |exchange| {
            next.iter_mut().for_each(|next| next(exchange));
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.add(exchange);
        })
    }

    /// Returns the exchanges, the slowest first.
    pub(super) fn by_latency(&self) -> Vec<Arc<ExchangeRecord>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = kept.latest.iter().chain(&kept.slowest).collect();
        all.sort_by_key(|(number, record)| {
            (std::cmp::Reverse(record.exchange.latency_ns), *number)
        });
        all.dedup_by_key(|(number, _)| *number);
        all.into_iter()
            .map(|(_, record)| Arc::clone(record))
            .collect()
    }
}

impl Kept {
    fn add(&mut self, exchange: &Exchange) {
        self.count += 1;
        let record = Arc::new(ExchangeRecord::new(exchange, "kernel", None).without_packets());
        let latency = record.exchange.latency_ns;
        if self.latest.len() == MOST {
            self.latest.pop_front();
        }
        self.latest.push_back((self.count, Arc::clone(&record)));
        let is_slower =
            |(_, other): &(u64, Arc<ExchangeRecord>)| other.exchange.latency_ns >= latency;
        if self.slowest.len() == MOST {
            if self.slowest.front().is_some_and(is_slower) {
                return;
            }
            self.slowest.pop_front();
        }
        let at = self.slowest.partition_point(|other| !is_slower(other));
        self.slowest.insert(at, (self.count, record));
    }
}
