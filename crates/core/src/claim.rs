//! A claim: what a rule says of a service, typed, before it is judged and put into words.
//!
//! Rules make claims; later steps relate them, judge them, and book their time. Only the last step
//! makes a [`Finding`](crate::report::Finding) of each.

mod advice;
mod statement;

use std::collections::BTreeSet;

pub(crate) use advice::{Advice, Tunable};
pub(crate) use statement::Statement;

use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::flow::Endpoint;
use crate::registry::Id;
use crate::report::{
    Affected, Candidate, EvidenceKind, Exemplar, Location, Prediction, RuledOut, Unit, Verdict,
};
use crate::service::tally::Cost;

/// One kind of evidence makes a strong verdict if it was seen at least this many times.
pub(crate) const REPEATS: u64 = 5;

/// A cause that a rule found at a service.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) cause: Id,
    /// The service. The port is 0 if the claim is about the host.
    pub(crate) at: Endpoint,
    /// Whom the service waits for.
    pub(crate) callee: Option<Callee>,
    /// The party that has to change something.
    pub(crate) culprit: Owner,
    pub(crate) time: Time,
    pub(crate) affected: Affected,
    pub(crate) unit: Unit,
    pub(crate) basis: Basis,
    pub(crate) evidence: Vec<Statement>,
    pub(crate) ruled_out: Vec<RuledOut>,
    pub(crate) candidates: Vec<Candidate>,
    /// The changes to make, best first.
    pub(crate) advice: Vec<Advice>,
    pub(crate) exemplars: Vec<Exemplar>,
    pub(crate) text: ClaimText,
    /// The place of the claim's time, as far as it was booked.
    pub(crate) location: Option<Location>,
}

/// Another service whose answers a service waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Callee {
    pub(crate) at: Endpoint,
    /// True if it could not be reached. Claims on its silence become part of the one that waits.
    pub(crate) is_silent: bool,
}

/// The time that a claim is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Time {
    /// The time that the affected exchanges would have saved without the cause.
    pub(crate) cost: Cost,
    /// Time during which at least one exchange suffered from the cause, in nanoseconds.
    pub(crate) wall_ns: u64,
    /// The time of which the cost is a part, in nanoseconds: that of the exchanges alone, or with
    /// what precedes or surrounds them.
    pub(crate) whole_ns: u64,
    /// The kinds of wait that the cause lengthens.
    pub(crate) waits: Vec<WaitKind>,
    pub(crate) predicted: Option<Prediction>,
}

impl Time {
    /// Returns the cost as a share of the whole time, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        (self.cost.likely as f64 / self.whole_ns.max(1) as f64).min(1.0)
    }

    /// Adds the time of a consequence. Of two whole times, the longer one contains the other: that
    /// of the requests is a part of their time including connection setup.
    pub(crate) fn take_in(&mut self, other: &Self) {
        self.cost = self.cost.plus(other.cost);
        self.whole_ns = self.whole_ns.max(other.whole_ns);
        for &wait in &other.waits {
            if !self.waits.contains(&wait) {
                self.waits.push(wait);
            }
        }
    }

    /// Keeps a part of the cost, 0 to 1. How much of each exchange it is remains unknown, so nothing is
    /// predicted.
    pub(crate) fn take_part(&mut self, part: f64) {
        let of = |ns: u64| (ns as f64 * part.clamp(0.0, 1.0)).round() as u64;
        self.cost = Cost {
            low: of(self.cost.low),
            likely: of(self.cost.likely),
            high: of(self.cost.high),
        };
        self.predicted = None;
    }

    /// Sets an exact cost in nanoseconds.
    pub(crate) fn cost_exactly(&mut self, ns: u64) {
        self.cost = Cost {
            low: ns,
            likely: ns,
            high: ns,
        };
    }
}

/// The texts of a claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimText {
    pub(crate) title: String,
    pub(crate) summary: String,
    /// The observation that would overturn the claim.
    pub(crate) overturned_by: String,
    /// The measurement that would give more information.
    pub(crate) next: Vec<Advice>,
}

/// The grounds of a claim's certainty, besides its evidence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Basis {
    /// Number of times that the mechanism was seen.
    repeats: u64,
    /// True if a cause that looks alike is not ruled out.
    has_look_alike: bool,
    ceiling: Option<Ceiling>,
    /// The verdict on a claim of the same cause that was merged into this one.
    other: Verdict,
}

/// The reason that a claim is *possible* at most, whatever its evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ceiling {
    /// Any host may show it once or twice.
    Rare,
    /// The service answers other requests properly.
    WorksAtTimes,
    /// No kernel of the capture's time did it.
    BeforeItsTime,
    /// Processors were short, and others used them.
    LacksProcessors,
    /// The kernel gives most of the joined waits another name; the others were not joined.
    Renamed,
    /// The time passed in the server's kernel, but not in its program.
    NotInProgram,
    /// One end's packets and sockets show the same, and another reason would look alike at this end.
    OneEnd,
    /// The packets' timestamps are artificial.
    ArtificialTimes,
    /// The data of both ends arrives at the same intervals.
    OnePace,
}

impl Basis {
    /// Returns the basis of a mechanism that was seen `repeats` times.
    pub(crate) fn new(repeats: u64, has_look_alike: bool) -> Self {
        Self {
            repeats,
            has_look_alike,
            ..Self::default()
        }
    }

    /// Makes the claim *possible* at most.
    pub(crate) fn cap(&mut self, why: Ceiling) {
        self.ceiling = Some(why);
        self.other = Verdict::Possible;
    }
}

impl Claim {
    /// Returns a claim without time, evidence and words.
    pub(crate) fn blank(cause: Id, culprit: Owner, at: Endpoint) -> Self {
        let row = cause.cause();
        Self {
            cause,
            at,
            callee: None,
            culprit,
            time: Time {
                waits: row.waits.to_vec(),
                ..Time::default()
            },
            affected: Affected::default(),
            unit: Unit::default(),
            basis: Basis::default(),
            evidence: Vec::new(),
            ruled_out: Vec::new(),
            candidates: Vec::new(),
            advice: Vec::new(),
            exemplars: Vec::new(),
            text: ClaimText {
                title: row.title.to_owned(),
                ..ClaimText::default()
            },
            location: None,
        }
    }

    /// Returns the name of the service; without a port, the address of the host.
    pub(crate) fn service(&self) -> String {
        match self.at.port {
            0 => self.at.addr.to_string(),
            _ => self.at.to_string(),
        }
    }

    /// Returns true if the claim only locates time that no cause explains.
    pub(crate) fn locates(&self) -> bool {
        self.cause.cause().is_place
    }

    /// Returns the verdict on the cause.
    pub(crate) fn verdict(&self) -> Verdict {
        let row = self.cause.cause();
        if row.says_only_where || row.is_place {
            Verdict::Possible
        } else {
            self.verdict_on_place()
        }
    }

    /// Returns the verdict on the cause, or on the place of its time if the cause says only that.
    ///
    /// *Proven*: an intervention with its control, or two kinds of evidence that both show the
    /// mechanism. *Strong*: one kind of evidence, repeated, if all look-alikes are ruled out.
    /// *Possible*: all other cases, and whatever is contradicted.
    pub(crate) fn verdict_on_place(&self) -> Verdict {
        let is_contradicted = self.own_evidence().any(Statement::is_against);
        let own = if self.basis.ceiling.is_some() || is_contradicted {
            Verdict::Possible
        } else {
            self.shown()
        };
        own.max(self.basis.other)
    }

    /// Merges another claim on the same cause of the same service, found among other data. The
    /// dearer one stays, and gets the other's evidence; each is judged by its own.
    pub(crate) fn join(&mut self, mut other: Self) {
        if other.time.cost.likely > self.time.cost.likely {
            core::mem::swap(self, &mut other);
        }
        self.basis.other = self.basis.other.max(other.verdict_on_place());
        self.inherit(other);
    }

    /// Puts advice in the place of the general advice on the same tunable or, if there is none, at
    /// `at`.
    pub(crate) fn advise(&mut self, on: Option<Tunable>, advice: Advice, at: usize) {
        let is_general = |general: &&mut Advice| on.is_some_and(|on| general.turns(on));
        match self.advice.iter_mut().find(is_general) {
            Some(general) => *general = advice,
            None => self.advice.insert(at.min(self.advice.len()), advice),
        }
    }

    /// Takes over the evidence for a claim that is merged into this one.
    pub(crate) fn inherit(&mut self, other: Self) {
        let other = other.evidence.into_iter();
        let supporting = other.filter(|statement| !statement.is_against());
        self.evidence.extend(supporting.map(Statement::inherited));
    }

    /// Returns the evidence on which the claim is judged.
    pub(crate) fn own_evidence(&self) -> impl Iterator<Item = &Statement> {
        self.evidence.iter().filter(|statement| statement.is_own())
    }

    /// Returns the verdict that the evidence for the claim allows.
    fn shown(&self) -> Verdict {
        let showing = self.own_evidence().filter(|one| one.shows_mechanism());
        let kinds: BTreeSet<EvidenceKind> = showing.map(Statement::kind).collect();
        let basis = &self.basis;
        if kinds.contains(&EvidenceKind::Intervention) || kinds.len() >= 2 {
            Verdict::Proven
        } else if kinds.len() == 1 && basis.repeats >= REPEATS && !basis.has_look_alike {
            Verdict::Strong
        } else {
            Verdict::Possible
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(evidence: &[Statement], basis: Basis) -> Claim {
        let at = Endpoint::new([10, 0, 0, 2].into(), 80);
        Claim {
            evidence: evidence.to_vec(),
            basis,
            ..Claim::blank(Id::NagleDelayedAck, Owner::Server, at)
        }
    }

    fn wire() -> Statement {
        Statement::shows(EvidenceKind::Wire, "")
    }

    fn calls() -> Statement {
        Statement::shows(EvidenceKind::ForeignSocket, "")
    }

    fn tried() -> Statement {
        Statement::shows(EvidenceKind::Intervention, "")
    }

    #[test]
    fn one_kind_of_evidence_never_proves_but_an_intervention_does() {
        let fits = || Statement::fits(EvidenceKind::Configuration, "");
        let cases = [
            (vec![wire()], 100, false, Verdict::Strong),
            (vec![wire(), wire(), fits()], 100, false, Verdict::Strong),
            (vec![wire()], 4, false, Verdict::Possible),
            (vec![wire()], 100, true, Verdict::Possible),
            (vec![fits()], 100, false, Verdict::Possible),
            (vec![wire(), calls()], 100, false, Verdict::Proven),
            (vec![tried()], 1, false, Verdict::Proven),
        ];
        for (evidence, repeats, has_look_alike, expected) in cases {
            let verdict = claim(&evidence, Basis::new(repeats, has_look_alike)).verdict();
            assert_eq!(verdict, expected, "{evidence:?}");
        }
    }

    #[test]
    fn what_is_contradicted_or_capped_is_possible_whatever_shows_it() {
        let shown = [wire(), calls(), tried()];
        let mut capped = claim(&shown, Basis::new(100, false));
        capped.basis.cap(Ceiling::Rare);
        let mut contradicted = claim(&shown, Basis::new(100, false));
        let against = Statement::contradicts(EvidenceKind::Configuration, "");
        contradicted.evidence.push(against);
        for claim in [&contradicted, &capped] {
            assert_eq!(claim.verdict(), Verdict::Possible, "{claim:?}");
        }
        // What contradicts a consequence does not contradict its cause.
        let mut root = claim(&shown, Basis::new(100, false));
        root.inherit(contradicted);
        assert_eq!((root.verdict(), root.evidence.len()), (Verdict::Proven, 6));
    }

    #[test]
    fn inherited_evidence_proves_nothing() {
        let mut root = claim(&[wire()], Basis::new(100, false));
        root.inherit(claim(&[calls(), tried()], Basis::new(100, false)));
        assert_eq!(root.verdict(), Verdict::Strong);
        assert_eq!(root.evidence.len(), 3);
    }

    #[test]
    fn of_two_claims_on_one_cause_the_dearer_stays_with_the_greater_verdict() {
        let told = |seen: &[Statement], cost: u64| {
            let mut claim = claim(seen, Basis::new(100, false));
            claim.time.cost_exactly(cost);
            claim
        };
        for costs in [[10, 20], [20, 10]] {
            let [proven, strong] = costs;
            let mut one = told(&[tried()], proven);
            one.join(told(&[wire()], strong));
            assert_eq!(one.verdict(), Verdict::Proven, "{costs:?}");
            assert_eq!(one.time.cost.likely, 20);
            assert_eq!(one.evidence.len(), 2);
        }
        // Neither is proven by what both show together.
        let mut one = told(&[wire()], 10);
        one.join(told(&[calls()], 20));
        assert_eq!(one.verdict(), Verdict::Strong);
    }

    #[test]
    fn a_cause_that_says_only_where_is_certain_of_the_place_alone() {
        let at = Endpoint::new([10, 0, 0, 2].into(), 80);
        let mut claim = Claim::blank(Id::ServerThink, Owner::Server, at);
        assert!(claim.cause.cause().says_only_where);
        claim.evidence = vec![wire(), calls()];
        assert_eq!(claim.verdict(), Verdict::Possible);
        assert_eq!(claim.verdict_on_place(), Verdict::Proven);
    }
}
