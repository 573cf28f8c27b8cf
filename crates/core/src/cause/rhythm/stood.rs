//! Stalls as the server's own kernel saw them: what the threads did during the stalls.
//!
//! Packets show only that no request was answered. If the whole server stalled, its kernel shows
//! that requests stay unread and no other request is in progress on the connections that it examined.
//! The reading thread is not waiting for a processor. There are three other explanations. A request in progress may delay all others.
//! A thread may wait for a processor. And a thread that reads in the meantime has not stopped.

use core::time::Duration;
use std::collections::BTreeSet;

use super::Stall;
use crate::facts::{Act, ServiceTurns};
use crate::observed::time::Timestamp;

/// Minimum number of requests that a stopped thread had read and not answered. If it had worked on
/// one request, the others would be unread.
const ALL_READ: usize = 3;
/// Minimum part of a stall for which a stopped thread slept. A thread that sleeps less works on its
/// request, and the other requests wait for it.
const ASLEEP: f64 = 0.9;
/// Tolerance at both ends of a stall. Work may go on for this long after the start, and may start
/// again this long before the end.
const EDGE: Duration = Duration::from_millis(5);

/// The stalls as the kernel shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cause) struct Stood {
    /// Number of stalls in which nothing was read or written, and requests stayed unread although
    /// their threads could run.
    pub(in crate::cause) still: usize,
    /// Number of stalls in which threads read, worked on other requests, or had no processor.
    pub(in crate::cause) busy: usize,
    /// Number of the stalls of `busy` in which one thread worked on what it had read, and requests
    /// that the same thread would read stayed unread.
    pub(in crate::cause) blocked: usize,
    /// Number of requests that stayed unread in the stalls of `still` and `blocked`.
    pub(in crate::cause) unread: u64,
}

impl Stood {
    /// Returns true if the kernel shows that the server worked in most of the apparent stalls.
    pub(super) fn is_contradicted(self) -> bool {
        self.busy > self.still
    }

    /// Returns true if the kernel shows that one request kept the others waiting in most of the
    /// apparent stalls.
    pub(super) fn is_blocked(self) -> bool {
        self.blocked * 2 > self.busy + self.still
    }

    /// Returns true if the kernel shows that the server really stalled.
    pub(in crate::cause) fn is_shown(self) -> bool {
        self.still > 0 && self.still >= self.busy * 2
    }
}

/// Returns what `turns` show about `stalls`. `ordinary` is the usual think time.
pub(super) fn stood(stalls: &[Stall], ordinary: Duration, turns: &ServiceTurns) -> Stood {
    let mut all = Stood::default();
    let edge = EDGE + ordinary;
    for stall in stalls.iter().filter(|stall| stall.duration() > edge * 2) {
        let (from, to) = (stall.begin + edge, stall.release - edge);
        match lying(from, to, &turns.acts) {
            Some(Lying::Left(count)) => {
                all.still += 1;
                all.unread += count;
            }
            Some(Lying::Busy) => all.busy += 1,
            Some(Lying::Blocked(count)) => {
                all.busy += 1;
                all.blocked += 1;
                all.unread += count;
            }
            None => {}
        }
    }
    all
}

/// The state of the requests between two times.
enum Lying {
    /// Number of requests that stayed unread, although their threads could run.
    Left(u64),
    /// Number of requests that stayed unread while one thread worked on what it had read.
    Blocked(u64),
    Busy,
}

/// Returns the state of the requests between two times; `None` if they show nothing.
fn lying(from: Timestamp, to: Timestamp, acts: &[Act]) -> Option<Lying> {
    let is_within = |at: Timestamp| at > from && at < to;
    let has_acted = |act: &Act| {
        [act.read, act.written, act.written_last]
            .into_iter()
            .any(is_within)
    };
    if acts.iter().any(has_acted) {
        return Some(Lying::Busy);
    }
    let has_another = |act: &&Act| act.read <= from && act.written >= to;
    let read = || acts.iter().filter(has_another);
    let busy: BTreeSet<u32> = read().map(|act| act.tid).collect();
    let lying = || {
        acts.iter()
            .filter(|act| act.delivered < to && act.read >= to)
    };
    let waits = |act: &&Act| {
        let lay = act.read.since(act.delivered);
        act.queued_unread.is_none_or(|queued| queued * 2 > lay)
    };
    let (lay, queued) = (lying().count(), lying().filter(waits).count());
    // Other threads that read nothing are no sign of this request.
    let is_one_thread = || lying().all(|act| busy.contains(&act.tid));
    match busy.len() {
        0 if lay == 0 => None,
        0 if queued * 2 <= lay => Some(Lying::Left(lay as u64)),
        // A thread that handles many requests had read all of them, and answered none.
        1 if lay == 0 && read().count() >= ALL_READ => None,
        // The only thread with a request slept, and the threads without one read nothing either.
        1 if read().all(|act| has_slept(act, from, to))
            && lying().any(|act| !busy.contains(&act.tid) && !waits(&act)) =>
        {
            None
        }
        1 if lay > 0 && queued * 2 <= lay && is_one_thread() => Some(Lying::Blocked(lay as u64)),
        0 | 1 => Some(Lying::Busy),
        // Several threads stopped during their requests, or waited for each other.
        _ => None,
    }
}

/// Returns true if the thread slept for nearly all of the time, although it had this request.
fn has_slept(act: &Act, from: Timestamp, to: Timestamp) -> bool {
    let length = to.since(from).as_secs_f64();
    act.slept
        .is_some_and(|slept| slept.as_secs_f64() >= length * ASLEEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: i64 = 200;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    /// Returns a request that thread `tid` received, read and answered at these times in
    /// milliseconds.
    fn act(tid: u32, [delivered, read, written]: [i64; 3], queued: Option<u64>) -> Act {
        Act {
            delivered: at(delivered),
            read: at(read),
            written: at(written),
            written_last: at(written),
            tid,
            queued_unread: queued.map(Duration::from_millis),
            slept: None,
        }
    }

    /// Returns what the requests show about a stall from 0 to 200 ms.
    fn seen(acts: &[Act]) -> Stood {
        let turns = ServiceTurns {
            acts: acts.to_vec(),
            ..ServiceTurns::default()
        };
        let stall = Stall {
            begin: at(0),
            release: at(STALL),
            last: at(STALL),
            asked_over: Duration::ZERO,
            released_over: Duration::ZERO,
            connections: 3,
            requests: 3,
            long: 3,
            acknowledged: 3,
        };
        stood(&[stall], Duration::from_millis(1), &turns)
    }

    #[test]
    fn requests_that_idle_threads_leave_lying_are_a_stand_still() {
        let lie = |queued| {
            [
                act(1, [1, STALL, STALL + 1], queued),
                act(2, [60, STALL, STALL + 1], queued),
                act(1, [90, STALL + 1, STALL + 2], queued),
            ]
        };
        assert!(seen(&lie(Some(0))).is_shown());
        assert_eq!(seen(&lie(Some(0))).unread, 3);
        assert!(seen(&lie(Some(180))).is_contradicted(), "no processor");
        assert!(!seen(&lie(None)).is_shown(), "not looked at");
    }

    #[test]
    fn a_worker_in_the_midst_of_a_request_is_no_stand_still() {
        let acts = [
            act(1, [0, 0, STALL], Some(0)),
            act(1, [50, STALL, STALL + 1], Some(0)),
            act(1, [90, STALL, STALL + 1], Some(0)),
        ];
        assert!(seen(&acts).is_contradicted());
        assert!(seen(&acts).is_blocked());
        let queued = acts.map(|act| Act {
            queued_unread: Some(Duration::from_millis(180)),
            ..act
        });
        assert!(!seen(&queued).is_blocked(), "no processor");
        let read = act(2, [90, 91, STALL + 1], Some(0));
        assert!(!seen(&[acts[0], acts[1], read]).is_blocked(), "reads");
        // Another thread waits for a lock that the first thread holds.
        let acts = [acts[0], act(2, [50, STALL, STALL + 1], Some(0))];
        assert!(seen(&acts).is_contradicted());
        assert!(!seen(&acts).is_blocked(), "another thread");
        let all = [acts[0], act(2, [0, 0, STALL], Some(0))];
        assert_eq!(seen(&all), Stood::default(), "cannot be told");
    }

    #[test]
    fn one_thread_that_has_read_all_of_them_may_stand_still() {
        let read = act(1, [0, 0, STALL], Some(0));
        assert_eq!(seen(&[read; 3]), Stood::default(), "cannot be told");
        let left = act(1, [50, STALL, STALL + 1], Some(0));
        assert!(seen(&[read, read, read, left]).is_contradicted());
        assert!(seen(&[read; 2]).is_contradicted(), "too few");
    }

    #[test]
    fn a_thread_that_slept_beside_others_that_did_not_read_may_be_stopped_itself() {
        let slept = |ms| Act {
            slept: Some(Duration::from_millis(ms)),
            ..act(1, [0, 0, STALL], Some(0))
        };
        let idle = act(2, [50, STALL, STALL + 1], Some(0));
        assert_eq!(
            seen(&[slept(199), idle]),
            Stood::default(),
            "cannot be told"
        );
        assert!(seen(&[slept(20), idle]).is_contradicted(), "it was at work");
        let own = act(1, [50, STALL, STALL + 1], Some(0));
        assert!(seen(&[slept(199), own]).is_contradicted(), "one thread");
    }

    #[test]
    fn who_reads_meanwhile_has_not_stopped() {
        let lie = act(1, [1, STALL, STALL + 1], Some(0));
        let read = act(2, [90, 91, STALL + 1], Some(0));
        assert!(seen(&[lie, read]).is_contradicted());
        assert_eq!(
            seen(&[act(1, [400, 401, 402], Some(0))]),
            Stood::default(),
            "idle"
        );
    }
}
