//! The rule of the cause `http2-stream-reset`.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BTreeMap;

use super::evidence::{self, REPEATS};
use super::first_packets::FirstPackets;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Side, StreamEnd};
use crate::observed::packet::PacketNumber;
use crate::protocol::http2::error_name;
use crate::report::{Affected, EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

/// The wording for streams that the server did not process.
const REFUSED: Wording = Wording {
    summary: "{service} refuses requests before it processes them: {what}. The same requests may \
        be sent again (RFC 9113 §8.7).",
    ruled_out: &[(
        Id::ConnectionClosed,
        "the connection went on, or ended with a GOAWAY",
    )],
    overturned_by: "the same number of concurrent requests being answered",
    fix: &[
        (
            "client",
            "keep to the server's SETTINGS_MAX_CONCURRENT_STREAMS, and send refused requests again \
             after a pause; after a GOAWAY on a new connection",
        ),
        (
            "server",
            "find out in its log why it refuses: too many streams, an overload, or a limit on the \
             age or the number of requests of a connection",
        ),
    ],
};

/// The wording for streams that the server gave up.
const GIVEN_UP: Wording = Wording {
    summary: "{service} gives up requests before its answers are complete: {what}.",
    overturned_by: "a complete response to the same request from elsewhere",
    fix: &[(
        "server",
        "read its error log: the handler failed, or a proxy's upstream closed or timed out",
    )],
    ..REFUSED
};

/// The wording for clients that the server slows down.
const CALMED: Wording = Wording {
    summary: "{service} finds that its client asks too much (ENHANCE_YOUR_CALM): {what}.",
    overturned_by: "the same requests being answered",
    fix: &[
        (
            "client",
            "send fewer pings, resets and requests at a time; gRPC: a keep-alive time not below the \
             server's minimum",
        ),
        (
            "server",
            "its limits: gRPC keep-alive enforcement policy, Envoy and nghttp2 flood limits",
        ),
    ],
    ..REFUSED
};

/// Error codes (RFC 9113 §7).
const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
/// The first code that is not defined.
const UNDEFINED: u32 = 14;
/// Maximum number of kinds of ends in a sentence.
const MOST_TOLD: usize = 5;

/// Watches streams that the server ended with RST_STREAM or GOAWAY before its response was
/// complete. A client that resets a stream has given up waiting, or needs no more.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    #[merge(entries)]
    ends: BTreeMap<StreamEnd, u64>,
    packets: FirstPackets,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FAILED;

    fn observe(&mut self, exchange: &Exchange) {
        let end = exchange.signs.stream.end;
        let Some(end) = end.filter(|end| !matches!(end, StreamEnd::Reset(Side::Client, _))) else {
            return;
        };
        let cost = Cost::exactly(exchange.latency());
        self.tally.add(exchange, cost, Duration::ZERO);
        *self.ends.entry(named(end)).or_default() += 1;
        self.packets
            .extend(exchange.packets.first.map(PacketNumber::get));
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let (ended, all) = (self.tally.affected, case.ledger.uncut());
        let is_many = ended >= REPEATS && ended as f64 >= all as f64 * evidence::FAILING_SHARE;
        if !is_many && (ended == 0 || ended * 2 < all) {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }
}

/// Returns the end as it is told: all codes that are not defined have one name.
fn named(end: StreamEnd) -> StreamEnd {
    match end {
        StreamEnd::Reset(side, code) => StreamEnd::Reset(side, code.min(UNDEFINED)),
        StreamEnd::GoAway(code) => StreamEnd::GoAway(code.min(UNDEFINED)),
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = evidence::claim(Id::Http2StreamReset, Owner::Server, case, &self.tally);
        claim.time.predicted = None;
        claim.affected = Affected {
            exchanges: self.tally.affected,
            of: case.ledger.uncut(),
        };
        let what = self.what();
        let text = format!(
            "{} of {} ended without a complete response: {what}",
            self.tally.affected,
            counted(case.ledger.uncut(), "request", "requests"),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(self.tally.affected)
                .packets(&self.packets),
        );
        claim.basis = Basis::new(self.tally.affected, false);
        self.wording().tell(&mut claim, &[("what", &what)]);
        claim
    }

    /// Returns the ends, the most frequent first.
    fn sorted(&self) -> Vec<(StreamEnd, u64)> {
        let mut ends: Vec<_> = self.ends.iter().map(|(&end, &n)| (end, n)).collect();
        ends.sort_by_key(|&(end, n)| (Reverse(n), end));
        ends.truncate(MOST_TOLD);
        ends
    }

    fn what(&self) -> String {
        let each = self.sorted().into_iter().map(|(end, n)| match end {
            StreamEnd::Reset(_, code) => format!(
                "{} reset by the server (RST_STREAM, {})",
                counted(n, "stream was", "streams were"),
                error_name(code),
            ),
            StreamEnd::GoAway(code) => format!(
                "{} not processed because the server ended the connection (GOAWAY, {})",
                counted(n, "stream was", "streams were"),
                error_name(code),
            ),
        });
        each.collect::<Vec<_>>().join("; ")
    }

    fn wording(&self) -> &'static Wording {
        match self.sorted().first() {
            Some((
                StreamEnd::Reset(_, ENHANCE_YOUR_CALM) | StreamEnd::GoAway(ENHANCE_YOUR_CALM),
                _,
            )) => &CALMED,
            Some((StreamEnd::Reset(_, REFUSED_STREAM) | StreamEnd::GoAway(NO_ERROR), _)) => {
                &REFUSED
            }
            _ => &GIVEN_UP,
        }
    }
}
