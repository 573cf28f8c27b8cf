//! The rhythm of a server: the times at which it answers its requests, over all of its connections.
//!
//! Each reason why a server makes requests wait has its own pattern. Responses begin on the grid of
//! a timer, one at a time, or all together after a stall. A single exchange shows only
//! `server-think`.

mod gate;
mod slots;
mod stall;
mod stood;
mod timer;
mod view;

pub(super) use gate::{Gate, of_each_client};
pub(super) use slots::SlotQueue;
use stall::Course;
pub(super) use stall::{LONG_STALL, OCCASIONS, Stall};
pub(super) use stood::Stood;
pub(super) use timer::Ticks;
pub(super) use view::PointView;

use core::cell::OnceCell;
use core::time::Duration;

use super::{Case, evidence, kernel_place};
use crate::cause::service::Service;
use crate::observed::time::{Timestamp, nanos};
use crate::report::Candidate;
use crate::service::tally::Tally;
use crate::service::timeline::{self, Late, Moment};

/// Minimum number of exchanges for a rhythm.
const LEAST_MOMENTS: usize = 10;

/// The times of a server's requests and responses, with the pattern that was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rhythm {
    /// The exchanges, in the order in which they began.
    pub(crate) moments: Vec<Moment>,
    /// The exchanges that other observation points saw.
    elsewhere: Vec<Moment>,
    /// Number of exchanges that each moment represents.
    pub(super) weight: f64,
    /// True if all requests come from the host of an investigation's target, whatever address and
    /// interface they use. One clock stamps the packets of all interfaces of a host.
    pub(crate) is_called_here: bool,
    /// The exchanges with the longest waits, if `moments` does not contain all exchanges.
    late: Option<Vec<Moment>>,
    pub(super) nature: Option<Nature>,
    /// The median think time.
    pub(super) ordinary: Duration,
    /// The exchanges grouped by connection.
    by_client: OnceCell<Vec<Moment>>,
    /// The result of [`Rhythm::claim`]. It is cached because several rules need it.
    claimed: OnceCell<Option<Tally>>,
    /// The candidates for the server's time. They are cached because several claims list them.
    fitting: OnceCell<Option<Vec<Candidate>>>,
}

/// The reason why a server makes its requests wait.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Nature {
    /// The server looks for requests at fixed intervals.
    Polls(Ticks),
    /// A limit lets requests through one at a time, although the server could answer sooner.
    Admits(Gate),
    /// The server works on one request at a time, and the others wait.
    Queues(Gate),
    /// The server works on a few requests at a time, and the others wait.
    Shares(SlotQueue),
    /// The whole server stalled at times.
    Stops(Vec<Stall>),
    /// The whole server was slow once, when it started.
    Starts(Stall),
}

impl Rhythm {
    /// Returns the rhythm of `service`, from the exchanges that began in `period`; from all if that
    /// is `None`.
    pub(crate) fn of(service: &Service, period: Option<(Timestamp, Timestamp)>) -> Self {
        let (mut moments, elsewhere) = service.timeline.sorted();
        if let Some((from, until)) = period {
            moments.retain(|moment| (from..=until).contains(&moment.begin));
        }
        let weight = service.timeline.weight(moments.len());
        let clear = clear(&moments);
        let thinks = thinks(&clear);
        let ordinary = quantile(&thinks, 0.5);
        let late = service.timeline.late();
        let late = late.map(|(count, late)| (count, late, late.by_answer()));
        let late_of = late
            .as_ref()
            .map(|(count, late, by_answer)| (*count, *late, &by_answer[..]));
        let has_late = late.is_some()
            || thinks
                .last()
                .is_some_and(|&longest| longest >= evidence::ORDINARY_WORK);
        let found = (has_late && clear.len() >= LEAST_MOMENTS)
            .then(|| nature(&Answers::new(clear, thinks), late_of))
            .flatten();
        let (nature, ordinary) = found.map_or((None, ordinary), |(nature, usual)| {
            (Some(nature), usual.unwrap_or(ordinary))
        });
        let late = late.map(|(_, _, by_answer)| by_answer);
        Self {
            moments,
            elsewhere,
            weight,
            is_called_here: false,
            late,
            nature,
            ordinary,
            by_client: OnceCell::new(),
            claimed: OnceCell::new(),
            fitting: OnceCell::new(),
        }
    }

    /// Returns the exchanges grouped by connection, in the order in which they began.
    pub(super) fn by_client(&self) -> &[Moment] {
        self.by_client
            .get_or_init(|| timeline::by_client(&self.moments))
    }

    /// Returns the gate that lets one request through at a time. The reason is a limit or the
    /// server's work.
    pub(super) fn gate(&self) -> Option<Gate> {
        gate::gate(&self.clear_answers(), gate::LOOSE).map(|(gate, _)| gate)
    }

    /// Returns the slots for which requests wait, wherever the server's kernel saw the time pass.
    pub(super) fn slots(&self) -> Option<&SlotQueue> {
        match &self.nature {
            Some(Nature::Shares(slots)) => Some(slots),
            _ => None,
        }
    }

    /// Returns the even intervals at which waiting requests are answered. They do not show the
    /// reason, for which the caller needs other evidence.
    pub(super) fn turns(&self) -> Option<Gate> {
        gate::even(&self.clear_answers(), gate::TIMED)
    }

    /// Returns the even intervals of a server that sets the pace of its clients, on connections that
    /// exist: each client sends again as soon as it is answered, and a round of all takes one
    /// interval for each.
    pub(super) fn paced(&self) -> Option<Gate> {
        let answers = self.clear_answers();
        let gate = gate::even(&answers, gate::TIMED)?;
        let moments = &answers.moments;
        let is_paced = gate::is_round_of_turns(moments, gate.turn) && are_kept_alive(moments);
        is_paced.then_some(gate)
    }

    /// Returns the candidates that `find` derives from the clear exchanges. `find` is called only
    /// once.
    pub(super) fn fitting(
        &self,
        find: impl FnOnce(&[Moment]) -> Option<Vec<Candidate>>,
    ) -> Option<&[Candidate]> {
        let found = self.fitting.get_or_init(|| find(&self.clear_moments()));
        found.as_deref()
    }

    /// Returns the clear exchanges: their times depend only on the server and the path.
    fn clear_moments(&self) -> Vec<Moment> {
        clear(&self.moments)
    }

    fn clear_answers(&self) -> Answers {
        let clear = self.clear_moments();
        let thinks = thinks(&clear);
        Answers::new(clear, thinks)
    }

    /// Returns the sum of the times that `saved` gives for the exchanges.
    pub(super) fn tally(&self, saved: impl Fn(&Moment) -> Duration) -> Tally {
        tally(&self.moments, self.weight, saved)
    }

    /// Returns the time that requests wait because of `nature`. For stalls, the longest waits of
    /// all exchanges are used.
    fn tally_of(&self, nature: &Nature) -> Tally {
        let saved = |moment: &Moment| self.saved(nature, moment);
        match (&self.late, nature) {
            (Some(late), Nature::Stops(_)) => tally(late, 1.0, saved),
            _ => self.tally(saved),
        }
    }
}

impl Rhythm {
    /// Returns the time that an exchange would save without `nature`.
    fn saved(&self, nature: &Nature, moment: &Moment) -> Duration {
        match nature {
            Nature::Polls(_) => moment.think(),
            Nature::Admits(gate) => moment.think().saturating_sub(gate.quickest),
            Nature::Queues(gate) => moment.think().saturating_sub(gate.turn),
            Nature::Shares(slots) => moment.think().saturating_sub(slots.each),
            Nature::Stops(stalls) => {
                if stalls.iter().any(|stall| stall.holds(moment)) {
                    moment.think().saturating_sub(self.ordinary)
                } else {
                    Duration::ZERO
                }
            }
            Nature::Starts(stall) => {
                if stall.holds(moment) {
                    moment.think().saturating_sub(self.ordinary)
                } else {
                    Duration::ZERO
                }
            }
        }
    }

    /// Returns the server's nature and its cost; `None` if the cost does not matter, or if the
    /// server's kernel contradicts it.
    pub(super) fn claim(&self, case: &Case<'_>) -> Option<(&Nature, &Tally)> {
        let nature = self.nature.as_ref().filter(|_| case.has_all())?;
        // Calls that fill the waits set their rhythm.
        let behind = case.behind.filter(|_| case.has_packets);
        if behind.is_some_and(|behind| behind.explains_most(case)) {
            return None;
        }
        // Without packets, a path that stands still looks like a server that does.
        let is_stall = |nature: &Nature| matches!(nature, Nature::Stops(_) | Nature::Starts(_));
        if !case.has_packets && is_stall(nature) {
            return None;
        }
        if matches!(nature, Nature::Shares(_)) && kernel_place::is_elsewhere(case) {
            return None;
        }
        if let Nature::Stops(stalls) = nature
            && (self.stood_elsewhere(stalls, case) || waits_for_calls(stalls, case))
        {
            return None;
        }
        let tally = self.claimed.get_or_init(|| {
            let tally = self.tally_of(nature);
            is_material(nature, case, &tally).then_some(tally)
        });
        Some((nature, tally.as_ref()?))
    }

    /// Returns true if the server's own kernel shows that the server worked during the apparent
    /// stalls.
    pub(super) fn has_run(&self, case: &Case<'_>) -> bool {
        match &self.nature {
            Some(Nature::Stops(stalls)) => {
                self.stood(stalls, case).is_some_and(Stood::is_contradicted)
            }
            _ => false,
        }
    }

    /// Returns the stalls in which one request kept all others waiting, as the server's own kernel
    /// shows, with their cost; `None` if there are none or if they do not matter.
    pub(super) fn blocked(&self, case: &Case<'_>) -> Option<(&[Stall], Tally, Stood)> {
        let nature = self.nature.as_ref().filter(|_| case.has_all())?;
        let Nature::Stops(stalls) = nature else {
            return None;
        };
        let stood = self
            .stood(stalls, case)
            .filter(|stood| stood.is_blocked())?;
        let tally = self.tally_of(nature);
        is_material(nature, case, &tally).then_some((stalls, tally, stood))
    }

    /// Returns true if the server did not stall, or if a path that delayed all packets may be the
    /// reason.
    fn stood_elsewhere(&self, stalls: &[Stall], case: &Case<'_>) -> bool {
        match self.stood(stalls, case) {
            Some(stood) if stood.is_contradicted() => return true,
            Some(stood) if stood.is_shown() => return false,
            _ => {}
        }
        let held: usize = stalls.iter().map(|stall| stall.requests).sum();
        let is_steady = || case.gathered.trips.tally.affected * 2 < held as u64;
        !stall::were_acknowledged(stalls).unwrap_or_else(is_steady)
    }

    /// Returns what the server's own kernel shows about the stalls; `None` if it was not watched.
    pub(super) fn stood(&self, stalls: &[Stall], case: &Case<'_>) -> Option<Stood> {
        let turns = case.facts.turns.services.get(&case.endpoint)?;
        Some(stood::stood(stalls, self.ordinary, turns))
    }

    /// Returns the think time that remains after [`Rhythm::claim`].
    pub(super) fn rest(&self, nature: &Nature) -> Tally {
        self.tally(|moment| {
            let rest = moment.think().saturating_sub(self.saved(nature, moment));
            if rest >= evidence::ORDINARY_WORK {
                rest
            } else {
                Duration::ZERO
            }
        })
    }
}

/// Returns true if the server only waited for others that it had called while it seemed to stall.
fn waits_for_calls(stalls: &[Stall], case: &Case<'_>) -> bool {
    case.has_packets && case.calls.end_stalls(case.endpoint, stalls)
}

/// Returns true if the cost of `nature` matters.
///
/// A client that waits for its responses has few requests in a stall. Clients that keep sending
/// have many. So stalls also matter if their share of the requests' time and their share of the
/// elapsed time are both material.
fn is_material(nature: &Nature, case: &Case<'_>, tally: &Tally) -> bool {
    if evidence::is_material(case, tally) {
        return true;
    }
    let (Nature::Stops(stalls), Some((begin, end))) = (nature, case.ledger.span) else {
        return false;
    };
    let stood: Duration = stalls.iter().map(Stall::duration).sum();
    let is_much = |part: f64, of: f64| part >= of * evidence::MATERIAL_SHARE;
    is_much(tally.cost.likely as f64, case.ledger.total() as f64)
        && is_much(stood.as_secs_f64(), end.since(begin).as_secs_f64())
}

/// Returns the sum of the times that `saved` gives for the clear exchanges. Each exchange stands
/// for `weight` exchanges.
fn tally(moments: &[Moment], weight: f64, saved: impl Fn(&Moment) -> Duration) -> Tally {
    let mut tally = Tally::default();
    for moment in moments.iter().filter(|moment| moment.is_clear) {
        let saved = saved(moment);
        if !saved.is_zero() {
            tally.add_moment(moment, saved, weight);
        }
    }
    tally
}

/// A busy server's number of exchanges, its late exchanges as the timeline kept them, and the same
/// exchanges in the order of their responses.
type LateOnes<'a> = (u64, &'a Late, &'a [Moment]);

/// The responses that show a server's nature.
struct Answers {
    /// The exchanges, in the order in which they began.
    moments: Vec<Moment>,
    /// The exchanges, in the order in which they were answered.
    by_answer: Vec<Moment>,
    /// The think times in ascending order.
    thinks: Vec<Duration>,
}

impl Answers {
    fn new(moments: Vec<Moment>, thinks: Vec<Duration>) -> Self {
        Self {
            by_answer: by_answer(&moments),
            moments,
            thinks,
        }
    }

    /// Returns the median think time.
    fn ordinary(&self) -> Duration {
        quantile(&self.thinks, 0.5)
    }
}

/// Returns the reason why requests wait. The second value is the think time of the requests that
/// did not wait, if it is not the median.
fn nature(answers: &Answers, late: Option<LateOnes<'_>>) -> Option<(Nature, Option<Duration>)> {
    if let Some(ticks) = timer::ticks(answers) {
        return Some((Nature::Polls(ticks), None));
    }
    if let Some((gate, is_admitting)) = gate::gate(answers, gate::STRAY) {
        let nature = if is_admitting {
            gate.is_configured().then_some(Nature::Admits(gate))
        } else {
            Some(Nature::Queues(gate))
        };
        return nature.map(|nature| (nature, None));
    }
    if let Some(slots) = slots::slots(answers) {
        return Some((Nature::Shares(slots), None));
    }
    if let Some(gate) = gate::open(answers, gate::STRAY) {
        return Some((Nature::Queues(gate), None));
    }
    let course = Course::new(answers, late);
    let stalls = stall::stalls(&course);
    if let [only] = stalls.as_slice()
        && let Some(start) = stall::start(only, answers)
    {
        return Some((Nature::Starts(start), Some(course.ordinary)));
    }
    let stalls = stall::common(stalls, &course, &answers.moments)?;
    Some((Nature::Stops(stalls), Some(course.ordinary)))
}

/// Returns true if most requests needed no connection of their own. Otherwise the intervals of a
/// server that answers one request at a time may be those of its handshakes, or of `accept`.
fn are_kept_alive(moments: &[Moment]) -> bool {
    let connected = moments.iter().filter(|moment| moment.setup.is_some());
    connected.count() * 2 < moments.len()
}

/// Returns the clear exchanges: their times depend only on the server and the path. Memory is
/// allocated only once, because the entries are large and most are clear.
fn clear(moments: &[Moment]) -> Vec<Moment> {
    let mut clear = Vec::with_capacity(moments.len());
    clear.extend(moments.iter().filter(|moment| moment.is_clear));
    clear
}

/// Returns the quantile `share` (0 to 1) of the sorted durations.
pub(super) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let at = place_of(share, sorted.len());
    sorted.get(at).copied().unwrap_or_default()
}

/// Returns the index of the quantile `share` in a sorted list of length `len`.
fn place_of(share: f64, len: usize) -> usize {
    (len.saturating_sub(1) as f64 * share).round() as usize
}

/// Returns the median duration.
pub(super) fn median(durations: impl Iterator<Item = Duration>) -> Duration {
    let mut numbers: Vec<u64> = durations.map(nanos).collect();
    if numbers.is_empty() {
        return Duration::ZERO;
    }
    let at = place_of(0.5, numbers.len());
    let (_, middle, _) = numbers.select_nth_unstable(at);
    Duration::from_nanos(*middle)
}

/// Returns the durations in ascending order.
pub(super) fn sorted(durations: impl Iterator<Item = Duration>) -> Vec<Duration> {
    // Integers are quicker to compare than `Duration`s.
    let mut numbers: Vec<u64> = durations.map(nanos).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(Duration::from_nanos).collect()
}

/// Returns the think times in ascending order.
pub(super) fn thinks(moments: &[Moment]) -> Vec<Duration> {
    sorted(moments.iter().map(Moment::think))
}

/// Returns the exchanges in the order in which they were answered. If several were answered at the
/// same time, they keep their order.
pub(super) fn by_answer(moments: &[Moment]) -> Vec<Moment> {
    timeline::by_time(moments, |moment| moment.answered)
}
