//! `mtu-black-hole`: full segments are lost each time they are sent, smaller segments arrive, and
//! no ICMP error comes. Random loss would affect small segments too, and a second or third copy
//! would arrive.

use super::evidence::{self, human};
use super::first_packets::FirstPackets;
use super::loss::lost;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::Basis;
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome};
use crate::report::{Evidence, EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};

const WORDING: Wording = Wording {
    summary: "A link on the path drops full-size packets, and the router before it does not report \
              this: in {affected} exchanges full segments were lost each time they were sent, \
              {passed}. {small} This cost {saved} (median).",
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

/// Minimum number of exchanges. A single exchange may have lost three copies by chance.
const LEAST: u64 = 2;

/// Counts exchanges whose full segments never arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    tally: Tally,
    /// Number of full segments retransmitted without success. It is known only for captures on the
    /// sender's side.
    copies: u64,
    /// The size of the largest segment that arrived instead, in bytes.
    passed: u32,
    /// Number of exchanges in which the receiver was heard meanwhile.
    heard: u64,
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
        self.packets.add(narrow.packet);
        let cost = match exchange.outcome {
            Outcome::Complete(_) => lost(exchange),
            // The client never got the response, so the whole time is lost.
            _ => exchange.latency(),
        };
        self.tally
            .add(exchange, Cost::exactly(cost), core::time::Duration::ZERO);
    }

    fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.copies += other.copies;
        self.passed = self.passed.max(other.passed);
        self.heard += other.heard;
        self.packets.extend(other.packets);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.tally.affected < LEAST {
            return Conclusion::Nothing;
        }
        let mut finding = evidence::finding(Id::MtuBlackHole, Owner::Path, case, &self.tally);
        finding.evidence.push(self.wire());
        // A receiver that is gone acknowledges nothing either.
        let is_gone = self.heard < LEAST && self.passed == 0;
        let has_look_alike = (self.copies < 2 * LEAST && self.passed == 0) || is_gone;
        finding.basis = Basis::new(self.copies.max(self.tally.affected), has_look_alike);
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
        WORDING.tell(
            &mut finding,
            &[
                ("affected", &self.tally.affected),
                ("passed", &passed),
                ("small", &small),
                (
                    "saved",
                    &human(self.tally.saved.quantile(0.5).unwrap_or_default()),
                ),
            ],
        );
        Conclusion::Finding(Box::new(finding))
    }
}

impl Rule {
    fn wire(&self) -> Evidence {
        let text = match self.copies {
            0 => format!(
                "in {} no full segment arrived: after timeouts the response continued in segments \
                 of {}, less than the MSS of the handshake",
                counted(self.tally.affected, "exchange", "exchanges"),
                counted(u64::from(self.passed), "byte", "bytes"),
            ),
            copies => format!(
                "in {} the first full segment was sent {} without an ACK, while smaller segments \
                 were acknowledged",
                counted(self.tally.affected, "exchange", "exchanges"),
                counted(copies, "time", "times"),
            ),
        };
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(self.tally.affected)
            .median(&self.tally.saved)
            .packets(&self.packets)
    }
}
