//! Claims and notes from ICMP: unreachable hosts, packets that are too big, and pings.
//!
//! An error about a host that the capture is about becomes a claim. All other errors become
//! notes.

use core::net::IpAddr;

use super::Observations;
use super::blank::Blank;
use crate::cause;
use crate::cause::evidence::{human, median, percent};
use crate::claim::Claim;
use crate::connection::SetupOutcome;
use crate::facts::icmp_errors::{Pings, Word};
use crate::observed::flow::Endpoint;
use crate::observed::icmp::IcmpKind;
use crate::registry::Id;
use crate::report::{Remark, Unit, counted};

/// Maximum number of notes of one kind. A traced route or a scan causes many errors that belong
/// together.
const MAX_NOTES: usize = 8;

/// Adds claims and notes from the ICMP errors and pings of a capture. Investigations, which run a
/// load, get none.
pub(super) fn add(evidence: &Observations, claims: &mut Vec<Claim>, notes: &mut Vec<Remark>) {
    if !evidence.targets.is_empty() {
        return;
    }
    let icmp = &evidence.icmp;
    let mut words: Vec<&Word> = icmp.words.iter().collect();
    words.sort_by_key(|word| (core::cmp::Reverse(word.count), word.target));
    let mut said = 0;
    for word in words {
        if is_about(evidence, word) {
            let claim = unreachable(evidence, word);
            if !is_known(claims, word.target) {
                claims.push(claim);
                continue;
            }
        }
        said += 1;
        if said <= MAX_NOTES {
            notes.push(remark(word));
        }
    }
    let pings = icmp.pings.iter().filter(|pings| pings.sent > 0);
    notes.extend(pings.take(MAX_NOTES).map(ping_remark));
}

/// Returns true if the error makes a claim: it says that a host is unreachable, the capture is
/// about that host, and the host never sends anything.
fn is_about(evidence: &Observations, word: &Word) -> bool {
    let is_v4 = word.target.is_ipv4();
    let is_meant = matches!(word.kind, IcmpKind::Unreachable(_));
    let is_alive = evidence.icmp.alive.contains(&word.target);
    // A host that answers for itself has the address, and may just not speak the protocol.
    let is_foreign_protocol = word.is_by_target() && word.kind.is_protocol_unknown(is_v4);
    if !is_meant
        || word.kind.is_port_closed(is_v4)
        || is_alive
        || is_foreign_protocol
        || evidence.icmp.is_conflict_check(word)
    {
        return false;
    }
    let mut services = evidence
        .services
        .iter()
        .filter(|(at, _)| at.addr == word.target)
        .peekable();
    let is_missed = evidence.tallied.connections > 0;
    // If there are connections, the capture is about their servers only.
    if services.peek().is_none() && is_missed {
        return false;
    }
    !services.any(|(_, service)| {
        let setups = &service.ledger.setups.outcomes;
        service.ledger.has_exchanges()
            || service.outside.is_some()
            || setups.of(SetupOutcome::Established) > 0
    })
}

/// Returns true if a rule has already reported the host for a connection attempt.
fn is_known(claims: &[Claim], target: IpAddr) -> bool {
    claims.iter().any(|known| {
        let is_same = matches!(known.cause, Id::HostUnreachable | Id::FirewallDrop);
        is_same && known.at.addr == target
    })
}

fn unreachable(evidence: &Observations, word: &Word) -> Claim {
    let blank = Blank::default();
    let case = blank.case(Endpoint::new(word.target, 0), &evidence.facts);
    let is_v4 = word.target.is_ipv4();
    let id = if word.kind.is_prohibited(is_v4) || word.is_by_target() {
        Id::FirewallDrop
    } else {
        Id::HostUnreachable
    };
    let asked: u64 = evidence
        .icmp
        .pings
        .iter()
        .filter(|pings| pings.target == word.target)
        .map(|pings| pings.sent)
        .sum();
    let mut claim = cause::told_unreachable(&case, id, word, &said(word), asked.max(word.count));
    claim.unit = Unit::Packets;
    claim
}

/// Returns a clause on the senders of the ICMP error and its meaning.
fn said(word: &Word) -> String {
    let who = reporters(word);
    let what = meaning(word.kind, word.target.is_ipv4());
    let (kind, code) = word.kind.wire(word.target.is_ipv4());
    format!(
        "{who} answered packets to {} with ICMP: {what} ({kind}/{code})",
        word.target
    )
}

fn reporters(word: &Word) -> String {
    let list: Vec<String> = word.reporters.iter().map(ToString::to_string).collect();
    match list.as_slice() {
        [only] => only.clone(),
        [one, other] => format!("{one} and {other}"),
        [first, ..] => format!("{first} and others"),
        [] => "a router".to_owned(),
    }
}

/// Returns the meaning of an ICMP type and code (RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1, RFC
/// 4443 §3).
fn meaning(kind: IcmpKind, is_v4: bool) -> String {
    let told = match (kind, is_v4) {
        (IcmpKind::TooBig(0), _) => "too big, and fragmentation is not allowed",
        (IcmpKind::TooBig(mtu), _) => {
            return format!(
                "too big for the next link, which takes {}",
                counted(u64::from(mtu), "byte", "bytes"),
            );
        }
        (IcmpKind::Unreachable(0 | 6 | 8 | 11), true) => "network unreachable",
        (IcmpKind::Unreachable(1 | 7 | 12), true) => "host unreachable",
        (IcmpKind::Unreachable(2), true) => "protocol unreachable",
        (IcmpKind::Unreachable(3), true) | (IcmpKind::Unreachable(4), false) => "port unreachable",
        (IcmpKind::Unreachable(5), true) => "source route failed",
        (IcmpKind::Unreachable(9 | 10 | 13), true) | (IcmpKind::Unreachable(1 | 5), false) => {
            "administratively prohibited"
        }
        (IcmpKind::Unreachable(0 | 6), false) => "no route to the destination",
        (IcmpKind::Unreachable(3), false) => "address unreachable",
        (IcmpKind::Unreachable(_), _) => "unreachable",
        (IcmpKind::TimeExceeded(1), _) => "fragments arrived too late",
        (IcmpKind::TimeExceeded(_), _) => "time to live exceeded in transit",
        (IcmpKind::ParameterProblem(_), _) => "a header that cannot be processed",
    };
    told.to_owned()
}

fn remark(word: &Word) -> Remark {
    let id = match word.kind {
        IcmpKind::TooBig(_) => "fragmentation-needed",
        IcmpKind::Unreachable(_) => "icmp-unreachable",
        IcmpKind::TimeExceeded(_) => "icmp-time-exceeded",
        IcmpKind::ParameterProblem(_) => "icmp-parameter-problem",
    };
    let packets: Vec<String> = word.packets.iter().map(u64::to_string).collect();
    let text = format!(
        "{}; {} in total, packets {}{}.",
        said(word),
        word.count,
        packets.join(", "),
        if word.count > word.packets.len() as u64 {
            " …"
        } else {
            ""
        }
    );
    Remark {
        id: id.to_owned(),
        text,
    }
}

fn ping_remark(pings: &Pings) -> Remark {
    let answered = pings.answered();
    let mut text = format!(
        "{} pinged {} {}: {answered} answered",
        pings.asker,
        pings.target,
        counted(pings.sent, "time", "times"),
    );
    if let (Some(least), Some(most)) = (pings.round_trips.min(), pings.round_trips.max()) {
        text.push_str(&format!(
            " in {} (median; {} to {})",
            median(&pings.round_trips),
            human(least),
            human(most)
        ));
    }
    if pings.rejected > 0 {
        text.push_str(&format!(", {} rejected by ICMP", pings.rejected));
    }
    if pings.lost > 0 {
        let share = percent(pings.lost as f64 / pings.sent.max(1) as f64);
        text.push_str(&format!(", {} never answered ({share})", pings.lost));
    }
    text.push('.');
    Remark {
        id: "pings".to_owned(),
        text,
    }
}
