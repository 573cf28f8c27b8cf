//! Calls of a server's host that fill the waits of the server's clients, in a capture that contains
//! them.
//!
//! [`upstream`](super::upstream) follows one request to one upstream. Here, a wait may consist of
//! many calls, of lookups, and of attempts to connect to addresses that do not answer.

mod tie;

use core::cell::OnceCell;
use core::time::Duration;
use std::collections::BTreeMap;

use super::calls::{Call, CallKind, HostCalls};
use super::evidence::{self, ORDINARY_WORK};
use super::rhythm::{Rhythm, quantile, sorted};
use super::{Case, Id};
use crate::claim::{Basis, Callee, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::flow::Endpoint;
use crate::report::EvidenceKind;
use crate::service::tally::Tally;
use crate::service::timeline::Moment;
use tie::Tie;

/// Minimum median number of requests that a server sends to another one for each of its own requests,
/// one after another, for their number to be the reason.
pub(super) const MANY: usize = 5;
/// Minimum number if the way there takes most of each.
pub(super) const FEW_FAR: usize = 3;
/// Minimum share of the calls' time for the part that is the reason.
const MAINLY: f64 = 0.5;

/// The waits of a service that calls of its host fill.
#[derive(Debug)]
pub(crate) struct Behind {
    ties: Vec<Tie>,
    /// The requests as the observation point of the calls saw them.
    moments: Vec<Moment>,
    /// Number of requests that each of them represents.
    weight: f64,
    /// The results of [`Behind::claimed`]. They are cached because several rules need them.
    claimed: OnceCell<Vec<CallDelay>>,
}

/// Why the calls take so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DelayReason {
    /// Another host or a resolver does not answer.
    IsSilent,
    /// Each request opens a new connection.
    Connects,
    /// Many requests follow one another.
    Repeats,
    /// The callee takes the time.
    IsSlow,
    /// The way to the callee takes the time: its length, or what is sent over it.
    IsFar,
}

/// A reason with the requests that it delays.
#[derive(Clone, Debug)]
pub(super) struct CallDelay {
    pub(super) reason: DelayReason,
    /// The callee.
    pub(super) behind: Endpoint,
    /// True if a resolver was asked for a name.
    pub(super) is_lookup: bool,
    /// True if the callee may be far away, and not late.
    pub(super) may_be_far: bool,
    pub(super) tally: Tally,
    /// Median number of calls in each wait, and median time of each call and of the callee's part.
    pub(super) calls: usize,
    pub(super) each: Duration,
    pub(super) own: Duration,
}

impl Behind {
    /// Returns the calls that fill waits of `front`; `None` if the capture shows none.
    pub(crate) fn of(front: Endpoint, rhythm: &Rhythm, calls: &HostCalls) -> Option<Self> {
        if !rhythm.moments.iter().any(|m| m.think() >= ORDINARY_WORK) {
            return None;
        }
        let own = calls.of_host(front);
        let kept_until = calls.kept_until(&own);
        let extents = rhythm.extents();
        let found = rhythm.views().map(|view| {
            // Of later requests, the calls are not known.
            let mut moments = view.moments.into_owned();
            let all = moments.len() as f64;
            moments.retain(|moment| kept_until.is_none_or(|until| moment.answered <= until));
            let mut ties = tie::ties(&moments, &own);
            for front in ties
                .iter_mut()
                .map(|tie| &mut tie.front)
                .chain(&mut moments)
            {
                *front = extents.of(*front);
            }
            Self {
                ties,
                weight: view.weight * all / (moments.len() as f64).max(1.0),
                moments,
                claimed: OnceCell::new(),
            }
        });
        let most = found.max_by_key(|found| found.ties.len());
        most.filter(|found| !found.ties.is_empty())
    }

    /// Returns the reasons whose cost matters.
    pub(super) fn claimed(&self, case: &Case<'_>) -> &[CallDelay] {
        self.claimed.get_or_init(|| self.weigh(case))
    }

    /// Returns true if what is claimed takes most of the time of all waits.
    pub(super) fn explains_most(&self, case: &Case<'_>) -> bool {
        let claimed = self.claimed(case).iter();
        let claimed: u64 = claimed.map(|delay| delay.tally.cost.likely).sum();
        let slow = self.moments.iter().map(Moment::think);
        let waited: Duration = slow.filter(|think| *think >= ORDINARY_WORK).sum();
        claimed as f64 >= waited.as_nanos() as f64 * self.weight * MAINLY
    }

    fn weigh(&self, case: &Case<'_>) -> Vec<CallDelay> {
        // One request to one upstream is told by the rules on the upstream.
        let is_told = case
            .upstream
            .is_some_and(|upstream| upstream.claim(case).is_some());
        let delays = [self.silent(), self.connecting(), self.requests()];
        // Silence is rare, and even one long wait for it is no coincidence of ordinary calls.
        let matters = |delay: &CallDelay| {
            let is_silent = delay.reason == DelayReason::IsSilent;
            let is_shown = || {
                evidence::is_repeated(case, &delay.tally)
                    && evidence::stands_out(case, &delay.tally)
            };
            (is_silent || !is_told && is_shown()) && evidence::is_material(case, &delay.tally)
        };
        delays.into_iter().flatten().filter(matters).collect()
    }

    /// Returns what does not answer. It is met rarely, so single waits count if they fit closely.
    fn silent(&self) -> Option<CallDelay> {
        let delay = self.delay(DelayReason::IsSilent)?;
        let mut close = self.ties.iter().filter(|tie| tie.is_close());
        let is_met = delay.tally.affected >= evidence::REPEATS
            || close.any(|tie| !tie.waited(|call| delay.has(call)).is_zero());
        is_met.then_some(delay)
    }

    /// Returns the connections that are made for most of the requests.
    fn connecting(&self) -> Option<CallDelay> {
        let has = |tie: &Tie, kind| tie.parts.iter().any(|(call, _)| call.kind == kind);
        let count = |kind| self.ties.iter().filter(|tie| has(tie, kind)).count() as f64;
        let is_usual = count(CallKind::Connecting) >= count(CallKind::Request) * MAINLY;
        self.delay(DelayReason::Connects).filter(|_| is_usual)
    }

    /// Returns the reason that requests and lookups take the time, if one stands out. Of a series of
    /// calls, a single one may take most of the time.
    fn requests(&self) -> Option<CallDelay> {
        let delay = self.delay(DelayReason::IsSlow)?;
        let longest = self.ties.iter().filter_map(|tie| longest(tie, &delay));
        let longest: Vec<(Call, Duration)> = longest.collect();
        let waited = self
            .ties
            .iter()
            .map(|tie| tie.waited(|call| delay.has(call)));
        let share = |of: Duration, all: Duration| of.as_secs_f64() / all.as_secs_f64();
        let most: Duration = longest.iter().map(|(_, part)| *part).sum();
        let own: Duration = longest.iter().map(|(call, part)| call.own.min(*part)).sum();
        let (is_one, is_own) = (
            share(most, waited.sum()) >= MAINLY,
            share(own, most) >= MAINLY,
        );
        let many = if is_own { MANY } else { FEW_FAR };
        if delay.calls >= many && !is_one {
            let reason = DelayReason::Repeats;
            return Some(CallDelay { reason, ..delay });
        }
        let is_slow = is_own || delay.is_lookup;
        Some(CallDelay {
            reason: if is_slow {
                DelayReason::IsSlow
            } else {
                DelayReason::IsFar
            },
            each: quantile(&sorted(longest.iter().map(|(_, part)| *part)), 0.5),
            ..delay
        })
    }

    /// Returns the calls that `reason` is about, to the callee that takes most of their time; `None` if
    /// there are none.
    fn delay(&self, reason: DelayReason) -> Option<CallDelay> {
        let parts = || self.ties.iter().flat_map(|tie| &tie.parts);
        let mut times: BTreeMap<Endpoint, Duration> = BTreeMap::new();
        for (call, part) in parts().filter(|(call, _)| reason.is_about(call)) {
            *times.entry(call.to).or_default() += *part;
        }
        let (&behind, _) = times.iter().max_by_key(|(to, time)| (**time, **to))?;
        let is_meant = |call: &Call| call.to == behind && reason.is_about(call);
        let (mut tally, mut counts) = (Tally::default(), Vec::new());
        for tie in &self.ties {
            let waited = tie.waited(is_meant);
            if waited >= ORDINARY_WORK {
                tally.add_moment(&tie.front, waited, self.weight);
                counts.push(tie.parts.iter().filter(|(call, _)| is_meant(call)).count());
            }
        }
        counts.sort_unstable();
        let meant = || parts().filter(|(call, _)| is_meant(call));
        Some(CallDelay {
            reason,
            behind,
            is_lookup: meant().any(|(call, _)| call.is_lookup()),
            may_be_far: meant().filter(|(call, _)| call.may_be_far).count() * 2 > meant().count(),
            tally,
            calls: counts.get(counts.len() / 2).copied().unwrap_or_default(),
            each: quantile(&sorted(meant().map(|(_, part)| *part)), 0.5),
            own: quantile(&sorted(meant().map(|(call, _)| call.own)), 0.5),
        })
    }

    /// Returns the think time without what is claimed of it; `None` if nothing is.
    pub(super) fn rest(&self, case: &Case<'_>) -> Option<Tally> {
        let delays = self.claimed(case);
        if delays.is_empty() {
            return None;
        }
        let is_claimed = |call: &Call| delays.iter().any(|delay| delay.has(call));
        let key = |moment: &Moment| (moment.begin, moment.client);
        let claimed: BTreeMap<_, Duration> = self
            .ties
            .iter()
            .map(|tie| (key(&tie.front), tie.waited(is_claimed)))
            .collect();
        let mut tally = Tally::default();
        for moment in &self.moments {
            let claimed = claimed.get(&key(moment)).copied().unwrap_or_default();
            let rest = moment.think().saturating_sub(claimed);
            if rest >= ORDINARY_WORK {
                tally.add_moment(moment, rest, self.weight);
            }
        }
        Some(tally)
    }
}

impl DelayReason {
    fn is_about(self, call: &Call) -> bool {
        match self {
            Self::IsSilent => matches!(call.kind, CallKind::SilentPeer | CallKind::SilentResolver),
            Self::Connects => call.kind == CallKind::Connecting,
            Self::Repeats | Self::IsSlow | Self::IsFar => {
                matches!(call.kind, CallKind::Request | CallKind::Lookup)
            }
        }
    }
}

impl CallDelay {
    /// Returns true if the call's time is part of the claim.
    fn has(&self, call: &Call) -> bool {
        call.to == self.behind && self.reason.is_about(call)
    }

    /// Returns the claim on `id` with its cost and what shows it.
    pub(super) fn claim(&self, id: Id, case: &Case<'_>, text: String) -> Claim {
        let mut claim = evidence::claim(id, Owner::Server, case, &self.tally);
        claim.callee = Some(Callee {
            at: self.behind,
            is_silent: self.reason == DelayReason::IsSilent,
        });
        claim.exemplars = case.ledger.latency.slowest.exemplars();
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(self.tally.affected)
                .median(&self.tally.saved)
                .packets(&evidence::answers(&claim.exemplars)),
        );
        let may_be_far = self.reason == DelayReason::IsSlow && self.may_be_far;
        claim.basis = Basis::new(self.tally.affected, may_be_far);
        claim
    }
}

/// Returns the call that fills most of the wait, of those that `delay` is about.
fn longest(tie: &Tie, delay: &CallDelay) -> Option<(Call, Duration)> {
    let meant = tie.parts.iter().filter(|(call, _)| delay.has(call));
    meant.max_by_key(|(_, part)| *part).copied()
}

/// Returns what the calls of the server's host show of the service, if it is one of `reasons`.
pub(super) fn claimed<'a>(case: &Case<'a>, reasons: &[DelayReason]) -> Option<&'a CallDelay> {
    let behind = case.behind.filter(|_| case.has_packets)?;
    let mut delays = behind.claimed(case).iter();
    delays.find(|delay| reasons.contains(&delay.reason))
}

/// Returns true if the calls that packets show explain most of the service's waits: how long its
/// kernel saw it wait for calls says less then.
pub(super) fn explained(case: &Case<'_>) -> bool {
    let behind = case.behind.filter(|_| case.has_packets);
    behind.is_some_and(|behind| behind.explains_most(case))
}
