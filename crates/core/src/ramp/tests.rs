use proptest::prelude::*;

use super::*;
use crate::observed::load_level::ProcessorUse;

const LASTED: Duration = Duration::from_secs(1);
const EACH: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(2);
const DURATION: Duration = Duration::from_secs(10);

/// A service that serves up to `at_once` requests at a time, each for `alone`.
#[derive(Clone, Copy, Debug)]
struct Simulated {
    at_once: u32,
    alone: Duration,
    processors: Processors,
}

/// What keeps the processors busy once requests wait.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Processors {
    Idle,
    All,
    One,
    Others,
    /// Others use all processors, and the service needs none.
    OthersAlone,
    /// As above, and many threads of the service wake at once and wait together.
    OthersBeforeMany,
    /// Others began to use all processors with the load. Some program waits for a processor for this
    /// share of the time, if the kernel tells it.
    Rose(Option<f64>),
    Elsewhere,
}

impl Simulated {
    /// Returns the figures of a level, with `noise` as a factor to its times.
    fn under(&self, load: Load, noise: f64) -> LevelSample {
        let alone = self.alone.as_secs_f64() * noise;
        let most = f64::from(self.at_once) / alone;
        let connections = f64::from(load.connections);
        let rate = (connections / alone)
            .min(most)
            .min(load.rate.unwrap_or(f64::MAX));
        let is_behind = load.rate.is_some_and(|offered| offered > most);
        let time = match load.rate {
            None => connections / rate,
            Some(_) if is_behind => LASTED.as_secs_f64() / 2.0,
            Some(_) => alone,
        };
        let time = Duration::from_secs_f64(time);
        LevelSample {
            connections: load.connections,
            offered_rate: load.rate,
            lasted: LASTED,
            responses: (rate * LASTED.as_secs_f64()).round() as u64,
            mean: time,
            median: time,
            p99: time.mul_f64(1.5),
            processors: self.used(),
            ..LevelSample::default()
        }
    }

    fn used(&self) -> Option<ProcessorUse> {
        let used = |busy: f64, busiest: f64, others: f64| ProcessorUse {
            processors: 4,
            wall: LASTED,
            busy: LASTED.mul_f64(4.0 * busy),
            service: Some(LASTED.mul_f64(busiest)),
            busiest: LASTED.mul_f64(busiest),
            by_others: LASTED.mul_f64(4.0 * others),
            ..ProcessorUse::default()
        };
        match self.processors {
            Processors::Idle => Some(used(0.1, 0.2, 0.0)),
            Processors::All => Some(used(0.97, 0.9, 0.1)),
            Processors::One => Some(used(0.4, 0.95, 0.0)),
            Processors::Others => Some(ProcessorUse {
                queued: LASTED,
                ..used(0.99, 0.5, 0.6)
            }),
            Processors::OthersAlone => Some(used(0.99, 0.05, 0.9)),
            Processors::OthersBeforeMany => Some(ProcessorUse {
                queued: LASTED * 2,
                ..used(0.99, 0.05, 0.9)
            }),
            Processors::Rose(waited) => Some(ProcessorUse {
                rose: LASTED.mul_f64(4.0 * 0.9),
                some_waited: waited.map(|share| LASTED.mul_f64(share)),
                ..used(0.99, 0.05, 0.9)
            }),
            Processors::Elsewhere => None,
        }
    }

    fn levels(&self, asked: Load, noise: &[f64]) -> Vec<LevelSample> {
        let mut levels = Vec::new();
        let mut noise = noise.iter().cycle();
        while let Some(load) = next(&levels, asked, EACH) {
            let level = self.under(load, *noise.next().unwrap_or(&1.0));
            levels.push(LevelSample {
                is_asked: load == last(&levels, asked),
                ..level
            });
        }
        levels
    }
}

fn connections(connections: u32) -> Load {
    Load {
        connections,
        rate: None,
    }
}

fn service(at_once: u32, micros: u64, processors: Processors) -> Simulated {
    Simulated {
        at_once,
        alone: Duration::from_micros(micros),
        processors,
    }
}

fn noise() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.9..1.1_f64, 1..12)
}

proptest! {
    #[test]
    fn the_levels_rise_to_the_asked_load_and_never_exceed_it(
        asked in 1..2_000_u32, at_once in 1..64_u32, micros in 20..200_000_u64, noise in noise(),
    ) {
        let levels = service(at_once, micros, Processors::Idle).levels(connections(asked), &noise);
        prop_assert_eq!(levels[0].connections, 1);
        prop_assert!(levels.windows(2).all(|two| two[0].connections < two[1].connections));
        let last = levels.last().expect("a level");
        prop_assert!(last.is_asked && last.connections <= asked);
        let worked_off = f64::from(last.connections) * micros as f64 / 1e6 / f64::from(at_once);
        prop_assert!(last.connections == asked || worked_off >= 2.0, "{worked_off} s");
        prop_assert!(levels.len() <= 12, "{}", levels.len());
    }

    #[test]
    fn rates_rise_to_the_asked_rate(rate in 1.0..100_000.0_f64, noise in noise()) {
        let asked = Load { connections: 50, rate: Some(rate) };
        let levels = service(1_000, 100, Processors::All).levels(asked, &noise);
        let rates: Vec<f64> = levels.iter().filter_map(|level| level.offered_rate).collect();
        prop_assert!(rates.windows(2).all(|two| two[0] < two[1]), "{rates:?}");
        prop_assert_eq!(rates.last(), Some(&rate));
        let carried = carried(&levels).filter(|_| levels[0].responses > 0);
        prop_assert!(carried.is_none_or(|carried| carried.limit.is_none()));
    }

    #[test]
    fn what_is_asked_of_a_service_that_carries_it_is_judged(
        asked in 2..200_u32, more in 0..100_u32, micros in 20..100_000_u64, noise in noise(),
    ) {
        let levels = service(asked + more, micros, Processors::All).levels(connections(asked), &noise);
        let carried = carried(&levels).expect("levels");
        prop_assert_eq!(carried.limit, None);
        prop_assert_eq!(carried.judged(TIMEOUT, DURATION, true), connections(asked));
    }

    #[test]
    fn a_service_with_busy_processors_is_judged_where_requests_do_not_wait(
        at_once in 1..16_u32, times in 3..50_u32, micros in 20..50_000_u64, noise in noise(),
        busy in prop_oneof![Just(Processors::All), Just(Processors::One), Just(Processors::Others)],
    ) {
        let asked = connections(at_once * times);
        let levels = service(at_once, micros, busy).levels(asked, &noise);
        let carried = carried(&levels).expect("levels");
        let expected = match busy {
            Processors::All => CapacityLimit::Processors,
            Processors::One => CapacityLimit::OneProcessor,
            _ => CapacityLimit::SharedProcessors,
        };
        prop_assert_eq!(carried.limit, Some(expected));
        let judged = carried.judged(TIMEOUT, DURATION, true).connections;
        prop_assert!(judged <= at_once * 2 && judged * 4 > at_once, "{judged} of {at_once}");
        let rate = f64::from(at_once) / (micros as f64 / 1e6);
        let known = (carried.asked.rate() - rate).abs() / rate;
        prop_assert!(known < 0.15, "{known}");
    }

    #[test]
    fn a_limited_number_of_workers_is_judged_under_load_but_not_under_a_flood(
        at_once in 1..9_u32, times in 5..40_u32, micros in 3_000..60_000_u64, noise in noise(),
        busy in prop_oneof![Just(Processors::Idle), Just(Processors::OthersAlone)],
    ) {
        let asked = at_once * times;
        let levels = service(at_once, micros, busy).levels(connections(asked), &noise);
        let carried = carried(&levels).expect("levels");
        prop_assert_eq!(carried.limit, Some(CapacityLimit::Workers));
        let judged = carried.judged(TIMEOUT, DURATION, true).connections;
        prop_assert!(judged >= (at_once * 2).min(asked) && judged <= asked, "{judged}");
        let queue = f64::from(judged) / carried.asked.rate();
        let least = f64::from(SHOWS_WORKERS * at_once * 2) / carried.asked.rate();
        prop_assert!(queue <= 0.5_f64.max(least) * 1.01, "{queue}");
    }
}

#[test]
fn workers_that_serve_many_side_by_side_are_no_fault_under_a_load_that_nobody_asked_for() {
    for (at_once, is_lower) in [(1, false), (2, false), (16, true), (20, true), (32, true)] {
        let levels = service(at_once, 25_000, Processors::Idle).levels(connections(200), &[1.0]);
        let carried = carried(&levels).expect("levels");
        assert_eq!(carried.limit, Some(CapacityLimit::Workers));
        let judged = |is_chosen| carried.judged(TIMEOUT, DURATION, is_chosen).connections;
        assert_eq!(judged(false) <= at_once * 2, is_lower, "{at_once}");
        assert!(judged(true) > at_once * 2, "{at_once}");
    }
}

#[test]
fn a_quick_service_is_judged_where_requests_do_not_wait_and_a_slow_one_under_load() {
    let unknown = (Processors::Elsewhere, CapacityLimit::Unknown);
    for ((processors, limit), micros) in [(unknown, 100), (unknown, 10_000)] {
        let levels = service(4, micros, processors).levels(connections(100), &[1.0]);
        let carried = carried(&levels).expect("levels");
        assert_eq!(carried.limit, Some(limit));
        let judged = carried.judged(TIMEOUT, DURATION, true).connections;
        assert_eq!(judged < 100, micros == 100, "{micros} µs: {judged}");
    }
}

#[test]
fn quick_workers_are_judged_where_requests_do_not_wait_if_they_compute_and_not_if_they_pause() {
    for (work, is_lower) in [(0.7, true), (0.3, false)] {
        let mut levels = service(2, 300, Processors::Idle).levels(connections(100), &[1.0]);
        let asked = levels.last_mut().expect("the asked load");
        let work = Duration::from_micros(300).mul_f64(work * asked.responses as f64);
        asked.processors.as_mut().expect("processors").service = Some(work);
        let carried = carried(&levels).expect("levels");
        assert_eq!(carried.limit, Some(CapacityLimit::Workers));
        let judged = carried.judged(TIMEOUT, DURATION, true).connections;
        assert_eq!(judged < 100, is_lower, "{work:?}: {judged}");
    }
}

#[test]
fn others_that_keep_the_processors_busy_limit_a_quick_service_and_not_one_that_pauses() {
    let limit = |micros| {
        let levels = service(2, micros, Processors::OthersAlone).levels(connections(100), &[1.0]);
        carried(&levels).expect("levels").limit
    };
    assert_eq!(limit(300), Some(CapacityLimit::SharedProcessors));
    assert_eq!(limit(30_000), Some(CapacityLimit::Workers));
}

#[test]
fn many_threads_that_wait_together_and_hardly_compute_want_no_processor() {
    let levels = service(1, 25_000, Processors::OthersBeforeMany).levels(connections(100), &[1.0]);
    let carried = carried(&levels).expect("levels");
    assert_eq!(carried.limit, Some(CapacityLimit::Workers));
}

#[test]
fn a_service_that_stalls_at_times_is_judged_with_some_more_connections() {
    let judged = |processors, mean: Duration| {
        let mut levels = service(2, 100, processors).levels(connections(100), &[1.0]);
        levels[0].mean = mean;
        let carried = carried(&levels).expect("levels");
        carried.judged(TIMEOUT, DURATION, true).connections
    };
    let ms = Duration::from_millis;
    let usual = judged(Processors::One, Duration::from_micros(100));
    assert_eq!(judged(Processors::One, ms(4)), usual * SHOWS_WORKERS);
    assert_eq!(judged(Processors::One, Duration::from_micros(900)), usual);
    assert_eq!(judged(Processors::Others, ms(4)), usual);
}

#[test]
fn programs_that_began_with_the_load_limit_it_if_something_waits_for_a_processor() {
    let limit = |waited| {
        let processors = Processors::Rose(waited);
        let levels = service(2, 30_000, processors).levels(connections(100), &[1.0]);
        carried(&levels).expect("levels").limit
    };
    assert_eq!(limit(Some(0.9)), Some(CapacityLimit::Processors));
    assert_eq!(limit(None), Some(CapacityLimit::Processors));
    assert_eq!(limit(Some(0.1)), Some(CapacityLimit::Workers));
}

/// Returns the load that is judged if the asked level of a service with busy processors differs.
fn judged_if(change: impl Fn(&mut LevelSample)) -> u32 {
    let mut levels = service(2, 300, Processors::All).levels(connections(100), &[1.0]);
    change(levels.last_mut().expect("the asked load"));
    let carried = carried(&levels).expect("levels");
    carried.judged(TIMEOUT, DURATION, true).connections
}

#[test]
fn a_fault_that_only_shows_under_the_asked_load_is_judged_there() {
    assert_eq!(judged_if(|_| ()), 2);
    assert_eq!(judged_if(|asked| asked.failed = 3), 100);
    assert_eq!(judged_if(|asked| asked.unopened = 40), 100);
    assert_eq!(judged_if(|asked| asked.unserved = 60), 100, "passed over");
    assert_eq!(judged_if(|asked| asked.unserved = 5), 2, "by chance");
    assert_eq!(
        judged_if(|asked| asked.abandoned = 60),
        2,
        "the end came first"
    );
    assert_eq!(judged_if(|asked| asked.p99 = asked.median * 40), 100);
    let mean = |asked: &mut LevelSample| asked.mean = asked.median * 5;
    assert_eq!(judged_if(mean), 2, "chance on busy processors");
}

#[test]
fn a_slow_service_gets_no_more_requests_than_it_works_off_soon() {
    for (micros, most) in [(96_000, 31), (31_000, 97), (300, 100)] {
        let levels = service(1, micros, Processors::One).levels(connections(100), &[1.0]);
        let asked = carried(&levels).expect("levels").asked.connections;
        assert!((most - 1..=most).contains(&asked), "{micros} µs: {asked}");
    }
    // One that serves them side by side gets all.
    let levels = service(200, 96_000, Processors::One).levels(connections(100), &[1.0]);
    assert_eq!(carried(&levels).expect("levels").asked.connections, 100);
}

#[test]
fn requests_that_run_out_of_time_in_a_long_queue_are_no_fault() {
    let mut levels = service(1, 31_000, Processors::One).levels(connections(100), &[1.0]);
    let asked = levels.last_mut().expect("the asked load");
    (asked.abandoned, asked.failed) = (68, 1);
    let carried = carried(&levels).expect("levels");
    assert_eq!(carried.limit, Some(CapacityLimit::OneProcessor));
    assert_eq!(carried.judged(TIMEOUT, DURATION, true).connections, 1);
}

#[test]
fn a_quick_lower_level_is_not_what_a_service_carries_that_answered_under_the_asked_load() {
    let mut levels = service(4, 20_000, Processors::Idle).levels(connections(100), &[1.0]);
    levels[1].responses *= 100;
    let asked = levels.last_mut().expect("the asked load");
    (asked.responses, asked.abandoned) = (150, 100);
    assert_eq!(carried(&levels).expect("levels").rate, 150.0);
    levels.last_mut().expect("the asked load").responses = 3;
    assert!(carried(&levels).expect("levels").rate > 150.0);
}

#[test]
fn a_service_that_answers_nothing_in_the_time_carries_what_lower_levels_show() {
    let mut levels = service(1, 31_000, Processors::One).levels(connections(100), &[1.0]);
    let asked = levels.last_mut().expect("the asked load");
    (asked.abandoned, asked.responses) = (100, 0);
    let carried = carried(&levels).expect("levels");
    assert!((carried.rate - 32.0).abs() < 1.0, "{}", carried.rate);
    assert_eq!(carried.judged(TIMEOUT, DURATION, true).connections, 1);
}

#[test]
fn slower_requests_alone_or_fewer_answers_alone_are_no_queue() {
    let levels = |change: fn(&mut LevelSample)| {
        let mut levels = service(100, 1_000, Processors::Idle).levels(connections(50), &[1.0]);
        change(levels.last_mut().expect("the asked load"));
        carried(&levels).expect("levels").limit
    };
    assert_eq!(levels(|asked| asked.median *= 3), None);
    assert_eq!(levels(|asked| asked.responses /= 3), None);
    let both = |asked: &mut LevelSample| {
        asked.median *= 3;
        asked.responses /= 3;
    };
    assert_eq!(levels(both), Some(CapacityLimit::Workers));
}

#[test]
fn nothing_is_concluded_without_answers_or_the_asked_load() {
    let mut levels = service(2, 300, Processors::All).levels(connections(100), &[1.0]);
    levels.pop();
    assert!(carried(&levels).is_none());
    let mut levels = service(2, 300, Processors::All).levels(connections(100), &[1.0]);
    levels[0].responses = 0;
    assert!(carried(&levels).is_none());
    assert!(carried(&[]).is_none());
}

#[test]
fn busy_processors_that_serve_some_connections_at_once_and_let_others_wait_make_a_queue() {
    let levels = |processors| {
        let mut levels = service(2, 50, processors).levels(connections(100), &[1.0]);
        let asked = levels.last_mut().expect("the asked load");
        asked.median = Duration::from_micros(55);
        asked.p99 = Duration::from_millis(25);
        levels
    };
    let busy = levels(Processors::All);
    let busy = carried(&busy).expect("levels");
    assert_eq!(busy.limit, Some(CapacityLimit::Processors));
    assert!(busy.judged(TIMEOUT, DURATION, true).connections < 10);
    // Rare slow requests alone make the mean grow too.
    let idle = levels(Processors::Idle);
    let idle = carried(&idle).expect("levels");
    assert_eq!(idle.limit, None);
}
