//! Places where the exchanges' time passed: a host, or one direction of the path.
//!
//! The walk goes backwards from the last packet of a response. A packet left its host because of
//! the last packet that had arrived there. That packet had left the other host because of an
//! earlier arrival, and so on. The time between an arrival and the next departure passed on the
//! host. The time between a departure and the arrival passed on the path. If a packet was
//! retransmitted because its earlier copies were lost, the time since the first copy is charged to
//! the path.

use core::time::Duration;

use super::Recognised;
use super::way::{Crossing, Crossings};
use crate::exchange::{Exchange, Outcome};
use crate::observed::flow::{FlowKey, Transport};
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::WayPlace;

/// Maximum number of steps back in one exchange. The place of all earlier time is unknown.
const MAX_STEPS: usize = 4096;
/// Maximum difference between timestamps of one host for the same instant.
const SLACK: Duration = Duration::from_micros(5);

/// An exchange of the capture nearer to the clients: its flow, begin and end.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeSpan {
    flow: FlowKey,
    begin: Timestamp,
    end: Timestamp,
}

impl ExchangeSpan {
    /// Returns the span of an exchange that is complete, or that its client gave up.
    pub fn new(exchange: &Exchange) -> Option<Self> {
        let is_meant = matches!(exchange.outcome, Outcome::Complete(_) | Outcome::TimedOut);
        let (flow, _) = FlowKey::new(Transport::Tcp, exchange.id.client, exchange.id.server);
        is_meant.then_some(Self {
            flow,
            begin: exchange.begin,
            end: exchange.end,
        })
    }
}

/// The places, in the order in which a request passes them.
const PLACES: [&str; 5] = [
    "client-host",
    "client-to-server-path",
    "server-host",
    "server-to-client-path",
    "unknown",
];
const UNKNOWN: usize = 4;

/// Times by place: the total, and the part that was spent on recovering from a loss.
type Sums = [(u64, u64); PLACES.len()];

/// Adds up the exchanges' time by place.
pub(super) fn places(
    joined: &Recognised,
    crossings: &Crossings,
    exchanges: &[ExchangeSpan],
) -> Vec<WayPlace> {
    let mut sums = Sums::default();
    let mut whole = 0_u64;
    for exchange in exchanges {
        let flow = joined.near().by_key.get(&exchange.flow);
        let Some(list) = flow.and_then(|flow| crossings.get(flow)) else {
            continue;
        };
        whole = whole.saturating_add(nanos(exchange.end.since(exchange.begin)));
        walk(list, exchange, &mut sums);
    }
    if whole == 0 {
        return Vec::new();
    }
    let place = |(name, (total_ns, loss_ns)): (&&str, (u64, u64))| WayPlace {
        place: (*name).to_owned(),
        total_ns,
        loss_ns,
        share: total_ns as f64 / whole as f64,
    };
    let places = PLACES.iter().zip(sums).map(place);
    places
        .filter(|p| p.total_ns > 0 || p.place != "unknown")
        .collect()
}

/// Walks back from the exchange's end to its begin. `list` is sorted by arrival.
fn walk(list: &[Crossing], exchange: &ExchangeSpan, sums: &mut Sums) {
    let mut walk = Walk {
        begin: exchange.begin,
        cursor: exchange.end,
        sums,
    };
    // Packets that arrived before the exchange's begin are not part of it.
    let first = list.partition_point(|c| c.arrived < exchange.begin);
    let list = list.get(first..).unwrap_or_default();
    let (mut at_client, mut end) = (true, list.len());
    for _ in 0..MAX_STEPS {
        if walk.cursor <= walk.begin {
            return;
        }
        // The last packet that arrived at this host before the cursor.
        let arrived = list.partition_point(|c| c.arrived <= walk.cursor + SLACK);
        end = end.min(arrived);
        let here = list.get(..end).unwrap_or_default();
        let found = here.iter().rposition(|c| c.to_server != at_client);
        let Some((at, crossing)) = found.and_then(|at| Some((at, list.get(at)?))) else {
            break;
        };
        end = at;
        let way = if crossing.to_server { 1 } else { 3 };
        walk.charge(if at_client { 0 } else { 2 }, crossing.arrived, false);
        walk.charge(way, crossing.sent, false);
        walk.charge(way, crossing.first_sent, true);
        at_client = crossing.to_server;
    }
    // Before its first packet arrived, the request was still on the client.
    let begin = walk.begin;
    walk.charge(if at_client { 0 } else { UNKNOWN }, begin, false);
}

/// The state of a walk back through an exchange.
struct Walk<'a> {
    begin: Timestamp,
    cursor: Timestamp,
    sums: &'a mut Sums,
}

impl Walk<'_> {
    /// Charges the time from `to` to the cursor, and moves the cursor to `to`. Time before the
    /// exchange's begin is not charged.
    fn charge(&mut self, place: usize, to: Timestamp, is_loss: bool) {
        let to = to.max(self.begin).min(self.cursor);
        let took = nanos(self.cursor.since(to));
        if let Some((total, loss)) = self.sums.get_mut(place) {
            *total = total.saturating_add(took);
            *loss = loss.saturating_add(if is_loss { took } else { 0 });
        }
        self.cursor = to;
    }
}
