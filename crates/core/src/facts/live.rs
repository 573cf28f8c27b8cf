//! Live sockets as they were when they were looked at last.

use std::collections::BTreeMap;

use crate::live::LiveSocket;
use crate::report::Tally;

/// Sockets kept.
const MAX_SOCKETS: usize = 8192;

/// Live sockets by namespace and cookie.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSockets {
    pub(crate) list: BTreeMap<(Option<u64>, u64), (LiveSocket, Tally)>,
    /// Looks at sockets for which there was no room.
    pub(crate) left_out: u64,
}

impl LiveSockets {
    pub(crate) fn take(&mut self, socket: LiveSocket) {
        let key = (socket.namespace, socket.cookie);
        if self.list.len() >= MAX_SOCKETS && !self.list.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let holding = socket.is_holding();
        let (latest, held) = self
            .list
            .entry(key)
            .or_insert_with(|| (socket.clone(), Tally::default()));
        *latest = socket;
        if let Some(is_holding) = holding {
            held.of += 1;
            held.count += u64::from(is_holding);
        }
    }
}
