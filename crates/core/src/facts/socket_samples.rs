//! Sums over the samples of live sockets.

use std::collections::BTreeSet;

use crate::observed::event::{SocketOwner, SocketSample};
use crate::observed::flow::Endpoint;
use crate::report::CountOf;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// The name that reports use for our own sockets.
pub(crate) const OWN: &str = "own";
/// Maximum number of distinct sockets that are counted.
const MAX_SOCKETS: usize = 4096;

/// Sums over the samples of one owner's sockets.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct SocketFacts {
    pub(crate) samples: u64,
    #[merge(extend)]
    sockets: BTreeSet<(Endpoint, Endpoint)>,
    pub(crate) nodelay: CountOf,
    pub(crate) cork: CountOf,
    pub(crate) quickack: CountOf,
    /// The samples in which the socket's own stack held data back: a small segment is in flight,
    /// and the program has written more.
    pub(crate) holding: CountOf,
    /// The largest number of bytes held back in one sample.
    #[merge(max)]
    pub(crate) held_bytes: u64,
    #[merge(max)]
    pub(crate) retransmissions: u64,
    pub(crate) rtt: Distribution,
    pub(crate) ato: Distribution,
}

impl SocketFacts {
    pub(crate) fn add_sample(&mut self, sample: &SocketSample) {
        self.samples += 1;
        if self.sockets.len() < MAX_SOCKETS {
            self.sockets.insert((sample.local, sample.remote));
        }
        count(&mut self.nodelay, sample.nodelay);
        count(&mut self.cork, sample.cork);
        count(&mut self.quickack, sample.quickack);
        let Some(tcp) = sample.tcp else { return };
        // Less than one segment is unsent, few segments are in flight, and the windows are open. So
        // the windows do not hold the data back. Nagle's algorithm does (`tcp_nagle_check()`).
        let window_is_open = tcp.snd_wnd.is_none_or(|window| window > 2 * tcp.snd_mss);
        let is_holding = tcp.notsent_bytes > 0
            && tcp.notsent_bytes < tcp.snd_mss
            && tcp.unacked > 0
            && tcp.unacked < tcp.cwnd
            && window_is_open;
        count(&mut self.holding, Some(is_holding));
        if is_holding {
            self.held_bytes = self.held_bytes.max(u64::from(tcp.notsent_bytes));
        }
        self.retransmissions = self.retransmissions.max(u64::from(tcp.total_retrans));
        self.rtt.record(tcp.rtt);
        self.ato.record(tcp.ato);
    }

    /// Returns the number of distinct sockets that were sampled.
    pub(crate) fn sockets(&self) -> u64 {
        self.sockets.len() as u64
    }
}

/// Returns the name that reports use for the owner.
pub(crate) fn owner_name(owner: &SocketOwner) -> String {
    match owner {
        SocketOwner::Own => OWN.to_owned(),
        SocketOwner::Process { pid, name, .. } => format!("{name}[{pid}]"),
        SocketOwner::Unnamed => "unnamed".to_owned(),
    }
}

fn count(tally: &mut CountOf, seen: Option<bool>) {
    if let Some(seen) = seen {
        tally.of += 1;
        tally.count += u64::from(seen);
    }
}
