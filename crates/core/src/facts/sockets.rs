//! Live sockets, each with its latest sample.

use std::collections::BTreeMap;

use crate::observed::sockets::LiveSocket;
use crate::report::CountOf;

/// Maximum number of sockets kept.
const MAX_SOCKETS: usize = 8192;

/// Live sockets by network namespace and socket cookie.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSockets {
    pub(crate) list: BTreeMap<(Option<u64>, u64), SeenSocket>,
    /// Number of samples of further sockets after the limit was reached.
    pub(crate) left_out: u64,
}

/// The samples of one socket, summed up.
#[derive(Clone, Debug)]
pub(crate) struct SeenSocket {
    /// The socket in the latest sample.
    pub(crate) socket: LiveSocket,
    /// The samples in which the socket's own stack held bytes back.
    pub(crate) holding: CountOf,
    /// The samples in which one of the socket's buffers was full.
    pub(crate) full: CountOf,
    /// Number of packets dropped at the socket before the first sample.
    drops_before: u32,
}

impl SeenSocket {
    /// Returns the number of packets dropped at the socket between the first and the last sample;
    /// `None` if there was only one sample.
    pub(crate) fn dropped(&self) -> Option<u32> {
        let drops = self.socket.buffers?.drops;
        (self.full.of > 1).then(|| drops.saturating_sub(self.drops_before))
    }
}

impl LiveSockets {
    pub(crate) fn add_socket(&mut self, socket: LiveSocket) {
        let key = (socket.namespace, socket.cookie);
        if self.list.len() >= MAX_SOCKETS && !self.list.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let (holding, full) = (socket.is_holding(), socket.is_full());
        let seen = self.list.entry(key).or_insert_with(|| SeenSocket {
            socket: socket.clone(),
            holding: CountOf::default(),
            full: CountOf::default(),
            drops_before: socket.buffers.map_or(0, |of| of.drops),
        });
        seen.socket = socket;
        count(&mut seen.holding, holding);
        count(&mut seen.full, full);
    }
}

fn count(tally: &mut CountOf, is_so: Option<bool>) {
    if let Some(is_so) = is_so {
        tally.of += 1;
        tally.count += u64::from(is_so);
    }
}
