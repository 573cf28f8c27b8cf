//! Live sockets as they were when they were looked at last.

use std::collections::BTreeMap;

use crate::observed::sockets::LiveSocket;
use crate::report::Tally;

/// Maximum number of sockets kept.
const MAX_SOCKETS: usize = 8192;

/// Live sockets by namespace and cookie.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSockets {
    pub(crate) list: BTreeMap<(Option<u64>, u64), SeenSocket>,
    /// Number of looks at sockets for which there was no room.
    pub(crate) left_out: u64,
}

/// A socket over all looks at it.
#[derive(Clone, Debug)]
pub(crate) struct SeenSocket {
    /// The socket at the last look.
    pub(crate) socket: LiveSocket,
    /// The looks at which its own stack held bytes back.
    pub(crate) holding: Tally,
    /// The looks at which a buffer of it was full.
    pub(crate) full: Tally,
    /// Number of packets that had been dropped there before the first look.
    drops_before: u32,
}

impl SeenSocket {
    /// Returns the number of packets dropped there from the first look to the last; `None` where
    /// there was only one.
    pub(crate) fn dropped(&self) -> Option<u32> {
        let drops = self.socket.buffers?.drops;
        (self.full.of > 1).then(|| drops.saturating_sub(self.drops_before))
    }
}

impl LiveSockets {
    pub(crate) fn take(&mut self, socket: LiveSocket) {
        let key = (socket.namespace, socket.cookie);
        if self.list.len() >= MAX_SOCKETS && !self.list.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let (holding, full) = (socket.is_holding(), socket.is_full());
        let seen = self.list.entry(key).or_insert_with(|| SeenSocket {
            socket: socket.clone(),
            holding: Tally::default(),
            full: Tally::default(),
            drops_before: socket.buffers.map_or(0, |of| of.drops),
        });
        seen.socket = socket;
        count(&mut seen.holding, holding);
        count(&mut seen.full, full);
    }
}

fn count(tally: &mut Tally, is_so: Option<bool>) {
    if let Some(is_so) = is_so {
        tally.of += 1;
        tally.count += u64::from(is_so);
    }
}
