//! Arrows from requests to a proxy to the requests that it passed on.
//!
//! The slices of the exchanges are written when an arrow is known, so it goes from one instant to
//! another: both are at the start of the request to the upstream, within the two exchanges.

use std::collections::BTreeMap;

use lagtrace_core::report::{Exemplar, PassedOn, RequestAt};

use super::{Message, at};

/// Maximum number of exchanges whose tracks are remembered: the first ones, as the analysis links
/// only the first requests of each proxy.
const MAX_EXCHANGES: usize = 1 << 16;

/// The tracks of the first exchanges, by start, client and server.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    known: BTreeMap<(i64, String, String), u64>,
}

impl Tracks {
    pub(super) fn add(&mut self, exchange: &Exemplar, track: u64) {
        if self.known.len() < MAX_EXCHANGES {
            let (client, server) = (exchange.client.clone(), exchange.server.clone());
            self.known
                .insert((exchange.start_ns, client, server), track);
        }
    }

    fn of(&self, request: &RequestAt) -> Option<u64> {
        let RequestAt {
            start_ns,
            client,
            server,
        } = request;
        let key = (*start_ns, client.clone(), server.clone());
        self.known.get(&key).copied()
    }

    /// Writes the arrows between exchanges that are in the trace.
    pub(super) fn flows(&self, passed_on: &[PassedOn], out: &mut Vec<u8>) {
        for (flow, PassedOn { asked, asks }) in (1..).zip(passed_on) {
            let (Some(from), Some(to)) = (self.of(asked), self.of(asks)) else {
                continue;
            };
            let name = format!("passed on to {}", asks.server);
            at(asks.start_ns, instant(from, &name).fixed(47, flow), out);
            let name = format!("for {}", asked.client);
            at(asks.start_ns, instant(to, &name).fixed(48, flow), out);
        }
    }
}

fn instant(track: u64, name: &str) -> Message {
    let event = Message::new().uint(9, 3).uint(11, track);
    event.text(22, "proxy").text(23, name)
}
