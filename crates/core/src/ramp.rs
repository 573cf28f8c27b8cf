//! How much a service carries: the levels of load to measure, and what they show.
//!
//! The first level is one request at a time. Each further level doubles the load, until requests
//! wait for each other or the asked load is reached. A level *queues* if the added connections add
//! little throughput, and requests take longer instead. Both signs are needed: a few requests that
//! never end lower the throughput of all levels, and caches that warm up change the latency.
//!
//! Delay is judged where our own load makes no queue. If processors are idle although requests
//! wait, a limited number of workers is the reason, which only shows under load: then the asked
//! load is used, as far as its queue leaves time for answers. Workers that mostly compute are no such
//! reason. Nor are workers that serve several requests at a time, if nobody asked for so much load: how
//! many there are is then what the service carries, and no fault.

use core::time::Duration;

use crate::observed::load_level::LevelSample;
use crate::report::CapacityLimit;

/// The factor from one level to the next.
const STEP: u32 = 2;
/// Minimum ratio of the asked load to a level before it. A closer one would show the same.
const NEXT_TO: f64 = 1.5;
/// Maximum time for which a service works on the requests of the last level after it.
const WORKED_OFF: Duration = Duration::from_secs(3);
/// Minimum number of requests of a level at a fixed rate.
const LEAST_REQUESTS: f64 = 10.0;
/// A level queues if each connection gets less than this share of the answers that it gets alone,
const LEAST_EFFICIENCY: f64 = 0.6;
/// and if the median request takes at least this many times as long.
const LEAST_GROWTH: f64 = 1.5;
/// At a fixed rate, minimum share of the offered requests that a service answers in time.
const KEEPS_UP: f64 = 0.95;
/// Minimum share of the processors' time for which they are busy, or of one processor's time that
/// the busiest process uses, if processors are the limit. The measurement begins and ends with some
/// idle time.
const BUSY: f64 = 0.85;
/// Minimum share of the time in which some program waits for a processor, if programs that the target
/// calls want all of them.
const MOSTLY_WAITED: f64 = 0.5;
/// Minimum share of the processors' time that others use if they are part of the limit.
const MUCH_BY_OTHERS: f64 = 0.25;
/// Maximum ratios to the median in a queue that grows with the load alone: of the 99th percentile,
/// and of the mean.
const MOST_SPREAD: (f64, f64) = (8.0, 2.5);
/// Maximum ratio of the 99th percentile to the mean in such a queue if the processors are the limit:
/// whose turn it is on them is chance.
const MOST_CHANCE: f64 = 32.0;
/// Maximum part of the connections, as a divisor, that such a queue passes over by chance.
const MOST_UNLUCKY: u64 = 20;
/// Requests that are left waiting although the mean wait is below this share of the time are passed
/// over, and not only in a long queue.
const PASSED_OVER: f64 = 0.25;
/// Minimum share of processor time in a single request's time if workers compute rather than wait.
const MOSTLY_WORK: f64 = 0.5;
/// Maximum time of a single request of a service that our own load saturates although processors are
/// idle at times, or not known. The rule on workers needs a longer time.
const QUICK: Duration = Duration::from_millis(2);
/// Minimum number of requests that a service serves side by side if a queue under a load that nobody
/// asked for is no fault. Fewer workers make requests wait as soon as a few clients come together.
const SIDE_BY_SIDE: u32 = 8;
/// A service stalls if the mean of single requests is at least this multiple of their median, and at
/// least this long.
const STALLS: (u32, Duration) = (4, Duration::from_millis(1));
/// The least multiple of the carried load at which a limited number of workers, or a stall of the whole
/// service, shows.
const SHOWS_WORKERS: u32 = 4;
/// The queue may take this part of the measured time, and of the time after which requests are
/// given up.
const ROOM: (u32, u32) = (10, 4);

/// A load: connections, or requests per second on so many connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Connections in use.
    pub connections: u32,
    /// Requests per second; `None` in closed loop.
    pub rate: Option<f64>,
}

impl Load {
    fn of(level: &LevelSample) -> Self {
        Self {
            connections: level.connections,
            rate: level.offered_rate,
        }
    }

    fn amount(self) -> f64 {
        self.rate.unwrap_or(f64::from(self.connections))
    }
}

/// Returns the last level: the asked load, or as much of it as a service whose requests already wait
/// for each other works off soon.
pub fn last(levels: &[LevelSample], asked: Load) -> Load {
    let (Some(first), Some(highest)) = (levels.first(), levels.last()) else {
        return asked;
    };
    if asked.rate.is_some() || highest.responses == 0 || !is_queueing(first, highest) {
        return asked;
    }
    let soon = (highest.rate() * WORKED_OFF.as_secs_f64()) as u32;
    let least = highest.connections.saturating_mul(STEP);
    Load {
        connections: asked.connections.min(soon.max(least)),
        ..asked
    }
}

/// Returns the level to measure after `levels`; `None` after the asked load. A level lasts for
/// `each`.
pub fn next(levels: &[LevelSample], asked: Load, each: Duration) -> Option<Load> {
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else {
        return Some(begin(asked, each));
    };
    if last.is_asked {
        return None;
    }
    let is_shown = is_queueing(first, last) || last.abandoned > 0 || last.responses == 0;
    let next = match last.offered_rate {
        Some(rate) => Load {
            rate: Some(rate * f64::from(STEP)),
            ..asked
        },
        None => Load {
            connections: last.connections.saturating_mul(STEP),
            ..asked
        },
    };
    let is_below = next.amount() * NEXT_TO <= asked.amount();
    Some(if is_below && !is_shown {
        next
    } else {
        self::last(levels, asked)
    })
}

/// Returns the first level: one request at a time, or a part of the asked rate that has enough
/// requests.
fn begin(asked: Load, each: Duration) -> Load {
    let Some(rate) = asked.rate else {
        return Load {
            connections: asked.connections.min(1),
            ..asked
        };
    };
    let parts = [8.0, 4.0, 2.0].map(|part| rate / part);
    let enough = |rate: &f64| rate * each.as_secs_f64() >= LEAST_REQUESTS;
    Load {
        rate: Some(parts.into_iter().find(enough).unwrap_or(rate)),
        ..asked
    }
}

/// Returns true if requests of `level` wait for each other, compared with the first level. On busy
/// processors, a part of the connections may be served at once while all others wait: then the mean
/// grows, and the median does not.
fn is_queueing(first: &LevelSample, level: &LevelSample) -> bool {
    let grows = |first: Duration, level: Duration| {
        level.as_secs_f64() >= first.as_secs_f64() * LEAST_GROWTH
    };
    let used = level.processors.as_ref();
    let is_slower = grows(first.median, level.median)
        || grows(first.mean, level.mean) && used.is_some_and(|used| used.busy_share() >= BUSY);
    match level.offered_rate {
        Some(rate) => is_slower && level.rate() < rate * KEEPS_UP,
        None => {
            let each = |level: &LevelSample| level.rate() / f64::from(level.connections.max(1));
            is_slower && each(level) < each(first) * LEAST_EFFICIENCY
        }
    }
}

/// What the measured levels show.
#[derive(Clone, Copy, Debug)]
pub struct Carried<'a> {
    /// The lowest level.
    pub first: &'a LevelSample,
    /// The highest level at which requests do not wait for each other.
    pub carried: &'a LevelSample,
    /// The asked load.
    pub asked: &'a LevelSample,
    /// Responses per second under the asked load. If fewer requests were answered there than it has
    /// connections, it is the most of any level: a service that serves all requests side by side may
    /// answer none in the time.
    pub rate: f64,
    /// What limits the rate; `None` if the service carries the asked load.
    pub limit: Option<CapacityLimit>,
}

/// Returns what the levels show; `None` if the asked load was not measured, or nothing answered.
pub fn carried(levels: &[LevelSample]) -> Option<Carried<'_>> {
    let first = levels.first().filter(|first| first.responses > 0)?;
    let asked = levels.last().filter(|last| last.is_asked)?;
    let lower = levels.iter().take_while(|level| !is_queueing(first, level));
    let most = levels.iter().map(LevelSample::rate).fold(0.0, f64::max);
    Some(Carried {
        rate: if asked.abandoned == 0 || asked.responses >= u64::from(asked.connections) {
            asked.rate()
        } else {
            most
        },
        first,
        carried: lower.last().unwrap_or(first),
        asked,
        limit: is_queueing(first, asked).then(|| limit(first, asked)),
    })
}

fn limit(first: &LevelSample, asked: &LevelSample) -> CapacityLimit {
    let is_generator = asked.generator_share >= BUSY;
    let Some(processors) = &asked.processors else {
        return if is_generator {
            CapacityLimit::Generator
        } else {
            CapacityLimit::Unknown
        };
    };
    let wall = processors.wall.as_secs_f64();
    // Without knowledge of the target's processes, any busy processor may be its own.
    let wants = match processors.service {
        Some(_) => (processors.runnable() + processors.own).as_secs_f64(),
        None => wall,
    };
    // Programs that began to work with the load may be others than those that the target calls. If
    // these are the limit, some program waits for a processor most of the time.
    let by_called = wants - processors.rose.as_secs_f64() < wall * BUSY;
    let waited = processors.some_waited;
    let is_waiting = waited.is_none_or(|waited| waited.as_secs_f64() >= wall * MOSTLY_WAITED);
    let is_wanted = wants >= wall * BUSY && (!by_called || is_waiting);
    let is_busy = processors.busy_share() >= BUSY;
    let is_shared = processors.foreign_share() >= MUCH_BY_OTHERS;
    // Programs that the target calls wait for a processor too, and their waits are not known. A
    // quick request leaves no room for other waits.
    if is_busy && is_shared && first.median < QUICK {
        return CapacityLimit::SharedProcessors;
    }
    if is_busy && is_wanted {
        // What others use is no limit of a service that hardly wants a processor.
        let own = processors.wanted().map_or(wall, |own| own.as_secs_f64());
        if !is_shared {
            return CapacityLimit::Processors;
        }
        if own >= wall * BUSY {
            return CapacityLimit::SharedProcessors;
        }
    }
    let is_one = processors.busiest.as_secs_f64() >= wall * BUSY;
    match processors.service {
        Some(_) if is_one => CapacityLimit::OneProcessor,
        _ if is_generator => CapacityLimit::Generator,
        Some(_) => CapacityLimit::Workers,
        None => CapacityLimit::Unknown,
    }
}

impl Carried<'_> {
    /// Returns the load at which delay is judged, if requests are given up after `timeout` and the
    /// measurement takes `duration`. `is_chosen` is true if the user chose how much load to use.
    pub fn judged(&self, timeout: Duration, duration: Duration, is_chosen: bool) -> Load {
        let asked = Load::of(self.asked);
        let is_ours = match self.limit {
            None => return asked,
            Some(CapacityLimit::Workers | CapacityLimit::Unknown)
                if !is_chosen && self.is_parallel() && self.is_in_turn() =>
            {
                true
            }
            Some(CapacityLimit::SharedProcessors) => true,
            Some(CapacityLimit::Processors | CapacityLimit::OneProcessor) => self.is_in_turn(),
            Some(CapacityLimit::Workers) => {
                self.is_quick() && self.is_working() && self.is_in_turn()
            }
            Some(CapacityLimit::Unknown) => self.is_quick() && self.is_even(),
            Some(_) => self.is_even(),
        };
        let carried = Load::of(self.carried);
        if is_ours && self.stalls() && asked.rate.is_none() {
            let connections = carried.connections.saturating_mul(SHOWS_WORKERS);
            return Load {
                connections: connections.min(asked.connections),
                ..carried
            };
        }
        if is_ours {
            return carried;
        }
        let room = (duration / ROOM.0).min(timeout / ROOM.1);
        let fits = (self.rate * room.as_secs_f64()) as u32;
        let least = self.carried.connections.saturating_mul(SHOWS_WORKERS);
        match asked.rate {
            None if !self.passes_over() => Load {
                connections: fits.max(least).min(asked.connections),
                ..asked
            },
            _ => asked,
        }
    }

    /// Returns true if a few requests take most of the time although no other waits: who else waits
    /// meanwhile only shows with some more connections. On processors that others use, that is chance.
    fn stalls(&self) -> bool {
        let first = self.first;
        self.limit != Some(CapacityLimit::SharedProcessors)
            && first.mean >= (first.median * STALLS.0).max(STALLS.1)
    }

    fn is_parallel(&self) -> bool {
        self.carried.offered_rate.is_none() && self.carried.connections >= SIDE_BY_SIDE
    }

    fn is_quick(&self) -> bool {
        self.first.median < QUICK
    }

    /// Returns true if a request's time is mostly processor time of the service.
    fn is_working(&self) -> bool {
        let used = self.asked.processors.as_ref();
        let service = used.and_then(|used| Some(used.service? + used.rose));
        let responses = self.asked.responses as f64;
        service.is_some_and(|time| {
            time.as_secs_f64() >= responses * self.first.median.as_secs_f64() * MOSTLY_WORK
        })
    }

    /// Returns true if the asked load only makes a queue in which all wait about equally long.
    /// Otherwise a fault may show at that load.
    fn is_even(&self) -> bool {
        let asked = self.asked;
        let median = asked.median.as_secs_f64();
        let is_within = |time: Duration, most: f64| time.as_secs_f64() <= median * most;
        is_within(asked.p99, MOST_SPREAD.0)
            && is_within(asked.mean, MOST_SPREAD.1)
            && self.serves_all()
    }

    /// Returns true if the asked load makes a queue in which each connection gets its turn, although
    /// connections wait for different times: it is chance which ones busy processors serve first, and
    /// a thread may stay with its connection for some requests.
    fn is_in_turn(&self) -> bool {
        let asked = self.asked;
        let (p99, mean) = (asked.p99.as_secs_f64(), asked.mean.as_secs_f64());
        let serves_most = asked.unopened == 0
            && asked.unserved * MOST_UNLUCKY <= asked.connections.into()
            && !self.has_failed();
        self.is_even() || p99 <= mean * MOST_CHANCE && (serves_most || self.serves_all())
    }

    /// Returns true if no request of the asked load failed, and none was passed over.
    fn serves_all(&self) -> bool {
        !self.has_failed() && !self.passes_over()
    }

    fn has_failed(&self) -> bool {
        self.asked.failed > 0 && !self.is_long_queue()
    }

    /// Returns true if some requests were left waiting although others were served soon.
    fn passes_over(&self) -> bool {
        self.asked.unopened > 0 || self.asked.unserved > 0 && !self.is_long_queue()
    }

    /// Returns true if the queue is so long that requests run out of time in it.
    fn is_long_queue(&self) -> bool {
        let wait = f64::from(self.asked.connections) / self.rate.max(f64::MIN_POSITIVE);
        wait >= self.asked.lasted.as_secs_f64() * PASSED_OVER
    }
}

#[cfg(test)]
mod tests;
