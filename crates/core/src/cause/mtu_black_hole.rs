//! `mtu-black-hole`: full segments are lost each time they are sent, smaller segments arrive, and
//! no ICMP error comes. Random loss would affect small segments too, and a second or third copy
//! would arrive.

use super::evidence::{self, human};
use super::first_packets::FirstPackets;
use super::loss::lost;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::merge::sum_and_max;

const WORDING: Wording = Wording {
    summary: "A link on the path drops full-size packets, and the router before it does not report \
              this: in {affected} exchanges full segments were lost each time they were sent, \
              {passed}. {small} {cost}",
    ruled_out: &[
        (
            Id::PacketLoss,
            "random losses hit small segments too, and rarely all copies of one segment",
        ),
        (
            Id::ServerThink,
            "the response had been sent, and was retransmitted",
        ),
    ],
    overturned_by: "a full-size packet with the DF bit that gets through (ping -M do -s 1472)",
    fix: &[
        (
            "path",
            "let ICMP \"fragmentation needed\" and \"packet too big\" through",
        ),
        (
            "path",
            "clamp the MSS before the link with the small MTU: iptables -t mangle -A FORWARD -p \
             tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
        ),
        (
            "server",
            "net.ipv4.tcp_mtu_probing=1, or a lower MTU on the route",
        ),
    ],
};

/// The wording for segments that are large and not full.
const LARGE: Wording = Wording {
    summary: "A link on the path seems to drop large packets, and the router before it does not \
              report this: in {affected} exchanges large segments were lost each time they were \
              sent, {passed}. {small} {cost}",
    ..WORDING
};

/// The wording for bytes that were sent and never came.
const UNSEEN: Wording = Wording {
    summary: "The server's answers do not arrive in {affected} exchanges, although it sent them: up \
              to {unseen} are missing, while small segments come. A link on the path that drops \
              large packets, and whose router does not report this, does so. {cost}",
    ruled_out: &[
        (
            Id::PacketLoss,
            "random losses rarely hit all copies of one segment",
        ),
        (
            Id::NoResponse,
            "the server's sequence numbers count bytes of an answer",
        ),
    ],
    ..WORDING
};

/// Minimum number of exchanges. A single exchange may have lost three copies by chance.
const LEAST: u64 = 2;
/// Minimum number of copies that a single exchange lost.
const COPIES_OF_ONE: u64 = 5;

/// Counts exchanges whose full segments never arrive.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    /// Number of full segments retransmitted without success. It is known only for captures on the
    /// sender's side.
    copies: u64,
    /// The size of the largest segment that arrived instead, in bytes.
    #[merge(max)]
    passed: u32,
    /// Number of exchanges in which the receiver was heard meanwhile.
    heard: u64,
    /// Number of exchanges in which the lost segments were full.
    full: u64,
    /// Number of exchanges in which only the server's sequence numbers show the loss, and the most
    /// bytes that one of them lost.
    #[merge(with = sum_and_max)]
    unseen: (u64, u64),
    /// Number of exchanges that ended without a response.
    given_up: u64,
    packets: FirstPackets,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::NARROW;

    fn observe(&mut self, exchange: &Exchange) {
        let Some(narrow) = exchange.loss.mtu else {
            return;
        };
        self.copies += u64::from(narrow.copies);
        self.passed = self.passed.max(narrow.passed);
        self.heard += u64::from(narrow.is_heard);
        self.full += u64::from(narrow.is_full);
        self.unseen.0 += u64::from(narrow.unseen > 0);
        self.unseen.1 = self.unseen.1.max(narrow.unseen);
        self.packets.add(narrow.packet);
        let is_whole = matches!(exchange.outcome, Outcome::Complete(_));
        self.given_up += u64::from(!is_whole);
        let cost = if is_whole {
            lost(exchange)
        } else {
            // The client never got the response, so the whole time is lost.
            exchange.latency()
        };
        self.tally
            .add(exchange, Cost::exactly(cost), core::time::Duration::ZERO);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if !self.is_repeated() {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::MtuBlackHole, Owner::Path, case, &self.tally);
        claim.evidence.push(self.wire());
        // A receiver that is gone acknowledges nothing either.
        let is_gone = self.heard < LEAST.min(self.tally.affected) && self.passed == 0;
        let is_rare = self.copies < 2 * LEAST && self.passed == 0;
        claim.basis = Basis::new(
            self.copies.max(self.tally.affected),
            is_gone || is_rare || self.is_size_untold(),
        );
        let passed = match self.passed {
            0 => "and no smaller size was tried".to_owned(),
            passed => format!(
                "until the sender itself reduced them to {}",
                counted(u64::from(passed), "byte", "bytes"),
            ),
        };
        let small = if is_gone {
            "The capture does not show whether small segments get through."
        } else {
            "Small segments get through."
        };
        self.wording().tell(
            &mut claim,
            &[
                ("affected", &self.tally.affected),
                ("passed", &passed),
                ("small", &small),
                ("unseen", &counted(self.unseen.1, "byte", "bytes")),
                ("cost", &self.cost()),
            ],
        );
        if self.is_size_untold() {
            "A link on the path seems to drop large packets".clone_into(&mut claim.text.title);
        }
        if self.is_mostly_given_up() {
            // Nothing shows how long these requests would have taken.
            claim.time.predicted = None;
        }
        Conclusion::Claim(Box::new(claim))
    }
}

impl Rule {
    /// Returns true if more than one exchange is affected, or a single one that was given up lost so
    /// many copies that it is no chance.
    fn is_repeated(&self) -> bool {
        let is_much = self.copies >= COPIES_OF_ONE && self.heard > 0 && self.given_up > 0;
        self.tally.affected >= LEAST || is_much
    }

    /// Returns true if only the server's sequence numbers show most of the losses.
    fn is_unseen(&self) -> bool {
        self.unseen.0 * 2 > self.tally.affected
    }

    /// Returns true if most of the lost segments were full.
    fn is_full(&self) -> bool {
        self.full * 2 > self.tally.affected
    }

    /// Returns true if something other than the size may decide which segments are lost: no data
    /// came in smaller ones. A filter may drop a response for its content, and let ACKs pass.
    fn is_size_untold(&self) -> bool {
        self.passed == 0 && (self.is_unseen() || !self.is_full())
    }

    fn wording(&self) -> &'static Wording {
        if self.is_unseen() {
            &UNSEEN
        } else if self.is_full() {
            &WORDING
        } else {
            &LARGE
        }
    }

    fn is_mostly_given_up(&self) -> bool {
        self.given_up * 2 > self.tally.affected
    }

    /// Returns the sentence on what the losses cost.
    fn cost(&self) -> String {
        let saved = human(self.tally.saved.quantile(0.5).unwrap_or_default());
        if self.is_mostly_given_up() {
            format!("The client gave up after {saved} (median).")
        } else {
            format!("This cost {saved} (median).")
        }
    }

    fn wire(&self) -> Statement {
        let affected = counted(self.tally.affected, "exchange", "exchanges");
        let text = match self.copies {
            0 if self.is_unseen() => format!(
                "in {affected} the sequence numbers of the server's later segments count bytes that \
                 never came, {} at most",
                counted(self.unseen.1, "byte", "bytes"),
            ),
            0 => format!(
                "in {affected} no full segment arrived: after timeouts the response continued in \
                 segments of {}, less than the MSS of the handshake",
                counted(u64::from(self.passed), "byte", "bytes"),
            ),
            copies => format!(
                "in {affected} the first {} segment was sent {} without an ACK, while smaller \
                 segments were acknowledged",
                if self.is_full() { "full" } else { "large" },
                counted(copies, "time", "times"),
            ),
        };
        Statement::shows(EvidenceKind::Wire, text)
            .count(self.tally.affected)
            .median(&self.tally.saved)
            .packets(&self.packets)
    }
}
