//! Requests that filled a queue on the path to their server.

use core::net::IpAddr;
use core::time::Duration;

use super::Stretches;
use crate::exchange::Exchange;
use crate::observed::time::Timestamp;
use crate::stats::Merge;

/// Requests that a queue let through at its rate. Other requests on the same path during that time
/// wait in the same queue, whatever their port.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Uploads {
    when: Stretches,
    /// The longest time that an upload's last byte spent in the queue, where that was seen.
    #[merge(max)]
    queue: Duration,
}

impl Uploads {
    pub(crate) fn add(&mut self, exchange: &Exchange, drain: Duration) {
        let client = exchange.id.client.addr;
        self.when.add(client, exchange.begin, exchange.end);
        self.queue = self.queue.max(drain);
    }

    pub(crate) fn count(&self) -> u64 {
        self.when.count()
    }

    pub(crate) fn queue(&self) -> Duration {
        self.queue
    }

    /// Returns true if an upload of this client (or of any client) was in flight between the two
    /// instants.
    pub(crate) fn meet(&self, client: Option<IpAddr>, begin: Timestamp, end: Timestamp) -> bool {
        self.when.meet(client, begin, end)
    }
}
