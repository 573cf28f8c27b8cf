//! How a server works through its requests, seen over all of its connections.
//!
//! Each way of making requests wait leaves its own trace in the instants at
//! which answers begin: on a timer's grid, one at a time, all together after a
//! stand-still. The time that passes before each is `server-think` to a single
//! exchange; what is found here says what it was.

mod gate;
mod stall;
mod timer;

pub(super) use gate::Gate;
pub(super) use stall::Stall;
pub(super) use timer::Ticks;

use core::cell::OnceCell;
use core::time::Duration;

use super::tally::Tally;
use super::{Case, evidence};
use crate::service::Service;
use crate::timeline::Moment;

/// Exchanges below which no rhythm is looked for.
const LEAST_MOMENTS: usize = 10;
/// Shorter think times are a server's ordinary work.
pub(super) const NOTABLE: Duration = Duration::from_millis(5);

/// What the instants of a server's answers show.
#[derive(Debug, Default)]
pub(crate) struct Rhythm {
    /// In the order they began.
    pub(super) moments: Vec<Moment>,
    /// How many exchanges each stands for.
    pub(super) weight: f64,
    pub(super) nature: Option<Nature>,
    /// The think time that half of the exchanges stay below.
    pub(super) ordinary: Duration,
    /// The moments by connection.
    by_client: OnceCell<Vec<Moment>>,
    /// What [`Rhythm::claim`] found, which several rules ask for.
    claimed: OnceCell<Option<Tally>>,
}

/// Ways in which a server makes its requests wait.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Nature {
    /// It looks for requests once in a period.
    Polls(Ticks),
    /// It lets one request through at a time, though it could sooner.
    Admits(Gate),
    /// It serves one request at a time, and others wait.
    Queues(Gate),
    /// All of it stood still, several times.
    Stops(Vec<Stall>),
    /// All of it was slow once, at the start.
    Starts(Stall),
}

impl Rhythm {
    /// What `service` shows.
    pub(crate) fn of(service: &Service) -> Self {
        let moments = service.timeline.sorted();
        let weight = service.timeline.weight(moments.len());
        let clear: Vec<Moment> = moments.iter().filter(|m| m.is_clear).copied().collect();
        let has_late = clear.iter().any(|moment| moment.think() >= NOTABLE);
        let nature = (has_late && clear.len() >= LEAST_MOMENTS)
            .then(|| nature(&clear))
            .flatten();
        let ordinary = quantile(&thinks(&clear), 0.5);
        Self {
            moments,
            weight,
            nature,
            ordinary,
            by_client: OnceCell::new(),
            claimed: OnceCell::new(),
        }
    }

    /// The moments of each connection together, in the order they began.
    pub(super) fn by_client(&self) -> &[Moment] {
        self.by_client.get_or_init(|| {
            let mut moments = self.moments.clone();
            moments.sort_by_cached_key(|moment| moment.client);
            moments
        })
    }

    /// What lets one request through at a time, for whatever reason.
    pub(super) fn gate(&self) -> Option<Gate> {
        let clear: Vec<Moment> = self
            .moments
            .iter()
            .filter(|m| m.is_clear)
            .copied()
            .collect();
        gate::gate(&clear, gate::LOOSE).map(|(gate, _)| gate)
    }

    /// What the exchanges that `saved` names would have saved.
    pub(super) fn tally(&self, saved: impl Fn(&Moment) -> Duration) -> Tally {
        let mut tally = Tally::default();
        for moment in self.moments.iter().filter(|moment| moment.is_clear) {
            let saved = saved(moment);
            if !saved.is_zero() {
                tally.add_moment(moment, saved, self.weight);
            }
        }
        tally
    }
}

impl Rhythm {
    /// What the exchanges would have saved without what makes them wait.
    fn saved(&self, nature: &Nature, moment: &Moment) -> Duration {
        match nature {
            Nature::Polls(_) => moment.think(),
            Nature::Admits(gate) => moment.think().saturating_sub(gate.quickest),
            Nature::Queues(gate) => moment.think().saturating_sub(gate.turn),
            Nature::Stops(stalls) => match stalls.iter().any(|stall| stall.holds(moment)) {
                true => moment.think().saturating_sub(self.ordinary),
                false => Duration::ZERO,
            },
            Nature::Starts(stall) => match stall.holds(moment) {
                true => moment.think().saturating_sub(self.ordinary),
                false => Duration::ZERO,
            },
        }
    }

    /// What it cost, where that is worth a finding of its own.
    pub(super) fn claim(&self, case: &Case<'_>) -> Option<(&Nature, &Tally)> {
        let nature = self.nature.as_ref().filter(|_| case.has_packets)?;
        let tally = self.claimed.get_or_init(|| {
            let tally = self.tally(|moment| self.saved(nature, moment));
            evidence::is_material(case, &tally).then_some(tally)
        });
        Some((nature, tally.as_ref()?))
    }

    /// The think time that is left when what [`Rhythm::claim`] names is gone.
    pub(super) fn rest(&self, nature: &Nature) -> Tally {
        self.tally(|moment| {
            let rest = moment.think().saturating_sub(self.saved(nature, moment));
            if rest >= NOTABLE {
                rest
            } else {
                Duration::ZERO
            }
        })
    }
}

fn nature(clear: &[Moment]) -> Option<Nature> {
    if let Some(ticks) = timer::ticks(clear) {
        return Some(Nature::Polls(ticks));
    }
    if let Some((gate, is_admitting)) = gate::gate(clear, gate::STRAY) {
        return match is_admitting {
            true => gate.is_configured().then_some(Nature::Admits(gate)),
            false => Some(Nature::Queues(gate)),
        };
    }
    let stalls = stall::stalls(clear);
    match stalls.as_slice() {
        [] => None,
        [only] => stall::is_start(only, clear).then(|| Nature::Starts(only.clone())),
        _ => stall::are_common(&stalls, clear).then_some(Nature::Stops(stalls)),
    }
}

/// The value below which this share of `sorted` lies.
pub(super) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// The think times, shortest first.
pub(super) fn thinks(moments: &[Moment]) -> Vec<Duration> {
    let mut thinks: Vec<Duration> = moments.iter().map(Moment::think).collect();
    thinks.sort_unstable();
    thinks
}

/// The moments in the order in which they were answered.
fn by_answer(moments: &[Moment]) -> Vec<Moment> {
    let mut sorted = moments.to_vec();
    // They come in the order in which they began, and keep it where they were
    // answered at once.
    sorted.sort_by_key(|moment| moment.answered);
    sorted
}
