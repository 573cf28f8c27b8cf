//! Thinned acknowledgements, as by cable modems, radio links and network cards with offload:
//! several are held, and only the last is forwarded.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::packet::{Flow, Packet};
use crate::quantity::duration;

/// Thinning of the pure acknowledgements of a connection: they are held, and only the last of
/// several is forwarded. No acknowledgement is lost for good: if no other follows, it is sent after
/// a while, and if data follows, the data contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThinAcksSpec {
    /// The number of consecutive acknowledgements of which only the last is forwarded, at least 2.
    pub of: u32,
    /// The maximum time for which an acknowledgement is held.
    #[serde(with = "duration")]
    pub wait: Duration,
}

impl ThinAcksSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.of < 2 {
            Err("ACKs are thinned by 2 at least".to_owned())
        } else {
            Ok(())
        }
    }
}

/// Maximum number of connections with a held acknowledgement; acknowledgements of further
/// connections pass.
const LIMIT: usize = 4_096;

/// The stage that holds acknowledgements.
#[derive(Debug, Clone)]
pub(super) struct ThinAcks {
    spec: ThinAcksSpec,
    held: HashMap<Flow, Held>,
    next_ticket: u64,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    /// The ticket of the last acknowledgement.
    ticket: u64,
    count: u32,
}

impl ThinAcks {
    pub(super) fn new(spec: ThinAcksSpec) -> Self {
        Self {
            spec,
            held: HashMap::new(),
            next_ticket: 0,
        }
    }

    /// Returns the time for which the packet must be held, and the ticket to pass to `release`.
    /// Returns `None` if the packet is not held; an acknowledgement of the connection that was held
    /// before is then no longer needed.
    pub(super) fn hold(&mut self, packet: &Packet<'_>) -> Option<(Duration, u64)> {
        let flow = packet.headers()?.flow;
        if !packet.is_pure_ack() {
            self.held.remove(&flow);
            return None;
        }
        if self.held.len() >= LIMIT && !self.held.contains_key(&flow) {
            return None;
        }
        let held = self.held.entry(flow).or_insert(Held {
            ticket: 0,
            count: 0,
        });
        held.count += 1;
        if held.count >= self.spec.of {
            self.held.remove(&flow);
            return None;
        }
        self.next_ticket += 1;
        held.ticket = self.next_ticket;
        Some((self.spec.wait, held.ticket))
    }

    /// Returns true if a held packet is sent when its time is over, because no later packet
    /// replaced it.
    pub(super) fn release(&mut self, packet: &Packet<'_>, ticket: u64) -> bool {
        let Some(headers) = packet.headers() else {
            return false;
        };
        let is_last = self
            .held
            .get(&headers.flow)
            .is_some_and(|held| held.ticket == ticket);
        if is_last {
            self.held.remove(&headers.flow);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::ACK;
    use super::super::packet::tests::segment;
    use super::*;

    fn thin() -> ThinAcks {
        ThinAcks::new(ThinAcksSpec {
            of: 3,
            wait: Duration::from_millis(2),
        })
    }

    #[test]
    fn only_the_last_of_three_passes() {
        let mut thin = thin();
        let ack = segment((1, 2), ACK, 0, 0);
        let held: Vec<_> = (0..7)
            .map(|_| thin.hold(&Packet::new(&ack)).map(|(_, ticket)| ticket))
            .collect();
        let passed: Vec<_> = held.iter().map(Option::is_none).collect();
        assert_eq!(passed, [false, false, true, false, false, true, false]);
        let released = held
            .into_iter()
            .flatten()
            .map(|ticket| thin.release(&Packet::new(&ack), ticket));
        assert_eq!(
            released.collect::<Vec<_>>(),
            [false, false, false, false, true]
        );
    }

    #[test]
    fn data_takes_the_place_of_what_is_held_and_connections_are_apart() {
        let mut thin = thin();
        let (ack, data) = (segment((1, 2), ACK, 0, 0), segment((1, 2), ACK, 0, 5));
        let other = segment((3, 4), ACK, 0, 0);
        let (_, ticket) = thin.hold(&Packet::new(&ack)).expect("is held");
        let (_, others) = thin.hold(&Packet::new(&other)).expect("is held");
        assert_eq!(thin.hold(&Packet::new(&data)), None);
        assert!(!thin.release(&Packet::new(&ack), ticket));
        assert!(thin.release(&Packet::new(&other), others));
    }
}
