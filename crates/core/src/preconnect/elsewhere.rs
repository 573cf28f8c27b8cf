//! Failed attempts to connect to a server's IPv6 address, after which the client used its IPv4
//! address.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::observed::event::PointId;
use crate::observed::flow::{Endpoint, FlowKey};
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;

/// Maximum number of attempts at IPv6 addresses remembered; the oldest are dropped. It is small,
/// because each SYN to an IPv4 address is compared with all of them.
const MAX_ATTEMPTS: usize = 256;
/// Minimum time after which a client falls back to IPv4. In RFC 8305 §8 the minimum "connection
/// attempt delay" is 100 ms.
const SOONEST: Duration = Duration::from_millis(90);
/// Maximum time after which a client falls back to IPv4: about the time for which Linux retries a
/// connection (`tcp_syn_retries`).
const LATEST: Duration = Duration::from_secs(135);

/// An attempt at another address that was never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// The address and port to which the attempt was made.
    pub(crate) server: Endpoint,
    /// The time from the attempt's SYN to the SYN of the connection that replaced it.
    pub(crate) took: Duration,
    /// The part of that time up to the attempt's last SYN. It is also counted in the setup of the
    /// attempt.
    pub(crate) repeating: Duration,
    /// Number of SYNs sent.
    pub(crate) syns: u32,
    pub(crate) first_packet: u64,
    /// True if one lookup returned both addresses.
    pub(crate) is_same_name: bool,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    begin: Timestamp,
    /// Time of the last SYN.
    last: Timestamp,
    syns: u32,
    number: u64,
    server: Endpoint,
    /// Number of the lookup that the attempt followed.
    lookup: Option<u64>,
    is_taken: bool,
}

/// Unanswered attempts at IPv6 addresses, by flow.
#[derive(Debug, Default)]
pub(crate) struct UnansweredAttempts {
    open: BTreeMap<(PointId, FlowKey), Attempt>,
}

impl UnansweredAttempts {
    /// Returns false if this SYN is a retransmission of an attempt at an IPv6 address.
    pub(crate) fn is_first(&mut self, syn: &Segment) -> bool {
        match self.open.get_mut(&(syn.point, syn.flow)) {
            Some(attempt) => {
                attempt.syns += 1;
                attempt.last = syn.at;
                false
            }
            None => true,
        }
    }

    /// Drops the attempt of this segment's flow, because the server answered or the client gave up.
    pub(crate) fn answered(&mut self, segment: &Segment) {
        if !self.open.is_empty() {
            self.open.remove(&(segment.point, segment.flow));
        }
    }

    /// Returns the attempt that a new connection replaces; `lookup` is the lookup that the
    /// connection followed.
    pub(crate) fn begin(&mut self, syn: &Segment, lookup: Option<u64>) -> Option<Elsewhere> {
        let server = syn.flow.destination(syn.direction);
        if server.addr.is_ipv6() {
            self.remember(syn, server, lookup);
            return None;
        }
        let fits = |attempt: &&mut Attempt| {
            let since = syn.at.since(attempt.begin);
            let is_same_name = lookup.is_some() && attempt.lookup == lookup;
            let is_nameless = lookup.is_none() && attempt.lookup.is_none();
            !attempt.is_taken
                && attempt.server.port == server.port
                && (is_same_name || is_nameless)
                && since >= SOONEST
                && since <= LATEST
        };
        let of_point = |key: &(PointId, FlowKey)| key.0 == syn.point;
        let open = self.open.iter_mut().filter(|(key, _)| of_point(key));
        let attempt = open
            .map(|(_, attempt)| attempt)
            .filter(fits)
            .min_by_key(|attempt| (attempt.begin, attempt.number))?;
        attempt.is_taken = true;
        Some(Elsewhere {
            server: attempt.server,
            took: syn.at.since(attempt.begin),
            repeating: attempt.last.since(attempt.begin),
            syns: attempt.syns,
            first_packet: attempt.number,
            is_same_name: lookup.is_some(),
        })
    }

    fn remember(&mut self, syn: &Segment, server: Endpoint, lookup: Option<u64>) {
        if self.open.len() >= MAX_ATTEMPTS {
            let oldest = self.open.iter().min_by_key(|(key, a)| (a.begin, **key));
            if let Some(key) = oldest.map(|(&key, _)| key) {
                self.open.remove(&key);
            }
        }
        let attempt = Attempt {
            begin: syn.at,
            last: syn.at,
            syns: 1,
            number: syn.number,
            server,
            lookup,
            is_taken: false,
        };
        self.open.insert((syn.point, syn.flow), attempt);
    }
}
