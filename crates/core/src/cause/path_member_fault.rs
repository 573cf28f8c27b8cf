//! `path-member-fault`: some connections lose segments repeatedly, and all other connections to the
//! same server lose none. Random loss would affect most connections.

use super::evidence::{self, percent};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;
use crate::stats::bounded::Few;

const WORDING: Wording = Wording {
    summary: "One of several parallel paths to the server loses packets: {part} of the connections \
              use it, by the hash of their addresses and ports, and lose packets again and again; \
              the others lose none.",
    ruled_out: &[(
        Id::PacketLoss,
        "losses of the whole path would have hit the other connections too",
    )],
    overturned_by: "with the load repeated, no losses on the same client ports, or losses on \
                    others",
    fix: &[
        (
            "path",
            "find the bad member of the bundle (LAG, ECMP) by probing from the client ports with \
             losses, and drain that member",
        ),
        (
            "client",
            "if a connection loses packets often, reconnect from another port (Linux rehashes on \
             timeouts over IPv6; net.ipv4.tcp_plb_enabled)",
        ),
    ],
};

/// Maximum number of connections kept. Those with the lowest addresses and ports are kept, so that
/// the order of arrival does not matter.
const MAX_CONNECTIONS: usize = 512;
/// Minimum number of exchanges of a connection that is compared.
const LEAST_EXCHANGES: u64 = 4;
/// Minimum share of a bad connection's exchanges that have losses.
const BAD_SHARE: f64 = 0.2;
/// Minimum number of exchanges with losses on a bad connection.
const BAD_LOSSES: u64 = 2;
/// Minimum number of bad connections. Fewer may be chance.
const LEAST_BAD: u64 = 2;
/// Minimum number of clean connections. Fewer may be chance.
const LEAST_CLEAN: u64 = 3;
/// Maximum share of connections that are neither bad nor clean, in percent.
const NEITHER: u64 = 15;
/// Maximum probability that the clean connections have no losses by chance.
const CHANCE: f64 = 0.01;

/// Compares the losses of the connections.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    /// The connections, by their client's [place](crate::observed::flow::Endpoint::place).
    connections: Few<(u128, u16), Seen, MAX_CONNECTIONS>,
}

/// The numbers of a connection's exchanges, and of its exchanges with losses.
#[derive(Clone, Copy, Debug, Default, Merge)]
struct Seen {
    /// The highest ordinal of the connection's exchanges, plus one.
    #[merge(max)]
    exchanges: u64,
    lossy: u64,
}

/// The connections, sorted into bad ones, clean ones, and others.
#[derive(Clone, Debug, Default)]
struct Sorted {
    /// The client ports of the bad connections.
    bad: Vec<u16>,
    clean: u64,
    clean_exchanges: u64,
    neither: u64,
    lossy: u64,
    exchanges: u64,
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        let is_lossy = !exchange.loss.recoveries.is_empty();
        // Many connections have a single exchange, and one exchange without loss shows nothing
        // about a path.
        if exchange.id.ordinal == 0 && !is_lossy {
            return;
        }
        if let Some(seen) = self.connections.of(exchange.id.client.place()) {
            seen.exchanges = seen.exchanges.max(u64::from(exchange.id.ordinal) + 1);
            seen.lossy += u64::from(is_lossy);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let tally = &case.gathered.losses.tally;
        if case.gathered.losses.events() < BAD_LOSSES {
            return Conclusion::Nothing;
        }
        let sorted = self.sort();
        if !sorted.is_telling() || !evidence::is_material(case, tally) {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::PathMemberFault, Owner::Path, case, tally);
        let ports: Vec<String> = sorted
            .bad
            .iter()
            .map(ToString::to_string)
            .take(12)
            .collect();
        let text = format!(
            "{} lost segments in {} of their exchanges, and {} with {} lost none; client ports with \
             losses: {}",
            counted(sorted.bad.len() as u64, "connection", "connections"),
            sorted.lossy,
            counted(sorted.clean, "connection", "connections"),
            counted(sorted.clean_exchanges, "exchange", "exchanges"),
            ports.join(", "),
        );
        let wire = Statement::shows(EvidenceKind::Wire, text)
            .count(sorted.lossy)
            .median(&tally.saved);
        let filter = format!("tcp.port in {{{}}}", ports.join(", "));
        claim.evidence.push(wire.filter(filter));
        claim.basis = Basis::new(sorted.lossy, false);
        WORDING.tell(
            &mut claim,
            &[(
                "part",
                &percent(sorted.bad.len() as f64 / sorted.connections().max(1) as f64),
            )],
        );
        Conclusion::Claim(Box::new(claim))
    }
}

impl Rule {
    fn sort(&self) -> Sorted {
        let mut sorted = Sorted::default();
        for (&(_, port), &seen) in self.connections.iter() {
            if seen.exchanges < LEAST_EXCHANGES {
                sorted.neither += u64::from(seen.lossy > 0);
                continue;
            }
            sorted.exchanges += seen.exchanges;
            sorted.lossy += seen.lossy;
            let is_often = seen.lossy as f64 >= seen.exchanges as f64 * BAD_SHARE;
            if seen.lossy == 0 {
                sorted.clean += 1;
                sorted.clean_exchanges += seen.exchanges;
            } else if seen.lossy >= BAD_LOSSES && is_often {
                sorted.bad.push(port);
            } else {
                sorted.neither += 1;
            }
        }
        sorted
    }
}

impl Sorted {
    /// Returns the number of connections that were compared.
    fn connections(&self) -> u64 {
        self.bad.len() as u64 + self.clean + self.neither
    }

    fn is_telling(&self) -> bool {
        let bad = self.bad.len() as u64;
        let share = self.lossy as f64 / self.exchanges.max(1) as f64;
        // The probability that so many exchanges have no loss by chance, at the overall loss rate.
        let chance = (1.0 - share).powf(self.clean_exchanges as f64);
        bad >= LEAST_BAD
            && self.clean >= LEAST_CLEAN
            && self.neither * 100 <= self.connections() * NEITHER
            && chance <= CHANCE
    }
}
