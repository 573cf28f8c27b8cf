//! Requests that wait for one of a few slots: workers, connections of a pool, permits of a
//! semaphore.
//!
//! A server with `width` slots takes up a request when fewer than `width` others are in service: at
//! once, or when the answer `width` answers before it has left. That is its *turn*. Any width gives
//! turns. One is believed only if requests take the same time from their turn on, whether they waited
//! for it or not, although they waited for different times.

use core::time::Duration;

use super::{Answers, median, quantile, sorted};
use crate::cause::evidence::human;
use crate::claim::Statement;
use crate::observed::time::Timestamp;
use crate::report::{EvidenceKind, counted};
use crate::service::timeline::{self, Moment};

/// Minimum number of answers.
const LEAST_ANSWERS: usize = 40;
/// Maximum number of slots. With more, turns follow each other too closely.
const MOST_SLOTS: usize = 64;
/// Maximum number of slots that is exact.
const MOST_EXACT: usize = 4;
/// Minimum time in a slot. Timestamps and kernels vary by less.
const LEAST_EACH: Duration = Duration::from_millis(2);
/// Minimum number of requests that waited for their turn, and their minimum share of all.
const LEAST_WAITED: usize = 10;
const OFTEN: f64 = 0.15;
/// Maximum wait of a request that met a free slot, and minimum wait of one that did not, as a part
/// of the time in a slot.
const FREE: f64 = 0.25;
const WAITED: f64 = 0.5;

/// Maximum deviation of the time in a slot from the median, if the times are even.
const EVEN: f64 = 0.2;
/// Maximum deviation as a part of that which answers at any time would have: over `width` of them, 1 /
/// √`width` of their mean time.
const BY_CHANCE: f64 = 0.5;
/// Minimum share of the requests that keep within this deviation.
const MOST: f64 = 0.9;
/// Minimum share of the requests whose turn came earlier or later than usual that do so.
const UNUSUAL: f64 = 0.8;
/// Minimum number of the latter, if requests met a free slot; otherwise [`LEAST_WAITED`]. Without them,
/// any work of constant length looks the same.
const LEAST_UNUSUAL: usize = 2;

/// Maximum share of requests that are answered before their turn, if they are served in order.
const EARLY: f64 = 0.01;
/// Range of the time that a request takes longer for each second that its turn comes later.
const SLOPE: core::ops::RangeInclusive<f64> = 0.75..=1.25;
/// Minimum share of the differences between the requests' times that their turns explain. Of times
/// that do not depend on others, they explain less than 0.05.
const EXPLAINED: f64 = 0.25;
/// Maximum deviation of the median time in a slot of the requests that met a free one from that of
/// the others, as a share.
const AGREE: f64 = 0.25;
/// Number of standard deviations that chance makes.
const CHANCE: f64 = 2.5;

/// A server that handles several requests at a time, while others wait.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cause) struct SlotQueue {
    /// Number of requests in service at a time.
    pub(in crate::cause) width: usize,
    /// Mean time in a slot.
    pub(in crate::cause) each: Duration,
    /// Number of requests that waited for their turn, and number of those that met a free slot and took
    /// as long.
    waited: usize,
    free: usize,
    fit: Fit,
}

/// The evidence that requests follow their turns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fit {
    /// Number of requests that took the same time from their turn on, and number of all that waited;
    /// the same of those whose turn came earlier or later than usual.
    Even {
        all: (usize, usize),
        unusual: (usize, usize),
    },
    /// The share of the differences between the requests' times that their turns explain.
    InOrder { explained: f64 },
}

impl SlotQueue {
    /// Returns the number of requests in service at a time, as people say it: of many slots, or if
    /// their times differ, one more or less shows the same.
    pub(in crate::cause) fn served(&self) -> String {
        let is_exact = self.width <= MOST_EXACT && matches!(self.fit, Fit::Even { .. });
        let about = if is_exact { "" } else { "about " };
        format!("{about}{}", self.width)
    }

    /// Returns what shows the slots. `packets` are the last packets of some responses.
    pub(in crate::cause) fn evidence(&self, by: EvidenceKind, packets: &[u64]) -> Vec<Statement> {
        let (width, each) = (self.served(), human(self.each));
        let text = match self.fit {
            Fit::Even { all, unusual } => format!(
                "as if {width} requests were served at a time: {} of {} that waited for others took \
                 {each} from their turn on; so did {} of {} whose turn came earlier or later than usual",
                all.0,
                counted(all.1 as u64, "request", "requests"),
                unusual.0,
                unusual.1,
            ),
            Fit::InOrder { explained } => format!(
                "as if {width} requests were served at a time, in the order in which they came: \
                 none was answered before its turn, each took {each} (mean) from there on, and the \
                 waits of {} for their turn explain {:.0} % of the differences between their times",
                counted(self.waited as u64, "request", "requests"),
                explained * 100.0,
            ),
        };
        let mut evidence = vec![
            Statement::shows(by, text)
                .count(self.waited as u64)
                .packets(packets),
        ];
        if self.free > 0 {
            let free = counted(self.free as u64, "request", "requests");
            let text = format!("{free} that met a free place took as long as that");
            evidence.push(Statement::fits(by, text));
        }
        evidence
    }
}

/// Returns the slots that the answers show; `None` if they show none.
pub(super) fn slots(all: &Answers) -> Option<SlotQueue> {
    let all = &while_asked(all)?;
    if all.by_answer.len() < LEAST_ANSWERS || quantile(&all.thinks, 0.5) < LEAST_EACH {
        return None;
    }
    let most = open_at_arrivals(&all.moments).into_iter().max()?;
    let widths = 1..most.min(MOST_SLOTS + 1);
    let is_closed = is_closed(all);
    let even = |part| {
        let mut found = widths.clone();
        found.find_map(|width| even(all, width, is_closed, part))
    };
    let found = even(Judged::Whole)
        .or_else(|| even(Judged::Settled))
        .or_else(|| in_order(all, widths.clone(), is_closed));
    // One at a time, at even intervals: that may be a limit on the rate too.
    found.filter(|slots| slots.width > 1 || matches!(slots.fit, Fit::InOrder { .. }))
}

/// Which requests are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judged {
    Whole,
    /// Without the first ones of their connections, for which a server may have to start first.
    Settled,
}

/// Returns the answers that were sent while requests came. Clients that leave at the end may not wait
/// for theirs.
fn while_asked(all: &Answers) -> Option<Answers> {
    let last = all.moments.iter().map(|moment| moment.asked).max()?;
    let is_meant = |moment: &&Moment| moment.answered <= last && !moment.is_login;
    let answered = all.moments.iter().filter(is_meant);
    let moments: Vec<Moment> = answered.copied().collect();
    let thinks = super::thinks(&moments);
    Some(Answers::new(moments, thinks))
}

/// The wait of a request for its turn, and its time from there on. The latter is negative if it was
/// answered before its turn.
#[derive(Clone, Copy, Debug)]
struct SlotTurn {
    wait: Duration,
    each: i64,
}

impl SlotTurn {
    /// Returns the turn of `moment`, which came at `free` if a slot was free only then.
    fn of(moment: &Moment, free: Option<Timestamp>) -> Self {
        let turn = free.map_or(moment.asked, |free| free.max(moment.asked));
        Self {
            wait: turn.since(moment.asked),
            each: moment.answered.as_nanos() - turn.as_nanos(),
        }
    }

    /// Returns the time in the slot; zero if the request was answered before its turn.
    fn each(&self) -> Duration {
        Duration::from_nanos(self.each.max(0) as u64)
    }
}

/// Returns the slots if all requests take nearly the same time in them. The order in which they are
/// served does not matter then.
fn even(all: &Answers, width: usize, is_closed: bool, part: Judged) -> Option<SlotQueue> {
    let turns = turns(&all.by_answer, &all.by_answer, width, part);
    let each = typical(&turns);
    let stray = EVEN.min(BY_CHANCE / (width as f64).sqrt());
    let is_even = |turn: &&SlotTurn| {
        (turn.each as f64 - each.as_nanos() as f64).abs() <= each.as_nanos() as f64 * stray
    };
    let count = |of: &mut dyn Iterator<Item = &SlotTurn>| {
        of.fold((0, 0), |(even, all), turn| {
            (even + usize::from(is_even(&turn)), all + 1)
        })
    };
    let usual = median(turns.iter().map(|turn| turn.wait));
    let is_unusual = |turn: &&SlotTurn| turn.wait.abs_diff(usual) > each.mul_f64(WAITED);
    let (free, waited) = parts(&turns, each);
    let is_told = is_closed || do_vary(&waited, each);
    let (free, waited) = (count(&mut free.iter()), count(&mut waited.iter()));
    let unusual = count(&mut turns.iter().filter(is_unusual));
    let is_most = |(part, of): (usize, usize), share: f64| part as f64 >= of as f64 * share;
    let least_unusual = if free.1 > 0 {
        LEAST_UNUSUAL
    } else {
        LEAST_WAITED
    };
    let is_shown = each >= LEAST_EACH
        && have_waited(waited.1, &turns)
        && is_most(waited, MOST)
        && is_most(count(&mut turns.iter()), MOST)
        && unusual.1 >= least_unusual
        && is_most(unusual, UNUSUAL)
        && are_most(free.0, free.1)
        && is_told;
    is_shown.then(|| SlotQueue {
        width,
        each: mean(&turns),
        waited: waited.1,
        free: free.0,
        fit: Fit::Even {
            all: waited,
            unusual,
        },
    })
}

/// Returns the slots if requests are served in the order in which they came, whatever time they take:
/// of the widths that fit, the one with the most even times in the slots.
fn in_order(all: &Answers, widths: core::ops::Range<usize>, is_closed: bool) -> Option<SlotQueue> {
    let by_arrival = timeline::by_time(&all.moments, |moment| moment.asked);
    let fitting = widths.filter_map(|width| {
        let turns = turns(&by_arrival, &all.by_answer, width, Judged::Whole);
        let (slots, is_uneven) = served_in_order(&turns, width, is_closed)?;
        let variance = variance(turns.iter().map(|turn| turn.each as f64));
        Some((variance, slots, is_uneven))
    });
    let best = fitting.min_by(|(a, ..), (b, ..)| a.total_cmp(b));
    // Even work is seen in the times alone, and a limit on the rate has even times as well.
    best.and_then(|(_, slots, is_uneven)| is_uneven.then_some(slots))
}

/// Returns the slots if the turns fit, and whether the times in them are uneven. `is_closed` is true if
/// each client sends its next request as soon as it is answered.
fn served_in_order(turns: &[SlotTurn], width: usize, is_closed: bool) -> Option<(SlotQueue, bool)> {
    let each = typical(turns);
    let early = turns.iter().filter(|turn| turn.each <= 0).count();
    let (free, waited) = parts(turns, each);
    if each < LEAST_EACH
        || early as f64 > turns.len() as f64 * EARLY
        || !have_waited(waited.len(), turns)
    {
        return None;
    }
    let do_agree = free.is_empty() || do_agree(&free, &waited, each);
    let (slope, explained) = regression(turns);
    let is_uneven = spread(&waited) >= each.mul_f64(EVEN / 2.0);
    let is_shown = (is_closed || do_vary(&waited, each))
        && do_agree
        && SLOPE.contains(&slope)
        && explained >= EXPLAINED;
    let slots = SlotQueue {
        width,
        each: mean(turns),
        waited: waited.len(),
        free: free.len(),
        fit: Fit::InOrder { explained },
    };
    is_shown.then_some((slots, is_uneven))
}

/// Returns true if enough of the requests waited for their turn.
fn have_waited(waited: usize, turns: &[SlotTurn]) -> bool {
    waited >= LEAST_WAITED && waited as f64 >= turns.len() as f64 * OFTEN
}

/// Returns true if the requests waited for different times. While a server is slow for another reason,
/// requests that come at an even rate all wait for the same time.
fn do_vary(waited: &[SlotTurn], each: Duration) -> bool {
    let waits = sorted(waited.iter().map(|turn| turn.wait));
    quantile(&waits, 0.75).saturating_sub(quantile(&waits, 0.25)) >= each
}

/// Returns true if nearly the same number of requests is open at all times, as from clients that each
/// send their next request when they are answered.
fn is_closed(all: &Answers) -> bool {
    let mut open = open_at_arrivals(&all.moments);
    let count = open.len() as f64;
    open.sort_unstable();
    let median = open.get(open.len() / 2).copied().unwrap_or_default();
    let slack = (median / 4).max(1);
    let same = open.iter().filter(|open| open.abs_diff(median) <= slack);
    same.count() as f64 >= count * MOST
}

/// Returns true if requests that met a free slot took about as long in it as those that waited: each of
/// them as far as their times vary, and their median as far as so few can show it.
fn do_agree(free: &[SlotTurn], waited: &[SlotTurn], each: Duration) -> bool {
    let spread = spread(waited);
    let off = |time: Duration| time.abs_diff(typical(waited));
    let allowed = |chance: f64| each.mul_f64(AGREE) + spread.mul_f64(CHANCE * chance);
    let near = free.iter().filter(|turn| off(turn.each()) <= allowed(1.0));
    are_most(near.count(), free.len())
        && off(typical(free)) <= allowed(1.0 / (free.len() as f64).sqrt())
}

/// Returns the standard deviation of the time in a slot, whatever the longest ones are.
fn spread(turns: &[SlotTurn]) -> Duration {
    let times = sorted(turns.iter().map(SlotTurn::each));
    quantile(&times, 0.84).saturating_sub(quantile(&times, 0.16)) / 2
}

/// Returns true if `part` is most of `all`, or all but one of several.
fn are_most(part: usize, all: usize) -> bool {
    part as f64 >= all as f64 * UNUSUAL || part > 0 && part + 1 == all
}

/// Returns the turns of `moments`, which are served in this order. `answers` are the same, in the
/// order in which they were answered. Whether the first ones met other requests is known only if the
/// capture contains the start of their connections.
fn turns(moments: &[Moment], answers: &[Moment], width: usize, part: Judged) -> Vec<SlotTurn> {
    let none = core::iter::repeat_n(None, width);
    let free = none.chain(answers.iter().map(|moment| Some(moment.answered)));
    let all = moments.iter().zip(free);
    all.filter(|(moment, free)| match part {
        Judged::Whole => free.is_some() || moment.setup.is_some(),
        Judged::Settled => free.is_some() && moment.setup.is_none(),
    })
    .map(|(moment, free)| SlotTurn::of(moment, free))
    .collect()
}

/// Returns the requests that met a free slot, and those that waited for one.
fn parts(turns: &[SlotTurn], each: Duration) -> (Vec<SlotTurn>, Vec<SlotTurn>) {
    let of = |is_meant: &dyn Fn(&SlotTurn) -> bool| {
        turns.iter().filter(|t| is_meant(t)).copied().collect()
    };
    (
        of(&|turn| turn.wait <= each.mul_f64(FREE)),
        of(&|turn| turn.wait >= each.mul_f64(WAITED)),
    )
}

/// Returns the median time in a slot.
fn typical(turns: &[SlotTurn]) -> Duration {
    median(turns.iter().map(SlotTurn::each))
}

fn mean(turns: &[SlotTurn]) -> Duration {
    let sum: i64 = turns.iter().map(|turn| turn.each).sum();
    Duration::from_nanos(sum.max(0) as u64 / turns.len().max(1) as u64)
}

/// Returns by how much longer a request takes for each second that its turn comes later, and the
/// share of the differences that this explains.
fn regression(turns: &[SlotTurn]) -> (f64, f64) {
    let waits = || turns.iter().map(|turn| turn.wait.as_secs_f64());
    let took = || {
        turns
            .iter()
            .map(|turn| turn.wait.as_secs_f64() + turn.each as f64 / 1e9)
    };
    let count = turns.len() as f64;
    let (wait, time) = (waits().sum::<f64>() / count, took().sum::<f64>() / count);
    let both = waits()
        .zip(took())
        .map(|(w, t)| (w - wait) * (t - time))
        .sum::<f64>()
        / count;
    let (of_waits, of_times) = (variance(waits()), variance(took()));
    if of_waits <= 0.0 || of_times <= 0.0 {
        return (0.0, 0.0);
    }
    (both / of_waits, both * both / (of_waits * of_times))
}

fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    values.map(|value| (value - mean).powi(2)).sum::<f64>() / count
}

/// Returns the number of requests that are open at each arrival, with the one that arrives.
fn open_at_arrivals(moments: &[Moment]) -> Vec<usize> {
    let ends = moments.iter().map(|moment| (moment.answered, false));
    let begins = moments.iter().map(|moment| (moment.asked, true));
    let mut steps: Vec<(Timestamp, bool)> = begins.chain(ends).collect();
    // At the same time, one ends before the next one begins.
    steps.sort_unstable();
    let mut open = 0_usize;
    let mut at_arrivals = Vec::with_capacity(moments.len());
    for (_, is_begin) in steps {
        if is_begin {
            open += 1;
            at_arrivals.push(open);
        } else {
            open = open.saturating_sub(1);
        }
    }
    at_arrivals
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWERS: usize = 400;

    /// Numbers that look drawn by chance.
    struct RandomNumbers(u64);

    impl RandomNumbers {
        /// Returns a number from 0 to below 1.
        fn share(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) as f64 / (1_u64 << 31) as f64
        }

        /// Returns a time of `ms` on average, which varies by the share `spread`.
        fn micros(&mut self, ms: f64, spread: f64) -> i64 {
            (ms * 1e3 * (1.0 + spread * (2.0 * self.share() - 1.0))) as i64
        }
    }

    /// A server and its clients.
    #[derive(Clone, Copy, Debug)]
    struct QueueLoad {
        width: usize,
        /// Number of clients that send their next request as soon as they are answered; `None` for
        /// requests that come at any time, at this share of what the server can do.
        clients: Result<usize, f64>,
        ms: f64,
        spread: f64,
        /// True if requests are served in the order in which they came; false for the opposite.
        is_in_order: bool,
        seed: u64,
    }

    impl QueueLoad {
        /// Returns the requests, of which `width` at a time are served.
        fn answers(self) -> Answers {
            let mut drawn = RandomNumbers(self.seed);
            let mut coming: Vec<(i64, u16)> = match self.clients {
                Ok(clients) => (0..clients as u16)
                    .map(|n| (i64::from(n) * 50, n))
                    .collect(),
                Err(busy) => {
                    let every = self.ms / self.width as f64 / busy;
                    let pause = |drawn: &mut RandomNumbers| {
                        (-(1.0 - drawn.share()).ln() * every * 1e3) as i64
                    };
                    let mut at = 0;
                    let mut next = |n| {
                        at += pause(&mut drawn);
                        (at, n)
                    };
                    (0..ANSWERS as u16).map(&mut next).collect()
                }
            };
            let mut slots = vec![0_i64; self.width];
            let mut all = Vec::new();
            while all.len() < ANSWERS && !coming.is_empty() {
                // The slot that is free first takes the next of those that wait, or else the next that comes.
                let slot = slots.iter_mut().min().expect("a slot");
                let free = *slot;
                let mut waiting: Vec<_> =
                    coming.iter().filter(|(asked, _)| *asked <= free).collect();
                waiting.sort_unstable();
                let place = if self.is_in_order { 0.0 } else { drawn.share() };
                let next = waiting
                    .get((place * waiting.len() as f64) as usize)
                    .copied();
                let next = *next.or(coming.iter().min()).expect("one that comes");
                coming.retain(|one| *one != next);
                let (asked, client) = next;
                let answered = free.max(asked) + drawn.micros(self.ms, self.spread);
                *slot = answered;
                let at = |micros: i64| Timestamp::from_nanos(micros * 1_000);
                all.push(Moment::between(client, at(asked), at(answered)));
                if self.clients.is_ok() {
                    coming.push((answered + drawn.micros(0.3, 0.5), client));
                }
            }
            answers(all)
        }
    }

    /// Returns the answers to these requests. The first ones open connections.
    fn answers(mut all: Vec<Moment>) -> Answers {
        all.sort_by_key(|moment| moment.begin);
        let mut clients = std::collections::BTreeSet::new();
        for moment in &mut all {
            let is_first = clients.insert(moment.client);
            moment.setup = is_first.then_some(Duration::ZERO);
        }
        let thinks = crate::cause::rhythm::thinks(&all);
        Answers::new(all, thinks)
    }

    fn closed() -> impl Strategy<Value = QueueLoad> {
        let clients = (2_usize..=8).prop_flat_map(|width| (Just(width), width * 5 / 2..=width * 6));
        (clients, 5.0..80.0_f64, any::<u64>()).prop_map(|((width, clients), ms, seed)| QueueLoad {
            width,
            clients: Ok(clients),
            ms,
            spread: 0.02,
            is_in_order: true,
            seed,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_slots_of_even_work_are_counted_in_any_order(load in closed(), is_in_order: bool) {
            let found = slots(&QueueLoad { is_in_order, ..load }.answers()).expect("slots");
            prop_assert_eq!(found.width, load.width);
            let off = found.each.as_secs_f64() * 1e3 / load.ms;
            prop_assert!((0.9..1.1).contains(&off), "{found:?}");
        }

        #[test]
        fn a_capture_from_amid_the_load_shows_them_too_if_the_work_varies(load in closed(), cut in 20_usize..200) {
            let mut all = QueueLoad { spread: 0.12, ..load }.answers().by_answer;
            all.drain(..cut);
            let from = all.first().map(|moment| moment.answered);
            all.retain(|moment| Some(moment.asked) >= from);
            all.iter_mut().for_each(|moment| moment.setup = None);
            all.sort_by_key(|moment| moment.begin);
            let thinks = crate::cause::rhythm::thinks(&all);
            if let Some(found) = slots(&Answers::new(all, thinks)) {
                prop_assert!(found.width.abs_diff(load.width) <= 1, "{found:?}");
            }
        }

        #[test]
        fn the_slots_of_uneven_work_are_counted_if_it_is_done_in_order(
            load in closed(),
            spread in 0.2..0.8_f64,
        ) {
            let load = QueueLoad { width: load.width.min(4), spread, ..load };
            let found = slots(&load.answers()).expect("slots");
            prop_assert!(found.width.abs_diff(load.width) <= 1, "{found:?}");
            let off = found.each.as_secs_f64() / found.width as f64 * load.width as f64 * 1e3 / load.ms;
            prop_assert!((0.8..1.2).contains(&off), "{found:?}");
        }

        #[test]
        fn requests_that_come_at_any_time_show_the_slots_too(
            load in closed(),
            busy in 0.85..0.95_f64,
            spread in 0.0..0.6_f64,
        ) {
            let load = QueueLoad { clients: Err(busy), spread, ..load };
            if let Some(found) = slots(&load.answers()) {
                prop_assert!(found.width.abs_diff(load.width) <= 1 + load.width / 4, "{found:?}");
            }
        }

        #[test]
        fn requests_that_do_not_wait_for_each_other_show_no_slots(
            load in closed(),
            clients in 3_usize..80,
            spread in 0.0..0.95_f64,
        ) {
            let load = QueueLoad { width: clients, clients: Ok(clients), spread, ..load };
            prop_assert_eq!(slots(&load.answers()), None);
        }

        #[test]
        fn a_server_that_is_slow_for_a_time_has_no_slots(
            every in 4.0..20.0_f64,
            slow in 5.0..30.0_f64,
            usual in 2.5..8.0_f64,
        ) {
            // Requests come at an even rate, and all take `slow` times as long from a time on.
            let takes = |at: f64| if at < 1_000.0 { usual * every } else { slow * usual * every };
            prop_assert_eq!(slots(&coming(every, |at| at + takes(at))), None);
        }

        #[test]
        fn a_server_that_stops_at_times_has_no_slots(
            every in 4.0..20.0_f64,
            stop in 50.0..400.0_f64,
            usual in 0.3..3.0_f64,
        ) {
            // It stops every second.
            let until = |at: f64| (at / 1_000.0).floor() * 1_000.0 + stop;
            let answered = |at: f64| (at + usual * every).max(until(at + usual * every));
            prop_assert_eq!(slots(&coming(every, answered)), None);
        }

        #[test]
        fn a_limit_of_the_rate_has_no_slots(
            every in 5.0..20.0_f64,
            burst in 1_usize..10,
            takes in 0.2..3.0_f64,
            too_many in 1.02..1.5_f64,
        ) {
            let mut due = -(burst as f64) * every;
            let answered = |at: f64| {
                due = (due + every).max(at - burst as f64 * every);
                due.max(at) + takes
            };
            prop_assert_eq!(slots(&coming(every / too_many, answered)), None);
        }
    }

    /// Returns requests that come `every` ms and are answered at the time that `answered` tells.
    fn coming(every: f64, mut answered: impl FnMut(f64) -> f64) -> Answers {
        let at = |ms: f64| Timestamp::from_nanos((ms * 1e6) as i64);
        let moment = |n: usize| {
            let asked = n as f64 * every;
            Moment::between(n as u16, at(asked), at(answered(asked)))
        };
        answers((0..ANSWERS).map(moment).collect())
    }
}
