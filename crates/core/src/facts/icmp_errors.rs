//! ICMP errors about packets of any kind, and pings with their replies.
//!
//! Both are processed in the order of their packets. The totals say which sender reported which
//! error about which host, and how each host's pings were answered. The numbers of kinds, hosts and
//! unanswered pings that are kept are bounded.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::observed::datagram::Datagram;
use crate::observed::event::PointId;
use crate::observed::icmp::{Echo, EchoStep, IcmpError, IcmpKind};
use crate::observed::time::Timestamp;
use crate::stats::histogram::Distribution;

/// Maximum number of combinations of target host and kind of error.
const MAX_WORDS: usize = 256;
/// Maximum number of senders kept for each combination of target host and kind of error.
const MAX_REPORTERS: usize = 8;
/// Maximum number of packet numbers kept for each combination of target host and kind of error.
const MAX_PACKETS: usize = 5;
/// Maximum number of pairs of hosts whose pings are followed.
const MAX_PAIRS: usize = 256;
/// Maximum number of unanswered pings kept for each pair of hosts. If there are more, the oldest
/// are forgotten and count as lost.
const MAX_OPEN: usize = 256;
/// Maximum number of hosts remembered as alive.
const MAX_ALIVE: usize = 4096;
/// The port of DHCP servers (RFC 2131 §4.1).
const DHCP_SERVER: u16 = 67;
/// A ping sent within this time before the capture's last packet does not count as lost: its reply
/// may come after the end of the capture.
const LATEST_REPLY: Duration = Duration::from_secs(1);

/// The ICMP errors and pings of a whole capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct IcmpTotals {
    pub(crate) words: Vec<Word>,
    pub(crate) pings: Vec<Pings>,
    /// Hosts that sent datagrams or answered pings.
    pub(crate) alive: BTreeSet<IpAddr>,
    /// DHCP servers.
    pub(crate) lessors: BTreeSet<IpAddr>,
}

/// A kind of ICMP error about packets to one host.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) target: IpAddr,
    pub(crate) kind: IcmpKind,
    pub(crate) count: u64,
    /// The first senders of the error.
    pub(crate) reporters: BTreeSet<IpAddr>,
    /// The first packets that report the error.
    pub(crate) packets: Vec<u64>,
    /// The number of errors that are about pings.
    pub(crate) pings: u64,
}

/// The pings of one host to another, at one capture point.
#[derive(Clone, Debug)]
pub(crate) struct Pings {
    pub(crate) asker: IpAddr,
    pub(crate) target: IpAddr,
    pub(crate) sent: u64,
    pub(crate) rejected: u64,
    /// Number of pings that were neither answered nor rejected, without those sent just before the
    /// capture's end.
    pub(crate) lost: u64,
    pub(crate) round_trips: Distribution,
}

/// The ICMP errors and pings so far.
#[derive(Debug, Default)]
pub(crate) struct Words {
    words: BTreeMap<(IpAddr, u8, u8), Word>,
    pairs: BTreeMap<(PointId, IpAddr, IpAddr), Pair>,
    alive: BTreeSet<IpAddr>,
    lessors: BTreeSet<IpAddr>,
    last: Timestamp,
}

#[derive(Debug, Default)]
struct Pair {
    sent: u64,
    rejected: u64,
    lost: u64,
    round_trips: Distribution,
    /// The unanswered pings by identifier and sequence number, with the time at which each was
    /// sent.
    open: BTreeMap<(u16, u16), Timestamp>,
    /// The identifier and sequence number of the latest ping, for recognizing copies.
    latest: Option<(u16, u16)>,
}

impl Words {
    /// Records an ICMP error about a TCP or UDP packet.
    pub(crate) fn error(&mut self, error: &IcmpError) {
        self.last = self.last.max(error.at);
        let target = error.flow.destination(error.direction).addr;
        self.word(target, error.reporter, error.kind, error.number, false);
    }

    /// Records an echo request or an echo reply.
    pub(crate) fn echo(&mut self, echo: &Echo) {
        self.last = self.last.max(echo.at);
        if let EchoStep::Rejected { reporter, kind } = echo.step {
            self.word(echo.target, reporter, kind, echo.number, true);
        }
        let is_answer = echo.step == EchoStep::Reply;
        if is_answer && self.alive.len() < MAX_ALIVE {
            self.alive.insert(echo.target);
        }
        let key = (echo.point, echo.asker, echo.target);
        if self.pairs.len() < MAX_PAIRS || self.pairs.contains_key(&key) {
            self.pairs.entry(key).or_default().add_echo(echo);
        }
    }

    /// Records a datagram. It shows that its sender is alive.
    pub(crate) fn datagram(&mut self, datagram: &Datagram) {
        self.last = self.last.max(datagram.at);
        let source = datagram.flow.source(datagram.direction);
        if self.alive.len() < MAX_ALIVE {
            self.alive.insert(source.addr);
        }
        if source.port == DHCP_SERVER && self.lessors.len() < MAX_ALIVE {
            self.lessors.insert(source.addr);
        }
    }

    fn word(
        &mut self,
        target: IpAddr,
        reporter: IpAddr,
        kind: IcmpKind,
        number: u64,
        is_ping: bool,
    ) {
        let (of, code) = kind.wire(target.is_ipv4());
        let key = (target, of, code);
        if self.words.len() >= MAX_WORDS && !self.words.contains_key(&key) {
            return;
        }
        let word = self.words.entry(key).or_insert_with(|| Word {
            target,
            kind,
            count: 0,
            reporters: BTreeSet::new(),
            packets: Vec::new(),
            pings: 0,
        });
        word.count += 1;
        word.pings += u64::from(is_ping);
        if let (IcmpKind::TooBig(least), IcmpKind::TooBig(mtu)) = (word.kind, kind) {
            word.kind = IcmpKind::TooBig(least.min(mtu));
        }
        if word.reporters.len() < MAX_REPORTERS {
            word.reporters.insert(reporter);
        }
        if word.packets.len() < MAX_PACKETS {
            word.packets.push(number);
        }
    }

    /// Returns the totals of the errors and pings so far.
    pub(crate) fn totals(&self) -> IcmpTotals {
        let mut seen = BTreeSet::new();
        let pairs = self.pairs.iter();
        // A ping that two capture points saw counts once.
        let pairs = pairs.filter(|((_, asker, target), _)| seen.insert((*asker, *target)));
        let pings = pairs.map(|(&(_, asker, target), pair)| Pings {
            asker,
            target,
            sent: pair.sent,
            rejected: pair.rejected,
            lost: pair.lost + pair.overdue(self.last),
            round_trips: pair.round_trips.clone(),
        });
        IcmpTotals {
            pings: pings.collect(),
            words: self.words.values().cloned().collect(),
            alive: self.alive.clone(),
            lessors: self.lessors.clone(),
        }
    }
}

impl Pair {
    fn add_echo(&mut self, echo: &Echo) {
        let key = (echo.id, echo.seq);
        match echo.step {
            EchoStep::Request => self.send(key, echo.at),
            EchoStep::Reply => {
                if let Some(sent) = self.open.remove(&key) {
                    self.round_trips.record(echo.at.since(sent));
                }
            }
            EchoStep::Rejected { .. } => {
                self.rejected += u64::from(self.open.remove(&key).is_some());
            }
        }
    }

    fn send(&mut self, key: (u16, u16), at: Timestamp) {
        if self.latest.replace(key) == Some(key) {
            // The packet is a copy, as in captures on the `any` interface and on mirror ports.
            return;
        }
        self.sent += 1;
        // Sequence numbers repeat. If the number of an unanswered ping is used again, that ping was
        // lost.
        self.lost += u64::from(self.open.insert(key, at).is_some());
        while self.open.len() > MAX_OPEN {
            let oldest = self.open.iter().min_by_key(|&(key, at)| (*at, *key));
            let oldest = oldest.map(|(&key, _)| key);
            self.lost += u64::from(oldest.is_some_and(|key| self.open.remove(&key).is_some()));
        }
    }

    fn overdue(&self, last: Timestamp) -> u64 {
        let overdue = self
            .open
            .values()
            .filter(|at| last.since(**at) >= LATEST_REPLY);
        overdue.count() as u64
    }
}

impl IcmpTotals {
    /// Returns true if the error is about the pings of DHCP servers, which ping an address before
    /// they offer it: that nobody has it is what they hope for (RFC 2131 §2.2).
    pub(crate) fn is_conflict_check(&self, word: &Word) -> bool {
        let askers = self
            .pings
            .iter()
            .filter(|pings| pings.target == word.target);
        let mut askers = askers.peekable();
        word.pings == word.count
            && askers.peek().is_some()
            && askers.all(|pings| self.lessors.contains(&pings.asker))
    }
}

impl Word {
    /// Returns true if the host that the error is about sent it itself.
    pub(crate) fn is_by_target(&self) -> bool {
        self.reporters.iter().eq([&self.target])
    }
}

impl Pings {
    /// Returns the number of pings that were answered.
    pub(crate) fn answered(&self) -> u64 {
        self.round_trips.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::{Endpoint, FlowKey, Transport};

    const ASKER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const TARGET: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));

    fn echo(ms: i64, point: u16, seq: u16, step: EchoStep) -> Echo {
        Echo {
            at: Timestamp::from_nanos(ms * 1_000_000),
            number: ms as u64 + 1,
            point: PointId(point),
            asker: ASKER,
            target: TARGET,
            id: 1,
            seq,
            step,
        }
    }

    /// Returns the totals of forty pings, one per second: every fifth is lost, and the last one is
    /// still unanswered.
    fn pinged(trip: i64, points: u16) -> Pings {
        let mut words = Words::default();
        for seq in 0..40 {
            for point in 0..points {
                let at = i64::from(seq) * 1000;
                words.echo(&echo(at, point, seq, EchoStep::Request));
                words.echo(&echo(at, point, seq, EchoStep::Request));
                if seq % 5 != 4 {
                    words.echo(&echo(at + trip, point, seq, EchoStep::Reply));
                }
            }
        }
        let [pings] = words.totals().pings.try_into().expect("one pair of hosts");
        pings
    }

    #[test]
    fn pings_are_paired_and_copies_other_points_and_the_last_one_do_not_count() {
        for (trip, points) in [(1, 1), (37, 2), (480, 1)] {
            let pings = pinged(trip, points);
            assert_eq!((pings.sent, pings.answered(), pings.lost), (40, 32, 7));
            let typical = pings.round_trips.quantile(0.5).expect("answers");
            let off = typical.as_millis() as i64 - trip;
            assert!(off.abs() <= 1 + trip / 50, "{typical:?} of {trip} ms");
        }
    }

    /// Returns a datagram from `port` of the host that pings.
    fn datagram(port: u16) -> Datagram {
        let (flow, direction) = FlowKey::new(
            Transport::Udp,
            Endpoint::new(ASKER, port),
            Endpoint::new([10, 0, 0, 3].into(), 68),
        );
        Datagram {
            at: Timestamp::from_nanos(0),
            number: 1,
            point: PointId(0),
            flow,
            direction,
            payload_len: 300,
            sent_by: crate::observed::segment::SentBy::Unknown,
        }
    }

    #[test]
    fn the_ping_of_a_dhcp_server_checks_that_nobody_has_the_address() {
        let is_check = |port| {
            let mut words = Words::default();
            words.datagram(&datagram(port));
            words.echo(&echo(1, 0, 1, EchoStep::Request));
            let reporter = IpAddr::from([10, 0, 0, 4]);
            let kind = IcmpKind::Unreachable(1);
            words.echo(&echo(2, 0, 1, EchoStep::Rejected { reporter, kind }));
            let totals = words.totals();
            totals
                .words
                .iter()
                .all(|word| totals.is_conflict_check(word))
        };
        assert!(is_check(DHCP_SERVER));
        assert!(!is_check(68));
    }

    #[test]
    fn what_is_said_is_counted_by_kind_and_target_however_much_comes() {
        let mut words = Words::default();
        for seq in 0..2000 {
            let reporter = IpAddr::V4(core::net::Ipv4Addr::from(seq as u32 % 20));
            let kind = IcmpKind::Unreachable((seq % 2) as u8);
            let step = EchoStep::Rejected { reporter, kind };
            words.echo(&echo(i64::from(seq), 0, seq, step));
        }
        let told = words.totals();
        assert_eq!(told.words.len(), 2);
        assert!(told.words.iter().all(|word| word.count == 1000));
        assert!(
            told.words
                .iter()
                .all(|word| word.reporters.len() <= MAX_REPORTERS)
        );
        assert!(
            told.words
                .iter()
                .all(|word| word.packets.len() <= MAX_PACKETS)
        );
    }
}
