//! Which calls of a host belong to which of its requests.
//!
//! A call belongs to a request if it lies in the request's wait and, with the others, fills it: the
//! first begins soon after the server has the request, and the answer leaves soon after the last.
//! Calls at other times would fit now and then too. How often is tested: at moments that are moved
//! by a part of the wait, calls that have nothing to do with the requests fit as well.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::cause::calls::Call;
use crate::cause::evidence::ORDINARY_WORK;
use crate::observed::flow::Endpoint;
use crate::observed::time::{Timestamp, nanos};
use crate::service::timeline::Moment;

/// Minimum share of a wait that calls must fill.
const MAINLY: f64 = 0.5;
/// Maximum share of a wait before the first call, and after the last one.
const APART: f64 = 0.4;
/// Minimum part of what any calls fill that those on one connection must fill to be preferred.
const NEARLY: f64 = 0.8;
/// Maximum share of a wait before its first call and after its last one, if calls fit a single wait by
/// more than chance.
const CLOSELY: f64 = 0.02;
/// Maximum variation of one host's timestamps.
const JITTER: Duration = Duration::from_millis(1);
/// Maximum number of calls that are tried for one request.
const MAX_TRIED: usize = 512;
/// The parts of a median wait by which requests are moved, to earlier and to later times, to see how
/// often calls fit by chance. They are far enough from a whole that calls of neighbours do not fit.
const MOVED: [f64; 3] = [0.45, 0.7, 1.35];
/// Maximum share of the moved requests that calls fit as closely as the real ones.
const BY_CHANCE: f64 = 0.25;

/// A request with the calls for which its server waited.
#[derive(Clone, Debug)]
pub(super) struct Tie {
    pub(super) front: Moment,
    /// The index of the wait.
    wait: usize,
    /// The calls, each with the part of the wait that it fills.
    pub(super) parts: Vec<(Call, Duration)>,
    /// The time before the first call and after the last one.
    apart: Duration,
    /// True if all calls went over one connection, while other requests had calls as well.
    is_of_one: bool,
}

impl Tie {
    /// Returns true if calls fill nearly all of the wait.
    pub(super) fn is_close(&self) -> bool {
        self.apart.as_secs_f64() <= self.front.think().as_secs_f64() * CLOSELY
    }

    /// Returns the part of the wait that the calls fill.
    fn filled(&self) -> Duration {
        self.parts.iter().map(|(_, part)| *part).sum()
    }

    /// Returns the part of the wait that the calls that `is_meant` fill.
    pub(super) fn waited(&self, is_meant: impl Fn(&Call) -> bool) -> Duration {
        let meant = self.parts.iter().filter(|(call, _)| is_meant(call));
        meant.map(|(_, part)| *part).sum()
    }
}

/// A wait of a server, and whether another one overlaps with it.
#[derive(Clone, Copy, Debug)]
struct ServerWait {
    front: Moment,
    is_alone: bool,
}

/// Returns the slow requests of `moments` that wait for `calls`, which are in the order in which they
/// began; none if calls fit at other times as well.
pub(super) fn ties(moments: &[Moment], calls: &[Call]) -> Vec<Tie> {
    let waits = waits(moments);
    if waits.is_empty() || calls.is_empty() {
        return Vec::new();
    }
    let found = fitting(&waits, calls);
    if found.is_empty() || !is_more_than_chance(&waits, &found, calls) {
        return Vec::new();
    }
    found
}

/// Returns the slow ones of the requests, in the order in which they were answered.
fn waits(moments: &[Moment]) -> Vec<ServerWait> {
    let mut all: Vec<Moment> = moments.iter().filter(|m| m.is_clear).copied().collect();
    all.sort_by_key(|moment| (moment.asked, moment.client));
    let mut busy_until = Timestamp::MIN;
    let mut waits: Vec<ServerWait> = Vec::new();
    for (at, &front) in all.iter().enumerate() {
        let next = all.get(at + 1).map(|next| next.asked);
        let is_alone = busy_until <= front.asked && next.is_none_or(|next| next >= front.answered);
        busy_until = busy_until.max(front.answered);
        if front.think() >= ORDINARY_WORK {
            waits.push(ServerWait { front, is_alone });
        }
    }
    waits.sort_by_key(|wait| (wait.front.answered, wait.front.client));
    waits
}

/// Returns the waits that calls fill. Each call is counted for one of them.
fn fitting(waits: &[ServerWait], calls: &[Call]) -> Vec<Tie> {
    let mut taken = BTreeSet::new();
    let mut ties = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let front = &wait.front;
        let from = calls.partition_point(|call| call.begin + JITTER < front.begin);
        let within: Vec<(usize, Call)> = (from..)
            .zip(calls.iter().skip(from).copied())
            .take_while(|(_, call)| call.begin < front.answered)
            .take(MAX_TRIED)
            .filter(|(at, call)| is_within(front, call) && !taken.contains(at))
            .collect();
        if let Some((used, tie)) = best(wait, &within) {
            // Several requests may wait for one lookup.
            let is_single = |at: &usize| calls.get(*at).is_some_and(|call| !call.is_lookup());
            taken.extend(used.into_iter().filter(is_single));
            ties.push(Tie { wait: index, ..tie });
        }
    }
    ties
}

/// Returns true if the server of `front` may have made the call for it.
fn is_within(front: &Moment, call: &Call) -> bool {
    call.is_seen_with(front)
        && call.caller != front.client
        && call.caller.addr != front.client.addr
        && call
            .answered
            .is_none_or(|answered| answered <= front.answered + JITTER)
}

/// Returns the calls that fill the wait, with their indices. While others wait, their calls are among
/// these, and only those on one connection belong together.
fn best(wait: &ServerWait, within: &[(usize, Call)]) -> Option<(Vec<usize>, Tie)> {
    let of = |chosen: Vec<(usize, Call)>| {
        let tie = tie(&wait.front, chosen.iter().map(|(_, call)| *call).collect())?;
        Some((chosen.into_iter().map(|(at, _)| at).collect(), tie))
    };
    if wait.is_alone {
        return of(within.to_vec());
    }
    let callers: BTreeSet<Endpoint> = within.iter().map(|(_, call)| call.caller).collect();
    let of_caller = |caller: Endpoint| {
        let own = within.iter().filter(|(_, call)| call.caller == caller);
        of(followed(&wait.front, own.copied().collect(), within))
    };
    let apart = |(_, tie): &(Vec<usize>, Tie)| tie.apart;
    let own = callers.into_iter().filter_map(of_caller).min_by_key(apart);
    let any = of(chain(&wait.front, within));
    let filled = any.as_ref().map(|(_, tie)| tie.filled());
    let filled = filled.unwrap_or_default().as_secs_f64();
    // Calls for other requests fill nearly any wait, so those on one connection say more.
    match own {
        Some((used, tie)) if tie.filled().as_secs_f64() >= filled * NEARLY => {
            let is_of_one = true;
            Some((used, Tie { is_of_one, ..tie }))
        }
        own => own.into_iter().chain(any).min_by_key(apart),
    }
}

/// Adds to the calls on one connection what followed if the last of them got no answer: it was given up
/// before the call whose answer the wait's own answer followed.
fn followed(
    front: &Moment,
    mut own: Vec<(usize, Call)>,
    within: &[(usize, Call)],
) -> Vec<(usize, Call)> {
    let Some((_, silent)) = own.last().filter(|(_, call)| call.answered.is_none()) else {
        return own;
    };
    let later = within.iter().filter(|(_, call)| call.begin > silent.begin);
    let last = later.filter_map(|&(at, call)| Some((call.answered?, at, call)));
    let last = last.max_by_key(|(answered, at, _)| (*answered, *at));
    let is_next = |answered: Timestamp| front.answered.since(answered) <= ORDINARY_WORK;
    own.extend(last.and_then(|(answered, at, call)| is_next(answered).then_some((at, call))));
    own
}

/// Returns calls that follow one another, over any connections: each is the first to begin after the
/// one before.
fn chain(front: &Moment, within: &[(usize, Call)]) -> Vec<(usize, Call)> {
    let (mut reached, mut chosen) = (front.asked, Vec::new());
    for &(at, call) in within {
        if call.begin + JITTER >= reached {
            chosen.push((at, call));
            // An attempt that is given up ends when the next one begins.
            reached = call
                .answered
                .map_or(call.begin, |answered| reached.max(answered));
        }
    }
    chosen
}

/// Returns the calls with the parts of the wait that they fill; `None` if they do not fill it.
fn tie(front: &Moment, calls: Vec<Call>) -> Option<Tie> {
    let first = calls.first()?.begin;
    let mut reached = front.asked;
    let mut parts = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let until = call.until(calls.get(at + 1), front.answered);
        let part = until.since(call.begin.max(reached));
        if !part.is_zero() {
            parts.push((*call, part));
        }
        reached = reached.max(until);
    }
    let think = front.think().as_secs_f64();
    let filled: Duration = parts.iter().map(|(_, part)| *part).sum();
    let (before, after) = (first.since(front.asked), front.answered.since(reached));
    let is_near = |gap: Duration| gap.as_secs_f64() <= think * APART;
    let fills = filled.as_secs_f64() >= think * MAINLY && is_near(before) && is_near(after);
    fills.then(|| Tie {
        front: *front,
        wait: 0,
        parts,
        apart: before + after,
        is_of_one: false,
    })
}

/// Returns true if calls fit the requests more closely than they fit the same requests at other times,
/// and more often as closely as half of these.
fn is_more_than_chance(waits: &[ServerWait], found: &[Tie], calls: &[Call]) -> bool {
    let mut thinks: Vec<Duration> = found.iter().map(|tie| tie.front.think()).collect();
    thinks.sort_unstable();
    let median = nanos(thinks.get(thinks.len() / 2).copied().unwrap_or_default());
    let moves = || MOVED.iter().flat_map(|part| [*part, -*part]);
    let by_chance = moves().flat_map(|part| {
        let moved = moved(waits, (median as f64 * part) as i64);
        fitting(&moved, calls)
    });
    let (own, close) = (OwnFit::of(found), CloseHalf::of(found));
    let (mut as_close, mut among_close) = (0, 0);
    for tie in by_chance {
        as_close += usize::from(own.is_as_close(&tie));
        among_close += usize::from(close.contains(&tie));
    }
    let few = |count: usize, of: usize| count as f64 <= (of * moves().count()) as f64 * BY_CHANCE;
    few(as_close, found.len()) && few(among_close, found.len().div_ceil(2))
}

/// The real fit of each wait, with which fits by chance are compared.
struct OwnFit<'a>(BTreeMap<usize, &'a Tie>);

impl<'a> OwnFit<'a> {
    fn of(found: &'a [Tie]) -> Self {
        Self(found.iter().map(|tie| (tie.wait, tie)).collect())
    }

    /// Returns true if calls fit as closely as the real ones fit the same wait. Calls over any
    /// connections are no match for calls over one.
    fn is_as_close(&self, tie: &Tie) -> bool {
        let real = self.0.get(&tie.wait);
        real.is_some_and(|real| tie.apart <= real.apart && tie.is_of_one >= real.is_of_one)
    }
}

/// The closest half of the real fits: how close they are, and whether most are over one connection.
struct CloseHalf {
    apart: Duration,
    is_of_one: bool,
}

impl CloseHalf {
    fn of(found: &[Tie]) -> Self {
        let mut aparts: Vec<Duration> = found.iter().map(|tie| tie.apart).collect();
        aparts.sort_unstable();
        let of_one = found.iter().filter(|tie| tie.is_of_one).count();
        Self {
            apart: aparts
                .get(aparts.len().div_ceil(2).saturating_sub(1))
                .copied()
                .unwrap_or_default(),
            is_of_one: of_one * 2 > found.len(),
        }
    }

    fn contains(&self, tie: &Tie) -> bool {
        tie.apart <= self.apart && tie.is_of_one >= self.is_of_one
    }
}

/// Returns the waits as if they had been `by` nanoseconds later.
fn moved(waits: &[ServerWait], by: i64) -> Vec<ServerWait> {
    let to = |at: Timestamp| Timestamp::from_nanos(at.as_nanos().saturating_add(by));
    let waits = waits.iter().map(|wait| ServerWait {
        front: Moment {
            begin: to(wait.front.begin),
            asked: to(wait.front.asked),
            answered: to(wait.front.answered),
            ..wait.front
        },
        ..*wait
    });
    waits.collect()
}
