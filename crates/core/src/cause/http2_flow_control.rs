//! The rule of the cause `http2-flow-control`.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use super::evidence::{self, human, median};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::ExchangePackets;
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "HTTP/2's flow-control window is smaller than what the path can hold in flight: each \
              full window costs a round trip, {held} (median) per exchange, {share} of all request \
              time.",
    ruled_out: &[
        (
            Id::ReceiveWindow,
            "TCP's own window had room: only HTTP/2's window was used up",
        ),
        (
            Id::ServerPause,
            "data followed each update immediately, and would not have fitted before it",
        ),
    ],
    overturned_by: "the same transfer with a larger window taking as long",
    fix: &[
        (
            "client",
            "a larger SETTINGS_INITIAL_WINDOW_SIZE and a larger window for the connection: at \
             least bandwidth times round trip (nghttp -w 24 -W 24; gRPC InitialWindowSize; Java \
             initialWindowSize)",
        ),
        (
            "client",
            "read responses as they come: updates are sent as data is read",
        ),
    ],
};

/// The wording if the server's windows delay the bodies of requests.
const OF_THE_SERVER: Wording = Wording {
    fix: &[(
        "server",
        "a larger window for request bodies: http2_body_preread_size (nginx), H2 \
         InitialWindowSize (Apache H2WindowSize, Go http2.Server.MaxUploadBufferPerStream)",
    )],
    ..WORDING
};

/// The summary if the receiver is slow to give its window back.
const LATE: &str = "The {receiver} gives HTTP/2's flow-control window back late: a full window lasts \
    {each} (mean), on a path with a round trip of {trip}; {held} (median) per exchange, {share} of \
    all request time.";

/// The wording if the client is slow to give its window back.
const READ_LATE: Wording = Wording {
    summary: LATE,
    fix: &[(
        "client",
        "read responses as they come: updates are sent as data is read; a larger window helps only \
         with responses that fit into it",
    )],
    ..WORDING
};

/// The wording if the server is slow to give its window back.
const READ_LATE_BY_SERVER: Wording = Wording {
    summary: LATE,
    fix: &[(
        "server",
        "read request bodies as they come: updates are sent as data is read; a larger window helps \
         only with bodies that fit into it",
    )],
    ..WORDING
};

/// A window that is too small for the path lasts about a round trip when it is full. One that lasts
/// longer than this many round trips waits for the receiver's program.
const LATE_TRIPS: u32 = 4;

/// Minimum wait for a window that counts. Shorter waits are ordinary.
const LEAST_WINDOW_WAIT: Duration = Duration::from_millis(2);

/// Watches waits for HTTP/2's flow-control window. A stream's data left only after a WINDOW_UPDATE
/// for the stream or the connection, and would not have fit into the window before. TCP's own
/// window is another cause. Data that its sender had not written yet does not follow a
/// WINDOW_UPDATE.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    /// The time lost, in nanoseconds, by the end whose window was used up.
    #[merge(entries)]
    owners: BTreeMap<Owner, u64>,
    stalls: u64,
    #[merge(least)]
    packets: Option<ExchangePackets>,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::wait(WaitKind::FlowControl);

    fn observe(&mut self, exchange: &Exchange) {
        let held = exchange.waited(WaitKind::FlowControl);
        if held < LEAST_WINDOW_WAIT {
            return;
        }
        self.tally
            .add(exchange, Cost::exactly(held), Duration::ZERO);
        for wait in exchange
            .waits
            .iter()
            .filter(|wait| wait.kind == WaitKind::FlowControl)
        {
            *self.owners.entry(wait.owner).or_default() += nanos(wait.duration());
            self.stalls += 1;
        }
        let packets = exchange.packets;
        self.packets = Some(self.packets.map_or(packets, |first| first.min(packets)));
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_found =
            evidence::is_material(case, &self.tally) && evidence::is_repeated(case, &self.tally);
        is_found.then(|| self.claim(case)).into()
    }
}

impl Rule {
    /// Returns the end whose window was used up: the receiver.
    fn culprit(&self) -> Owner {
        let most = self.owners.iter().max_by_key(|&(_, &time)| time);
        most.map_or(Owner::Unknown, |(&owner, _)| owner)
    }

    fn claim(&self, case: &Case<'_>) -> Claim {
        let culprit = self.culprit();
        let mut claim = evidence::claim(Id::Http2FlowControl, culprit, case, &self.tally);
        let receiver = if culprit == Owner::Server {
            "server"
        } else {
            "client"
        };
        let text = format!(
            "{} in {} a stream's data stopped when HTTP/2's window was used up and resumed with \
             the {receiver}'s WINDOW_UPDATE; this took {} (median) of each exchange",
            counted(self.stalls, "time", "times"),
            counted(self.tally.affected, "exchange", "exchanges"),
            median(&self.tally.saved),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(self.stalls)
                .median(&self.tally.saved)
                .packets(
                    &self
                        .packets
                        .map(ExchangePackets::numbers)
                        .unwrap_or_default(),
                ),
        );
        claim.basis = Basis::new(self.stalls, false);
        let each = Duration::from_nanos(self.tally.cost.likely / self.stalls.max(1));
        let trip = case.round_trip();
        let is_late = trip.is_some_and(|trip| each >= trip * LATE_TRIPS + LEAST_WINDOW_WAIT);
        let wording = match culprit {
            Owner::Server if is_late => &READ_LATE_BY_SERVER,
            Owner::Server => &OF_THE_SERVER,
            _ if is_late => &READ_LATE,
            _ => &WORDING,
        };
        let values: [(&str, &dyn fmt::Display); 4] = [
            ("held", &median(&self.tally.saved)),
            ("receiver", &receiver),
            ("each", &human(each)),
            ("trip", &human(trip.unwrap_or_default())),
        ];
        wording.tell(&mut claim, &values);
        claim
    }
}
