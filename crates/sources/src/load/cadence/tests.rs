use super::*;
use crate::load::tests::{at, lane, ms, plan};

fn share(lane: usize, connections: u32, before: u32) -> Share {
    Share {
        lane,
        connections,
        before,
    }
}

fn dues(cadence: &mut Cadence) -> Vec<Timestamp> {
    core::iter::from_fn(|| cadence.take(Timestamp::MAX)).collect()
}

#[test]
fn two_workers_together_keep_an_even_beat() {
    let mut plan = plan(vec![lane(10, None)]);
    plan.pace = Pace::Rate(100.0);
    let mut left = Cadence::new(&plan, share(0, 5, 0), at(0));
    let mut right = Cadence::new(&plan, share(0, 5, 5), at(0));
    let mut all = dues(&mut left);
    all.extend(dues(&mut right));
    all.sort();
    let even: Vec<_> = (0..100).map(|n| at(n * 10)).collect();
    assert_eq!(all, even);
}

#[test]
fn a_request_is_not_taken_before_it_is_due_and_never_lost() {
    let mut plan = plan(vec![lane(1, None)]);
    plan.pace = Pace::Rate(10.0);
    let mut cadence = Cadence::new(&plan, share(0, 1, 0), at(0));
    assert_eq!(cadence.take(at(0)), Some(at(0)));
    assert_eq!(cadence.take(at(99)), None);
    assert_eq!(cadence.next_start(at(99)), Some(at(100)));
    let late: Vec<_> = core::iter::from_fn(|| cadence.take(at(450))).collect();
    assert_eq!(late, [at(100), at(200), at(300), at(400)]);
    assert_eq!(cadence.remaining(), 5);
    assert_eq!(dues(&mut cadence).last(), Some(&at(900)));
    assert_eq!((cadence.next_due(), cadence.remaining()), (None, 0));
}

#[test]
fn slices_take_turns_and_get_the_same_rate() {
    let mut plan = plan(vec![lane(1, None), lane(1, None)]);
    plan.arrangement = Arrangement::Interleaved { slice: ms(250) };
    plan.pace = Pace::Rate(100.0);
    for number in 0..2 {
        let mut cadence = Cadence::new(&plan, share(number, 1, 0), at(0));
        let dues = dues(&mut cadence);
        assert_eq!(dues.len(), 50);
        for due in dues {
            let slice = due.since(at(0)).as_millis() / 250;
            assert_eq!(slice % 2, number as u128, "{due}");
        }
    }
}

#[test]
fn in_closed_loop_a_slice_opens_and_closes() {
    let mut plan = plan(vec![lane(1, None), lane(1, None)]);
    plan.arrangement = Arrangement::Interleaved { slice: ms(100) };
    let mut first = Cadence::new(&plan, share(0, 1, 0), at(0));
    let mut second = Cadence::new(&plan, share(1, 1, 0), at(0));
    for (time, turn) in [(0, 0), (99, 0), (100, 1), (199, 1), (200, 0), (999, 1)] {
        let now = at(time);
        let taken = (first.take(now), second.take(now));
        let want = if turn == 0 {
            (Some(now), None)
        } else {
            (None, Some(now))
        };
        assert_eq!(taken, want, "{time}");
    }
    assert_eq!((first.take(at(1000)), second.take(at(1100))), (None, None));
    assert_eq!(first.next_start(at(150)), Some(at(200)));
    assert_eq!(second.next_start(at(20)), Some(at(100)));
    assert_eq!(second.next_start(at(130)), Some(at(300)));
    assert_eq!(first.next_start(at(850)), None);
}

#[test]
fn a_warm_up_lasts_whole_rounds() {
    let mut plan = plan(vec![lane(1, None), lane(1, None)]);
    plan.arrangement = Arrangement::Interleaved { slice: ms(250) };
    plan.warm_up = ms(300);
    assert_eq!(plan.warm_up_in_rounds(), ms(500));
    assert_eq!(plan.active_time(), ms(500));
}

#[test]
fn overdue_requests_are_given_up_in_lots_that_add_up() {
    let mut plan = plan(vec![lane(1, None)]);
    plan.pace = Pace::Rate(1003.0);
    let mut cadence = Cadence::new(&plan, share(0, 1, 0), at(0));
    let lots: Vec<_> = core::iter::from_fn(|| cadence.take_many(10)).collect();
    assert_eq!(lots.len(), 101);
    assert_eq!(lots.iter().map(|(count, _)| count).sum::<u64>(), 1003);
    assert!(lots.iter().all(|&(_, due)| due < at(1000)));
}

#[test]
fn an_early_end_drops_what_is_not_due() {
    let mut plan = plan(vec![lane(1, None)]);
    plan.pace = Pace::Rate(10.0);
    let mut cadence = Cadence::new(&plan, share(0, 1, 0), at(0));
    cadence.end_at(at(250));
    cadence.end_at(at(5000));
    assert_eq!(dues(&mut cadence), [at(0), at(100), at(200)]);
}

#[test]
fn a_closed_loop_does_not_exceed_its_highest_rate() {
    let mut plan = plan(vec![lane(4, None)]);
    plan.at_most = Some(100.0);
    // One of two workers with equal shares.
    let mut cadence = Cadence::new(&plan, share(0, 2, 0), at(0));
    assert_eq!(cadence.take(at(3)), Some(at(3)));
    assert_eq!(cadence.next_start(at(5)), Some(at(23)));
    let taken = (4..1000).filter(|&now| cadence.take(at(now)).is_some());
    assert_eq!(taken.count(), 49);
    plan.at_most = None;
    let mut cadence = Cadence::new(&plan, share(0, 2, 0), at(0));
    let taken = (0..10).filter(|_| cadence.take(at(3)).is_some());
    assert_eq!(taken.count(), 10);
}
